//! Attach records: who is a peer, under which number, and for how long that number is its own.
//!
//! ```text
//! record word   31 ...... 8 7 ... 0          attach         leave
//!              |   epoch   | state |   FREE ---------> LIVE ------> FREE, same epoch
//!                                      ^    epoch + 1    | found dead
//!                                      +----- swept -- REAPED
//! ```
//!
//! Slots name their owner by the record's number, so a number must not go to another peer before every slot of the
//! last one has been brought back. Each change is a CAS of the whole word. The epoch makes it fail if the record has
//! had another owner since it was read: a reaper asks "is this one dead?" between its read and its CAS, and that may
//! take any time. It comes round after 2^24 attaches.
//!
//! Not here: who asks and what is brought back (`v2_reaper.rs`), locks outside the region (the shm crate).

use super::layout::v2_record as record;
use super::v2_region::Shared;
use crate::edge::{Edge, left_out};
use crate::sync::Ordering::{self, Relaxed};

/// From whoever freed a record to whoever takes it next: all use of it is over.
pub(super) static WPOL2_RECORD: Edge = Edge::new("WPOL2_RECORD");

/// Who attaches; for people who look at the region, not for decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// Start time of the process.
    pub started: u64,
}

/// An attach record in use, as it was for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its number.
    pub index: u32,
    /// What its owner said about itself.
    pub identity: Identity,
    /// Owners it has had, this one included, modulo 2^24.
    pub epoch: u32,
    /// The owner's last sign of life, on its own clock; 0 for none.
    pub heartbeat: u64,
    /// Whether the owner was found dead and is being swept.
    pub is_reaped: bool,
}

/// A record's word: its state and which owner it speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim(u32);

const STATE: u32 = 0xFF;
const FREE: u32 = 0;
const LIVE: u32 = 1;
const REAPED: u32 = 2;

impl Claim {
    pub(super) fn is_live(self) -> bool {
        self.0 & STATE == LIVE
    }

    pub(super) fn is_reaped(self) -> bool {
        self.0 & STATE == REAPED
    }

    fn epoch(self) -> u32 {
        self.0 >> 8
    }

    /// The next owner's.
    fn taken(self) -> Self {
        let epoch = if left_out("WPOL2_RECORD_EPOCH") { 0 } else { self.epoch().wrapping_add(1) };
        Self(epoch << 8 | LIVE)
    }

    /// The same owner's, found dead.
    pub(super) fn reaped(self) -> Self {
        Self(self.0 & !STATE | REAPED)
    }

    /// Nobody's any more.
    fn freed(self) -> Self {
        Self(self.0 & !STATE | FREE)
    }
}

impl Shared {
    /// A record's word, seen through the given edge. `None` for a state nobody may write, which is then nobody's.
    pub(super) fn claim(&self, base: usize, edge: &Edge) -> Option<Claim> {
        let word = self.memory.u32_at(base + record::STATE).load(edge.acquire());
        matches!(word & STATE, FREE | LIVE | REAPED).then_some(Claim(word))
    }

    /// Changes a record's word if it still is what was seen; what it is then.
    pub(super) fn change_claim(&self, base: usize, from: Claim, to: Claim, order: Ordering) -> Option<Claim> {
        let word = self.memory.u32_at(base + record::STATE);
        word.compare_exchange(from.0, to.0, order, Relaxed).ok().map(|_| to)
    }

    /// FREE -> LIVE. `None` if there is no such record or it is not free.
    pub(super) fn take_record(&self, index: u32, identity: Identity) -> Option<Claim> {
        let base = self.geometry.record(index)?;
        // WPOL2_RECORD, taker's end: whoever had the record or swept it is done with it.
        let free = self.claim(base, &WPOL2_RECORD).filter(|claim| *claim == claim.freed())?;
        let live = self.change_claim(base, free, free.taken(), WPOL2_RECORD.acquire())?;
        self.memory.u32_at(base + record::PID).store(identity.pid, Relaxed);
        self.memory.u32_at(base + record::UID).store(identity.uid, Relaxed);
        self.memory.u64_at(base + record::STARTED).store(identity.started, Relaxed);
        self.memory.u64_at(base + record::HEARTBEAT).store(0, Relaxed);
        self.memory.u32_at(base + record::WAITING).store(0, Relaxed);
        Some(live)
    }

    /// LIVE by its owner or REAPED by its reaper -> FREE. False if it was not that any more.
    pub(super) fn free_record(&self, index: u32, from: Claim) -> bool {
        let Some(base) = self.geometry.record(index) else { return false };
        self.memory.u32_at(base + record::WAITING).store(0, Relaxed);
        // WPOL2_RECORD, giver's end: all use of the record, and of every slot that names it, is over.
        self.change_claim(base, from, from.freed(), WPOL2_RECORD.release()).is_some()
    }

    /// A record in use, for people.
    pub(super) fn read_record(&self, index: u32) -> Option<Record> {
        let base = self.geometry.record(index)?;
        let claim = self.claim(base, &WPOL2_RECORD).filter(|claim| *claim != claim.freed())?;
        let half = |field| self.memory.u32_at(base + field).load(Relaxed);
        let double = |field| self.memory.u64_at(base + field).load(Relaxed);
        let identity =
            Identity { pid: half(record::PID), uid: half(record::UID), started: double(record::STARTED) };
        let heartbeat = double(record::HEARTBEAT);
        Some(Record { index, identity, epoch: claim.epoch(), heartbeat, is_reaped: claim.is_reaped() })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_an_epoch_of_its_own_until_they_come_round() {
        let first = Claim(FREE).taken();
        assert!(first.is_live() && first.epoch() == 1 && first.reaped().is_reaped());
        assert_eq!(first.reaped().freed(), first.freed());
        assert_eq!(first.freed().taken().epoch(), 2);
        assert_eq!(Claim(!STATE).taken(), Claim(LIVE));
    }
}
