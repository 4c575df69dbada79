//! `Ring`: a bounded queue that any number of threads push to and pop from without locks.
//!
//! Two cursors, `tail` for writers and `head` for readers, each on cache lines of its own. A thread looks at
//! the slot its cursor names, and claims it by moving the cursor on; the slot's turn (`slots.rs`) then
//! carries the value. Nothing is allocated after the start, and refusal hands the value back.
//!
//! *Full* and *empty* are exact: they are answered only when the cursors are a whole capacity apart, or
//! equal. When the slot is still in another thread's hands, between its claim and its last step, the call
//! waits for that step. So the ring is linearizable, but a thread stopped in that place holds up those who
//! come to the same slot; for processes that may be killed there is `wpol`'s version 2.
//!
//! Not here: how long a fruitless look lingers (`cursor.rs`), sleeping while full or empty (`gate.rs`).

use crate::cursor::Cursor;
use crate::edge::left_out;
use crate::slots::{CapacityError, Look, Patience, Slots, drop_all};
use crate::sync::Ordering::Relaxed;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use crossbeam_utils::CachePadded;

/// The longest lingering of a call that does not wait, in pauses of the processor: 0.1 to 1.5 µs, here 0.4.
const PAUSES_MAX: u32 = 32;

/// A bounded queue for many producers and many consumers, first in, first out.
///
/// ```
/// let ring = millpond_queue::Ring::with_capacity(2)?;
/// assert_eq!(ring.push("one"), Ok(()));
/// assert_eq!(ring.push("two"), Ok(()));
/// assert_eq!(ring.push("three"), Err("three"), "a full ring hands the value back");
/// assert_eq!(ring.pop(), Some("one"));
/// # Ok::<(), millpond_queue::CapacityError>(())
/// ```
pub struct Ring<T> {
    /// The next position to write; moved by writers.
    tail: CachePadded<Cursor>,
    /// The next position to read; moved by readers.
    head: CachePadded<Cursor>,
    /// Never changes after the start; what is inside follows the turns.
    slots: Slots<T>,
}

