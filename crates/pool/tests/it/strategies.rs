//! Strategies: a task goes to the worker that was chosen, and whoever chooses, each task runs once.
//!
//! A choice is an extra queue for every task, and so an extra way to lose one: when the strategy is swapped, when the
//! chosen worker is full, leaves or is not there, and when the pool ends. Where tasks are counted at each worker,
//! nobody steals and every worker is kept busy, so that what waits is exactly what was given.
//!
//! Not here: which worker each strategy prefers (`crates/policy/tests`), strategies of the user's own
//! (`own_strategy.rs`), tasks with a key (`keys.rs`).

use crate::busy::{Busy, start, thread_name, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::witness::add;
use millpond::policy::choose::Reason;
use millpond::{
    Placed, Pool, PoolConfig, PoolHandle, Priority, StealSettings, Strategy, TaskOptions, Ticket,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub(crate) fn named(name: &str) -> Strategy {
    Strategy::named(name).unwrap()
}

pub(crate) fn no_stealing() -> StealSettings {
    StealSettings { enabled: false, ..StealSettings::default() }
}

/// The number of a worker, which is at the end of its thread's name.
pub(crate) fn number_of(thread: &str) -> usize {
    thread.rsplit('-').next().unwrap().parse().unwrap()
}

/// How many tasks wait at each worker.
pub(crate) fn waiting_at_workers(pool: &PoolHandle) -> Vec<usize> {
    pool.metrics().workers.iter().map(|worker| worker.tasks_waiting).collect()
}

/// A pool whose workers all take tasks by now, and in which a task stays where it was put.
pub(crate) fn choosing_pool(workers: usize, strategy: Strategy) -> Pool {
    let pool = start(PoolConfig { workers, strategy, stealing: no_stealing(), ..PoolConfig::default() });
    until_asleep(&pool);
    pool
}

/// As `choosing_pool`, with every worker kept busy.
pub(crate) fn held_pool(workers: usize, strategy: &Strategy) -> (Pool, Vec<Busy>) {
    let pool = choosing_pool(workers, Strategy::shared());
    let busy = Busy::many(&pool, workers);
    pool.set_strategy(strategy);
    (pool, busy)
}

/// The worker a ticket's task was given to by the strategy.
fn chosen<T>(ticket: &Ticket<T>) -> Option<usize> {
    match ticket.placed() {
        Placed::Chosen { worker, .. } => Some(worker),
        _ => None,
    }
}

/// One counter for each task, to see that each ran once.
struct Ledger(Vec<AtomicUsize>);

impl Ledger {
    fn of(tasks: usize) -> Arc<Self> {
        Arc::new(Self((0..tasks).map(|_| AtomicUsize::new(0)).collect()))
    }

    /// Submits tasks that enter themselves, from so many threads, which take turns.
    fn submit_all(self: &Arc<Self>, pool: &PoolHandle, submitters: usize) {
        thread::scope(|scope| {
            for first in 0..submitters {
                scope.spawn(move || {
                    for task in (first..self.0.len()).step_by(submitters) {
                        let ledger = Arc::clone(self);
                        pool.spawn(move || add(&ledger.0[task], 1)).unwrap();
                    }
                });
            }
        });
    }

    /// Submits all from four threads while somebody meddles with the pool, then sees that each ran once.
    fn submit_and_meddle(self: &Arc<Self>, pool: &Pool, what: &str, mut meddle: impl FnMut()) {
        let (over, mut times) = (AtomicBool::new(false), 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                self.submit_all(pool, 4);
                over.store(true, Relaxed);
            });
            while times < 100 || !over.load(Relaxed) {
                meddle();
                times += 1;
            }
        });
        assert!(pool.drain(Duration::MAX).is_finished());
        self.assert_each_ran_once(what);
        assert_eq!(pool.metrics().completed, self.0.len() as u64, "{what}");
    }

    fn assert_each_ran_once(&self, what: &str) {
        let wrong: Vec<_> = self.0.iter().map(|runs| runs.load(Relaxed)).enumerate().collect();
        let wrong: Vec<_> = wrong.into_iter().filter(|(_, runs)| *runs != 1).collect();
        assert!(wrong.is_empty(), "{what}: task and how often it ran: {wrong:?}");
    }
}

#[test]
fn every_strategy_runs_each_task_once_from_one_and_many_submitters_stealing_or_not() {
    promptly("all tasks run", || {
        for name in Strategy::names() {
            for (stealing, submitters) in [(true, 1), (true, 4), (false, 1), (false, 4)] {
                let stealing = StealSettings { enabled: stealing, ..StealSettings::default() };
                let pool = start(PoolConfig {
                    workers: 3,
                    strategy: named(name),
                    stealing,
                    ..PoolConfig::default()
                });
                let ledger = Ledger::of(2000);
                ledger.submit_all(&pool, submitters);
                assert!(pool.drain(Duration::MAX).is_finished());
                let what = format!("{name}, {submitters} submitters, stealing {}", stealing.enabled);
                ledger.assert_each_ran_once(&what);
                assert_eq!(pool.metrics().completed, 2000, "{what}");
            }
        }
    });
}

