//! A task that submits to its own full pool: it never waits for room, since it might be the very one to make it.
//!
//! The rule is written in `route.rs`: verbs that would wait run the task in place, up to sixteen deep on one stack,
//! and are refused beyond; `try_` verbs are refused at once. Everything here has one worker, and mostly no
//! stand-in.

use crate::busy::{lone_worker, pool, start, thread_name};
use crate::eventually::promptly;
use crate::witness::add;
use millpond::{
    Pool, PoolConfig, PoolHandle, Priority, SubmitError, TaskError, TaskOptions, block_on, yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

fn high() -> TaskOptions {
    TaskOptions { priority: Priority::High, ..TaskOptions::default() }
}

/// Fills the shared lanes and the worker's own queue from inside, so that every further task finds them full.
fn fill(pool: &PoolHandle) {
    for priority in Priority::ALL {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        while pool.with(&options).try_spawn(|| ()).is_ok() {}
    }
}

/// Runs `work` in a task of a pool that cannot have a second worker, after it has filled the pool.
fn in_a_full_pool<R: Send + 'static>(
    what: &str,
    work: impl FnOnce(&PoolHandle) -> R + Send + 'static,
) -> (Pool, R) {
    promptly(what, move || {
        let pool = lone_worker(2);
        let handle = pool.handle();
        let ticket = pool.submit(move || {
            fill(&handle);
            work(&handle)
        });
        let result = ticket.unwrap().wait().unwrap();
        (pool, result)
    })
}

#[test]
fn submit_and_spawn_run_the_task_in_place() {
    let (pool, sum) = in_a_full_pool("the tasks run in place", |pool| {
        let sum = Arc::new(AtomicUsize::new(0));
        for number in 1..=1000 {
            let told = Arc::clone(&sum);
            pool.spawn(move || add(&told, number)).unwrap();
            assert_eq!(pool.submit(move || number).unwrap().wait().unwrap(), number);
        }
        sum.load(Relaxed)
    });
    assert_eq!(sum, 500_500, "each ran before the next was submitted");
    assert!(pool.metrics().workers[0].ran_in_place >= 2000);
}

#[test]
fn try_submit_and_try_spawn_are_refused_and_the_task_still_runs() {
    in_a_full_pool("the tasks come back", |pool| {
        let Err(SubmitError::Full(task)) = pool.try_submit(|| 7) else { panic!("expected Full") };
        assert_eq!(task(), 7);
        assert!(matches!(pool.try_spawn(|| ()), Err(SubmitError::Full(_))));
        assert!(matches!(pool.with(&high()).try_spawn(|| ()), Err(SubmitError::Full(_))));
    });
}

#[test]
fn submit_timeout_and_futures_run_in_place_too() {
    in_a_full_pool("the tasks run in place", |pool| {
        let mut ticket = pool.submit_timeout(|| 7, Duration::from_secs(3600)).unwrap();
        assert_eq!(ticket.poll().unwrap().unwrap(), 7, "done before it was returned");
        let mut future = pool.spawn_async(async { 8 }).unwrap();
        assert_eq!(future.poll().unwrap().unwrap(), 8);
        let mut urgent = pool.with(&high()).submit(|| 9).unwrap();
        assert_eq!(urgent.poll().unwrap().unwrap(), 9);
        let batch = pool.submit_batch((0..10).map(|number| move || number)).unwrap();
        assert_eq!(batch.into_iter().map(|ticket| ticket.wait().unwrap()).sum::<i32>(), 45);
    });
}

#[test]
fn a_task_run_in_place_may_panic() {
    let (pool, ()) = in_a_full_pool("the panic is caught", |pool| {
        pool.spawn(|| std::panic::resume_unwind(Box::new("in place"))).unwrap();
        let ticket = pool.submit(|| -> () { std::panic::resume_unwind(Box::new("in place")) }).unwrap();
        assert!(matches!(ticket.wait(), Err(TaskError::Panicked(_))));
    });
    assert_eq!(pool.metrics().panicked, 2);
}

