//! Back-pressure: what a full queue means is what the policy says, and every task is accounted for.
//!
//! Whoever submits must know which of four things became of a task: it ran, it was dropped and its ticket says so, it
//! came back, or it ran on the submitter's own thread. So every policy meets every way to submit, from one thread and
//! from many, with the worker kept busy (then the numbers are known beforehand) and at work (then they must add up).
//!
//! Not here: what the policies decide (`crates/policy/tests/admit.rs`), a pool without policies (`own_pool.rs`).

use crate::busy::{Busy, start, thread_name};
use crate::eventually::{Sleeper, eventually, promptly};
use crate::futures::Door;
use crate::witness::{Witnesses, add};
use millpond::{
    BackPressure, Pool, PoolConfig, PoolHandle, Priority, Refused, SubmitError, TaskError, TaskOptions,
    Ticket, block_on, yield_now,
};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How many tasks fit.
const CAPACITY: usize = 8;
/// How many each producer submits.
const EACH: usize = 25;
const BLOCK: BackPressure = BackPressure::Block { timeout: None };
const BLOCK_BRIEFLY: BackPressure = BackPressure::Block { timeout: Some(Duration::from_millis(1)) };
const POLICIES: [BackPressure; 5] = [
    BackPressure::Reject,
    BackPressure::DropNewest,
    BackPressure::DropOldest,
    BLOCK,
    BackPressure::CallerRuns,
];

fn pool_with(back_pressure: BackPressure, queue_capacity: usize) -> Pool {
    start(PoolConfig { workers: 1, queue_capacity, back_pressure, ..PoolConfig::default() })
}

/// A pool whose worker is busy and whose normal lane is full.
fn full_pool(back_pressure: BackPressure) -> (Pool, Busy) {
    let pool = pool_with(back_pressure, 2);
    let busy = Busy::one(&pool);
    (0..2).for_each(|_| pool.try_spawn(|| ()).unwrap());
    (pool, busy)
}

/// The ways to submit.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Submit,
    Batch,
    Async,
}

/// What became of the tasks of one producer, by their numbers.
#[derive(Default)]
struct Account {
    accepted: Vec<(usize, Ticket<usize>)>,
    refused: Vec<Refused>,
}

impl Account {
    /// Notes why a task came back, and sees by what it returns that it is the one that was given.
    fn came_back(&mut self, why: Refused, number: usize, returned: usize) {
        assert_eq!(returned, number);
        self.refused.push(why);
    }

    fn submit(&mut self, pool: &PoolHandle, runs: &Arc<Vec<AtomicUsize>>, verb: Verb, numbers: Range<usize>) {
        let task = |number: usize| {
            let runs = Arc::clone(runs);
            move || {
                add(&runs[number], 1);
                number
            }
        };
        match verb {
            Verb::Submit => {
                for number in numbers {
                    match pool.submit(task(number)) {
                        Ok(ticket) => self.accepted.push((number, ticket)),
                        Err(refused) => self.came_back(refused.reason(), number, refused.into_inner()()),
                    }
                }
            }
            Verb::Async => {
                for number in numbers {
                    let work = task(number);
                    match pool.spawn_async(async move { work() }) {
                        Ok(ticket) => self.accepted.push((number, ticket)),
                        Err(refused) => {
                            self.came_back(refused.reason(), number, block_on(refused.into_inner()));
                        }
                    }
                }
            }
            Verb::Batch => self.submit_batches(pool, numbers.start, numbers.map(task)),
        }
    }

    /// Submits a batch, and what is left of it after a refusal as another.
    fn submit_batches<I>(&mut self, pool: &PoolHandle, mut first: usize, mut tasks: I)
    where
        I: ExactSizeIterator<Item: FnOnce() -> usize + Send + 'static>,
    {
        while tasks.len() > 0 {
            let (tickets, stopped) = match pool.submit_batch(tasks) {
                Ok(tickets) => (tickets, None),
                Err(stopped) => (stopped.accepted, Some((stopped.refused, stopped.rest))),
            };
            let taken = tickets.len();
            self.accepted.extend((first..).zip(tickets));
            let Some((refused, rest)) = stopped else { return };
            self.came_back(refused.reason(), first + taken, refused.into_inner()());
            (first, tasks) = (first + taken + 1, rest);
        }
    }
}

/// What became of all tasks of one cell.
#[derive(Debug)]
struct Outcome {
    ran: usize,
    /// The numbers of those whose tickets say so.
    dropped: Vec<usize>,
    refused: Vec<Refused>,
}

