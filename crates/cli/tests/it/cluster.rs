//! Several daemons share one queue of a real NATS server, and everything that can break between them is broken.
//!
//! Daemons are processes of their own. They are killed, paused, cut off and sent home, the server is killed and started
//! again, all while tasks run. Every execution is written down by the handler itself, with the attempt it was told, and
//! results are read from the server by a client of our own. Then each task must have exactly one final result, and may
//! have run more than once only as an attempt that was given out again.
//!
//! `MILLPOND_CLUSTER_TASKS` says how many tasks there are for each of three daemons (1000 without it),
//! `MILLPOND_CLUSTER_KILLS` how many daemons are killed meanwhile (6), `MILLPOND_SEED` repeats the random choices of an
//! earlier run. All are printed, and a table of what was found.
//!
//! Not here: what one daemon does with one message (`crates/nats`), the commands (`nats.rs`).

mod books;
mod busy;
mod crew;
mod engine;
mod kills;
mod leaving;
mod link;
mod pause;
mod server_gone;
mod wire;

use crew::{Crew, Member};
use engine::Engine;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes so long, unless it never happens.
const SOON: Duration = Duration::from_secs(60);
/// The lease of every queue here.
const LEASE: Duration = Duration::from_secs(2);

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a whole number")))
}

/// SplitMix64: small, and good enough to choose moments.
struct Dice(u64);

impl Dice {
    /// The same choices again if `MILLPOND_SEED` says so.
    fn seeded() -> Self {
        let seed = number("MILLPOND_SEED", RandomState::new().hash_one(0_u8));
        println!("MILLPOND_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
