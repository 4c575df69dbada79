//! The workers themselves: how many there are, what they are called, where they run, and what is called on them.
//!
//! A resize must lose no task and no worker, whatever the pool is doing; and a worker that waits for something
//! other than work must not cost the pool a worker.

use crate::busy::{Busy, pool, start, thread_name, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::witness::add;
use millpond::{Hook, Pool, PoolConfig, TaskOptions, blocking};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

fn up_to(workers: usize, workers_max: usize) -> Pool {
    start(PoolConfig { workers, workers_max, ..PoolConfig::default() })
}

/// Whether so many tasks run at the same time.
fn assert_at_once(pool: &Pool, workers: usize) {
    drop(Busy::many(pool, workers));
}

#[test]
fn as_many_tasks_run_at_once_as_there_are_workers() {
    promptly("they all begin", || {
        let pool = pool(5);
        let busy = Busy::many(&pool, 5);
        let names: BTreeSet<&str> = busy.iter().map(|busy| busy.thread.as_str()).collect();
        assert_eq!(names.len(), 5);
        let behind = pool.submit(|| 7).unwrap();
        assert!(!behind.is_done());
        drop(busy);
        assert_eq!(behind.wait().unwrap(), 7);
    });
}

#[test]
fn as_many_sleepers_rise_as_there_are_tasks() {
    promptly("every task begins while the others wait for it", || {
        let pool = pool(4);
        for _ in 0..500 {
            until_asleep(&pool);
            let (handle, barrier) = (pool.handle(), Arc::new(Barrier::new(4)));
            let spawns = pool.submit(move || {
                // The first wakes somebody; while that one searches the others wake nobody, so it must pass it on.
                for _ in 0..3 {
                    let barrier = Arc::clone(&barrier);
                    handle.spawn(move || drop_leader(barrier.wait())).unwrap();
                }
                drop_leader(barrier.wait());
            });
            spawns.unwrap().wait().unwrap();
        }
    });

    fn drop_leader(_: std::sync::BarrierWaitResult) {}
}

#[test]
fn workers_are_named_after_the_pool_and_their_seat() {
    let pool = start(PoolConfig { workers: 3, name: "grist".to_owned(), ..PoolConfig::default() });
    let mut names: Vec<_> = Busy::many(&pool, 3).into_iter().map(|busy| busy.thread.clone()).collect();
    names.sort_unstable();
    assert_eq!(names, ["grist-0", "grist-1", "grist-2"]);
}

#[test]
fn a_pool_grows_and_shrinks() {
    promptly("the workers come and go", || {
        let pool = up_to(1, 8);
        for workers in [4, 8, 2, 8, 1, 3] {
            pool.resize(workers).unwrap();
            assert_at_once(&pool, workers);
            eventually("as many run as are wanted", || {
                let metrics = pool.metrics();
                metrics.workers_running == workers && metrics.workers_wanted == workers
            });
        }
    });
}

#[test]
fn a_size_within_the_limit_is_always_to_be_had() {
    promptly("every resize works", || {
        let pool = up_to(8, 8);
        for round in 0..3000 {
            pool.resize(1).unwrap();
            // Somewhat later each time, so that some workers are just about to retire.
            (0..round % 300).for_each(|_| std::hint::spin_loop());
            pool.resize(8).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        assert_at_once(&pool, 8);
    });
}

#[test]
fn a_size_can_be_set_while_workers_stand_still() {
    promptly("the workers come back", || {
        let pool = up_to(2, 2);
        let (go_on, told) = mpsc::channel::<()>();
        let waits = pool.submit(move || blocking(|| told.recv().is_err())).unwrap();
        eventually("one stands still", || pool.metrics().workers_standing_still == 1);
        // There is no place for a third, but the one that stands still will come back.
        pool.resize(1).unwrap();
        pool.resize(2).unwrap();
        drop(go_on);
        assert!(waits.wait().unwrap());
        assert_at_once(&pool, 2);
    });
}

#[test]
fn a_pool_that_shrinks_while_it_sleeps_does_so_at_once() {
    promptly("the surplus workers retire", || {
        let pool = pool(8);
        until_asleep(&pool);
        pool.resize(2).unwrap();
        eventually("six retire", || pool.metrics().workers_running == 2);
        until_asleep(&pool);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn threads_that_have_retired_end_after_a_while_and_new_ones_take_their_seats() {
    let of_this_pool = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|name| name.starts_with("retiring-")).count()
    };
    let pool = start(PoolConfig { workers: 4, name: "retiring".to_owned(), ..PoolConfig::default() });
    assert_at_once(&pool, 4);
    assert_eq!(of_this_pool(), 4);
    pool.resize(1).unwrap();
    eventually("the surplus threads have ended", || of_this_pool() == 1);
    pool.resize(4).unwrap();
    assert_at_once(&pool, 4);
    let mut names: Vec<_> = Busy::many(&pool, 4).into_iter().map(|busy| busy.thread.clone()).collect();
    names.sort_unstable();
    assert_eq!(names, ["retiring-0", "retiring-1", "retiring-2", "retiring-3"]);
}

#[test]
fn a_pool_that_shrinks_while_it_is_paused_still_works() {
    promptly("the tasks run", || {
        let pool = pool(4);
        until_asleep(&pool);
        pool.pause();
        pool.resize(1).unwrap();
        let tickets: Vec<_> = (0..100).map(|number| pool.submit(move || number).unwrap()).collect();
        pool.resize(3).unwrap();
        pool.resize(2).unwrap();
        pool.resume();
        assert!(tickets.into_iter().enumerate().all(|(number, ticket)| ticket.wait().unwrap() == number));
        eventually("two are left", || pool.metrics().workers_running == 2);
    });
}

#[test]
fn what_waits_at_a_worker_that_retires_is_taken_over() {
    promptly("the tasks run", || {
        let pool = pool(4);
        let handle = pool.handle();
        let ran = Arc::new(AtomicUsize::new(0));
        let barrier = Arc::new(Barrier::new(5));
        for _ in 0..4 {
            let (handle, ran, barrier) = (handle.clone(), Arc::clone(&ran), Arc::clone(&barrier));
            let fills_its_own_queue = move || {
                for _ in 0..100 {
                    let ran = Arc::clone(&ran);
                    handle.spawn(move || add(&ran, 1)).unwrap();
                }
                barrier.wait();
                barrier.wait();
            };
            pool.spawn(fills_its_own_queue).unwrap();
        }
        barrier.wait();
        pool.resize(1).unwrap();
        barrier.wait();
        eventually("all of them ran", || ran.load(Relaxed) == 400);
    });
}

#[test]
fn resizing_under_load_loses_nothing() {
    promptly("every task runs", || {
        let (pool, ran) = (up_to(2, 8), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for number in 0..20_000_u64 {
                            let (inner, ran, handle) = (Arc::clone(&ran), Arc::clone(&ran), pool.handle());
                            let affinity = (number % 4 == 0).then_some(number);
                            let options = TaskOptions { affinity, ..TaskOptions::default() };
                            let task = move || {
                                ran.fetch_add(1, Relaxed);
                                handle.spawn(move || add(&inner, 1)).unwrap();
                            };
                            pool.with(&options).spawn(task).unwrap();
                        }
                    })
                })
                .collect();
            let mut round = 0;
            while !submitters.iter().all(thread::ScopedJoinHandle::is_finished) {
                // The error of a size that cannot be had has its own test.
                let _ = pool.resize(1 + round * 5 % 8);
                round += 1;
                thread::yield_now();
            }
        });
        let report = pool.drain(Duration::MAX);
        assert!(report.is_finished(), "{report:?}");
        assert_eq!((ran.load(Relaxed), pool.metrics().completed), (80_000, 80_000));
    });
}

