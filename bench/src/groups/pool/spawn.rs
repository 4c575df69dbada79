//! What does it cost to have a small closure run by a pool, fire and forget?
//!
//! `pool-spawn-outside`: one thread outside spawns them all. `pool-spawn-inside`: a task spawns a flight of
//! them, and before these its own successor, which spawns the next flight; so there is always work and never
//! much, whether the pool takes the oldest first or the newest. `pool-work-1us`: from outside, and each
//! computes for a microsecond. Baselines: the channel pools for empty closures, rayon's scope for work.
//! Limits: closures inside a ring's slots; a box that is made, called and freed by one thread; two threads
//! that compute and share nothing.
//!
//! Not here: closures whose result is waited for (`submit.rs`).

use super::{CAPACITY, SIZE, WORKERS, warm_up};
use crate::groups::measured;
use crate::ledger::Ledger;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::channel_pools::{CrossbeamPool, CrossfirePool};
use crate::peers::executors::{AsyncExecutor, ForteInPlace, FuturesPool, Tokio, TokioBlocking};
use crate::peers::inline::InlineTasks;
use crate::peers::millpond_pool::InBatches;
use crate::peers::pools::{Pool, Spawn, SpawnScoped};
use crate::peers::thread_pools::{PlainThreadPool, Rayon, RustyPool};
use crate::tally::{Tally, share};
use crate::team::{self, Work};
use crate::work::one_microsecond;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

/// More tasks than this are not left waiting in a pool without a limit.
const WAITING_MAX: u64 = 8192;
/// How often whoever spawns from outside looks at that.
const LOOK_EVERY: u64 = 1024;
/// Three flights, the most that are on their way at a time, fit into the smallest of the pools.
const FLIGHT: u64 = CAPACITY as u64 / 4;

pub(super) fn groups() -> Vec<Group> {
    vec![
        measured(
            "pool-spawn-outside",
            "empty closures, spawned by one thread outside",
            "ns/task",
            outsiders(),
        ),
        measured("pool-spawn-inside", "empty closures, spawned by tasks of the pool", "ns/task", insiders()),
        measured(
            "pool-work-1us",
            "closures that work for 1 µs, spawned from outside",
            "ns/task",
            labourers(),
        ),
    ]
}

fn outsiders() -> Vec<Contestant> {
    let mut contestants = from_outside::<Empty>();
    contestants.push(Contestant::new("~inline in a ring's slot", inline));
    contestants.push(Contestant::new("~box, on one thread", boxes));
    contestants
}

fn labourers() -> Vec<Contestant> {
    let mut contestants = from_outside::<Microsecond>();
    contestants.push(Contestant::new("~two cores", two_cores));
    contestants
}

fn from_outside<B: Body>() -> Vec<Contestant> {
    vec![
        Contestant::new("millpond", outside::<millpond::Pool, B>),
        Contestant::new("millpond, batch_max 64", outside::<InBatches, B>),
        Contestant::new("millpond scope", scope_outside::<millpond::Pool, B>),
        Contestant::new("rayon", outside::<Rayon, B>),
        Contestant::new("rayon scope", scope_outside::<Rayon, B>),
        Contestant::new("tokio", outside::<Tokio, B>),
        Contestant::new("tokio spawn_blocking", outside::<TokioBlocking, B>),
        Contestant::new("async-executor", outside::<AsyncExecutor, B>),
        Contestant::new("futures ThreadPool", outside::<FuturesPool, B>),
        Contestant::new("threadpool", outside::<PlainThreadPool, B>),
        Contestant::new("rusty_pool", outside::<RustyPool, B>),
        Contestant::new("crossbeam-channel pool", outside::<CrossbeamPool, B>),
        Contestant::new("crossfire pool", outside::<CrossfirePool, B>),
        Contestant::new("~forte scope, in place", scope_outside::<ForteInPlace, B>),
    ]
}

fn insiders() -> Vec<Contestant> {
    vec![
        Contestant::new("millpond", inside::<millpond::Pool>),
        Contestant::new("millpond scope", scope_inside::<millpond::Pool>),
        Contestant::new("rayon", inside::<Rayon>),
        Contestant::new("rayon scope", scope_inside::<Rayon>),
        Contestant::new("tokio", inside::<Tokio>),
        Contestant::new("tokio spawn_blocking", inside::<TokioBlocking>),
        Contestant::new("async-executor", inside::<AsyncExecutor>),
        Contestant::new("futures ThreadPool", inside::<FuturesPool>),
        Contestant::new("threadpool", inside::<PlainThreadPool>),
        Contestant::new("rusty_pool", inside::<RustyPool>),
        Contestant::new("crossbeam-channel pool", inside::<CrossbeamPool>),
        Contestant::new("crossfire pool", inside::<CrossfirePool>),
        Contestant::new("~forte, in place", inside::<ForteInPlace>),
        Contestant::new("~forte scope, in place", scope_inside::<ForteInPlace>),
    ]
}

