//! Nobody starves: what was taken in has its turn, also while a worker has other work without end.
//!
//! Each test makes an endless supply in one place and puts one task in another. The supply ends when that task has
//! run, or after so many rounds that it plainly never will.
//!
//! Not here: lanes of priority (`options.rs`).

use crate::busy::{Busy, pool, small_pool, start};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use millpond::{Pool, PoolConfig, PoolHandle, Priority, TaskOptions, blocking, yield_now};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// So many other tasks may come first. Far more than any written bound, and done in a moment.
const PLENTY: usize = 50_000;

/// Whether the task that waits has had its turn, and how many came before.
#[derive(Clone, Default)]
struct Supply {
    over: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
}

impl Supply {
    /// Whether another round is due.
    fn goes_on(&self) -> bool {
        self.rounds.fetch_add(1, Relaxed);
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed) || self.rounds.load(Relaxed) > PLENTY
    }

    /// What the task that waits does when it has its turn.
    fn end(&self) -> usize {
        self.over.store(true, Relaxed);
        self.rounds.load(Relaxed)
    }

    /// A task that follows itself in its worker's own queue.
    fn feed_itself(self, pool: PoolHandle) {
        if self.goes_on() {
            let again = pool.clone();
            pool.spawn(move || self.feed_itself(again)).unwrap();
        }
    }

    /// A thread outside of the pool that spawns without end. Each of its tasks ends only when the next one waits, so
    /// that the shared queue is never empty when a worker looks.
    fn feed_the_lane(self, pool: PoolHandle) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            let queued = Arc::new(AtomicUsize::new(0));
            let mut number = 0;
            while self.goes_on() {
                number += 1;
                let (supply, queued_now) = (self.clone(), Arc::clone(&queued));
                let until_the_next_waits = move || {
                    while queued_now.load(Relaxed) <= number && !supply.is_over() {
                        thread::yield_now();
                    }
                };
                pool.spawn(until_the_next_waits).unwrap();
                queued.store(number, Relaxed);
            }
        })
    }
}

#[test]
fn a_worker_that_feeds_itself_looks_at_the_shared_queue_now_and_then() {
    promptly("the task from outside has its turn", || {
        let (pool, supply) = (pool(1), Supply::default());
        let busy = Busy::one(&pool);
        let (feeds, handle) = (supply.clone(), pool.handle());
        pool.spawn(move || feeds.feed_itself(handle)).unwrap();
        let waits = pool.submit(move || supply.end()).unwrap();
        busy.release();
        assert!(waits.wait().unwrap() < 1000);
    });
}

#[test]
fn a_worker_that_feeds_itself_looks_into_its_inbox_now_and_then() {
    promptly("the task with an affinity key has its turn", || {
        let (pool, supply) = (pool(1), Supply::default());
        let busy = Busy::one(&pool);
        let (feeds, handle) = (supply.clone(), pool.handle());
        pool.spawn(move || feeds.feed_itself(handle)).unwrap();
        let key = TaskOptions { affinity: Some(7), ..TaskOptions::default() };
        // Behind the task that feeds itself: by the time it is looked for, the worker's own queue is never empty.
        let (told, tells) = mpsc::channel();
        let inner = pool.handle();
        let opens = supply.clone();
        pool.spawn(move || {
            let ticket = inner.with(&key).submit(move || opens.end()).unwrap();
            told.send(ticket).unwrap();
        })
        .unwrap();
        busy.release();
        assert!(tells.recv().unwrap().wait().unwrap() < PLENTY);
    });
}

#[test]
fn futures_that_wake_each_other_leave_turns_to_closures() {
    promptly("the closure has its turn", || {
        let (pool, supply) = (pool(1), Supply::default());
        let busy = Busy::one(&pool);
        let yielding: Vec<_> = (0..2)
            .map(|_| {
                let supply = supply.clone();
                let future = async move {
                    while supply.goes_on() {
                        yield_now().await;
                    }
                };
                pool.spawn_async(future).unwrap()
            })
            .collect();
        let closure = pool.submit(move || supply.end()).unwrap();
        busy.release();
        assert!(closure.wait().unwrap() < 1000);
        yielding.into_iter().for_each(|ticket| ticket.wait().unwrap());
    });
}

