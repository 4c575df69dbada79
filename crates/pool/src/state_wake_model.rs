//! Every interleaving of a future's turn, its wakers, and those who end it.
//!
//! What must hold: a wake-up is never lost: after it the future runs again, and sees what the waker did before;
//! however many wake it, it is queued once; it is run by one thread at a time; a future that nobody can wake any
//! more is ended; it is dropped once.

use crate::counters::Ending;
use crate::error::{CancelAnswer, TaskError};
use crate::job::Job;
use crate::model::{Parcel, explore};
use crate::sync::{AtomicU32, Ordering::Relaxed, thread};
use crate::ticket::Ticket;
use crate::toy::Toy;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What a future waits for: as many flags as there are wakers. It leaves one waker for each when it is first polled.
struct Flags {
    flags: Vec<AtomicU32>,
    wakers: Mutex<Vec<Waker>>,
}

/// A future that is ready when all flags are set. Its bytes are written in each turn, and watched by the checker.
struct Waits {
    on: Arc<Flags>,
    turns: Vec<Parcel>,
    _count: Arc<()>,
}

impl Future for Waits {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
        if self.turns.is_empty() {
            // The lock is not one the checker sees, and is not held across anything it does.
            let wakers = self.on.flags.iter().map(|_| context.waker().clone()).collect();
            *self.on.wakers.lock().unwrap() = wakers;
        }
        // Reads what the turn before wrote, and writes anew.
        let turns = self.turns.len() as u32;
        self.turns.drain(..).for_each(|parcel| assert!(parcel.open() <= turns));
        self.turns = (0..=turns).map(Parcel::new).collect();
        if self.on.flags.iter().all(|flag| flag.load(Relaxed) == 1) {
            return Poll::Ready(self.turns.len());
        }
        Poll::Pending
    }
}

/// A pool with one future that has run once and waits.
struct Scene {
    toy: Toy,
    flags: Arc<Flags>,
    ticket: Ticket<usize>,
    wakers: Vec<Waker>,
    /// Counts the futures that have not been dropped, and one more.
    count: Arc<()>,
}

fn waiting(wakers: usize) -> Scene {
    let toy = Toy::new();
    let flags = (0..wakers).map(|_| AtomicU32::new(0)).collect();
    let flags = Arc::new(Flags { flags, wakers: Mutex::default() });
    let count = Arc::new(());
    let waits = Waits { on: Arc::clone(&flags), turns: Vec::new(), _count: Arc::clone(&count) };
    let (job, ticket) = toy.future(waits);
    toy.run(job);
    let wakers = std::mem::take(&mut *flags.wakers.lock().unwrap());
    Scene { toy, flags, ticket, wakers, count }
}

impl Scene {
    /// Wakes it, so that it is queued, and takes the job.
    fn wake_first(&self) -> Job {
        self.wakers[0].wake_by_ref();
        self.toy.take_job().expect("it waited and was woken")
    }

    /// Runs what is queued, which must be enough for the future to see all flags.
    fn finish(self) {
        let Self { toy, ticket, count, .. } = self;
        assert!(toy.queue_len() <= 1, "woken and queued twice");
        toy.run_all();
        assert!(ticket.is_done(), "a wake-up was lost");
        assert!(ticket.wait().unwrap() >= 2);
        assert_eq!((toy.endings(), Arc::strong_count(&count)), (vec![Ending::Completed], 1));
        drop(self.wakers);
        assert_eq!(toy.cells(), 0);
    }
}

/// Sets flag `number`, then wakes: by value, or by reference and then dropping the waker.
fn set_and_wake(scene: &mut Scene, number: usize, by_value: bool) -> impl FnOnce() + Send + use<> {
    let (flags, waker) = (Arc::clone(&scene.flags), scene.wakers.pop().expect("one waker for each flag"));
    move || {
        flags.flags[number].store(1, Relaxed);
        if by_value {
            waker.wake();
        } else {
            waker.wake_by_ref();
        }
    }
}

#[test]
fn a_wake_up_is_not_lost_while_the_future_runs() {
    explore(3, || {
        let mut scene = waiting(1);
        let job = scene.wake_first();
        let wake = thread::spawn(set_and_wake(&mut scene, 0, false));
        scene.toy.run(job);
        wake.join().unwrap();
        scene.finish();
    });
}

#[test]
fn a_wake_up_by_value_is_not_lost_while_the_future_runs() {
    explore(3, || {
        let mut scene = waiting(1);
        let job = scene.wake_first();
        let wake = set_and_wake(&mut scene, 0, true);
        let toy = scene.toy.clone();
        // Inside of the pool a wake-up by value takes a way of its own.
        let wake = thread::spawn(move || toy.inside(wake));
        scene.toy.run(job);
        wake.join().unwrap();
        scene.finish();
    });
}

