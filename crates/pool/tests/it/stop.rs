//! Stopping: what waits is cancelled, what runs is asked and waited for, and the time limit holds.
//!
//! A stop must come back whatever the tasks do: run for ever, wait for ever, or be the very ones who stop.

use crate::busy::{Busy, pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use crate::witness::{Witnesses, add};
use millpond::{
    CancelToken, Hook, Pool, PoolConfig, SubmitError, TaskError, TaskOptions, is_cancelled, yield_now,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

#[test]
fn a_stopped_idle_pool_reports_that_it_is_finished() {
    let (pool, used) = (pool(2), pool(2));
    until_asleep(&pool);
    let report = pool.stop(Duration::MAX);
    assert!(report.is_finished(), "{report:?}");
    used.submit(|| ()).unwrap().wait().unwrap();
    let report = used.stop(Duration::MAX);
    assert!(report.is_finished(), "{report:?}");
    assert_eq!((report.completed, report.cancelled), (0, 0));
}

#[test]
fn a_stop_cancels_what_waits_and_waits_for_what_runs() {
    promptly("the pool stops", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let (handle, busy) = (pool.handle(), Busy::one(&pool));
        let tickets: Vec<_> = (0..10)
            .map(|_| {
                let witness = witnesses.one();
                pool.submit(move || drop(witness)).unwrap()
            })
            .collect();
        let stopping = thread::spawn(move || pool.stop(Duration::MAX));
        assert!(tickets.into_iter().all(|ticket| matches!(ticket.wait(), Err(TaskError::Cancelled))));
        assert_eq!(witnesses.left(), 0);
        assert!(matches!(handle.submit(|| ()), Err(SubmitError::Closed(_))));
        assert!(!stopping.is_finished());
        busy.release();
        let report = stopping.join().unwrap();
        assert_eq!((report.completed, report.cancelled, report.waiting, report.running), (1, 10, 0, 0));
        assert!(report.is_finished());
    });
}

#[test]
fn a_stop_leaves_a_task_that_never_ends_to_itself_when_its_time_is_up() {
    let (end, ended) = (Arc::new(AtomicBool::new(false)), Witnesses::default());
    let (told, witness) = (Arc::clone(&end), ended.one());
    promptly("the stop gives up", move || {
        let pool = pool(2);
        let (begun, begins) = mpsc::channel();
        pool.spawn(move || {
            begun.send(()).unwrap();
            while !told.load(Relaxed) {
                thread::yield_now();
            }
            drop(witness);
        })
        .unwrap();
        begins.recv().unwrap();
        let report = pool.stop(Duration::from_millis(5));
        assert!(!report.is_finished());
        assert_eq!(report.running, 1, "one of the two workers");
    });
    assert_eq!(ended.left(), 1, "the task still runs");
    end.store(true, Relaxed);
    eventually("its thread comes to an end by itself", || ended.left() == 0);
}

#[test]
fn a_stop_asks_running_closures_to_end() {
    promptly("the closures notice", || {
        let pool = pool(2);
        let (begun, begins) = mpsc::channel();
        let options = TaskOptions { timeout: Some(Duration::from_secs(3600)), ..TaskOptions::default() };
        let told = begun.clone();
        let honours = move || {
            told.send(()).unwrap();
            eventually("it is asked to stop", is_cancelled);
            "ended early"
        };
        let plain = pool.submit(honours.clone()).unwrap();
        let timed = pool.with(&options).submit(honours).unwrap();
        (0..2).for_each(|_| begins.recv().unwrap());
        let report = pool.stop(Duration::MAX);
        assert_eq!((report.completed, report.running), (2, 0));
        assert_eq!((plain.wait().unwrap(), timed.wait().unwrap()), ("ended early", "ended early"));
    });
}

#[test]
fn a_stop_is_seen_by_closures_without_tickets_and_through_tokens() {
    promptly("both notice", || {
        let pool = pool(2);
        let (begun, begins) = mpsc::channel();
        let tells = begun.clone();
        pool.spawn(move || {
            tells.send(()).unwrap();
            eventually("it is asked to stop", is_cancelled);
        })
        .unwrap();
        let ticket = pool.submit(move || {
            let token = CancelToken::current().unwrap();
            begun.send(()).unwrap();
            thread::spawn(move || eventually("the token tells", || token.is_cancelled())).join().unwrap();
        });
        (0..2).for_each(|_| begins.recv().unwrap());
        assert!(pool.stop(Duration::MAX).is_finished());
        ticket.unwrap().wait().unwrap();
    });
}

#[test]
fn a_stop_drops_futures_that_wait_for_ever_and_those_that_never_stop_yielding() {
    promptly("the futures are dropped", || {
        let (pool, door, witnesses) = (pool(1), Arc::new(Door::default()), Witnesses::default());
        let (waits, one, other) = (Arc::clone(&door), witnesses.one(), witnesses.one());
        let waiting = pool.spawn_async(async move {
            let _witness = one;
            waits.pass().await;
        });
        let (begun, begins) = mpsc::channel();
        let yielding = pool.spawn_async(async move {
            let _witness = other;
            begun.send(()).unwrap();
            loop {
                yield_now().await;
            }
        });
        door.until_somebody_waits();
        begins.recv().unwrap();
        let report = pool.stop(Duration::MAX);
        assert_eq!(witnesses.left(), 0);
        assert_eq!((report.cancelled, report.futures), (2, 0));
        assert!(matches!(waiting.unwrap().wait(), Err(TaskError::Cancelled)));
        assert!(matches!(yielding.unwrap().wait(), Err::<(), _>(TaskError::Cancelled)));
        door.open();
    });
}

#[test]
fn a_stop_ends_a_pause() {
    promptly("the pool stops", || {
        let pool = pool(2);
        until_asleep(&pool);
        pool.pause();
        let ticket = pool.submit(|| ()).unwrap();
        let report = pool.stop(Duration::MAX);
        assert_eq!(report.cancelled, 1);
        assert!(report.is_finished());
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
    });
}

#[test]
fn a_stop_after_a_drain_that_gave_up_cancels_the_rest() {
    promptly("the pool stops", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let ticket = pool.submit(|| ()).unwrap();
        assert_eq!(pool.drain(Duration::ZERO).waiting, 1);
        let stopping = thread::spawn(move || pool.stop(Duration::MAX));
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        busy.release();
        assert!(stopping.join().unwrap().is_finished());
    });
}

