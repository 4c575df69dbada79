//! How long does one thread outside wait for one result?
//!
//! It submits a closure and waits for what it gives, in the way that the peer's users do; the figure is the
//! median of a round's trips. `pool-roundtrip-busy`: one trip after the other, so that a pool which waits a
//! little before it sleeps is found awake. `pool-roundtrip-idle`: a millisecond passes before each, so that
//! every worker sleeps. Baseline: the channel pools.
//!
//! Not here: many results at a time (`submit.rs`); chili and forte, which run it on the very thread that asks.

use super::{SIZE, warm_up};
use crate::groups::measured;
use crate::measure::{Contestant, Group, Round, median};
use crate::peers::channel_pools::{CrossbeamPool, CrossfirePool};
use crate::peers::executors::{AsyncExecutor, FuturesPool, Tokio, TokioBlocking};
use crate::peers::pools::{Pool, Spawn, Submit};
use crate::peers::thread_pools::{PlainThreadPool, Rayon, RustyPool};
use crate::tally::Tally;
use std::thread;
use std::time::{Duration, Instant};

pub(super) fn groups() -> Vec<Group> {
    vec![
        group::<Idle>("pool-roundtrip-idle", "one closure from outside and its result, every worker asleep"),
        group::<Busy>("pool-roundtrip-busy", "one closure from outside and its result, back to back"),
    ]
}

fn group<G: Gap>(name: &'static str, question: &'static str) -> Group {
    let contestants = vec![
        Contestant::new("millpond", trips::<millpond::Pool, G>),
        Contestant::new("rayon install", trips::<Rayon, G>),
        Contestant::new("tokio", trips::<Tokio, G>),
        Contestant::new("tokio spawn_blocking", trips::<TokioBlocking, G>),
        Contestant::new("async-executor", trips::<AsyncExecutor, G>),
        Contestant::new("futures ThreadPool", trips::<FuturesPool, G>),
        Contestant::new("threadpool + oneshot", trips::<PlainThreadPool, G>),
        Contestant::new("rusty_pool", trips::<RustyPool, G>),
        Contestant::new("crossbeam + oneshot", trips::<CrossbeamPool, G>),
        Contestant::new("crossfire + oneshot", trips::<CrossfirePool, G>),
    ];
    measured(name, question, "µs p50", contestants)
}

/// What passes between two trips.
trait Gap: 'static {
    /// Trips per round, as a share of the round's items.
    const SHARE: u64;

    fn pass();
}

struct Idle;

impl Gap for Idle {
    // After some twenty trips the system leaves worker and caller where they are, for the most part on one processor.
    // A round of forty had a median that came now from before that, now from after.
    const SHARE: u64 = 4_000;

    fn pass() {
        thread::sleep(Duration::from_millis(1));
    }
}

struct Busy;

impl Gap for Busy {
    const SHARE: u64 = 200;

    fn pass() {}
}

fn trips<P: Pool<Handle: Spawn + Submit>, G: Gap>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    let count = round.items / G::SHARE;
    let mut tally = Tally::default();
    let mut microseconds = Vec::with_capacity(count as usize);
    for item in 1..=count {
        G::pass();
        let start = Instant::now();
        let result = handle.call(move || item);
        microseconds.push(start.elapsed().as_secs_f64() * 1e6);
        tally.add(result);
    }
    tally.check(count)?;
    median(microseconds).ok_or_else(|| "a round needs at least one trip".to_owned())
}