impl<T> Ring<T> {
    /// A ring of exactly `capacity` slots: any number from 1 to [`CAPACITY_MAX`](crate::CAPACITY_MAX).
    pub fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        Ok(Self::at(0, Slots::with_capacity(capacity)?))
    }

    /// An empty ring that has been through `laps` laps, for tests of what age does.
    #[cfg(test)]
    pub(crate) fn aged(capacity: usize, laps: u64) -> Self {
        let mut slots = Slots::with_capacity(capacity).expect("a capacity for a test");
        Self::at(slots.start_at(laps), slots)
    }

    fn at(position: u64, slots: Slots<T>) -> Self {
        Self {
            tail: CachePadded::new(Cursor::new(position)),
            head: CachePadded::new(Cursor::new(position)),
            slots,
        }
    }

    /// Adds `value` at the end, or hands it back if the ring is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        match self.claim(&self.tail, Slots::look_free, Self::full_or_moved) {
            None => Err(value),
            Some(position) => {
                self.slots.expect_after(position);
                // SAFETY: `claim` saw `look_free` say Ready and moved the cursor past this position.
                unsafe { self.slots.put(position, value, false) };
                Ok(())
            }
        }
    }

    /// Takes the oldest value, if there is one.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let position = self.claim(&self.head, Slots::look_full, Self::empty_or_moved)?;
        self.slots.expect_after(position);
        // SAFETY: `claim` saw `look_full` say Ready and moved the cursor past this position.
        Some(unsafe { self.slots.take(position) })
    }

    /// Moves values from the front of `from` to the end of the ring, as many as fit, and says how many. They
    /// stay in order, though others' values may come between; what did not fit stays in `from`.
    pub fn push_batch(&self, from: &mut VecDeque<T>) -> usize {
        let mut pushed = 0;
        while !from.is_empty() {
            let claimed = self.claim_many(&self.tail, from.len(), Slots::look_free, Self::full_or_moved);
            let Some((first, count)) = claimed else { break };
            for (position, value) in (first..).zip(from.drain(..count)) {
                // SAFETY: `claim_many` saw `look_free` say Ready for this position and moved the cursor past it.
                unsafe { self.slots.put(position, value, false) };
            }
            pushed += count;
        }
        pushed
    }

    /// Moves at most `max` of the oldest values, and at most a capacity of them, to the end of `into`, and says
    /// how many came.
    pub fn pop_batch(&self, into: &mut Vec<T>, max: usize) -> usize {
        let max = max.min(self.capacity());
        into.reserve(max.min(self.len()));
        self.pop_each(max, |value| into.push(value))
    }

    /// Hands at most `max` of the oldest values to `each`, and says how many came.
    pub(crate) fn pop_each(&self, max: usize, mut each: impl FnMut(T)) -> usize {
        let mut popped = 0;
        while popped < max {
            let claimed = self.claim_many(&self.head, max - popped, Slots::look_full, Self::empty_or_moved);
            let Some((first, count)) = claimed else { break };
            let mut claimed = Claimed { ring: self, position: first, left: count };
            while let Some(value) = claimed.next() {
                each(value);
            }
            popped += count;
        }
        popped
    }

    /// How many values are in the ring. Others may push and pop while it is read, so it may be stale.
    pub fn len(&self) -> usize {
        let head = self.head.word.load(Relaxed);
        self.slots.distance(head, self.tail.word.load(Relaxed))
    }

    /// Whether the ring was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the ring seems full; like `len`, it may be stale. `push` knows.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// How many values the ring holds at most: what was asked for, exactly.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Claims the next position of one end. `look` tells whether its slot is ready, and `stuck`, when it is
    /// not, whether that is for good (`None`) or where to look next.
    #[inline(always)]
    fn claim(
        &self,
        cursor: &Cursor,
        look: impl Fn(&Slots<T>, u64) -> Look,
        stuck: impl Fn(&Self, u64, &mut Patience) -> Option<u64>,
    ) -> Option<u64> {
        let position = cursor.guess();
        if look(&self.slots, position) == Look::Ready && cursor.advance(position, self.slots.next(position)) {
            return Some(position);
        }
        self.claim_many(cursor, 1, look, stuck).map(|(position, _)| position)
    }

    /// As `claim`, for up to `count` positions at once: as many as are ready in a row.
    #[inline(never)]
    fn claim_many(
        &self,
        cursor: &Cursor,
        count: usize,
        look: impl Fn(&Slots<T>, u64) -> Look,
        stuck: impl Fn(&Self, u64, &mut Patience) -> Option<u64>,
    ) -> Option<(u64, usize)> {
        let mut position = cursor.word.load(Relaxed);
        let mut patience = Patience::new();
        loop {
            // Up to the end of the lap, so that the positions are numbers in a row; the caller comes again
            // for the rest.
            let most = count.min(self.capacity() - self.slots.index(position));
            let mut ready = 0;
            let mut seen = Look::Ready;
            while ready < most {
                seen = look(&self.slots, position + ready as u64);
                if seen != Look::Ready {
                    break;
                }
                ready += 1;
            }
            if ready > 0 {
                if cursor.advance(position, self.slots.next(position + ready as u64 - 1)) {
                    return Some((position, ready));
                }
                patience.retry();
                position = cursor.word.load(Relaxed);
            } else if seen == Look::Ahead {
                position = cursor.word.load(Relaxed);
            } else {
                position = stuck(self, position, &mut patience)?;
            }
        }
    }

    /// The slot at the tail still holds a value of the lap before. `None`: because the ring is full. Otherwise its
    /// reader is about to leave, or the tail has moved; in both cases the place to look next.
    #[cold]
    fn full_or_moved(&self, tail: u64, patience: &mut Patience) -> Option<u64> {
        let free = || self.capacity() - self.slots.distance(self.head.word.load(Relaxed), tail);
        let full = self.slots.next_lap(self.head.word.load(Relaxed)) == tail;
        if (full || left_out("RING_FULL_IS_EXACT")) && !self.tail.lull.linger(tail, PAUSES_MAX, free) {
            return None;
        }
        patience.wait();
        Some(self.tail.word.load(Relaxed))
    }

    /// The slot at the head has no value yet. `None`: because the ring is empty. Otherwise its writer is about to
    /// publish, or the head has moved; in both cases the place to look next.
    #[cold]
    fn empty_or_moved(&self, head: u64, patience: &mut Patience) -> Option<u64> {
        let waiting = || self.slots.distance(head, self.tail.word.load(Relaxed));
        let empty = self.tail.word.load(Relaxed) == head;
        if (empty || left_out("RING_EMPTY_IS_EXACT")) && !self.head.lull.linger(head, PAUSES_MAX, waiting) {
            return None;
        }
        patience.wait();
        Some(self.head.word.load(Relaxed))
    }
}

