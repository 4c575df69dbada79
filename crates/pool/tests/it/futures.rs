//! Async tasks: any future runs, is woken once and queued once, and is dropped exactly when it is over.
//!
//! A future that waits is in no queue; whoever holds its waker decides what becomes of it. So the tests hold wakers
//! too long, drop them too early, wake too often and wake what is gone.
//!
//! Not here: other people's reactors (`reactors.rs`), who starves whom (`fairness.rs`).

use crate::busy::{Busy, lone_worker, pool, small_pool, start};
use crate::eventually::{eventually, promptly};
use crate::witness::Witnesses;
use millpond::{CancelAnswer, PoolConfig, SubmitError, TaskError, block_on, yield_now};
use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Where a future waits until somebody opens it. It counts the polls, and its waker can be had.
#[derive(Default)]
pub(crate) struct Door {
    open: AtomicBool,
    polls: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Door {
    /// Waits at the door.
    pub(crate) async fn pass(&self) {
        poll_fn(|context| {
            self.polls.fetch_add(1, Relaxed);
            if self.open.load(Relaxed) {
                return Poll::Ready(());
            }
            *self.waker.lock().unwrap() = Some(context.waker().clone());
            // It may have been opened before the waker was there to be found.
            if self.open.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Opens the door, and wakes whoever waits there.
    pub(crate) fn open(&self) {
        self.open.store(true, Relaxed);
        if let Some(waker) = self.take_waker() {
            waker.wake();
        }
    }

    /// The waker of whoever waits there.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.waker.lock().unwrap().take()
    }

    /// Returns when somebody waits at the door.
    pub(crate) fn until_somebody_waits(&self) {
        eventually("somebody waits at the door", || self.waker.lock().unwrap().is_some());
    }

    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Relaxed)
    }
}

#[test]
fn a_future_yields_its_output_through_its_ticket() {
    let pool = pool(2);
    let ticket = pool.spawn_async(async {
        yield_now().await;
        42
    });
    assert_eq!(ticket.unwrap().wait().unwrap(), 42);
    let ticket = pool.spawn_async(async { "at once" }).unwrap();
    assert_eq!(block_on(ticket).unwrap(), "at once");
    assert_eq!(pool.block_on(async { 7 }), 7);
}

#[test]
fn a_future_that_waits_is_polled_only_when_it_is_woken() {
    let (pool, door) = (pool(1), Arc::new(Door::default()));
    let waits = Arc::clone(&door);
    let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
    door.until_somebody_waits();
    assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1, "the worker does other things meanwhile");
    assert_eq!(door.polls(), 1);
    door.open();
    ticket.wait().unwrap();
    assert_eq!(door.polls(), 2);
}

#[test]
fn a_future_woken_often_before_it_runs_is_polled_once() {
    let (pool, door) = (pool(1), Arc::new(Door::default()));
    let waits = Arc::clone(&door);
    let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
    door.until_somebody_waits();
    eventually("it is suspended", || pool.metrics().tasks_waiting == 0);
    let busy = Busy::one(&pool);
    let waker = door.take_waker().unwrap();
    (0..100).for_each(|_| waker.wake_by_ref());
    vec![waker.clone(); 100].into_iter().for_each(Waker::wake);
    assert_eq!(pool.metrics().tasks_waiting, 1, "woken once, queued once");
    drop(waker);
    busy.release();
    door.until_somebody_waits();
    assert_eq!(door.polls(), 2);
    door.open();
    ticket.wait().unwrap();
}

#[test]
fn a_future_woken_while_it_runs_runs_again() {
    promptly("the future is polled again", || {
        let (pool, polls) = (pool(1), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&polls);
        let wakes_itself = poll_fn(move |context| {
            context.waker().wake_by_ref();
            if count.fetch_add(1, Relaxed) == 99 { Poll::Ready(()) } else { Poll::Pending }
        });
        pool.spawn_async(wakes_itself).unwrap().wait().unwrap();
        assert_eq!(polls.load(Relaxed), 100);
    });
}

#[test]
fn a_waker_that_outlives_its_future_or_its_pool_does_nothing() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let (sent, wakers) = mpsc::channel();
    let witness = witnesses.one();
    let ticket = pool.spawn_async(poll_fn(move |context| {
        let _held = &witness;
        sent.send(context.waker().clone()).unwrap();
        Poll::Ready(5)
    }));
    assert_eq!(ticket.unwrap().wait().unwrap(), 5);
    let waker = wakers.recv().unwrap();
    assert_eq!(witnesses.left(), 0, "the future is dropped when it is ready, whoever still knows of it");
    waker.wake_by_ref();
    drop(pool);
    vec![waker; 2].into_iter().for_each(Waker::wake);
}

#[test]
fn a_future_is_dropped_once_when_it_is_over() {
    let (pool, witnesses) = (pool(2), Witnesses::default());
    let tickets: Vec<_> = (0..1000)
        .map(|_| {
            let witness = witnesses.one();
            let future = async move {
                yield_now().await;
                drop(witness);
            };
            pool.spawn_async(future).unwrap()
        })
        .collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(witnesses.left(), 0);
    eventually("no future lives", || pool.metrics().futures_live == 0);
    assert_eq!(pool.metrics().completed, 1000);
}

