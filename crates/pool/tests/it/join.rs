//! `join`: both closures run once, both results come back, and what was borrowed outlives both, also when one panics.
//!
//! The second half lies on the stack of the first while others may take it. So the tests look for a half that runs
//! twice, or not at all, or after its frame is gone.

use crate::busy::{Busy, lone_worker, pool, start, thread_name};
use crate::eventually::{eventually, promptly};
use crate::witness::Witnesses;
use millpond::{Hook, PoolConfig, PoolHandle, join};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

fn fibonacci(number: u32) -> u64 {
    if number < 2 {
        return u64::from(number);
    }
    let (one, other) = join(|| fibonacci(number - 1), || fibonacci(number - 2));
    one + other
}

#[test]
fn both_results_come_back_wherever_it_is_called() {
    let pool = pool(2);
    assert_eq!(join(|| 1, || "two"), (1, "two"), "outside of any pool");
    assert_eq!(pool.join(|| 1, || "two"), (1, "two"), "from outside");
    assert_eq!(pool.submit(|| join(|| 1, || "two")).unwrap().wait().unwrap(), (1, "two"), "inside");
}

#[test]
fn outside_of_a_pool_the_first_runs_before_the_second() {
    let order = std::sync::Mutex::new(Vec::new());
    join(|| order.lock().unwrap().push(1), || order.lock().unwrap().push(2));
    assert_eq!(*order.lock().unwrap(), [1, 2]);
}

#[test]
fn joins_at_every_level_give_the_right_sum_with_any_number_of_workers() {
    promptly("the sums are found", || {
        for workers in [1, 2, 3, 8] {
            let pool = pool(workers);
            assert_eq!(pool.inside(|| fibonacci(20)), 6765, "{workers} workers");
        }
        assert_eq!(lone_worker(1).inside(|| fibonacci(20)), 6765, "a worker with nobody to stand in for it");
    });
}

#[test]
fn many_threads_join_in_one_pool_at_once() {
    promptly("the sums are found", || {
        let pool = pool(2);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| assert_eq!(pool.join(|| fibonacci(12), || 1), (144, 1))));
            }
        });
    });
}

#[test]
fn joins_deeper_than_any_list_of_forks_give_the_right_sum() {
    fn depth(levels: usize) -> usize {
        if levels == 0 { 0 } else { join(|| depth(levels - 1), || 1).0 + 1 }
    }
    let pool = pool(2);
    assert_eq!(pool.inside(|| depth(1000)), 1000);
}

#[test]
fn a_sleeping_worker_takes_the_second_half() {
    promptly("both halves run at the same time", || {
        let pool = start(PoolConfig { workers: 2, name: "mill".to_owned(), ..PoolConfig::default() });
        let handle = pool.handle();
        let (first, second) = pool.inside(|| {
            eventually("the other worker sleeps", || handle.metrics().workers_asleep == 1);
            let begun = AtomicBool::new(false);
            join(
                || {
                    eventually("the second half begins elsewhere", || begun.load(Relaxed));
                    thread_name()
                },
                || {
                    begun.store(true, Relaxed);
                    thread_name()
                },
            )
        });
        assert_ne!(first, second);
    });
}

#[test]
fn a_joiner_waits_for_whoever_took_its_second_half() {
    promptly("the second half ends", || {
        let pool = pool(2);
        let handle = pool.handle();
        let mut done = 0;
        pool.inside(|| {
            eventually("the other worker sleeps", || handle.metrics().workers_asleep == 1);
            let begun = AtomicBool::new(false);
            join(
                || eventually("the second half begins elsewhere", || begun.load(Relaxed)),
                || {
                    begun.store(true, Relaxed);
                    eventually("the joiner stands still", || handle.metrics().workers_standing_still == 1);
                    done += 1;
                },
            );
        });
        assert_eq!(done, 1);
    });
}

