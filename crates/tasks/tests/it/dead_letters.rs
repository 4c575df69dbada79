//! A task that failed for good is not gone: it can be looked at, tried again once the cause is mended, or let go.
//!
//! Nothing may be lost by trying: a letter goes only when its task is accepted.

use crate::toys::{Mill, ended, failed, failure, json, small, until};
use millpond_tasks::config::DeadSettings;
use millpond_tasks::{DeadFilter, DoorName, ErrorCode, ServiceConfig, TaskId};

fn keeping() -> ServiceConfig {
    let dead_letters = DeadSettings { enabled: Some(true), max: 3, bytes_max: 1 << 20, age_max: None };
    ServiceConfig { dead_letters, ..small() }
}

#[test]
fn only_a_task_whose_last_attempt_failed_is_a_dead_letter() {
    let mill = Mill::start(keeping());
    let dies =
        mill.submit(r#"{"handler":"fail","args":{"code":"handler-error"},"retries":1,"priority":"high"}"#);
    assert_eq!(failed(&dies).code, ErrorCode::RetriesExhausted);
    let cancelled = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    mill.handle.cancel(cancelled.id()).unwrap();
    let expired = mill.submit(r#"{"handler":"echo","delay_ms":1,"expires_ms":2}"#);
    let done = mill.submit(r#"{"handler":"echo"}"#);
    ended(&done);
    ended(&expired);
    let letter = mill.handle.dead_letter(dies.id()).unwrap();
    assert_eq!((&*letter.handler, letter.attempts, letter.retries), ("fail", 2, 1));
    assert_eq!(letter.error, ErrorCode::RetriesExhausted);
    assert_eq!(letter.args.get(), r#"{"code":"handler-error"}"#);
    assert_eq!(mill.handle.dead_letter(cancelled.id()).unwrap_err().code, ErrorCode::NotFound);
    let stats = mill.settle().dead_letters.unwrap();
    let expired_died = u64::from(mill.handle.dead_letter(expired.id()).is_ok());
    assert_eq!((stats.kept as u64, stats.died, expired_died), (1, 1, 0));
}

#[test]
fn one_that_is_tried_again_is_a_new_task_with_the_old_checkpoint() {
    let mill = Mill::start(keeping());
    let first = mill.submit(r#"{"handler":"hold","args":{"n":1},"task_id":"job"}"#);
    let call = mill.call();
    call.checkpoint(json("[7]")).unwrap();
    call.finish(Err(failure(ErrorCode::HandlerError)));
    failed(&first);
    let again = mill.handle.retry_dead(&TaskId::Name("job".into()), DoorName::Library).unwrap();
    assert!(again.is_new && again.task.id() != first.id());
    assert_eq!(mill.handle.stats().dead_letters.unwrap().kept, 0, "the letter became a task");
    let call = mill.call();
    assert_eq!(
        (call.attempt(), call.last_checkpoint().unwrap().get(), call.args().get()),
        (1, "[7]", r#"{"n":1}"#)
    );
    call.finish_with_args();
    ended(&again.task).result().unwrap();
    let refused = mill.handle.retry_dead(first.id(), DoorName::Library).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::NotFound);
    mill.settle();
}

#[test]
fn a_letter_that_finds_no_room_stays() {
    let mut config = keeping();
    config.tasks_max = 1;
    let mill = Mill::start(config);
    for _ in 0..2 {
        failed(&mill.submit(r#"{"handler":"fail","args":{"code":"handler-error"}}"#));
        until("it has left", || mill.handle.live() == 0);
    }
    let plugs = mill.plug();
    let revived = mill.handle.retry_dead_all(&DeadFilter::default(), DoorName::Library);
    assert_eq!((revived.retried, revived.left, revived.refused.len()), (0, 2, 1));
    assert_eq!(mill.handle.dead_letters(&DeadFilter::default()).kept, 2);
    mill.unplug();
    ended(&plugs[0]);
    mill.settle();
}

#[test]
fn letters_are_bounded_and_can_be_let_go_by_handler() {
    let mill = Mill::start(keeping());
    for _ in 0..4 {
        failed(&mill.submit(r#"{"handler":"fail","args":{"code":"bad-arguments"}}"#));
    }
    failed(&mill.submit(r#"{"handler":"panic"}"#));
    let stats = mill.handle.stats().dead_letters.unwrap();
    assert_eq!((stats.kept, stats.died, stats.dropped), (3, 5, 2));
    let filter = DeadFilter { handler: Some("fail".to_owned()), ..DeadFilter::default() };
    assert_eq!(mill.handle.purge_dead_all(&filter), 2);
    let left = mill.handle.dead_letters(&DeadFilter::default());
    assert_eq!((left.letters.len(), &*left.letters[0].handler), (1, "panic"));
    mill.handle.purge_dead(&left.letters[0].task_id).unwrap();
    assert_eq!(mill.handle.purge_dead(&left.letters[0].task_id).unwrap_err().code, ErrorCode::NotFound);
    mill.settle();
}

#[test]
fn without_a_word_none_are_kept() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"panic"}"#);
    failed(&task);
    assert!(!mill.handle.keeps_dead_letters() && mill.handle.dead_letter(task.id()).is_err());
    assert_eq!(mill.settle().dead_letters, None);
}