#[test]
fn tasks_run_in_place_up_to_sixteen_deep_and_are_refused_beyond() {
    /// How many tasks run in place, one inside the other, before one is refused.
    fn dive(pool: &PoolHandle, depth: usize) -> usize {
        let inner = pool.clone();
        match pool.submit(move || dive(&inner, depth + 1)) {
            Ok(ticket) => ticket.wait().unwrap(),
            Err(refused) => {
                assert!(matches!(refused, SubmitError::Full(_)));
                depth
            }
        }
    }
    let (_pool, depth) = in_a_full_pool("the deepest is refused", |pool| dive(pool, 0));
    assert_eq!(depth, 16);
}

#[test]
fn scopes_and_joins_run_in_place() {
    fn fibonacci(number: u64) -> u64 {
        if number < 2 {
            return number;
        }
        let (one, other) = millpond::join(|| fibonacci(number - 1), || fibonacci(number - 2));
        one + other
    }
    in_a_full_pool("the scope and the joins end", |pool| {
        let sum = AtomicUsize::new(0);
        pool.scope(|scope| (0..100).for_each(|_| scope.spawn(|| add(&sum, 1))));
        assert_eq!(sum.into_inner(), 100);
        assert_eq!(pool.join(|| fibonacci(15), || 1), (610, 1));
    });
}

#[test]
fn a_worker_that_waits_for_a_closure_of_its_own_pool_runs_it_itself() {
    promptly("every task waits for the next", || {
        fn chain(pool: &PoolHandle, depth: usize) -> usize {
            let inner = pool.clone();
            if depth == 0 {
                0
            } else {
                pool.submit(move || chain(&inner, depth - 1)).unwrap().wait().unwrap() + 1
            }
        }
        let pool = lone_worker(4);
        let handle = pool.handle();
        assert_eq!(pool.submit(move || chain(&handle, 60)).unwrap().wait().unwrap(), 60);
    });
}

#[test]
fn a_worker_that_waits_for_a_closure_nobody_has_begun_needs_no_stand_in() {
    let pool = pool(1);
    let handle = pool.handle();
    let names = pool.submit(move || (thread_name(), handle.submit(thread_name).unwrap().wait().unwrap()));
    let (waits, runs) = names.unwrap().wait().unwrap();
    assert_eq!(waits, runs);
    assert_eq!(pool.metrics().workers.len(), 1, "nobody else was called");
}

#[test]
fn a_closure_run_by_whoever_waited_for_it_leaves_room_for_another() {
    promptly("every task is waited for", || {
        let pool = lone_worker(4);
        let handle = pool.handle();
        let refused = pool.submit(move || {
            // Whenever one is submitted, none waits: there is always room.
            (0..100_000).find(|&number| match handle.try_submit(move || number) {
                Ok(ticket) => ticket.wait().unwrap() != number,
                Err(_) => true,
            })
        });
        assert_eq!(refused.unwrap().wait().unwrap(), None);
    });
}

#[test]
fn a_worker_that_waits_runs_only_what_it_waits_for_and_each_task_once() {
    promptly("every task is waited for", || {
        let pool = lone_worker(4);
        let (handle, ran) = (pool.handle(), Arc::new(AtomicUsize::new(0)));
        let told = Arc::clone(&ran);
        let waits = pool.submit(move || {
            let tickets: Vec<_> = (0..50)
                .map(|number| {
                    let ran = Arc::clone(&told);
                    let task = move || {
                        ran.fetch_add(1, Relaxed);
                        number
                    };
                    handle.submit(task).unwrap()
                })
                .collect();
            // The last comes first: each is taken from the middle of the queue.
            let sum: usize = tickets.into_iter().rev().map(|ticket| ticket.wait().unwrap()).sum();
            (sum, told.load(Relaxed))
        });
        assert_eq!(waits.unwrap().wait().unwrap(), (1225, 50));
        assert!(pool.drain(Duration::MAX).is_finished());
        assert_eq!((ran.load(Relaxed), pool.metrics().completed), (50, 51));
    });
}

