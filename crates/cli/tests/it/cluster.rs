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
