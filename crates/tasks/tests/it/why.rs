//! Somebody who waits asks why. The answer is read by people and by programs that look for words in it, so it
//! names the true reason at every stage.

use crate::toys::{Mill, NEVER, ended, failure, is_at, json, small, until};
use millpond_tasks::{ErrorCode, TaskId};

#[track_caller]
fn assert_says(why: &str, begins: &str, contains: &str) {
    assert!(why.starts_with(begins) && why.contains(contains), "{why}");
}

#[test]
fn a_task_says_at_every_stage_what_it_waits_for() {
    let mut config = small();
    config.retry.backoff_min = NEVER;
    config.retry.backoff_max = NEVER;
    let mill = Mill::start(config);
    let why = |id: &TaskId| mill.handle.why(id).unwrap();

    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":7200000}"#);
    assert_says(&why(delayed.id()), "it asked for a delay, of which ", " are left");

    let task = mill.submit(r#"{"handler":"hold","retries":2,"timeout_ms":3600000}"#);
    let call = mill.call();
    assert_says(
        &why(task.id()),
        "attempt 1 of 3 has been running for ",
        "; it began on worker 0; its time is over in ",
    );
    call.finish(Err(failure(ErrorCode::HandlerError)));
    until("it waits for its next attempt", || is_at(&task, "retrying"));
    assert_says(
        &why(task.id()),
        "attempt 1 of 3 failed with handler-error (as asked); the next begins in ",
        " h",
    );

    let plugs = mill.plug();
    let queued = mill.submit(r#"{"handler":"echo"}"#);
    assert_says(&why(queued.id()), "it has been queued for ", "it waits because all 1 workers are busy");
    mill.unplug();
    plugs.iter().for_each(|plug| assert!(ended(plug).result().is_ok()));
    ended(&queued);
    assert_says(
        &why(queued.id()),
        "it succeeded after 1 attempt; the last began ",
        " after it was accepted and took ",
    );

    mill.handle.cancel(task.id()).unwrap();
    let reason = "it ended with cancelled (-101): it was retrying when it was cancelled after 1 attempt; ";
    assert_says(&why(task.id()), reason, "took");
    mill.handle.cancel(delayed.id()).unwrap();
    assert_says(&why(delayed.id()), "it ended with cancelled (-101)", "; it was never begun");
    assert_eq!(mill.handle.why(&TaskId::Number(99)).unwrap_err().code, ErrorCode::NotFound);
}

#[test]
fn a_task_that_was_due_counts_its_wait_from_then() {
    let mill = Mill::start(small());
    let plugs = mill.plug();
    let task = mill.submit(r#"{"handler":"hold","delay_ms":20}"#);
    until("its delay is over", || is_at(&task, "queued"));
    until("it is in the queue", || !mill.handle.why(task.id()).unwrap().contains("about to"));
    let why = mill.handle.why(task.id()).unwrap();
    assert_says(&why, "it has been queued for ", "it waits because");
    mill.unplug();
    mill.call().finish(Ok(json("1")));
    assert!(ended(&task).waited >= std::time::Duration::from_millis(20), "{plugs:?}");
}