#[test]
fn a_panic_in_either_half_is_raised_when_both_are_settled() {
    promptly("every panic is raised", || {
        for workers in [1, 2] {
            let (pool, witnesses) = (pool(workers), Witnesses::default());
            for _ in 0..200 {
                let (one, other) = (witnesses.one(), witnesses.one());
                let first = || pool.join(|| resume_unwind(Box::new("first")), move || drop(other));
                let raised = catch_unwind(AssertUnwindSafe(first)).unwrap_err();
                assert_eq!(raised.downcast_ref(), Some(&"first"));
                let second = || pool.join(move || drop(one), || resume_unwind(Box::new("second")));
                let raised = catch_unwind(AssertUnwindSafe(second)).unwrap_err();
                assert_eq!(raised.downcast_ref(), Some(&"second"));
                let both = || {
                    let panics = |text: &'static str| move || -> () { resume_unwind(Box::new(text)) };
                    pool.join(panics("first"), panics("second"))
                };
                let raised = catch_unwind(AssertUnwindSafe(both)).unwrap_err();
                assert_eq!(raised.downcast_ref(), Some(&"first"), "of two panics the first half's");
            }
            assert_eq!(witnesses.left(), 0);
        }
    });
}

#[test]
fn a_panic_deep_in_a_tree_of_joins_loses_nothing_around_it() {
    promptly("every tree is settled", || {
        fn tree(levels: usize, begun: &AtomicUsize, witnesses: &Witnesses) -> usize {
            begun.fetch_add(1, Relaxed);
            if levels == 0 {
                return 1;
            }
            let (one, other) = (witnesses.one(), witnesses.one());
            let halves = join(
                move || {
                    let _one = one;
                    tree(levels - 1, begun, witnesses)
                },
                move || {
                    let _other = other;
                    if levels == 3 {
                        resume_unwind(Box::new(levels));
                    }
                    tree(levels - 1, begun, witnesses)
                },
            );
            halves.0 + halves.1
        }
        let (pool, witnesses) = (pool(2), Witnesses::default());
        for _ in 0..300 {
            let begun = AtomicUsize::new(0);
            let raised = catch_unwind(AssertUnwindSafe(|| pool.inside(|| tree(8, &begun, &witnesses))));
            assert_eq!(raised.unwrap_err().downcast_ref(), Some(&3_usize));
            assert_eq!(witnesses.left(), 0, "nobody is left in a frame that is gone");
        }
        assert_eq!(pool.inside(|| fibonacci(10)), 55);
    });
}

#[test]
fn a_half_may_wait_for_tasks_scopes_and_other_pools() {
    promptly("everything ends", || {
        fn work(pool: &PoolHandle, other: &PoolHandle, levels: usize) -> usize {
            if levels == 0 {
                return 1;
            }
            let mut scoped = 0;
            let (ticket, (across, ())) = join(
                || pool.submit(|| 1).unwrap().wait().unwrap(),
                || {
                    join(
                        || other.join(|| 1, || work(pool, other, levels - 1)),
                        || pool.scope(|scope| scope.spawn(|| scoped = work(pool, other, levels - 1))),
                    )
                },
            );
            ticket + across.0 + across.1 + scoped
        }
        let (one, other) = (pool(1), pool(2));
        // f(0) = 1, f(n) = 2 + 2 f(n - 1)
        assert_eq!(one.inside(|| work(&one, &other, 4)), 46);
    });
}

#[test]
fn joins_go_on_while_the_pool_stops() {
    promptly("the sum is found and the pool ends", || {
        let pool = pool(2);
        let sum = pool.submit(|| fibonacci(22)).unwrap();
        let busy = Busy::one(&pool);
        busy.release();
        let report = pool.stop(Duration::MAX);
        match sum.wait() {
            Ok(sum) => assert_eq!(sum, 17_711),
            Err(error) => assert!(matches!(error, millpond::TaskError::Cancelled), "{error}"),
        }
        assert_eq!(report.waiting, 0);
    });
}

#[test]
fn nothing_is_left_of_a_pool_that_ends_in_the_middle_of_joins() {
    promptly("everything is freed", || {
        let witnesses = Witnesses::default();
        for _ in 0..300 {
            let witness = witnesses.one();
            let on_start = Some(Hook::new(move |_| drop(witness.clone())));
            let pool = start(PoolConfig { workers: 4, on_start, ..PoolConfig::default() });
            let tickets: Vec<_> = (0..4).map(|_| pool.submit(|| fibonacci(10)).unwrap()).collect();
            drop(pool);
            drop(tickets);
        }
        eventually("the configuration of every pool is freed", || witnesses.left() == 0);
    });
}
