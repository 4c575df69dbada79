//! A request that is sent again because nobody knows whether it arrived is run once.
//!
//! A client whose connection broke sends the same request with the same key until it hears an answer. Each of
//! these must lead to the one task, also when they come at the same instant, and none may be told of a task
//! that does not exist.

use crate::toys::{Mill, SOON, Scribe, ended, failed, json, small, until};
use millpond::BackPressure;
use millpond_tasks::{
    ErrorCode, Reader, ServiceConfig, ServiceHandle, Submit, Task, TaskId, Wants, Watch, function,
};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

/// A service with the handler `once`, and how often that has run.
fn counting(config: ServiceConfig) -> (Mill, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&runs);
    let work = move |_: &millpond_tasks::Call| Ok(json(&of_handler.fetch_add(1, SeqCst).to_string()));
    (Mill::start_with(config, |registry| registry.add("once", function(work)).unwrap()), runs)
}

const KEYED: &str = r#"{"handler":"once","args":{"n":1},"idempotency_key":"k"}"#;

#[test]
fn the_same_request_with_the_same_key_is_the_same_task() {
    let (mill, runs) = counting(small());
    let first = mill.accept(KEYED);
    assert!(first.is_new);
    ended(&first.task);
    for request in [KEYED, r#"{"idempotency_key":"k","args":{"n":1},"handler":"once","task_id":"another"}"#] {
        let again = mill.accept(request);
        assert!(!again.is_new && again.watching.is_none());
        assert!(Arc::ptr_eq(&first.task, &again.task), "{request}");
    }
    assert_eq!(runs.load(SeqCst), 1);
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.keys), (1, 1));
    assert_eq!(mill.handle.get(&TaskId::Name("another".into())).unwrap_err().code, ErrorCode::NotFound);
}

