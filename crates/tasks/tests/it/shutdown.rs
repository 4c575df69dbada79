//! However a service ends, every task it accepted has one outcome, everybody who waits is told once, and
//! nothing is left: no thread, no memory, no timer.
//!
//! A daemon is stopped while clients hand in work, handlers run and readers read. None of them may be left
//! waiting for an answer that never comes, and what comes a moment too late is refused and not half taken.

use crate::toys::{
    Mill, NEVER, SOON, Scribe, ended, failed, failure, is_at, json, panic_quietly, small, until,
};
use millpond_tasks::symbols::RegionUse;
use millpond_tasks::{
    Call, DrainReport, ErrorCode, Handler, ListFilter, ServiceConfig, StopCause, Submit, Task, TaskFailure,
    TaskId, Wants,
};
use serde_json::value::RawValue;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;
use std::{env, fs, process, thread};

fn slow_retries() -> ServiceConfig {
    let mut config = small();
    config.retry.backoff_min = NEVER;
    config.retry.backoff_max = NEVER;
    config
}

/// How often each of these was called.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<Vec<usize>>>);

impl Tally {
    fn of(len: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![0; len])))
    }

    fn add(&self, at: usize) {
        self.0.lock().unwrap()[at] += 1;
    }

    fn each_once(&self, what: &str) {
        let counts = self.0.lock().unwrap();
        let wrong = counts.iter().enumerate().filter(|(_, count)| **count != 1).take(5).collect::<Vec<_>>();
        assert!(wrong.is_empty(), "{what}: some were not called once, (which, how often): {wrong:?}");
    }
}

