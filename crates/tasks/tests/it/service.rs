//! A request is taken in or refused, once and wholly, and whoever asks later is told the truth.
//!
//! A door that is told "accepted" must get exactly one outcome, by whichever way it asks for it; a door that
//! is told "no" must find nothing left of the request: no id taken, no place used, no figure off by one.

use crate::toys::{Mill, NEVER, SOON, Scribe, ended, failed, is_at, json, small, until};
use millpond::BackPressure;
use millpond_tasks::symbols::{Access, HeapMemory, RegionUse};
use millpond_tasks::{
    Call, ErrorCode, Handler, ListFilter, Registry, Service, ServiceConfig, Stage, Submit, Symbols, Task,
    TaskFailure, TaskId, Wants, function,
};
use serde_json::value::RawValue;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn an_outcome_can_be_waited_for_polled_called_back_and_watched() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let task = mill.submit(r#"{"handler":"hold","args":{"n":1}}"#);
    let watching = task.watch(scribe.reader(5, Wants::Result)).unwrap();
    let (said, heard) = mpsc::channel();
    task.on_end(move |task, outcome| said.send((task.id().clone(), outcome.status())).unwrap());
    assert!(task.outcome().is_none() && !task.is_ended());
    assert!(task.wait(Duration::ZERO).is_none(), "a wait that is over says nothing");
    assert_eq!(scribe.count(5), 0);

    mill.call().finish(Ok(json("[1]")));
    assert_eq!(ended(&task).result().unwrap().get(), "[1]");
    assert_eq!(task.outcome().unwrap().status(), 0);
    assert_eq!(heard.recv_timeout(SOON).unwrap(), (task.id().clone(), 0));
    until("the reader is told", || scribe.ends(5) == 1);
    mill.settle();
    assert_eq!(scribe.count(5), 1);
    assert!(heard.try_recv().is_err(), "once");
    drop(watching);
    assert_eq!(mill.handle.get(task.id()).unwrap().id(), task.id(), "by its id");
}

#[test]
fn whoever_comes_after_the_end_is_told_at_once_and_once() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let task = mill.submit(r#"{"handler":"echo"}"#);
    ended(&task);
    let called = Arc::new(AtomicUsize::new(0));
    let by_callback = Arc::clone(&called);
    task.on_end(move |_, _| {
        by_callback.fetch_add(1, SeqCst);
    });
    assert_eq!(called.load(SeqCst), 1);
    let watching = task.watch(scribe.reader(1, Wants::Result)).unwrap();
    assert_eq!((scribe.count(1), scribe.ends(1)), (1, 1));
    drop(watching);
    assert_eq!(scribe.count(1), 1);
}

