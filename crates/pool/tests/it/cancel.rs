//! Cancellation: what waits is gone at once, what runs is asked, and the race between the two has one winner.
//!
//! A cancelled task that still holds its memory, or runs after it was said not to, is what users of other pools work
//! around. So each answer is checked against what really happened.

use crate::busy::{Busy, pool, small_pool};
use crate::eventually::{Sleeper, eventually, promptly};
use crate::futures::Door;
use crate::witness::{Witnesses, add};
use millpond::{CancelAnswer, CancelToken, TaskError, is_cancelled, join, yield_now};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

#[test]
fn a_cancelled_task_that_waits_is_dropped_at_once_and_never_runs() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let busy = Busy::one(&pool);
    let (witness, ran) = (witnesses.one(), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&ran);
    let ticket = pool.submit(move || {
        told.store(true, Relaxed);
        drop(witness);
    });
    let ticket = ticket.unwrap();
    assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
    assert_eq!(witnesses.left(), 0, "what it held is free while every worker is still busy");
    assert!(ticket.is_done());
    assert_eq!(ticket.cancel(), CancelAnswer::TooLate);
    assert_eq!(pool.metrics().cancelled, 1);
    assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
    busy.release();
    pool.submit(|| ()).unwrap().wait().unwrap();
    assert!(!ran.load(Relaxed));
    assert_eq!(pool.metrics().cancelled, 1, "and is counted once");
}

#[test]
fn a_cancelled_task_that_waits_makes_room_for_another() {
    let pool = small_pool(1, 4);
    let busy = Busy::one(&pool);
    let tickets: Vec<_> = (0..4).map(|_| pool.try_submit(|| ()).unwrap()).collect();
    assert!(pool.try_submit(|| ()).is_err());
    assert!(tickets.iter().all(|ticket| ticket.cancel() == CancelAnswer::Cancelled));
    assert_eq!(pool.metrics().tasks_waiting, 0, "nothing waits any more");
    let again: Vec<_> = (0..4).map(|number| pool.try_submit(move || number).unwrap()).collect();
    busy.release();
    let results: Vec<_> = again.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(results, [0, 1, 2, 3]);
}

#[test]
fn a_cancelled_task_makes_room_for_a_submitter_that_waits_for_it() {
    promptly("the submitter gets the room", || {
        let pool = small_pool(1, 1);
        let busy = Busy::one(&pool);
        let ticket = pool.submit(|| ()).unwrap();
        let handle = pool.handle();
        let sleeper = Arc::new(Sleeper::default());
        let sleeps = Arc::clone(&sleeper);
        let submitter = thread::spawn(move || {
            sleeps.about_to_sleep();
            handle.submit(|| 7).unwrap()
        });
        eventually("the submitter sleeps", || sleeper.is_asleep());
        assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
        // The worker is still busy, so nobody but the cancelled task can have made room.
        let taken_in = submitter.join().unwrap();
        busy.release();
        assert_eq!(taken_in.wait().unwrap(), 7);
    });
}

#[test]
fn a_place_may_be_given_on_any_number_of_times() {
    promptly("the last ones run", || {
        for purged in [false, true] {
            let (pool, witnesses) = (small_pool(1, 4), Witnesses::default());
            let busy = Busy::one(&pool);
            let submit = |number: usize| {
                let witness = witnesses.one();
                let task = move || {
                    let _witness = witness;
                    number
                };
                pool.try_submit(task).unwrap()
            };
            let mut tickets: Vec<_> = (0..4).map(submit).collect();
            for number in 4..100_000 {
                assert_eq!(tickets[number % 4].cancel(), CancelAnswer::Cancelled);
                tickets[number % 4] = submit(number);
            }
            assert_eq!((witnesses.left(), pool.metrics().tasks_waiting), (4, 4));
            if purged {
                assert_eq!(pool.purge().cancelled, 4);
            }
            busy.release();
            let results: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().ok()).collect();
            let expected = [99_996, 99_997, 99_998, 99_999].map(|number| (!purged).then_some(number));
            assert_eq!(results, expected);
        }
    });
}

