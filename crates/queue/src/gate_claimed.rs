//! `Claimed`: a value that is somebody's and still lies in its slot.
//!
//! Whoever takes a large value where it uses it spares the copies on the way there. The slot is given back by taking
//! the value, by leaving it, or by letting go of the claim. Until then whoever comes to that slot waits for it, also
//! those who `try`: a claim is to be held for a moment, and one that is forgotten holds them up for ever.
//!
//! Not here: how a value is claimed (`gate.rs`).

use crate::gate::Gate;
use crate::gate_refusal::NoValue;
use crate::slots::drop_all;
use core::fmt;
use core::mem::ManuallyDrop;

/// A value that is the caller's, still in its slot. Dropping it takes the value and drops it.
#[must_use = "a value that is claimed and not taken is dropped"]
pub struct Claimed<'a, T> {
    gate: &'a Gate<T>,
    /// The head's word when the value was claimed.
    word: u64,
}

impl<'a, T> Claimed<'a, T> {
    pub(crate) fn new(gate: &'a Gate<T>, word: u64) -> Self {
        Self { gate, word }
    }
}

impl<T> Claimed<'_, T> {
    /// The value.
    #[inline(always)]
    pub fn take(self) -> T {
        // SAFETY: the slot was claimed with this word, and its value is moved out once: the claim is used up below.
        let value = unsafe { self.gate.read(self.word) };
        self.leave();
        value
    }

    /// Where the value lies: for one that need not be moved as a whole, or is known by its first words only. It is the
    /// caller's until the claim ends. Once it was moved out, [`leave`](Self::leave) is all that may follow: taking the
    /// claim or dropping it uses the value again, also when a panic drops it.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        self.gate.value(self.word)
    }

    /// Gives the slot back, and forgets a value that was not moved out by way of [`as_ptr`](Self::as_ptr).
    #[inline(always)]
    pub fn leave(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the slot was claimed with this word, and as the claim is forgotten, this is the one call.
        unsafe { this.gate.leave(this.word) };
    }
}

impl<T> Gate<T> {
    /// As [`try_claim`](Self::try_claim), and claims up to `more` of the values right after it with the same step, as
    /// far as they are there. Those are handed to `other`, oldest first.
    #[inline(always)]
    pub fn try_claim_some<'a>(
        &'a self,
        more: usize,
        mut other: impl FnMut(Claimed<'a, T>),
    ) -> Result<Claimed<'a, T>, NoValue> {
        let Some((first, end)) = self.claim_some_at_once(more) else { return self.try_claim() };
        let first_claimed = Claimed::new(self, first);
        let mut others = Others { gate: self, next: self.receive(first), end };
        while let Some(claimed) = others.next() {
            other(claimed);
        }
        Ok(first_claimed)
    }
}

/// Values that are claimed and not handed out yet. Should whoever is handed them panic, the rest are dropped.
struct Others<'a, T> {
    gate: &'a Gate<T>,
    next: u64,
    end: u64,
}

impl<'a, T> Others<'a, T> {
    #[inline(always)]
    fn next(&mut self) -> Option<Claimed<'a, T>> {
        let position = self.next;
        if position == self.end {
            return None;
        }
        self.next = self.gate.receive(position);
        Some(Claimed::new(self.gate, position))
    }
}

impl<T> Drop for Others<'_, T> {
    fn drop(&mut self) {
        drop_all(|| self.next().map(Claimed::take));
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        drop(Claimed::new(self.gate, self.word).take());
    }
}

impl<T> fmt::Debug for Claimed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed").finish_non_exhaustive()
    }
}
