//! Where the random numbers come from: a seed that is printed and can be given back.
//!
//! `MILLPOND_SEED=<seed>` repeats the choices of an earlier run, though not its timing.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of random numbers, one for each thread and each task that needs some.
pub(crate) struct Dice(u64);

/// The seed of this run, printed so that a failure shows it.
pub(crate) fn seed() -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    let given = env::var("MILLPOND_SEED").ok();
    let seed = given.map_or_else(fresh, |text| text.parse().expect("MILLPOND_SEED: expected a whole number"));
    println!("MILLPOND_SEED={seed}");
    seed
}

impl Dice {
    /// The dice of one of many, all from one seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(seed ^ (number + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    /// A number from 0 to one less than `sides`.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// True once in so many.
    pub(crate) fn once_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