#[test]
fn a_running_closure_is_asked_and_its_result_is_kept() {
    let pool = pool(1);
    let (begun, begins) = mpsc::channel();
    let ticket = pool.submit(move || {
        assert!(!is_cancelled());
        begun.send(()).unwrap();
        eventually("it is asked to stop", is_cancelled);
        "stopped early"
    });
    let ticket = ticket.unwrap();
    begins.recv().unwrap();
    assert_eq!(ticket.cancel(), CancelAnswer::Requested);
    assert_eq!(ticket.cancel(), CancelAnswer::Requested);
    assert_eq!(ticket.wait().unwrap(), "stopped early");
    assert_eq!((pool.metrics().completed, pool.metrics().cancelled), (1, 0));
}

#[test]
fn a_task_that_has_ended_cannot_be_cancelled() {
    let pool = pool(1);
    let ticket = pool.submit(|| 5).unwrap();
    eventually("the task ended", || ticket.is_done());
    assert_eq!(ticket.cancel(), CancelAnswer::TooLate);
    assert_eq!(ticket.wait().unwrap(), 5);
}

#[test]
fn a_cancelled_future_that_waits_is_dropped_at_once() {
    let (pool, door, witnesses) = (pool(1), Arc::new(Door::default()), Witnesses::default());
    let (waits, witness) = (Arc::clone(&door), witnesses.one());
    let ticket = pool.spawn_async(async move {
        waits.pass().await;
        drop(witness);
    });
    let ticket = ticket.unwrap();
    door.until_somebody_waits();
    // It has shown its waker, but may not have returned from its poll yet.
    eventually("it is suspended", || format!("{ticket:?}").contains("idle"));
    assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
    assert_eq!(witnesses.left(), 0);
    assert_eq!((pool.metrics().cancelled, pool.metrics().futures_live), (1, 0));
    door.open();
    assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
}

#[test]
fn a_cancelled_future_that_runs_is_dropped_when_it_next_waits() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let (witness, (begun, begins), (go_on, told)) = (witnesses.one(), mpsc::channel(), mpsc::channel::<()>());
    let after = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&after);
    let ticket = pool.spawn_async(async move {
        begun.send(()).unwrap();
        let _ = told.recv();
        assert!(is_cancelled());
        yield_now().await;
        tells.store(true, Relaxed);
        drop(witness);
    });
    let ticket = ticket.unwrap();
    begins.recv().unwrap();
    assert_eq!(ticket.cancel(), CancelAnswer::Requested);
    assert_eq!(witnesses.left(), 1);
    drop(go_on);
    assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
    assert_eq!(witnesses.left(), 0);
    assert!(!after.load(Relaxed));
}

#[test]
fn a_cancelled_future_that_is_ready_all_the_same_keeps_its_output() {
    let pool = pool(1);
    let ((begun, begins), (go_on, told)) = (mpsc::channel(), mpsc::channel::<()>());
    let ticket = pool.spawn_async(async move {
        begun.send(()).unwrap();
        let _ = told.recv();
        5
    });
    let ticket = ticket.unwrap();
    begins.recv().unwrap();
    assert_eq!(ticket.cancel(), CancelAnswer::Requested);
    drop(go_on);
    assert_eq!(ticket.wait().unwrap(), 5);
}

#[test]
fn a_task_is_run_or_cancelled_and_never_both() {
    promptly("every race is decided", || {
        let pool = pool(2);
        let (mut ran, mut cancelled) = (0, 0);
        for round in 0..20_000 {
            let runs = Arc::new(AtomicUsize::new(0));
            let told = Arc::clone(&runs);
            let ticket = pool.submit(move || add(&told, 1)).unwrap();
            // Somewhat later each time, so that the moment passes over the start of the task.
            (0..round % 200).for_each(|_| std::hint::spin_loop());
            let answer = ticket.cancel();
            match (ticket.wait(), answer) {
                (Ok(()), CancelAnswer::Requested | CancelAnswer::TooLate) => {
                    assert_eq!(runs.load(Relaxed), 1);
                    ran += 1;
                }
                (Err(TaskError::Cancelled), CancelAnswer::Cancelled) => {
                    assert_eq!((runs.load(Relaxed), Arc::strong_count(&runs)), (0, 1));
                    cancelled += 1;
                }
                other => panic!("{other:?} after {} runs", runs.load(Relaxed)),
            }
        }
        eventually("the counters agree", || pool.metrics().ended() == 20_000);
        assert_eq!((pool.metrics().completed, pool.metrics().cancelled), (ran, cancelled));
    });
}