#[test]
fn a_future_that_nobody_can_wake_ends_as_abandoned() {
    promptly("the ticket is told", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let witness = witnesses.one();
        let never = pool.spawn_async(async move {
            let _witness = witness;
            pending::<()>().await;
        });
        assert!(matches!(never.unwrap().wait(), Err(TaskError::Abandoned)));
        assert_eq!(witnesses.left(), 0);
        let door = Arc::new(Door::default());
        let waits = Arc::clone(&door);
        let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
        door.until_somebody_waits();
        drop(door.take_waker());
        assert!(matches!(ticket.wait(), Err(TaskError::Abandoned)), "its last waker was dropped later");
        assert_eq!(pool.metrics().cancelled, 2);
        assert_eq!(pool.metrics().futures_live, 0);
    });
}

#[test]
fn a_detached_future_goes_on_until_it_is_over() {
    let (pool, door, witnesses) = (pool(1), Arc::new(Door::default()), Witnesses::default());
    let (waits, witness) = (Arc::clone(&door), witnesses.one());
    drop(pool.spawn_async(async move {
        waits.pass().await;
        drop(witness);
    }));
    door.until_somebody_waits();
    assert_eq!(witnesses.left(), 1);
    door.open();
    eventually("the future ended", || witnesses.left() == 0);
    eventually("and is counted", || pool.metrics().completed == 1);
}