/// Submits in one way from so many threads, with the worker kept busy meanwhile or not; sees that each task has one
/// end and ran as often as that says, and that the pool has counted the same.
fn cell(policy: BackPressure, verb: Verb, producers: usize, held: bool) -> Outcome {
    let pool = pool_with(policy, CAPACITY);
    let busy = held.then(|| Busy::one(&pool));
    let runs: Arc<Vec<_>> = Arc::new((0..producers * EACH).map(|_| AtomicUsize::new(0)).collect());
    let accounts: Vec<Account> = thread::scope(|scope| {
        let (pool, runs) = (&pool, &runs);
        let producer = |first: usize| {
            move || {
                let mut account = Account::default();
                account.submit(pool, runs, verb, first * EACH..(first + 1) * EACH);
                account
            }
        };
        let threads: Vec<_> = (0..producers).map(|first| scope.spawn(producer(first))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(busy);
    let mut outcome = Outcome { ran: 0, dropped: Vec::new(), refused: Vec::new() };
    for account in accounts {
        outcome.refused.extend(account.refused);
        for (number, ticket) in account.accepted {
            match ticket.wait() {
                Ok(returned) => {
                    assert_eq!(runs[returned].load(Relaxed), 1);
                    outcome.ran += 1;
                }
                Err(TaskError::Dropped) => outcome.dropped.push(number),
                Err(error) => panic!("neither ran nor was dropped: {error}"),
            }
        }
    }
    let run_once = runs.iter().filter(|runs| runs.load(Relaxed) == 1).count();
    let never = runs.iter().filter(|runs| runs.load(Relaxed) == 0).count();
    assert_eq!((run_once, never), (outcome.ran + outcome.refused.len(), outcome.dropped.len()));
    assert_eq!(run_once + never, producers * EACH, "none ran twice");
    assert!(pool.drain(Duration::MAX).is_finished());
    let metrics = pool.metrics();
    assert_eq!(metrics.completed, outcome.ran as u64 + u64::from(held));
    assert_eq!(metrics.dropped, outcome.dropped.len() as u64);
    assert_eq!(metrics.ended(), metrics.completed + metrics.dropped);
    assert_eq!(metrics.pressure.dropped_newest + metrics.pressure.dropped_oldest, metrics.dropped);
    assert_eq!(metrics.pressure.refused + metrics.pressure.timed_out, outcome.refused.len() as u64);
    outcome
}

/// Every cell of one policy: calls `check` with the outcome if the worker was busy meanwhile, with how many tasks there
/// were, and with whether they came from one thread.
fn every_cell(policy: BackPressure, check: impl Fn(&Outcome, usize, bool) + Send + 'static) {
    promptly("every task has an end", move || {
        for verb in [Verb::Submit, Verb::Batch, Verb::Async] {
            for producers in [1, 4] {
                // Who waits for room without a limit waits for the worker.
                let outcome = cell(policy, verb, producers, policy != BLOCK);
                check(&outcome, producers * EACH, producers == 1);
                cell(policy, verb, producers, false);
            }
        }
    });
}

#[test]
fn reject_hands_back_every_task_that_finds_no_room() {
    every_cell(BackPressure::Reject, |outcome, tasks, _| {
        assert_eq!((outcome.ran, outcome.dropped.len()), (CAPACITY, 0));
        assert_eq!(outcome.refused, vec![Refused::Full; tasks - CAPACITY]);
    });
}

#[test]
fn drop_newest_drops_every_task_that_finds_no_room() {
    every_cell(BackPressure::DropNewest, |outcome, tasks, one| {
        assert_eq!((outcome.ran, outcome.refused.len()), (CAPACITY, 0));
        assert_eq!(outcome.dropped.len(), tasks - CAPACITY);
        assert!(!one || outcome.dropped.iter().copied().eq(CAPACITY..tasks), "{outcome:?}");
    });
}

#[test]
fn drop_oldest_drops_as_many_as_were_too_many_and_keeps_the_newest() {
    every_cell(BackPressure::DropOldest, |outcome, tasks, one| {
        // Among many, a submitter may find its place taken each time it looks, and gets its task back.
        assert_eq!(
            (outcome.ran, outcome.dropped.len() + outcome.refused.len()),
            (CAPACITY, tasks - CAPACITY)
        );
        assert!(outcome.refused.iter().all(|why| *why == Refused::Full));
        assert!(!one || outcome.dropped.iter().copied().eq(0..tasks - CAPACITY), "{outcome:?}");
    });
}

#[test]
fn block_waits_until_every_task_is_taken_in() {
    every_cell(BLOCK, |outcome, tasks, _| {
        assert_eq!((outcome.ran, outcome.dropped.len(), outcome.refused.len()), (tasks, 0, 0));
    });
}

#[test]
fn block_with_a_limit_hands_back_what_found_no_room_in_time() {
    every_cell(BLOCK_BRIEFLY, |outcome, tasks, _| {
        assert_eq!((outcome.ran, outcome.dropped.len()), (CAPACITY, 0));
        assert_eq!(outcome.refused, vec![Refused::TimedOut; tasks - CAPACITY]);
    });
}

#[test]
fn caller_runs_runs_every_task_somewhere() {
    every_cell(BackPressure::CallerRuns, |outcome, tasks, _| {
        assert_eq!((outcome.ran, outcome.dropped.len(), outcome.refused.len()), (tasks, 0, 0));
    });
}

#[test]
fn caller_runs_runs_on_the_submitters_thread_and_is_counted() {
    let (pool, busy) = full_pool(BackPressure::CallerRuns);
    let mut ran = pool.submit(|| thread::current().id()).unwrap();
    assert_eq!(ran.poll().unwrap().unwrap(), thread::current().id());
    let panics = pool.submit(|| -> () { resume_unwind(Box::new("on purpose")) }).unwrap();
    assert!(matches!(panics.wait(), Err(TaskError::Panicked(_))), "the submitter goes on");
    let seen = pool.metrics();
    assert_eq!((seen.completed, seen.panicked, seen.pressure.ran_by_caller), (1, 1, 2));
    busy.release();
}

#[test]
fn a_task_run_by_its_caller_may_submit_and_too_deep_it_is_refused() {
    /// How many tasks ran inside each other before one was refused.
    fn dive(pool: &PoolHandle, depth: usize) -> usize {
        let inner = pool.clone();
        match pool.submit(move || dive(&inner, depth + 1)) {
            Ok(ticket) => ticket.wait().unwrap(),
            Err(refused) => {
                assert_eq!(refused.reason(), Refused::Full);
                depth
            }
        }
    }
    let (pool, _busy) = full_pool(BackPressure::CallerRuns);
    (0..3).for_each(|_| assert_eq!(dive(&pool, 0), 16, "and the depth is given back"));
    assert_eq!(pool.metrics().pressure.ran_by_caller, 3 * 16);
}

#[test]
fn a_future_under_caller_runs_makes_its_first_step_here_and_goes_on_at_a_worker() {
    promptly("the futures end", || {
        let (pool, busy) = full_pool(BackPressure::CallerRuns);
        let yields = pool.spawn_async(async {
            let first = thread::current().id();
            yield_now().await;
            (first, thread_name())
        });
        let door = Arc::new(Door::default());
        let waits = Arc::clone(&door);
        let waits = pool.spawn_async(async move {
            waits.pass().await;
            thread_name()
        });
        assert_eq!(door.polls(), 1, "its first step is over when it has been submitted");
        door.open();
        busy.release();
        let (first, last) = yields.unwrap().wait().unwrap();
        assert_eq!((first, last.as_str()), (thread::current().id(), "millpond-0"));
        assert_eq!(waits.unwrap().wait().unwrap(), "millpond-0");
    });
}

#[test]
fn drop_oldest_drops_from_the_lane_that_is_full_and_from_no_other_and_never_what_runs() {
    promptly("the tasks run", || {
        let pool = pool_with(BackPressure::DropOldest, 10);
        let busy = Busy::one(&pool);
        let [high, normal, low] = [Priority::High, Priority::Normal, Priority::Low].map(|priority| {
            // There is room for ten in each lane, and two more normal ones than that, and one more urgent one.
            let tasks = [11, 12, 10][priority as usize];
            let options = TaskOptions { priority, ..TaskOptions::default() };
            (0..tasks).map(|number| pool.with(&options).submit(move || number).unwrap()).collect::<Vec<_>>()
        });
        busy.release();
        let dropped = |tickets: Vec<Ticket<usize>>| {
            let ends = tickets.into_iter().map(Ticket::wait).enumerate();
            ends.filter_map(|(number, end)| end.is_err().then_some(number)).collect::<Vec<_>>()
        };
        assert_eq!([dropped(high), dropped(normal), dropped(low)], [vec![0], vec![0, 1], vec![]]);
        assert_eq!((pool.metrics().completed, pool.metrics().dropped), (31, 3));
    });
}

#[test]
fn drop_oldest_leaves_alone_what_has_begun_and_waits_to_go_on() {
    promptly("the future ends", || {
        let (pool, door) = (pool_with(BackPressure::DropOldest, 2), Arc::new(Door::default()));
        let waits = Arc::clone(&door);
        let begun = pool.spawn_async(async move { waits.pass().await }).unwrap();
        door.until_somebody_waits();
        let busy = Busy::one(&pool);
        door.open();
        let tickets: Vec<_> = (0..10).map(|_| pool.submit(|| ()).unwrap()).collect();
        busy.release();
        begun.wait().unwrap();
        assert_eq!(tickets.into_iter().filter_map(|ticket| ticket.wait().ok()).count(), 2);
    });
}

#[test]
fn the_place_of_a_cancelled_task_is_taken_before_anything_is_dropped() {
    let pool = pool_with(BackPressure::DropOldest, 2);
    let busy = Busy::one(&pool);
    let (first, second) = (pool.submit(|| 1).unwrap(), pool.submit(|| 2).unwrap());
    second.cancel();
    let third = pool.submit(|| 3).unwrap();
    assert_eq!(pool.metrics().dropped, 0);
    busy.release();
    assert_eq!((first.wait().unwrap(), third.wait().unwrap()), (1, 3));
}

#[test]
fn tasks_of_a_scope_are_never_dropped_and_not_counted_so() {
    promptly("the scope ends", || {
        for policy in POLICIES.into_iter().filter(|policy| *policy != BLOCK) {
            let (pool, ran) = (pool_with(policy, 2), AtomicUsize::new(0));
            let busy = Busy::one(&pool);
            pool.scope(|scope| {
                (0..10).for_each(|_| scope.spawn(|| add(&ran, 1)));
                // They would be dropped for this one, if they could be.
                assert_eq!(pool.spawn(|| ()).is_err(), policy == BackPressure::Reject);
                drop(busy);
            });
            assert_eq!(ran.load(Relaxed), 10, "{policy}");
            let (dropped, pressure) = (pool.metrics().dropped, pool.metrics().pressure);
            assert_eq!(pressure.dropped_oldest + pressure.dropped_newest, dropped, "{policy}");
        }
    });
}

#[test]
fn nothing_is_left_of_a_task_that_was_dropped() {
    for policy in [BackPressure::DropNewest, BackPressure::DropOldest] {
        let (pool, witnesses) = (pool_with(policy, 1), Witnesses::default());
        let _busy = Busy::one(&pool);
        let options = TaskOptions { timeout: Some(Duration::from_secs(3600)), ..TaskOptions::default() };
        let tickets: Vec<_> = (0..4)
            .map(|_| {
                let held = witnesses.one();
                pool.with(&options).spawn_async(async move { drop(held) }).unwrap()
            })
            .collect();
        assert_eq!(tickets.iter().filter(|ticket| ticket.is_done()).count(), 3, "{policy}");
        let metrics = pool.metrics();
        assert_eq!((metrics.dropped, metrics.tasks_waiting), (3, 1), "{policy}");
        assert_eq!((metrics.futures_live, metrics.deadlines, witnesses.left()), (1, 1, 1), "{policy}");
    }
}

#[test]
fn verbs_that_say_what_they_do_do_it_under_every_policy() {
    promptly("the task that waits gets in", || {
        for policy in POLICIES {
            let (pool, busy) = full_pool(policy);
            assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))), "{policy}");
            assert!(matches!(pool.try_spawn(|| ()), Err(SubmitError::Full(_))), "{policy}");
            let timed_out = pool.submit_timeout(|| (), Duration::from_millis(1)).unwrap_err();
            assert_eq!(timed_out.reason(), Refused::TimedOut, "{policy}");
            let sleeper = Sleeper::default();
            thread::scope(|scope| {
                let waits = scope.spawn(|| {
                    sleeper.about_to_sleep();
                    pool.submit_timeout(|| 7, Duration::MAX).unwrap().wait().unwrap()
                });
                eventually("it waits for room", || sleeper.is_asleep());
                busy.release();
                assert_eq!(waits.join().unwrap(), 7, "{policy}");
            });
            let pressure = pool.metrics().pressure;
            assert_eq!((pressure.refused, pressure.timed_out), (2, 1), "{policy}");
        }
    });
}