#[test]
fn of_many_who_cancel_one_task_one_is_told_that_it_did() {
    let pool = pool(1);
    for _ in 0..200 {
        let busy = Busy::one(&pool);
        let ticket = pool.submit(|| ()).unwrap();
        let barrier = Barrier::new(3);
        let answers: Vec<_> = thread::scope(|scope| {
            let cancel = || {
                barrier.wait();
                ticket.cancel()
            };
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(cancel)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(
            answers.iter().filter(|answer| **answer == CancelAnswer::Cancelled).count(),
            1,
            "{answers:?}"
        );
        busy.release();
    }
    assert_eq!(pool.metrics().cancelled, 200);
}

#[test]
fn a_token_tells_other_threads_that_the_task_is_cancelled_or_over() {
    assert!(CancelToken::current().is_none());
    assert!(!is_cancelled());
    let pool = pool(1);
    let (sent, tokens) = mpsc::channel();
    let ticket = pool.submit(move || {
        sent.send(CancelToken::current().unwrap()).unwrap();
        eventually("it is asked to stop", is_cancelled);
    });
    let (ticket, token) = (ticket.unwrap(), tokens.recv().unwrap());
    assert!(!token.is_cancelled());
    assert_eq!(format!("{token:?}"), "CancelToken { cancelled: false }");
    assert_eq!(ticket.cancel(), CancelAnswer::Requested);
    assert!(token.clone().is_cancelled());
    ticket.wait().unwrap();
    let (sent, tokens) = mpsc::channel();
    pool.submit(move || sent.send(CancelToken::current().unwrap()).unwrap()).unwrap().wait().unwrap();
    assert!(tokens.recv().unwrap().is_cancelled(), "nobody wants anything of a task that is over");
}

#[test]
fn a_task_that_runs_inside_a_cancelled_one_is_not_cancelled_with_it() {
    promptly("everything runs", || {
        let pool = pool(1);
        let (handle, (begun, begins)) = (pool.handle(), mpsc::channel());
        let (told, tells) = mpsc::channel();
        let outer = pool.submit(move || {
            begun.send(()).unwrap();
            eventually("it is asked to stop", is_cancelled);
            handle.scope(|scope| {
                scope.spawn(|| ());
                // The newest is run first by a scope that waits, on this stack.
                handle.spawn(move || told.send(is_cancelled()).unwrap()).unwrap();
            });
            assert!(is_cancelled(), "the outer task is still the one that was cancelled");
        });
        let outer = outer.unwrap();
        begins.recv().unwrap();
        assert_eq!(outer.cancel(), CancelAnswer::Requested);
        assert!(!tells.recv().unwrap(), "nobody cancelled the inner one");
        outer.wait().unwrap();
    });
}

#[test]
fn both_halves_of_a_join_notice_that_their_task_is_cancelled() {
    promptly("both halves notice", || {
        let pool = pool(2);
        let (handle, (begun, begins)) = (pool.handle(), mpsc::channel());
        let ticket = pool.submit(move || {
            eventually("the other worker sleeps", || handle.metrics().workers_asleep == 1);
            let (first, second) = (begun.clone(), begun);
            // The other worker takes the second half while the first one waits.
            join(
                move || {
                    first.send(()).unwrap();
                    eventually("the first half is asked to stop", is_cancelled);
                },
                move || {
                    second.send(()).unwrap();
                    eventually("the second half is asked to stop", is_cancelled);
                },
            );
        });
        let ticket = ticket.unwrap();
        (0..2).for_each(|_| begins.recv().unwrap());
        assert_eq!(ticket.cancel(), CancelAnswer::Requested);
        ticket.wait().unwrap();
    });
}

#[test]
fn a_dropped_ticket_does_not_cancel() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    drop(pool.submit(|| ()).unwrap());
    busy.release();
    eventually("the detached task ran", || pool.metrics().completed == 2);
}
