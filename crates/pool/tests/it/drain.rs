//! Draining: nothing more comes in from outside, and everything that was taken in comes to its end.
//!
//! The question is always whether the last task is really the last: those that running tasks still submit, futures
//! that sleep, tasks whose thread stands still, and the caller itself if it is a task of the pool.

use crate::busy::{Busy, lone_worker, pool, small_pool, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use crate::witness::add;
use millpond::{
    CancelAnswer, PoolHandle, Priority, SubmitError, TaskError, TaskOptions, blocking, yield_now,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

/// Returns when nothing is taken in any more.
fn until_closed(pool: &PoolHandle) {
    let nothing = TaskOptions { name: Some("nothing".into()), ..TaskOptions::default() };
    eventually("the pool is closed", || {
        // What is still taken in is cancelled at once, so that nobody has to count it.
        match pool.with(&nothing).try_submit(|| ()) {
            Err(SubmitError::Closed(_)) => true,
            Err(_) => false,
            Ok(ticket) => {
                ticket.cancel();
                false
            }
        }
    });
}

#[test]
fn a_drained_pool_has_done_everything_and_takes_nothing_more() {
    promptly("the pool runs dry", || {
        let (pool, ran) = (pool(2), Arc::new(AtomicUsize::new(0)));
        let busy = Busy::many(&pool, 2);
        for priority in Priority::ALL {
            for affinity in [None, Some(3)] {
                let options = TaskOptions { priority, affinity, ..TaskOptions::default() };
                for _ in 0..20 {
                    let ran = Arc::clone(&ran);
                    pool.with(&options).spawn(move || add(&ran, 1)).unwrap();
                }
            }
        }
        drop(busy);
        let report = pool.drain(Duration::MAX);
        assert_eq!(ran.load(Relaxed), 120);
        assert!(report.is_finished(), "{report:?}");
        assert_eq!((report.waiting, report.running, report.futures), (0, 0, 0));
        assert_eq!(pool.metrics().completed, 122);
        assert!(matches!(pool.submit(|| ()), Err(SubmitError::Closed(_))));
        assert!(matches!(pool.spawn_async(async {}), Err(SubmitError::Closed(_))));
        let again = pool.drain(Duration::MAX);
        assert!(again.is_finished());
        assert_eq!(again.completed, 0, "a report tells what happened meanwhile");
    });
}

#[test]
fn a_report_tells_every_ending() {
    promptly("the pool runs dry", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let soon = TaskOptions { timeout: Some(Duration::from_millis(5)), ..TaskOptions::default() };
        let expired: Vec<_> = (0..2).map(|_| pool.with(&soon).submit(|| ()).unwrap()).collect();
        let cancelled: Vec<_> = (0..3).map(|_| pool.submit(|| ()).unwrap()).collect();
        (0..4).for_each(|_| pool.spawn(|| std::panic::resume_unwind(Box::new("counted"))).unwrap());
        (0..5).for_each(|_| pool.spawn(|| ()).unwrap());
        let late = pool.submit(|| ()).unwrap();
        let handle = pool.handle();
        let draining = thread::spawn(move || {
            let report = pool.drain(Duration::MAX);
            (pool, report)
        });
        until_closed(&handle);
        let polling = handle.metrics().cancelled;
        eventually("the deadlines pass", || handle.metrics().expired == 2);
        drop(expired);
        assert!(cancelled.iter().all(|ticket| ticket.cancel() == CancelAnswer::Cancelled));
        busy.release();
        let (_pool, report) = draining.join().unwrap();
        late.wait().unwrap();
        let told = [report.completed, report.panicked, report.timed_out];
        assert_eq!(told, [7, 4, 0], "five, the late one and the one that kept the worker busy");
        // When the drain began is not known to this thread, so some endings may have come before it.
        assert!(report.expired <= 2);
        assert!(report.cancelled >= 3 && report.cancelled <= 3 + polling, "{report:?}");
        assert!(report.is_finished());
    });
}

#[test]
fn a_drain_finishes_what_running_tasks_still_submit() {
    fn grow(pool: &PoolHandle, levels: usize, ran: &Arc<AtomicUsize>) {
        ran.fetch_add(1, Relaxed);
        if levels > 0 {
            for affinity in [None, Some(levels as u64)] {
                for priority in Priority::ALL {
                    let options = TaskOptions { priority, affinity, ..TaskOptions::default() };
                    let (inner, ran) = (pool.clone(), Arc::clone(ran));
                    pool.with(&options).spawn(move || grow(&inner, levels - 1, &ran)).unwrap();
                }
            }
        }
    }
    promptly("the pool runs dry", || {
        let (pool, ran) = (small_pool(2, 8), Arc::new(AtomicUsize::new(0)));
        let (handle, told, closes) = (pool.handle(), Arc::clone(&ran), pool.handle());
        pool.spawn(move || {
            // Its own submissions are taken in; only another thread is told that the pool is closed.
            thread::spawn(move || until_closed(&closes)).join().unwrap();
            grow(&handle, 4, &told);
        })
        .unwrap();
        let report = pool.drain(Duration::MAX);
        assert!(report.is_finished(), "{report:?}");
        assert_eq!(ran.load(Relaxed), 1 + 6 + 36 + 216 + 1296);
    });
}

#[test]
fn a_drain_waits_for_futures_that_wait() {
    promptly("the pool runs dry", || {
        let (pool, door) = (pool(1), Arc::new(Door::default()));
        let (waits, handle) = (Arc::clone(&door), pool.handle());
        let ticket = pool.spawn_async(async move {
            waits.pass().await;
            yield_now().await;
            7
        });
        door.until_somebody_waits();
        let draining = thread::spawn(move || pool.drain(Duration::MAX));
        until_closed(&handle);
        eventually("every worker sleeps", || handle.metrics().workers_asleep == 1);
        assert!(!draining.is_finished());
        door.open();
        assert!(draining.join().unwrap().is_finished());
        assert_eq!(ticket.unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn a_drain_notices_that_the_last_future_was_cancelled() {
    promptly("the pool runs dry", || {
        for _ in 0..200 {
            let (pool, door) = (pool(1), Arc::new(Door::default()));
            let waits = Arc::clone(&door);
            let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
            door.until_somebody_waits();
            let draining = thread::spawn(move || pool.drain(Duration::MAX));
            ticket.cancel();
            assert!(draining.join().unwrap().is_finished());
            assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        }
    });
}

#[test]
fn a_drain_waits_for_tasks_that_stand_still() {
    promptly("the pool runs dry", || {
        let pool = pool(1);
        let (handle, (go_on, told)) = (pool.handle(), mpsc::channel());
        let ticket = pool.submit(move || blocking(|| told.recv().unwrap())).unwrap();
        eventually("the worker stands still", || handle.metrics().workers_standing_still == 1);
        let draining = thread::spawn(move || pool.drain(Duration::MAX));
        until_closed(&handle);
        eventually("its stand-in sleeps", || handle.metrics().workers_asleep >= 1);
        assert!(!draining.is_finished());
        go_on.send(7).unwrap();
        assert!(draining.join().unwrap().is_finished());
        assert_eq!(ticket.wait().unwrap(), 7);
    });
}

#[test]
fn a_drain_gives_up_after_its_time_and_the_pool_goes_on() {
    promptly("the drain gives up", || {
        let (pool, door) = (pool(1), Arc::new(Door::default()));
        let waits = Arc::clone(&door);
        let future = pool.spawn_async(async move { waits.pass().await }).unwrap();
        door.until_somebody_waits();
        let busy = Busy::one(&pool);
        let waiting = pool.submit(|| 7).unwrap();
        let report = pool.drain(Duration::from_millis(2));
        assert!(!report.is_finished());
        assert_eq!((report.waiting, report.running, report.futures), (1, 1, 1));
        busy.release();
        assert_eq!(waiting.wait().unwrap(), 7, "what was taken in is still done");
        door.open();
        future.wait().unwrap();
        assert!(pool.drain(Duration::MAX).is_finished());
    });
}

#[test]
fn a_drain_ends_a_pause() {
    promptly("the pool runs dry", || {
        let pool = pool(1);
        until_asleep(&pool);
        pool.pause();
        let ticket = pool.submit(|| 7).unwrap();
        assert!(pool.drain(Duration::MAX).is_finished());
        assert_eq!(ticket.wait().unwrap(), 7);
    });
}

#[test]
fn many_may_drain_at_once() {
    promptly("the pool runs dry for all of them", || {
        let pool = pool(2);
        let busy = Busy::one(&pool);
        let tickets: Vec<_> = (0..100).map(|number| pool.submit(move || number).unwrap()).collect();
        thread::scope(|scope| {
            let drains: Vec<_> = (0..3).map(|_| scope.spawn(|| pool.drain(Duration::MAX))).collect();
            busy.release();
            assert!(drains.into_iter().all(|drain| drain.join().unwrap().is_finished()));
        });
        assert!(tickets.into_iter().enumerate().all(|(number, ticket)| ticket.wait().unwrap() == number));
    });
}

#[test]
fn a_task_may_drain_its_own_pool() {
    promptly("the drain returns when only its caller is left", || {
        let pool = Arc::new(pool(2));
        let inner = Arc::clone(&pool);
        let others: Vec<_> = (0..100).map(|number| pool.submit(move || number).unwrap()).collect();
        let drains = pool.submit(move || inner.drain(Duration::MAX)).unwrap();
        let report = drains.wait().unwrap();
        assert_eq!((report.waiting, report.futures), (0, 0));
        assert!(others.into_iter().enumerate().all(|(number, ticket)| ticket.wait().unwrap() == number));
    });
}

#[test]
fn many_tasks_may_drain_their_own_pool_at_once() {
    promptly("the drains return when only their callers are left", || {
        let pool = Arc::new(pool(2));
        // All are taken in before the first of them closes the pool.
        pool.pause();
        let drains: Vec<_> = (0..4)
            .map(|_| {
                let inner = Arc::clone(&pool);
                pool.submit(move || inner.drain(Duration::MAX)).unwrap()
            })
            .collect();
        let others: Vec<_> = (0..100).map(|number| pool.submit(move || number).unwrap()).collect();
        pool.resume();
        assert!(drains.into_iter().all(|drain| drain.wait().unwrap().waiting == 0));
        assert!(others.into_iter().enumerate().all(|(number, ticket)| ticket.wait().unwrap() == number));
    });
}

#[test]
fn the_only_worker_may_drain_its_own_pool() {
    promptly("somebody stands in for the worker that drains", || {
        let pool = Arc::new(pool(1));
        let (inner, busy) = (Arc::clone(&pool), Busy::one(&pool));
        let drains = pool.submit(move || inner.drain(Duration::MAX)).unwrap();
        let behind = pool.submit(|| 7).unwrap();
        busy.release();
        assert_eq!(drains.wait().unwrap().waiting, 0);
        assert_eq!(behind.wait().unwrap(), 7);
    });
}

#[test]
fn the_only_worker_may_drain_its_own_pool_although_nobody_can_stand_in() {
    promptly("the drain does by itself what waits", || {
        let pool = Arc::new(lone_worker(16));
        let (inner, busy) = (Arc::clone(&pool), Busy::one(&pool));
        let drains = pool.submit(move || inner.drain(Duration::MAX)).unwrap();
        let behind = [pool.submit(|| 7).unwrap(), pool.submit(|| 8).unwrap()];
        busy.release();
        let report = drains.wait().unwrap();
        assert_eq!((report.completed, report.running), (2, 1), "the two ran, and it runs itself: {report:?}");
        assert_eq!((report.waiting, report.futures), (0, 0), "{report:?}");
        assert_eq!(behind.map(|ticket| ticket.wait().unwrap()), [7, 8]);
    });
}

#[test]
fn a_future_may_drain_its_own_pool() {
    promptly("the drain does not wait for the future that asks for it", || {
        for pool in [lone_worker(16), pool(2)].map(Arc::new) {
            let inner = Arc::clone(&pool);
            let drains = pool.spawn_async(async move { inner.drain(Duration::MAX) }).unwrap();
            let report = drains.wait().unwrap();
            assert_eq!((report.waiting, report.running, report.futures), (0, 1, 0), "{report:?}");
        }
    });
}

#[test]
fn two_tasks_may_drain_their_own_pool_at_a_time() {
    promptly("neither waits for the other", || {
        let pool = Arc::new(pool(2));
        let both = Arc::new(Barrier::new(2));
        let drains: Vec<_> = (0..2)
            .map(|_| {
                let (inner, both) = (Arc::clone(&pool), Arc::clone(&both));
                let drain = move || {
                    both.wait();
                    inner.drain(Duration::MAX)
                };
                pool.submit(drain).unwrap()
            })
            .collect();
        for drains in drains {
            let report = drains.wait().unwrap();
            assert_eq!((report.waiting, report.futures), (0, 0), "{report:?}");
            assert!((1..=2).contains(&report.running), "itself, and perhaps the other: {report:?}");
        }
    });
}

#[test]
fn a_drain_is_not_held_up_by_a_pause_that_comes_later() {
    promptly("the drain ends", || {
        let pool = Arc::new(pool(1));
        let busy = Busy::one(&pool);
        let behind = pool.submit(|| 7).unwrap();
        let drainer = Arc::clone(&pool);
        let drains = thread::spawn(move || drainer.drain(Duration::MAX));
        until_closed(&pool);
        pool.pause();
        busy.release();
        assert!(drains.join().unwrap().is_finished());
        assert_eq!(behind.wait().unwrap(), 7);
    });
}

#[test]
fn a_drain_that_races_with_submitters_loses_nothing() {
    promptly("every pool runs dry", || {
        for _ in 0..100 {
            let (pool, ran) = (small_pool(2, 16), Arc::new(AtomicUsize::new(0)));
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    let (handle, ran) = (pool.handle(), Arc::clone(&ran));
                    thread::spawn(move || {
                        let mut taken_in = 0;
                        loop {
                            let ran = Arc::clone(&ran);
                            match handle.spawn(move || add(&ran, 1)) {
                                Ok(()) => taken_in += 1,
                                Err(SubmitError::Closed(_)) => return taken_in,
                                Err(other) => panic!("{other:?}"),
                            }
                        }
                    })
                })
                .collect();
            eventually("tasks flow", || ran.load(Relaxed) > 50);
            assert!(pool.drain(Duration::MAX).is_finished());
            let ran_by_then = ran.load(Relaxed);
            let taken_in: usize = submitters.into_iter().map(|submitter| submitter.join().unwrap()).sum();
            assert_eq!((ran_by_then, pool.metrics().completed), (taken_in, taken_in as u64));
        }
    });
}

#[test]
fn a_drain_that_races_with_submitters_of_futures_ends() {
    promptly("every pool runs dry", || {
        for _ in 0..300 {
            let (pool, ran) = (small_pool(1, 1), Arc::new(AtomicUsize::new(0)));
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    let (handle, ran) = (pool.handle(), Arc::clone(&ran));
                    thread::spawn(move || {
                        let mut taken_in = 0;
                        loop {
                            let ran = Arc::clone(&ran);
                            match handle.spawn_async(async move { add(&ran, 1) }) {
                                Ok(ticket) => drop(ticket),
                                Err(SubmitError::Closed(_)) => return taken_in,
                                Err(other) => panic!("{other:?}"),
                            }
                            taken_in += 1;
                        }
                    })
                })
                .collect();
            eventually("futures flow", || ran.load(Relaxed) > 10);
            let report = pool.drain(Duration::MAX);
            assert!(report.is_finished(), "{report:?}");
            let taken_in: usize = submitters.into_iter().map(|submitter| submitter.join().unwrap()).sum();
            assert_eq!((ran.load(Relaxed), pool.metrics().completed), (taken_in, taken_in as u64));
        }
    });
}