/// A future that sends to another and waits for its answer, again and again. Each wakes the other.
async fn play(to: tokio::sync::mpsc::Sender<()>, mut from: tokio::sync::mpsc::Receiver<()>, supply: Supply) {
    while supply.goes_on() && to.send(()).await.is_ok() && from.recv().await.is_some() {}
}

/// Two of them.
fn ping_and_pong(supply: &Supply) -> [impl Future<Output = ()> + Send + use<>; 2] {
    let (there, back) = (tokio::sync::mpsc::channel(1), tokio::sync::mpsc::channel(1));
    [play(there.0, back.1, supply.clone()), play(back.0, there.1, supply.clone())]
}

#[test]
fn two_futures_that_play_ping_pong_leave_turns_to_others() {
    promptly("the closure has its turn", || {
        let (pool, supply) = (pool(1), Supply::default());
        let busy = Busy::one(&pool);
        let players = ping_and_pong(&supply).map(|player| pool.spawn_async(player).unwrap());
        let closure = pool.submit(move || supply.end()).unwrap();
        busy.release();
        assert!(closure.wait().unwrap() < 1000);
        players.into_iter().for_each(|player| player.wait().unwrap());
    });
}

#[test]
fn two_futures_that_play_ping_pong_leave_turns_to_the_rest_of_their_workers_queue() {
    promptly("the closure has its turn", || {
        let (pool, supply) = (pool(1), Supply::default());
        let handle = pool.handle();
        let spawns = pool.submit(move || {
            let players = ping_and_pong(&supply).map(|player| handle.spawn_async(player).unwrap());
            (players, handle.submit(move || supply.end()).unwrap())
        });
        let (players, closure) = spawns.unwrap().wait().unwrap();
        assert!(closure.wait().unwrap() < 1000);
        players.into_iter().for_each(|player| player.wait().unwrap());
    });
}

#[test]
fn a_future_woken_while_every_queue_is_full_has_its_turn_although_they_stay_so() {
    promptly("the woken future has its turn", || {
        let (pool, supply, door) = (small_pool(1, 1), Supply::default(), Arc::new(Door::default()));
        let (waits, ends) = (Arc::clone(&door), supply.clone());
        let future = pool.spawn_async(async move {
            waits.pass().await;
            ends.end()
        });
        door.until_somebody_waits();
        let busy = Busy::one(&pool);
        let feeder = supply.feed_the_lane(pool.handle());
        eventually("the lane is full", || pool.metrics().tasks_waiting == 1);
        door.open();
        busy.release();
        assert!(future.unwrap().wait().unwrap() < PLENTY);
        feeder.join().unwrap();
    });
}

#[test]
fn what_a_retired_worker_left_has_its_turn_although_the_others_stay_busy() {
    promptly("the task in the retired worker's queue has its turn", || {
        let (pool, supply) = (pool(2), Supply::default());
        // The worker in the highest seat is the one to retire, so the other is kept busy.
        let (mut stays, others): (Vec<_>, Vec<_>) =
            Busy::many(&pool, 2).into_iter().partition(|busy| busy.thread.ends_with("-0"));
        drop(others);
        let (go_on, told) = mpsc::channel::<()>();
        let (left_behind, leaves) = mpsc::channel();
        let (handle, ends) = (pool.handle(), supply.clone());
        let retires = pool.submit(move || {
            left_behind.send(handle.submit(move || ends.end()).unwrap()).unwrap();
            told.recv().unwrap();
        });
        let left_behind = leaves.recv().unwrap();
        let feeder = supply.feed_the_lane(pool.handle());
        pool.resize(1).unwrap();
        go_on.send(()).unwrap();
        retires.unwrap().wait().unwrap();
        eventually("it retires", || pool.metrics().workers_running == 1);
        stays.remove(0).release();
        assert!(left_behind.wait().unwrap() < PLENTY);
        feeder.join().unwrap();
    });
}

