//! The state of a slot: one word that every change goes through, and the truth that the rings only hint at.
//!
//! ```text
//!  63 ........ 32 31 .. 16 15 ... 8 7 ... 0
//! |  generation  |  owner | attempts| state |
//!
//!          allocate          submit            start            finish
//!   FREE ----------> ALLOC ---------> QUEUED ---------> RUNNING --------> DONE
//!    ^  generation+1   |                 |  |             |  |              |
//!    |       submitter |            lane |  | cancel,     |  | dropped,     |
//!    |            died |            full |  | too late    |  | worker died  |
//!    |                 |                 |  v             |  v              |
//!    |                 |            CANCELLED, EXPIRED    | FAILED          |
//!    |                 |                 |  |             |  |              |
//!    +-----------------+-----------------+--+-------------+--+--------------+
//!       final states: released by the ticket's holder, or at once if nobody waits
//!
//! A worker's death may also lead from RUNNING back to QUEUED, with attempts + 1.
//! ```
//!
//! An index that comes out of a ring is only a hint that this slot *may* be free or queued. The CAS on the state
//! word decides, and the generation makes an old look fail. So stale and doubled hints are harmless, and recovery
//! may over-approximate.
//!
//! The completion word beside it says who waits for the outcome. The finisher changes it once, after the state;
//! a waiter or a leaving submitter changes it before it looks at the state. One of the two sees the other.
//!
//! Not here: filling and emptying slots (`v2_peer.rs`, `v2_task.rs`, `v2_ticket.rs`), the dead (`v2_reaper.rs`).

use super::layout::v2_slot as slot;
use super::v2_region::Shared;
use super::v2_wait::Side;
use crate::edge::Edge;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// From submit to start: the task in the slot. Needed besides the entry's own edge, since a stale hint may lead to
/// a task that was queued after it.
pub(super) static WPOL2_QUEUE: Edge = Edge::new("WPOL2_QUEUE");
/// From finish to poll: the result in the slot.
pub(super) static WPOL2_FINISH: Edge = Edge::new("WPOL2_FINISH");
/// From release to allocate: all use of the slot is over. Needed for doubled hints, as above.
pub(super) static WPOL2_FREE: Edge = Edge::new("WPOL2_FREE");
/// From the finisher to waiters and leaving submitters: the final state, if the finisher was first.
pub(super) static WPOL2_COMPLETION: Edge = Edge::new("WPOL2_COMPLETION");

/// What a slot is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    Alloc,
    Queued,
    Running,
    Done,
    Cancelled,
    Expired,
    Failed,
}

impl State {
    /// Whether nothing will happen to the task any more.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Expired | Self::Failed)
    }
}

/// A state word taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) generation: u32,
    /// Attach index + 1 of who allocated (ALLOC) or runs (RUNNING) it; 0 in every other state.
    pub(super) owner: u16,
    /// Workers that died running it.
    pub(super) attempts: u8,
    pub(super) state: State,
}

impl Word {
    /// `None` for a state number nobody may write.
    pub(super) fn unpack(bits: u64) -> Option<Self> {
        let state = match bits as u8 {
            0 => State::Free,
            1 => State::Alloc,
            2 => State::Queued,
            3 => State::Running,
            4 => State::Done,
            5 => State::Cancelled,
            6 => State::Expired,
            7 => State::Failed,
            _ => return None,
        };
        Some(Self {
            generation: (bits >> 32) as u32,
            owner: (bits >> 16) as u16,
            attempts: (bits >> 8) as u8,
            state,
        })
    }

    pub(super) fn pack(self) -> u64 {
        u64::from(self.generation) << 32
            | u64::from(self.owner) << 16
            | u64::from(self.attempts) << 8
            | self.state as u64
    }

    /// The same task, in another state.
    pub(super) fn becomes(self, state: State, owner: u16) -> Self {
        Self { state, owner, ..self }
    }
}

/// Somebody may sleep on the completion word.
pub(super) const WAITED: u32 = 1 << 8;
const LANE: u32 = 0xFF;

/// A fresh completion word.
pub(super) fn route(lane: u32, submitter: u16) -> u32 {
    lane & LANE | u32::from(submitter) << 16
}

/// Which lane the task belongs to. Not yet checked: it comes from shared memory.
pub(super) fn lane_of(completion: u32) -> u32 {
    completion & LANE
}

/// Who waits for the outcome: attach index + 1, or 0 for nobody.
pub(super) fn submitter_of(completion: u32) -> u16 {
    (completion >> 16) as u16
}

impl Shared {
    /// The state word at a slot's offset.
    #[inline]
    pub(super) fn state(&self, base: usize) -> &AtomicU64 {
        self.memory.u64_at(base + slot::STATE)
    }

    /// The completion word at a slot's offset.
    #[inline]
    pub(super) fn completion(&self, base: usize) -> &AtomicU32 {
        self.memory.u32_at(base + slot::COMPLETION)
    }

    /// A slot's state as it is now, seen through the given edge; `None` poisons the region.
    pub(super) fn look(&self, base: usize, edge: &Edge) -> Option<Word> {
        let word = Word::unpack(self.state(base).load(edge.acquire()));
        if word.is_none() {
            self.poison();
        }
        word
    }

    /// Changes a state, if it still is what was seen. What travels goes by the given edge.
    pub(super) fn change(&self, base: usize, from: Word, to: Word, edge: &Edge) -> bool {
        self.state(base).compare_exchange(from.pack(), to.pack(), edge.release(), Relaxed).is_ok()
    }

