//! Many tasks at once: submitted, taken and ended in pieces.
//!
//! Every task takes the same steps as it would alone, and in the same order. What a piece saves lies around them: slots
//! come out of the free ring with one move of its hint and go back with another, sleepers are told once, and the lines
//! of all slots of a piece are asked for together, so that they come from the other processor at one time and not one
//! after the other. A piece is no more than 32 tasks, so that a killed peer holds few slots.
//!
//! A slot made free is listed at the end of its piece. If its peer is killed before, the slot is free and listed
//! nowhere, which is what sweeps look for anyway.
//!
//! Not here: one task alone (`v2_peer.rs`, `v2_task.rs`), how indices travel in a batch (`v2_ring.rs`).

use super::error::{StartError, SubmitError};
use super::v2_peer::{Peer, Submission};
use super::v2_region::Shared;
use super::v2_ring::{Ring, RingError};
use super::v2_slots::{State, WPOL2_QUEUE, Word};
use super::v2_task::Running;
use super::v2_ticket::Ticket;
use super::v2_wait::Side;
use crate::edge::left_out;
use alloc::vec::Vec;

/// A batch is worked off in pieces of this size.
const PIECE: usize = 32;

impl Peer {
    /// Puts many tasks in, in order, until something is refused. Says how many went in, which are the first so many,
    /// and adds their tickets in the same order; refuses only if none went in.
    pub fn submit_batch(
        &self,
        submissions: &[Submission<'_>],
        tickets: &mut Vec<Ticket>,
    ) -> Result<usize, SubmitError> {
        self.submit_pieces(submissions, |submission| submission, |ticket| tickets.push(ticket))
    }

    /// As `submit_batch`, for messages: all are detached, whatever they say, and there are no tickets.
    pub fn send_batch(&self, submissions: &[Submission<'_>]) -> Result<usize, SubmitError> {
        self.submit_pieces(submissions, |submission| Submission { detached: true, ..submission }, drop)
    }

    fn submit_pieces<'s>(
        &self,
        submissions: &[Submission<'s>],
        adjust: impl Fn(Submission<'s>) -> Submission<'s>,
        mut put: impl FnMut(Ticket),
    ) -> Result<usize, SubmitError> {
        let mut done = 0;
        for run in submissions.chunk_by(|one, next| one.lane == next.lane) {
            for piece in run.chunks(PIECE) {
                match self.submit_piece(piece, &adjust, &mut put) {
                    Ok(count) if count == piece.len() => done += count,
                    Ok(count) => return Ok(done + count),
                    Err(refusal) if done == 0 => return Err(refusal),
                    Err(_) => return Ok(done),
                }
            }
        }
        Ok(done)
    }

    /// At most `PIECE` tasks of one lane.
    fn submit_piece<'s>(
        &self,
        piece: &[Submission<'s>],
        adjust: impl Fn(Submission<'s>) -> Submission<'s>,
        mut put: impl FnMut(Ticket),
    ) -> Result<usize, SubmitError> {
        let shared = &*self.shared;
        let Some(first) = piece.first() else { return Ok(0) };
        let lane = shared.check(first)?;
        let refused = piece.iter().position(|submission| shared.check(submission).is_err());
        let piece = &piece[..refused.unwrap_or(piece.len())];
        let mut taken = [Taken::default(); PIECE];
        let taken = &mut taken[..piece.len()];
        let (count, refusal) = shared.allocate_piece(self.owner(), taken);
        let taken = &taken[..count];
        for (slot, submission) in taken.iter().zip(piece) {
            shared.fill(slot.base, &adjust(*submission), self.owner());
        }
        let (done, stopped) = shared.announce_piece(&lane, taken);
        taken[..done].iter().for_each(|slot| put(slot.ticket()));
        if done > 0 {
            shared.notify(&shared.geometry.first_lane(), Side::Items, done as u32);
        }
        match stopped.or(refusal) {
            Some(refusal) if done == 0 => Err(refusal),
            _ => Ok(done),
        }
    }

    /// Takes up to `count` tasks of one lane to run, but no more than 32 at a time, and says how many.
    pub fn start_batch<'p>(
        &'p self,
        now: u64,
        count: usize,
        tasks: &mut Vec<Running<'p>>,
    ) -> Result<usize, StartError> {
        if count == 0 {
            return Ok(0);
        }
        let before = tasks.len();
        self.start_some(now, &mut [0; PIECE][..count.min(PIECE)], |running| tasks.push(running))?;
        Ok(tasks.len() - before)
    }

    /// Ends many tasks, each with status 0 and no result, as `finish` would one by one; the slots of those that
    /// nobody waits for go back together. One that was given away meanwhile is left alone.
    pub fn finish_batch<'p>(&'p self, tasks: impl IntoIterator<Item = Running<'p>>) {
        let mut freed = Freed::of(&self.shared);
        for running in tasks {
            freed.finish(self, running);
        }
    }

    /// Takes up to `count` tasks of one lane, but no more than 32 at a time, and ends each as soon as `read` has
    /// seen it, with status 0 and no result: for messages, which are over once they are read. Says how many.
    ///
    /// If `read` panics, that one fails, and those it has not seen stay queued.
    pub fn receive_batch(
        &self,
        now: u64,
        count: usize,
        mut read: impl FnMut(&Running<'_>),
    ) -> Result<usize, StartError> {
        if count == 0 {
            return Ok(0);
        }
        let mut received = 0;
        let mut freed = Freed::of(&self.shared);
        self.start_some(now, &mut [0; PIECE][..count.min(PIECE)], |running| {
            read(&running);
            freed.finish(self, running);
            received += 1;
        })?;
        Ok(received)
    }
}

/// A slot on its way from FREE to QUEUED.
#[derive(Clone, Copy, Default)]
struct Taken {
    index: u32,
    base: usize,
    word: Word,
}

impl Taken {
    fn queued(&self) -> Word {
        self.word.becomes(State::Queued, 0)
    }

    fn ticket(&self) -> Ticket {
        Ticket { slot: self.index, generation: self.word.generation }
    }
}

/// Slots made free and not yet listed as such; listed when dropped, or when there are too many.
struct Freed<'s> {
    shared: &'s Shared,
    indices: [u32; PIECE],
    len: usize,
}

impl<'s> Freed<'s> {
    fn of(shared: &'s Shared) -> Self {
        Self { shared, indices: [0; PIECE], len: 0 }
    }

    /// Ends a task of the peer, whose region these slots are of.
    fn finish(&mut self, peer: &Peer, running: Running<'_>) {
        if !running.is_of(peer) {
            // Another peer's, perhaps of another region. Given away or not, nothing is left to do about it.
            let _ = running.finish(0, &[]);
            return;
        }
        let index = running.slot();
        if running.finish_unlisted() {
            self.indices[self.len] = index;
            self.len += 1;
        }
        if self.len == PIECE {
            self.list();
        }
    }

    fn list(&mut self) {
        self.shared.list_free_batch(&self.indices[..self.len]);
        self.len = 0;
    }
}

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.list();
    }
}

