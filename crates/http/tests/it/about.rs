//! What the daemon says of itself, and how it says that it goes.
//!
//! Whoever watches over daemons relies on the first, whoever waits for a task on the second.

use crate::start::{Daemon, ECHO, HOLD, JSON, names, raw};
use serde_json::json;

#[test]
fn probes_say_whether_it_lives_and_takes_tasks() {
    let daemon = Daemon::start();
    assert_eq!(daemon.get("/healthz").json(), json!({ "status": "ok" }));
    assert_eq!(daemon.get("/readyz").json(), json!({ "status": "ready" }));
    let version = daemon.get("/version").json();
    assert_eq!(
        (&version["name"], &version["version"]),
        (&json!("millpond"), &json!(env!("CARGO_PKG_VERSION")))
    );
    daemon.door.drain();
    assert_eq!(daemon.get("/healthz").status, 200, "it lives while it drains");
    assert_eq!(daemon.get("/readyz").refusal(), (503, "draining".to_owned()));
}

#[test]
fn handlers_and_workers_are_listed() {
    let daemon = Daemon::start();
    assert_eq!(daemon.post("/v1/exec", ECHO).status, 200);
    let handlers = daemon.get("/v1/handlers").json()["handlers"].as_array().unwrap().clone();
    let named: Vec<_> = handlers.iter().map(|handler| handler["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["echo", "fail", "hold"]);
    assert_eq!((&handlers[0]["accepted"], &handlers[0]["succeeded"]), (&json!(1), &json!(1)));
    assert!(handlers[0]["ran"]["p50_us"].as_f64().is_some());
    daemon.submit(HOLD);
    let call = daemon.call();
    let workers = daemon.get("/v1/workers").json();
    let [worker] = workers["workers"].as_array().unwrap().as_slice() else { panic!("one worker: {workers}") };
    assert_eq!(worker["worker"], 0);
    assert!(worker["completed"].as_u64().is_some() && worker["is_busy"].is_boolean(), "{worker}");
    call.finish(Ok(raw(&json!(1))));
}

#[test]
fn the_description_names_every_address() {
    let daemon = Daemon::start();
    let document = daemon.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    for path in
        ["/v1/tasks", "/v1/exec", "/v1/tasks/{id}/events", "/v1/bulk", "/stats", "/metrics", "/healthz"]
    {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    assert_eq!(document["paths"]["/v1/tasks"]["post"]["operationId"], "submit");
}

#[test]
fn streams_are_told_that_the_daemon_goes_and_waits_are_answered() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let _call = daemon.call();
    let mut task_events = daemon.follow(&format!("{location}/events"), &[]);
    task_events.next_event().unwrap();
    let mut pool_events = daemon.follow("/v1/events", &[]);
    pool_events.next_event().unwrap();
    let mut waiting = daemon.connect();
    waiting.ask(&format!("GET {location}?wait=60s"), &[], None);
    let mut submitting = daemon.connect();
    submitting.ask("POST /v1/tasks?wait=60s", &[JSON], Some(HOLD));
    crate::start::until("the second task is there", || daemon.service.handle().live() == 2);
    let closing = std::thread::spawn(move || daemon.end());
    assert_eq!(names(&task_events.rest()), ["drain"]);
    assert_eq!(names(&pool_events.rest()).last(), Some(&"drain"));
    let answer = waiting.answer();
    assert_eq!((answer.status, &answer.json()["stage"]), (200, &json!("running")), "as it stands");
    assert_eq!(submitting.answer().status, 202);
    drop(_call);
    closing.join().unwrap();
}
