//! A task while it runs: reading its payload, and ending it exactly once.
//!
//! The result goes behind the payload and not over it. A worker killed while it writes its result leaves the
//! payload whole, so the task can be run again. What ends the task is the one CAS from RUNNING: if it fails, a
//! reaper took this worker for dead and gave the task away, and the result is dropped.
//!
//! Not here: how a task is found (`v2_peer.rs`), how its result is fetched (`v2_ticket.rs`).

use super::error::FinishError;
use super::layout::v2_slot as slot;
use super::v2_peer::Peer;
use super::v2_region::Shared;
use super::v2_slots::{State, WPOL2_FINISH, Word, submitter_of};
use crate::sync::Ordering::Relaxed;
use alloc::vec::Vec;

/// A task this peer runs. Dropped without `finish` it ends as failed.
#[derive(Debug)]
#[must_use = "a task dropped without `finish` fails"]
pub struct Running<'p> {
    peer: &'p Peer,
    index: u32,
    base: usize,
    word: Word,
}

impl<'p> Running<'p> {
    pub(super) fn new(peer: &'p Peer, index: u32, base: usize, word: Word) -> Self {
        Self { peer, index, base, word }
    }

    /// Index of the slot; with the task's generation it is what the ticket says.
    pub fn slot(&self) -> u32 {
        self.index
    }

    /// Task id.
    pub fn task(&self) -> u64 {
        self.double(slot::TASK)
    }

    /// Method id, to be looked up in a table of the worker's own.
    pub fn method(&self) -> u32 {
        self.half(slot::METHOD)
    }

    /// Priority, as submitted.
    pub fn priority(&self) -> u32 {
        self.half(slot::PRIORITY)
    }

    /// When it was submitted, on the submitter's clock.
    pub fn enqueued(&self) -> u64 {
        self.double(slot::ENQUEUED)
    }

    /// Latest start, 0 for none.
    pub fn deadline(&self) -> u64 {
        self.double(slot::DEADLINE)
    }

    /// What the submitter attached, 0 for nothing. Not checked: it means what the two sides say it means.
    pub fn attachment(&self) -> u64 {
        self.double(slot::ATTACHMENT)
    }

    /// Workers that died running it before.
    pub fn attempts(&self) -> u8 {
        self.word.attempts
    }

    /// A copy of the payload. A hostile submitter may change the original at any time, but not the copy.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        self.payload_into(&mut payload);
        payload
    }

    /// As `payload`, into a buffer that is used again and again.
    pub fn payload_into(&self, buffer: &mut Vec<u8>) {
        let shared = &*self.peer.shared;
        buffer.clear();
        buffer.resize(shared.payload_bytes(self.base), 0);
        shared.memory.copy_out(self.base + slot::BYTES, buffer);
    }

    /// Where payload and result lie, in bytes from the region's start: for sides that agree on what is there and write
    /// it in place.
    pub fn payload_at(&self) -> usize {
        self.base + slot::BYTES
    }

    /// The longest result that fits behind the payload.
    pub fn result_bytes_max(&self) -> usize {
        let shared = &*self.peer.shared;
        shared.geometry.payload_bytes_max() - shared.result_start(self.base)
    }

    /// Ends the task with a status and a result.
    ///
    /// # Errors
    /// `TooLong`: the task has failed instead. `GivenAway`: another worker has the task now.
    pub fn finish(self, status: u32, result: &[u8]) -> Result<(), FinishError> {
        let shared = &*self.peer.shared;
        // Read once: a hostile peer may change the payload's length between two looks.
        let start = shared.result_start(self.base);
        let fits = result.len() <= shared.geometry.payload_bytes_max() - start;
        if fits {
            shared.memory.copy_in(self.base + slot::BYTES + start, result);
            // Both are always written: a worker killed in this very place has left its own.
            shared.memory.u32_at(self.base + slot::RESULT_BYTES).store(result.len() as u32, Relaxed);
            shared.memory.u32_at(self.base + slot::STATUS).store(status, Relaxed);
        }
        match (self.end(if fits { State::Done } else { State::Failed }), fits) {
            (true, true) => Ok(()),
            (true, false) => Err(FinishError::TooLong),
            (false, _) => Err(FinishError::GivenAway),
        }
    }

    /// Ends the task without a result.
    ///
    /// # Errors
    /// `GivenAway`, as in `finish`.
    pub fn fail(self) -> Result<(), FinishError> {
        if self.end(State::Failed) { Ok(()) } else { Err(FinishError::GivenAway) }
    }

    /// Ends the task with status 0 and no result. True if that made its slot free, which the caller has to list.
    pub(super) fn finish_unlisted(self) -> bool {
        let shared = &*self.peer.shared;
        let is_alone = submitter_of(shared.completion(self.base).load(Relaxed)) == 0;
        if !is_alone {
            // Given away or not, this peer has nothing left to do about it.
            let _ = self.finish(0, &[]);
            return false;
        }
        let is_free = shared.give_free_unlisted(self.base, self.word);
        core::mem::forget(self);
        is_free
    }

    /// Whether it was started by this very peer.
    pub(super) fn is_of(&self, peer: &Peer) -> bool {
        core::ptr::eq(self.peer, peer)
    }

    /// Takes the task apart, so that a model can carry it to another thread together with its peer.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(super) fn hand_over(self) -> (u32, usize, Word) {
        let parts = (self.index, self.base, self.word);
        core::mem::forget(self);
        parts
    }

    /// Puts a task that was taken apart together again.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(super) fn resume(peer: &'p Peer, (index, base, word): (u32, usize, Word)) -> Self {
        Self::new(peer, index, base, word)
    }

    fn end(self, state: State) -> bool {
        let ended = self.peer.shared.end(self.index, self.base, self.word, state);
        core::mem::forget(self);
        ended
    }

    fn half(&self, field: usize) -> u32 {
        self.peer.shared.memory.u32_at(self.base + field).load(Relaxed)
    }

    fn double(&self, field: usize) -> u64 {
        self.peer.shared.memory.u64_at(self.base + field).load(Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.peer.shared.end(self.index, self.base, self.word, State::Failed);
    }
}

impl Shared {
    /// RUNNING -> a final state, or FREE at once if nobody waits. False if the task was given away.
    pub(super) fn end(&self, index: u32, base: usize, running: Word, state: State) -> bool {
        if submitter_of(self.completion(base).load(Relaxed)) == 0 {
            return self.give_free(index, base, running);
        }
        let last = running.becomes(state, 0);
        // WPOL2_FINISH, finisher's end: the result travels with the state.
        let ended = self.change(base, running, last, &WPOL2_FINISH);
        if ended {
            self.complete(index, base, last);
        }
        ended
    }

    /// The payload's length, cut to what a slot holds: it comes from shared memory.
    pub(super) fn payload_bytes(&self, base: usize) -> usize {
        let bytes = self.memory.u32_at(base + slot::PAYLOAD_BYTES).load(Relaxed) as usize;
        bytes.min(self.geometry.payload_bytes_max())
    }

    /// Where the result starts, from the payload's start: inside the slot, whatever the length says.
    pub(super) fn result_start(&self, base: usize) -> usize {
        // The payload area is a multiple of 64 long, so rounding up cannot leave it.
        self.payload_bytes(base).next_multiple_of(8)
    }
}