/// What a task does before it signs.
trait Body: 'static {
    /// Tasks per round, as a share of the round's items: the longer they take, the fewer.
    const SHARE: u64;

    fn run(item: u64);
}

struct Empty;

impl Body for Empty {
    const SHARE: u64 = 4;

    #[inline(always)]
    fn run(_item: u64) {}
}

struct Microsecond;

impl Body for Microsecond {
    const SHARE: u64 = 20;

    #[inline(always)]
    fn run(item: u64) {
        black_box(one_microsecond(item));
    }
}

fn outside<P: Pool<Handle: Spawn>, B: Body>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    timed::<B>(round, |ledger, tasks| spawn_all::<B>(&handle, ledger, tasks))
}

/// Runs the clock from the first spawn to the last signature, and believes it only if the sum is right.
fn timed<B: Body>(
    round: &Round,
    spawn: impl FnOnce(&'static Ledger, u64) -> Result<(), String>,
) -> Result<f64, String> {
    let tasks = round.items / B::SHARE;
    // Measures its microsecond, if nobody did so before the clock runs.
    B::run(0);
    let ledger = Ledger::open();
    let start = Instant::now();
    spawn(ledger, tasks)?;
    ledger.wait_for_end(tasks)?;
    let elapsed = start.elapsed();
    ledger.tally().check(tasks)?;
    Ok(ns_per_item(elapsed, tasks))
}

#[inline(never)]
fn spawn_all<B: Body>(handle: &impl Spawn, ledger: &'static Ledger, tasks: u64) -> Result<(), String> {
    for item in 1..=tasks {
        if item % LOOK_EVERY == 0 && item > WAITING_MAX {
            ledger.wait_in_naps(item - WAITING_MAX)?;
        }
        handle.spawn(move || {
            B::run(item);
            ledger.sign(item);
        });
    }
    Ok(())
}

fn inside<P: Pool<Handle: Spawn>>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    timed::<Empty>(round, |ledger, tasks| {
        let first = handle.clone();
        handle.spawn(move || take_off(first, ledger, 1..tasks + 1));
        Ok(())
    })
}

/// One task of `pool-spawn-inside`: its successor first, then the flight.
fn take_off<H: Spawn>(handle: H, ledger: &'static Ledger, items: Range<u64>) {
    let border = items.end.min(items.start + FLIGHT);
    if border < items.end {
        let next = handle.clone();
        handle.spawn(move || take_off(next, ledger, border..items.end));
    }
    for item in items.start..border {
        handle.spawn(move || ledger.sign(item));
    }
}

fn scope_outside<P: Pool<Handle: Spawn + SpawnScoped>, B: Body>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    timed::<B>(round, |ledger, tasks| {
        for items in flights(tasks) {
            handle.scope_outside(items, move |item| {
                B::run(item);
                ledger.sign(item);
            });
        }
        Ok(())
    })
}

fn scope_inside<P: Pool<Handle: Spawn + SpawnScoped>>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    timed::<Empty>(round, |ledger, tasks| {
        flights(tasks).for_each(|items| handle.scope_inside(items, move |item| ledger.sign(item)));
        Ok(())
    })
}

/// The items in runs of as many as may wait; the end of a scope is the end of its run.
fn flights(tasks: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = (1..=tasks).step_by(WAITING_MAX as usize);
    starts.map(move |start| start..(start + WAITING_MAX).min(tasks + 1))
}

fn inline(round: &Round) -> Result<f64, String> {
    let pool = InlineTasks::start(WORKERS, CAPACITY);
    timed::<Empty>(round, |ledger, tasks| {
        (1..=tasks).for_each(|item| pool.spawn(Ledger::sign, ledger, item));
        Ok(())
    })
}

fn boxes(round: &Round) -> Result<f64, String> {
    timed::<Empty>(round, |ledger, tasks| {
        for item in 1..=tasks {
            let task: Box<dyn FnOnce()> = Box::new(move || ledger.sign(item));
            black_box(task)();
        }
        Ok(())
    })
}

fn two_cores(round: &Round) -> Result<f64, String> {
    let tasks = round.items / Microsecond::SHARE;
    Microsecond::run(0);
    let works = (0..2).map(|index| -> Work<Tally> {
        let items = share(tasks, index, 2);
        Box::new(move || {
            let mut tally = Tally::default();
            for item in items {
                Microsecond::run(item);
                tally.add(item);
            }
            tally
        })
    });
    let (elapsed, tallies) = team::run(works.collect(), round.pinned)?;
    Tally::total(tallies).check(tasks)?;
    Ok(ns_per_item(elapsed, tasks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flights_hold_every_item_once() {
        for tasks in [1, WAITING_MAX, WAITING_MAX + 1, 3 * WAITING_MAX - 1] {
            let mut tally = Tally::default();
            flights(tasks).flatten().for_each(|item| tally.add(item));
            tally.check(tasks).unwrap();
        }
    }
}