/// Gives a pool to one of its own tasks, which ends it with `end`.
fn ended_by_its_own_task<R: Send + 'static>(
    workers: usize,
    end: impl FnOnce(Pool) -> R + Send + 'static,
) -> R {
    let pool = pool(workers);
    let (handle, (given, gets)) = (pool.handle(), mpsc::channel());
    let ends = pool.submit(move || end(gets.recv().unwrap())).unwrap();
    let mut behind = Vec::new();
    // With one worker these wait behind the task that ends the pool.
    (0..50).for_each(|_| behind.push(pool.submit(|| ()).unwrap()));
    given.send(pool).unwrap();
    let result = ends.wait().unwrap();
    for ticket in behind {
        assert!(matches!(ticket.wait(), Ok(()) | Err(TaskError::Cancelled)));
    }
    assert!(matches!(handle.submit(|| ()), Err(SubmitError::Closed(_))));
    result
}

#[test]
fn a_task_may_stop_or_drop_its_own_pool() {
    promptly("the pools end", || {
        for workers in [1, 2, 4] {
            let report = ended_by_its_own_task(workers, |pool| pool.stop(Duration::MAX));
            assert_eq!((report.waiting, report.futures), (0, 0));
            ended_by_its_own_task(workers, drop);
        }
    });
}

#[test]
fn a_task_that_has_stopped_its_pool_may_go_on_but_not_submit() {
    promptly("the task ends", || {
        let answers = ended_by_its_own_task(2, |pool| {
            let handle = pool.handle();
            drop(pool);
            let refused = [
                handle.spawn(|| ()).is_err(),
                handle.try_submit(|| ()).is_err(),
                handle.spawn_async(async {}).is_err(),
            ];
            let mut scoped = 0;
            handle.scope(|scope| scope.spawn(|| scoped = 1));
            (refused, scoped, millpond::join(|| 1, || 2))
        });
        assert_eq!(answers, ([true; 3], 1, (1, 2)));
    });
}

