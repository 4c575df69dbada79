//! What does a pool cost that has nothing to do?
//!
//! It is started, runs some tasks and is left alone until it sleeps. Then the processor time of the whole
//! process is read, and once more after five seconds; with `--quick` after one. A worker that went on looking
//! for work would use a million microseconds a second. Limit: no pool at all, which leaves what the reading
//! itself costs.
//!
//! Not here: what waking it up again takes (`roundtrip.rs`).

use super::{SIZE, warm_up};
use crate::measure::{Better, Contestant, Group, Pace, Plan, Round};
use crate::peers::channel_pools::CrossbeamPool;
use crate::peers::executors::{AsyncExecutor, FuturesPool, Tokio};
use crate::peers::forks::Fork;
use crate::peers::pools::{Pool, Spawn};
use crate::peers::thread_pools::Rayon;
use rustix::time::{ClockId, clock_gettime};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for every peer to fall asleep, and for the last one's threads to end.
const SETTLING: Duration = Duration::from_millis(100);

pub(super) fn groups() -> Vec<Group> {
    let contestants = vec![
        Contestant::new("millpond", idle::<millpond::Pool>),
        Contestant::new("rayon", idle::<Rayon>),
        Contestant::new("tokio", idle::<Tokio>),
        Contestant::new("async-executor", idle::<AsyncExecutor>),
        Contestant::new("futures ThreadPool", idle::<FuturesPool>),
        Contestant::new("crossbeam-channel pool", idle::<CrossbeamPool>),
        Contestant::new("chili", |round| {
            let _pool = <chili::ThreadPool as Fork>::start(super::WORKERS);
            Ok(processor_share(round))
        }),
        Contestant::new("~no pool", |round| Ok(processor_share(round))),
    ];
    let question = "processor time of a started pool that has nothing to do";
    vec![Group {
        name: "pool-idle",
        question,
        unit: "µs/s",
        better: Better::Lower,
        pace: Pace::Once,
        contestants,
    }]
}

fn idle<P: Pool<Handle: Spawn>>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    warm_up(&pool.handle())?;
    Ok(processor_share(round))
}

/// The processor time that this process uses while this thread sleeps, in microseconds a second.
fn processor_share(round: &Round) -> f64 {
    let nap = if round.items < Plan::full().items {
        Duration::from_nanos(2500 * round.items)
    } else {
        Duration::from_secs(5)
    };
    thread::sleep(SETTLING);
    let (start, before) = (Instant::now(), processor_time());
    thread::sleep(nap);
    let used = processor_time() - before;
    used.as_secs_f64() * 1e6 / start.elapsed().as_secs_f64()
}

/// What this process has used so far.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
