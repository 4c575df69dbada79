//! One end of a link: a peer of the region, with the slot it is filling and the task it runs.
//!
//! The pool's end reserves, publishes, asks, takes back and releases; the worker's end starts and finishes. Both are of
//! one type, since a region does not tell its peers apart. What lies in a slot's payload is between the two sides of
//! JavaScript; here it is 64 bytes that are never looked at.
//!
//! Refusals are numbers below zero ([`Refusal`]), so that every answer fits one number.
//!
//! Not here: addresses and what JavaScript calls (`lib.rs`).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::AtomicU32;
use millpond_queue::wpol::v2::{
    Cancel, Config, Identity, Peer, Progress, Region, Reserved, Running, StartError, Submission, SubmitError,
    Ticket, TicketError,
};
use millpond_queue::wpol::{Bell, Memory, RegionError};

/// Bytes of a slot: wpol's own 64, and as many for the two sides.
pub const SLOT_STRIDE: u32 = 128;
/// Places in the lane for each slot. A task taken back leaves its place filled until the worker comes by, so there must
/// be more places than slots.
const LANE_PLACES_PER_SLOT: u32 = 4;
const LANE_CAPACITY_MIN: u32 = 64;
/// The worker and the pool.
const PEERS: u32 = 2;

/// Why not, as a number below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Refusal {
    /// Nothing there, no room, or not a ticket any more: what an honest peer may meet.
    Nothing = -1,
    /// The call does not fit: nothing reserved, nothing running, numbers out of range.
    Misuse = -2,
    /// The region holds values that nobody may write, or is none.
    Broken = -3,
}

impl From<SubmitError> for Refusal {
    fn from(refusal: SubmitError) -> Self {
        match refusal {
            SubmitError::NoSlot | SubmitError::LaneFull | SubmitError::Contended => Self::Nothing,
            SubmitError::Poisoned | SubmitError::Closed => Self::Broken,
            _ => Self::Misuse,
        }
    }
}

impl From<StartError> for Refusal {
    fn from(refusal: StartError) -> Self {
        match refusal {
            StartError::Empty | StartError::Contended => Self::Nothing,
            _ => Self::Broken,
        }
    }
}

impl From<TicketError> for Refusal {
    fn from(refusal: TicketError) -> Self {
        match refusal {
            TicketError::Poisoned => Self::Broken,
            TicketError::NotFinal => Self::Misuse,
            _ => Self::Nothing,
        }
    }
}

impl From<RegionError> for Refusal {
    fn from(_: RegionError) -> Self {
        Self::Broken
    }
}

/// What a region for so many tasks is made of.
pub fn config(slots: u32) -> Config {
    let lane_capacity = slots.saturating_mul(LANE_PLACES_PER_SLOT).next_power_of_two().max(LANE_CAPACITY_MIN);
    Config { lanes: 1, lane_capacity, slots, slot_stride: SLOT_STRIDE, attach_records: PEERS, segment: 1 }
}

/// A peer and what it has in hand. It lives as long as its instance.
#[derive(Debug)]
pub struct End {
    peer: &'static Peer,
    /// Rung for what was published, to wake the other side.
    bell: Bell<'static>,
    reserved: Option<Reserved<'static>>,
    running: Option<Running<'static>>,
}

impl End {
    /// Builds the region and becomes its first peer.
    pub fn create(
        memory: impl Into<Arc<Memory>>,
        slots: u32,
        bell: &'static AtomicU32,
    ) -> Result<Self, Refusal> {
        Self::attach(&Region::create(memory, config(slots))?, bell)
    }

    /// Becomes a peer of a region that is there.
    pub fn open(memory: impl Into<Arc<Memory>>, bell: &'static AtomicU32) -> Result<Self, Refusal> {
        Self::attach(&Region::open(memory)?, bell)
    }

    fn attach(region: &Region, bell: &'static AtomicU32) -> Result<Self, Refusal> {
        let peer = Box::leak(Box::new(region.attach(Identity::default())?));
        Ok(Self { peer, bell: Bell(bell), reserved: None, running: None })
    }

    /// Where the 64 bytes of slot 0 lie, in bytes from the region's start. Takes a slot for a moment.
    pub fn envelopes_at(&self) -> Result<usize, Refusal> {
        let reserved = self.peer.reserve()?;
        Ok(reserved.payload_at() - reserved.slot() as usize * SLOT_STRIDE as usize)
    }

    /// Takes a slot to be filled: its index. A slot that is in hand already is handed out again. Only the pool's end
    /// does so: if the lane has room now, it has when the slot is published.
    pub fn reserve(&mut self) -> Result<u32, Refusal> {
        if !self.peer.has_room(0) {
            return Err(Refusal::Nothing);
        }
        if let Some(reserved) = &self.reserved {
            return Ok(reserved.slot());
        }
        let reserved = self.peer.reserve()?;
        let slot = reserved.slot();
        self.reserved = Some(reserved);
        Ok(slot)
    }

    /// Publishes the reserved slot: the ticket's generation. Rings nothing: whoever publishes many rings once.
    pub fn publish(&mut self, task: u32) -> Result<u32, Refusal> {
        let reserved = self.reserved.take().ok_or(Refusal::Misuse)?;
        let ticket = reserved.publish(Submission { task: task.into(), ..Submission::default() })?;
        Ok(ticket.generation)
    }

    /// Something was published for the other side: how to wake it.
    pub fn ring(&self) -> u32 {
        self.bell.ring()
    }

    /// How far a task is.
    pub fn poll(&self, slot: u32, generation: u32) -> Result<Progress, Refusal> {
        Ok(self.peer.poll(&Ticket { slot, generation })?)
    }

