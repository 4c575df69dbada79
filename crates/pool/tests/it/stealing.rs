//! Stealing: off, a task waits for the worker it was given to; on, whoever has nothing to do takes it over.
//!
//! Off must mean off, and still nothing may be stranded: not when the pool drains, stops, shrinks or is purged while
//! tasks wait at busy workers. On, a thief takes as much as the settings say, which its events tell. What waits is made
//! to wait at one worker that is kept busy, so every number is known.
//!
//! Not here: whom a thief robs (`crates/policy/tests/steal.rs`), tasks with a key (`keys.rs`).

use crate::busy::{Busy, start, thread_name, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::own_strategy::Obedient;
use crate::strategies::{choosing_pool, held_pool, named, no_stealing, number_of, waiting_at_workers};
use millpond::policy::steal::{Reason, StealSize};
use millpond::{
    EventKind, Pool, PoolConfig, StealSettings, Strategy, SubmitError, TaskError, TaskOptions, Ticket,
    blocking,
};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A pool of two busy workers, and tasks that wait at the first.
struct Held {
    pool: Pool,
    /// The first worker is busy until this is dropped.
    first: Busy,
    second: Busy,
    tickets: Vec<Ticket<String>>,
}

fn held(stealing: StealSettings, tasks: usize) -> Held {
    let pool = start(PoolConfig { workers: 2, stealing, ..PoolConfig::default() });
    until_asleep(&pool);
    let (one, other) = (Busy::one(&pool), Busy::one(&pool));
    let (first, second) = if number_of(&one.thread) == 0 { (one, other) } else { (other, one) };
    pool.set_strategy(&Obedient::choosing(Some(0)).1);
    let tickets = (0..tasks).map(|_| pool.submit(thread_name).unwrap()).collect();
    assert_eq!(waiting_at_workers(&pool), [tasks, 0]);
    Held { pool, first, second, tickets }
}

fn stolen(pool: &Pool) -> u64 {
    pool.metrics().workers.iter().map(|worker| worker.stolen).sum()
}

#[test]
fn without_stealing_a_task_waits_for_its_busy_worker_though_another_sleeps() {
    promptly("the tasks run where they wait", || {
        let Held { pool, first, second, tickets } = held(no_stealing(), 10);
        second.release();
        pool.set_strategy(&Strategy::shared());
        for _ in 0..1000 {
            assert_eq!(number_of(&pool.submit(thread_name).unwrap().wait().unwrap()), 1);
        }
        eventually("the other sleeps", || pool.metrics().workers_asleep == 1);
        assert!(tickets.iter().all(|ticket| !ticket.is_done()));
        assert_eq!(waiting_at_workers(&pool), [10, 0]);
        first.release();
        for ticket in tickets {
            assert_eq!(number_of(&ticket.wait().unwrap()), 0);
        }
        assert!(pool.drain(Duration::MAX).is_finished());
        assert_eq!(stolen(&pool), 0);
    });
}

#[test]
fn without_stealing_a_worker_that_may_take_nothing_sleeps_on() {
    promptly("the other sleeps", || {
        let Held { pool, first, second, tickets } = held(no_stealing(), 10);
        second.release();
        eventually("the other sleeps", || pool.metrics().workers_asleep == 1);
        let sleeps = pool.metrics().workers[1].sleeps;
        for _ in 0..1000 {
            thread::yield_now();
            let metrics = pool.metrics();
            assert_eq!((metrics.workers_asleep, metrics.workers_searching), (1, 0));
        }
        assert_eq!(pool.metrics().workers[1].sleeps, sleeps, "it did not rise once");
        first.release();
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    });
}

#[test]
fn an_idle_worker_takes_over_what_waits_for_a_busy_one() {
    promptly("the tasks run elsewhere", || {
        let Held { pool, first, second, tickets } = held(StealSettings::default(), 10);
        second.release();
        for ticket in tickets {
            assert_eq!(number_of(&ticket.wait().unwrap()), 1);
        }
        assert_eq!(stolen(&pool), 10);
        first.release();
    });
}

#[test]
fn a_thief_takes_as_many_as_the_settings_say() {
    promptly("the tasks run elsewhere", || {
        for (size, tasks_max) in [
            (StealSize::One, 32),
            (StealSize::Half, 32),
            (StealSize::Half, 7),
            (StealSize::All, 1000),
            (StealSize::All, 16),
        ] {
            let stealing =
                StealSettings { size, tasks_max, cooldown: Duration::ZERO, ..StealSettings::default() };
            let Held { pool, first, second, tickets } = held(stealing, 60);
            let events = pool.events(1000);
            second.release();
            tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
            assert_eq!(stolen(&pool), 60, "{size:?} up to {tasks_max}");
            first.release();
            drop(pool);
            let mut robberies = 0;
            for event in events {
                let EventKind::Stole { thief, victim, tasks, reason } = event.kind else { continue };
                assert_eq!((thief, victim), (1, 0), "{event}");
                let expected = match (reason, size) {
                    (Reason::MostQueued { queued }, StealSize::Half) => queued - queued / 2,
                    (Reason::MostQueued { queued }, StealSize::All) => queued,
                    _ => 1,
                };
                assert_eq!(tasks, expected.min(tasks_max), "{event}");
                robberies += 1;
            }
            assert!(robberies > 0, "{size:?} up to {tasks_max}");
        }
    });
}

#[test]
fn after_a_batch_the_same_victim_is_robbed_of_single_tasks_for_a_while() {
    promptly("the tasks run elsewhere", || {
        let stealing = StealSettings { cooldown: Duration::from_secs(3600), ..StealSettings::default() };
        let Held { pool, first, second, tickets } = held(stealing, 40);
        let events = pool.events(1000);
        second.release();
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
        first.release();
        drop(pool);
        let taken: Vec<_> = events
            .filter_map(|event| match event.kind {
                EventKind::Stole { tasks, reason, .. } => Some((tasks, reason)),
                _ => None,
            })
            .collect();
        let batches = taken.iter().filter(|(tasks, _)| *tasks > 1).count();
        assert_eq!(batches, 1, "{taken:?}");
        assert!(taken.iter().any(|(_, reason)| matches!(reason, Reason::JustRobbed { .. })), "{taken:?}");
    });
}

#[test]
fn settings_that_cannot_work_are_refused_with_what_is_allowed() {
    let plain = StealSettings::default;
    for (stealing, message) in [
        (StealSettings { tasks_max: 0, ..plain() }, "stealing.tasks_max: expected 1 to 4294967295, got 0"),
        (StealSettings { threshold: 0, ..plain() }, "stealing.threshold: expected 1 to 4294967295, got 0"),
    ] {
        let error = Pool::start(PoolConfig { stealing, ..PoolConfig::default() }).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn what_a_task_submits_stays_with_its_worker_whoever_chooses() {
    promptly("the tasks run", || {
        let (_, strategy) = Obedient::choosing(Some(1));
        let pool = choosing_pool(2, strategy);
        let handle = pool.handle();
        let inner =
            pool.submit(move || (0..50).map(|_| handle.submit(thread_name).unwrap()).collect::<Vec<_>>());
        for ticket in inner.unwrap().wait().unwrap() {
            assert_eq!(number_of(&ticket.wait().unwrap()), 1);
        }
    });
}

/// Returns when the only worker stands still and its stand-in sleeps.
fn until_relieved(pool: &Pool) {
    eventually("the stand-in sleeps", || {
        let metrics = pool.metrics();
        (metrics.workers_standing_still, metrics.workers_asleep) == (1, 1)
    });
}

#[test]
fn without_stealing_a_task_may_wait_for_what_it_submitted_itself() {
    promptly("the inner tasks run", || {
        let pool = start(PoolConfig { workers: 1, stealing: no_stealing(), ..PoolConfig::default() });
        let handle = pool.handle();
        let outer = pool.submit(move || {
            let (told, tells) = mpsc::channel();
            handle.spawn(move || told.send(1).unwrap()).unwrap();
            let future = handle.spawn_async(async { 2 }).unwrap();
            (blocking(|| tells.recv().unwrap()), future.wait().unwrap())
        });
        assert_eq!(outer.unwrap().wait().unwrap(), (1, 2));
    });
}

#[test]
fn without_stealing_nothing_is_stranded_at_a_worker_that_stands_still() {
    promptly("what it waits for runs", || {
        for affinity in [None, Some(1)] {
            let pool = choosing_pool(1, named("round-robin"));
            let (told, tells) = mpsc::channel();
            let sum = pool.submit(move || blocking(|| tells.iter().take(10).sum::<u32>())).unwrap();
            until_relieved(&pool);
            for number in 0..10 {
                let told = told.clone();
                let options = TaskOptions { affinity, ..TaskOptions::default() };
                pool.with(&options).spawn(move || told.send(number).unwrap()).unwrap();
            }
            assert_eq!(sum.wait().unwrap(), 45);
        }
    });
}

/// Three busy workers with a hundred tasks waiting at each, none of which may go elsewhere.
fn laden() -> (Pool, Vec<Busy>, Vec<Ticket<usize>>) {
    let (pool, busy) = held_pool(3, &named("round-robin"));
    let tickets = (0..300).map(|number| pool.submit(move || number).unwrap()).collect();
    assert_eq!(waiting_at_workers(&pool), [100; 3]);
    (pool, busy, tickets)
}

/// Lets the workers go on when the pool no longer takes tasks in.
fn release_when_closed(pool: &Pool, busy: Vec<Busy>) -> thread::JoinHandle<()> {
    let handle = pool.handle();
    thread::spawn(move || {
        let is_closed = || matches!(handle.try_spawn(|| ()), Err(SubmitError::Closed(_)));
        eventually("the pool is closed", is_closed);
        drop(busy);
    })
}

#[test]
fn a_drain_finishes_what_waits_at_busy_workers() {
    promptly("it drains", || {
        let (pool, busy, tickets) = laden();
        // What tells that the pool is closed is taken in before it is.
        let released = release_when_closed(&pool, busy);
        let report = pool.drain(Duration::MAX);
        released.join().unwrap();
        assert!(report.is_finished() && report.cancelled == 0, "{report:?}");
        for (number, mut ticket) in tickets.into_iter().enumerate() {
            assert_eq!(ticket.poll().unwrap().unwrap(), number);
        }
        assert_eq!(pool.metrics().ended(), pool.metrics().completed);
    });
}

#[test]
fn a_stop_cancels_what_waits_at_busy_workers() {
    promptly("it stops", || {
        let (pool, busy, tickets) = laden();
        let handle = pool.handle();
        let (told, tells) = mpsc::channel();
        let stops = thread::spawn(move || told.send(pool.stop(Duration::MAX)));
        eventually("all are told", || tickets.iter().all(Ticket::is_done));
        drop(busy);
        let report = tells.recv().unwrap();
        stops.join().unwrap().unwrap();
        assert!(report.is_finished(), "{report:?}");
        assert!(tickets.into_iter().all(|ticket| matches!(ticket.wait(), Err(TaskError::Cancelled))));
        let metrics = handle.metrics();
        assert_eq!((metrics.cancelled, metrics.completed, metrics.tasks_waiting), (300, 3, 0));
    });
}

#[test]
fn a_purge_cancels_what_waits_at_busy_workers_and_the_pool_goes_on() {
    promptly("the pool goes on", || {
        let (pool, busy, tickets) = laden();
        let report = pool.purge();
        assert_eq!((report.cancelled, report.waiting, report.running), (300, 0, 3));
        assert!(tickets.into_iter().all(|ticket| matches!(ticket.wait(), Err(TaskError::Cancelled))));
        drop(busy);
        let next: Vec<_> = (0..30).map(|number| pool.submit(move || number).unwrap()).collect();
        assert_eq!(next.into_iter().map(|ticket| ticket.wait().unwrap()).sum::<u32>(), 435);
        assert!(pool.drain(Duration::MAX).is_finished());
        assert_eq!((pool.metrics().cancelled, pool.metrics().completed), (300, 33));
    });
}

#[test]
fn what_waits_at_workers_that_leave_is_taken_over_by_those_that_stay() {
    promptly("the tasks run", || {
        let (pool, busy, tickets) = laden();
        pool.resize(1).unwrap();
        drop(busy);
        for (number, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(ticket.wait().unwrap(), number);
        }
        eventually("two leave", || pool.metrics().workers_running == 1);
        assert_eq!((pool.metrics().completed, pool.metrics().tasks_waiting), (303, 0));
    });
}

#[test]
fn what_a_task_spawns_while_the_other_worker_falls_asleep_is_taken_by_it() {
    promptly("every child runs beside its parent", || {
        let pool = start(PoolConfig { workers: 2, workers_max: 2, ..PoolConfig::default() });
        for round in 0..2_000_u32 {
            let inside = pool.handle();
            let parent = move || {
                let (begun, begins) = mpsc::channel();
                // The other ends its last task, searches for 20 µs, and lies down: some time in that.
                for _ in 0..round * 7 % 2_000 {
                    std::hint::spin_loop();
                }
                inside.spawn(move || begun.send(()).unwrap()).unwrap();
                // The pool does not know that this waits: the child is at a worker that never comes to it.
                begins.recv().unwrap();
            };
            let tickets = [pool.submit(parent).unwrap(), pool.submit(|| ()).unwrap()];
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        }
    });
}