#[test]
fn another_request_with_the_same_key_is_a_mistake() {
    let (mill, runs) = counting(small());
    ended(&mill.submit(KEYED));
    for other in [
        r#"{"handler":"once","args":{"n":2},"idempotency_key":"k"}"#,
        r#"{"handler":"once","idempotency_key":"k"}"#,
        r#"{"handler":"echo","args":{"n":1},"idempotency_key":"k"}"#,
        r#"{"opcode":7,"args":{"n":1},"idempotency_key":"k"}"#,
        r#"{"handler":"once","args":{"n":1},"idempotency_key":"k","priority":"high"}"#,
        r#"{"handler":"once","args":{"n":1},"idempotency_key":"k","affinity":"a"}"#,
        r#"{"handler":"once","args":{"n":1},"idempotency_key":"k","timeout_ms":9}"#,
        r#"{"handler":"once","args":{"n":1},"idempotency_key":"k","delay_ms":9}"#,
        r#"{"handler":"once","args":{"n":1},"idempotency_key":"k","retries":9}"#,
    ] {
        let refused = mill.refuse(other);
        assert_eq!(refused.failure.code, ErrorCode::KeyReused, "{other}");
        assert_eq!(
            refused.failure.message,
            r#"idempotency_key: "k" belongs to task "t1", which asks for something else"#
        );
    }
    ended(&mill.submit(r#"{"handler":"once","args":{"n":1},"idempotency_key":"K"}"#));
    assert_eq!(runs.load(SeqCst), 2, "another key is another request");
    mill.settle();
}

#[test]
fn whoever_comes_again_may_watch_the_task_in_every_stage() {
    let (mill, _) = counting(small());
    let scribe = Scribe::new();
    let request = r#"{"handler":"hold","idempotency_key":"k","delay_ms":20}"#;
    let again = |tag: u64| {
        let how = Submit {
            reader: Some(scribe.reader(tag, Wants::Stream { from: 0 })),
            keep: false,
            ..Submit::default()
        };
        mill.handle.submit(request.as_bytes(), how).unwrap()
    };
    let delayed = again(0);
    let call = mill.call();
    call.partial(json("1")).unwrap();
    let running = again(1);
    call.finish(Ok(json("1")));
    ended(&running.task);
    mill.settle();
    assert!(delayed.is_new && !running.is_new);
    assert_eq!((scribe.ends(0), scribe.ends(1)), (1, 1));
    assert!(scribe.count(1) >= 2, "the partial result was there when it came");
}

#[test]
fn a_storm_of_the_same_request_is_run_once() {
    let mut config = small();
    config.pool.workers = 2;
    let (mill, runs) = counting(config);
    for round in 0..300 {
        let id = if round % 2 == 0 { String::new() } else { format!(r#","task_id":{round}"#) };
        let request = format!(r#"{{"handler":"once","idempotency_key":"{round}"{id}}}"#);
        let start = Barrier::new(4);
        let answers: Vec<_> = thread::scope(|scope| {
            let submit = || {
                start.wait();
                mill.handle.submit(request.as_bytes(), Submit::default())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(submit)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let accepted: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|no| panic!("round {round}: {no}")))
            .collect();
        assert_eq!(accepted.iter().filter(|one| one.is_new).count(), 1);
        assert!(accepted.iter().all(|one| Arc::ptr_eq(&one.task, &accepted[0].task)));
        assert_eq!(ended(&accepted[0].task).result().unwrap().get(), round.to_string());
    }
    assert_eq!(runs.load(SeqCst), 300);
    mill.settle();
}

#[test]
fn a_storm_at_a_full_queue_is_told_to_come_again_or_given_the_task() {
    let mut config = small();
    config.pool.queue_capacity = 1;
    let (mill, runs) = counting(config);
    let mut tasks = 0;
    for round in 0..500 {
        let request = format!(r#"{{"handler":"once","idempotency_key":"{round}","task_id":{round}}}"#);
        mill.plug();
        let _filler = mill.submit(r#"{"handler":"echo"}"#);
        let start = Barrier::new(4);
        let submit = |number: usize| {
            start.wait();
            if number == 0 {
                mill.unplug();
            }
            mill.handle.submit(request.as_bytes(), Submit::default())
        };
        let submit = &submit;
        let answers: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || submit(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(refused.failure.code, ErrorCode::QueueFull, "round {round}: {refused}");
            assert!(refused.retry_after.is_some());
        }
        assert!(answers.iter().flatten().filter(|one| one.is_new).count() <= 1);
        for same in answers.iter().flatten() {
            // One who came while the first was about to be refused has a task that ends the same way.
            let outcome = ended(&same.task);
            let was_refused = outcome.status() == ErrorCode::QueueFull.number() && !same.is_new;
            assert!(outcome.status() == 0 || was_refused, "{outcome:?}");
        }
        tasks += usize::from(answers.iter().flatten().any(|one| one.is_new));
        mill.settle();
    }
    assert_eq!(runs.load(SeqCst), tasks);
}

/// Hands in a request with a key of its own whenever it is told of an end.
struct Resubmits {
    handle: ServiceHandle,
    answers: mpsc::Sender<bool>,
}

impl Watch for Resubmits {
    fn told(&self, tag: u64, _: &Arc<Task>) {
        let request = format!(r#"{{"handler":"once","idempotency_key":"again {tag}","delay_ms":3600000}}"#);
        let is_new = self.handle.submit(request.as_bytes(), Submit::default()).unwrap().is_new;
        assert!(self.handle.stats().keys > 0);
        self.answers.send(is_new).unwrap();
    }
}

#[test]
fn a_reader_may_hand_in_requests_when_it_is_told() {
    for policy in [BackPressure::DropNewest, BackPressure::DropOldest] {
        let mut config = small();
        config.pool.queue_capacity = 1;
        config.pool.back_pressure = policy;
        let (mill, _) = counting(config);
        let (answers, heard) = mpsc::channel();
        let who: Arc<dyn Watch> = Arc::new(Resubmits { handle: mill.handle.clone(), answers });
        mill.plug();
        // In a thread of its own: if it stands still for ever, the test does not.
        let handle = mill.handle.clone();
        let submits = thread::spawn(move || {
            let submit = |tag| {
                let request = format!(r#"{{"handler":"once","idempotency_key":"{tag}"}}"#);
                let reader = Some(Reader { who: Arc::clone(&who), tag, wants: Wants::Result });
                handle.submit(request.as_bytes(), Submit { reader, keep: true, ..Submit::default() }).unwrap()
            };
            [submit(0), submit(1)]
        });
        assert_eq!(heard.recv_timeout(SOON), Ok(true), "{policy:?}: the one that was dropped");
        let _watched = submits.join().unwrap();
        mill.unplug();
        assert_eq!(heard.recv_timeout(SOON), Ok(true), "{policy:?}: the one that was run");
    }
}

#[test]
fn a_refused_request_gives_its_key_back() {
    let (mill, _) = counting(small());
    ended(&mill.submit(r#"{"handler":"echo","task_id":1}"#));
    let refused = mill.refuse(r#"{"handler":"once","task_id":1,"idempotency_key":"k"}"#);
    assert_eq!(refused.failure.code, ErrorCode::DuplicateId);
    assert_eq!(mill.handle.stats().keys, 0);
    let other = mill.accept(r#"{"handler":"echo","task_id":2,"idempotency_key":"k"}"#);
    assert!(other.is_new, "whatever it asks for");
}

#[test]
fn a_request_whose_outcome_is_gone_is_not_run_again() {
    let (mill, runs) = counting(small());
    for request in [KEYED, r#"{"handler":"once","idempotency_key":"with an id","task_id":7}"#] {
        let how = || Submit { reader: None, keep: false, ..Submit::default() };
        let first = mill.handle.submit(request.as_bytes(), how()).unwrap();
        ended(&first.task);
        mill.settle();
        let again = mill.handle.submit(request.as_bytes(), how()).unwrap_err();
        assert_eq!(again.failure.code, ErrorCode::ResultGone, "{again}");
    }
    assert_eq!(runs.load(SeqCst), 2);
}

#[test]
fn a_cancelled_request_stays_cancelled() {
    let (mill, _) = counting(small());
    let request = r#"{"handler":"echo","idempotency_key":"k","delay_ms":3600000}"#;
    let task = mill.submit(request);
    mill.handle.cancel(task.id()).unwrap();
    let again = mill.accept(request);
    assert!(!again.is_new);
    assert_eq!(failed(&again.task).code, ErrorCode::Cancelled);
}

#[test]
fn keys_are_bounded_by_number_and_by_age() {
    let mut config = small();
    config.keys.max = 2;
    let (mill, _) = counting(config);
    let request = |key: &str| format!(r#"{{"handler":"once","idempotency_key":"{key}"}}"#);
    for key in ["a", "b", "c"] {
        ended(&mill.submit(&request(key)));
        assert!(mill.handle.stats().keys <= 2);
    }
    assert!(!mill.accept(&request("c")).is_new);
    assert!(mill.accept(&request("a")).is_new, "it was the oldest of too many");

    let mut config = small();
    config.keys.age_max = Duration::from_millis(1);
    let (mill, _) = counting(config);
    ended(&mill.submit(&request("a")));
    until("the key is too old", || mill.accept(&request("a")).is_new);
    mill.settle();
}