    /// Takes a task back, unless the worker was faster; then its slot is free again.
    pub fn revoke(&self, slot: u32, generation: u32) -> Result<bool, Refusal> {
        let ticket = Ticket { slot, generation };
        match self.peer.cancel(&ticket)? {
            Cancel::Cancelled => self.release(slot, generation).map(|()| true),
            Cancel::Running | Cancel::Over => Ok(false),
        }
    }

    /// Gives the slot of a task back that is over.
    pub fn release(&self, slot: u32, generation: u32) -> Result<(), Refusal> {
        self.peer.release(Ticket { slot, generation }).map_err(|(refusal, _)| refusal.into())
    }

    /// Starts the oldest task: its slot.
    pub fn start(&mut self) -> Result<u32, Refusal> {
        if self.running.is_some() {
            return Err(Refusal::Misuse);
        }
        let running = self.peer.start(0)?;
        let slot = running.slot();
        self.running = Some(running);
        Ok(slot)
    }

    /// Whether there seems to be no task to start.
    pub fn is_dry(&self) -> bool {
        !self.peer.has_task()
    }

    /// Ends the task that runs: how to wake the other side.
    pub fn finish(&mut self) -> Result<u32, Refusal> {
        let running = self.running.take().ok_or(Refusal::Misuse)?;
        running.finish(0, &[]).map_err(|_| Refusal::Nothing)?;
        Ok(self.bell.ring())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    const SLOTS: u32 = 4;

    fn ends() -> (End, End, &'static AtomicU32) {
        let memory = Arc::new(Memory::heap(config(SLOTS).bytes().unwrap()).unwrap());
        let bell = Box::leak(Box::new(AtomicU32::new(0)));
        let pool = End::create(Arc::clone(&memory), SLOTS, bell).unwrap();
        (pool, End::open(memory, bell).unwrap(), bell)
    }

    #[test]
    fn a_task_goes_there_and_back_and_its_slot_is_free_again() {
        let (mut pool, mut worker, _) = ends();
        for round in 0..20 {
            assert!(worker.is_dry());
            let slot = pool.reserve().unwrap();
            let generation = pool.publish(round + 1).unwrap();
            assert_eq!(pool.poll(slot, generation), Ok(Progress::Queued));
            assert!(!worker.is_dry());
            assert_eq!(worker.start(), Ok(slot));
            assert_eq!(pool.poll(slot, generation), Ok(Progress::Running));
            worker.finish().unwrap();
            assert_eq!(pool.poll(slot, generation), Ok(Progress::Done { status: 0 }));
            assert_eq!(pool.release(slot, generation), Ok(()));
            assert_eq!(pool.poll(slot, generation), Err(Refusal::Nothing));
        }
    }

    #[test]
    fn a_task_is_taken_back_or_started_and_never_both() {
        let (mut pool, mut worker, _) = ends();
        let first = pool.reserve().unwrap();
        let first_generation = pool.publish(1).unwrap();
        let second = pool.reserve().unwrap();
        let second_generation = pool.publish(2).unwrap();
        assert_eq!(worker.start(), Ok(first));
        assert_eq!(pool.revoke(first, first_generation), Ok(false));
        assert_eq!(pool.revoke(second, second_generation), Ok(true));
        worker.finish().unwrap();
        assert_eq!(worker.start(), Err(Refusal::Nothing));
    }

    #[test]
    fn a_full_region_refuses_and_a_reserved_slot_is_handed_out_again() {
        let (mut pool, _worker, _) = ends();
        for task in 1..=SLOTS {
            assert_eq!(pool.reserve(), pool.reserve());
            pool.publish(task).unwrap();
        }
        assert_eq!(pool.reserve(), Err(Refusal::Nothing));
        assert_eq!(pool.publish(9), Err(Refusal::Misuse));
    }

    #[test]
    fn a_lane_full_of_what_was_taken_back_refuses_before_anything_is_filled() {
        let (mut pool, mut worker, _) = ends();
        let places = config(SLOTS).lane_capacity;
        for task in 1..=places {
            let slot = pool.reserve().unwrap();
            let generation = pool.publish(task).unwrap();
            assert_eq!(pool.revoke(slot, generation), Ok(true));
        }
        assert_eq!(pool.reserve(), Err(Refusal::Nothing));
        assert_eq!(worker.start(), Err(Refusal::Nothing));
        assert!(pool.reserve().is_ok());
    }

    #[test]
    fn whoever_publishes_learns_how_to_wake_the_other_side() {
        let (mut pool, mut worker, bell) = ends();
        Bell(bell).arm(2);
        pool.reserve().unwrap();
        pool.publish(1).unwrap();
        assert_eq!(pool.ring(), 2);
        assert_eq!(bell.load(Relaxed), 0);
        worker.start().unwrap();
        Bell(bell).arm(1);
        assert_eq!(worker.finish(), Ok(1));
    }

    #[test]
    fn an_end_that_runs_nothing_finishes_nothing_and_runs_one_at_a_time() {
        let (mut pool, mut worker, _) = ends();
        assert_eq!(worker.finish(), Err(Refusal::Misuse));
        for task in [1, 2] {
            pool.reserve().unwrap();
            pool.publish(task).unwrap();
        }
        worker.start().unwrap();
        assert_eq!(worker.start(), Err(Refusal::Misuse));
    }

    #[test]
    fn the_envelopes_lie_where_the_first_slot_says() {
        let (mut pool, _worker, _) = ends();
        let first = pool.envelopes_at().unwrap();
        assert!(first.is_multiple_of(64));
        assert_eq!(pool.reserve(), Ok(1), "the slot that was looked at went to the end of the list");
    }
}
