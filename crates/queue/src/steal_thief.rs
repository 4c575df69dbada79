//! The thieves' side of a `StealQueue`: claim the oldest items, copy them, leave.
//!
//! A thief looks at the claim word and the count of pushes, and takes items by swapping the word. Only then does it
//! follow the pointer to the buffer: from the swap on its claim is counted, and the owner neither reuses the cells nor
//! frees the buffer before the thief has added what it copied.
//!
//! Not here: the words and what they mean (`steal.rs`), the cells (`steal_buffer.rs`).

use crate::edge::left_out;
use crate::steal::{
    GENERATION, STEAL_CLAIM, STEAL_PUBLISH, Shared, StealQueue, TOP_MASK, available, claim_more, distance,
    top,
};
use crate::steal_buffer::Buffer;
use crate::sync::Ordering::Relaxed;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};

/// The most items one claim takes, so that a thief is soon done copying.
const STEAL_MAX: u32 = 256;

/// What came of an attempt to steal.
#[must_use = "a success holds an item"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal<T> {
    /// There was nothing to take, or no room for it in the thief's own queue.
    Empty,
    /// Somebody else was faster; there may be more.
    Retry,
    /// This was taken.
    Success(T),
}

impl<T> Steal<T> {
    /// What was taken, if anything.
    pub fn success(self) -> Option<T> {
        match self {
            Self::Success(value) => Some(value),
            Self::Empty | Self::Retry => None,
        }
    }
}

/// A thief's handle: cheap to clone, usable from any thread.
pub struct Stealer<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Stealer<T> {
    pub(crate) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
    }

    /// Takes the oldest item.
    #[inline]
    pub fn steal(&self) -> Steal<T> {
        match self.claim(|_| 1) {
            Steal::Empty => Steal::Empty,
            Steal::Retry => Steal::Retry,
            Steal::Success(spoils) => {
                // SAFETY: one item was claimed, and it is taken here, once.
                let item = unsafe { spoils.first() };
                spoils.leave();
                Steal::Success(item)
            }
        }
    }

    /// Moves the older half of the items, at most 256 and as far as `into` may grow, to the end of `into`, and
    /// says how many. One item is a half of one. Into its own queue nothing is moved.
    pub fn steal_half(&self, into: &StealQueue<T>) -> Steal<usize> {
        if Arc::ptr_eq(&self.shared, &into.shared) {
            return Steal::Empty;
        }
        // Place is made before anything is claimed.
        let room_for = |wanted: u32| into.reserve(wanted.min(STEAL_MAX) as usize) as u32;
        let spoils = match self.claim(|available| room_for(available - available / 2)) {
            Steal::Success(spoils) => spoils,
            Steal::Empty => return Steal::Empty,
            Steal::Retry => return Steal::Retry,
        };
        let count = spoils.count;
        spoils.move_to(into, 0);
        Steal::Success(count as usize)
    }

    /// As [`steal_half`](Self::steal_half), with one more item: the oldest is handed to the caller to run. From its own
    /// queue it takes one.
    pub fn steal_batch_and_pop(&self, into: &StealQueue<T>) -> Steal<T> {
        self.steal_share_and_pop(into, |available| available - available / 2)
    }

    /// As [`steal_batch_and_pop`](Self::steal_batch_and_pop), but of `most` items at most instead of half.
    pub fn steal_some_and_pop(&self, into: &StealQueue<T>, most: u32) -> Steal<T> {
        self.steal_share_and_pop(into, |available| available.min(most.max(1)))
    }

    fn steal_share_and_pop(&self, into: &StealQueue<T>, share: impl FnOnce(u32) -> u32) -> Steal<T> {
        if Arc::ptr_eq(&self.shared, &into.shared) {
            return self.steal();
        }
        let room_for = |wanted: u32| into.reserve(wanted.min(STEAL_MAX) as usize) as u32;
        let spoils = match self.claim(|available| 1 + room_for(share(available) - 1)) {
            Steal::Success(spoils) => spoils,
            Steal::Empty => return Steal::Empty,
            Steal::Retry => return Steal::Retry,
        };
        // SAFETY: it is taken here, once: `move_to` starts behind it.
        let item = unsafe { spoils.first() };
        spoils.move_to(into, 1);
        Steal::Success(item)
    }

    /// How many items wait. It may be stale.
    pub fn len(&self) -> usize {
        let claim = self.shared.claim.load(STEAL_CLAIM.acquire());
        available(claim, self.shared.bottom.pushes.load(Relaxed)) as usize
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Claims as many of the oldest items as `want` says, given how many there are.
    #[inline(always)]
    fn claim(&self, want: impl FnOnce(u32) -> u32) -> Steal<Spoils<'_, T>> {
        // STEAL_CLAIM, thief's end (Acquire): the pushes and the buffer this word speaks of are seen below.
        let claim = self.shared.claim.load(STEAL_CLAIM.acquire());
        // STEAL_PUBLISH, thief's end (Acquire): the items counted are whole.
        let pushes = self.shared.bottom.pushes.load(STEAL_PUBLISH.acquire());
        // Between the extra pop of a new buffer and its extra push the count is one short: that is no answer.
        if u64::from(pushes & 1) != (claim & GENERATION) >> 31 && !left_out("STEAL_COUNT_OF_ONE_BUFFER") {
            return Steal::Retry;
        }
        if cfg!(any(loom, shuttle)) {
            let bottom = (pushes >> 1).wrapping_sub((claim >> 32) as u32);
            let seen = (bottom.wrapping_sub(top(claim)) << 1) as i32 >= 0;
            assert!(seen, "a claim was seen without the pushes it was made from");
        }
        let available = available(claim, pushes);
        if available == 0 {
            return Steal::Empty;
        }
        let count = want(available);
        if count == 0 {
            return Steal::Empty;
        }
        let buffer = self.shared.bottom.buffers[usize::from(claim & GENERATION != 0)].load(Relaxed);
        let taken = claim_more(claim, count);
        // STEAL_CLAIM, between thieves (Release): the next thief sees at least the pushes this one saw.
        if self.shared.claim.compare_exchange(claim, taken, STEAL_CLAIM.release(), Relaxed).is_err() {
            return Steal::Retry;
        }
        Steal::Success(Spoils { buffer, first: top(claim), count, shared: PhantomData })
    }
}

