//! What a submitter does with its ticket: ask, wait, fetch, cancel, give back.
//!
//! A ticket names a slot and the generation of the task in it. The slot stays the task's until the ticket is
//! released, so the result can be fetched in peace. A ticket whose slot has moved on is told so: `Gone`.
//!
//! Cancelling and starting are the same CAS from QUEUED, so exactly one of them happens. A running task is not
//! stopped: the answer says that it runs.
//!
//! Not here: ending a task (`v2_task.rs`), the submitter's death (`v2_reaper.rs`).

use super::error::TicketError;
use super::layout::v2_slot as slot;
use super::v2_peer::Peer;
use super::v2_region::Shared;
use super::v2_slots::{State, WPOL2_COMPLETION, WPOL2_FINISH, Word, submitter_of};
use crate::sync::Ordering::Relaxed;
use alloc::vec::Vec;

/// The claim on one task's outcome. Neither copied nor cloned: whoever holds it may release the slot.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a ticket keeps its slot until it is released or detached"]
pub struct Ticket {
    /// Index of the slot.
    pub slot: u32,
    /// Generation of the task in it.
    pub generation: u32,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Waits for a worker.
    Queued,
    /// A worker has it.
    Running,
    /// Ended with this status.
    Done {
        /// Whatever the worker passed to `finish`.
        status: u32,
    },
    /// Its worker died, gave up, or had a result that was too long.
    Failed,
    /// Never ran and never will.
    Cancelled,
    /// Was not started before its deadline.
    Expired,
}

/// What became of a wish to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It never ran and never will.
    Cancelled,
    /// Too late: a worker has it.
    Running,
    /// Too late: it is over.
    Over,
}

impl Peer {
    /// How far the task is.
    pub fn poll(&self, ticket: &Ticket) -> Result<Progress, TicketError> {
        let (base, word) = self.shared.find(ticket)?;
        Ok(match word.state {
            State::Queued => Progress::Queued,
            State::Running => Progress::Running,
            State::Done => {
                Progress::Done { status: self.shared.memory.u32_at(base + slot::STATUS).load(Relaxed) }
            }
            State::Failed => Progress::Failed,
            State::Cancelled => Progress::Cancelled,
            State::Expired => Progress::Expired,
            State::Free | State::Alloc => return Err(TicketError::Gone),
        })
    }

    /// A copy of the result of a task that is done; empty for one that ended otherwise.
    pub fn result(&self, ticket: &Ticket) -> Result<Vec<u8>, TicketError> {
        let shared = &*self.shared;
        let (base, word) = shared.find(ticket)?;
        if !word.state.is_final() {
            return Err(TicketError::NotFinal);
        }
        let start = shared.result_start(base);
        let bytes = match word.state {
            State::Done => shared.memory.u32_at(base + slot::RESULT_BYTES).load(Relaxed) as usize,
            _ => 0,
        };
        // Both lengths come from shared memory: together they must not leave the slot.
        let mut result = alloc::vec![0; bytes.min(shared.geometry.payload_bytes_max() - start)];
        shared.memory.copy_out(base + slot::BYTES + start, &mut result);
        Ok(result)
    }

    /// Takes the task out of the queue, unless a worker was faster.
    pub fn cancel(&self, ticket: &Ticket) -> Result<Cancel, TicketError> {
        let shared = &*self.shared;
        // A task that changes under our hands was started, and perhaps queued again: a few looks tell which.
        for _ in 0..4 {
            let (base, word) = shared.find(ticket)?;
            match word.state {
                State::Queued => {
                    let cancelled = word.becomes(State::Cancelled, 0);
                    if shared.change_bare(base, word, cancelled) {
                        shared.complete(ticket.slot, base, cancelled);
                        return Ok(Cancel::Cancelled);
                    }
                }
                State::Running => return Ok(Cancel::Running),
                state if state.is_final() => return Ok(Cancel::Over),
                _ => return Err(TicketError::Gone),
            }
        }
        Ok(Cancel::Running)
    }

    /// Gives the slot back after the task's end.
    ///
    /// # Errors
    /// With the ticket, so that nothing is lost by trying too early.
    pub fn release(&self, ticket: Ticket) -> Result<(), (TicketError, Ticket)> {
        let (base, word) = match self.shared.find(&ticket) {
            Ok(found) => found,
            Err(refusal) => return Err((refusal, ticket)),
        };
        if !word.state.is_final() {
            return Err((TicketError::NotFinal, ticket));
        }
        match self.shared.give_free(ticket.slot, base, word) {
            true => Ok(()),
            false => Err((TicketError::Gone, ticket)),
        }
    }

    /// Gives the ticket up: the task runs, and its slot is freed when it ends. Whoever holds the ticket may do so,
    /// not only the peer that submitted.
    pub fn detach(&self, ticket: Ticket) -> Result<(), TicketError> {
        let base = self.shared.geometry.slot(ticket.slot).ok_or(TicketError::Gone)?;
        // Read before the ticket is checked, so that the name is that of this very task's submitter.
        let named = self.shared.completion(base).load(WPOL2_COMPLETION.acquire());
        self.shared.find(&ticket)?;
        self.shared.forget_submitter(ticket.slot, base, submitter_of(named));
        Ok(())
    }

    /// Sleeps until the task may be over, at most `timeout` and at most [`NAP_MAX`](super::v2::NAP_MAX). May return
    /// early; says whether it is over.
    #[cfg(any(feature = "std", loom, shuttle))]
    pub fn wait(&self, ticket: &Ticket, timeout: core::time::Duration) -> Result<bool, TicketError> {
        let (base, _) = self.shared.find(ticket)?;
        let finished = || self.shared.find(ticket).map_or(true, |(_, word)| word.state.is_final());
        Ok(self.shared.nap_for_completion(base, timeout, finished))
    }
}

impl Shared {
    /// The slot of a ticket, if it still is the ticket's: (offset, state word).
    fn find(&self, ticket: &Ticket) -> Result<(usize, Word), TicketError> {
        if !self.is_sound() {
            return Err(TicketError::Poisoned);
        }
        let base = self.geometry.slot(ticket.slot).ok_or(TicketError::Gone)?;
        // WPOL2_FINISH, poller's end: if the task is over, its result is seen.
        let word = self.look(base, &WPOL2_FINISH).ok_or(TicketError::Poisoned)?;
        let current = word.generation == ticket.generation && word.state != State::Free;
        if current { Ok((base, word)) } else { Err(TicketError::Gone) }
    }
}
