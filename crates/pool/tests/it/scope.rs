//! Scopes: tasks that borrow are over when the scope returns, whatever happens to them or to the pool meanwhile.
//!
//! Everything unsafe about a scope rests on that. So each way a task can miss its worker is tried here: a full
//! pool, a closed one, a purge, a stop, a panic; and each time what was borrowed is used afterwards.

use crate::busy::{Busy, lone_worker, pool, small_pool, start, thread_name, until_asleep};
use crate::eventually::{Sleeper, eventually, promptly};
use crate::witness::add;
use millpond::{PoolConfig, PoolHandle, Priority, blocking};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[test]
fn tasks_borrow_from_around_the_scope_and_are_over_when_it_returns() {
    promptly("the scope returns", || {
        let pool = pool(2);
        let mut numbers = vec![0_usize; 10_000];
        let returned = pool.scope(|scope| {
            for (place, number) in numbers.iter_mut().enumerate() {
                scope.spawn(move || *number = place + 1);
            }
            "returned"
        });
        assert_eq!(returned, "returned");
        assert!(numbers.iter().enumerate().all(|(place, &number)| number == place + 1));
        assert_eq!(pool.scope(|_| 7), 7, "a scope may be empty");
    });
}

#[test]
fn tasks_of_a_scope_may_spawn_into_it() {
    promptly("the scope returns", || {
        let (pool, count) = (pool(2), AtomicUsize::new(0));
        pool.scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        scope.spawn(|| {
                            scope.spawn(|| add(&count, 1));
                            count.fetch_add(1, Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), 200);
    });
}

#[test]
fn a_scope_runs_in_place_what_a_full_pool_refuses() {
    promptly("the scope returns although no worker comes", || {
        let pool = small_pool(1, 4);
        let busy = Busy::one(&pool);
        (0..4).for_each(|_| pool.spawn(|| ()).unwrap());
        let mut names = vec![String::new(); 3];
        pool.scope(|scope| names.iter_mut().for_each(|name| scope.spawn(move || *name = thread_name())));
        assert!(names.iter().all(|name| *name == thread_name()), "{names:?}");
        busy.release();
    });
}

#[test]
fn a_scope_runs_in_place_what_a_closed_pool_refuses() {
    let pool = pool(1);
    let handle = pool.handle();
    drop(pool);
    let mut sum = 0;
    handle.scope(|scope| scope.spawn(|| sum += 1));
    assert_eq!(sum, 1);
    assert_eq!(handle.inside(|| 5), 5);
    assert_eq!(handle.join(|| 1, || 2), (1, 2));
}

#[test]
fn a_scope_on_a_worker_runs_its_own_tasks() {
    promptly("the scope returns with one worker", || {
        let pool = lone_worker(16);
        let handle = pool.handle();
        let sum = pool.submit(move || {
            let sum = AtomicUsize::new(0);
            handle.scope(|scope| {
                (1..=10).for_each(|number| {
                    scope.spawn({
                        let sum = &sum;
                        move || add(sum, number)
                    })
                })
            });
            sum.into_inner()
        });
        assert_eq!(sum.unwrap().wait().unwrap(), 55);
    });
}

#[test]
fn a_scope_on_a_worker_that_is_over_does_not_wait_for_what_was_there_before_it() {
    promptly("the scope returns with one worker", || {
        let pool = lone_worker(16);
        let handle = pool.handle();
        let ran_first = pool.submit(move || {
            let others = Arc::new(AtomicUsize::new(0));
            for _ in 0..3 {
                let others = Arc::clone(&others);
                handle.spawn(move || add(&others, 1)).unwrap();
            }
            let own = AtomicUsize::new(0);
            handle.scope(|scope| (0..3).for_each(|_| scope.spawn(|| add(&own, 1))));
            (own.into_inner(), others.load(Relaxed))
        });
        assert_eq!(ran_first.unwrap().wait().unwrap(), (3, 0));
    });
}

/// Spawns itself anew whenever it runs, until it is told to end.
pub(crate) fn go_on(pool: &PoolHandle, ends: &Arc<AtomicBool>) {
    if !ends.load(Relaxed) {
        let (next, ends) = (pool.clone(), Arc::clone(ends));
        // The pool may have ended meanwhile.
        let _ = pool.spawn(move || go_on(&next, &ends));
    }
}

/// What a task returns that runs on a lone worker, and may begin what goes on until the task is over.
fn beside_something_endless(
    task: impl FnOnce(&PoolHandle, &Arc<AtomicBool>) -> usize + Send + 'static,
) -> usize {
    promptly("the scope returns with one worker", || {
        let pool = lone_worker(16);
        let (handle, ends) = (pool.handle(), Arc::new(AtomicBool::new(false)));
        let returned = pool.submit({
            let ends = Arc::clone(&ends);
            move || task(&handle, &ends)
        });
        let returned = returned.unwrap().wait().unwrap();
        ends.store(true, Relaxed);
        returned
    })
}

#[test]
fn a_scope_ends_although_one_of_its_tasks_began_something_that_goes_on_for_ever() {
    let ran = beside_something_endless(|pool, ends| {
        let ran = AtomicUsize::new(0);
        pool.scope(|scope| {
            scope.spawn(|| add(&ran, 1));
            scope.spawn(|| go_on(pool, ends));
            scope.spawn(|| add(&ran, 1));
        });
        ran.into_inner()
    });
    assert_eq!(ran, 2);
}

#[test]
fn a_scope_ends_although_something_that_goes_on_for_ever_was_there_before_it() {
    let ran = beside_something_endless(|pool, ends| {
        let ran = AtomicUsize::new(0);
        go_on(pool, ends);
        // An urgent task has its place in a lane, so that there is something to wait for.
        pool.scope(|scope| scope.spawn_with(Priority::High, || add(&ran, 1)));
        ran.into_inner()
    });
    assert_eq!(ran, 1);
}

/// Begins `links` tasks one after the other, each from a scope that has so many tasks beside.
fn chain(pool: &PoolHandle, links: usize, beside: usize, done: Sender<()>) {
    if links == 0 {
        return done.send(()).unwrap();
    }
    pool.scope(|scope| {
        (0..beside).for_each(|_| scope.spawn(|| ()));
        scope.spawn(|| {
            let next = pool.clone();
            pool.spawn(move || chain(&next, links - 1, beside, done)).unwrap();
        });
    });
}

#[test]
fn a_chain_of_scopes_that_each_begin_the_next_does_not_grow_on_one_stack() {
    for workers in [1, 2] {
        for beside in [0, 1, 3] {
            promptly("the chain ends", move || {
                let pool = pool(workers);
                let (done, ends) = mpsc::channel();
                let handle = pool.handle();
                pool.spawn(move || chain(&handle, 50_000, beside, done)).unwrap();
                ends.recv().unwrap();
            });
        }
    }
}

#[test]
fn a_scope_ends_beside_more_of_others_than_can_be_put_aside() {
    promptly("all scopes return", || {
        let pool = lone_worker(16);
        let (handle, ends) = (pool.handle(), Arc::new(AtomicBool::new(false)));
        let goes_on = Arc::clone(&ends);
        let scopes = pool.submit(move || {
            let ran = AtomicUsize::new(0);
            for _ in 0..8 {
                handle.scope(|scope| {
                    scope.spawn(|| add(&ran, 1));
                    go_on(&handle, &goes_on);
                    (0..30).for_each(|_| handle.spawn(|| ()).unwrap());
                });
            }
            ran.into_inner()
        });
        assert_eq!(scopes.unwrap().wait().unwrap(), 8);
        ends.store(true, Relaxed);
    });
}

#[test]
fn a_scope_does_not_wait_for_what_its_tasks_leave_behind() {
    promptly("the scope returns", || {
        let pool = pool(2);
        let handle = pool.handle();
        let scopes = pool.submit(move || {
            let (after, waits) = mpsc::channel();
            let left = Mutex::new(None);
            handle.scope(|scope| {
                scope.spawn(|| ());
                scope.spawn(|| {
                    let waits = move || blocking(|| waits.recv().unwrap());
                    *left.lock().unwrap() = Some(handle.submit(waits).unwrap());
                });
            });
            after.send(7).unwrap();
            left.into_inner().unwrap().unwrap().wait().unwrap()
        });
        assert_eq!(scopes.unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn a_scope_that_finds_no_room_in_its_workers_queue_runs_nothing_of_others() {
    promptly("the body of the scope goes on", || {
        let config = PoolConfig { workers: 2, local_capacity: 64, ..PoolConfig::default() };
        let pool = start(config);
        let handle = pool.handle();
        let scopes = pool.submit(move || {
            let (after, waits) = mpsc::channel();
            let ran = AtomicUsize::new(0);
            handle.scope(|scope| {
                handle.spawn(move || blocking(|| waits.recv().unwrap())).unwrap();
                (0..200).for_each(|_| scope.spawn(|| add(&ran, 1)));
                after.send(()).unwrap();
            });
            ran.load(Relaxed)
        });
        assert_eq!(scopes.unwrap().wait().unwrap(), 200);
    });
}

#[test]
fn a_scope_in_a_pause_runs_its_own_tasks_and_nothing_of_others() {
    promptly("the scope returns", || {
        let pool = Arc::new(lone_worker(1024));
        let (inner, others) = (Arc::clone(&pool), Arc::new(AtomicUsize::new(0)));
        let told = Arc::clone(&others);
        let scopes = pool.submit(move || {
            let own = AtomicUsize::new(0);
            inner.scope(|scope| {
                scope.spawn(|| add(&own, 1));
                let told = Arc::clone(&told);
                inner.spawn(move || add(&told, 1)).unwrap();
                scope.spawn(|| add(&own, 1));
                inner.pause();
            });
            (own.into_inner(), told.load(Relaxed))
        });
        assert_eq!(scopes.unwrap().wait().unwrap(), (2, 0));
        pool.resume();
        eventually("the other task runs", || others.load(Relaxed) == 1);
    });
}

#[test]
fn work_that_is_to_run_inside_a_full_pool_waits_for_room() {
    let pool = small_pool(1, 1);
    let busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    let sleeper = Sleeper::default();
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            sleeper.about_to_sleep();
            pool.inside(millpond::current_worker)
        });
        eventually("it waits", || sleeper.is_asleep());
        busy.release();
        assert_eq!(inside.join().unwrap(), Some(0));
    });
}

#[test]
fn a_scope_on_a_lone_worker_runs_also_what_finds_no_room_in_its_queue() {
    promptly("the scope's tasks beyond the worker's own queue are run", || {
        // It holds 64, and nobody else can come for them.
        let pool = lone_worker(1024);
        let handle = pool.handle();
        let count = pool.submit(move || {
            let count = AtomicUsize::new(0);
            handle.scope(|scope| (0..200).for_each(|_| scope.spawn(|| add(&count, 1))));
            count.into_inner()
        });
        assert_eq!(count.unwrap().wait().unwrap(), 200);
    });
}

#[test]
fn a_scope_on_a_lone_worker_runs_also_its_tasks_with_a_priority() {
    promptly("the scope's urgent task is run", || {
        let pool = lone_worker(1024);
        let handle = pool.handle();
        let count = pool.submit(move || {
            let count = AtomicUsize::new(0);
            handle.scope(|scope| {
                for priority in Priority::ALL {
                    scope.spawn_with(priority, || add(&count, 1));
                }
            });
            count.into_inner()
        });
        assert_eq!(count.unwrap().wait().unwrap(), 3);
    });
}

#[test]
fn scopes_nest_on_one_worker() {
    promptly("the scopes return", || {
        fn nest(pool: &PoolHandle, depth: usize, count: &AtomicUsize) {
            count.fetch_add(1, Relaxed);
            if depth > 0 {
                pool.scope(|scope| (0..3).for_each(|_| scope.spawn(|| nest(pool, depth - 1, count))));
            }
        }
        let (pool, count) = (lone_worker(4), AtomicUsize::new(0));
        pool.scope(|scope| scope.spawn(|| nest(&pool, 5, &count)));
        assert_eq!(count.into_inner(), 1 + 3 + 9 + 27 + 81 + 243);
    });
}

#[test]
fn a_purged_task_of_a_scope_is_run_by_the_scopes_own_thread() {
    promptly("the scope returns", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let (mut first, mut second) = (String::new(), String::new());
        pool.scope(|scope| {
            scope.spawn(|| first = thread_name());
            scope.spawn(|| second = thread_name());
            let purged = pool.purge();
            assert_eq!(purged.waiting, 0);
        });
        assert_eq!((first, second), (thread_name(), thread_name()));
        busy.release();
    });
}

