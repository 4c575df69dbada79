//! What is shown of a task: a page and a program decide from it what to do, so each field is what happened.
//! Attempts are told of one by one, and what is kept for that is bounded and counted.

use crate::toys::{Mill, ended, failure, is_at, json, small, until};
use millpond_tasks::{DoorName, ErrorCode, Submit, TRIES_MAX};
use serde_json::{Value, to_value};
use std::time::{SystemTime, UNIX_EPOCH};

fn unix_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[test]
fn a_status_says_when_a_task_came_by_which_door_and_how_urgent_it_is() {
    let mill = Mill::start(small());
    let before = unix_ms();
    let how = Submit { door: DoorName::Http, ..Submit::default() };
    let request = br#"{"handler":"hold","priority":"high"}"#;
    let task = mill.handle.submit(request, how).unwrap().task;
    let call = mill.call();
    let status = to_value(task.status()).unwrap();
    assert_eq!((&status["door"], &status["priority"]), (&Value::from("http"), &Value::from("high")));
    assert_eq!(status["worker"], 0, "there is one worker, and it has the call");
    assert_eq!(status["waited_us"], Value::Null, "it has not ended");
    let accepted_at_ms = status["accepted_at_ms"].as_u64().unwrap();
    // The two clocks may differ by a moment.
    assert!((before - 50..=unix_ms() + 50).contains(&accepted_at_ms), "{before} {accepted_at_ms}");
    call.finish(Ok(json("1")));
    let outcome = ended(&task);
    assert_eq!(u128::from(task.status().waited_us.unwrap()), outcome.waited.as_micros());
    assert_eq!(task.status().accepted_at_ms, accepted_at_ms, "the moment stays");
    let doors = mill.settle().doors;
    assert_eq!((doors["http"], doors["library"], doors["control"]), (1, 0, 0));
}

#[test]
fn details_have_arguments_and_result_as_they_were_written() {
    let mill = Mill::start(small());
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let args = r#"{"n": 1.0, "z":[1 ,2]}"#;
    let request = format!(
        r#"{{"handler":"echo","args":{args},"timeout_ms":5000,"retries":2,"traceparent":"{traceparent}"}}"#
    );
    let task = mill.submit(&request);
    ended(&task);
    let text = serde_json::to_string(&task.detail()).unwrap();
    assert!(text.contains(&format!(r#""args":{args},"result":{args},"tries""#)), "{text}");
    let detail: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&detail["stage"], &detail["status"]), (&Value::from("ended"), &Value::from(0)));
    assert_eq!((detail["timeout_ms"].as_u64(), detail["retries"].as_u64()), (Some(5000), Some(2)));
    assert_eq!(detail["traceparent"], traceparent);
    let tries = task.tries();
    assert_eq!((tries.len(), tries[0].attempt, tries[0].error), (1, 1, None));
}

#[test]
fn every_attempt_is_told_of_with_its_own_error() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","retries":2}"#);
    assert!(mill.handle.get(task.id()).is_ok());
    mill.call().finish(Err(failure(ErrorCode::HandlerError)));
    mill.call().finish(Err(failure(ErrorCode::OutOfMemory)));
    let third = mill.call();
    let running: Vec<_> = task.tries().into_iter().map(|one| (one.attempt, one.error)).collect();
    assert_eq!(running, [(1, Some("handler-error")), (2, Some("out-of-memory")), (3, None)]);
    third.finish(Err(failure(ErrorCode::TimedOut)));
    ended(&task);
    assert_eq!(task.status().error, Some("retries-exhausted"));
    let tries = task.tries();
    assert_eq!(tries.len(), 3);
    assert_eq!((tries[2].error, tries[2].message.as_deref()), (Some("timed-out"), Some("as asked")));
    let begins: Vec<_> = tries.iter().map(|one| one.began_after_us).collect();
    assert!(begins.windows(2).all(|two| two[0] < two[1]), "{begins:?}");
    mill.settle();
}

#[test]
fn a_task_that_was_never_begun_has_no_tries_and_one_cancelled_between_two_has_the_first() {
    let mill = Mill::start(small());
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    mill.handle.cancel(delayed.id()).unwrap();
    assert_eq!((delayed.tries(), delayed.status().worker), (Vec::new(), None));

    let running = mill.submit(r#"{"handler":"hold","retries":1}"#);
    let call = mill.call();
    mill.handle.cancel(running.id()).unwrap();
    let tries = running.tries();
    assert_eq!((tries.len(), tries[0].error), (1, Some("cancelled")));
    drop(call);

    let mut config = small();
    config.retry.backoff_min = crate::toys::NEVER;
    config.retry.backoff_max = crate::toys::NEVER;
    let mill = Mill::start(config);
    let between = mill.submit(r#"{"handler":"hold","retries":1}"#);
    mill.call().finish(Err(failure(ErrorCode::HandlerError)));
    until("it waits for its next attempt", || is_at(&between, "retrying"));
    mill.handle.cancel(between.id()).unwrap();
    let tries = between.tries();
    assert_eq!((tries.len(), tries[0].error), (1, Some("handler-error")));
}

#[test]
fn of_many_attempts_the_latest_are_told_of_and_their_messages_are_cut() {
    let mut config = small();
    config.retry.backoff_min = std::time::Duration::ZERO;
    config.retry.backoff_max = std::time::Duration::ZERO;
    let mill = Mill::start(config);
    let task = mill.submit(r#"{"handler":"hold","retries":20}"#);
    let long = millpond_tasks::TaskFailure::new(ErrorCode::HandlerError, "ä".repeat(5000));
    for _ in 0..=20 {
        mill.call().finish(Err(long.clone()));
    }
    ended(&task);
    let tries = task.tries();
    let attempts: Vec<_> = tries.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, (22 - TRIES_MAX as u32..=21).collect::<Vec<_>>());
    assert_eq!(tries[0].message.as_deref(), Some("ä".repeat(512).as_str()));
}

#[test]
fn kept_arguments_count_as_memory_that_outcomes_take() {
    let kept_bytes = |args: &str| {
        let mill = Mill::start(small());
        let task =
            mill.submit(&format!(r#"{{"handler":"fail","args":{{"code":"cancelled","x":"{args}"}}}}"#));
        ended(&task);
        mill.settle().results.bytes
    };
    assert_eq!(kept_bytes(&"x".repeat(10_000)) - kept_bytes(""), 10_000);
}
