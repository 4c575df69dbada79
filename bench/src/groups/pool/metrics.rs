//! What do metrics cost: the tasks, for being timed, and whoever asks, for a picture?
//!
//! `pool-metrics-outside` and `pool-metrics-inside`: empty closures, spawned as in `spawn.rs`, by our pool alone. The
//! row `millpond` times one task in 128, which is the default; the others time none or every one. So the baseline is
//! `millpond untimed`, and what the default costs is the difference. `pool-metrics-picture`: one call of `metrics()`,
//! and one of `metrics_prometheus()`, with two workers and with sixteen, each of which has timed some tasks.
//!
//! Not here: other pools (`spawn.rs`).

use super::{SIZE, WORKERS, warm_up};
use crate::groups::measured;
use crate::ledger::Ledger;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use millpond::{MetricsConfig, Pool, PoolConfig, PoolHandle};
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// Tasks per round, as a share of the round's items.
const TASKS_SHARE: u64 = 4;
/// Pictures per round, as a share of the round's items: one costs about as much as a hundred tasks.
const PICTURES_SHARE: u64 = 1000;
/// Three flights, the most that are on their way at a time, fit into the pool.
const FLIGHT: u64 = SIZE.capacity as u64 / 4;
const MANY_WORKERS: usize = 16;

pub(super) fn groups() -> Vec<Group> {
    let pictures = vec![
        Contestant::new("millpond", |round| picture(round, WORKERS, |pool| drop(black_box(pool.metrics())))),
        Contestant::new("millpond 16 workers", |round| {
            picture(round, MANY_WORKERS, |pool| drop(black_box(pool.metrics())))
        }),
        Contestant::new("millpond as text", |round| {
            picture(round, WORKERS, |pool| drop(black_box(pool.metrics_prometheus())))
        }),
        Contestant::new("millpond 16 workers as text", |round| {
            picture(round, MANY_WORKERS, |pool| drop(black_box(pool.metrics_prometheus())))
        }),
    ];
    vec![
        measured(
            "pool-metrics-outside",
            "empty closures from outside, one in 128 timed, or none, or all",
            "ns/task",
            timings(outside),
        ),
        measured(
            "pool-metrics-inside",
            "empty closures from tasks, one in 128 timed, or none, or all",
            "ns/task",
            timings(inside),
        ),
        measured("pool-metrics-picture", "one picture of a pool, or its text", "ns/picture", pictures),
    ]
}

fn timings(spawn: fn(&PoolHandle, &'static Ledger, u64)) -> Vec<Contestant> {
    let row = |peer, sample_every| Contestant::new(peer, move |round| tasks(round, sample_every, spawn));
    vec![
        row("millpond", MetricsConfig::default().sample_every),
        row("millpond untimed", 0),
        row("millpond every task timed", 1),
    ]
}

fn start(workers: usize, sample_every: u32) -> Pool {
    let metrics = MetricsConfig { sample_every, ..MetricsConfig::default() };
    let config = PoolConfig { workers, queue_capacity: SIZE.capacity, metrics, ..PoolConfig::default() };
    Pool::start(config).expect("the size is a valid constant")
}

/// Runs the clock from the first spawn to the last signature.
fn tasks(
    round: &Round,
    sample_every: u32,
    spawn: fn(&PoolHandle, &'static Ledger, u64),
) -> Result<f64, String> {
    let pool = start(WORKERS, sample_every);
    warm_up(&pool.handle())?;
    let (ledger, tasks) = (Ledger::open(), round.items / TASKS_SHARE);
    let started = Instant::now();
    spawn(&pool, ledger, tasks);
    ledger.wait_for_end(tasks)?;
    let elapsed = started.elapsed();
    ledger.tally().check(tasks)?;
    Ok(ns_per_item(elapsed, tasks))
}

#[inline(never)]
fn outside(handle: &PoolHandle, ledger: &'static Ledger, tasks: u64) {
    for item in 1..=tasks {
        // A task that is refused is missing in the end.
        let _ = handle.spawn(move || ledger.sign(item));
    }
}

fn inside(handle: &PoolHandle, ledger: &'static Ledger, tasks: u64) {
    let first = handle.clone();
    let _ = handle.spawn(move || take_off(first, ledger, 1..tasks + 1));
}

/// One task that spawns: its successor first, then the flight.
fn take_off(handle: PoolHandle, ledger: &'static Ledger, items: Range<u64>) {
    let border = items.end.min(items.start + FLIGHT);
    if border < items.end {
        let next = handle.clone();
        let _ = handle.spawn(move || take_off(next, ledger, border..items.end));
    }
    for item in items.start..border {
        let _ = handle.spawn(move || ledger.sign(item));
    }
}

fn picture(round: &Round, workers: usize, look: impl Fn(&Pool)) -> Result<f64, String> {
    let pool = start(workers, 1);
    // Every worker runs one of these, since none ends before all have begun.
    let barrier = Arc::new(Barrier::new(workers));
    for _ in 0..workers {
        let barrier = Arc::clone(&barrier);
        pool.spawn(move || _ = barrier.wait()).map_err(|refused| refused.to_string())?;
    }
    warm_up(&pool.handle())?;
    let pictures = (round.items / PICTURES_SHARE).max(1);
    let started = Instant::now();
    (0..pictures).for_each(|_| look(&pool));
    Ok(ns_per_item(started.elapsed(), pictures))
}
