//! How long a thread looks for what it waits for before it sleeps.
//!
//! To sleep and to be woken takes tens of microseconds, many times what a small task takes. So it looks for a while,
//! and offers its processor to others now and then: whoever is to bring the result may be waiting for it.
//!
//! Not here: workers that wait for work (`worker/park.rs`).

use crate::sleep;
use std::time::{Duration, Instant};

/// So often a thread looks before it offers its processor to others, with a pause of the processor between.
const LOOKS_PER_YIELD: u32 = 64;
/// The first time so often.
const LOOKS_AT_FIRST: u32 = 16;
/// The first time after this thread has woken a worker: that one often waits for this very processor.
const LOOKS_AFTER_CALL: u32 = 1;

/// Looks for so long; `false` if it is not there then. One who does not spin looks for a moment.
pub(crate) fn comes_soon(spin: Duration, is_there: impl Fn() -> bool) -> bool {
    // To a checker a look more is nothing new.
    if cfg!(any(loom, shuttle)) {
        return is_there();
    }
    let started = Instant::now();
    let mut looks = match sleep::has_called() {
        // As often before it sleeps as others between two offers.
        _ if spin.is_zero() => LOOKS_PER_YIELD,
        true => LOOKS_AFTER_CALL,
        false => LOOKS_AT_FIRST,
    };
    loop {
        for _ in 0..looks {
            if is_there() {
                return true;
            }
            crate::sync::spin_loop();
        }
        if started.elapsed() >= spin {
            return is_there();
        }
        crate::sync::yield_now();
        looks = LOOKS_PER_YIELD;
    }
}
