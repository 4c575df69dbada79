//! `Claimed`: a value that is somebody's and still lies in its slot.
//!
//! Whoever takes a large value where it uses it spares the copies on the way there. The slot is given back by the
//! taking, or by letting go of the claim.
//!
//! Not here: how a value is claimed (`gate.rs`).

use crate::gate::Gate;
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
