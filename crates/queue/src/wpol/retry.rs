//! How often a caller may lose before it is told so, and how long it steps back between two attempts.
//!
//! Every loop over shared words is counted. Honest peers never exhaust the count: each lost round means that some
//! other call succeeded. A hostile or broken peer can, and then the caller gets an answer instead of a hang.

use crate::sync::{spin_loop, yield_now};

/// A count of attempts that only goes down.
#[derive(Debug)]
pub(super) struct Retry {
    left: u32,
    lost: u32,
}

/// Rounds of spinning before the thread offers its processor to others: 1 + 2 + ... + 32 pauses.
const SPIN_ROUNDS: u32 = 6;

impl Retry {
    /// Twice around a ring of `capacity` places, plus some for small ones.
    pub(super) fn around(capacity: u32) -> Self {
        Self { left: capacity.saturating_mul(2).saturating_add(64), lost: 0 }
    }

    /// Whether one more attempt is allowed. Does not wait: for rounds that made headway.
    #[inline]
    pub(super) fn again(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Steps back after a lost race, longer each time.
    #[inline]
    pub(super) fn step_back(&mut self) {
        if self.lost < SPIN_ROUNDS {
            for _ in 0..1_u32 << if cfg!(any(loom, shuttle)) { 0 } else { self.lost } {
                spin_loop();
            }
            self.lost += 1;
        } else {
            yield_now();
        }
    }
}
