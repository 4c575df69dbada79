//! A task that takes too long or is no longer wanted ends at once; its process is asked to end, then made to.
//!
//! What the process started goes with it.

use super::*;
use millpond_tasks::{ErrorCode, Stage};

/// A task that hangs, once it does, and the process that has it.
fn hanging(rig: &Rig, args: &Value) -> (Arc<Task>, u32) {
    let mut listener = rig.stream(args);
    let pid = pid_in(&listener.first_partial());
    (listener.task, pid)
}

#[test]
fn a_cancelled_task_ends_at_once_and_its_process_is_asked_to_end() {
    let folder = Folder::new();
    let note = folder.file("note");
    let rig = rig(moody());
    let (task, pid) = hanging(&rig, &json!({"do": "hang", "note": note}));
    rig.handle.cancel(task.id()).unwrap();
    assert_eq!(failure(&task).code, ErrorCode::Cancelled);
    let next = result(&rig.submit(&json!({})));
    assert_ne!(pid_in(&next), pid);
    assert!(!is_ours(pid), "it was waited for before another was started");
    assert_eq!(fs::read_to_string(note).unwrap(), "asked to end");
    assert_eq!((rig.count("stops"), rig.count("crashes")), (1, 0));
    rig.stop();
}

#[test]
fn a_process_that_does_not_mind_is_killed() {
    let rig = rig(HandlerSettings { stop_grace: Duration::from_millis(50), ..moody() });
    let (task, pid) = hanging(&rig, &json!({"do": "hang", "ignore_term": true}));
    rig.handle.cancel(task.id()).unwrap();
    assert_eq!(failure(&task).code, ErrorCode::Cancelled);
    assert_ne!(pid_in(&result(&rig.submit(&json!({})))), pid);
    assert!(!is_ours(pid));
    assert!(
        rig.lines().iter().any(|line| line.ends_with("did not end in time and is killed")),
        "{:#?}",
        rig.lines()
    );
    rig.stop();
}

#[test]
fn what_the_process_started_goes_with_it() {
    let rig = rig(moody());
    let (task, grandchild) = hanging(&rig, &json!({"do": "breed"}));
    assert!(runs(grandchild));
    rig.handle.cancel(task.id()).unwrap();
    until("the grandchild is gone", || !runs(grandchild));
    rig.stop();
}

#[test]
fn a_task_that_takes_too_long_times_out() {
    let rig = rig(HandlerSettings { timeout: Some(Duration::from_millis(100)), ..moody() });
    let failed = failure(&rig.submit(&json!({"do": "hang"})));
    assert_eq!(failed.code, ErrorCode::TimedOut);
    assert!(failed.message.ends_with(" took longer than 100 ms and was stopped"), "{failed}");
    until("the process is gone", || rig.count("processes") == 0);
    assert_eq!((rig.count("stops"), rig.count("crashes")), (1, 0));
    rig.stop();
}

#[test]
fn a_request_may_say_how_long_it_may_take() {
    let rig = rig(HandlerSettings { timeout: Some(Duration::from_millis(1)), ..moody() });
    let hang = json!({"do": "hang"});
    let task = rig.request(&json!({"handler": "moody", "args": hang, "timeout_ms": 500}));
    let failed = failure(&task);
    assert_eq!(failed.code, ErrorCode::TimedOut);
    assert!(!failed.message.contains(" 1 ms"), "{failed}");
    let long = rig.request(&json!({"handler": "moody", "args": {"n": 7}, "timeout_ms": 600_000}));
    assert_eq!(result(&long)["n"], 7, "the request counts, not the handler");
    rig.stop();
}

#[test]
fn the_time_of_a_task_begins_when_a_process_has_it() {
    let folder = Folder::new();
    let timeout = Duration::from_secs(1);
    let rig = rig(HandlerSettings { timeout: Some(timeout), ..moody() });
    let wait = json!({"do": "wait", "for": folder.file("go")});
    let first = rig.request(&json!({"handler": "moody", "args": wait, "timeout_ms": 600_000}));
    until("the first is busy", || rig.count("busy") == 1);
    let second = rig.submit(&json!({"n": 2}));
    let third = rig.request(&json!({"handler": "moody", "args": {"n": 3}, "timeout_ms": 1000}));
    until("the others wait", || rig.count("waiting") == 2);
    // Time has to pass here: it is what is tested.
    thread::sleep(timeout + Duration::from_millis(100));
    folder.make("go");
    result(&first);
    assert_eq!(result(&second)["n"], 2);
    assert_eq!(result(&third)["n"], 3, "also if the request says how long it may take");
    rig.stop();
}

#[test]
fn a_failed_attempt_is_followed_by_another_with_another_process() {
    let rig = rig(moody());
    let request = json!({"handler": "moody", "args": {"do": "exit"}, "retries": 2});
    let task = rig.request(&request);
    let failed = failure(&task);
    assert_eq!((failed.code, outcome(&task).attempts), (ErrorCode::RetriesExhausted, 3));
    assert!(failed.message.contains("exited with status 3 before it answered"), "{failed}");
    assert_eq!(rig.count("crashes"), 3);
    rig.stop();
}

#[test]
fn tasks_that_wait_when_the_service_stops_end_too() {
    let rig = rig(moody());
    let (running, _) = hanging(&rig, &json!({"do": "hang"}));
    let waiting: Vec<_> = (0..20).map(|n| rig.submit(&json!({"n": n}))).collect();
    until("all wait", || rig.count("waiting") == 20);
    assert!(waiting.iter().all(|task| task.status().stage == Stage::Running));
    rig.stop();
    assert!(running.is_ended() && waiting.iter().all(|task| task.is_ended()));
}
