//! The ring of version 1: claim a place by moving `tail` or `head`, then write or clear its entry.
//!
//! ```text
//!                  producer                                   consumer
//!  entry 0  --claim: CAS tail, publish: entry = word-->  entry != 0
//!  entry 0  <--clear: entry = 0, claim: CAS head-------  entry != 0
//! ```
//!
//! The specification's own order (write the entry, then move `tail`) loses items, because an entry is 0 again one
//! lap later and a stalled producer cannot tell. Claiming first repairs that without changing a byte of the layout.
//! Each test below is needed; the models fail without any one of them. What is given up: between claim and publish
//! the others can only wait, so `Busy` is an answer of its own. It says nothing about the level. Folded into `Full`
//! or `Empty` it would make the queue non-linearizable.
//!
//! The priority is carried, not obeyed: order is first in, first out.
//!
//! Not here: the slots behind the indices (`v1_slots.rs`), a ring that survives killed processes (`v2_ring.rs`).

use super::error::{PopError, PushError};
use super::layout::{V1_ENTRY_BYTES, V1_ZERO_ENTRY, v1_header as header};
use super::retry::Retry;
use super::v1::Queue;
use crate::edge::{Edge, left_out};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// From a consumer's claim to the producer one lap later: the entry is not the old 0, but cleared or about to be.
static WPOL1_HEAD: Edge = Edge::new("WPOL1_HEAD");
/// From a producer's claim to consumers: the slot's contents, and that what they find in the entry is not left over
/// from the lap before.
static WPOL1_TAIL: Edge = Edge::new("WPOL1_TAIL");

/// What a push puts in and a pop takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Carried along; higher is more important, to whoever looks.
    pub priority: u32,
    /// Index of a slot.
    pub slot: u32,
}

impl Queue {
    /// Puts one entry in.
    ///
    /// # Errors
    /// `Full` is exact. `Busy` means that the place's last consumer has not cleared it yet: try again, see
    /// [`push_retry`](Self::push_retry).
    pub fn push(&self, entry: Entry) -> Result<(), PushError> {
        let word = self.encode(entry)?;
        let mut retry = Retry::around(self.capacity);
        while retry.again() {
            if self.is_poisoned() {
                return Err(PushError::Poisoned);
            }
            let tail = self.tail().load(Relaxed);
            // WPOL1_HEAD, producer's end: entries before `head` are seen as their consumers found them, or newer.
            let head = self.head().load(WPOL1_HEAD.acquire());
            // Signed: a tail older than the head read after it must not look like a full queue.
            match tail.wrapping_sub(head) as i64 {
                ..0 => continue,
                waiting if waiting >= i64::from(self.capacity) => return Err(PushError::Full),
                _ => {}
            }
            let place = self.place(tail);
            if place.load(Relaxed) != 0 && !left_out("WPOL1_ENTRY_TEST") {
                if self.tail().load(Relaxed) != tail {
                    continue;
                }
                return Err(PushError::Busy);
            }
            // WPOL1_TAIL, producer's end: the slot was filled, and the entry seen to be 0, before this claim.
            if self
                .tail()
                .compare_exchange(tail, tail.wrapping_add(1), WPOL1_TAIL.release(), Relaxed)
                .is_err()
            {
                retry.step_back();
                continue;
            }
            // Relaxed will do: the contents travelled with the claim, which every consumer sees first.
            place.store(word, Relaxed);
            return Ok(());
        }
        Err(PushError::Contended)
    }

    /// Takes the oldest entry out.
    ///
    /// # Errors
    /// `Empty` is exact. `Busy` means that the oldest entry is claimed but not yet written: try again, see
    /// [`pop_retry`](Self::pop_retry).
    pub fn pop(&self) -> Result<Entry, PopError> {
        let mut retry = Retry::around(self.capacity);
        while retry.again() {
            if self.is_poisoned() {
                return Err(PopError::Poisoned);
            }
            let head = self.head().load(Relaxed);
            // WPOL1_TAIL, consumer's end: whoever moved the tail past `head` had filled the slot and seen this
            // entry cleared, and so do we from here on.
            let tail = self.tail().load(WPOL1_TAIL.acquire());
            if tail.wrapping_sub(head) as i64 <= 0 && !left_out("WPOL1_EMPTY_TEST") {
                return Err(PopError::Empty);
            }
            let place = self.place(head);
            let word = place.load(Relaxed);
            if word == 0 {
                if self.head().load(Relaxed) != head {
                    continue;
                }
                return Err(PopError::Busy);
            }
            if left_out("WPOL1_CLEAR_AFTER_CLAIM") {
                place.store(0, Relaxed);
            }
            // WPOL1_HEAD, consumer's end: the entry was seen full before this claim.
            if self
                .head()
                .compare_exchange(head, head.wrapping_add(1), WPOL1_HEAD.release(), Relaxed)
                .is_err()
            {
                retry.step_back();
                continue;
            }
            // Relaxed will do: a producer trusts the 0 only to know that this consumer is done with the word.
            place.store(0, Relaxed);
            return self.decode(word);
        }
        Err(PopError::Contended)
    }