#[test]
fn tasks_of_a_scope_are_counted_once_wherever_they_run() {
    promptly("the scope returns", || {
        let pool = small_pool(1, 4);
        pool.scope(|scope| (0..4).for_each(|_| scope.spawn(|| ())));
        eventually("they are counted on the worker", || pool.metrics().completed == 4);
        let busy = Busy::one(&pool);
        pool.scope(|scope| {
            (0..4).for_each(|_| scope.spawn(|| ()));
            pool.purge();
        });
        assert_eq!(pool.metrics().completed, 8, "handed back by a purge");
        assert_eq!(pool.metrics().cancelled, 0, "they were run after all");
        (0..4).for_each(|_| pool.spawn(|| ()).unwrap());
        pool.scope(|scope| scope.spawn(|| ()));
        assert_eq!(pool.metrics().completed, 9, "refused by a full pool");
        busy.release();
    });
}

#[test]
fn a_scope_that_waits_while_its_pool_stops_returns_with_everything_done() {
    promptly("the scope returns", || {
        let pool = pool(1);
        let (handle, busy) = (pool.handle(), Busy::one(&pool));
        let (spawned, spawns) = mpsc::channel();
        let scope = thread::spawn(move || {
            let count = AtomicUsize::new(0);
            handle.scope(|scope| {
                (0..100).for_each(|_| scope.spawn(|| add(&count, 1)));
                spawned.send(()).unwrap();
            });
            count.into_inner()
        });
        spawns.recv().unwrap();
        let stopping = thread::spawn(move || drop(pool));
        assert_eq!(scope.join().unwrap(), 100, "before the busy worker was let go");
        busy.release();
        stopping.join().unwrap();
    });
}

