//! However attempts fail, are stopped or come too late, a task has one outcome and its handler is told once.
//!
//! An answer, a cancel and the end of the time allowed race for every task. A handler that was given up may
//! answer at any time afterwards, also while another attempt of the same task runs; nothing of what it says
//! may count then.

use crate::toys::{Mill, NEVER, SOON, ended, failed, failure, is_at, json, small, until};
use millpond_tasks::error::TABLE;
use millpond_tasks::{
    Call, ErrorCode, Handler, Here, Limits, Request, ServiceConfig, StopCause, Stopped, Submit, function,
};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Retries come so late that a task stays where it is.
fn slow_retries() -> ServiceConfig {
    let mut config = small();
    config.retry.backoff_min = NEVER;
    config.retry.backoff_max = NEVER;
    config
}

/// Where the causes come that a call's hook is told.
fn listen(call: &Call) -> Receiver<StopCause> {
    let (say, hear) = mpsc::channel();
    call.on_stop(move |cause| say.send(cause).unwrap());
    hear
}

/// The one cause that was told; then nobody can be told any more.
fn only(heard: &Receiver<StopCause>) -> StopCause {
    let cause = heard.recv_timeout(SOON).expect("the hook was not called within a minute");
    let rest = heard.recv_timeout(SOON);
    assert_eq!(rest, Err(mpsc::RecvTimeoutError::Disconnected), "the hook goes with its one call");
    cause
}

