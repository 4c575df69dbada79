//! A task written where it will lie: a slot is reserved, filled by its owner, and published or given back.
//!
//! `submit` copies a payload that is there already. Whoever makes the payload, a JavaScript encoder say, would have to
//! make it elsewhere first. A reserved slot is in state ALLOC and so its owner's alone, as it is inside `submit`; a
//! peer killed with one in hand loses it to the next sweep. Publishing takes the same steps as `submit`.
//!
//! Not here: those steps (`v2_peer.rs`).

use super::error::SubmitError;
use super::layout::v2_slot as slot;
use super::v2_peer::{Peer, Submission};
use super::v2_slots::Word;
use super::v2_ticket::Ticket;

/// A slot of this peer's that holds no task yet. Dropped, it is free again.
#[derive(Debug)]
#[must_use = "a reserved slot that is not published is given back"]
pub struct Reserved<'p> {
    peer: &'p Peer,
    index: u32,
    base: usize,
    word: Word,
}

impl Peer {
    /// Takes a slot to be filled in place.
    pub fn reserve(&self) -> Result<Reserved<'_>, SubmitError> {
        let shared = &*self.shared;
        if !shared.is_open() {
            return Err(if shared.is_sound() { SubmitError::Closed } else { SubmitError::Poisoned });
        }
        let (index, base, word) = shared.allocate(self.owner())?;
        Ok(Reserved { peer: self, index, base, word })
    }
}

impl Reserved<'_> {
    /// Index of the slot.
    pub fn slot(&self) -> u32 {
        self.index
    }

    /// What the ticket's generation will be.
    pub fn generation(&self) -> u32 {
        self.word.generation
    }

    /// Where payload and result lie, in bytes from the region's start.
    pub fn payload_at(&self) -> usize {
        self.base + slot::BYTES
    }

    /// Puts the task in: what `submission` says is written into the slot, the payload only if it is not empty, and the
    /// rest of the payload area stays as it was filled.
    ///
    /// # Errors
    /// As for `submit`; the slot is then free again.
    pub fn publish(self, submission: Submission<'_>) -> Result<Ticket, SubmitError> {
        let peer = self.peer;
        let shared = &*peer.shared;
        let lane = shared.check(&submission)?;
        let (index, base, word) = (self.index, self.base, self.word);
        core::mem::forget(self);
        shared.fill(base, &submission, peer.owner());
        shared.announce(&lane, index, base, word)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // False only if a reaper took this peer for dead and gave the slot back already.
        self.peer.shared.give_free(self.index, self.base, self.word);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::super::error::StartError;
    use super::super::v2::{Config, Identity, Progress, Region};
    use super::*;
    use crate::wpol::Memory;

    fn peer(slots: u32) -> Peer {
        let config = Config { slots, lane_capacity: 64, slot_stride: 128, ..Config::default() };
        let memory = Memory::heap(config.bytes().unwrap()).unwrap();
        Region::create(memory, config).unwrap().attach(Identity::default()).unwrap()
    }

    #[test]
    fn a_slot_filled_in_place_is_run_and_ended_like_any_other() {
        let peer = peer(1);
        let reserved = peer.reserve().unwrap();
        let (slot, generation, at) = (reserved.slot(), reserved.generation(), reserved.payload_at());
        assert_eq!(peer.start(0).unwrap_err(), StartError::Empty);
        let ticket = reserved.publish(Submission { method: 3, task: 7, ..Submission::default() }).unwrap();
        assert_eq!((ticket.slot, ticket.generation), (slot, generation));
        assert!(peer.has_task());
        let running = peer.start(0).unwrap();
        assert_eq!((running.method(), running.task(), running.payload_at()), (3, 7, at));
        running.finish(5, &[]).unwrap();
        assert_eq!(peer.poll(&ticket), Ok(Progress::Done { status: 5 }));
        peer.release(ticket).unwrap();
        assert!(!peer.has_task());
    }

    #[test]
    fn a_reserved_slot_that_is_not_published_is_free_again() {
        let peer = peer(1);
        let reserved = peer.reserve().unwrap();
        assert_eq!(peer.reserve().unwrap_err(), SubmitError::NoSlot);
        drop(reserved);
        let reserved = peer.reserve().unwrap();
        let refused = reserved.publish(Submission { lane: 9, ..Submission::default() });
        assert_eq!(refused, Err(SubmitError::BadLane));
        assert!(peer.reserve().is_ok());
    }

    #[test]
    fn a_lane_full_of_stale_hints_has_no_room_and_refuses_without_losing_the_slot() {
        let peer = peer(2);
        for _ in 0..64 {
            assert!(peer.has_room(0));
            let ticket = peer.reserve().unwrap().publish(Submission::default()).unwrap();
            peer.cancel(&ticket).unwrap();
            peer.release(ticket).unwrap();
        }
        assert!(!peer.has_room(0) && !peer.has_room(1));
        assert_eq!(peer.reserve().unwrap().publish(Submission::default()), Err(SubmitError::LaneFull));
        assert_eq!(peer.start(0).unwrap_err(), StartError::Empty);
        assert!(peer.has_room(0));
        let slots = [peer.reserve().unwrap(), peer.reserve().unwrap()];
        assert_ne!(slots[0].slot(), slots[1].slot());
    }

    #[test]
    fn a_closed_region_reserves_nothing() {
        let peer = peer(1);
        peer.region().close();
        assert_eq!(peer.reserve().unwrap_err(), SubmitError::Closed);
    }
}
