//! The settings of affinity: whose a key is, for how long it stays there, and when another may take over.
//!
//! The owner of a key is the one that the pure policy names, whatever the pool is doing. How long a task is left to a
//! busy owner is a setting with two ends, and both are tried: for ever, and not at all. Resizing takes owners away from
//! under tasks that are on their way to them, so thousands race with it.
//!
//! Not here: keys under the default settings (`affinity.rs`).

use crate::busy::{Busy, start, thread_name, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::strategies::{named, no_stealing, number_of, waiting_at_workers};
use crate::witness::add;
use millpond::policy::affinity::{Affinity, Method, hash_bytes};
use millpond::{AffinitySettings, Placed, Pool, PoolConfig, PoolHandle, StealSettings, TaskOptions, Ticket};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const METHODS: [Method; 2] = [Method::Rendezvous, Method::Ring];

fn key(key: u64) -> TaskOptions {
    TaskOptions { affinity: Some(key), ..TaskOptions::default() }
}

fn keyed_pool(workers: usize, affinity: AffinitySettings) -> Pool {
    let pool = start(PoolConfig { workers, affinity, inbox_capacity: 1024, ..PoolConfig::default() });
    until_asleep(&pool);
    pool
}

/// Nobody takes over what waits for a busy owner.
fn patient() -> AffinitySettings {
    AffinitySettings { steal_after: Duration::MAX, ..AffinitySettings::default() }
}

/// The worker that a task with this key is given to now.
fn owner(pool: &PoolHandle, number: u64) -> usize {
    let ticket = pool.with(&key(number)).submit(|| ()).unwrap();
    let Placed::ByKey { worker } = ticket.placed() else { panic!("{}", ticket.placed()) };
    ticket.wait().unwrap();
    worker
}

fn owners(pool: &PoolHandle, keys: u64) -> Vec<usize> {
    (0..keys).map(|number| owner(pool, number)).collect()
}

/// A key of this worker.
fn key_of(pool: &PoolHandle, worker: usize) -> u64 {
    (0..1000).find(|number| owner(pool, *number) == worker).unwrap()
}

#[test]
fn owners_are_those_of_the_pure_policy_however_the_pool_is_resized() {
    for method in METHODS {
        let settings = AffinitySettings { method, ..AffinitySettings::default() };
        let pool = keyed_pool(4, settings);
        for workers in [4, 7, 2] {
            pool.resize(workers).unwrap();
            until_asleep(&pool);
            let mut policy = Affinity::new(&settings).unwrap();
            (0..workers as u32).for_each(|worker| assert!(policy.add(worker)));
            let expected: Vec<_> = (0..100).map(|number| policy.owner(number).unwrap() as usize).collect();
            assert_eq!(owners(&pool, 100), expected, "{} workers by {}", workers, method.name());
        }
    }
}

#[test]
fn with_patience_a_key_runs_at_its_owner_though_others_have_nothing_to_do() {
    promptly("the tasks run", || {
        let pool = keyed_pool(3, patient());
        for number in 0..300 {
            let ticket = pool.with(&key(number % 30)).submit(thread_name).unwrap();
            let placed = ticket.placed();
            let ran = number_of(&ticket.wait().unwrap());
            assert_eq!(placed, Placed::ByKey { worker: ran });
        }
        assert_eq!(pool.metrics().affinity.moved, 0);
    });
}

#[test]
fn with_patience_a_key_waits_for_a_busy_owner_while_another_runs_everything_else() {
    promptly("the task runs at its owner", || {
        let pool = keyed_pool(2, patient());
        let keys = [key_of(&pool, 0), key_of(&pool, 1)];
        let busy = Busy::one(&pool);
        let held = number_of(&busy.thread);
        let waits = pool.with(&key(keys[held])).submit(thread_name).unwrap();
        for _ in 0..1000 {
            pool.submit(|| ()).unwrap().wait().unwrap();
            pool.with(&key(keys[1 - held])).submit(|| ()).unwrap().wait().unwrap();
        }
        eventually("the other has nothing left to do", || pool.metrics().workers_asleep == 1);
        assert!(!waits.is_done());
        assert_eq!(waiting_at_workers(&pool)[held], 1);
        busy.release();
        assert_eq!(number_of(&waits.wait().unwrap()), held);
    });
}

#[test]
fn with_patience_a_key_stays_with_its_owner_while_others_come_and_go_for_work() {
    promptly("the tasks run", || {
        let pool = keyed_pool(2, patient());
        let options = key(1);
        for _ in 0..20 {
            let with_others = |_| {
                pool.spawn(|| ()).unwrap();
                pool.with(&options).submit(thread_name).unwrap()
            };
            let tickets: Vec<_> = (0..1000).map(with_others).collect();
            let at = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect::<HashSet<_>>();
            assert_eq!(at.len(), 1, "{at:?}");
        }
    });
}

#[test]
fn without_patience_an_idle_worker_takes_over_from_a_busy_owner() {
    promptly("the tasks run elsewhere", || {
        for steal_after in [Duration::ZERO, Duration::from_millis(1)] {
            let pool = keyed_pool(2, AffinitySettings { steal_after, ..AffinitySettings::default() });
            let keys = [key_of(&pool, 0), key_of(&pool, 1)];
            until_asleep(&pool);
            let moved = pool.metrics().affinity.moved;
            let busy = Busy::one(&pool);
            let held = number_of(&busy.thread);
            let tickets: Vec<_> =
                (0..20).map(|_| pool.with(&key(keys[held])).submit(thread_name).unwrap()).collect();
            for ticket in tickets {
                assert_eq!(number_of(&ticket.wait().unwrap()), 1 - held, "after {steal_after:?}");
            }
            assert_eq!(pool.metrics().affinity.moved - moved, 20, "after {steal_after:?}");
            busy.release();
        }
    });
}

#[test]
fn keys_with_a_room_at_their_owner_are_hits_and_the_others_are_counted_too() {
    let pool = start(PoolConfig { workers: 1, inbox_capacity: 4, ..PoolConfig::default() });
    let _busy = Busy::one(&pool);
    let tickets: Vec<_> = (0..6).map(|_| pool.with(&key(1)).submit(|| ()).unwrap()).collect();
    let at_owner = |ticket: &&Ticket<()>| ticket.placed() == Placed::ByKey { worker: 0 };
    assert_eq!(tickets.iter().filter(at_owner).count(), 4);
    let affinity = pool.metrics().affinity;
    assert_eq!((affinity.keyed, affinity.hits, affinity.moved), (6, 4, 0));
}

#[test]
fn sticky_keys_stay_where_they_are_when_workers_come_and_others_do_not() {
    for method in METHODS {
        let plain = AffinitySettings { method, ..AffinitySettings::default() };
        let brief = AffinitySettings { sticky_for: Some(Duration::from_nanos(1)), ..plain };
        let sticky = AffinitySettings { sticky_for: Some(HOUR), ..plain };
        let grown = |settings| {
            let pool = keyed_pool(2, settings);
            let before = owners(&pool, 64);
            pool.resize(6).unwrap();
            until_asleep(&pool);
            (before, owners(&pool, 64))
        };
        let (before, after) = grown(plain);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert!(moved.clone().count() > 0, "some belong to the new workers");
        assert!(moved.clone().all(|(_, after)| *after >= 2), "and to nobody else");
        assert_eq!(grown(sticky), (before.clone(), before.clone()), "{}", method.name());
        assert_eq!(grown(brief), (before, after), "{}: a key whose time is over moves", method.name());
    }
}

#[test]
fn sticky_keys_of_a_worker_that_left_find_another_and_the_others_stay() {
    promptly("the tasks run", || {
        for method in METHODS {
            let pool = keyed_pool(
                4,
                AffinitySettings { method, sticky_for: Some(HOUR), ..AffinitySettings::default() },
            );
            let before = owners(&pool, 64);
            pool.resize(2).unwrap();
            eventually("two leave", || pool.metrics().workers_running == 2);
            for (number, (before, after)) in before.into_iter().zip(owners(&pool, 64)).enumerate() {
                assert!(after < 2, "key {number} by {}: {before} to {after}", method.name());
                assert!(before >= 2 || before == after, "key {number} by {}", method.name());
            }
        }
    });
}

#[test]
fn what_waits_for_workers_that_leave_is_passed_on() {
    promptly("the tasks run", || {
        let pool = start(PoolConfig {
            workers: 4,
            affinity: patient(),
            stealing: no_stealing(),
            inbox_capacity: 256,
            ..PoolConfig::default()
        });
        until_asleep(&pool);
        let busy = Busy::many(&pool, 4);
        let tickets: Vec<_> = (0..200).map(|number| pool.with(&key(number)).submit(move || number)).collect();
        assert_eq!(pool.metrics().tasks_waiting, 200);
        pool.resize(1).unwrap();
        drop(busy);
        for (number, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(ticket.unwrap().wait().unwrap(), number as u64);
        }
        eventually("three leave", || pool.metrics().workers_running == 1);
    });
}

#[test]
fn keyed_tasks_that_race_with_resizes_run_once() {
    promptly("all tasks run", || {
        for (enabled, sticky_for, strategy) in
            [(true, None, "shared"), (false, None, "shared"), (false, Some(HOUR), "round-robin")]
        {
            let pool = start(PoolConfig {
                workers: 4,
                strategy: named(strategy),
                stealing: StealSettings { enabled, ..StealSettings::default() },
                affinity: AffinitySettings { sticky_for, ..patient() },
                ..PoolConfig::default()
            });
            let runs: Arc<Vec<_>> = Arc::new((0..10_000).map(|_| AtomicUsize::new(0)).collect());
            let submitting = AtomicUsize::new(4);
            thread::scope(|scope| {
                for first in 0..4 {
                    let (pool, runs, submitting) = (&pool, &runs, &submitting);
                    scope.spawn(move || {
                        for task in (first..runs.len()).step_by(4) {
                            let entered = Arc::clone(runs);
                            let options = key(task as u64 % 64);
                            pool.with(&options).spawn(move || add(&entered[task], 1)).unwrap();
                        }
                        submitting.fetch_sub(1, Relaxed);
                    });
                }
                let mut sizes = [1, 4, 2, 6].into_iter().cycle();
                while submitting.load(Relaxed) > 0 {
                    pool.resize(sizes.next().unwrap()).unwrap();
                }
            });
            let report = pool.drain(Duration::MAX);
            assert!(report.is_finished(), "{report:?}");
            assert!(runs.iter().all(|runs| runs.load(Relaxed) == 1), "stealing {enabled}, {strategy}");
        }
    });
}

#[test]
fn every_task_that_was_taken_in_has_an_end_when_the_pool_stops_meanwhile() {
    promptly("every ticket is told", || {
        for round in 0..100 {
            let strategy = named(if round % 2 == 0 { "shared" } else { "round-robin" });
            let pool = start(PoolConfig { workers: 3, strategy, ..PoolConfig::default() });
            let handle = pool.handle();
            let tickets = thread::scope(|scope| {
                let submit_until_closed = |first: u64| {
                    let handle = &handle;
                    let taken_in = (first..).map_while(move |number| {
                        let options =
                            TaskOptions { affinity: number.is_multiple_of(2).then_some(number), ..key(0) };
                        handle.with(&options).submit(|| ()).ok()
                    });
                    move || taken_in.collect::<Vec<_>>()
                };
                let submitters = [0, 1000].map(|first| scope.spawn(submit_until_closed(first)));
                eventually("tasks run", || handle.metrics().completed > 10);
                assert!(pool.stop(Duration::MAX).is_finished());
                submitters.map(|submitter| submitter.join().unwrap())
            });
            assert!(tickets.iter().flatten().all(Ticket::is_done), "round {round}");
            let taken_in: usize = tickets.iter().map(Vec::len).sum();
            assert_eq!(handle.metrics().ended(), taken_in as u64, "round {round}");
        }
    });
}

#[test]
fn a_text_is_a_key_by_its_bytes() {
    promptly("the tasks run", || {
        let pool = keyed_pool(4, patient());
        let home = |text: &str| owner(&pool, hash_bytes(text.as_bytes()));
        let users: Vec<_> = (0..100).map(|number| format!("user:{number}")).collect();
        let homes: Vec<_> = users.iter().map(|user| home(user)).collect();
        assert_eq!(users.iter().map(|user| home(user)).collect::<Vec<_>>(), homes, "each has one");
        assert_eq!(homes.into_iter().collect::<HashSet<_>>().len(), 4, "and they are spread over all");
    });
}

#[test]
fn settings_that_cannot_work_are_refused_with_what_is_allowed() {
    let plain = AffinitySettings::default;
    let cases = [
        (
            AffinitySettings { virtual_nodes: 0, ..plain() },
            "affinity.virtual_nodes: expected 1 to 10000, got 0",
        ),
        (AffinitySettings { probes: 17, ..plain() }, "affinity.probes: expected 1 to 16, got 17"),
        (
            AffinitySettings { sticky_for: Some(Duration::ZERO), ..plain() },
            "affinity.sticky_for: expected none, or more than 0 s, got 0 s",
        ),
        (
            AffinitySettings { sticky_keys_max: 0, ..plain() },
            "affinity.sticky_keys_max: expected 1 to 16777216, got 0",
        ),
    ];
    for (affinity, message) in cases {
        let error = Pool::start(PoolConfig { affinity, ..PoolConfig::default() }).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}