#[test]
fn two_wakers_and_a_worker_lose_nothing_and_queue_once() {
    explore(2, || {
        let mut scene = waiting(2);
        let wakes = [true, false].map(|by_value| {
            let number = usize::from(by_value);
            thread::spawn(set_and_wake(&mut scene, number, by_value))
        });
        let worker = {
            let toy = scene.toy.clone();
            thread::spawn(move || toy.take_job().into_iter().for_each(|job| toy.run(job)))
        };
        for thread in wakes.into_iter().chain([worker]) {
            thread.join().unwrap();
        }
        scene.finish();
    });
}

#[test]
fn two_workers_pass_a_future_on_whole() {
    explore(2, || {
        let mut scene = waiting(2);
        let job = scene.wake_first();
        let first = {
            let toy = scene.toy.clone();
            thread::spawn(move || toy.run(job))
        };
        let second = {
            let (toy, wake) = (scene.toy.clone(), set_and_wake(&mut scene, 1, true));
            thread::spawn(move || {
                wake();
                toy.take_job().into_iter().for_each(|job| toy.run(job));
            })
        };
        set_and_wake(&mut scene, 0, true)();
        first.join().unwrap();
        second.join().unwrap();
        scene.finish();
    });
}

#[test]
fn a_woken_future_is_discarded_whole() {
    explore(3, || {
        let scene = waiting(1);
        let job = scene.wake_first();
        let Scene { toy, ticket, count, wakers, .. } = scene;
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        wakers[0].wake_by_ref();
        drop(toy.take_job());
        worker.join().unwrap();
        drop(wakers);
        // If it was woken while it ran, it ran again in vain.
        toy.run_all();
        assert!(ticket.wait().is_err());
        assert_eq!((toy.endings(), Arc::strong_count(&count), toy.cells()), (vec![Ending::Cancelled], 1, 0));
    });
}

#[test]
fn a_future_is_cancelled_or_comes_to_its_end_while_it_is_woken() {
    explore(2, || {
        let mut scene = waiting(1);
        let job = scene.wake_first();
        let wake = thread::spawn(set_and_wake(&mut scene, 0, true));
        let worker = {
            let toy = scene.toy.clone();
            thread::spawn(move || toy.run(job))
        };
        let Scene { toy, ticket, count, .. } = scene;
        let answer = ticket.cancel();
        if answer == CancelAnswer::Cancelled {
            assert_eq!(Arc::strong_count(&count), 1, "it is dropped by the canceller");
        }
        wake.join().unwrap();
        worker.join().unwrap();
        toy.run_all();
        match (answer, ticket.wait()) {
            (CancelAnswer::Cancelled | CancelAnswer::Requested, Err(TaskError::Cancelled)) => {
                assert_eq!(toy.endings(), [Ending::Cancelled]);
            }
            (CancelAnswer::Requested | CancelAnswer::TooLate, Ok(_)) => {
                assert_eq!(toy.endings(), [Ending::Completed]);
            }
            (answer, result) => panic!("answered {answer:?}, then {result:?}"),
        }
        assert_eq!((Arc::strong_count(&count), toy.cells()), (1, 0));
    });
}

#[test]
fn a_future_that_is_asked_to_stop_is_closed_when_it_next_waits() {
    explore(3, || {
        let scene = waiting(1);
        let job = scene.wake_first();
        let worker = {
            let toy = scene.toy.clone();
            thread::spawn(move || toy.run(job))
        };
        let Scene { toy, ticket, count, wakers, .. } = scene;
        // Nobody sets the flag: the future can only end by being cancelled, whenever that comes.
        assert_ne!(ticket.cancel(), CancelAnswer::TooLate);
        worker.join().unwrap();
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        drop(wakers);
        assert_eq!((toy.endings(), Arc::strong_count(&count), toy.cells()), (vec![Ending::Cancelled], 1, 0));
    });
}

#[test]
fn a_future_whose_last_wakers_go_is_ended() {
    explore(2, || {
        let Scene { toy, ticket, count, wakers, .. } = waiting(2);
        let leavers: Vec<_> = wakers.into_iter().map(|waker| thread::spawn(move || drop(waker))).collect();
        let waiter = thread::spawn(move || drop(ticket));
        for leaver in leavers {
            leaver.join().unwrap();
        }
        waiter.join().unwrap();
        assert_eq!(toy.run_all(), 1);
        assert_eq!((toy.endings(), Arc::strong_count(&count), toy.cells()), (vec![Ending::Cancelled], 1, 0));
    });
}

#[test]
fn a_future_whose_waker_goes_while_it_runs_is_ended() {
    explore(3, || {
        let scene = waiting(1);
        let job = scene.wake_first();
        let Scene { toy, ticket, count, wakers, .. } = scene;
        let leaver = thread::spawn(move || drop(wakers));
        toy.run(job);
        leaver.join().unwrap();
        toy.run_all();
        assert!(ticket.is_done(), "it waits, and nobody can wake it");
        assert!(matches!(ticket.wait(), Err(TaskError::Abandoned)));
        assert_eq!((toy.endings(), Arc::strong_count(&count), toy.cells()), (vec![Ending::Cancelled], 1, 0));
    });
}