#[test]
fn closures_have_their_turn_although_woken_futures_never_cease() {
    promptly("the closure in the full lane has its turn", || {
        let (pool, supply) = (small_pool(1, 1), Supply::default());
        let (sent, wakers) = mpsc::channel::<Waker>();
        // How many are woken and have not run since; one that runs at once may be counted afterwards.
        let woken = Arc::new(AtomicIsize::new(0));
        let spawn = |_| {
            let (supply, sent, woken, mut first) = (supply.clone(), sent.clone(), Arc::clone(&woken), true);
            let future = poll_fn(move |context| {
                if !supply.goes_on() {
                    return Poll::Ready(());
                }
                if !std::mem::take(&mut first) {
                    woken.fetch_sub(1, Relaxed);
                    // It ends only when another waits, so that one is always there when the worker looks.
                    while woken.load(Relaxed) <= 0 && !supply.is_over() {
                        thread::yield_now();
                    }
                }
                sent.send(context.waker().clone()).unwrap();
                Poll::Pending
            });
            pool.spawn_async(future).unwrap()
        };
        let futures: Vec<_> = (0..4).map(spawn).collect();
        drop(sent);
        let first: Vec<Waker> = wakers.iter().take(4).collect();
        let busy = Busy::one(&pool);
        let ends = supply.clone();
        let closure = pool.submit(move || ends.end()).unwrap();
        let counts = Arc::clone(&woken);
        let wakes = thread::spawn(move || {
            for waker in first.into_iter().chain(wakers) {
                waker.wake();
                counts.fetch_add(1, Relaxed);
            }
        });
        eventually("all are woken and the lane is full", || pool.metrics().tasks_waiting == 5);
        busy.release();
        assert!(closure.wait().unwrap() < PLENTY);
        futures.into_iter().for_each(|future| future.wait().unwrap());
        wakes.join().unwrap();
    });
}

#[test]
fn what_waits_behind_a_worker_that_stands_still_has_its_turn_although_the_lane_stays_full() {
    promptly("the future in the standing worker's own queue has its turn", || {
        let (pool, supply) = (pool(1), Supply::default());
        let busy = Busy::one(&pool);
        let (handle, ends) = (pool.handle(), supply.clone());
        // It goes to the worker's own queue, and only whoever stands in for the worker can run it.
        let waits =
            pool.submit(move || handle.spawn_async(async move { ends.end() }).unwrap().wait().unwrap());
        let feeder = supply.feed_the_lane(pool.handle());
        eventually("the lane is fed", || pool.metrics().tasks_waiting > 100);
        busy.release();
        assert!(waits.unwrap().wait().unwrap() < PLENTY);
        feeder.join().unwrap();
    });
}

/// Takes so many and so small tasks that its workers take several at once.
fn batching_pool(workers: usize) -> Pool {
    let pool = start(PoolConfig { workers, batch_max: 64, ..PoolConfig::default() });
    (0..5000).for_each(|_| pool.spawn(|| {}).unwrap());
    pool
}

#[test]
fn tasks_of_a_batch_do_not_wait_behind_one_that_waits_for_them_and_says_so() {
    promptly("a task waits for one behind it", || {
        let pool = batching_pool(2);
        for _ in 0..100 {
            (0..500).for_each(|_| pool.spawn(|| {}).unwrap());
            let (open, gate) = mpsc::channel();
            pool.spawn(move || blocking(|| gate.recv().unwrap())).unwrap();
            (0..40).for_each(|_| pool.spawn(|| {}).unwrap());
            pool.spawn(move || open.send(()).unwrap()).unwrap();
        }
        assert!(pool.drain(Duration::MAX).is_finished());
    });
}

/// How many of 50 tasks in a flood of tiny ones find others in their worker's own queue.
fn not_alone_in_hand() -> usize {
    let pool = batching_pool(1);
    let found = Arc::new(AtomicUsize::new(0));
    for number in 0..20_000 {
        let (handle, found) = (pool.handle(), Arc::clone(&found));
        // To look takes longer than such a task, so few do.
        let looks = move || {
            let waiting = handle.metrics().workers[0].tasks_waiting;
            found.fetch_add(usize::from(waiting > 0), Relaxed);
        };
        if number % 400 == 399 {
            pool.spawn(looks).unwrap()
        } else {
            pool.spawn(|| {}).unwrap()
        };
    }
    assert!(pool.drain(Duration::MAX).is_finished());
    found.load(Relaxed)
}

