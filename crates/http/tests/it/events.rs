//! What goes on, as the dashboard hears it: figures, tasks that move, and what a slow reader is told.
//!
//! The page draws what is named here, so a field that goes missing is found before the page is opened.

use crate::http::{Event, Events};
use crate::start::{Daemon, ECHO, HOLD};
use millpond_tasks::Submit;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

fn next(events: &mut Events, name: &str) -> Event {
    let mut all = std::iter::from_fn(|| events.next_event());
    all.find(|event| event.name == name).unwrap_or_else(|| panic!("the stream ended without {name}"))
}

#[test]
fn figures_have_all_that_the_dashboard_draws() {
    let daemon = Daemon::start();
    let mut events = daemon.follow("/v1/events?interval=100ms", &[]);
    let hello = events.next_event().unwrap();
    assert_eq!((hello.name.as_str(), &hello.data["version"]), ("hello", &json!(env!("CARGO_PKG_VERSION"))));
    assert_eq!(hello.data["interval_ms"], 100);
    let tick = next(&mut events, "tick").data;
    assert_eq!(
        (&tick["accepted"], &tick["live"], &tick["is_draining"]),
        (&json!(0), &json!(0), &json!(false))
    );
    for number in
        ["at_ms", "uptime_ms", "succeeded", "failed", "refused", "retried", "rate", "workers_wanted"]
    {
        assert!(tick[number].is_u64(), "{number}: {tick}");
    }
    let names = |list: &Value, name: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry[name].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&tick["lanes"], "priority"), ["high", "normal", "low"]);
    assert_eq!(names(&tick["workers"], "state").len(), 1);
    assert_eq!(tick["stages"]["ended"], 0);
    for times in ["ran", "waited"] {
        let (bounds, counts) = (&tick[times]["bounds_us"], &tick[times]["counts"]);
        assert_eq!(bounds.as_array().unwrap().len() + 1, counts.as_array().unwrap().len());
    }
    let connections = &tick["connections"];
    assert_eq!(
        (&connections["open"], &connections["streams"], &connections["queue"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(tick["warnings"], json!([]));
    daemon.end();
}

#[test]
fn totals_go_on_and_tasks_are_told_as_they_move() {
    let daemon = Daemon::start();
    let mut events = daemon.follow("/v1/events?interval=100ms", &[]);
    next(&mut events, "tick");
    assert_eq!(daemon.post("/v1/exec", ECHO).status, 200);
    let ended =
        std::iter::from_fn(|| Some(next(&mut events, "task").data)).find(|task| task["stage"] == "ended");
    let ended = ended.unwrap();
    assert_eq!(
        (&ended["task_id"], &ended["handler"], &ended["status"]),
        (&json!("t1"), &json!("echo"), &json!(0))
    );
    crate::start::until("a tick tells of the task", || next(&mut events, "tick").data["succeeded"] == 1);
    daemon.end();
}

#[test]
fn what_is_nearly_full_is_worth_a_warning() {
    let daemon = Daemon::with(|_, service| service.tasks_max = 1);
    daemon.submit(HOLD);
    let mut events = daemon.follow("/v1/events", &[]);
    let tick = next(&mut events, "tick").data;
    let warnings = tick["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{tick}");
    assert!(warnings[0].as_str().unwrap().starts_with("tasks under way: 100 % full (1 of 1)"), "{tick}");
    daemon.end();
}

#[test]
fn a_reader_that_is_too_slow_is_told_and_cut_off() {
    let daemon = Daemon::with(|web, _| web.stream_bytes_max = 4 << 10);
    let mut events = daemon.follow("/v1/events?interval=10s", &[]);
    next(&mut events, "tick");
    // Sixteen events may wait for this reader; more than that happen at once until it has lost some.
    let is_told = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_told.load(Relaxed) {
                let _ = daemon.service.handle().submit(br#"{"handler":"fail"}"#, Submit::default());
            }
        });
        let last = events.rest().pop();
        is_told.store(true, Relaxed);
        last.expect("there is a last event")
    });
    assert_eq!(last.name, "lagged");
    assert!(last.data["missed"].as_u64().unwrap() > 0);
    assert_eq!(daemon.get("/healthz").status, 200);
}
