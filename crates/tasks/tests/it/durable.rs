//! With a journal nothing that was accepted is lost, whatever happens to the daemon.
//!
//! A crash is played by copying the journal's files while the service goes on: the copy is what a killed daemon leaves.
//! The test then starts another service on the copy and looks at what came back. Real daemons are killed elsewhere
//! (`crates/cli/tests/it/durable.rs`).

use crate::toys::{Mill, SOON, ended, failed, failure, is_at, json, small, until};
use millpond::PoolConfig;
use millpond_tasks::config::{JournalSettings, JournalSync};
use millpond_tasks::{
    Call, DeadFilter, ErrorCode, ServiceConfig, StartError, Submit, Task, TaskFailure, TaskId, function,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A directory that goes with the test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("millpond-durable-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn config(&self) -> ServiceConfig {
        let journal = JournalSettings {
            directory: self.0.join("journal"),
            sync: JournalSync::Group,
            segment_bytes: 8 << 20,
            snapshot_bytes_min: 64 << 20,
            crash_attempts_max: 3,
        };
        ServiceConfig { journal: Some(journal), ..small() }
    }

    /// What a daemon would leave that was killed now.
    pub(crate) fn crash(&self) -> Self {
        let copy = Self::new();
        copy_all(&self.0.join("journal"), &copy.0.join("journal"));
        copy
    }

    pub(crate) fn start(&self) -> Mill {
        Mill::start(self.config())
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else if entry.file_name() != "lock" {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Hands in a request, and waits until it is kept.
pub(crate) fn keep(mill: &Mill, text: &str) -> Arc<Task> {
    let accepted = mill.accept(text);
    accepted.wait_kept().unwrap();
    accepted.task
}

pub(crate) fn back(mill: &Mill, task: &Task) -> Arc<Task> {
    mill.handle.get(task.id()).unwrap_or_else(|error| panic!("{}: {error}", task.id()))
}

#[test]
fn tasks_of_every_stage_come_back_to_where_they_stood() {
    let place = Place::new();
    let mill = place.start();
    let plugs = mill.plug();
    let queued = keep(&mill, r#"{"handler":"echo","args":{"n":1},"task_id":"job"}"#);
    let delayed = keep(&mill, r#"{"handler":"echo","delay_ms":3600000}"#);
    let crash = place.crash();
    let again = crash.start();
    assert_eq!(again.handle.live(), 3);
    assert!(is_at(&back(&again, &delayed), "delayed"));
    let due = |task: &Task| task.detail().due_at_ms.unwrap();
    assert!(due(&back(&again, &delayed)).abs_diff(due(&delayed)) < 2, "by the clock on the wall");
    // The plug ran when the daemon died: it is tried again, and holds the worker.
    let plug = back(&again, &plugs[0]);
    until("the second attempt runs", || plug.status().attempts == 2);
    assert!(is_at(&back(&again, &queued), "queued"));
    again.unplug();
    let outcome = ended(&back(&again, &queued)).result().unwrap().get().to_owned();
    assert_eq!(outcome, r#"{"n":1}"#);
    assert_eq!(ended(&plug).attempts, 2);
    assert_eq!(again.accept(r#"{"handler":"echo"}"#).task.id(), &TaskId::Assigned(3), "ids go on");
    mill.unplug();
}

#[test]
fn a_task_that_is_not_kept_yet_is_not_begun_and_one_that_is_kept_is() {
    let place = Place::new();
    let mill = place.start();
    let accepted = mill.accept(r#"{"handler":"hold"}"#);
    let call = mill.call();
    assert!(accepted.is_kept(), "it was begun before it was kept");
    call.finish_with_args();
    ended(&accepted.task);
    mill.settle();
}

#[test]
fn outcomes_keys_and_numbers_survive_a_crash() {
    let place = Place::new();
    let mill = place.start();
    let keyed = r#"{"handler":"echo","args":{"n":7},"idempotency_key":"k"}"#;
    let done = keep(&mill, keyed);
    ended(&done);
    let wrong = keep(&mill, r#"{"handler":"fail","args":{"code":"bad-arguments"}}"#);
    assert_eq!(failed(&wrong).code, ErrorCode::BadArguments);
    let again = place.crash().start();
    let found = back(&again, &done);
    assert_eq!((found.is_ended(), ended(&found).result().unwrap().get()), (true, r#"{"n":7}"#));
    let twin = again.accept(keyed);
    assert!(!twin.is_new && Arc::ptr_eq(&twin.task, &found), "the same request is not run again");
    let other = again.refuse(r#"{"handler":"echo","idempotency_key":"k"}"#);
    assert_eq!(other.failure.code, ErrorCode::KeyReused);
    assert_eq!(failed(&back(&again, &wrong)).message, failed(&wrong).message);
    let letter = again.handle.dead_letter(wrong.id()).unwrap();
    assert_eq!(letter.error, ErrorCode::BadArguments);
    assert_eq!(keep(&again, r#"{"handler":"echo"}"#).id(), &TaskId::Assigned(3));
}

#[test]
fn an_outcome_that_was_told_is_there_after_a_crash_and_nothing_runs_twice() {
    let place = Place::new();
    let mill = place.start();
    for round in 0..20 {
        let task = keep(&mill, &format!(r#"{{"handler":"echo","args":{{"n":{round}}}}}"#));
        ended(&task);
        // Whoever was told of an end may rely on it.
        let again = place.crash().start();
        let found = back(&again, &task);
        assert!(found.is_ended(), "round {round}: it was told and is to be run again");
        assert_eq!(again.handle.live(), 0);
    }
}

#[test]
fn a_retry_waits_on_after_a_crash_and_a_crash_uses_up_none() {
    let place = Place::new();
    let mut config = place.config();
    config.retry.backoff_min = Duration::from_secs(3600);
    config.retry.backoff_max = Duration::from_secs(3600);
    let mill = Mill::start(config);
    let task = keep(&mill, r#"{"handler":"hold","retries":1}"#);
    let call = mill.call();
    call.checkpoint(json(r#"{"row":7}"#)).unwrap();
    let in_the_middle = {
        // What nobody waits for is written a little later.
        std::thread::sleep(Duration::from_millis(50));
        place.crash()
    };
    call.finish(Err(failure(ErrorCode::HandlerError)));
    until("it waits for its retry", || is_at(&task, "retrying"));
    std::thread::sleep(Duration::from_millis(50));
    let later = place.crash().start();
    let found = back(&later, &task);
    assert!(is_at(&found, "retrying") && found.detail().due_at_ms == task.detail().due_at_ms);

    let again = in_the_middle.start();
    let call = again.call();
    assert_eq!((call.attempt(), call.last_checkpoint().unwrap().get()), (2, r#"{"row":7}"#));
    call.finish(Err(failure(ErrorCode::HandlerError)));
    let call = again.call();
    assert_eq!(call.attempt(), 3, "the crash left the retry untouched");
    call.finish(Err(failure(ErrorCode::HandlerError)));
    let found = back(&again, &task);
    assert_eq!(failed(&found).code, ErrorCode::RetriesExhausted);
    assert_eq!(again.handle.dead_letter(task.id()).unwrap().attempts, 3);
}

#[test]
fn a_task_that_the_daemon_dies_of_becomes_a_dead_letter() {
    let mut place = Place::new();
    let mut mill = place.start();
    let task = keep(&mill, r#"{"handler":"hold","retries":9}"#);
    let mut calls = Vec::new();
    for attempt in 1..=3 {
        calls.push(mill.call());
        assert_eq!(calls[attempt - 1].attempt(), attempt as u32);
        std::thread::sleep(Duration::from_millis(50));
        let crash = place.crash();
        mill = crash.start();
        place = crash;
    }
    calls.push(mill.call());
    assert_eq!(calls[3].attempt(), 4);
    std::thread::sleep(Duration::from_millis(50));
    let mill = place.crash().start();
    let found = back(&mill, &task);
    assert_eq!(failed(&found).message, "the daemon died 4 times while it ran");
    assert_eq!(mill.handle.dead_letter(task.id()).unwrap().error, ErrorCode::DaemonDied);
    assert!(mill.has_call().is_none());
}

#[test]
fn a_task_whose_handler_is_gone_becomes_a_dead_letter_that_can_be_tried_again() {
    let place = Place::new();
    let mill = Mill::start_with(place.config(), |registry| {
        registry.add("old", function(|_: &Call| Ok(json("1")))).unwrap();
    });
    let task = keep(&mill, r#"{"handler":"old","args":{"a":1},"delay_ms":3600000}"#);
    let crash = place.crash();
    let without = crash.start();
    assert_eq!(without.handle.live(), 0);
    let letter = without.handle.dead_letter(task.id()).unwrap();
    assert_eq!(letter.error, ErrorCode::UnknownHandler);
    let expected =
        "it was accepted by an earlier daemon and cannot go on: handler: expected a known name, got \"old\"";
    assert!(letter.message.starts_with(expected), "{}", letter.message);
    let refused = without.handle.retry_dead(task.id(), Default::default()).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::UnknownHandler, "and the letter stays");
    // The letter is written down as well, and the handler may come back.
    std::thread::sleep(Duration::from_millis(50));
    let again = Mill::start_with(crash.crash().config(), |registry| {
        registry.add("old", function(|call: &Call| Ok(call.args().to_owned()))).unwrap();
    });
    let revived = again.handle.retry_dead(task.id(), Default::default()).unwrap();
    revived.wait_kept().unwrap();
    assert_eq!(ended(&revived.task).result().unwrap().get(), r#"{"a":1}"#);
    assert_eq!(again.handle.dead_letters(&DeadFilter::default()).kept, 0);
}

#[test]
fn a_stop_keeps_what_has_not_ended_for_the_next_daemon() {
    let place = Place::new();
    let mut mill = place.start();
    let plugs = mill.plug();
    let queued = keep(&mill, r#"{"handler":"echo"}"#);
    let unplug = {
        let mill = &mill;
        move || mill.unplug()
    };
    unplug();
    let running = keep(&mill, r#"{"handler":"hold"}"#);
    let call = mill.call();
    ended(&plugs[0]);
    ended(&queued);
    let report = mill.service.take().unwrap().stop(SOON);
    assert_eq!(report.left, 1);
    assert_eq!(failed(&running).code, ErrorCode::Postponed);
    assert!(call.is_cancelled());
    drop(call);
    drop(mill);
    let again = place.start();
    let call = again.call();
    assert_eq!((call.task_id(), call.attempt()), (running.id(), 2));
    assert_eq!(again.handle.stats().journal.unwrap().restored, 1);
    call.finish_with_args();
    ended(&back(&again, &running)).result().unwrap();
}

#[test]
fn a_drain_tells_apart_what_only_waits_for_its_time() {
    let place = Place::new();
    let mill = place.start();
    let later = keep(&mill, r#"{"handler":"echo","delay_ms":3600000}"#);
    keep(&mill, r#"{"handler":"hold"}"#);
    let call = mill.call();
    let service = mill.service.as_ref().unwrap();
    let report = service.drain(Duration::ZERO);
    assert_eq!((report.left, report.postponed), (2, 1), "one runs");
    call.finish_with_args();
    until("the other has ended", || service.drain(Duration::ZERO).left == 1);
    assert_eq!(service.drain(Duration::ZERO).postponed, 1);
    assert!(is_at(&later, "delayed"));
}

#[test]
fn a_full_queue_is_no_refusal_and_each_task_runs_once() {
    let place = Place::new();
    let mut config = place.config();
    config.pool = PoolConfig { queue_capacity: 2, ..config.pool };
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let of_handler = Arc::clone(&order);
    let mill = Mill::start_with(config, |registry| {
        let note = move |call: &Call| {
            of_handler.lock().unwrap().push(call.task_id().to_string());
            Ok(json("0"))
        };
        registry.add("note", function(note)).unwrap();
    });
    let plugs = mill.plug();
    let tasks: Vec<_> =
        (0..200).map(|id| keep(&mill, &format!(r#"{{"handler":"note","task_id":{id}}}"#))).collect();
    assert!(mill.handle.stats().backlog >= 190, "{}", mill.handle.stats().backlog);
    assert!(tasks.iter().all(|task| is_at(task, "queued")));
    mill.handle.cancel(tasks[150].id()).unwrap();
    mill.unplug();
    ended(&plugs[0]);
    for task in &tasks {
        ended(task);
    }
    let mut expected: Vec<_> = (0..200).filter(|id| *id != 150).map(|id| id.to_string()).collect();
    let mut ran = order.lock().unwrap().clone();
    assert_eq!(ran[..2], expected[..2], "those that were in the queue came first");
    expected.sort();
    ran.sort();
    assert_eq!(ran, expected);
    assert_eq!(mill.settle().backlog, 0);
}

#[test]
fn a_cancel_survives_a_crash_once_it_is_told() {
    let place = Place::new();
    let mill = place.start();
    let task = keep(&mill, r#"{"handler":"echo","delay_ms":3600000}"#);
    let (tell, told) = std::sync::mpsc::channel();
    mill.handle.cancel_then(task.id(), move |cancelled| tell.send(cancelled.is_ok()).unwrap());
    assert!(told.recv_timeout(SOON).unwrap());
    let again = place.crash().start();
    assert_eq!(failed(&back(&again, &task)).code, ErrorCode::Cancelled);
    assert_eq!(again.handle.live(), 0);
}

#[test]
fn a_snapshot_holds_all_that_is_alive_while_tasks_come_and_go() {
    let place = Place::new();
    let mut config = place.config();
    config.journal.as_mut().unwrap().snapshot_bytes_min = 1 << 20;
    config.results.max = 50;
    let mill = Mill::start(config);
    let held = keep(&mill, r#"{"handler":"hold","task_id":"held"}"#);
    let call = mill.call();
    call.checkpoint(json("[1]")).unwrap();
    let delayed = keep(&mill, r#"{"handler":"echo","delay_ms":3600000,"unique_key":"u"}"#);
    let padding = "x".repeat(2000);
    // The worker is held, so tasks come and are cancelled.
    until("a snapshot was written", || {
        for _ in 0..50 {
            let task =
                keep(&mill, &format!(r#"{{"handler":"echo","args":{{"p":"{padding}"}},"delay_ms":60000}}"#));
            mill.handle.cancel(task.id()).unwrap();
        }
        mill.handle.stats().journal.unwrap().snapshots > 0
    });
    let last = keep(&mill, r#"{"handler":"echo","args":{"last":1},"idempotency_key":"k","delay_ms":60000}"#);
    let place = place.crash();
    let again = place.start();
    assert_eq!(again.handle.live(), 3);
    let found = again.call();
    assert_eq!((found.task_id(), found.attempt()), (held.id(), 2));
    assert_eq!(found.last_checkpoint().unwrap().get(), "[1]");
    assert!(!again.accept(r#"{"handler":"echo","unique_key":"u"}"#).is_new);
    assert!(is_at(&back(&again, &delayed), "delayed"));
    assert_eq!(back(&again, &last).args().get(), r#"{"last":1}"#);
    found.finish_with_args();
    call.finish_with_args();
}

#[test]
fn a_journal_that_somebody_has_or_that_is_none_is_a_reason_not_to_start() {
    let place = Place::new();
    let mill = place.start();
    let refused = |config: ServiceConfig| {
        let started = millpond_tasks::Service::start(config, Default::default(), Default::default());
        let error = started.expect_err("it does not start");
        assert!(matches!(error, StartError::Journal(_)));
        error.to_string()
    };
    let message = refused(place.config());
    assert!(message.contains("another process has this journal open"), "{message}");
    drop(mill);
    let other = Place::new();
    fs::create_dir_all(other.0.join("journal")).unwrap();
    let file = fs::read_dir(place.0.join("journal")).unwrap().filter_map(Result::ok);
    let name =
        file.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().contains("log")).unwrap();
    fs::write(other.0.join("journal").join(name), vec![7; 8 << 20]).unwrap();
    let message = refused(other.config());
    assert!(message.contains("not a journal file"), "{message}");
}

#[test]
fn results_that_nobody_waits_for_are_kept_although_their_reader_left() {
    let place = Place::new();
    let mill = place.start();
    let large = "y".repeat(100_000);
    let text = format!(r#"{{"handler":"echo","args":{{"large":"{large}"}}}}"#);
    let task = mill.handle.submit(text.as_bytes(), Submit::default()).unwrap();
    task.wait_kept().unwrap();
    ended(&task.task);
    let again = place.crash().start();
    let found = back(&again, &task.task);
    assert_eq!(ended(&found).result().unwrap().get().len(), large.len() + 12, "a file of its own came back");
    again.handle.take(found.id()).unwrap();
}

#[test]
fn a_failure_that_is_no_answer_has_words() {
    let place = Place::new();
    let mill = place.start();
    let task = keep(&mill, r#"{"handler":"hold"}"#);
    let at = Some(millpond_tasks::Position { line: 1, column: 2 });
    let failure = TaskFailure { code: ErrorCode::BadArguments, message: "äöü \"x\"".to_owned(), at };
    mill.call().finish(Err(failure.clone()));
    ended(&task);
    let again = place.crash().start();
    assert_eq!(*failed(&back(&again, &task)), failure);
}
