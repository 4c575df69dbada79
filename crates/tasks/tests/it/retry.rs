//! Asking once more for what a task did: the same request, and a task of its own. Somebody presses a button
//! for it, so nothing may be run again by accident, and nothing of the first task may change.

use crate::toys::{Mill, ended, failure, json, small};
use millpond_tasks::{DoorName, ErrorCode, TaskId};

#[test]
fn an_ended_task_is_asked_for_again_as_a_new_task() {
    let mill = Mill::start(small());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let first = mill.submit(&format!(
        r#"{{"handler":"hold","task_id":5,"args":{{"n": 1}},"priority":"low","affinity":"k","timeout_ms":90000,
            "retries":1,"delay_ms":1,"idempotency_key":"once","traceparent":"{trace}"}}"#
    ));
    mill.call().finish(Err(failure(ErrorCode::NotAllowed)));
    ended(&first);
    let again = mill.handle.retry(first.id(), DoorName::Http).unwrap();
    assert!(again.is_new && again.watching.is_none());
    assert_eq!(*again.task.id(), TaskId::Assigned(1));
    let call = mill.call();
    assert_eq!((call.args().get(), call.traceparent()), (r#"{"n": 1}"#, Some(trace)));
    call.finish(Ok(json("2")));
    assert_eq!(ended(&again.task).result().unwrap().get(), "2");
    let (old, new) = (first.detail(), again.task.detail());
    assert_eq!((new.status.priority, new.timeout_ms, new.retries), ("low", old.timeout_ms, 1));
    assert_eq!((old.status.error, new.status.door), (Some("not-allowed"), DoorName::Http));
    assert!(again.task.sequence() > first.sequence());
    assert!(mill.handle.get(again.task.id()).is_ok(), "its outcome is kept");
    assert_eq!(mill.settle().accepted, 2);
}

#[test]
fn a_task_that_has_not_ended_or_is_not_known_is_not_asked_for_again() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    let refused = mill.handle.retry(task.id(), DoorName::Http).unwrap_err();
    assert_eq!((refused.failure.code, refused.id), (ErrorCode::NotEnded, Some(task.id().clone())));
    assert_eq!(refused.failure.message, "task \"t1\" is still running; wait for its end");
    let refused = mill.handle.retry(&TaskId::Number(7), DoorName::Http).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::NotFound);
    assert_eq!(mill.handle.take(task.id()).unwrap_err().code, ErrorCode::NotEnded);
    call.finish(Ok(json("1")));
    ended(&task);
    mill.handle.take(task.id()).unwrap();
    let gone = mill.handle.retry(task.id(), DoorName::Http).unwrap_err();
    assert_eq!(gone.failure.code, ErrorCode::ResultGone);
    assert_eq!(mill.settle().accepted, 1);
}

#[test]
fn a_full_service_says_when_to_ask_again() {
    let mut config = small();
    config.tasks_max = 1;
    let mill = Mill::start(config);
    let task = mill.submit(r#"{"handler":"echo"}"#);
    ended(&task);
    mill.settle();
    let plugs = mill.plug();
    let refused = mill.handle.retry(task.id(), DoorName::Http).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::QueueFull, "{plugs:?}");
    assert!(refused.retry_after.is_some());
    mill.unplug();
    assert_eq!(mill.settle().refused["queue-full"], 1);
}