#[test]
fn a_worker_that_submits_to_its_own_full_pool_never_waits_for_itself() {
    promptly("the worker goes on", || {
        for policy in POLICIES {
            let pool = start(PoolConfig {
                workers: 1,
                workers_max: 1,
                queue_capacity: 4,
                local_capacity: 64,
                back_pressure: policy,
                ..PoolConfig::default()
            });
            let (handle, (told, tells)) = (pool.handle(), mpsc::channel());
            let inside = pool.submit(move || {
                while handle.try_spawn(|| ()).is_ok() {}
                for number in 0..3 {
                    told.send(handle.submit(move || number).map_err(|back| back.reason())).unwrap();
                    let future = handle.spawn_async(async move { number });
                    told.send(future.map_err(|back| back.reason())).unwrap();
                }
            });
            inside.unwrap().wait().unwrap();
            let ends: Vec<_> = tells.iter().map(|taken| taken.map(|ticket| ticket.wait().ok())).collect();
            let all = |end: fn(usize) -> Result<Option<usize>, Refused>| {
                (0..3).flat_map(|number| [end(number), end(number)]).collect::<Vec<_>>()
            };
            let expected = match policy {
                BackPressure::Reject => all(|_| Err(Refused::Full)),
                BackPressure::DropNewest => all(|_| Ok(None)),
                // The lane has room for four, so the first two of the six are dropped for the last two.
                BackPressure::DropOldest => [None, None, Some(1), Some(1), Some(2), Some(2)].map(Ok).to_vec(),
                _ => all(|number| Ok(Some(number))),
            };
            assert_eq!(ends, expected, "{policy}");
            assert!(pool.drain(Duration::MAX).is_finished());
        }
    });
}