    /// Changes a state when nothing travels with the change.
    pub(super) fn change_bare(&self, base: usize, from: Word, to: Word) -> bool {
        self.state(base).compare_exchange(from.pack(), to.pack(), Relaxed, Relaxed).is_ok()
    }

    /// FREE -> ALLOC. `None` means the hint was stale.
    pub(super) fn take_free(&self, base: usize, me: u16) -> Option<Word> {
        // WPOL2_FREE, taker's end: the last owner is done with the slot.
        let free = self.look(base, &WPOL2_FREE).filter(|word| word.state == State::Free)?;
        let generation = free.generation.wrapping_add(1);
        let taken = Word { generation, owner: me, attempts: 0, state: State::Alloc };
        self.change_bare(base, free, taken).then_some(taken)
    }

    /// Any state its caller has the last word on -> FREE, and lists the slot. False if it changed meanwhile.
    pub(super) fn give_free(&self, index: u32, base: usize, from: Word) -> bool {
        let freed = self.give_free_unlisted(base, from);
        if freed {
            self.list_free(index);
        }
        freed
    }

    /// As `give_free`, for a caller that lists several slots at once.
    pub(super) fn give_free_unlisted(&self, base: usize, from: Word) -> bool {
        let free = Word { generation: from.generation, owner: 0, attempts: 0, state: State::Free };
        // WPOL2_FREE, giver's end: all use of the slot is over.
        self.change(base, from, free, &WPOL2_FREE)
    }

    /// Hints that a slot is free. A ring too full of stale hints loses this one, and a sweep finds the slot.
    pub(super) fn list_free(&self, index: u32) {
        let ring = self.geometry.free_ring();
        if ring.push(&self.memory, index).is_ok() {
            self.notify(&ring, Side::Items, 1);
        }
    }

    /// As `list_free`, for many: the ring's hint moves once, and sleepers are told once.
    pub(super) fn list_free_batch(&self, indices: &[u32]) {
        let ring = self.geometry.free_ring();
        let (listed, _) = ring.push_batch(&self.memory, indices.len(), |at| indices.get(at).copied());
        if listed > 0 {
            self.notify(&ring, Side::Items, listed as u32);
        }
    }

    /// Asks for the first lines of a slot ahead of their use: the one with the state, and so many with payload.
    #[inline]
    pub(super) fn expect_slot(&self, index: u32, payload_lines: usize) {
        let Some(base) = self.geometry.slot(index) else { return };
        for line in 0..=payload_lines {
            self.memory.expect_change(base + 64 * line);
        }
    }

    /// Asks for the slot that the next submit will take, if nothing comes between.
    #[inline]
    pub(super) fn expect_next_free(&self) {
        if let Some(index) = self.geometry.free_ring().peek(&self.memory) {
            self.expect_slot(index, 1);
        }
    }

    /// After a final state was set: wakes whoever waits for it, and frees the slot if nobody ever will.
    pub(super) fn complete(&self, index: u32, base: usize, last: Word) {
        // WPOL2_COMPLETION, finisher's end: the final state travels to whoever touches the word later.
        let seen = self.completion(base).fetch_and(!WAITED, WPOL2_COMPLETION.release());
        if seen & WAITED != 0 {
            self.wake_completion(base);
        }
        if submitter_of(seen) == 0 {
            self.give_free(index, base, last);
        }
    }

    /// Takes `submitter` out of the completion word: nobody waits for this task any more. If it is over already,
    /// the slot is freed here, otherwise by the finisher.
    pub(super) fn forget_submitter(&self, index: u32, base: usize, submitter: u16) {
        let completion = self.completion(base);
        let mut seen = completion.load(Relaxed);
        // Only waiters and the finisher change the word as well, so a few rounds are enough among the honest. If
        // they are not, the next sweep tries again.
        for _ in 0..64 {
            if submitter_of(seen) != submitter {
                break;
            }
            let alone = seen & 0xFFFF;
            // WPOL2_COMPLETION, leaver's end: if the finisher was first, its final state is seen below.
            match completion.compare_exchange(seen, alone, WPOL2_COMPLETION.acquire(), Relaxed) {
                Ok(_) => break,
                Err(newer) => seen = newer,
            }
        }
        self.free_if_alone(index, base);
    }

    /// Frees a finished slot that nobody waits for.
    pub(super) fn free_if_alone(&self, index: u32, base: usize) {
        // WPOL2_FINISH, looker's end: the completion word below is the one of this very task, or newer.
        let Some(word) = self.look(base, &WPOL2_FINISH) else { return };
        if word.state.is_final() && submitter_of(self.completion(base).load(Relaxed)) == 0 {
            self.give_free(index, base, word);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn words_survive_packing_and_unknown_states_do_not() {
        let word = Word { generation: u32::MAX, owner: 0xABCD, attempts: 7, state: State::Failed };
        assert_eq!(Word::unpack(word.pack()), Some(word));
        assert_eq!(word.pack(), 0xFFFF_FFFF_ABCD_0707);
        assert_eq!(Word::unpack(8), None);
        assert_eq!(Word::unpack(0).unwrap().state, State::Free);
    }

    #[test]
    fn a_completion_word_names_lane_and_submitter() {
        let word = route(7, 65_535) | WAITED;
        assert_eq!((lane_of(word), submitter_of(word)), (7, 65_535));
    }
}
