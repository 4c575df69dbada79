//! What an attempt leaves for the next one: a long task that fails goes on where it was.
//!
//! Only the latest is kept, and it is bounded, because a journal writes it down.

use crate::toys::{Mill, ended, failure, json, small};
use millpond_tasks::{ErrorCode, Stopped};

#[test]
fn the_next_attempt_is_given_the_last_checkpoint() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","retries":2}"#);
    let call = mill.call();
    assert!(call.last_checkpoint().is_none());
    call.checkpoint(json("1")).unwrap();
    call.checkpoint(json(r#"{"at": 2}"#)).unwrap();
    assert_eq!(task.detail().checkpoint.unwrap().get(), r#"{"at": 2}"#);
    call.finish(Err(failure(ErrorCode::HandlerError)));
    let call = mill.call();
    assert_eq!((call.attempt(), call.last_checkpoint().unwrap().get()), (2, r#"{"at": 2}"#));
    call.finish(Err(failure(ErrorCode::HandlerError)));
    let call = mill.call();
    assert_eq!(call.last_checkpoint().unwrap().get(), r#"{"at": 2}"#, "it left nothing newer");
    call.finish_with_args();
    ended(&task).result().unwrap();
    mill.settle();
}

#[test]
fn one_that_is_too_large_or_too_late_is_refused_and_the_earlier_one_stays() {
    let mut config = small();
    config.results.checkpoint_bytes_max = 8;
    let mill = Mill::start(config);
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    call.checkpoint(json("12345678")).unwrap();
    let Err(Stopped::TooLarge(failure)) = call.checkpoint(json("123456789")) else { panic!("it was taken") };
    assert_eq!(
        failure.message,
        "expected a checkpoint of at most 8 bytes, got 9; leave less, or raise results.checkpoint_bytes_max"
    );
    assert_eq!(call.last_checkpoint().unwrap().get(), "12345678");
    mill.handle.cancel(task.id()).unwrap();
    assert_eq!(call.checkpoint(json("1")), Err(Stopped::Over));
    drop(call);
    mill.settle();
}
