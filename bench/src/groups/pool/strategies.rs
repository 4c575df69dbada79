//! What does it cost a pool that somebody chooses the worker for each task?
//!
//! One thread outside spawns closures into our pool with each of the strategies: empty ones, where the choice
//! is most of the cost, and ones that work for a microsecond, where it should vanish. Baseline: the row
//! `millpond`, the default, where nobody chooses and all tasks wait in one queue.
//!
//! Not here: a choice by itself, among many workers (`policy/choose.rs`), the peers (`spawn.rs`).

use super::{CAPACITY, WORKERS, warm_up};
use crate::groups::measured;
use crate::ledger::Ledger;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::work::one_microsecond;
use millpond::{Pool, PoolConfig, Strategy};
use std::hint::black_box;
use std::time::Instant;

/// Peer and strategy.
const ROWS: [(&str, &str); 10] = [
    ("millpond", "shared"),
    ("millpond round-robin", "round-robin"),
    ("millpond least-used", "least-used"),
    ("millpond least-busy", "least-busy"),
    ("millpond least-utilised", "least-utilised"),
    ("millpond weighted", "weighted-round-robin"),
    ("millpond interleaved", "interleaved-weighted"),
    ("millpond fair-share", "fair-share"),
    ("millpond power-of-two", "power-of-two"),
    ("millpond random", "random"),
];

pub(super) fn groups() -> Vec<Group> {
    vec![
        measured(
            "pool-strategy-empty",
            "empty closures from outside, by strategy; millpond is shared",
            "ns/task",
            rows(|round, strategy| spawned(strategy, round.items / 8, |_| {})),
        ),
        measured(
            "pool-strategy-1us",
            "closures that work for 1 µs, by strategy; millpond is shared",
            "ns/task",
            rows(|round, strategy| {
                spawned(strategy, round.items / 20, |item| {
                    black_box(one_microsecond(item));
                })
            }),
        ),
    ]
}

fn rows(run: impl Fn(&Round, &str) -> Result<f64, String> + Copy + 'static) -> Vec<Contestant> {
    let row = |(peer, strategy)| Contestant::new(peer, move |round: &Round| run(round, strategy));
    ROWS.map(row).into()
}

/// The clock runs from the first spawn to the last signature.
fn spawned(strategy: &str, tasks: u64, body: impl Fn(u64) + Copy + Send + 'static) -> Result<f64, String> {
    let strategy = Strategy::named(strategy).map_err(|error| error.to_string())?;
    let config = PoolConfig { workers: WORKERS, queue_capacity: CAPACITY, strategy, ..PoolConfig::default() };
    let pool = Pool::start(config).map_err(|error| error.to_string())?;
    warm_up(&*pool)?;
    // Measures its microsecond, if nobody did so before the clock runs.
    body(0);
    let ledger = Ledger::open();
    let start = Instant::now();
    for item in 1..=tasks {
        let task = move || {
            body(item);
            ledger.sign(item);
        };
        pool.spawn(task).map_err(|refused| refused.to_string())?;
    }
    ledger.wait_for_end(tasks)?;
    let elapsed = start.elapsed();
    ledger.tally().check(tasks)?;
    Ok(ns_per_item(elapsed, tasks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_of_the_pool_has_a_row() {
        let mut rows = ROWS.map(|(_, strategy)| strategy);
        let mut known: Vec<_> = Strategy::names().collect();
        rows.sort_unstable();
        known.sort_unstable();
        assert_eq!(rows.as_slice(), known);
    }
}
