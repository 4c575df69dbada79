//! Whoever looks at `/stats` sees how full the door is, and is told when too many are refused.
//!
//! An alert that never comes, or never goes, is worse than none; so it is tried with a door that refuses on
//! purpose. The minute it speaks of is tried with made-up clocks, in `src/stats/minute.rs`.

use crate::http::SOON;
use crate::start::{Daemon, ECHO, HOLD, JSON, raw, until};
use serde_json::{Value, json};

fn stats(daemon: &Daemon) -> Value {
    let answer = daemon.get("/stats");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json()
}

#[test]
fn a_quiet_door_says_so() {
    let daemon = Daemon::start();
    let stats = stats(&daemon);
    let queue = &stats["connection_queue"];
    let settings = json!([queue["capacity"], stats["in_flight_max"], stats["connections"]["open_max"]]);
    assert_eq!(settings, json!([100, 64, 4096]));
    assert_eq!(
        json!([queue["depth"], queue["depth_max"], queue["refused"], queue["waited"]]),
        json!([0, 0, 0, 0])
    );
    assert_eq!(json!([queue["wait_mean_ms"], queue["wait_max_ms"]]), json!([0.0, 0.0]));
    assert_eq!(json!([queue["refused_share_last_minute"], queue["alert"]]), json!([0.0, false]));
    assert_eq!(
        json!([stats["connections"]["open"], stats["connections"]["busy"]]),
        json!([1, 1]),
        "this one"
    );
    assert_eq!((&stats["in_flight"], &stats["active_workers"]), (&json!(1), &json!(0)));
    daemon.end();
}

#[test]
fn requests_and_tasks_are_counted() {
    let daemon = Daemon::start();
    let mut connection = daemon.connect();
    for _ in 0..3 {
        connection.ask("POST /v1/exec", &[JSON], Some(ECHO));
        assert_eq!(connection.answer().status, 200);
    }
    daemon.submit(HOLD);
    let call = daemon.call();
    let stats = stats(&daemon);
    assert_eq!(stats["requests_answered"], 4);
    assert_eq!((&stats["tasks"]["accepted"], &stats["tasks"]["succeeded"]), (&json!(4), &json!(3)));
    assert_eq!(stats["tasks"]["live"], 1);
    assert_eq!(
        stats["connection_queue"]["accepted"], 3,
        "the one that was kept, the submission, and this one"
    );
    assert!(stats["http_workers"].as_u64().unwrap() >= 1);
    drop(call);
    daemon.end();
}

#[test]
fn a_refusal_is_counted_by_its_reason_and_raises_the_alert() {
    let daemon = Daemon::with(|web, _| {
        (web.in_flight_max, web.queue_capacity) = (1, 1);
        web.queue_timeout = SOON;
        web.alert_refused_share = 0.2;
    });
    let mut holder = daemon.connect();
    holder.ask("POST /v1/exec", &[JSON], Some(HOLD));
    let call = daemon.call();
    let mut waiter = daemon.connect();
    waiter.ask("POST /v1/exec", &[JSON], Some(ECHO));
    let depth = || daemon.get("/metrics").text().contains("millpond_connection_queue_depth 1\n");
    until("somebody waits", depth);
    assert_eq!(daemon.post("/v1/exec", ECHO).status, 503);
    call.finish(Ok(raw(&json!(1))));
    assert_eq!((holder.answer().status, waiter.answer().status), (200, 200));
    let full = stats(&daemon);
    let queue = &full["connection_queue"];
    assert_eq!(json!([queue["refused"], queue["refused_by_reason"]["queue-full"]]), json!([1, 1]));
    assert_eq!(queue["refused_by_reason"]["queue-timeout"], 0);
    assert_eq!(json!([queue["depth"], queue["depth_max"], queue["waited"]]), json!([0, 1, 1]));
    let (mean, most) = (queue["wait_mean_ms"].as_f64().unwrap(), queue["wait_max_ms"].as_f64().unwrap());
    assert!(mean > 0.0 && mean == most, "one waited, so it is the mean and the longest: {mean}, {most}");
    assert_eq!(queue["refused_last_minute"], 1);
    let answered = full["requests_answered"].as_u64().unwrap();
    let share = 1.0 / (answered + 1) as f64;
    assert_eq!(queue["refused_share_last_minute"], share);
    assert_eq!(queue["alert"], share > 0.2);
    daemon.end();
}

#[test]
fn the_alert_is_on_above_the_share_and_off_at_it() {
    for (limit, is_expected) in [(0.4, true), (0.5, false), (0.6, false)] {
        let daemon = Daemon::with(|web, _| {
            web.connections_max = 1;
            web.alert_refused_share = limit;
        });
        let mut only = daemon.connect();
        only.ask("POST /v1/exec", &[JSON], Some(HOLD));
        let call = daemon.call();
        assert_eq!(daemon.post("/v1/exec", ECHO).status, 503, "one connection is all there may be");
        call.finish(Ok(raw(&json!(1))));
        assert_eq!(only.answer().status, 200);
        only.ask("GET /stats", &[], None);
        let queue = &only.answer().json()["connection_queue"];
        let refused = &queue["refused_by_reason"]["connections-max"];
        assert_eq!(json!([refused, queue["refused_share_last_minute"]]), json!([1, 0.5]), "one of two");
        assert_eq!(queue["alert"], is_expected, "a share of 0.5, and a limit of {limit}");
        drop(only);
        daemon.end();
    }
}
