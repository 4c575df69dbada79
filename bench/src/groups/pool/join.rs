//! What does a fork cost that is almost never taken?
//!
//! The 30th Fibonacci number, the slow way, with a join at every one of 1.3 million calls: all overhead, and
//! enough of it for two threads to share. Baseline: chili. Limit: the same calls without joins, on one
//! thread.
//!
//! Not here: the pools' ways to say it (`peers/forks.rs`).

use super::WORKERS;
use crate::groups::measured;
use crate::measure::{Contestant, Group, Round};
use crate::peers::forks::{Fork, Forte, Sequential};
use crate::peers::thread_pools::Rayon;
use std::hint::black_box;
use std::time::Instant;

const N: u32 = 30;
const EXPECTED: u64 = 832_040;
/// As much as starts every thread and brings the processor to its speed.
const N_WARM: u32 = 20;

pub(super) fn groups() -> Vec<Group> {
    let contestants = vec![
        Contestant::new("millpond", fibonacci::<millpond::Pool>),
        Contestant::new("rayon", fibonacci::<Rayon>),
        Contestant::new("chili", fibonacci::<chili::ThreadPool>),
        Contestant::new("forte", fibonacci::<Forte>),
        Contestant::new("~sequential", fibonacci::<Sequential>),
    ];
    let question = "the 30th Fibonacci number, with a join at every level";
    vec![measured("pool-join", question, "ms", contestants)]
}

fn fibonacci<F: Fork>(_: &Round) -> Result<f64, String> {
    let pool = F::start(WORKERS);
    black_box(pool.fibonacci(N_WARM));
    let start = Instant::now();
    let result = pool.fibonacci(black_box(N));
    let elapsed = start.elapsed();
    if result != EXPECTED {
        return Err(format!("expected {EXPECTED}, got {result}"));
    }
    Ok(elapsed.as_secs_f64() * 1e3)
}