#[test]
fn a_future_may_drop_its_own_pool() {
    promptly("the pool ends", || {
        let pool = pool(1);
        let (handle, (given, gets)) = (pool.handle(), mpsc::channel());
        let ends = pool.spawn_async(async move { drop::<Pool>(gets.recv().unwrap()) }).unwrap();
        given.send(pool).unwrap();
        // It was asked to stop by its own stop, but came to its end without waiting.
        ends.wait().unwrap();
        assert_eq!(handle.metrics().completed, 1);
    });
}

#[test]
fn a_pool_may_be_dropped_by_a_callback_or_by_what_a_cancelled_task_held() {
    promptly("the pools end", || {
        struct Ends(#[allow(dead_code, reason = "held to be dropped")] Pool);
        let first = pool(1);
        let handle = first.handle();
        let busy = Busy::one(&first);
        let (told, tells) = mpsc::channel();
        let ticket = first.submit(|| ()).unwrap();
        ticket.on_done(move |_| {
            drop(first);
            told.send(()).unwrap();
        });
        busy.release();
        tells.recv().unwrap();
        assert!(handle.submit(|| ()).is_err());
        let (outer, inner) = (pool(1), Ends(pool(1)));
        let (handle, busy) = (inner.0.handle(), Busy::one(&outer));
        let holds = outer.submit(move || drop(inner)).unwrap();
        holds.cancel();
        assert!(handle.submit(|| ()).is_err(), "ended on the thread that cancelled");
        busy.release();
    });
}

#[test]
fn a_pool_may_be_dropped_by_its_own_timer() {
    promptly("the pool ends", || {
        let pool = pool(1);
        let (handle, busy) = (pool.handle(), Busy::one(&pool));
        let owner = Arc::new(Mutex::new(None));
        let held = Arc::clone(&owner);
        let soon = TaskOptions { timeout: Some(Duration::from_millis(20)), ..TaskOptions::default() };
        let holds = pool.with(&soon).submit(move || drop(held)).unwrap();
        let behind = pool.submit(|| ()).unwrap();
        *owner.lock().unwrap() = Some(pool);
        drop(owner);
        // The closure that holds the pool expires, and is dropped by the thread that noticed.
        assert!(matches!(behind.wait(), Err(TaskError::Cancelled)));
        assert!(handle.submit(|| ()).is_err());
        busy.release();
        assert!(matches!(holds.wait(), Err(TaskError::Expired)));
    });
}

#[test]
fn a_task_may_stop_its_pool_while_others_drain_it() {
    promptly("the pool ends", || {
        for _ in 0..100 {
            let pool = Arc::new(pool(3));
            let (sent, receives) = mpsc::channel::<Arc<Pool>>();
            let receives = Arc::new(Mutex::new(receives));
            let tickets: Vec<_> = (0..3)
                .map(|number| {
                    let receives = Arc::clone(&receives);
                    let ends = move || {
                        let pool = receives.lock().unwrap().recv().unwrap();
                        match number {
                            // Whoever has the last of the three ends the pool; the others wait for it to run dry.
                            0 => drop(pool),
                            _ => assert_eq!(pool.drain(Duration::MAX).waiting, 0),
                        }
                    };
                    pool.submit(ends).unwrap()
                })
                .collect();
            (0..2).for_each(|_| sent.send(Arc::clone(&pool)).unwrap());
            sent.send(pool).unwrap();
            tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
        }
    });
}

#[test]
fn a_second_stop_finds_an_ended_pool_and_so_does_drop() {
    promptly("the pool ends", || {
        let pool = pool(2);
        let ticket = pool.submit(|| ()).unwrap();
        let report = pool.stop(Duration::MAX);
        assert!(report.is_finished(), "{report:?}");
        assert!(ticket.is_done());
        let again = pool.stop(Duration::MAX);
        assert!(again.is_finished(), "{again:?}");
        assert_eq!((again.completed, again.cancelled), (0, 0), "nothing ended meanwhile");
        assert!(matches!(pool.submit(|| ()), Err(SubmitError::Closed(_))));
        drop(pool);
    });
}

#[test]
fn a_second_stop_waits_for_what_the_first_left_and_drop_does_not() {
    promptly("the pool ends", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        assert_eq!(pool.stop(Duration::ZERO).running, 1);
        assert_eq!(pool.stop(Duration::ZERO).running, 1);
        busy.release();
        let last = pool.stop(Duration::MAX);
        assert!(last.is_finished(), "{last:?}");
    });
    promptly("the drop returns", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        assert_eq!(pool.stop(Duration::ZERO).running, 1);
        drop(pool);
        busy.release();
    });
}

