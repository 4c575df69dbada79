//! Random choices that can be made again: a seed is printed, and `MILLPOND_SEED` brings it back.
//!
//! Also numbers from the environment, by which a test is made longer.

use std::env;
use std::hash::{BuildHasher, RandomState};

/// A whole number from the environment.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a whole number")))
}

/// The seed of this run, printed.
pub(crate) fn seed() -> u64 {
    let seed = number("MILLPOND_SEED", RandomState::new().hash_one(0_u8));
    println!("MILLPOND_SEED={seed}");
    seed
}

/// SplitMix64: small, and good enough to choose moments.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