/// Items claimed and not yet copied. The buffer stays until `leave`.
struct Spoils<'a, T> {
    buffer: *const Buffer<T>,
    first: u32,
    count: u32,
    shared: PhantomData<&'a Shared<T>>,
}

impl<T> Spoils<'_, T> {
    /// The oldest of the items.
    ///
    /// # Safety
    /// It is taken once.
    unsafe fn first(&self) -> T {
        // SAFETY: the swap that made the claim succeeded, so the word was still the one that names this buffer,
        // and from that moment on the claim is counted: the owner frees the buffer only after `leave`.
        let buffer = unsafe { &*self.buffer };
        // SAFETY: the claim covers this position, and by the caller's word it is read once.
        unsafe { buffer.read(self.first) }
    }

    /// Moves the items from the `skip`th on to the bottom of `into`, where `reserve` made place, and leaves.
    fn move_to(self, into: &StealQueue<T>, skip: u32) {
        let count = self.count - skip;
        let from = self.first.wrapping_add(skip) & TOP_MASK as u32;
        debug_assert!(distance(into.bottom(), into.room.get()) >= count);
        // SAFETY: as in `first`, the buffer stays until `leave`.
        let buffer = unsafe { &*self.buffer };
        // SAFETY: the claim covers these positions here; in `into` the positions from bottom on are vacant,
        // `reserve` saw to it, and this thread is the owner of `into`, since it holds its handle.
        unsafe { buffer.move_to(from, into.buffer_ref(), into.bottom(), count) };
        self.leave();
        if count > 0 {
            into.publish(count);
        }
    }

    fn leave(self) {
        // SAFETY: the claim is this thread's and not yet given up; `self` is used up, so nothing of the buffer
        // is touched afterwards.
        unsafe { Buffer::add_copied(self.buffer, self.count) };
    }
}

impl<T> Clone for Stealer<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> UnwindSafe for Stealer<T> {}
impl<T> RefUnwindSafe for Stealer<T> {}

impl<T> fmt::Debug for Stealer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stealer").field("len", &self.len()).finish()
    }
}
