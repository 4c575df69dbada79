//! Sleeping until a ring has something or has room: event words that processes share.
//!
//! ```text
//! waiter                                   notifier, after its push or pop
//! 1 waiters + 1     (both are changes of   1 waiters + 0   one word, so one comes first)
//! 2 key = event                            2 if there are any: event + 1, wake
//! 3 look again: something there? done
//! 4 sleep while event = key
//! 5 waiters - 1
//! ```
//!
//! If the waiter's change comes first, the notifier sees it and wakes. If the notifier's comes first, the waiter
//! sees what it published. The change by nothing in the notifier's first step is that comparison of who was first;
//! a plain load would let both miss each other.
//!
//! A peer killed with a wake-up in its hand cannot pass it on, so nobody sleeps longer than [`NAP_MAX`] at a time.
//! A peer killed asleep leaves the count too high, which costs system calls until a sweep finds that nobody
//! attached is waiting and clears it.
//!
//! All lanes share the item words of lane 0: a worker serves every lane and can sleep on one word only.
//!
//! Not here: the system call (`futex.rs`).

use super::layout::{v2_control as control, v2_record as record};
use super::v2_region::Shared;
use super::v2_ring::Ring;
use crate::edge::Edge;
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use core::time::Duration;

/// From the notifier to a waiter that comes after it: what was published.
static WPOL2_WAITER: Edge = Edge::new("WPOL2_WAITER");
/// From a notifier to a waiter that sees the event word already moved: what was published.
static WPOL2_EVENT: Edge = Edge::new("WPOL2_EVENT");

/// The longest anybody sleeps without looking.
pub const NAP_MAX: Duration = Duration::from_millis(100);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Items,
    Space,
}

impl Shared {
    /// (event, waiters) of one side of a ring.
    fn wait_words(&self, ring: &Ring, side: Side) -> (&AtomicU32, &AtomicU32) {
        let (event, waiters) = match side {
            Side::Items => (control::ITEMS_EVENT, control::ITEMS_WAITERS),
            Side::Space => (control::SPACE_EVENT, control::SPACE_WAITERS),
        };
        (self.memory.u32_at(ring.control() + event), self.memory.u32_at(ring.control() + waiters))
    }

    /// Tells waiters that `count` more are there.
    pub(super) fn notify(&self, ring: &Ring, side: Side, count: u32) {
        let (event, waiters) = self.wait_words(ring, side);
        // WPOL2_WAITER, notifier's end: what was published travels to whoever comes to wait later. A change
        // by nothing, because only changes have an order.
        let waiting = waiters.fetch_add(0, WPOL2_WAITER.release());
        if waiting > 0 {
            // WPOL2_EVENT, notifier's end: a waiter that reads the new event sees what was published.
            event.fetch_add(1, WPOL2_EVENT.release());
            wake(event, count.min(waiting));
        }
    }

    /// Tells everybody who sleeps on this ring to look again.
    pub(super) fn notify_all(&self, ring: &Ring) {
        for side in [Side::Items, Side::Space] {
            let (event, _) = self.wait_words(ring, side);
            event.fetch_add(1, WPOL2_EVENT.release());
            wake(event, self.sleepers_max());
        }
    }

    /// Wakes whoever sleeps on a slot's completion word.
    pub(super) fn wake_completion(&self, base: usize) {
        wake(self.completion(base), self.sleepers_max());
    }

    /// Everybody: nobody sleeps but a peer, and each on one word.
    fn sleepers_max(&self) -> u32 {
        self.geometry.config.attach_records
    }

    /// Clears waiter counts that only the dead can have left: no live peer says that it waits. For the reaper.
    pub(super) fn forget_dead_waiters(&self) {
        for ring in self.geometry.rings() {
            for side in [Side::Items, Side::Space] {
                let (_, waiters) = self.wait_words(ring, side);
                // Read before the records are: a peer that starts to wait later changes the count. One that
                // takes the place of another unseen sleeps one nap too long, at worst.
                let seen = waiters.load(Relaxed);
                if seen != 0 && !self.anybody_waits() {
                    let _ = waiters.compare_exchange(seen, 0, Relaxed, Relaxed);
                }
            }
        }
    }

    fn anybody_waits(&self) -> bool {
        (0..self.geometry.config.attach_records)
            .filter_map(|index| self.geometry.record(index))
            .any(|base| self.memory.u32_at(base + record::WAITING).load(Relaxed) != 0)
    }
}

#[cfg(any(feature = "std", loom, shuttle))]
fn wake(word: &AtomicU32, count: u32) {
    crate::futex::wake(word, count, crate::futex::Scope::Shared);
}

/// Without an operating system nobody of ours sleeps; a host may watch the words itself.
#[cfg(not(any(feature = "std", loom, shuttle)))]
fn wake(_word: &AtomicU32, _count: u32) {}

#[cfg(any(feature = "std", loom, shuttle))]
mod sleep {
    use super::{NAP_MAX, Relaxed, Ring, Shared, Side, WPOL2_EVENT, WPOL2_WAITER, record};
    use crate::edge::left_out;
    use crate::futex::{self, Scope};
    use crate::sync::AtomicU32;
    use crate::wpol::v2_slots::{WAITED, WPOL2_COMPLETION};
    use core::time::Duration;

    impl Shared {
        /// Sleeps until `ready` may have become true, at most `timeout` or a nap. `me` is the attach index.
        pub(in crate::wpol) fn nap(
            &self,
            me: u32,
            ring: &Ring,
            side: Side,
            timeout: Duration,
            ready: impl Fn() -> bool,
        ) -> bool {
            if ready() {
                return true;
            }
            let record = self.geometry.record(me).map(|base| self.memory.u32_at(base + record::WAITING));
            let (event, waiters) = self.wait_words(ring, side);
            if let Some(record) = record {
                record.store(1, Relaxed);
            }
            // WPOL2_WAITER, waiter's end: if a notifier was first, what it published is seen by the look below.
            waiters.fetch_add(1, WPOL2_WAITER.acquire());
            // WPOL2_EVENT, waiter's end: if the event has moved already, so has what it tells of.
            let key = event.load(WPOL2_EVENT.acquire());
            if left_out("WPOL2_LOOK_AGAIN") || !ready() {
                futex::wait(event, key, Some(timeout.min(NAP_MAX)), Scope::Shared);
            }
            leave(waiters);
            if let Some(record) = record {
                record.store(0, Relaxed);
            }
            ready()
        }

        /// Sleeps until the task may have come to its end, at most `timeout` or a nap.
        pub(in crate::wpol) fn nap_for_completion(
            &self,
            base: usize,
            timeout: Duration,
            finished: impl Fn() -> bool,
        ) -> bool {
            if finished() {
                return true;
            }
            let word = self.completion(base);
            // WPOL2_COMPLETION, waiter's end: if the finisher was first, its final state is seen by the look.
            let seen = word.fetch_or(WAITED, WPOL2_COMPLETION.acquire()) | WAITED;
            if !finished() {
                futex::wait(word, seen, Some(timeout.min(NAP_MAX)), Scope::Shared);
            }
            finished()
        }
    }

    /// One waiter less, but never below none: a sweep may have cleared the count meanwhile. A count left too high
    /// after many lost rounds is what a sweep repairs.
    fn leave(waiters: &AtomicU32) {
        let mut seen = waiters.load(Relaxed);
        for _ in 0..1_000 {
            if seen == 0 {
                return;
            }
            match waiters.compare_exchange(seen, seen - 1, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(newer) => seen = newer,
            }
        }
    }
}