#[test]
fn no_more_futures_live_than_futures_max_however_many_try() {
    const MAX: usize = 4;
    let pool = start(PoolConfig { workers: 2, futures_max: MAX, ..PoolConfig::default() });
    let doors = Mutex::new(Vec::new());
    let try_one = || {
        let door = Arc::new(Door::default());
        doors.lock().unwrap().push(Arc::clone(&door));
        pool.try_spawn_async(async move { door.pass().await }).ok()
    };
    for _ in 0..3 {
        let tickets: Vec<_> = thread::scope(|threads| {
            let try_many = || (0..10_000).filter_map(|_| try_one()).collect::<Vec<_>>();
            let trying: Vec<_> = (0..4).map(|_| threads.spawn(try_many)).collect();
            trying.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(
            (tickets.len(), pool.metrics().futures_live),
            (MAX, MAX),
            "all that were taken in live on"
        );
        doors.lock().unwrap().drain(..).for_each(|door| door.open());
        tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
        eventually("there is room again", || pool.metrics().futures_live == 0);
    }
}

#[test]
fn no_more_futures_live_than_futures_max() {
    let pool = start(PoolConfig { workers: 1, futures_max: 2, ..PoolConfig::default() });
    let doors: Vec<Arc<Door>> = (0..3).map(|_| Arc::default()).collect();
    let spawn = |number: usize| {
        let door = Arc::clone(&doors[number]);
        pool.spawn_async(async move {
            door.pass().await;
            number
        })
    };
    let (first, second) = (spawn(0).unwrap(), spawn(1).unwrap());
    let Err(SubmitError::Full(third)) = spawn(2) else { panic!("expected Full") };
    assert_eq!(pool.metrics().futures_live, 2);
    doors[0].open();
    assert_eq!(first.wait().unwrap(), 0);
    let third = pool.spawn_async(third).unwrap();
    doors[2].open();
    assert_eq!(third.wait().unwrap(), 2, "what was refused comes back whole and runs when there is room");
    assert_eq!(second.cancel(), CancelAnswer::Cancelled);
    eventually("none lives", || pool.metrics().futures_live == 0);
}

#[test]
fn a_future_waits_for_room_and_comes_back_whole_if_the_pool_ends_first() {
    promptly("every submitter is told", || {
        for _ in 0..50 {
            let pool = small_pool(1, 1);
            let busy = Busy::one(&pool);
            pool.spawn(|| ()).unwrap();
            let submitters: Vec<_> = (0..4)
                .map(|number| {
                    let handle = pool.handle();
                    thread::spawn(move || {
                        let witness = Arc::new(number);
                        let Err(refused) = handle.spawn_async(async move { *witness }) else {
                            panic!("there was no room");
                        };
                        assert!(matches!(refused, SubmitError::Closed(_)), "{refused:?}");
                        block_on(refused.into_inner())
                    })
                })
                .collect();
            eventually("they wait for room", || pool.metrics().futures_live == 4);
            let handle = pool.handle();
            let ending = thread::spawn(move || drop(pool));
            let answers: Vec<_> = submitters.into_iter().map(|submitter| submitter.join().unwrap()).collect();
            assert_eq!(answers, [0, 1, 2, 3]);
            busy.release();
            ending.join().unwrap();
            let metrics = handle.metrics();
            assert_eq!(metrics.futures_live, 0);
            assert_eq!((metrics.completed, metrics.cancelled), (1, 1), "what was refused is not counted");
        }
    });
}

#[test]
fn a_future_whose_poll_panics_is_dropped_and_its_ticket_told() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let witness = witnesses.one();
    let ticket = pool.spawn_async(async move {
        let _witness = witness;
        yield_now().await;
        resume_unwind(Box::new("in a poll"))
    });
    let result: Result<(), _> = ticket.unwrap().wait();
    let Err(TaskError::Panicked(panic)) = result else { panic!("expected a panic") };
    assert_eq!(panic.message(), Some("in a poll"));
    assert_eq!(witnesses.left(), 0);
    assert_eq!((pool.metrics().panicked, pool.metrics().futures_live), (1, 0));
}

#[test]
fn futures_await_tickets_of_closures_and_of_each_other() {
    promptly("the sum is found", || {
        let pool = lone_worker(4);
        let handle = pool.handle();
        let sum = pool.spawn_async(async move {
            let mut sum = 0;
            for number in 1..=100 {
                let inner = handle.clone();
                let outer =
                    handle.spawn_async(async move { inner.submit(move || number).unwrap().await.unwrap() });
                sum += outer.unwrap().await.unwrap();
            }
            sum
        });
        assert_eq!(sum.unwrap().wait().unwrap(), 5050);
    });
}

#[test]
fn ten_thousand_futures_wake_each_other_in_a_row() {
    promptly("the wake passes through", || {
        let pool = start(PoolConfig { workers: 2, futures_max: 10_000, ..PoolConfig::default() });
        let doors: Arc<Vec<Door>> = Arc::new((0..10_001).map(|_| Door::default()).collect());
        let tickets: Vec<_> = (0..10_000)
            .map(|number| {
                let doors = Arc::clone(&doors);
                let future = async move {
                    doors[number].pass().await;
                    doors[number + 1].open();
                };
                pool.spawn_async(future).unwrap()
            })
            .collect();
        doors[0].open();
        tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
        assert!(doors[10_000].open.load(Relaxed));
    });
}

#[test]
fn block_on_inside_a_worker_lets_another_stand_in() {
    promptly("the future the worker blocks on is woken by its own pool", || {
        let pool = pool(1);
        let handle = pool.handle();
        let result = pool.submit(move || {
            let door = Arc::new(Door::default());
            let opens = Arc::clone(&door);
            handle.spawn(move || opens.open()).unwrap();
            block_on(door.pass());
            block_on(handle.spawn_async(async { 7 }).unwrap()).unwrap()
        });
        assert_eq!(result.unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn a_closure_may_wait_for_a_future_that_it_has_just_woken() {
    promptly("the woken future runs although its waker's thread waits for it", || {
        let (pool, door) = (pool(1), Arc::new(Door::default()));
        let waits = Arc::clone(&door);
        let future = pool.spawn_async(async move {
            waits.pass().await;
            7
        });
        door.until_somebody_waits();
        let future = future.unwrap();
        let closure = pool.submit(move || {
            door.open();
            future.wait().unwrap()
        });
        assert_eq!(closure.unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn a_future_woken_by_a_task_that_goes_on_does_not_wait_for_its_end() {
    promptly("another worker runs the woken future", || {
        let (pool, door) = (pool(2), Arc::new(Door::default()));
        let (waits, passed) = (Arc::clone(&door), Arc::new(AtomicBool::new(false)));
        let tells = Arc::clone(&passed);
        let future = pool.spawn_async(async move {
            waits.pass().await;
            tells.store(true, Relaxed);
        });
        door.until_somebody_waits();
        let long = pool.submit(move || {
            door.open();
            eventually("the other worker, who has nothing else to do, runs it", || passed.load(Relaxed));
        });
        long.unwrap().wait().unwrap();
        future.unwrap().wait().unwrap();
    });
}

#[test]
fn wakes_from_many_threads_lose_nothing() {
    promptly("every round is woken", || {
        let pool = pool(2);
        for _ in 0..2000 {
            let door = Arc::new(Door::default());
            let (waits, opens) = (Arc::clone(&door), Arc::clone(&door));
            let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
            // It may come before, while and after the future goes to sleep.
            pool.spawn(move || opens.open()).unwrap();
            ticket.wait().unwrap();
        }
    });
}

#[test]
fn a_future_that_will_not_wait_for_room_is_handed_back_unpolled() {
    let pool = start(PoolConfig { workers: 1, queue_capacity: 1, ..PoolConfig::default() });
    let busy = Busy::one(&pool);
    let first = pool.try_spawn_async(async { 1 }).unwrap();
    let Err(SubmitError::Full(back)) = pool.try_spawn_async(async { 2 }) else { panic!("the queue is full") };
    busy.release();
    assert_eq!((first.wait().unwrap(), block_on(back)), (1, 2));
}

#[test]
fn a_future_that_yields_lets_the_other_tasks_of_its_worker_go_first() {
    let pool = pool(1);
    let (handle, order) = (pool.handle(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&order);
    let spawns = pool.submit(move || {
        for number in 0..3 {
            let order = Arc::clone(&told);
            let future = async move {
                for _ in 0..3 {
                    order.lock().unwrap().push(number);
                    yield_now().await;
                }
            };
            drop(handle.spawn_async(future).unwrap());
        }
    });
    spawns.unwrap().wait().unwrap();
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}
