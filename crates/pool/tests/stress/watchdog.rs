//! Ends the process when nothing moves any more, so that a lost wake-up fails and does not hang.
//!
//! Every task and every refusal is a step. A run of half a minute without one is not slowness.

use millpond::PoolHandle;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const GLANCES: Duration = Duration::from_millis(500);

static STEPS: AtomicU64 = AtomicU64::new(0);
static WATCHED: Mutex<Option<(String, PoolHandle)>> = Mutex::new(None);

/// Something moved.
pub(crate) fn step() {
    STEPS.fetch_add(1, Relaxed);
}

/// What is under way, and the pool to be shown if it does not go on. `None` ends the watch.
pub(crate) fn watch(round: Option<(String, PoolHandle)>) {
    step();
    *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = round;
}

/// Starts the thread that watches, for the rest of the process.
pub(crate) fn start() {
    thread::spawn(|| {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            thread::sleep(GLANCES);
            let steps = STEPS.load(Relaxed);
            let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
            if steps != seen || watched.is_none() {
                (seen, since) = (steps, Instant::now());
            } else if let Some((round, pool)) = &*watched
                && since.elapsed() > PATIENCE
            {
                eprintln!("nothing moved for {} s in {round}\n{:#?}", PATIENCE.as_secs(), pool.metrics());
                std::process::abort();
            }
        }
    });
}
