//! The slots of version 1: a free list with a tag, and reference counts.
//!
//! The specification's list hands one slot to two owners when its first element is taken and given back while
//! somebody looks at it. The tag in the upper half of the list word changes with every take and give, so the stale
//! look fails. It wraps after 2^32 operations during one stall, which is accepted here; version 2 has no such list.
//!
//! The last reference frees a slot, nobody else can. Releasing a free slot is refused; without that a slot freed
//! twice would make the list a cycle.
//!
//! Not here: the ring the indices go through (`v1_ring.rs`).

use super::error::{AllocateError, ReferenceError};
use super::layout::{V1_NONE, v1_header as header, v1_slot as slot};
use super::retry::Retry;
use super::v1::Queue;
use crate::edge::{Edge, left_out};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

/// From the thread that freed a slot to the one that takes it: the list's link, and all earlier use of the slot.
static WPOL1_FREE: Edge = Edge::new("WPOL1_FREE");
/// From every holder's release to the last one's: all use of the slot is over before it is freed.
static WPOL1_REFERENCES: Edge = Edge::new("WPOL1_REFERENCES");

/// Giving up on a free would lose the slot, so it tries far longer than honest peers can make it.
const FREE_ATTEMPTS: u32 = 1 << 20;

const FREE: u32 = 0;
const ALLOCATED: u32 = 1;

/// What the owner of a slot writes into it and the taker reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Task id.
    pub id: u32,
    /// Priority; the entry in the ring has one of its own.
    pub priority: u32,
    /// Time stamp.
    pub timestamp: u64,
    /// Method id.
    pub method: u32,
    /// Deadline, 0 for none.
    pub deadline: u64,
    /// Inline payload.
    pub payload: [u8; 16],
}

impl Queue {
    /// Takes a slot off the free list, with one reference.
    pub fn allocate(&self) -> Result<u32, AllocateError> {
        let list = self.memory.u64_at(header::FREE_LIST);
        let mut retry = Retry::around(self.capacity);
        while retry.again() {
            if self.is_poisoned() {
                return Err(AllocateError::Poisoned);
            }
            // WPOL1_FREE, taker's end: the link below, and the last owner's use of the slot, are seen.
            let seen = list.load(WPOL1_FREE.acquire());
            let index = seen as u32;
            if index == V1_NONE {
                return Err(AllocateError::NoFreeSlot);
            }
            let next = match self.slot_word(index, slot::NEXT) {
                Some(word) => word.load(Relaxed),
                None => return self.broken(AllocateError::Poisoned),
            };
            // A link that is no index may just be the task id of whoever took the slot meanwhile: the tag decides.
            if list.compare_exchange(seen, retagged(seen, next), Relaxed, Relaxed).is_err() {
                retry.step_back();
                continue;
            }
            if next != V1_NONE && next >= self.capacity
                || self.word(index, slot::STATE).swap(ALLOCATED, Relaxed) != FREE
            {
                return self.broken(AllocateError::Poisoned);
            }
            self.word(index, slot::REFERENCES).store(1, Relaxed);
            self.word(index, slot::GENERATION).fetch_add(1, Relaxed);
            self.memory.u32_at(header::ALLOCATED).fetch_add(1, Relaxed);
            return Ok(index);
        }
        Err(AllocateError::Contended)
    }

    /// Adds a reference to an allocated slot; the caller must hold one already.
    pub fn retain(&self, index: u32) -> Result<(), ReferenceError> {
        let references = self.slot_word(index, slot::REFERENCES).ok_or(ReferenceError::BadSlot)?;
        let mut retry = Retry::around(self.capacity);
        while retry.again() {
            match references.load(Relaxed) {
                0 => return Err(ReferenceError::NotAllocated),
                u32::MAX => return Err(ReferenceError::TooMany),
                held if references.compare_exchange(held, held + 1, Relaxed, Relaxed).is_ok() => {
                    return Ok(());
                }
                _ => retry.step_back(),
            }
        }
        Err(ReferenceError::Contended)
    }

    /// Gives a reference back; says whether it was the last one and the slot is free now.
    pub fn release(&self, index: u32) -> Result<bool, ReferenceError> {
        let references = self.slot_word(index, slot::REFERENCES).ok_or(ReferenceError::BadSlot)?;
        let mut retry = Retry::around(self.capacity);
        while retry.again() {
            if self.is_poisoned() {
                return Err(ReferenceError::Poisoned);
            }
            let held = references.load(Relaxed);
            if held == 0 && !left_out("WPOL1_DOUBLE_FREE") {
                return Err(ReferenceError::NotAllocated);
            }
            let left = held.saturating_sub(1);
            // WPOL1_REFERENCES, both ends: each holder's use ends before its release, and the last one, who
            // frees the slot, comes after all of them.
            if references.compare_exchange(held, left, WPOL1_REFERENCES.acq_rel(), Relaxed).is_err() {
                retry.step_back();
                continue;
            }
            let last = left == 0 || left_out("WPOL1_LAST_REFERENCE");
            return if last { self.free(index).map(|()| true) } else { Ok(false) };
        }
        Err(ReferenceError::Contended)
    }

    /// Slots taken. Approximate: the count moves after the slot does.
    pub fn allocated(&self) -> u32 {
        self.memory.u32_at(header::ALLOCATED).load(Relaxed).min(self.capacity)
    }