#[test]
fn the_outcome_on_a_line_says_what_the_outcome_says() {
    let mill = Mill::start(small());
    let good = mill.submit(r#"{"handler":"echo","task_id":"a\"b","args":{"n":[1,2]}}"#);
    let bad = mill.submit(r#"{"handler":"fail","task_id":3,"args":{"code":"not-allowed"}}"#);
    ended(&good);
    ended(&bad);
    let line = |task: &Task| {
        let mut out = Vec::new();
        assert!(task.write_outcome(&mut out));
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()
    };
    let line_of_good = line(&good);
    assert_eq!(line_of_good["task_id"], "a\"b");
    assert_eq!(line_of_good["result"], serde_json::json!({"n": [1, 2]}));
    assert_eq!(line_of_good["attempts"], 1);
    let line_of_bad = line(&bad);
    assert_eq!((&line_of_bad["status"], &line_of_bad["error"]), (&(-107).into(), &"not-allowed".into()));
    let held = mill.submit(r#"{"handler":"hold"}"#);
    let mut out = Vec::new();
    assert!(!held.write_outcome(&mut out) && out.is_empty(), "none yet, nothing written");
}

#[test]
fn an_unknown_handler_or_opcode_is_refused_and_leaves_nothing() {
    let mill = Mill::start(small());
    let refused = mill.refuse(r#"{"handler":"ecko","task_id":4}"#);
    assert_eq!(refused.failure.code, ErrorCode::UnknownHandler);
    assert_eq!(refused.failure.message, "handler: expected a known name, got \"ecko\"; did you mean echo?");
    assert_eq!((refused.id, refused.retry_after), (Some(TaskId::Number(4)), None));
    let refused = mill.refuse(r#"{"opcode":8}"#);
    assert_eq!(refused.failure.code, ErrorCode::UnknownHandler);
    assert_eq!(refused.failure.message, "opcode: expected a known opcode, got 8; there are 7 (echo)");
    assert!(mill.handle.get(&TaskId::Number(4)).is_err());
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.refused["unknown-handler"], stats.stages["ended"]), (0, 2, 0));
}

#[test]
fn an_opcode_and_the_specified_name_reach_the_same_handler() {
    let mill = Mill::start(small());
    for request in [r#"{"opcode":7}"#, r#"{"handler":"handler_echo"}"#, r#"{"handler":"echo"}"#] {
        let task = mill.submit(request);
        assert_eq!(ended(&task).result().unwrap().get(), "{}", "{request}");
        assert_eq!(task.handler(), "echo");
    }
}

#[test]
fn a_request_without_an_id_is_given_one_that_no_client_can_choose() {
    let mill = Mill::start(small());
    let ids: Vec<_> = (0..3).map(|_| mill.submit(r#"{"handler":"echo"}"#).id().to_string()).collect();
    assert_eq!(ids, [r#""t1""#, r#""t2""#, r#""t3""#]);
    let refused = mill.refuse(r#"{"handler":"echo","task_id":"t4"}"#);
    assert_eq!(refused.failure.code, ErrorCode::InvalidRequest);
    mill.settle();
}

#[test]
fn a_number_and_a_string_are_two_ids_and_a_taken_id_is_refused() {
    let mill = Mill::start(small());
    let number = mill.submit(r#"{"handler":"hold","task_id":17}"#);
    let name = mill.submit(r#"{"handler":"hold","task_id":"17"}"#);
    assert_ne!(number.id(), name.id());
    for request in [r#"{"handler":"echo","task_id":17}"#, r#"{"handler":"echo","task_id":"17","delay_ms":9}"#]
    {
        let refused = mill.refuse(request);
        assert_eq!(refused.failure.code, ErrorCode::DuplicateId, "{refused}");
    }
    mill.call().finish(Ok(json("1")));
    mill.call().finish(Ok(json("2")));
    ended(&number);
    ended(&name);
    let refused = mill.refuse(r#"{"handler":"echo","task_id":17}"#);
    assert_eq!(refused.failure.code, ErrorCode::DuplicateId, "its outcome is kept, so the id is taken");
    assert_eq!(refused.id, Some(TaskId::Number(17)));
    assert_eq!(mill.handle.get(&TaskId::Number(17)).unwrap().outcome().unwrap().status(), 0);
    assert_eq!(mill.settle().refused["duplicate-id"], 3);
}

#[test]
fn an_id_is_free_again_once_its_outcome_is_gone() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    for round in 0..3 {
        let how =
            Submit { reader: Some(scribe.reader(round, Wants::Result)), keep: false, ..Submit::default() };
        let accepted = mill.handle.submit(br#"{"handler":"echo","task_id":1}"#, how).unwrap();
        ended(&accepted.task);
        mill.settle();
        assert_eq!(scribe.ends(round), 1);
    }
}

#[test]
fn what_was_never_there_is_not_found_and_what_is_over_is_gone() {
    let mill = Mill::start(small());
    let code = |id: &TaskId| mill.handle.get(id).map(|_| ()).unwrap_err().code;
    assert_eq!(code(&TaskId::Assigned(1)), ErrorCode::NotFound);
    assert_eq!(code(&TaskId::Number(1)), ErrorCode::NotFound);
    let accepted = mill
        .handle
        .submit(br#"{"handler":"echo"}"#, Submit { reader: None, keep: false, ..Submit::default() })
        .unwrap();
    assert_eq!(accepted.task.id(), &TaskId::Assigned(1));
    ended(&accepted.task);
    mill.settle();
    assert_eq!(code(&TaskId::Assigned(1)), ErrorCode::ResultGone);
    assert_eq!(mill.handle.cancel(&TaskId::Assigned(1)).unwrap_err().code, ErrorCode::ResultGone);
    assert_eq!(code(&TaskId::Assigned(2)), ErrorCode::NotFound);
    assert_eq!(code(&TaskId::Assigned(0)), ErrorCode::NotFound);
    assert_eq!(code(&TaskId::Assigned(u64::MAX)), ErrorCode::NotFound);
    assert_eq!(mill.handle.cancel(&TaskId::Number(9)).unwrap_err().code, ErrorCode::NotFound);
}

#[test]
fn a_full_queue_says_when_to_come_again_and_leaves_nothing() {
    let mut config = small();
    config.pool.queue_capacity = 2;
    let mill = Mill::start(config);
    let scribe = Scribe::new();
    mill.plug();
    let queued = [mill.submit(r#"{"handler":"echo"}"#), mill.submit(r#"{"handler":"echo"}"#)];
    let before = mill.handle.list(&ListFilter::default()).len();
    for number in 0..100 {
        let request = format!(r#"{{"handler":"echo","task_id":{number},"idempotency_key":"k{number}"}}"#);
        let how =
            Submit { reader: Some(scribe.reader(number, Wants::Result)), keep: true, ..Submit::default() };
        let refused = mill.handle.submit(request.as_bytes(), how).unwrap_err();
        assert_eq!(refused.failure.code, ErrorCode::QueueFull);
        assert_eq!(refused.id, Some(TaskId::Number(number)));
        let wait = refused.retry_after.expect("it is worth coming again");
        assert!(wait > Duration::ZERO && wait < SOON, "{wait:?}");
        assert_eq!(mill.handle.get(&TaskId::Number(number)).unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(scribe.count(number), 0, "a reader of what was refused is told nothing");
    }
    assert_eq!(Arc::strong_count(&scribe), 1, "no reader is kept");
    assert_eq!(mill.handle.list(&ListFilter::default()).len(), before);
    assert_eq!((mill.handle.live(), mill.handle.stats().keys), (3, 0));
    mill.unplug();
    queued.iter().for_each(|task| assert_eq!(ended(task).status(), 0));
    let stats = mill.settle();
    assert_eq!((stats.accepted, stats.refused["queue-full"]), (3, 100));
    let again = mill.submit(r#"{"handler":"echo","task_id":5,"idempotency_key":"k5"}"#);
    assert_eq!(ended(&again).status(), 0, "the same request, later");
}

#[test]
fn more_tasks_than_tasks_max_are_refused_wherever_they_wait() {
    let mut config = small();
    config.tasks_max = 3;
    let mill = Mill::start(config);
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    let held = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    mill.plug();
    let refused = mill.refuse(r#"{"handler":"echo"}"#);
    assert_eq!(refused.failure.code, ErrorCode::QueueFull);
    assert!(refused.failure.message.contains("tasks_max"), "{refused}");
    assert!(refused.retry_after.is_some());
    call.finish(Ok(json("1")));
    ended(&held);
    mill.unplug();
    mill.handle.cancel(delayed.id()).unwrap();
    mill.settle();
    ended(&mill.submit(r#"{"handler":"echo"}"#));
}

#[test]
fn a_submitter_that_may_wait_gets_in_when_there_is_room() {
    let mut config = small();
    config.pool.queue_capacity = 1;
    let mill = Mill::start(config);
    mill.plug();
    mill.submit(r#"{"handler":"echo"}"#);
    let refused = mill.handle.submit_wait(br#"{"handler":"echo"}"#, Duration::from_millis(20)).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::QueueFull);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| mill.handle.submit_wait(br#"{"handler":"echo","task_id":"w"}"#, NEVER));
        let waits = || mill.handle.stats().refused["queue-full"] >= 2;
        until("the waiter was refused at least once", waits);
        mill.unplug();
        assert_eq!(ended(&waiter.join().unwrap().unwrap().task).status(), 0);
    });
    mill.settle();
}

/// Names the region that its argument `region` names.
struct Reads;

impl Handler for Reads {
    fn start(&self, call: Call) {
        let mut bytes = [0; 2];
        let outcome = call.regions()[0].read(0, &mut bytes);
        let text = format!("{bytes:?}");
        call.finish(outcome.map(|()| json(&text)));
    }

    fn regions(&self, args: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        let args: serde_json::Value = serde_json::from_str(args.get()).unwrap();
        let name = args["region"].as_str().ok_or_else(|| {
            TaskFailure::new(ErrorCode::BadArguments, "args.region: expected a string, got nothing")
        })?;
        Ok(vec![RegionUse { name: name.into(), access: Access::Read }])
    }

    fn timeout(&self) -> Option<Duration> {
        Some(NEVER)
    }
}

#[test]
fn a_region_is_looked_up_before_the_task_is_queued_and_held_until_it_ran() {
    let mut registry = Registry::new();
    registry.add("reads", Reads).unwrap();
    let symbols = Symbols::new();
    let memory = Arc::new(HeapMemory::new(2));
    symbols.register("orders", memory, Access::ReadWrite).unwrap();
    let service = Service::start(small(), registry, symbols.clone()).unwrap();
    let handle = service.handle();
    let submit = |text: &str| handle.submit(text.as_bytes(), Submit::default());
    let unknown = submit(r#"{"handler":"reads","args":{"region":"order"}}"#).unwrap_err();
    assert_eq!(unknown.failure.code, ErrorCode::UnknownSymbol, "{unknown}");
    let nothing = submit(r#"{"handler":"reads"}"#).unwrap_err();
    assert_eq!(nothing.failure.code, ErrorCode::BadArguments, "{nothing}");
    assert_eq!(handle.live(), 0);
    let late = submit(r#"{"handler":"reads","args":{"region":"orders"},"delay_ms":20}"#).unwrap();
    symbols.unregister("orders").unwrap();
    assert_eq!(ended(&late.task).result().unwrap().get(), "[0, 0]");
}

#[test]
fn a_call_says_what_was_asked() {
    let mill = Mill::start(small());
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let task = mill.submit(&format!(
        r#"{{"handler":"hold","task_id":"x","args":{{"n": 1}},"timeout_ms":3600000,"traceparent":"{trace}"}}"#
    ));
    let call = mill.call();
    assert_eq!((call.task_id(), call.handler(), call.attempt()), (task.id(), "hold", 1));
    assert_eq!((call.args().get(), call.traceparent()), (r#"{"n": 1}"#, Some(trace)));
    assert!(call.deadline().is_some() && !call.is_cancelled() && call.regions().is_empty());
    let wrong = call.read_args::<Vec<u32>>().unwrap_err();
    assert_eq!(wrong.code, ErrorCode::BadArguments);
    assert!(wrong.message.starts_with("args: ") && !wrong.message.contains("line"), "{wrong}");
    call.finish_with_args();
    assert_eq!(ended(&task).result().unwrap().get(), r#"{"n": 1}"#);
}

#[test]
fn a_list_is_newest_first_and_shows_what_was_asked_for() {
    let mill = Mill::start(small());
    for number in 0..5 {
        ended(&mill.submit(&format!(r#"{{"handler":"echo","task_id":{number}}}"#)));
    }
    let held = mill.submit(r#"{"handler":"hold"}"#);
    let _call = mill.call();
    let ids = |filter: ListFilter| -> Vec<String> {
        mill.handle.list(&filter).iter().map(|status| status.task_id.to_string()).collect()
    };
    assert_eq!(ids(ListFilter::default()), [r#""t1""#, "4", "3", "2", "1", "0"]);
    assert_eq!(ids(ListFilter { max: Some(2), ..ListFilter::default() }), [r#""t1""#, "4"]);
    assert_eq!(ids(ListFilter { max: Some(0), ..ListFilter::default() }), [""; 0]);
    let ended_first = ListFilter { stage: Some(Stage::Ended), max: Some(1), ..ListFilter::default() };
    assert_eq!(ids(ended_first), ["4"]);
    let of_hold = ListFilter { handler: Some("hold".to_owned()), ..ListFilter::default() };
    assert_eq!(ids(of_hold), [held.id().to_string()]);
    assert_eq!(ids(ListFilter { handler: Some("no".to_owned()), ..ListFilter::default() }), [""; 0]);
}

#[test]
fn a_status_follows_the_task() {
    let mut config = small();
    config.retry.backoff_min = NEVER;
    config.retry.backoff_max = NEVER;
    let mill = Mill::start(config);
    let delayed = mill.submit(r#"{"handler":"hold","delay_ms":3600000}"#).status();
    assert_eq!((delayed.stage, delayed.attempts, delayed.ran_us), (Stage::Delayed, 0, None));
    mill.plug();
    let task = mill.submit(r#"{"handler":"hold","retries":1}"#);
    assert_eq!(task.status().stage, Stage::Queued);
    mill.unplug();
    let call = mill.call();
    call.progress(0.5);
    call.log("half way");
    let running = task.status();
    assert_eq!((running.stage, running.attempts), (Stage::Running, 1));
    assert_eq!((running.progress, running.events), (Some(0.5), 2));
    assert!(running.ran_us.is_some() && running.status.is_none());
    call.finish(Err(TaskFailure::new(ErrorCode::HandlerError, "once more")));
    assert_eq!((task.status().stage, task.status().attempts), (Stage::Retrying, 1));
    mill.handle.cancel(task.id()).unwrap();
    let over = task.status();
    assert_eq!((over.stage, over.status, over.error), (Stage::Ended, Some(-101), Some("cancelled")));
    assert_eq!(failed(&task).message, over.message.unwrap());
    assert!(is_at(&task, "ended"));
}

/// A service with one worker and one place, whose worker is busy, and a task that waits in that place.
fn crammed(back_pressure: BackPressure) -> (Mill, Arc<Task>) {
    let mut config = small();
    config.pool.queue_capacity = 1;
    config.pool.back_pressure = back_pressure;
    let mill = Mill::start(config);
    mill.plug();
    let waiting = mill.submit(r#"{"handler":"echo","task_id":"old"}"#);
    (mill, waiting)
}

#[test]
fn a_door_is_never_kept_waiting_whatever_the_pool_would_do() {
    for policy in [
        BackPressure::Reject,
        BackPressure::CallerRuns,
        BackPressure::Block { timeout: None },
        BackPressure::Block { timeout: Some(NEVER) },
    ] {
        let (mill, waiting) = crammed(policy);
        for request in [
            r#"{"handler":"echo"}"#,
            r#"{"handler":"echo","affinity":"a","task_id":"new"}"#,
            r#"{"handler":"panic"}"#,
        ] {
            match mill.handle.submit(request.as_bytes(), Submit::default()) {
                Ok(keyed) => assert_eq!(keyed.task.id().to_string(), r#""new""#, "it has a place of its own"),
                Err(refused) => {
                    assert_eq!(refused.failure.code, ErrorCode::QueueFull, "{policy:?}: {refused}")
                }
            }
        }
        assert!(is_at(&waiting, "queued"));
        mill.unplug();
        assert_eq!(ended(&waiting).status(), 0);
        mill.settle();
    }
}

#[test]
fn where_the_oldest_goes_it_is_told_so_and_the_newest_runs() {
    let (mill, oldest) = crammed(BackPressure::DropOldest);
    let scribe = Scribe::new();
    let watching = oldest.watch(scribe.reader(1, Wants::Result)).unwrap();
    let tasks: Vec<_> = (0..100).map(|_| mill.submit(r#"{"handler":"echo"}"#)).collect();
    assert_eq!(failed(&oldest).code, ErrorCode::Dropped);
    assert_eq!(failed(&oldest).message, "the queue was full and back_pressure.policy drops tasks");
    mill.unplug();
    let (last, dropped) = tasks.split_last().unwrap();
    assert!(dropped.iter().all(|task| failed(task).code == ErrorCode::Dropped));
    assert_eq!(ended(last).status(), 0);
    let stats = mill.settle();
    assert_eq!((stats.failed["dropped"], stats.succeeded, scribe.ends(1)), (100, 2, 1));
    drop(watching);
}

#[test]
fn where_the_newest_goes_it_is_told_so_and_the_oldest_runs() {
    let (mill, oldest) = crammed(BackPressure::DropNewest);
    let scribe = Scribe::new();
    let how = Submit { reader: Some(scribe.reader(1, Wants::Result)), keep: true, ..Submit::default() };
    let newest = mill.handle.submit(br#"{"handler":"echo","retries":9}"#, how).unwrap();
    assert_eq!(failed(&newest.task).code, ErrorCode::Dropped);
    assert_eq!((scribe.ends(1), ended(&newest.task).attempts), (1, 0));
    mill.unplug();
    assert_eq!(ended(&oldest).status(), 0);
    assert_eq!(mill.settle().failed["dropped"], 1);
}

/// The callback of a task that is dropped runs in the middle of the submission that drops it.
#[test]
fn a_task_can_be_cancelled_in_the_middle_of_its_own_submission() {
    let (mill, oldest) = crammed(BackPressure::DropOldest);
    let (handle, (say, hear)) = (mill.handle.clone(), mpsc::channel());
    oldest.on_end(move |_, _| say.send(handle.cancel(&TaskId::Name("new".into()))).unwrap());
    let task = mill.submit(r#"{"handler":"hold","task_id":"new"}"#);
    assert_eq!(hear.recv_timeout(SOON).unwrap(), Ok(()));
    assert_eq!(failed(&task).code, ErrorCode::Cancelled);
    mill.unplug();
    mill.settle();
    assert!(mill.has_call().is_none(), "what was cancelled is not run");
    assert_eq!(mill.handle.pool_metrics().panicked, 0);
}

/// Submissions that are refused, while somebody who knows the id cancels: either of both wins, wholly.
#[test]
fn a_cancel_that_races_with_a_refusal_leaves_nothing_behind() {
    let (mill, waiting) = crammed(BackPressure::Reject);
    let over = AtomicBool::new(false);
    let mut codes = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let _ = mill.handle.cancel(&TaskId::Number(1));
            }
        });
        for _ in 0..20_000 {
            match mill.handle.submit(
                br#"{"handler":"echo","task_id":1}"#,
                Submit { reader: None, keep: false, ..Submit::default() },
            ) {
                Ok(accepted) => codes.push(failed(&accepted.task).code),
                // The id is free again a moment after the outcome of the last task was set.
                Err(refused) => codes.push(refused.failure.code),
            }
        }
        over.store(true, SeqCst);
    });
    // Judged after the scope, which would wait for the canceller for ever if this panicked inside.
    let expected = [ErrorCode::Cancelled, ErrorCode::QueueFull, ErrorCode::DuplicateId];
    assert!(codes.iter().all(|code| expected.contains(code)), "{codes:?}");
    mill.unplug();
    ended(&waiting);
    mill.settle();
}

/// What the argument `name` of calls said, and when they ran.
type Notes = Arc<Mutex<Vec<(String, Instant)>>>;

/// The order in which calls of `note` ran.
fn noting(config: ServiceConfig) -> (Mill, Notes) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let of_handler = Arc::clone(&order);
    let note = move |call: &Call| {
        let args: serde_json::Value = call.read_args()?;
        of_handler.lock().unwrap().push((args["name"].as_str().unwrap().to_owned(), Instant::now()));
        Ok(json("null"))
    };
    (Mill::start_with(config, |registry| registry.add("note", function(note)).unwrap()), order)
}

#[test]
fn urgent_tasks_overtake_and_the_others_are_not_forgotten() {
    let (mill, order) = noting(small());
    mill.plug();
    for priority in ["low", "high"] {
        for _ in 0..12 {
            let request = r#"{"handler":"note","args":{"name":"PRIORITY"},"priority":"PRIORITY"}"#;
            mill.submit(&request.replace("PRIORITY", priority));
        }
    }
    mill.unplug();
    mill.settle();
    let ran = order.lock().unwrap().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let last_high = ran.iter().rposition(|name| name == "high").unwrap();
    let lows_before = ran[..last_high].iter().filter(|name| *name == "low").count();
    assert_eq!(ran.len(), 24);
    assert!(lows_before <= 3, "a low one comes once in thirteen: {ran:?}");
}

#[test]
fn tasks_with_the_same_key_go_to_the_same_worker() {
    let mut config = small();
    config.pool.workers = 4;
    config.pool.inbox_capacity = 1024;
    config.pool.affinity.steal_after = NEVER;
    let whoami = |_: &Call| Ok(json(&format!("{:?}", thread::current().name().unwrap())));
    let mill = Mill::start_with(config, |registry| registry.add("whoami", function(whoami)).unwrap());
    let tasks: Vec<Vec<_>> = (0..16)
        .map(|key| {
            let request = format!(r#"{{"handler":"whoami","affinity":"key {key}"}}"#);
            (0..10).map(|_| mill.submit(&request)).collect()
        })
        .collect();
    let mut workers: Vec<&str> = Vec::new();
    for same in &tasks {
        let names: Vec<_> = same.iter().map(|task| ended(task).result().unwrap().get()).collect();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
        workers.push(names[0]);
    }
    workers.sort_unstable();
    workers.dedup();
    assert!(workers.len() > 1, "sixteen keys have more than one worker");
}

#[test]
fn a_delayed_task_is_not_early_and_what_is_due_first_runs_first() {
    let (mill, order) = noting(small());
    let mut due = Vec::new();
    for (name, delay) in [("c", 120), ("a", 20), ("b", 70), ("now", 0)] {
        let wait = Duration::from_millis(delay);
        let from = Instant::now() + wait;
        let request = r#"{"handler":"note","args":{"name":"NAME"},"delay_ms":DELAY}"#;
        mill.submit(&request.replace("NAME", name).replace("DELAY", &delay.to_string()));
        due.push((name, from, Instant::now() + wait));
    }
    mill.settle();
    let ran = order.lock().unwrap().clone();
    let at = |name: &str| ran.iter().position(|(of, _)| of == name).unwrap();
    for (name, from, to) in &due {
        assert!(ran[at(name)].1 >= *from, "{name} ran too early");
        for (other, other_from, _) in &due {
            // Certain only where the machine did not stand still between two submissions.
            assert!(to >= other_from || at(name) < at(other), "{name} before {other}: {ran:?}");
        }
    }
}