#[test]
fn hooks_are_called_on_each_worker_before_its_first_task_and_after_its_last() {
    promptly("the hooks are called", || {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let record = |what: &'static str| {
            let calls = Arc::clone(&calls);
            Some(Hook::new(move |number| calls.lock().unwrap().push((what, number, thread_name()))))
        };
        let (on_start, on_stop) = (record("start"), record("stop"));
        let pool = start(PoolConfig {
            workers: 2,
            name: "h".to_owned(),
            on_start,
            on_stop,
            ..PoolConfig::default()
        });
        let told = Arc::clone(&calls);
        let started = pool.submit(move || {
            let name = thread_name();
            told.lock().unwrap().iter().any(|(what, _, of)| *what == "start" && *of == name)
        });
        assert!(started.unwrap().wait().unwrap(), "the hook of the worker came before its first task");
        drop(pool);
        let mut calls = calls.lock().unwrap().clone();
        calls.sort_unstable();
        let expected = [("start", 0, "h-0"), ("start", 1, "h-1"), ("stop", 0, "h-0"), ("stop", 1, "h-1")];
        assert!(
            calls.iter().map(|(what, number, name)| (*what, *number, name.as_str())).eq(expected),
            "{calls:?}"
        );
    });
}

#[test]
fn hooks_that_panic_are_counted_and_their_workers_work() {
    let panics = || Some(Hook::new(|number| std::panic::resume_unwind(Box::new(number))));
    let config = PoolConfig { workers: 2, on_start: panics(), on_stop: panics(), ..PoolConfig::default() };
    let pool = start(config);
    let handle = pool.handle();
    assert_at_once(&pool, 2);
    assert_eq!(handle.metrics().hooks_panicked, 2);
    drop(pool);
    assert_eq!(handle.metrics().hooks_panicked, 4);
    assert_eq!(handle.metrics().panicked, 0, "a hook is no task");
}

