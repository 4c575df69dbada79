//! Handing in tasks, waiting for them and looking at them: what a client relies on.
//!
//! Above all a client must know whether a task was taken in, and whether it can ask again.

use crate::start::{Daemon, ECHO, HOLD, JSON, raw};
use serde_json::{Value, json};

#[test]
fn a_task_is_accepted_and_found_where_its_location_says() {
    let daemon = Daemon::start();
    let accepted = daemon.post("/v1/tasks", HOLD);
    assert_eq!(accepted.status, 202);
    let location = accepted.header("location").unwrap();
    assert_eq!(location, "/v1/tasks/t1");
    let call = daemon.call();
    let task = daemon.get(location).json();
    assert_eq!(task["task_id"], "t1");
    assert_eq!(
        (&task["stage"], &task["handler"], &task["door"]),
        (&json!("running"), &json!("hold"), &json!("http"))
    );
    assert_eq!((&task["args"], &task["priority"]), (&json!({}), &json!("normal")));
    assert!(task["accepted_at"].as_str().unwrap().ends_with('Z'), "{task}");
    call.finish(Ok(raw(&json!(7))));
    let task = daemon.get(&format!("{location}?wait=60s")).json();
    assert_eq!((&task["stage"], &task["status"], &task["result"]), (&json!("ended"), &json!(0), &json!(7)));
    assert_eq!(task["tries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_wait_ends_with_the_task_or_with_its_time() {
    let daemon = Daemon::start();
    let ended = daemon.post("/v1/tasks?wait=60s", ECHO);
    assert_eq!((ended.status, &ended.json()["result"]), (200, &json!({"x": [1]})));
    let ended = daemon.ask("POST /v1/tasks", &[JSON, "Prefer: respond-async, wait=60"], Some(ECHO));
    assert_eq!(ended.status, 200);
    let held = daemon.post("/v1/tasks?wait=1ms", HOLD);
    assert_eq!((held.status, held.header("location").is_some()), (202, true));
    let still = daemon.get("/v1/tasks/t3?wait=1ms");
    assert_eq!((still.status, &still.json()["stage"]), (200, &json!("running")));
    // A failure is an end like any other: the task says what went wrong.
    let failed = daemon.post("/v1/tasks?wait=60s", r#"{"handler":"fail"}"#);
    assert_eq!((failed.status, &failed.json()["error"]), (200, &json!("handler-error")));
    daemon.end();
}

#[test]
fn a_wait_hears_of_an_end_that_comes_later() {
    let daemon = Daemon::start();
    let mut submitter = daemon.connect();
    submitter.ask("POST /v1/tasks?wait=60s", &[JSON], Some(r#"{"handler":"hold","task_id":"mine"}"#));
    let call = daemon.call();
    let mut reader = daemon.connect();
    reader.ask("GET /v1/tasks/mine?wait=60s", &[], None);
    // Both are answered after this, since the answer is in them.
    call.finish(Ok(raw(&json!("late"))));
    for connection in [&mut submitter, &mut reader] {
        let answer = connection.answer();
        assert_eq!((answer.status, &answer.json()["result"]), (200, &json!("late")));
    }
}

#[test]
fn exec_answers_with_the_result_and_keeps_nothing() {
    let daemon = Daemon::start();
    let answer = daemon.post("/v1/exec", ECHO);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let outcome = answer.json();
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!(0), &json!({"x": [1]})));
    assert_eq!(daemon.get("/v1/tasks/t1").refusal(), (410, "result-gone".to_owned()));
}

#[test]
fn a_task_that_fails_in_exec_is_a_problem_with_the_status_of_its_error() {
    let daemon = Daemon::start();
    for (error, status) in
        [("handler-error", 500), ("timed-out", 504), ("not-allowed", 403), ("bad-arguments", 422)]
    {
        let body =
            json!({ "handler": "fail", "task_id": error, "args": { "error": error, "message": "as asked" } });
        let answer = daemon.post("/v1/exec", &body.to_string());
        assert_eq!(answer.refusal(), (status, error.to_owned()));
        let problem = answer.problem();
        assert_eq!((&problem["task_id"], &problem["detail"]), (&json!(error), &json!("as asked")));
        assert_eq!(problem["instance"], "/v1/exec");
    }
}

#[test]
fn exec_gives_up_after_the_time_of_a_request_and_the_task_goes_on() {
    let daemon = Daemon::with(|web, _| web.request_timeout = std::time::Duration::from_millis(20));
    let answer = daemon.post("/v1/exec", HOLD);
    assert_eq!(answer.refusal(), (504, "request-timeout".to_owned()));
    let location = answer.header("location").unwrap().to_owned();
    daemon.call().finish(Ok(raw(&json!("after all"))));
    let task = daemon.get(&format!("{location}?wait=60s")).json();
    assert_eq!(task["result"], "after all", "nobody heard it, so it is kept: {task}");
}

#[test]
fn a_key_in_a_header_runs_a_request_once() {
    let daemon = Daemon::start();
    let ask =
        |path: &str, key: &str, body: &str| daemon.ask(&format!("POST {path}"), &[JSON, key], Some(body));
    let first = ask("/v1/tasks?wait=60s", "Idempotency-Key: \"k-1\"", ECHO);
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None));
    let again = ask("/v1/tasks?wait=60s", "Idempotency-Key: k-1", ECHO);
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.json()["task_id"], first.json()["task_id"]);
    let by_exec = ask("/v1/exec", "Idempotency-Key: k-1", ECHO);
    assert_eq!((by_exec.status, by_exec.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(ask("/v1/tasks", "Idempotency-Key: k-1", HOLD).refusal(), (422, "key-reused".to_owned()));
    let both = r#"{"handler":"echo","idempotency_key":"k-2"}"#;
    assert_eq!(ask("/v1/tasks", "Idempotency-Key: k-2", both).status, 202);
    assert_eq!(ask("/v1/tasks", "Idempotency-Key: k-3", both).refusal(), (400, "bad-header".to_owned()));
    let long = format!("Idempotency-Key: {}", "x".repeat(257));
    assert_eq!(ask("/v1/tasks", &long, ECHO).refusal(), (400, "bad-header".to_owned()));
}

#[test]
fn exec_with_a_key_can_be_asked_again() {
    let daemon = Daemon::start();
    let ask = || daemon.ask("POST /v1/exec", &[JSON, "Idempotency-Key: k"], Some(ECHO)).json();
    let (first, again) = (ask(), ask());
    assert_eq!(first, again);
}

#[test]
fn a_trace_in_a_header_reaches_the_handler() {
    let daemon = Daemon::start();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let header = format!("traceparent: {trace}");
    daemon.ask("POST /v1/tasks", &[JSON, &header], Some(HOLD));
    assert_eq!(daemon.call().traceparent(), Some(trace));
    daemon.ask("POST /v1/tasks", &[JSON, "traceparent: nonsense"], Some(HOLD));
    assert_eq!(daemon.call().traceparent(), None, "a broken one is passed over, as the standard has it");
    let own = format!(r#"{{"handler":"hold","traceparent":"{}"}}"#, trace.replace("4bf9", "5bf9"));
    let answer = daemon.ask("POST /v1/tasks", &[JSON, &header], Some(&own));
    assert_eq!(answer.refusal(), (400, "bad-header".to_owned()));
}

#[test]
fn a_task_is_cancelled_once() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let call = daemon.call();
    let cancel = || daemon.ask(&format!("POST {location}/cancel"), &[], None);
    let cancelled = cancel();
    assert_eq!((cancelled.status, &cancelled.json()["error"]), (200, &json!("cancelled")));
    assert!(call.is_cancelled());
    assert_eq!(cancel().refusal(), (409, "already-ended".to_owned()));
}

#[test]
fn an_outcome_is_taken_once_and_only_if_there_is_one() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let take = || daemon.ask(&format!("DELETE {location}"), &[], None);
    assert_eq!(take().refusal(), (409, "not-ended".to_owned()));
    daemon.call().finish(Ok(raw(&json!(1))));
    assert_eq!(daemon.get(&format!("{location}?wait=60s")).status, 200);
    let taken = take();
    assert_eq!((taken.status, &taken.json()["result"]), (200, &json!(1)));
    assert_eq!(take().refusal(), (410, "result-gone".to_owned()));
}

#[test]
fn the_same_can_be_asked_for_again() {
    let daemon = Daemon::start();
    let location = daemon.submit(HOLD);
    let retry = || daemon.ask(&format!("POST {location}/retry"), &[], None);
    let call = daemon.call();
    assert_eq!(retry().refusal(), (409, "not-ended".to_owned()));
    call.finish(Ok(raw(&json!(1))));
    assert_eq!(daemon.get(&format!("{location}?wait=60s")).status, 200);
    let again = retry();
    assert_eq!((again.status, again.header("location")), (202, Some("/v1/tasks/t2")));
    daemon.call().finish(Ok(raw(&json!(2))));
    assert_eq!(daemon.get("/v1/tasks/t2?wait=60s").json()["result"], 2);
}

#[test]
fn a_task_says_why_it_stands_where_it_stands() {
    let daemon = Daemon::start();
    let location = daemon.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    let why = daemon.get(&format!("{location}/why")).json();
    assert_eq!((&why["task_id"], &why["stage"]), (&json!("t1"), &json!("delayed")));
    assert!(why["why"].as_str().is_some_and(|why| !why.is_empty()), "{why}");
}

#[test]
fn every_kind_of_id_finds_its_task() {
    let daemon = Daemon::start();
    for id in [json!(17), json!("17"), json!("a/b c?d#e"), json!("..")] {
        let location = daemon.submit(&json!({ "handler": "echo", "task_id": id }).to_string());
        assert_eq!(daemon.get(&location).json()["task_id"], id, "{location}");
    }
    assert_eq!(daemon.get("/v1/tasks/no-such").refusal(), (404, "not-found".to_owned()));
    assert_eq!(daemon.get("/v1/tasks/%00").refusal(), (400, "bad-id".to_owned()));
    assert_eq!(daemon.get("/v1/tasks/%ff").refusal(), (400, "bad-id".to_owned()));
    assert_eq!(daemon.get(&format!("/v1/tasks/{}", "x".repeat(129))).refusal(), (400, "bad-id".to_owned()));
}

#[test]
fn a_full_queue_says_when_to_come_again() {
    let daemon = Daemon::with(|_, service| service.tasks_max = 1);
    daemon.submit(HOLD);
    for path in ["/v1/tasks", "/v1/exec"] {
        let answer = daemon.post(path, ECHO);
        assert_eq!(answer.refusal(), (503, "queue-full".to_owned()));
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        assert!(answer.problem()["retry_after_ms"].as_u64().is_some());
        assert_eq!(answer.header("connection"), None, "only the queue is full, the connection is of use");
    }
}

#[test]
fn requests_that_wait_are_counted() {
    let daemon = Daemon::with(|web, _| web.waiting_max = 1);
    let location = daemon.submit(HOLD);
    let call = daemon.call();
    let mut first = daemon.connect();
    first.ask(&format!("GET {location}?wait=60s"), &[], None);
    // The second is refused once the first waits; until then it is the one that waits, for a moment.
    crate::start::until("the first waits", || daemon.get(&format!("{location}?wait=1ms")).status == 503);
    let refused = daemon.get(&format!("{location}?wait=1ms"));
    assert_eq!(refused.refusal(), (503, "too-many-waiting".to_owned()));
    assert_eq!(daemon.post("/v1/tasks?wait=1s", ECHO).refusal(), (503, "too-many-waiting".to_owned()));
    assert_eq!(daemon.get(&location).status, 200, "who does not wait is answered");
    call.finish(Ok(raw(&json!(1))));
    assert_eq!(first.answer().status, 200);
}

#[test]
fn a_wait_gives_its_place_to_others() {
    let daemon = Daemon::with(|web, _| {
        web.in_flight_max = 1;
        web.queue_capacity = 1;
    });
    let mut waiting = daemon.connect();
    waiting.ask("POST /v1/tasks?wait=60s", &[JSON], Some(HOLD));
    let call = daemon.call();
    let answer = daemon.post("/v1/exec", r#"{"handler":"fail","args":{"error":"not-allowed"}}"#);
    assert_eq!(answer.status, 403, "{}", answer.text());
    call.finish(Ok(raw(&Value::Null)));
    assert_eq!(waiting.answer().json()["result"], Value::Null);
}
