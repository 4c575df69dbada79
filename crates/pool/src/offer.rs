//! An offer: work on one thread's stack that another may take, and that the first waits for or takes back.
//!
//! ```text
//!              claim (a taker, or the owner who takes it back)
//!   OFFERED ────────────────────────────────────────────────► CLAIMED ──── finish ────► DONE
//!                                                                │                       ▲
//!                                                                └─► WAITED ── finish ───┘  and a wake-up
//!                                                               owner sleeps
//! ```
//!
//! The work lives in the owner's frame, which the owner does not leave before the offer is DONE or taken back. So
//! only who has won `claim` may touch the frame, and nobody after `finish`. The offer itself is counted and may
//! outlive both: an entry in a queue whose offer was taken back is a stale hint.

use crate::edge::Edge;
use crate::futex::{self, Scope};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The work's bytes travel from the owner to the taker with the queue that carries the offer; the result's bytes
/// travel back with this.
static OFFER_DONE: Edge = Edge::new("OFFER_DONE");

const OFFERED: u32 = 0;
const CLAIMED: u32 = 1;
const WAITED: u32 = 2;
const DONE: u32 = 3;

/// The state of an offer. Shared by owner and taker; who may do what is in the picture above.
#[derive(Debug)]
pub(crate) struct Offer(AtomicU32);

impl Offer {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(OFFERED))
    }

    /// Takes the work, or takes it back. Exactly one caller is told `true`.
    pub(crate) fn claim(&self) -> bool {
        // The work itself came with the queue's edge, or is the caller's own.
        self.0.compare_exchange(OFFERED, CLAIMED, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn is_done(&self) -> bool {
        // OFFER_DONE, owner's end (Acquire).
        self.0.load(OFFER_DONE.acquire()) == DONE
    }

    /// The taker is done, and will not touch the owner's frame again.
    pub(crate) fn finish(&self) {
        // OFFER_DONE, taker's end (Release): the result is whole.
        if self.0.swap(DONE, OFFER_DONE.release()) == WAITED && !crate::edge::left_out("OFFER_FINISH_WAKES") {
            futex::wake(&self.0, 1, Scope::Private);
        }
    }

    /// Sleeps until the taker is done, or for as long as it may; it may return early. Only the owner waits, and only
    /// after its own `claim` failed.
    pub(crate) fn wait(&self, at_most: Option<Duration>) {
        // From here on the taker owes a wake-up. If this fails, the taker is done.
        if self.0.compare_exchange(CLAIMED, WAITED, Relaxed, Relaxed) != Err(DONE) {
            futex::wait(&self.0, WAITED, at_most, Scope::Private);
        }
    }
}