#[test]
fn what_tasks_of_a_draining_pool_submit_is_part_of_it_under_every_policy() {
    promptly("it drains", || {
        for policy in POLICIES {
            let pool = pool_with(policy, 1);
            let (handle, (go_on, told)) = (pool.handle(), mpsc::channel::<()>());
            let inside = pool.submit(move || {
                let _ = told.recv();
                let urgent = TaskOptions { priority: Priority::High, ..TaskOptions::default() };
                let one = || 1;
                let tickets = [handle.submit(one), handle.with(&urgent).submit(one)];
                tickets.map(|ticket| ticket.map_err(|back| back.reason()).map(|ticket| ticket.wait().ok()))
            });
            thread::scope(|scope| {
                let drains = scope.spawn(|| pool.drain(Duration::MAX));
                eventually("it is closed", || matches!(pool.try_spawn(|| ()), Err(SubmitError::Closed(_))));
                drop(go_on);
                assert!(drains.join().unwrap().is_finished(), "{policy}");
            });
            assert_eq!(inside.unwrap().wait().unwrap(), [Ok(Some(1)), Ok(Some(1))], "{policy}");
        }
    });
}

#[test]
fn a_pool_that_has_ended_refuses_as_closed_under_every_policy() {
    for policy in [POLICIES.as_slice(), &[BLOCK_BRIEFLY]].concat() {
        for stops in [true, false] {
            let pool = pool_with(policy, 1);
            let handle = pool.handle();
            let (report, _drained) = if stops {
                (pool.stop(Duration::MAX), None)
            } else {
                (pool.drain(Duration::MAX), Some(pool))
            };
            assert!(report.is_finished(), "{policy}");
            let task = handle.submit(|| 7).unwrap_err();
            assert_eq!((task.reason(), task.into_inner()()), (Refused::Closed, 7), "{policy}");
            let future = handle.spawn_async(async { 8 }).unwrap_err();
            assert_eq!((future.reason(), block_on(future.into_inner())), (Refused::Closed, 8), "{policy}");
            let batch = handle.submit_batch((0..3).map(|number| move || number)).unwrap_err();
            assert_eq!((batch.refused.reason(), batch.rest.len()), (Refused::Closed, 2), "{policy}");
            assert!(matches!(handle.try_submit(|| ()), Err(SubmitError::Closed(_))), "{policy}");
            assert!(matches!(handle.spawn(|| ()), Err(SubmitError::Closed(_))), "{policy}");
            assert_eq!(handle.metrics().ended(), 0, "{policy}");
        }
    }
}