    /// As `push`, but waits out `Busy` and `Contended` at most `attempts` times, stepping back longer each time.
    pub fn push_retry(&self, entry: Entry, attempts: u32) -> Result<(), PushError> {
        let mut retry = Retry::around(self.capacity);
        for _ in 0..attempts {
            match self.push(entry) {
                Err(PushError::Busy | PushError::Contended) => retry.step_back(),
                answer => return answer,
            }
        }
        self.push(entry)
    }

    /// As `pop`, but waits out `Busy` and `Contended` at most `attempts` times, stepping back longer each time.
    pub fn pop_retry(&self, attempts: u32) -> Result<Entry, PopError> {
        let mut retry = Retry::around(self.capacity);
        for _ in 0..attempts {
            match self.pop() {
                Err(PopError::Busy | PopError::Contended) => retry.step_back(),
                answer => return answer,
            }
        }
        self.pop()
    }

    /// Entries claimed and not yet taken. Stale as soon as it is known.
    pub fn len(&self) -> u32 {
        let head = self.head().load(Relaxed);
        let waiting = self.tail().load(Relaxed).wrapping_sub(head) as i64;
        waiting.clamp(0, i64::from(self.capacity)) as u32
    }

    /// Whether nothing is claimed. Stale as soon as it is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn encode(&self, entry: Entry) -> Result<u64, PushError> {
        if entry.slot >= self.capacity {
            return Err(PushError::BadSlot);
        }
        match u64::from(entry.priority) << 32 | u64::from(entry.slot) {
            0 if self.has_zero_entry => Ok(V1_ZERO_ENTRY),
            0 => Err(PushError::Unrepresentable),
            word => Ok(word),
        }
    }

    fn decode(&self, word: u64) -> Result<Entry, PopError> {
        if word == V1_ZERO_ENTRY && self.has_zero_entry {
            return Ok(Entry { priority: 0, slot: 0 });
        }
        let entry = Entry { priority: (word >> 32) as u32, slot: word as u32 };
        if entry.slot >= self.capacity {
            self.poison();
            return Err(PopError::Poisoned);
        }
        Ok(entry)
    }

    fn head(&self) -> &AtomicU64 {
        self.memory.u64_at(header::HEAD)
    }

    fn tail(&self) -> &AtomicU64 {
        self.memory.u64_at(header::TAIL)
    }

    /// The entry of a position.
    fn place(&self, position: u64) -> &AtomicU64 {
        let index = position as usize & (self.capacity as usize - 1);
        self.memory.u64_at(header::BYTES + index * V1_ENTRY_BYTES)
    }
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
    fn priority_0_with_slot_0_comes_out_as_it_went_in() {
        let queue = queue(4);
        queue.push(Entry { priority: 0, slot: 0 }).unwrap();
        assert_eq!(queue.memory.u64_at(header::BYTES).load(Relaxed), V1_ZERO_ENTRY);
        assert_eq!(queue.pop(), Ok(Entry { priority: 0, slot: 0 }));
        assert_eq!(queue.pop(), Err(PopError::Empty));
    }

    #[test]
    fn a_full_queue_and_an_empty_one_say_so_at_every_age() {
        for position in [0, 1 << 31, (1 << 32) - 2, (1 << 63) - 1, u64::MAX - 1] {
            let memory = Memory::heap(Queue::bytes_for(2).unwrap()).unwrap();
            let queue = Queue::create_at(memory, 2, position).unwrap();
            for lap in 0..5 {
                assert_eq!(queue.pop(), Err(PopError::Empty));
                queue.push(Entry { priority: lap, slot: 0 }).unwrap();
                queue.push(Entry { priority: lap, slot: 1 }).unwrap();
                assert_eq!(queue.push(Entry { priority: 9, slot: 1 }), Err(PushError::Full));
                assert_eq!(queue.len(), 2);
                assert_eq!(queue.pop(), Ok(Entry { priority: lap, slot: 0 }));
                assert_eq!(queue.pop(), Ok(Entry { priority: lap, slot: 1 }));
            }
        }
    }

    #[test]
    fn a_stalled_consumer_is_reported_as_busy_and_not_as_full() {
        let queue = queue(2);
        queue.push(Entry { priority: 1, slot: 0 }).unwrap();
        // A consumer that has claimed position 0 and not yet cleared it.
        queue.head().store(1, Relaxed);
        queue.push(Entry { priority: 1, slot: 1 }).unwrap();
        assert_eq!(queue.push(Entry { priority: 2, slot: 0 }), Err(PushError::Busy));
        assert_eq!(queue.push_retry(Entry { priority: 2, slot: 0 }, 3), Err(PushError::Busy));
    }

    #[test]
    fn a_stalled_producer_is_reported_as_busy_and_not_as_empty() {
        let queue = queue(2);
        queue.tail().store(1, Relaxed);
        assert_eq!(queue.pop(), Err(PopError::Busy));
        assert_eq!(queue.pop_retry(3), Err(PopError::Busy));
    }

    #[test]
    fn an_index_out_of_range_poisons_the_region() {
        let queue = queue(2);
        assert_eq!(queue.push(Entry { priority: 0, slot: 2 }), Err(PushError::BadSlot));
        queue.tail().store(1, Relaxed);
        queue.place(0).store(7, Relaxed);
        assert_eq!(queue.pop(), Err(PopError::Poisoned));
        assert_eq!(queue.push(Entry { priority: 1, slot: 0 }), Err(PushError::Poisoned));
    }
}
