//! What does it cost when two tasks wait for each other by turns?
//!
//! Two futures play a ball to and fro: whoever has it counts it on, wakes the other and waits.
//! `pool-pingpong` is one pair, which never has more than one task that can run; `pool-pingpong-64` is 64 of
//! them at once. The figure is for a round trip, two wake-ups and two polls at least. Baseline: tokio.
//!
//! Not here: tasks that wake themselves (`yields.rs`).

use super::{SIZE, warm_up};
use crate::groups::measured;
use crate::ledger::Ledger;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::executors::{AsyncExecutor, ForteInPlace, FuturesPool, Tokio};
use crate::peers::pools::{Pool, Spawn, SpawnFuture};
use crate::peers::thread_pools::RustyPool;
use futures::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Instant;

pub(super) fn groups() -> Vec<Group> {
    vec![
        group::<1>("pool-pingpong", "two tasks that wake each other by turns"),
        group::<64>("pool-pingpong-64", "64 pairs of tasks that wake each other by turns"),
    ]
}

fn group<const PAIRS: u64>(name: &'static str, question: &'static str) -> Group {
    let contestants = vec![
        Contestant::new("millpond", play::<millpond::Pool, PAIRS>),
        Contestant::new("tokio", play::<Tokio, PAIRS>),
        Contestant::new("async-executor", play::<AsyncExecutor, PAIRS>),
        Contestant::new("futures ThreadPool", play::<FuturesPool, PAIRS>),
        Contestant::new("rusty_pool", play::<RustyPool, PAIRS>),
        Contestant::new("~forte, in place", play::<ForteInPlace, PAIRS>),
    ];
    measured(name, question, "ns/trip", contestants)
}

fn play<P: Pool<Handle: Spawn + SpawnFuture>, const PAIRS: u64>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    let trips = round.items / 10 / PAIRS;
    let rallies: Vec<_> = (0..PAIRS).map(|_| Arc::new(Rally::default())).collect();
    let ledger = Ledger::open();
    let start = Instant::now();
    for (rally, item) in rallies.iter().zip((1..).step_by(2)) {
        for side in [0, 1] {
            let rally = Arc::clone(rally);
            handle.spawn_future(async move {
                rally.play(side, trips).await;
                ledger.sign(item + side as u64);
            });
        }
    }
    ledger.wait_for_end(2 * PAIRS)?;
    let elapsed = start.elapsed();
    ledger.tally().check(2 * PAIRS)?;
    for rally in &rallies {
        let counted = rally.ball.load(Ordering::Relaxed);
        if counted != 2 * trips {
            return Err(format!("expected a ball played {} times, got {counted}", 2 * trips));
        }
    }
    Ok(ns_per_item(elapsed, trips * PAIRS))
}

/// What two players share.
#[derive(Default)]
struct Rally {
    /// How often it was played; even numbers are the first player's turn.
    ball: AtomicU64,
    players: [AtomicWaker; 2],
}

impl Rally {
    async fn play(&self, side: usize, trips: u64) {
        for trip in 0..trips {
            let turn = 2 * trip + side as u64;
            poll_fn(|context| {
                if self.ball.load(Ordering::Acquire) == turn {
                    return Poll::Ready(());
                }
                self.players[side].register(context.waker());
                // The other may have played between the look and the registration.
                if self.ball.load(Ordering::Acquire) == turn { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.ball.store(turn + 1, Ordering::Release);
            self.players[1 - side].wake();
        }
    }
}