/// Positions a batch has claimed and not yet taken. Should the taker panic, the rest is dropped here, so
/// that the slots go on to their next lap and nobody waits for them.
struct Claimed<'a, T> {
    ring: &'a Ring<T>,
    position: u64,
    left: usize,
}

impl<T> Claimed<'_, T> {
    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        let position = self.position;
        self.position += 1;
        self.left -= 1;
        // SAFETY: `claim_many` saw `look_full` say Ready for this position and moved the cursor past it;
        // stepping on above makes sure that it is taken once.
        Some(unsafe { self.ring.slots.take(position) })
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        drop_all(|| self.next());
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Everything pushed and not popped is dropped here, once.
        drop_all(|| self.pop());
    }
}

// A panic of a user's code cannot leave a ring half changed: none runs between two of its steps, and a batch
// interrupted by one is finished by `Claimed`.
impl<T> UnwindSafe for Ring<T> {}
impl<T> RefUnwindSafe for Ring<T> {}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::slots::POSITION_BITS;

    #[test]
    fn a_ring_goes_on_where_its_positions_begin_anew() {
        for capacity in [1usize, 2, 3, 5, 100] {
            let lap_bits = capacity.next_power_of_two().trailing_zeros();
            let ring = Ring::aged(capacity, (1u64 << (POSITION_BITS - lap_bits)) - 2);
            let mut next = 0;
            for item in 0..capacity as u64 * 5 {
                assert_eq!(ring.push(item), Ok(()));
                if ring.is_full() {
                    assert_eq!(ring.push(u64::MAX), Err(u64::MAX), "capacity {capacity}");
                    assert_eq!(ring.len(), capacity);
                    while let Some(item) = ring.pop() {
                        assert_eq!(item, next, "capacity {capacity}");
                        next += 1;
                    }
                    assert!(ring.is_empty());
                }
            }
            assert_eq!(next, capacity as u64 * 5, "capacity {capacity}");
        }
    }

    #[test]
    fn batches_cross_the_place_where_positions_begin_anew() {
        let ring = Ring::aged(3, (1u64 << (POSITION_BITS - 2)) - 1);
        let mut out = Vec::new();
        for round in 0..10u32 {
            let mut batch: VecDeque<u32> = (round * 2..round * 2 + 2).collect();
            assert_eq!(ring.push_batch(&mut batch), 2);
            assert_eq!(ring.pop_batch(&mut out, 10), 2);
        }
        assert_eq!(out, (0..20).collect::<Vec<u32>>());
    }

    #[test]
    fn a_panic_while_a_batch_is_handed_out_wedges_nobody() {
        let ring = Ring::with_capacity(4).expect("a capacity for a test");
        while ring.push(std::rc::Rc::new(())).is_ok() {}
        let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            ring.pop_each(4, |_| panic!("as a user's code may"));
        }));
        assert!(caught.is_err());
        assert!(ring.is_empty(), "the rest of the batch is dropped");
        for _ in 0..8 {
            assert!(ring.push(std::rc::Rc::new(())).is_ok());
            assert!(ring.pop().is_some());
        }
    }
}