#[test]
fn a_panic_in_a_task_is_raised_by_the_scope_after_all_tasks_are_over() {
    let pool = pool(2);
    let others = AtomicUsize::new(0);
    let raised = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope.spawn(|| resume_unwind(Box::new("one of them")));
            (0..100).for_each(|_| scope.spawn(|| add(&others, 1)));
        });
    }));
    assert_eq!(raised.unwrap_err().downcast_ref(), Some(&"one of them"));
    assert_eq!(others.into_inner(), 100);
    assert_eq!(pool.metrics().panicked, 1);
    assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1, "the workers live on");
}

#[test]
fn a_panic_in_the_body_is_raised_after_all_tasks_are_over() {
    promptly("the scope returns", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let (ran, thread) = (Arc::new(AtomicUsize::new(0)), thread::current());
        let told = Arc::clone(&ran);
        let release = thread::spawn(move || {
            assert_eq!(told.load(Relaxed), 0);
            busy.release();
        });
        let raised = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                scope.spawn(|| add(&ran, 1));
                scope.spawn(|| resume_unwind(Box::new("of a task")));
                thread.unpark();
                resume_unwind(Box::new("of the body"))
            })
        }));
        assert_eq!(raised.unwrap_err().downcast_ref(), Some(&"of the body"));
        assert_eq!(ran.load(Relaxed), 1);
        release.join().unwrap();
    });
}