#[test]
fn round_robin_gives_every_worker_its_turn() {
    promptly("the tasks run", || {
        let (pool, busy) = held_pool(4, &named("round-robin"));
        let tickets: Vec<_> = (0..400).map(|_| pool.submit(thread_name).unwrap()).collect();
        assert_eq!(waiting_at_workers(&pool), [100; 4]);
        drop(busy);
        for (turn, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(ticket.placed(), Placed::Chosen { worker: turn % 4, reason: Reason::Turn });
            assert_eq!(number_of(&ticket.wait().unwrap()), turn % 4);
        }
    });
}

#[test]
fn strategies_that_look_at_load_spread_a_burst_evenly_over_busy_workers() {
    // Of two workers, `power-of-two` always draws both.
    for (name, workers) in [("least-busy", 3), ("least-used", 3), ("power-of-two", 2)] {
        let (pool, _busy) = held_pool(workers, &named(name));
        (0..workers * 50).for_each(|_| pool.spawn(|| ()).unwrap());
        assert_eq!(waiting_at_workers(&pool), vec![50; workers], "{name}");
    }
}

#[test]
fn least_busy_gives_to_the_worker_that_has_nothing() {
    promptly("the tasks run", || {
        let pool = choosing_pool(3, named("least-busy"));
        let busy = Busy::many(&pool, 2);
        let held: Vec<_> = busy.iter().map(|busy| number_of(&busy.thread)).collect();
        let free = (0..3).find(|worker| !held.contains(worker)).unwrap();
        for _ in 0..20 {
            let ticket = pool.submit(|| ()).unwrap();
            let reason = Reason::LowestLoad { load: 0 };
            assert_eq!(ticket.placed(), Placed::Chosen { worker: free, reason });
            ticket.wait().unwrap();
            eventually("it is idle again", || pool.metrics().workers_asleep == 1);
        }
    });
}

#[test]
fn strategies_that_look_at_time_give_to_the_worker_that_had_none() {
    promptly("the tasks run", || {
        for name in ["fair-share", "least-utilised"] {
            // Stealing, so that the two that are kept busy are two different ones whatever is chosen.
            let pool = start(PoolConfig { workers: 3, strategy: named(name), ..PoolConfig::default() });
            until_asleep(&pool);
            let busy = Busy::many(&pool, 2);
            let held: Vec<_> = busy.iter().map(|busy| number_of(&busy.thread)).collect();
            let free = (0..3).find(|worker| !held.contains(worker));
            let since = pool.load().1;
            eventually("they have had time", || pool.load().1.since(since) > Duration::from_millis(20));
            for _ in 0..20 {
                let ticket = pool.submit(|| ()).unwrap();
                assert_eq!(chosen(&ticket), free, "{name}: {}", ticket.placed());
                ticket.wait().unwrap();
            }
        }
    });
}

#[test]
fn strategies_that_draw_or_measure_leave_nobody_out() {
    for name in ["power-of-two", "random", "fair-share", "least-utilised"] {
        let (pool, _busy) = held_pool(3, &named(name));
        (0..600).for_each(|_| pool.spawn(|| ()).unwrap());
        let waiting = waiting_at_workers(&pool);
        assert_eq!(waiting.iter().sum::<usize>(), 600, "{name}: {waiting:?}");
        assert!(waiting.iter().all(|waiting| *waiting > 0), "{name}: {waiting:?}");
    }
}

#[test]
fn weights_are_kept_exactly_in_every_round() {
    for name in ["weighted-round-robin", "interleaved-weighted"] {
        let worker_weights = vec![3.0, 1.0];
        let pool = start(PoolConfig {
            workers: 2,
            worker_weights,
            stealing: no_stealing(),
            ..PoolConfig::default()
        });
        until_asleep(&pool);
        let _busy = Busy::many(&pool, 2);
        pool.set_strategy(&named(name));
        let tickets: Vec<_> = (0..80).map(|_| pool.submit(|| ()).unwrap()).collect();
        for (round, given) in tickets.chunks(4).enumerate() {
            let to_second = given.iter().filter(|ticket| chosen(ticket) == Some(1)).count();
            assert_eq!(to_second, 1, "{name}, round {round}");
        }
        assert_eq!(waiting_at_workers(&pool), [60, 20], "{name}");
    }
    let config = PoolConfig { worker_weights: vec![1.0, f64::NAN], ..PoolConfig::default() };
    let error = Pool::start(config).unwrap_err().to_string();
    let allowed = "worker_weights: expected positive numbers (above 0, neither infinite nor NaN), got NaN";
    assert!(error.starts_with(allowed), "{error}");
}