/// The hook was let go without being called.
fn never(heard: &Receiver<StopCause>) {
    assert_eq!(heard.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_cancelled_delay_never_runs_and_keeps_no_timer() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    assert!(is_at(&task, "delayed"));
    mill.handle.cancel(task.id()).unwrap();
    assert_eq!(failed(&task).code, ErrorCode::Cancelled);
    assert_eq!(failed(&task).message, "it was delayed when it was cancelled");
    assert_eq!((ended(&task).attempts, ended(&task).ran), (0, Duration::ZERO));
    mill.settle();
}

#[test]
fn a_cancelled_task_leaves_the_queue_and_gives_its_place_back() {
    let mut config = small();
    config.pool.queue_capacity = 2;
    let mill = Mill::start(config);
    mill.plug();
    let first = mill.submit(r#"{"handler":"hold","args":{"n":1}}"#);
    let second = mill.submit(r#"{"handler":"hold","args":{"n":2}}"#);
    assert_eq!(mill.refuse(r#"{"handler":"echo"}"#).failure.code, ErrorCode::QueueFull);
    mill.handle.cancel(first.id()).unwrap();
    assert_eq!(failed(&first).message, "it was queued when it was cancelled");
    let third = mill.submit(r#"{"handler":"echo"}"#);
    mill.unplug();
    let call = mill.call();
    assert_eq!(call.args().get(), r#"{"n":2}"#, "the first never comes");
    call.finish(Ok(json("2")));
    assert_eq!((ended(&second).status(), ended(&third).status()), (0, 0));
    mill.settle();
    assert!(mill.has_call().is_none());
}

#[test]
fn a_cancelled_run_ends_for_everybody_and_tells_its_handler_once() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","timeout_ms":3600000,"retries":5}"#);
    let call = mill.call();
    let heard = listen(&call);
    assert!(!call.is_cancelled());
    mill.handle.cancel(task.id()).unwrap();
    assert_eq!(failed(&task).message, "it was running when it was cancelled");
    assert_eq!(only(&heard), StopCause::Cancelled);
    assert!(call.is_cancelled());
    assert_eq!(call.partial(json("1")), Err(Stopped::Over));
    call.progress(0.5);
    call.log("anybody there?");
    assert_eq!((task.status().progress, task.status().events), (None, 0));
    let late = listen(&call);
    assert_eq!(only(&late), StopCause::Cancelled, "whoever asks later is told at once");
    call.finish(Ok(json("\"too late\"")));
    assert_eq!(ended(&task).status(), ErrorCode::Cancelled.number());
    let stats = mill.settle();
    assert_eq!((stats.failed["cancelled"], stats.retried), (1, 0), "a cancelled task is not tried again");
}

#[test]
fn a_task_between_two_attempts_can_be_cancelled() {
    let mill = Mill::start(slow_retries());
    let task = mill.submit(r#"{"handler":"hold","retries":5}"#);
    let call = mill.call();
    let heard = listen(&call);
    call.finish(Err(failure(ErrorCode::HandlerError)));
    never(&heard);
    assert!(is_at(&task, "retrying"));
    mill.handle.cancel(task.id()).unwrap();
    assert_eq!(failed(&task).message, "it was retrying when it was cancelled");
    assert_eq!(ended(&task).attempts, 1);
    assert_eq!(mill.settle().retried, 1);
}

#[test]
fn an_ended_task_cannot_be_cancelled_and_keeps_its_outcome() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    let heard = listen(&call);
    call.finish(Ok(json("1")));
    never(&heard);
    for _ in 0..2 {
        let refused = mill.handle.cancel(task.id()).unwrap_err();
        assert_eq!(refused.code, ErrorCode::AlreadyEnded);
    }
    assert_eq!(ended(&task).status(), 0);
    let cancelled = mill.submit(r#"{"handler":"hold"}"#);
    mill.handle.cancel(cancelled.id()).unwrap();
    assert_eq!(mill.handle.cancel(cancelled.id()).unwrap_err().code, ErrorCode::AlreadyEnded);
    mill.settle();
}

#[test]
fn a_later_hook_takes_the_place_of_an_earlier_one() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    let (first, second) = (listen(&call), listen(&call));
    never(&first);
    mill.handle.cancel(task.id()).unwrap();
    assert_eq!(only(&second), StopCause::Cancelled);
}

#[test]
fn a_hook_may_finish_its_own_call() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = Arc::new(Mutex::new(Some(mill.call())));
    let of_hook = Arc::clone(&call);
    let (say, hear) = mpsc::channel();
    call.lock().unwrap().as_ref().unwrap().on_stop(move |cause| {
        of_hook.lock().unwrap().take().unwrap().finish(Ok(json("\"from the hook\"")));
        say.send(cause).unwrap();
    });
    mill.handle.cancel(task.id()).unwrap();
    assert_eq!(only(&hear), StopCause::Cancelled);
    assert_eq!(ended(&task).status(), ErrorCode::Cancelled.number());
    mill.settle();
}

#[test]
fn an_attempt_that_takes_too_long_ends_as_timed_out_and_its_late_answer_is_ignored() {
    let mill = Mill::start(small());
    let before = Instant::now();
    let task = mill.submit(r#"{"handler":"hold","timeout_ms":30}"#);
    let call = mill.call();
    let heard = listen(&call);
    assert!(call.deadline().unwrap() >= before + Duration::from_millis(30));
    assert_eq!(failed(&task).code, ErrorCode::TimedOut);
    assert_eq!(failed(&task).message, "the attempt took longer than 30 ms");
    assert!(ended(&task).ran >= Duration::from_millis(30));
    assert_eq!(only(&heard), StopCause::TimedOut);
    assert_eq!(only(&listen(&call)), StopCause::TimedOut);
    assert!(call.is_cancelled());
    call.finish(Ok(json("1")));
    assert_eq!(failed(&task).code, ErrorCode::TimedOut);
    assert_eq!(mill.settle().failed["timed-out"], 1);
}

#[test]
fn the_time_in_the_queue_is_not_the_handlers() {
    let mill = Mill::start(small());
    mill.plug();
    let task = mill.submit(r#"{"handler":"hold","timeout_ms":3600000}"#);
    assert_eq!(mill.handle.stats().timers, 1, "only the sweep: the limit begins with the attempt");
    mill.unplug();
    let call = mill.call();
    assert_eq!(mill.handle.stats().timers, 2);
    call.finish(Ok(json("1")));
    ended(&task);
    mill.settle();
}

struct Slow;

impl Handler for Slow {
    fn start(&self, call: Call) {
        let left = call.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let is_short = left.is_some_and(|left| left < Duration::from_secs(60));
        call.finish(Ok(json(if is_short { "\"the request's\"" } else { "\"the handler's\"" })));
    }

    fn timeout(&self) -> Option<Duration> {
        Some(NEVER)
    }
}

#[test]
fn a_request_without_a_time_limit_gets_the_handlers() {
    let mill = Mill::start_with(small(), |registry| registry.add("slow", Slow).unwrap());
    let by_handler = mill.submit(r#"{"handler":"slow"}"#);
    let by_request = mill.submit(r#"{"handler":"slow","timeout_ms":59000}"#);
    assert_eq!(ended(&by_handler).result().unwrap().get(), "\"the handler's\"");
    assert_eq!(ended(&by_request).result().unwrap().get(), "\"the request's\"");
    let without = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    assert_eq!(call.deadline(), None);
    drop(call);
    ended(&without);
    mill.settle();
}

#[test]
fn every_attempt_has_the_whole_time_and_the_last_word_names_the_reason() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","timeout_ms":20,"retries":2}"#);
    let mut calls = Vec::new();
    let mut hooks = Vec::new();
    for attempt in 1..=3 {
        let call = mill.call();
        assert_eq!(call.attempt(), attempt);
        hooks.push(listen(&call));
        calls.push(call);
    }
    let failure = failed(&task);
    assert_eq!(failure.code, ErrorCode::RetriesExhausted);
    assert_eq!(
        failure.message,
        "3 attempts failed; the last: timed-out (-6): the attempt took longer than 20 ms"
    );
    assert_eq!(ended(&task).attempts, 3);
    for heard in &hooks {
        assert_eq!(only(heard), StopCause::TimedOut);
    }
    assert_eq!(mill.settle().retried, 2);
}

#[test]
fn a_task_is_tried_again_as_often_as_it_asked_and_not_after_a_success() {
    let mill = Mill::start(small());
    for (retries, failures, status) in [(0, 1, -109), (1, 1, 0), (3, 4, -115), (3, 3, 0), (100, 2, 0)] {
        let task = mill.submit(&format!(r#"{{"handler":"hold","args":{{"n":1}},"retries":{retries}}}"#));
        for attempt in 1..=failures {
            let call = mill.call();
            assert_eq!((call.attempt(), call.args().get()), (attempt, r#"{"n":1}"#));
            call.finish(Err(failure(ErrorCode::HandlerError)));
        }
        if status == 0 {
            mill.call().finish(Ok(json("1")));
        }
        assert_eq!(ended(&task).status(), status, "{retries} retries, {failures} failures");
        assert_eq!(ended(&task).attempts, failures + u32::from(status == 0));
    }
    mill.settle();
    assert!(mill.has_call().is_none());
}

#[test]
fn only_what_may_help_is_tried_again() {
    let mill = Mill::start(small());
    for row in TABLE.iter().filter(|row| row.code != ErrorCode::Ok) {
        let request = format!(r#"{{"handler":"fail","args":{{"code":"{}"}},"retries":1}}"#, row.name);
        let task = mill.submit(&request);
        let (code, attempts) =
            if row.retry_may_help { (ErrorCode::RetriesExhausted, 2) } else { (row.code, 1) };
        assert_eq!((failed(&task).code, ended(&task).attempts), (code, attempts), "{}", row.name);
    }
    mill.settle();
}

#[test]
fn nothing_that_an_old_attempt_says_counts_for_a_later_one() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","timeout_ms":30,"retries":1}"#);
    let old = mill.call();
    old.partial(json("\"old\"")).unwrap();
    let new = mill.call();
    assert_eq!((old.attempt(), new.attempt()), (1, 2));
    assert!(old.is_cancelled());
    assert_eq!(old.partial(json("\"too late\"")), Err(Stopped::Over));
    old.progress(0.9);
    old.log("too late");
    assert_eq!(only(&listen(&old)), StopCause::TimedOut);
    old.finish(Ok(json("\"old\"")));
    // On a slow machine the second may have run out of time by now; it has not taken the first's answer.
    let said = new.partial(json("\"new\""));
    let events = task.status().events;
    new.finish(Ok(json("\"new\"")));
    let outcome = ended(&task);
    match said {
        Ok(()) => assert_eq!(events, 2),
        Err(_) => assert_eq!((events, outcome.status()), (1, ErrorCode::RetriesExhausted.number())),
    }
    assert!(outcome.result().map_or(true, |value| value.get() == "\"new\""));
    assert_eq!((outcome.attempts, task.status().progress), (2, None));
    mill.settle();
}

#[test]
fn an_old_call_that_is_dropped_does_not_crash_the_later_attempt() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold","timeout_ms":1000,"retries":1}"#);
    let old = mill.call();
    let new = mill.call();
    drop(old);
    assert!(!is_at(&task, "retrying"));
    new.finish(Ok(json("2")));
    let outcome = ended(&task);
    assert!(outcome.status() == 0 || outcome.attempts == 2, "{outcome:?}");
    mill.settle();
}

#[test]
fn a_call_that_is_dropped_without_an_answer_is_a_crash() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    let heard = listen(&call);
    drop(call);
    assert_eq!(failed(&task).code, ErrorCode::HandlerCrashed);
    assert_eq!(failed(&task).message, "the handler left without an answer");
    never(&heard);
    let retried = mill.submit(r#"{"handler":"hold","retries":1}"#);
    drop(mill.call());
    mill.call().finish(Ok(json("1")));
    assert_eq!(ended(&retried).status(), 0, "a crash may be tried again");
}

struct Panics;

impl Handler for Panics {
    fn start(&self, call: Call) {
        let _held = call;
        std::panic::resume_unwind(Box::new(17));
    }
}

#[test]
fn a_panic_costs_its_task_alone() {
    let mill = Mill::start_with(small(), |registry| registry.add("panics", Panics).unwrap());
    let in_function = mill.submit(r#"{"handler":"panic"}"#);
    let in_handler = mill.submit(r#"{"handler":"panics"}"#);
    let after = mill.submit(r#"{"handler":"echo"}"#);
    assert_eq!(failed(&in_function).code, ErrorCode::HandlerCrashed);
    assert_eq!(failed(&in_function).message, "the handler panicked: it was asked to");
    assert_eq!(failed(&in_handler).code, ErrorCode::HandlerCrashed);
    assert_eq!(failed(&in_handler).message, "the handler panicked");
    assert_eq!(ended(&after).status(), 0);
    mill.settle();
}

#[test]
fn an_answer_that_is_too_large_is_an_error_and_not_kept() {
    let mut config = small();
    config.results.result_bytes_max = 10;
    let mill = Mill::start(config);
    let fits = mill.submit(r#"{"handler":"hold"}"#);
    mill.call().finish(Ok(json("\"12345678\"")));
    assert_eq!(ended(&fits).status(), 0);
    let large = mill.submit(r#"{"handler":"hold","retries":3}"#);
    mill.call().finish(Ok(json("\"123456789\"")));
    assert_eq!(failed(&large).code, ErrorCode::TooLarge);
    assert!(failed(&large).message.contains("at most 10 bytes, got 11"), "{}", failed(&large));
    assert_eq!(ended(&large).attempts, 1);
}

#[test]
fn a_retry_that_finds_the_queue_full_waits_for_room() {
    let mut config = small();
    config.pool.queue_capacity = 1;
    let mill = Mill::start(config);
    let task = mill.submit(r#"{"handler":"hold","retries":1,"args":{"n":1}}"#);
    let call = mill.call();
    mill.plug();
    let queued = mill.submit(r#"{"handler":"echo"}"#);
    call.finish(Err(failure(ErrorCode::HandlerError)));
    let tries = || mill.handle.pool_metrics().pressure.refused;
    let before = tries();
    until("the retry was refused twice", || tries() >= before + 2);
    assert!(!task.is_ended());
    mill.unplug();
    mill.call().finish(Ok(json("1")));
    assert_eq!((ended(&task).status(), ended(&queued).status()), (0, 0));
    mill.settle();
}

#[test]
fn the_time_a_task_ran_does_not_include_the_pause_after_it() {
    let mill = Mill::start(slow_retries());
    let before = Instant::now();
    let task = mill.submit(r#"{"handler":"fail","args":{"code":"handler-error"},"retries":1}"#);
    until("the attempt failed", || is_at(&task, "retrying"));
    let longest = before.elapsed();
    until("more time has passed", || before.elapsed() > 2 * longest + Duration::from_millis(20));
    mill.handle.cancel(task.id()).unwrap();
    let ran = ended(&task).ran;
    assert!(ran <= longest, "ran for {ran:?}, although it had stopped after {longest:?}");
}

#[test]
fn an_answer_a_cancel_and_a_time_limit_make_one_outcome() {
    let mut config = small();
    config.pool.workers = 2;
    let mill = Mill::start(config);
    for round in 0..300 {
        let (say, hear) = mpsc::channel();
        let task = mill.submit(r#"{"handler":"hold","timeout_ms":1}"#);
        let call = mill.call();
        let ends = say.clone();
        task.on_end(move |_, outcome| ends.send(outcome.status()).unwrap());
        thread::scope(|scope| {
            scope.spawn(move || {
                call.on_stop(move |_| say.send(1).unwrap());
                if round % 3 == 0 {
                    thread::yield_now();
                }
                call.finish(Ok(json("1")));
            });
            scope.spawn(|| drop(mill.handle.cancel(task.id())));
        });
        let mut told: Vec<i32> = hear.iter().collect();
        told.sort_unstable();
        match ended(&task).status() {
            0 => assert_eq!(told, [0], "an answer stops nobody"),
            status => assert_eq!(told, [status, 1], "the callback and the hook, once each"),
        }
    }
    mill.settle();
}

/// A cancel that comes just when a delay is over, or the next attempt is due, must not bring the task back.
#[test]
fn a_cancel_at_the_moment_a_task_is_due_ends_it_for_good() {
    let mut config = small();
    config.pool.queue_capacity = 4096;
    config.tasks_max = 1 << 20;
    let mill = Mill::start(config);
    for _ in 0..150 {
        let tasks: Vec<_> = (0..40).map(|_| mill.submit(r#"{"handler":"echo","delay_ms":1}"#)).collect();
        let due = Instant::now() + Duration::from_micros(1000);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        for task in &tasks {
            let _ = mill.handle.cancel(task.id());
        }
        for task in &tasks {
            ended(task);
        }
    }
    mill.settle();
    assert_eq!(mill.handle.pool_metrics().panicked, 0, "a worker began a task that had ended");
}

#[test]
fn an_attempt_may_run_on_the_thread_that_asks() {
    let mill = Mill::start_with(small(), |registry| {
        let who = |call: &Call| {
            Ok(json(&format!("[{}, {}]", millpond::current_worker().is_some(), call.attempt())))
        };
        registry.add("who", function(who)).unwrap();
    });
    let run = |text: &str, attempt| {
        let request = Request::parse(text.as_bytes(), &Limits::default()).unwrap();
        let here = Here { attempt, checkpoint: None };
        mill.handle.run_here(request, here, Submit::default())
    };
    // It would wait for ever for a worker, and for an hour for its time.
    let plugs = mill.plug();
    let task = run(r#"{"handler":"who","task_id":1,"delay_ms":3600000}"#, 3).unwrap().task;
    assert!(task.is_ended());
    assert_eq!(ended(&task).result().unwrap().get(), "[false, 3]");
    assert_eq!(ended(&run(r#"{"handler":"who"}"#, 1).unwrap().task).result().unwrap().get(), "[false, 1]");
    let held = run(r#"{"handler":"hold"}"#, 2).unwrap().task;
    let call = mill.call();
    assert_eq!((call.attempt(), is_at(&held, "running")), (2, true));
    mill.handle.cancel(held.id()).unwrap();
    assert!(call.is_cancelled());
    drop(call);
    assert_eq!(failed(&run(r#"{"handler":"panic"}"#, 1).unwrap().task).code, ErrorCode::HandlerCrashed);
    mill.unplug();
    for plug in &plugs {
        ended(plug);
    }
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.handlers["who"].succeeded), (5, 2));
    mill.service.as_ref().unwrap().drain(Duration::ZERO);
    assert_eq!(run(r#"{"handler":"who"}"#, 1).unwrap_err().failure.code, ErrorCode::Draining);
}
