//! `Claimed`: a value that is somebody's and still lies in its slot.
//!
//! Whoever takes a large value where it uses it spares the copies on the way there. The slot is given back by the
//! taking, or by letting go of the claim.
//!
//! Not here: how a value is claimed (`gate.rs`).

use crate::gate::Gate;
use crate::gate_refusal::NoValue;
use crate::slots::drop_all;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};

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
        let this = ManuallyDrop::new(self);
        this.gate.empty(this.word)
    }

    /// As [`take`](Self::take), and moves the value to where it is wanted, once. What is there is overwritten.
    #[inline(always)]
    pub fn take_into(self, place: &mut MaybeUninit<T>) {
        let this = ManuallyDrop::new(self);
        this.gate.empty_into(this.word, place);
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
        drop(self.gate.empty(self.word));
    }
}

impl<T> fmt::Debug for Claimed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed").finish_non_exhaustive()
    }
}
