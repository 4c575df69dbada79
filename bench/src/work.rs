//! A microsecond of work, as this machine's fastest moment measures it.
//!
//! A chain of multiplications, each of which needs the one before, so that it takes the same time wherever it
//! runs and touches no memory. It is a number of steps and not a time: a worker that is put aside by the
//! system meanwhile has not done it.
//!
//! Not here: who does the work (`groups/pool/`).

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

/// Works for a microsecond.
#[inline]
pub(crate) fn one_microsecond(seed: u64) -> u64 {
    static STEPS: OnceLock<u64> = OnceLock::new();
    chain(seed, *STEPS.get_or_init(steps_per_microsecond))
}

fn chain(seed: u64, steps: u64) -> u64 {
    (0..steps).fold(seed, |x, step| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step))
}

/// Of several tries the fastest counts: whatever disturbs one makes it longer.
fn steps_per_microsecond() -> u64 {
    const STEPS: u64 = 100_000;
    let ns = (0..50).map(|seed| {
        let start = Instant::now();
        black_box(chain(black_box(seed), STEPS));
        start.elapsed().as_nanos() as u64
    });
    STEPS * 1000 / ns.min().unwrap_or(0).max(1)
}