#[test]
fn a_hook_may_submit_to_its_pool() {
    promptly("the hook's task runs", || {
        let (sent, handles) = mpsc::channel::<millpond::PoolHandle>();
        let handles = Mutex::new(handles);
        let (told, tells) = mpsc::channel();
        let told = Mutex::new(told);
        let submits = Hook::new(move |_| {
            let pool = handles.lock().unwrap().recv().unwrap();
            let told = told.lock().unwrap().clone();
            pool.spawn(move || told.send(thread_name()).unwrap()).unwrap();
        });
        let config =
            PoolConfig { workers: 1, name: "h".to_owned(), on_start: Some(submits), ..PoolConfig::default() };
        let pool = start(config);
        sent.send(pool.handle()).unwrap();
        assert_eq!(tells.recv().unwrap(), "h-0");
    });
}

#[test]
fn a_start_hook_may_wait_for_a_task_of_its_pool_which_its_worker_runs() {
    promptly("the hook ends, and was run once", || {
        let (sent, handles) = mpsc::channel::<millpond::PoolHandle>();
        let (handles, starts) = (Mutex::new(handles), Arc::new(AtomicUsize::new(0)));
        let counts = Arc::clone(&starts);
        let waits = Hook::new(move |_| {
            add(&counts, 1);
            let pool = handles.lock().unwrap().recv().unwrap();
            assert_eq!(pool.submit(millpond::current_worker).unwrap().wait().unwrap(), Some(0));
        });
        let pool = start(PoolConfig { workers: 1, on_start: Some(waits), ..PoolConfig::default() });
        sent.send(pool.handle()).unwrap();
        assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
        let metrics = pool.metrics();
        assert_eq!((starts.load(Relaxed), metrics.hooks_panicked), (1, 0));
    });
}

#[test]
fn a_pause_does_not_wait_for_a_start_hook() {
    promptly("the pause returns, and the task waits for its end", || {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let waits = Hook::new(move |_| released.lock().unwrap().recv().unwrap());
        let pool = start(PoolConfig { workers: 1, on_start: Some(waits), ..PoolConfig::default() });
        let mut ticket = pool.submit(|| 7).unwrap();
        pool.pause();
        release.send(()).unwrap();
        assert!(ticket.wait_timeout(Duration::from_millis(20)).is_none());
        pool.resume();
        assert_eq!(ticket.wait().unwrap(), 7);
    });
}

#[test]
fn a_worker_has_the_stack_it_was_given() {
    fn deep(levels: usize) -> usize {
        let frame = std::hint::black_box([levels as u8; 16 * 1024]);
        if levels == 0 {
            0
        } else {
            deep(levels - 1) + usize::from(frame[levels % frame.len()] == levels as u8)
        }
    }
    // Many times what a thread gets otherwise; on such a stack this would end the process.
    let pool = start(PoolConfig { workers: 1, stack_bytes: Some(64 << 20), ..PoolConfig::default() });
    assert_eq!(pool.submit(|| deep(256)).unwrap().wait().unwrap(), 256);
}