#[test]
fn a_scope_survives_payloads_that_panic_when_dropped() {
    struct Spiteful;
    impl Drop for Spiteful {
        fn drop(&mut self) {
            if !thread::panicking() {
                resume_unwind(Box::new("again"));
            }
        }
    }
    promptly("the scope returns", || {
        let pool = pool(1);
        let raised = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                scope.spawn(|| resume_unwind(Box::new("the first")));
                scope.spawn(|| resume_unwind(Box::new(Spiteful)));
            });
        }));
        assert!(raised.is_err());
        std::mem::forget(raised);
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1);
    });
}

#[test]
fn a_scope_of_another_pools_task_does_not_hold_up_its_worker() {
    promptly("both pools go on", || {
        let (outer, inner) = (pool(1), pool(1));
        let (there, back) = (inner.handle(), outer.handle());
        let result = outer.submit(move || {
            let mut result = 0;
            there.scope(|scope| scope.spawn(|| result = back.submit(|| 7).unwrap().wait().unwrap()));
            result
        });
        assert_eq!(result.unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn inside_runs_on_a_worker_and_there_it_is_a_plain_call() {
    let pool = start(PoolConfig { workers: 1, name: "mill".to_owned(), ..PoolConfig::default() });
    until_asleep(&pool);
    let handle = pool.handle();
    let borrowed = String::from("borrowed");
    let (outer, inner) = pool.inside(|| (thread_name() + &borrowed, handle.inside(thread_name)));
    assert_eq!((outer.as_str(), inner.as_str()), ("mill-0borrowed", "mill-0"));
}

#[test]
fn a_scope_shows_how_many_of_its_tasks_are_not_over() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    pool.scope(|scope| {
        scope.spawn(|| ());
        scope.spawn(|| ());
        assert!(format!("{scope:?}").contains("pending: 2"), "{scope:?}");
        busy.release();
        eventually("the tasks are over", || format!("{scope:?}").contains("pending: 0"));
    });
    assert!(pool.drain(Duration::MAX).is_finished());
}

#[test]
fn short_scopes_on_many_threads_end_after_their_tasks_and_see_what_those_did() {
    /// A scope of `tasks` tasks, each of which may open another in its turn; their frames come and go quickly.
    fn play(pool: &PoolHandle, tasks: usize, depth: usize) -> usize {
        let mut done = [0; 4];
        pool.scope(|scope| {
            for (number, done) in done.iter_mut().enumerate().take(tasks) {
                scope.spawn(move || *done = if depth == 0 { 1 } else { play(pool, number, depth - 1) + 1 });
            }
        });
        done.iter().sum()
    }
    let pool = pool(2);
    let handle = pool.handle();
    let rounds = if cfg!(miri) { 3 } else { 3000 };
    thread::scope(|threads| {
        for thread in 0..3 {
            let handle = &handle;
            threads.spawn(move || {
                for round in 0..rounds {
                    // Without depth as many as there are; with it each adds what its own scope has.
                    let tasks = (round + thread) % 5;
                    assert_eq!(play(handle, tasks, 0), tasks);
                    assert_eq!(play(handle, tasks.min(4), 1), [0, 1, 3, 6, 10][tasks.min(4)]);
                }
            });
        }
    });
    assert!(pool.drain(Duration::MAX).is_finished());
}

#[test]
fn tasks_of_a_scope_that_spawn_after_its_body_are_waited_for() {
    let pool = pool(2);
    let handle = pool.handle();
    for _ in 0..if cfg!(miri) { 3 } else { 1000 } {
        let sum = AtomicUsize::new(0);
        handle.scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        scope.spawn(|| _ = sum.fetch_add(1, Relaxed));
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 9);
    }
}
