//! `sleep` keeps nobody from working and ends when it is told to.
//!
//! The service of these tests has one worker, so a sleeper that holds it would keep the other task waiting
//! for good.

use super::{Daemon, PATIENCE, outcome};
use millpond_tasks::config::BuiltinSettings;
use serde_json::json;
use std::thread;
use std::time::Instant;

#[test]
fn sleepers_hold_no_worker() {
    let daemon = Daemon::new(&BuiltinSettings::default());
    for _ in 0..200 {
        daemon.submit(&json!({ "handler": "sleep", "args": { "ms": 86_400_000 } }));
    }
    assert_eq!(daemon.run("echo", json!({ "n": 1 })), json!({ "n": 1 }));
    assert_eq!(daemon.service.handle().pool_metrics().workers.len(), 1, "and nobody had to stand in");
}

#[test]
fn a_sleeper_answers_when_its_time_has_come() {
    let daemon = Daemon::new(&BuiltinSettings::default());
    let before = Instant::now();
    assert_eq!(daemon.run("sleep", json!({ "ms": 20 })), json!({ "ms": 20 }));
    assert!(before.elapsed().as_millis() >= 20, "not earlier");
    assert_eq!(daemon.run("sleep", json!({ "ms": 0 })), json!({ "ms": 0 }));
}

#[test]
fn a_cancelled_sleeper_ends_at_once_and_leaves_the_timer() {
    let daemon = Daemon::new(&BuiltinSettings::default());
    let sleep = json!({ "handler": "sleep", "args": { "ms": 86_400_000 } });
    let tasks: Vec<_> = (0..100).map(|_| daemon.submit(&sleep)).collect();
    daemon.run("echo", json!({}));
    assert!(daemon.timer.len() >= 100, "the only worker has begun them all, so they lie with the timer");
    for task in &tasks {
        daemon.service.handle().cancel(task.id()).unwrap();
        assert_eq!(outcome(task)["error"], "cancelled");
    }
    let patience = Instant::now() + PATIENCE;
    // The service itself keeps an act there that comes again and again.
    while daemon.timer.len() > 1 {
        assert!(Instant::now() < patience, "sleepers are still there");
        thread::yield_now();
    }
}

#[test]
fn a_sleeper_that_may_not_take_so_long_is_woken() {
    let daemon = Daemon::new(&BuiltinSettings::default());
    let task = daemon.submit(&json!({ "handler": "sleep", "args": { "ms": 86_400_000 }, "timeout_ms": 1 }));
    assert_eq!(outcome(&task)["status"], -6);
}