/// The processors the calling thread may run on, as the kernel writes them.
#[cfg(target_os = "linux")]
fn processors_allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn a_pinned_worker_stays_on_one_processor_and_others_do_not() {
    let all = processors_allowed();
    let free = pool(1).submit(processors_allowed).unwrap().wait().unwrap();
    assert_eq!(free, all);
    let workers = 2 * thread::available_parallelism().map_or(1, usize::from);
    let pinned = start(PoolConfig { workers, pin: true, ..PoolConfig::default() });
    let barrier = Arc::new(Barrier::new(workers));
    let tickets: Vec<_> = (0..workers)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            let tells = move || {
                barrier.wait();
                processors_allowed()
            };
            pinned.submit(tells).unwrap()
        })
        .collect();
    let places: Vec<String> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert!(places.iter().all(|place| place.parse::<usize>().is_ok()), "{places:?}");
    let different: BTreeSet<&String> = places.iter().collect();
    assert_eq!(different.len(), workers / 2, "counted round: two on each");
}

#[test]
fn a_worker_that_waits_is_stood_in_for() {
    promptly("the other task runs", || {
        let pool = pool(1);
        for _ in 0..100 {
            let (sent, receives) = mpsc::channel();
            let waits = pool.submit(move || blocking(|| receives.recv().unwrap())).unwrap();
            pool.spawn(move || sent.send(7).unwrap()).unwrap();
            assert_eq!(waits.wait().unwrap(), 7);
        }
        eventually("one worker is left", || {
            let metrics = pool.metrics();
            (metrics.workers_running, metrics.workers_standing_still) == (1, 0)
        });
        assert_eq!(pool.metrics().workers_unrelieved, 0);
    });
}

#[test]
fn no_more_workers_than_workers_max_are_ever_started() {
    promptly("the tasks run", || {
        let pool = up_to(1, 3);
        let (go_on, told) = mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let tickets: Vec<_> = (0..4)
            .map(|_| {
                let told = Arc::clone(&told);
                pool.submit(move || blocking(|| told.lock().unwrap().recv().unwrap_err())).unwrap()
            })
            .collect();
        eventually("there is nobody left to stand in", || pool.metrics().workers_unrelieved > 0);
        let metrics = pool.metrics();
        assert_eq!((metrics.workers_standing_still, metrics.workers_running), (3, 0));
        assert_eq!(metrics.workers.len(), 3);
        drop(go_on);
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    });
}

#[test]
fn waits_inside_waits_keep_the_count_of_workers_right() {
    promptly("the waits end", || {
        // With room for stand-ins, and without.
        for workers_max in [1, 2, 8] {
            let pool = up_to(1, workers_max);
            let handle = pool.handle();
            for _ in 0..10 {
                let inner = handle.clone();
                let nested = pool.submit(move || {
                    blocking(|| {
                        let seven = inner.submit(|| 7).unwrap();
                        blocking(|| seven.wait().unwrap())
                    })
                });
                assert_eq!(nested.unwrap().wait().unwrap(), 7, "workers_max {workers_max}");
            }
            eventually("one worker is left", || {
                let metrics = handle.metrics();
                (metrics.workers_running, metrics.workers_standing_still) == (1, 0)
            });
            assert_at_once(&pool, 1);
        }
    });
}

#[test]
fn a_wait_that_panics_does_not_cost_a_worker() {
    promptly("the waits end", || {
        let pool = up_to(1, 4);
        for _ in 0..20 {
            let panics = || -> () { blocking(|| std::panic::resume_unwind(Box::new("while it waits"))) };
            assert!(pool.submit(panics).unwrap().wait().is_err());
        }
        eventually("one worker is left", || {
            let metrics = pool.metrics();
            (metrics.workers_running, metrics.workers_standing_still) == (1, 0)
        });
        assert_at_once(&pool, 1);
    });
}

#[test]
fn blocking_outside_of_a_pool_is_a_plain_call() {
    assert_eq!(blocking(|| 7), 7);
}