#[test]
fn several_threads_may_stop_a_pool_at_once_and_each_waits_for_its_end() {
    promptly("every stop returns", || {
        for _ in 0..100 {
            let stopped = Arc::new(AtomicUsize::new(0));
            let told = Arc::clone(&stopped);
            let on_stop = Some(Hook::new(move |_| add(&told, 1)));
            let pool = start(PoolConfig { workers: 2, on_stop, ..PoolConfig::default() });
            let tickets: Vec<_> = (0..50).map(|number| pool.submit(move || number).unwrap()).collect();
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let report = pool.stop(Duration::MAX);
                        assert!(report.is_finished(), "{report:?}");
                        assert_eq!(stopped.load(Relaxed), 2, "no worker is left");
                    });
                }
            });
            assert!(tickets.iter().all(millpond::Ticket::is_done));
        }
    });
}

#[test]
fn tasks_may_stop_a_pool_that_they_share_also_all_at_once() {
    promptly("every stop returns", || {
        for workers in [1, 2, 3] {
            let shared = Arc::new(pool(workers));
            let (told, tells) = mpsc::channel();
            for _ in 0..workers {
                let (inner, told) = (Arc::clone(&shared), told.clone());
                let ends = move || told.send(inner.stop(Duration::MAX).waiting).unwrap();
                // One that finds the pool stopped already is cancelled, or handed back.
                let _ = shared.spawn(ends);
            }
            drop((shared, told));
            assert!(tells.iter().count() >= 1, "whoever was first");
        }
    });
}

#[test]
fn a_stop_from_outside_waits_for_a_task_that_stops_or_drains_its_own_pool() {
    promptly("both end", || {
        for round in 0..100 {
            let (shared, ended) = (Arc::new(pool(2)), Arc::new(AtomicBool::new(false)));
            let (begun, begins) = mpsc::channel();
            let told = begun.clone();
            // It keeps the pool from being dry until somebody stops it.
            let runs = move || {
                told.send(()).unwrap();
                eventually("it is asked to stop", is_cancelled);
            };
            shared.spawn(runs).unwrap();
            let ((go_on, waits), inner, over) =
                (mpsc::channel::<()>(), Arc::clone(&shared), Arc::clone(&ended));
            let ends = move || {
                begun.send(()).unwrap();
                let report =
                    if round % 2 == 0 { inner.drain(Duration::MAX) } else { inner.stop(Duration::MAX) };
                assert_eq!(report.waiting, 0);
                waits.recv().unwrap_err();
                over.store(true, Relaxed);
            };
            let ticket = shared.submit(ends).unwrap();
            (0..2).for_each(|_| begins.recv().unwrap());
            eventually("it is closed", || shared.submit(|| ()).is_err());
            let (handle, outside) = (shared.handle(), shared);
            let stopping = thread::spawn(move || outside.stop(Duration::MAX));
            // The other one is over, and the stop is in its wait, or wrongly over too.
            eventually("the task alone runs", || handle.metrics().workers_busy == 1);
            drop(go_on);
            assert!(stopping.join().unwrap().is_finished());
            assert!(ended.load(Relaxed));
            ticket.wait().unwrap();
        }
    });
}

#[test]
fn hooks_are_over_when_a_stop_returns() {
    promptly("the pool stops", || {
        let stopped = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&stopped);
        let on_stop = Some(Hook::new(move |_| add(&told, 1)));
        let pool = start(PoolConfig { workers: 4, on_stop, ..PoolConfig::default() });
        assert!(pool.stop(Duration::MAX).is_finished());
        assert_eq!(stopped.load(Relaxed), 4);
    });
}

#[test]
fn pools_start_and_end_by_the_hundred() {
    promptly("every pool ends", || {
        for round in 0..300 {
            let pool = pool(1 + round % 4);
            let ticket = pool.submit(move || round).unwrap();
            match round % 3 {
                0 => drop(pool),
                1 => assert_eq!(pool.stop(Duration::MAX).waiting, 0),
                _ => assert!(pool.drain(Duration::MAX).is_finished()),
            }
            match ticket.wait() {
                Ok(result) => assert_eq!(result, round),
                Err(error) => assert!(matches!(error, TaskError::Cancelled), "{error}"),
            }
        }
    });
}