#[test]
fn a_worker_that_may_takes_nearly_all_tiny_tasks_in_batches() {
    // A worker that is interrupted takes its tasks for long ones, and takes one at a time for a while.
    let found: Vec<_> = (0..10).map(|_| not_alone_in_hand()).collect();
    assert!(found.iter().any(|&found| found > 35), "{found:?} of 50 tasks were not alone in hand");
}

#[test]
fn one_worker_begins_tasks_in_their_order_also_in_batches() {
    let pool = batching_pool(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..5000 {
        let order = Arc::clone(&order);
        pool.spawn(move || order.lock().unwrap().push(number)).unwrap();
    }
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(*order.lock().unwrap(), (0..5000).collect::<Vec<_>>());
}

/// How many of 200 tasks of the lane run between the fifth, which does `what`, and the task that it thereby submits.
fn overtaken_in_a_flow(
    what: impl FnOnce(&PoolHandle, Arc<dyn Fn() + Send + Sync>) + Send + 'static,
) -> usize {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let ran = Arc::new(AtomicUsize::new(0));
    let overtaken = Arc::new(AtomicUsize::new(usize::MAX));
    let note: Arc<dyn Fn() + Send + Sync> = {
        let (ran, overtaken) = (Arc::clone(&ran), Arc::clone(&overtaken));
        Arc::new(move || overtaken.store(ran.load(Relaxed), Relaxed))
    };
    let (mut what, handle) = (Some(what), pool.handle());
    for number in 0..200 {
        let ran = Arc::clone(&ran);
        if let Some(what) = what.take_if(|_| number == 5) {
            let (note, handle) = (Arc::clone(&note), handle.clone());
            let first = move || {
                ran.store(0, Relaxed);
                what(&handle, note);
            };
            pool.spawn(first).unwrap();
        } else {
            pool.spawn(move || _ = ran.fetch_add(1, Relaxed)).unwrap();
        }
    }
    busy.release();
    eventually("the task has run", || overtaken.load(Relaxed) != usize::MAX);
    overtaken.load(Relaxed)
}

#[test]
fn a_worker_that_runs_one_task_of_the_lane_after_the_other_sees_what_comes_elsewhere() {
    let own = overtaken_in_a_flow(|pool, note| pool.spawn(move || note()).unwrap());
    let by_key = overtaken_in_a_flow(|pool, note| {
        let options = TaskOptions { affinity: Some(1), ..TaskOptions::default() };
        pool.with(&options).spawn(move || note()).unwrap();
    });
    let urgent = overtaken_in_a_flow(|pool, note| {
        let options = TaskOptions { priority: Priority::High, ..TaskOptions::default() };
        pool.with(&options).spawn(move || note()).unwrap();
    });
    // One look in 64 begins elsewhere, and the lanes take turns.
    assert!(own <= 1 && by_key <= 1 && urgent <= 3, "{own}, {by_key} and {urgent} came first");
}

#[test]
fn a_worker_that_runs_one_task_of_the_lane_after_the_other_stops_for_a_pause() {
    let pool = Arc::new(pool(1));
    let busy = Busy::one(&pool);
    let ran = Arc::new(AtomicUsize::new(0));
    for number in 0..200 {
        let (ran, pauses) = (Arc::clone(&ran), Arc::clone(&pool));
        let task = move || {
            ran.fetch_add(1, Relaxed);
            if number == 5 {
                pauses.pause();
            }
        };
        pool.spawn(task).unwrap();
    }
    busy.release();
    eventually("the pool is paused in the middle", || ran.load(Relaxed) == 6);
    assert_eq!(pool.metrics().tasks_waiting, 194);
    pool.resume();
    eventually("it goes on", || ran.load(Relaxed) == 200);
}
