//! When a task may begin, and by when it must have: `run_at` and `expires_ms`.
//!
//! A moment is a promise to whoever planned it: not before, and not at all rather than too late. Nothing may be left
//! of a task that ended so, neither its place nor its timers.

use crate::toys::{Mill, ended, failed, is_at, small, until};
use millpond_tasks::ErrorCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn unix_ms(from_now: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    (i64::try_from(now).unwrap() + from_now) as u64
}

#[test]
fn a_task_waits_for_its_moment_and_one_that_is_past_begins_at_once() {
    let mill = Mill::start(small());
    let at = unix_ms(100);
    let task = mill.submit(&format!(r#"{{"handler":"echo","run_at":{at}}}"#));
    assert!(is_at(&task, "delayed"));
    assert!(task.detail().due_at_ms.unwrap().abs_diff(at) < 1000);
    ended(&task).result().unwrap();
    assert!(unix_ms(1) >= at, "it ended before its moment");
    ended(&mill.submit(r#"{"handler":"echo","run_at":"2001-01-01T00:00:00Z"}"#)).result().unwrap();
    mill.settle();
}

#[test]
fn a_moment_that_is_too_far_away_is_refused() {
    let mut config = small();
    config.request.delay_ms_max = 1000;
    let mill = Mill::start(config);
    let refused = mill.refuse(&format!(r#"{{"handler":"echo","run_at":{}}}"#, unix_ms(60_000)));
    assert_eq!(refused.failure.code, ErrorCode::InvalidRequest);
    assert!(
        refused.failure.message.starts_with("run_at: expected a moment within 1000 ms from now, got one in")
    );
    let both = mill.refuse(r#"{"handler":"echo","run_at":1,"delay_ms":1}"#);
    assert!(both.failure.message.contains("expected either delay_ms or run_at, got both"), "{both}");
    mill.settle();
}

#[test]
fn what_has_not_begun_in_time_expires_whether_it_is_delayed_or_queued() {
    let mill = Mill::start(small());
    let plugs = mill.plug();
    let queued = mill.submit(r#"{"handler":"echo","expires_ms":20}"#);
    let delayed = mill.submit(r#"{"handler":"echo","expires_ms":20,"delay_ms":10}"#);
    for task in [&queued, &delayed] {
        let failure = failed(task);
        assert_eq!((failure.code, &*failure.message), (ErrorCode::Expired, "it did not begin within 20 ms"));
    }
    mill.unplug();
    for plug in &plugs {
        ended(plug);
    }
    assert_eq!(mill.settle().failed["expired"], 2);
}

#[test]
fn a_task_that_has_begun_does_not_expire_not_even_between_attempts() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","expires_ms":50,"retries":1}"#);
    let call = mill.call();
    assert!(task.detail().expires_at_ms.is_some());
    std::thread::sleep(Duration::from_millis(60));
    call.finish(Err(crate::toys::failure(ErrorCode::HandlerError)));
    mill.call().finish_with_args();
    assert_eq!(ended(&task).attempts, 2);
    mill.settle();
}

#[test]
fn a_time_that_is_over_before_the_delay_is_refused() {
    let mill = Mill::start(small());
    let refused = mill.refuse(r#"{"handler":"echo","delay_ms":50,"expires_ms":50}"#);
    assert_eq!(
        refused.failure.message,
        "expires_ms: expected more than the 50 ms before its time has come, got 50"
    );
    until("nothing is left", || mill.handle.live() == 0);
}