#[test]
fn a_drain_takes_nothing_new_and_finishes_what_it_has() {
    let mill = Mill::start(small());
    mill.plug();
    let queued = mill.submit(r#"{"handler":"echo"}"#);
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":50}"#);
    let retried = mill.submit(r#"{"handler":"fail","args":{"code":"handler-error"},"retries":2}"#);
    let service = mill.service.as_ref().unwrap();
    let over = service.drain(Duration::ZERO);
    assert_eq!(over, DrainReport { ended: 0, left: 4, postponed: 0 }, "the time is over at once");
    assert!(mill.handle.is_draining());
    let refused = mill.refuse(r#"{"handler":"echo"}"#);
    assert_eq!(refused.failure.code, ErrorCode::Draining);
    assert_eq!(refused.retry_after, None, "this daemon will not take it");
    mill.unplug();
    let report = service.drain(SOON);
    assert_eq!(report.left, 0);
    assert!([&queued, &delayed, &retried].iter().all(|task| task.is_ended()));
    assert_eq!((ended(&queued).status(), ended(&delayed).status(), ended(&retried).attempts), (0, 0, 3));
    assert!(mill.handle.get(queued.id()).is_ok(), "outcomes can still be asked for");
    assert_eq!(mill.refuse(r#"{"handler":"echo"}"#).failure.code, ErrorCode::Draining);
    mill.settle();
}

#[test]
fn a_drain_without_a_limit_waits_for_the_last_task() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    thread::scope(|scope| {
        let draining = scope.spawn(|| mill.service.as_ref().unwrap().drain(Duration::MAX));
        until("it drains", || mill.handle.is_draining());
        call.finish(Ok(json("1")));
        assert_eq!(draining.join().unwrap().left, 0);
    });
    assert!(task.is_ended());
}

#[test]
fn everybody_was_told_when_a_drain_is_over() {
    let mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let is_drained = Arc::new(AtomicBool::new(false));
    let (early, was_told) = (Arc::clone(&is_drained), Arc::new(AtomicBool::new(false)));
    let of_callback = Arc::clone(&was_told);
    task.on_end(move |_, _| {
        // Gives a drain that does not wait for this the time to come back.
        for _ in 0..200 {
            if early.load(SeqCst) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        of_callback.store(true, SeqCst);
    });
    let call = mill.call();
    thread::scope(|scope| {
        scope.spawn(|| call.finish(Ok(json("1"))));
        until("it ends", || task.is_ended());
        assert_eq!(mill.service.as_ref().unwrap().drain(SOON).left, 0);
        is_drained.store(true, SeqCst);
        assert!(was_told.load(SeqCst), "the drain came back before the callback had returned");
    });
}

#[test]
fn a_stop_ends_tasks_in_every_stage_and_tells_why() {
    let mut mill = Mill::start(slow_retries());
    let scribe = Scribe::new();
    let retrying = mill.submit(r#"{"handler":"fail","args":{"code":"handler-error"},"retries":1}"#);
    until("its first attempt failed", || is_at(&retrying, "retrying"));
    let running = mill.submit(r#"{"handler":"hold","timeout_ms":3600000}"#);
    let call = mill.call();
    let (say, causes) = mpsc::channel();
    call.on_stop(move |cause| say.send(cause).unwrap());
    let done = mill.submit(r#"{"handler":"echo"}"#);
    ended(&done);
    mill.plug();
    let queued = mill.submit(r#"{"handler":"echo"}"#);
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    let tasks = [&retrying, &running, &queued, &delayed];
    let watching: Vec<_> = tasks
        .iter()
        .zip(0..)
        .map(|(task, tag)| task.watch(scribe.reader(tag, Wants::Result)).unwrap())
        .collect();
    let tally = Tally::of(4);
    for (at, task) in tasks.iter().enumerate() {
        let tally = tally.clone();
        task.on_end(move |_, _| tally.add(at));
    }
    mill.unplug();
    let report = mill.service.take().unwrap().stop(SOON);
    // The plug and the queued one may end by themselves, before the stop begins to count or after.
    assert!((3..=5).contains(&report.left) && report.left + report.ended as usize <= 5, "{report:?}");
    assert_eq!(causes.iter().collect::<Vec<_>>(), [StopCause::ShuttingDown]);
    assert_eq!(failed(&running).message, "the daemon stopped while the task ran");
    assert_eq!((failed(&running).code, failed(&delayed).code), (ErrorCode::Cancelled, ErrorCode::Draining));
    assert_eq!(failed(&retrying).code, ErrorCode::Draining);
    assert!(queued.is_ended());
    assert!((0..4).all(|tag| scribe.ends(tag) == 1 && scribe.count(tag) == 1));
    tally.each_once("callbacks");
    call.finish(Ok(json("\"too late\"")));
    assert_eq!(failed(&running).code, ErrorCode::Cancelled);
    assert_eq!(mill.refuse(r#"{"handler":"echo"}"#).failure.code, ErrorCode::Draining);
    assert!(mill.handle.list(&ListFilter::default()).is_empty());
    assert_eq!((mill.handle.live(), mill.handle.stats().timers), (0, 0));
    drop(watching);
}

#[test]
fn a_stop_without_a_limit_comes_back() {
    let mut mill = Mill::start(small());
    mill.submit(r#"{"handler":"hold","delay_ms":3600000}"#);
    let report = mill.service.take().unwrap().stop(Duration::MAX);
    assert_eq!(report, DrainReport { ended: 0, left: 1, postponed: 0 });
}

#[test]
fn a_stop_does_not_wait_longer_than_it_was_told_for_a_function_that_does_not_look() {
    let mut mill = Mill::start(small());
    let plugs = mill.plug();
    let report = mill.service.take().unwrap().stop(Duration::from_millis(10));
    assert_eq!(report, DrainReport { ended: 0, left: 1, postponed: 0 });
    assert_eq!(failed(&plugs[0]).code, ErrorCode::Cancelled);
    mill.unplug();
}

#[test]
fn a_service_that_is_dropped_ends_everything_too() {
    let mut mill = Mill::start(small());
    let delayed = mill.submit(r#"{"handler":"echo","delay_ms":3600000}"#);
    let running = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    drop(mill.service.take());
    assert_eq!((failed(&delayed).code, failed(&running).code), (ErrorCode::Draining, ErrorCode::Cancelled));
    assert!(call.is_cancelled());
}

#[test]
fn a_callback_that_panics_keeps_nobody_else_from_being_told() {
    let mut mill = Mill::start(small());
    let tally = Tally::of(4);
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let second = mill.submit(r#"{"handler":"hold","delay_ms":3600000}"#);
    let call = mill.call();
    let by_hook = tally.clone();
    call.on_stop(move |_| by_hook.add(3));
    for (at, task) in [(0, &task), (1, &task), (2, &second)] {
        let tally = tally.clone();
        task.on_end(|_, _| panic_quietly("the first panics"));
        task.on_end(move |_, _| tally.add(at));
    }
    mill.service.take().unwrap().stop(SOON);
    tally.each_once("those after a panic");
    assert!(task.is_ended() && second.is_ended());
}

/// Waits in `regions`, that is, in the middle of a submission, until it may go on; notes when it is closed.
#[derive(Clone, Default)]
struct Slow {
    is_inside: Arc<AtomicBool>,
    may_go: Arc<AtomicBool>,
    closed: Arc<AtomicUsize>,
}

impl Handler for Slow {
    fn start(&self, call: Call) {
        call.finish_with_args();
    }

    fn regions(&self, _: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        self.is_inside.store(true, SeqCst);
        until("the test lets the submission go on", || self.may_go.load(SeqCst));
        Ok(Vec::new())
    }

    fn close(&self, within: Duration) {
        assert!(within <= SOON);
        self.closed.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_request_that_comes_while_a_drain_or_a_stop_goes_by_is_refused_or_ended() {
    for request in [r#"{"handler":"slow"}"#, r#"{"handler":"slow","delay_ms":3600000,"idempotency_key":"k"}"#]
    {
        for stops in [false, true] {
            let slow = Slow::default();
            let of_mill = slow.clone();
            let mut mill = Mill::start_with(small(), |registry| registry.add("slow", of_mill).unwrap());
            let handle = mill.handle.clone();
            let submits = thread::spawn(move || handle.submit(request.as_bytes(), Submit::default()));
            until("the submission is under way", || slow.is_inside.load(SeqCst));
            if stops {
                mill.service.take().unwrap().stop(SOON);
                assert_eq!(slow.closed.load(SeqCst), 1, "a handler is closed once");
            } else {
                assert_eq!(mill.service.as_ref().unwrap().drain(SOON).left, 0);
            }
            slow.may_go.store(true, SeqCst);
            let refused = submits.join().unwrap().expect_err("nothing is taken after the drain");
            assert_eq!(refused.failure.code, ErrorCode::Draining, "{request}, {stops}");
            let stats = mill.handle.stats();
            assert_eq!((stats.accepted, stats.live, stats.keys), (0, 0, 0));
        }
    }
}

/// What threads that submit everything at once leave behind for the count.
struct Harvest {
    tally: Tally,
    scribe: Arc<Scribe>,
    tasks: Vec<Arc<Task>>,
    watching: Vec<millpond_tasks::Watching>,
}

/// Submits tasks for every stage from four threads until they are refused for good; `end` runs meanwhile.
fn submit_while(mill: &Mill, end: impl FnOnce()) -> Harvest {
    const MOST: usize = 20_000;
    let tally = Tally::of(MOST);
    let scribe = Scribe::new();
    let count = AtomicUsize::new(0);
    let accepted = Mutex::new((Vec::new(), Vec::new()));
    let submit = || {
        let mut mine = (Vec::new(), Vec::new());
        loop {
            let number = count.fetch_add(1, SeqCst);
            if number >= MOST {
                break;
            }
            let request = match number % 6 {
                0 => r#"{"handler":"echo","delay_ms":3600000}"#,
                1 => r#"{"handler":"hold","timeout_ms":3600000}"#,
                2 => r#"{"handler":"fail","args":{"code":"handler-error"},"retries":2}"#,
                3 => r#"{"handler":"echo","delay_ms":1,"priority":"high"}"#,
                4 => r#"{"handler":"hold","priority":"low","retries":3}"#,
                _ => r#"{"handler":"echo"}"#,
            };
            let reader = Some(scribe.reader(number as u64, Wants::Result));
            match mill.handle.submit(
                request.as_bytes(),
                Submit { reader, keep: number.is_multiple_of(2), ..Submit::default() },
            ) {
                Ok(one) => {
                    let tally = tally.clone();
                    one.task.on_end(move |_, _| tally.add(number));
                    mine.0.push((number, one.task));
                    mine.1.extend(one.watching);
                }
                Err(refused) if refused.failure.code == ErrorCode::QueueFull => {}
                Err(refused) => {
                    assert_eq!(refused.failure.code, ErrorCode::Draining, "{refused}");
                    break;
                }
            }
        }
        let mut accepted = accepted.lock().unwrap();
        accepted.0.append(&mut mine.0);
        accepted.1.append(&mut mine.1);
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(submit);
        }
        until("there is something to end", || mill.handle.live() > 500 || count.load(SeqCst) >= MOST);
        end();
    });
    let (tasks, watching) = accepted.into_inner().unwrap();
    let numbers: Vec<usize> = tasks.iter().map(|(number, _)| *number).collect();
    // Only those that were accepted count.
    let counts = numbers.iter().map(|number| tally.0.lock().unwrap()[*number]).collect::<Vec<_>>();
    let unaccepted: usize = tally.0.lock().unwrap().iter().sum::<usize>() - counts.iter().sum::<usize>();
    assert_eq!(unaccepted, 0, "what was refused has no end");
    for (number, task) in &tasks {
        assert!(task.is_ended(), "{task:?} was accepted and has not ended");
        assert_eq!(scribe.count(*number as u64), 1, "readers of {task:?}");
    }
    let told: usize = (0..MOST as u64).map(|tag| scribe.count(tag)).sum();
    assert_eq!(told, tasks.len(), "nobody else was told");
    *tally.0.lock().unwrap() = counts;
    Harvest { tally, scribe, tasks: tasks.into_iter().map(|(_, task)| task).collect(), watching }
}

fn crowded() -> ServiceConfig {
    let mut config = small();
    config.pool.workers = 2;
    config.pool.queue_capacity = 1024;
    config
}

#[test]
fn a_stop_amid_thousands_of_submissions_leaves_no_task_without_an_end() {
    for _ in 0..3 {
        let mut mill = Mill::start(crowded());
        let service = Mutex::new(mill.service.take());
        let harvest = submit_while(&mill, || {
            service.lock().unwrap().take().unwrap().stop(SOON);
        });
        harvest.tally.each_once("callbacks");
        let stats = mill.handle.stats();
        let failed: u64 = stats.failed.values().sum();
        assert_eq!((stats.accepted, stats.live, stats.timers), (harvest.tasks.len() as u64, 0, 0));
        assert_eq!(stats.accepted, stats.succeeded + failed);
        assert_eq!(stats.stages.values().sum::<usize>(), 0);
        let weak: Vec<Weak<Task>> = harvest.tasks.iter().map(Arc::downgrade).collect();
        drop((harvest.tasks, harvest.watching));
        while let Some(call) = mill.has_call() {
            assert!(call.is_cancelled());
        }
        assert!(weak.iter().all(|task| task.upgrade().is_none()), "tasks outlive their service");
        assert_eq!(Arc::strong_count(&harvest.scribe), 1, "readers outlive their tasks");
    }
}

#[test]
fn a_drain_amid_thousands_of_submissions_leaves_only_what_a_stop_then_ends() {
    let mut mill = Mill::start(crowded());
    let service = Mutex::new(mill.service.take());
    let harvest = submit_while(&mill, || {
        let service = service.lock().unwrap().take().unwrap();
        let report = service.drain(Duration::from_millis(50));
        let live = mill.handle.live();
        assert!(live <= report.left, "{live} tasks are under way, the drain had said {}", report.left);
        let stopped = service.stop(SOON);
        assert!(stopped.left <= report.left, "{stopped:?} after {report:?}");
    });
    harvest.tally.each_once("callbacks");
    assert_eq!(mill.handle.stats().accepted, harvest.tasks.len() as u64);
}

#[test]
fn a_task_that_is_not_kept_is_gone_when_it_ended() {
    let mill = Mill::start(small());
    let scribe = Scribe::new();
    let submit = |request: &str, keep: bool| {
        let how =
            Submit { reader: Some(scribe.reader(0, Wants::Stream { from: 0 })), keep, ..Submit::default() };
        let accepted = mill.handle.submit(request.as_bytes(), how).unwrap();
        (accepted.task.id().clone(), Arc::downgrade(&accepted.task), accepted.watching)
    };
    let (_, echoed, watching) = submit(r#"{"handler":"echo","timeout_ms":3600000}"#, false);
    until("it ends", || mill.handle.live() == 0);
    mill.settle();
    drop(watching);
    assert!(echoed.upgrade().is_none(), "one that answered");

    let (id, cancelled, watching) = submit(r#"{"handler":"echo","delay_ms":3600000}"#, false);
    mill.handle.cancel(&id).unwrap();
    drop(watching);
    assert!(cancelled.upgrade().is_none(), "one that was cancelled while it was delayed");

    mill.plug();
    let (id, queued, watching) = submit(r#"{"handler":"echo"}"#, false);
    mill.handle.cancel(&id).unwrap();
    drop(watching);
    mill.unplug();
    mill.settle();
    assert!(queued.upgrade().is_none(), "one that was cancelled in the queue");

    let (_, retried, watching) = submit(r#"{"handler":"hold","retries":1,"timeout_ms":3600000}"#, false);
    mill.call().finish(Err(failure(ErrorCode::HandlerError)));
    let late = mill.call();
    late.on_stop(|_| ());
    mill.handle.cancel(late.task_id()).unwrap();
    drop((watching, late));
    // The timer's thread may still be about to let go.
    until("one that was cancelled in its second attempt is gone", || retried.upgrade().is_none());

    let (id, kept, watching) = submit(r#"{"handler":"echo"}"#, true);
    mill.settle();
    drop(watching);
    assert!(kept.upgrade().is_some() && mill.handle.get(&id).is_ok());
    mill.handle.take(&id).unwrap();
    assert!(kept.upgrade().is_none(), "one that was taken");
    assert_eq!(Arc::strong_count(&scribe), 1);
}

#[test]
fn a_task_may_outlive_its_service() {
    let mut mill = Mill::start(small());
    let task = mill.submit(r#"{"handler":"hold"}"#);
    let call = mill.call();
    call.partial(json("1")).unwrap();
    drop(mill.service.take());
    drop(mill);
    assert!(call.is_cancelled() && task.is_ended());
    let scribe = Scribe::new();
    let watching = task.watch(scribe.reader(0, Wants::Stream { from: 0 })).unwrap();
    drop(call);
    assert_eq!((scribe.ends(0), task.status().events), (1, 1));
    let weak = Arc::downgrade(&task);
    drop((task, watching));
    assert!(weak.upgrade().is_none());
}

/// Runs a test of this file in a process of its own, where no other test starts threads.
fn alone(name: &str, work: impl FnOnce()) {
    const ALONE: &str = "MILLPOND_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return work();
    }
    let mut again = process::Command::new(env::current_exe().unwrap());
    let output = again.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn threads() -> Vec<String> {
    let names = fs::read_dir("/proc/self/task").unwrap().flatten().map(|entry| entry.path().join("comm"));
    names.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn no_thread_is_left_however_a_service_ends() {
    alone("shutdown::no_thread_is_left_however_a_service_ends", || {
        let before = threads();
        for stops in [true, false].repeat(5) {
            let mut mill = Mill::start(crowded());
            for id in 0..100 {
                mill.submit(&format!(r#"{{"handler":"echo","task_id":{id},"timeout_ms":3600000}}"#));
            }
            mill.submit(r#"{"handler":"hold","delay_ms":3600000}"#);
            assert!(threads().len() >= before.len() + 3, "two workers and the timer: {:?}", threads());
            let service = mill.service.take().unwrap();
            if stops {
                service.stop(SOON);
            } else {
                drop(service);
            }
            // A thread that was joined may be listed for another moment.
            until("no thread is left", || threads().len() == before.len());
            assert_eq!(mill.handle.get(&TaskId::Number(5)).unwrap_err().code, ErrorCode::NotFound);
        }
    });
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_tasks_that_are_over_or_were_refused() {
    alone("shutdown::memory_does_not_grow_with_tasks_that_are_over_or_were_refused", || {
        let mut config = small();
        config.results.max = 10;
        config.keys.max = 10;
        config.pool.queue_capacity = 1;
        let mill = Mill::start(config);
        let round = |count: usize| {
            mill.plug();
            for number in 0..count {
                let request = format!(
                    r#"{{"handler":"echo","delay_ms":{},"idempotency_key":"{number:0>200}"}}"#,
                    number % 2 * 3_600_000
                );
                // The lane is full after one; with a delay it is taken, and cancelled.
                if let Ok(accepted) = mill.handle.submit(request.as_bytes(), Submit::default()) {
                    let _ = mill.handle.cancel(accepted.task.id());
                }
            }
            mill.unplug();
            mill.settle();
        };
        let resident = || {
            let text = fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        round(10_000);
        let before = resident();
        round(60_000);
        let grown = resident().saturating_sub(before);
        assert!(grown < 4 << 20, "60 000 requests left {grown} bytes");
    });
}