    /// Writes the task into a slot the caller owns. The next push of the slot makes it visible to the taker.
    pub fn write_task(&self, index: u32, task: &Task) -> Result<(), ReferenceError> {
        let base = self.slot_base(index).ok_or(ReferenceError::BadSlot)?;
        self.memory.u32_at(base + slot::NEXT).store(task.id, Relaxed);
        self.memory.u32_at(base + slot::PRIORITY).store(task.priority, Relaxed);
        self.memory.u64_at(base + slot::TIMESTAMP).store(task.timestamp, Relaxed);
        self.memory.u32_at(base + slot::METHOD).store(task.method, Relaxed);
        self.memory.u64_at(base + slot::DEADLINE).store(task.deadline, Relaxed);
        self.memory.copy_in(base + slot::PAYLOAD, &task.payload);
        Ok(())
    }

    /// Copies the task out of a slot the caller holds a reference to.
    pub fn read_task(&self, index: u32) -> Result<Task, ReferenceError> {
        let base = self.slot_base(index).ok_or(ReferenceError::BadSlot)?;
        let mut payload = [0; 16];
        self.memory.copy_out(base + slot::PAYLOAD, &mut payload);
        Ok(Task {
            id: self.memory.u32_at(base + slot::NEXT).load(Relaxed),
            priority: self.memory.u32_at(base + slot::PRIORITY).load(Relaxed),
            timestamp: self.memory.u64_at(base + slot::TIMESTAMP).load(Relaxed),
            method: self.memory.u32_at(base + slot::METHOD).load(Relaxed),
            deadline: self.memory.u64_at(base + slot::DEADLINE).load(Relaxed),
            payload,
        })
    }

    /// Puts a slot without references back on the list.
    fn free(&self, index: u32) -> Result<(), ReferenceError> {
        if self.word(index, slot::STATE).swap(FREE, Relaxed) != ALLOCATED && !left_out("WPOL1_DOUBLE_FREE") {
            return self.broken(ReferenceError::Poisoned);
        }
        let list = self.memory.u64_at(header::FREE_LIST);
        let next = self.word(index, slot::NEXT);
        let mut retry = Retry::around(FREE_ATTEMPTS);
        while retry.again() {
            let seen = list.load(Relaxed);
            next.store(seen as u32, Relaxed);
            // WPOL1_FREE, giver's end: the link and all use of the slot travel with the list word.
            if list.compare_exchange(seen, retagged(seen, index), WPOL1_FREE.release(), Relaxed).is_ok() {
                self.memory.u32_at(header::ALLOCATED).fetch_sub(1, Relaxed);
                return Ok(());
            }
            retry.step_back();
        }
        self.broken(ReferenceError::Poisoned)
    }

    fn broken<T, E>(&self, refusal: E) -> Result<T, E> {
        self.poison();
        Err(refusal)
    }

    fn slot_base(&self, index: u32) -> Option<usize> {
        (index < self.capacity).then(|| self.slots_base + index as usize * slot::BYTES)
    }

    fn slot_word(&self, index: u32, field: usize) -> Option<&AtomicU32> {
        self.slot_base(index).map(|base| self.memory.u32_at(base + field))
    }

    /// A field of a slot whose index was checked by the caller.
    fn word(&self, index: u32, field: usize) -> &AtomicU32 {
        self.memory.u32_at(self.slots_base + index as usize * slot::BYTES + field)
    }
}

/// The list word with another first slot and the next tag.
fn retagged(seen: u64, first: u32) -> u64 {
    let tag = (seen >> 32) as u32;
    let tag = if left_out("WPOL1_TAG") { tag } else { tag.wrapping_add(1) };
    u64::from(tag) << 32 | u64::from(first)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::wpol::memory::Memory;

    fn queue(capacity: u32) -> Queue {
        Queue::create(Memory::heap(Queue::bytes_for(capacity).unwrap()).unwrap(), capacity).unwrap()
    }

    #[test]
    fn every_slot_is_given_once_and_comes_back() {
        let queue = queue(4);
        for _ in 0..3 {
            let mut taken: alloc::vec::Vec<u32> = (0..4).map(|_| queue.allocate().unwrap()).collect();
            assert_eq!(queue.allocate(), Err(AllocateError::NoFreeSlot));
            assert_eq!(queue.allocated(), 4);
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 2, 3]);
            for slot in taken {
                assert_eq!(queue.release(slot), Ok(true));
            }
            assert_eq!(queue.allocated(), 0);
        }
    }

    #[test]
    fn only_the_last_reference_frees_and_a_second_free_is_refused() {
        let queue = queue(2);
        let slot = queue.allocate().unwrap();
        queue.retain(slot).unwrap();
        assert_eq!(queue.release(slot), Ok(false));
        assert_eq!(queue.release(slot), Ok(true));
        assert_eq!(queue.release(slot), Err(ReferenceError::NotAllocated));
        assert_eq!(queue.retain(slot), Err(ReferenceError::NotAllocated));
        assert_eq!(queue.retain(2), Err(ReferenceError::BadSlot));
        assert!(!queue.is_poisoned());
    }

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let queue = queue(2);
        let index = queue.allocate().unwrap();
        let task =
            Task { id: 7, priority: 3, timestamp: 1 << 40, method: 9, deadline: 5, payload: [0xEE; 16] };
        queue.write_task(index, &task).unwrap();
        assert_eq!(queue.read_task(index), Ok(task));
        assert_eq!(queue.read_task(9), Err(ReferenceError::BadSlot));
    }

    #[test]
    fn a_link_out_of_range_poisons_the_region() {
        let queue = queue(2);
        queue.memory.u64_at(header::FREE_LIST).store(77, Relaxed);
        assert_eq!(queue.allocate(), Err(AllocateError::Poisoned));
        assert!(queue.is_poisoned());
    }
}