#[test]
fn a_worker_with_a_stand_in_may_wait_for_anything_of_its_own_pool() {
    promptly("everything is waited for", || {
        let pool = pool(1);
        let handle = pool.handle();
        let waits = pool.submit(move || {
            let future = handle.spawn_async(async { 1 }).unwrap().wait().unwrap();
            let mut closure = handle.submit(|| 2).unwrap();
            let closure = closure.wait_timeout(Duration::MAX).unwrap().unwrap();
            let blocked = block_on(handle.submit(|| 3).unwrap()).unwrap();
            let (told, tells) = std::sync::mpsc::channel();
            handle.submit(|| 4).unwrap().on_done(move |result| told.send(result.unwrap()).unwrap());
            let called = millpond::blocking(|| tells.recv().unwrap());
            future + closure + blocked + called
        });
        assert_eq!(waits.unwrap().wait().unwrap(), 10);
    });
}

#[test]
fn a_worker_without_a_stand_in_may_wait_for_futures_and_callbacks_of_its_own_pool() {
    promptly("everything is waited for", || {
        let pool = lone_worker(4);
        let handle = pool.handle();
        let waits = pool.submit(move || {
            let yields = async {
                yield_now().await;
                1
            };
            let future = handle.spawn_async(yields).unwrap().wait().unwrap();
            let inner = handle.clone();
            let awaits = async move { inner.submit(|| 2).unwrap().await.unwrap() };
            let blocked = block_on(handle.spawn_async(awaits).unwrap()).unwrap();
            let mut scoped = 0;
            let within = handle.clone();
            handle.scope(|scope| {
                scope.spawn_with(Priority::Low, || {
                    scoped = within.spawn_async(async { 3 }).unwrap().wait().unwrap();
                });
            });
            future + blocked + scoped
        });
        assert_eq!(waits.unwrap().wait().unwrap(), 6);
        assert!(pool.metrics().workers_unrelieved > 0);
    });
}

#[test]
fn a_short_wait_inside_a_worker_is_short() {
    let pool = pool(1);
    let handle = pool.handle();
    let waits = pool.submit(move || {
        let (go_on, told) = std::sync::mpsc::channel();
        let mut ticket = handle.submit(move || told.recv().unwrap()).unwrap();
        // This does not run it itself: that might take longer, and here for ever.
        let first = ticket.wait_timeout(Duration::from_millis(2)).is_none();
        go_on.send(7).unwrap();
        (first, ticket.wait().unwrap())
    });
    assert_eq!(waits.unwrap().wait().unwrap(), (true, 7));
}

#[test]
fn a_worker_without_a_stand_in_runs_what_it_waits_for_although_it_may_be_late() {
    let pool = lone_worker(4);
    let handle = pool.handle();
    let waits = pool.submit(move || {
        let mut ticket = handle.submit(|| 7).unwrap();
        ticket.wait_timeout(Duration::from_secs(3600)).unwrap().unwrap()
    });
    assert_eq!(waits.unwrap().wait().unwrap(), 7);
}

#[test]
fn a_task_that_floods_its_own_pool_loses_nothing() {
    promptly("the flood runs off", || {
        let config =
            PoolConfig { workers: 2, queue_capacity: 4, local_capacity: 64, ..PoolConfig::default() };
        let (pool, ran) = (start(config), Arc::new(AtomicUsize::new(0)));
        let (handle, told) = (pool.handle(), Arc::clone(&ran));
        pool.submit(move || {
            for _ in 0..50_000 {
                let ran = Arc::clone(&told);
                handle.spawn(move || add(&ran, 1)).unwrap();
            }
        })
        .unwrap()
        .wait()
        .unwrap();
        assert!(pool.drain(Duration::MAX).is_finished());
        assert_eq!((ran.load(Relaxed), pool.metrics().completed), (50_000, 50_001));
    });
}
