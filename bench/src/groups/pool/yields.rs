//! What does it cost to poll a future that is not ready yet?
//!
//! Some thousands of tasks, spawned by one thread outside, each give way ten times: they wake themselves and
//! return. So a task is polled eleven times, and the figure is for one poll, with its share of the spawning.
//! The yield is the same for all and of our own making; `yield_now` in a row's name says that the peer's own
//! was used. Baseline: the `ThreadPool` of futures.
//!
//! Not here: tasks that wake each other (`rally.rs`).

use super::{SIZE, warm_up};
use crate::groups::measured;
use crate::ledger::Ledger;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::executors::{AsyncExecutor, FuturesPool, Tokio};
use crate::peers::pools::{Pool, Spawn, SpawnFuture};
use crate::peers::thread_pools::RustyPool;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

const YIELDS: u64 = 10;

pub(super) fn groups() -> Vec<Group> {
    let contestants = vec![
        Contestant::new("millpond", yields::<millpond::Pool, _, _>(GiveWay::once)),
        Contestant::new("millpond yield_now", yields::<millpond::Pool, _, _>(millpond::yield_now)),
        Contestant::new("tokio", yields::<Tokio, _, _>(GiveWay::once)),
        Contestant::new("tokio yield_now", yields::<Tokio, _, _>(tokio::task::yield_now)),
        Contestant::new("async-executor", yields::<AsyncExecutor, _, _>(GiveWay::once)),
        Contestant::new("futures ThreadPool", yields::<FuturesPool, _, _>(GiveWay::once)),
        Contestant::new("rusty_pool", yields::<RustyPool, _, _>(GiveWay::once)),
    ];
    let question = "thousands of tasks that give way ten times each";
    vec![measured("pool-yield", question, "ns/poll", contestants)]
}

/// Gives way once: wakes its task, and is ready the next time.
struct GiveWay(bool);

impl GiveWay {
    fn once() -> Self {
        Self(false)
    }
}

impl Future for GiveWay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn yields<P, Y, F>(give_way: Y) -> impl Fn(&Round) -> Result<f64, String>
where
    P: Pool<Handle: Spawn + SpawnFuture>,
    Y: Fn() -> F + Copy + Send + 'static,
    F: Future + Send + 'static,
{
    move |round| {
        let pool = P::start(SIZE);
        let handle = pool.handle();
        warm_up(&handle)?;
        let tasks = round.items / 80;
        let ledger = Ledger::open();
        let start = Instant::now();
        for item in 1..=tasks {
            handle.spawn_future(async move {
                for _ in 0..YIELDS {
                    give_way().await;
                }
                ledger.sign(item);
            });
        }
        ledger.wait_for_end(tasks)?;
        let elapsed = start.elapsed();
        ledger.tally().check(tasks)?;
        Ok(ns_per_item(elapsed, tasks * (YIELDS + 1)))
    }
}