impl Shared {
    /// Free slots, taken, until something is refused: how many, and what that was.
    fn allocate_piece(&self, me: u16, taken: &mut [Taken]) -> (usize, Option<SubmitError>) {
        let ring = self.geometry.free_ring();
        let mut retry = ring.retry_over_stale(taken.len());
        let mut indices = [0; PIECE];
        let mut done = 0;
        while done < taken.len() {
            let wanted = &mut indices[..taken.len() - done];
            let count = match ring.pop_batch(&self.memory, wanted, &mut retry) {
                Ok(count) => count,
                Err(RingError::Corrupt) => return (done, Some(self.broken(SubmitError::Poisoned))),
                Err(RingError::Contended) => return (done, Some(SubmitError::Contended)),
                Err(_) => return (done, Some(SubmitError::NoSlot)),
            };
            indices[..count].iter().for_each(|index| self.expect_slot(*index, 1));
            for index in &indices[..count] {
                let Some(base) = self.geometry.slot(*index) else {
                    return (done, Some(self.broken(SubmitError::Poisoned)));
                };
                if let Some(word) = self.take_free(base, me) {
                    taken[done] = Taken { index: *index, base, word };
                    done += 1;
                }
            }
            if !self.is_sound() {
                return (done, Some(SubmitError::Poisoned));
            }
        }
        (done, None)
    }

    /// Queues filled slots and pushes their indices, and gives back those that are refused: how many are out, and what
    /// stopped the others.
    fn announce_piece(&self, lane: &Ring, taken: &[Taken]) -> (usize, Option<SubmitError>) {
        // Each becomes QUEUED right before its push. So at most one is queued and unlisted when the lane is full,
        // and no later one can be found by a sweep and run while an earlier one is refused.
        let mut queued = 0;
        if left_out("WPOL2_QUEUE_ONE_BY_ONE") {
            queued = taken.len();
            for slot in taken {
                self.change(slot.base, slot.word, slot.queued(), &WPOL2_QUEUE);
            }
        }
        let (pushed, stopped) = lane.push_batch(&self.memory, taken.len(), |at| {
            let slot = &taken[at];
            if at == queued {
                // WPOL2_QUEUE, submitter's end, as in `submit`.
                self.change(slot.base, slot.word, slot.queued(), &WPOL2_QUEUE).then_some(())?;
                queued += 1;
            }
            Some(slot.index)
        });
        let mut done = pushed;
        for (at, slot) in taken.iter().enumerate().skip(pushed) {
            let last = if at < queued { slot.queued() } else { slot.word };
            let is_back = self.give_free(slot.index, slot.base, last);
            // A queued one that cannot be taken back was announced by a sweep meanwhile: it is out.
            done += usize::from(at < queued && !is_back);
        }
        (done, stopped.map(|why| self.refusal(why)))
    }
}
