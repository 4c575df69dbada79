//! Pools inside tasks of other pools, and pools whose tasks wait for each other: nobody comes to a stand.
//!
//! A worker that waits for another pool stands still, and somebody stands in for it. Each test here would hang if one
//! wait, anywhere in the ring, held its worker without saying so. Therefore all pools have one worker.

use crate::busy::{Busy, lone_worker, pool, small_pool};
use crate::eventually::{eventually, promptly};
use crate::witness::add;
use millpond::{Pool, PoolHandle, TaskOptions, block_on};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

/// Waits for the other pool, whose task waits for this one, and so on.
fn ping_pong(there: &PoolHandle, back: &PoolHandle, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let (there, back) = (there.clone(), back.clone());
    let next = there.clone();
    next.submit(move || ping_pong(&back, &there, depth - 1) + 1).unwrap().wait().unwrap()
}

#[test]
fn two_pools_whose_tasks_wait_for_each_other_go_on() {
    promptly("the last task comes back", || {
        let (one, other) = (pool(1), pool(1));
        assert_eq!(ping_pong(&one, &other, 30), 30);
        for pool in [one, other] {
            eventually("one worker is left", || pool.metrics().workers_running == 1);
            assert_eq!(pool.metrics().workers_standing_still, 0);
        }
    });
}

#[test]
fn two_pools_whose_futures_wait_for_each_other_go_on() {
    fn ping_pong(
        there: PoolHandle,
        back: PoolHandle,
        depth: usize,
    ) -> std::pin::Pin<Box<dyn Future<Output = usize> + Send>> {
        Box::pin(async move {
            if depth == 0 {
                return 0;
            }
            let next = there.clone();
            next.spawn_async(ping_pong(back, there, depth - 1)).unwrap().await.unwrap() + 1
        })
    }
    promptly("the last future comes back", || {
        let (one, other) = (pool(1), pool(1));
        assert_eq!(block_on(ping_pong(one.handle(), other.handle(), 100)), 100);
    });
}

#[test]
fn a_task_may_start_use_and_end_a_pool_of_its_own() {
    fn nest(levels: usize) -> usize {
        let pool = pool(1);
        let sum =
            pool.submit(move || if levels == 0 { 0 } else { nest(levels - 1) }).unwrap().wait().unwrap();
        if levels.is_multiple_of(2) {
            drop(pool)
        } else {
            assert!(pool.drain(Duration::MAX).is_finished())
        }
        sum + 1
    }
    promptly("all pools end", || assert_eq!(pool(1).submit(|| nest(6)).unwrap().wait().unwrap(), 7));
}

/// Starts a pool inside the only worker of another, whose task waits for a task of the outer one when `end` is
/// called.
fn inner_pool_needs_the_outer(end: impl FnOnce(Pool) + Send + 'static) {
    let outer = pool(1);
    let back = outer.handle();
    let ends = outer.submit(move || {
        let inner = pool(1);
        let (begun, begins) = mpsc::channel();
        let needs = inner.submit(move || {
            begun.send(()).unwrap();
            back.submit(|| 7).unwrap().wait().unwrap()
        });
        begins.recv().unwrap();
        end(inner);
        needs.unwrap().wait().unwrap()
    });
    assert_eq!(ends.unwrap().wait().unwrap(), 7);
}

#[test]
fn a_task_that_ends_an_inner_pool_does_not_hold_up_its_own() {
    promptly("a dropped pool ends", || inner_pool_needs_the_outer(drop));
    promptly("a stopped pool ends", || {
        inner_pool_needs_the_outer(|inner| assert_eq!(inner.stop(Duration::MAX).waiting, 0))
    });
    promptly("a drained pool runs dry", || {
        inner_pool_needs_the_outer(|inner| assert!(inner.drain(Duration::MAX).is_finished()));
    });
}

#[test]
fn a_task_that_waits_for_room_in_another_pool_does_not_hold_up_its_own() {
    promptly("room is made", || {
        let (one, other) = (pool(1), small_pool(1, 1));
        let busy = Busy::one(&other);
        other.spawn(|| ()).unwrap();
        let there = other.handle();
        let waits = one.submit(move || there.submit(|| 7).unwrap().wait().unwrap()).unwrap();
        eventually("it waits for room", || one.metrics().workers_standing_still == 1);
        // This is what the other pool's worker waits for, if it should be a task of the first.
        assert_eq!(one.submit(|| 1).unwrap().wait().unwrap(), 1);
        busy.release();
        assert_eq!(waits.wait().unwrap(), 7);
    });
}

#[test]
fn two_full_pools_whose_tasks_submit_to_each_other_go_on() {
    promptly("all tasks run", || {
        let (one, other) = (small_pool(1, 1), small_pool(1, 1));
        let ran = Arc::new(AtomicUsize::new(0));
        for number in 0..500 {
            let (from, to) = if number % 2 == 0 { (&one, &other) } else { (&other, &one) };
            let (to, ran) = (to.handle(), Arc::clone(&ran));
            from.spawn(move || to.spawn(move || add(&ran, 1)).unwrap()).unwrap();
        }
        eventually("all tasks run", || ran.load(Relaxed) == 500);
    });
}

#[test]
fn tasks_of_two_full_pools_may_each_run_something_inside_the_other() {
    promptly("both go on", || {
        let (one, other) = (lone_worker(1), lone_worker(1));
        let both = Arc::new(Barrier::new(3));
        let tickets = [(&one, &other), (&other, &one)].map(|(here, there)| {
            let (there, both) = (there.handle(), Arc::clone(&both));
            let run_there = move || {
                both.wait();
                both.wait();
                there.inside(|| 1)
            };
            here.submit(run_there).unwrap()
        });
        both.wait();
        one.spawn(|| ()).unwrap();
        other.spawn(|| ()).unwrap();
        both.wait();
        assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [1, 1]);
    });
}

#[test]
fn a_timeout_for_room_in_another_pool_holds_inside_a_task() {
    let (one, other) = (pool(1), small_pool(1, 1));
    let _busy = Busy::one(&other);
    other.spawn(|| ()).unwrap();
    let there = other.handle();
    let refused = one.submit(move || there.submit_timeout(|| (), Duration::from_millis(2)).is_err()).unwrap();
    assert!(refused.wait().unwrap());
    let there = other.handle();
    let refused = one.submit(move || there.try_spawn(|| ()).is_err()).unwrap();
    assert!(refused.wait().unwrap());
}

#[test]
fn options_reach_another_pool_from_inside_a_task() {
    let (one, other) = (pool(1), pool(2));
    let there = other.handle();
    let across = one.submit(move || {
        let options = TaskOptions {
            affinity: Some(3),
            timeout: Some(Duration::from_secs(3600)),
            name: Some("across".into()),
            ..TaskOptions::default()
        };
        there.with(&options).submit(|| 7).unwrap().wait().unwrap()
    });
    assert_eq!(across.unwrap().wait().unwrap(), 7);
    assert_eq!((one.metrics().completed, other.metrics().completed), (1, 1));
}
