//! Tasks, futures and hooks that end a pool: several at a time, on few workers, with other work beside them.
//!
//! Whoever waits for the end of its own pool is a part of what has to end. So each is left out of the count of the
//! others, wherever it runs; and what it runs meanwhile must not keep it from its deadline.
//!
//! Not here: one thread outside that drains (`drain.rs`) or stops (`stop.rs`).

use crate::busy::{Busy, lone_worker, pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::scope::go_on;
use millpond::{Hook, Pool, PoolConfig, join};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Has so many of each drain the pool that runs them, all of which wait until all are there.
fn drain_together(pool: Pool, closures: usize, futures: usize) {
    let pool = Arc::new(pool);
    let busy = Busy::many(&pool, pool.metrics().workers_running);
    let closures: Vec<_> = (0..closures)
        .map(|_| {
            let inner = Arc::clone(&pool);
            pool.submit(move || inner.drain(Duration::MAX)).unwrap()
        })
        .collect();
    let futures: Vec<_> = (0..futures)
        .map(|_| {
            let inner = Arc::clone(&pool);
            pool.spawn_async(async move { inner.drain(Duration::MAX) }).unwrap()
        })
        .collect();
    drop(busy);
    closures.into_iter().chain(futures).for_each(|drains| {
        drains.wait().unwrap();
    });
    assert!(pool.drain(Duration::MAX).is_finished());
}

#[test]
fn any_number_of_tasks_and_futures_may_drain_their_own_pool_at_a_time() {
    for (closures, futures) in [(0, 2), (0, 4), (1, 1), (3, 3), (70, 0), (200, 200)] {
        for most in [1, 2, 4] {
            promptly("none waits for another", move || {
                let workers = most.min(2);
                let config = PoolConfig { workers, workers_max: most, ..PoolConfig::default() };
                drain_together(start(config), closures, futures);
            });
        }
    }
}

#[test]
fn so_many_may_drain_their_own_pool_that_no_stack_holds_them() {
    promptly("those at the top let go", || {
        let config = PoolConfig { workers: 1, workers_max: 1, queue_capacity: 5000, ..PoolConfig::default() };
        drain_together(start(PoolConfig { stack_bytes: Some(256 << 10), ..config }), 3000, 0);
    });
}

#[test]
fn both_halves_of_a_join_may_drain_their_own_pool() {
    promptly("neither half waits for the other", || {
        let pool = Arc::new(pool(2));
        let inner = Arc::clone(&pool);
        let drains = pool.spawn_async(async move {
            eventually("somebody takes the other half", || inner.metrics().workers_asleep == 1);
            let drain = || inner.drain(Duration::MAX).waiting;
            join(drain, drain)
        });
        assert_eq!(drains.unwrap().wait().unwrap(), (0, 0));
    });
}

#[test]
fn a_drain_sees_what_its_own_task_has_submitted_whoever_drains_beside_it() {
    promptly("every drain returns", || {
        for _ in 0..100 {
            let pool = Arc::new(pool(2));
            let inner = Arc::clone(&pool);
            let drains = pool.submit(move || {
                inner.drain(Duration::MAX);
                (0..5).all(|_| {
                    let done = Arc::new(AtomicBool::new(false));
                    let tells = Arc::clone(&done);
                    let takes_a_while = move || {
                        (0..1000).for_each(|_| thread::yield_now());
                        tells.store(true, Relaxed);
                    };
                    inner.spawn(takes_a_while).unwrap();
                    inner.drain(Duration::MAX);
                    done.load(Relaxed)
                })
            });
            thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(|| pool.drain(Duration::MAX)))));
            assert!(drains.unwrap().wait().unwrap(), "a drain was over before a task");
        }
    });
}

#[test]
fn a_drain_inside_a_worker_without_a_stand_in_keeps_to_its_time() {
    promptly("the drain returns", || {
        let pool = Arc::new(lone_worker(16));
        let (inner, ends) = (Arc::clone(&pool), Arc::new(AtomicBool::new(false)));
        let goes_on = Arc::clone(&ends);
        let drains = pool.submit(move || {
            go_on(&inner, &goes_on);
            inner.drain(Duration::from_millis(5))
        });
        let report = drains.unwrap().wait().unwrap();
        assert!(!report.is_finished(), "{report:?}");
        ends.store(true, Relaxed);
    });
}

#[test]
fn a_stop_of_another_pool_is_not_held_up_by_what_waits_here() {
    promptly("the stop returns", || {
        let (here, there) = (lone_worker(16), pool(1));
        let ends = Arc::new(AtomicBool::new(false));
        let (handle, goes_on) = (here.handle(), Arc::clone(&ends));
        let stops = here.submit(move || {
            go_on(&handle, &goes_on);
            let report = there.stop(Duration::from_secs(3600));
            let dropped = pool(1);
            go_on(&handle, &goes_on);
            drop(dropped);
            report
        });
        assert!(stops.unwrap().wait().unwrap().is_finished());
        ends.store(true, Relaxed);
    });
}

#[test]
fn a_stop_hook_may_drain_its_own_pool() {
    promptly("the hook ends", || {
        let its_pool = Arc::new(OnceLock::<Arc<Pool>>::new());
        let drained = Arc::new(AtomicBool::new(false));
        let (known, tells) = (Arc::clone(&its_pool), Arc::clone(&drained));
        let hook = move |_| {
            let pool = known.get().unwrap();
            tells.store(pool.drain(Duration::MAX).waiting == 0, Relaxed);
        };
        let config = PoolConfig { workers: 2, on_stop: Some(Hook::new(hook)), ..PoolConfig::default() };
        let pool = Arc::clone(its_pool.get_or_init(|| Arc::new(start(config))));
        until_asleep(&pool);
        pool.resize(1).unwrap();
        eventually("the worker that leaves has drained", || drained.load(Relaxed));
        assert_eq!(
            thread::scope(|scope| scope.spawn(|| pool.drain(Duration::MAX).waiting).join().unwrap()),
            0
        );
    });
}
