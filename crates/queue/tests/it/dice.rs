//! Where random tests get their numbers: from a seed that is printed and can be given back.
//!
//! `MILLPOND_SEED=<seed> cargo test …` repeats the choices of an earlier run, though not its timing.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of random numbers, one per thread.
pub(crate) struct Dice(u64);

/// The seed of this run for the test called `name`, printed so that a failure shows it.
pub(crate) fn seed(name: &str) -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let given = env::var("MILLPOND_SEED").ok();
    let seed = given.map_or_else(fresh, |text| text.parse().expect("MILLPOND_SEED: expected a whole number"));
    println!("{name}: MILLPOND_SEED={seed}");
    seed
}

impl Dice {
    /// The dice of one thread of a test.
    pub(crate) fn new(seed: u64, thread: usize) -> Self {
        Self(seed ^ (thread as u64 + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// A number from 0 to one less than `sides`.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }
}
