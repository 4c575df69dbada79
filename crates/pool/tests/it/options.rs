//! Priorities: the urgent lane comes first, and the written bound keeps the patient one alive.
//!
//! The bound is a promise in `PoolConfig::lane_weights`, so it is tested as it is written, for every task of every
//! lane: a task with q tasks before it in its lane is taken after at most ⌈(q + 1) / weight⌉ × (sum of weights)
//! takes of one worker, whatever the other lanes hold.
//!
//! Not here: deadlines and time-outs (`time.rs`), affinity (`affinity.rs`), names (`tickets.rs`).

use crate::busy::{Busy, start};
use crate::eventually::promptly;
use millpond::{Pool, PoolConfig, PoolHandle, Priority, TaskOptions};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Order = Arc<Mutex<Vec<(Priority, usize)>>>;

fn with_weights(lane_weights: [u32; 3]) -> Pool {
    start(PoolConfig { workers: 1, lane_weights, ..PoolConfig::default() })
}

fn of(priority: Priority) -> TaskOptions {
    TaskOptions { priority, ..TaskOptions::default() }
}

fn spawn_numbered(pool: &PoolHandle, priority: Priority, number: usize, order: &Order) {
    let order = Arc::clone(order);
    pool.with(&of(priority)).spawn(move || order.lock().unwrap().push((priority, number))).unwrap();
}

/// Fills each lane with so many tasks while the only worker cannot begin any, and returns the order in which it did.
fn order_of(
    pool: &Pool,
    per_lane: [usize; 3],
    hold: impl FnOnce(&Pool) -> Box<dyn FnOnce() + '_>,
) -> Vec<(Priority, usize)> {
    let order = Order::default();
    let release = hold(pool);
    // The patient ones come first, so that nothing but their priority can put the urgent ones before them.
    for (lane, priority) in Priority::ALL.into_iter().enumerate().rev() {
        (0..per_lane[lane]).for_each(|number| spawn_numbered(pool, priority, number, &order));
    }
    release();
    assert!(pool.drain(Duration::MAX).is_finished());
    std::mem::take(&mut *order.lock().unwrap())
}

fn busy(pool: &Pool) -> Box<dyn FnOnce()> {
    let busy = Busy::one(pool);
    Box::new(move || busy.release())
}

fn assert_bound(order: &[(Priority, usize)], weights: [u32; 3], what: &str) {
    let sum = weights.iter().sum::<u32>() as usize;
    for (taken_before, &(priority, number)) in order.iter().enumerate() {
        let weight = weights[priority as usize] as usize;
        let bound = (number + 1).div_ceil(weight) * sum;
        assert!(
            taken_before < bound,
            "{what}: {priority:?} {number} was take {} of {bound}",
            taken_before + 1
        );
    }
}

#[test]
fn no_lane_waits_longer_than_its_weight_promises() {
    for weights in [[8, 4, 1], [1, 1, 1], [64, 1, 1], [1, 1, 64], [3, 5, 7]] {
        for per_lane in [[200, 200, 200], [600, 10, 1], [300, 0, 40], [0, 200, 3]] {
            let order = order_of(&with_weights(weights), per_lane, |pool| busy(pool));
            assert_eq!(order.len(), per_lane.iter().sum::<usize>());
            assert_bound(&order, weights, &format!("{weights:?} {per_lane:?}"));
        }
    }
}

#[test]
fn the_bound_holds_for_a_pool_that_was_paused() {
    let pool = with_weights([8, 4, 1]);
    let order = order_of(&pool, [200, 200, 50], |pool| {
        pool.pause();
        Box::new(|| _ = pool.resume())
    });
    assert_eq!(order.len(), 450);
    assert_bound(&order, [8, 4, 1], "paused");
}

#[test]
fn within_a_lane_tasks_keep_their_order() {
    let order = order_of(&with_weights([8, 4, 1]), [100, 100, 100], |pool| busy(pool));
    for priority in Priority::ALL {
        let numbers: Vec<_> =
            order.iter().filter(|(of, _)| *of == priority).map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn urgent_tasks_are_done_first_most_of_the_time() {
    let order = order_of(&with_weights([8, 4, 1]), [104, 104, 104], |pool| busy(pool));
    let of_the_first = |priority| order[..130].iter().filter(|(of, _)| *of == priority).count();
    assert_eq!([Priority::High, Priority::Normal, Priority::Low].map(of_the_first), [80, 40, 10]);
}

#[test]
fn a_low_task_runs_although_urgent_ones_never_cease() {
    /// An urgent task that is followed by another until somebody is done, or until it is plain that nobody will be.
    fn follow(pool: &PoolHandle, count: Arc<AtomicUsize>, done: Arc<AtomicBool>) {
        let again = pool.clone();
        let task = move || {
            if !done.load(Relaxed) && count.fetch_add(1, Relaxed) < 10_000 {
                follow(&again, count, done);
            }
        };
        pool.with(&of(Priority::High)).spawn(task).unwrap();
    }
    promptly("the low task has its turn", || {
        let pool = with_weights([8, 4, 1]);
        let (done, urgent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let busy = Busy::one(&pool);
        // Two of them, so that their lane is never empty when the worker looks.
        (0..2).for_each(|_| follow(&pool, Arc::clone(&urgent), Arc::clone(&done)));
        let (seen, told) = (Arc::clone(&urgent), Arc::clone(&done));
        let low = pool.with(&of(Priority::Low)).submit(move || {
            told.store(true, Relaxed);
            seen.load(Relaxed)
        });
        busy.release();
        assert!(low.unwrap().wait().unwrap() <= 12, "of 13 takes the low lane gets one");
    });
}

#[test]
fn priorities_hold_for_tickets_futures_and_tasks_submitted_by_tasks() {
    let pool = with_weights([64, 1, 1]);
    let order = Order::default();
    let (handle, told) = (pool.handle(), Arc::clone(&order));
    let busy = Busy::one(&pool);
    let submits = pool.submit(move || {
        let push = |priority, number| {
            let order = Arc::clone(&told);
            move || order.lock().unwrap().push((priority, number))
        };
        let low = handle.with(&of(Priority::Low)).submit(push(Priority::Low, 0)).unwrap();
        let high = handle.with(&of(Priority::High)).submit(push(Priority::High, 0)).unwrap();
        let record = push(Priority::High, 1);
        let future = handle.with(&of(Priority::High)).spawn_async(async move { record() }).unwrap();
        (low, high, future)
    });
    busy.release();
    drop(submits.unwrap().wait().unwrap());
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(*order.lock().unwrap(), [(Priority::High, 0), (Priority::High, 1), (Priority::Low, 0)]);
}