#[test]
fn an_unknown_name_is_refused_with_all_that_are_known_and_the_nearest() {
    let error = Strategy::named("round-robbin").unwrap_err().to_string();
    assert!(error.starts_with("strategy: expected one of shared, "), "{error}");
    assert!(Strategy::names().all(|name| error.contains(name)), "{error}");
    assert!(error.ends_with("got \"round-robbin\"; did you mean \"round-robin\"?"), "{error}");
    assert_eq!(named("least-elu").name(), "least-utilised", "the name in other pools");
}

#[test]
fn swapping_strategies_under_load_loses_and_repeats_nothing() {
    promptly("all tasks run", || {
        for enabled in [true, false] {
            let stealing = StealSettings { enabled, ..StealSettings::default() };
            let pool = start(PoolConfig { workers: 3, stealing, ..PoolConfig::default() });
            let mut before = pool.strategy();
            let mut names = Strategy::names().collect::<Vec<_>>().into_iter().cycle();
            Ledger::of(20_000).submit_and_meddle(&pool, &format!("stealing {enabled}"), || {
                let name = names.next().unwrap();
                assert_eq!(pool.set_strategy(&named(name)), before);
                assert_eq!(pool.strategy(), name);
                before = name.to_owned();
            });
        }
    });
}

#[test]
fn workers_that_come_and_go_under_load_lose_and_repeat_nothing() {
    promptly("all tasks run", || {
        for name in ["round-robin", "least-busy", "fair-share"] {
            let pool = choosing_pool(4, named(name));
            let mut sizes = [1, 4, 2, 6].into_iter().cycle();
            let resize = || _ = pool.resize(sizes.next().unwrap()).unwrap();
            Ledger::of(10_000).submit_and_meddle(&pool, name, resize);
        }
    });
}

#[test]
fn a_task_with_a_priority_waits_in_its_lane_whoever_chooses() {
    let (pool, _busy) = held_pool(2, &named("round-robin"));
    for priority in [Priority::High, Priority::Low] {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        let ticket = pool.with(&options).submit(|| ()).unwrap();
        assert_eq!(ticket.placed(), Placed::Shared);
        assert_eq!(pool.metrics().lane(priority).len, 1);
    }
    assert_eq!(waiting_at_workers(&pool), [0, 0]);
}

#[test]
fn urgent_tasks_come_first_and_leave_those_that_were_given_their_share() {
    let (pool, busy) = held_pool(1, &named("round-robin"));
    let order = Arc::new(Mutex::new(Vec::new()));
    for priority in [Priority::Normal, Priority::High] {
        for _ in 0..200 {
            let order = Arc::clone(&order);
            let options = TaskOptions { priority, ..TaskOptions::default() };
            pool.with(&options).spawn(move || order.lock().unwrap().push(priority)).unwrap();
        }
    }
    drop(busy);
    assert!(pool.drain(Duration::MAX).is_finished());
    let order = order.lock().unwrap();
    let first = |priority| order.iter().position(|ran| *ran == priority).unwrap();
    // As many takes as the weights add up to, which are 8 and 4 and 1.
    assert!(first(Priority::High) < 13 && first(Priority::Normal) < 13, "{order:?}");
    let urgent = order[..130].iter().filter(|ran| **ran == Priority::High).count();
    assert!((70..=100).contains(&urgent), "{urgent} of 130 were urgent");
}

#[test]
fn what_a_chosen_worker_has_no_room_for_goes_to_the_shared_queue() {
    promptly("the tasks run", || {
        let pool = start(PoolConfig {
            workers: 1,
            queue_capacity: 3,
            local_capacity: 2,
            strategy: named("round-robin"),
            ..PoolConfig::default()
        });
        until_asleep(&pool);
        let busy = Busy::one(&pool);
        let tickets: Vec<_> = (0..5).map(|number| pool.try_submit(move || number).unwrap()).collect();
        let refused = pool.try_submit(|| 5).unwrap_err();
        assert_eq!(refused.into_inner()(), 5);
        let is_shared: Vec<_> = tickets.iter().map(|ticket| ticket.placed() == Placed::Shared).collect();
        assert_eq!(is_shared, [false, false, true, true, true]);
        assert_eq!((waiting_at_workers(&pool), pool.metrics().tasks_waiting), (vec![2], 5));
        busy.release();
        let results: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
        assert_eq!(results, [0, 1, 2, 3, 4]);
    });
}
