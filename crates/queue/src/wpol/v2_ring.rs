//! The ring of version 2: claim and publish are one step, so a process killed anywhere cannot stop the others.
//!
//! ```text
//! entry    63 ........ 32 31 ......... 0        position p, lap L = p / capacity
//!          |  sequence   |  slot index |        2L      empty, waits for the push of position p
//!                                               2L + 1  full
//!                                               2L + 2  empty again: the same as 2(L + 1)
//! ```
//!
//! One CAS of the entry fills or empties it. `tail` and `head` are hints: never ahead of the truth, perhaps behind
//! it, and moved on by anybody who finds them behind. Helping must happen however far behind they are. A first
//! draft helped only when one behind, and stood still once a producer had died before moving the tail and its item
//! had been taken meanwhile. Zeroed memory is a valid empty ring of any size, one place included.
//!
//! The sequence comes round after 2^31 laps; a peer would have to sleep through all of them between a load and its
//! CAS to be fooled, which is why lanes have at least 64 places.
//!
//! Not here: what an index stands for (`v2_slots.rs`), sleeping until there is something (`v2_wait.rs`).

use super::layout::v2_control as control;
use super::memory::Memory;
use super::retry::Retry;
use crate::edge::{Edge, left_out};
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// From push to pop: what the slot index stands for, up to its state word.
static WPOL2_ENTRY: Edge = Edge::new("WPOL2_ENTRY");
/// From whoever saw a position filled to the next producer, who must not see the place as it was a lap before.
static WPOL2_TAIL: Edge = Edge::new("WPOL2_TAIL");
/// From whoever saw a position emptied to the next consumer, who must not see the place as it was before that.
static WPOL2_HEAD: Edge = Edge::new("WPOL2_HEAD");

/// How far beyond a hint a place can be, in steps of its sequence: two per lap. Whoever fills or empties a place
/// starts at the hint and walks at most 2 x (capacity + count) + 64 places from there, which is four laps of the
/// smallest lane. Beyond this limit a hint was not left behind but put there.
const AHEAD_MAX: i32 = 1_024;

/// Why nothing was pushed or popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingError {
    /// Exact when it was seen.
    Full,
    /// Exact when it was seen.
    Empty,
    /// Others won too often; says nothing about the level.
    Contended,
    /// A sequence number that no honest peer can have left.
    Corrupt,
}

/// Where one ring lies. The words themselves are in shared memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ring {
    control: usize,
    entries: usize,
    log2: u32,
}

impl Ring {
    pub(super) fn new(control: usize, entries: usize, log2: u32) -> Self {
        Self { control, entries, log2 }
    }

    /// Puts one index in.
    #[inline]
    pub(super) fn push(&self, memory: &Memory, slot: u32) -> Result<(), RingError> {
        let position = self.fill_next(memory, slot)?;
        advance(memory.u64_at(self.control + control::TAIL), position, &WPOL2_TAIL);
        Ok(())
    }

    /// Takes the oldest index out.
    #[inline]
    #[cfg(test)]
    pub(super) fn pop(&self, memory: &Memory) -> Result<u32, RingError> {
        self.pop_within(memory, &mut self.retry())
    }

    /// As `pop`, with attempts that several calls share.
    #[inline]
    pub(super) fn pop_within(&self, memory: &Memory, retry: &mut Retry) -> Result<u32, RingError> {
        let (position, slot) = self.empty_next(memory, retry)?;
        advance(memory.u64_at(self.control + control::HEAD), position, &WPOL2_HEAD);
        Ok(slot)
    }

    /// The step of a push that counts; moving the hint afterwards is a courtesy that the dead cannot do.
    pub(super) fn fill_next(&self, memory: &Memory, slot: u32) -> Result<u64, RingError> {
        let hint = memory.u64_at(self.control + control::TAIL);
        let mut retry = self.retry();
        while retry.again() {
            // WPOL2_TAIL, producer's end: the place is seen no older than whoever moved the hint saw it.
            let tail = hint.load(WPOL2_TAIL.acquire());
            let place = self.place(memory, tail);
            let word = place.load(Relaxed);
            match self.ahead(word, tail, 0) {
                0 => {
                    // WPOL2_ENTRY, producer's end: the slot's state and contents travel with the entry.
                    let full = entry(sequence(word).wrapping_add(1), slot);
                    if place.compare_exchange(word, full, WPOL2_ENTRY.release(), Relaxed).is_ok() {
                        return Ok(tail);
                    }
                    retry.step_back();
                }
                ahead @ 1.. => help(hint, tail, ahead, &WPOL2_TAIL)?,
                -1 => return Err(RingError::Full),
                _ => return Err(RingError::Corrupt),
            }
        }
        Err(RingError::Contended)
    }

    /// The step of a pop that counts: (position, index).
    pub(super) fn empty_next(&self, memory: &Memory, retry: &mut Retry) -> Result<(u64, u32), RingError> {
        let hint = memory.u64_at(self.control + control::HEAD);
        while retry.again() {
            // WPOL2_HEAD, consumer's end: the place is seen no older than whoever moved the hint saw it.
            let head = hint.load(WPOL2_HEAD.acquire());
            let place = self.place(memory, head);
            // WPOL2_ENTRY, consumer's end: from here on the slot is seen as it was when it was pushed, or newer.
            let word = place.load(WPOL2_ENTRY.acquire());
            match self.ahead(word, head, 1) {
                0 => {
                    let empty = entry(sequence(word).wrapping_add(1), 0);
                    if place.compare_exchange(word, empty, Relaxed, Relaxed).is_ok() {
                        return Ok((head, word as u32));
                    }
                    retry.step_back();
                }
                ahead @ 1.. => help(hint, head, ahead, &WPOL2_HEAD)?,
                -1 => return Err(RingError::Empty),
                _ => return Err(RingError::Corrupt),
            }
        }
        Err(RingError::Contended)
    }

    /// Puts up to `count` in, in order, until something is in the way; others may come in between. `item` is asked
    /// for each index right before its push is tried, perhaps more than once, and may call the rest off. Says how
    /// many went in, and what stopped it short.
    pub(super) fn push_batch(
        &self,
        memory: &Memory,
        count: usize,
        mut item: impl FnMut(usize) -> Option<u32>,
    ) -> (usize, Option<RingError>) {
        let hint = memory.u64_at(self.control + control::TAIL);
        let mut retry = Retry::around(self.capacity().saturating_add(count as u32));
        let mut cursor = hint.load(WPOL2_TAIL.acquire());
        let mut done = 0;
        let mut stopped = None;
        while done < count && stopped.is_none() {
            if !retry.again() {
                stopped = Some(RingError::Contended);
                break;
            }
            let place = self.place(memory, cursor);
            let word = place.load(Relaxed);
            match self.ahead(word, cursor, 0) {
                0 => {
                    let Some(slot) = item(done) else {
                        stopped = Some(RingError::Contended);
                        break;
                    };
                    let full = entry(sequence(word).wrapping_add(1), slot);
                    // A lost race leaves the place filled, and the next look steps over it.
                    if place.compare_exchange(word, full, WPOL2_ENTRY.release(), Relaxed).is_ok() {
                        done += 1;
                        cursor = cursor.wrapping_add(1);
                    }
                }
                ahead @ 1.. => match step_over(hint, cursor, ahead, &WPOL2_TAIL) {
                    Ok(next) => cursor = next,
                    Err(corrupt) => stopped = Some(corrupt),
                },
                -1 => stopped = Some(RingError::Full),
                _ => stopped = Some(RingError::Corrupt),
            }
        }
        raise(hint, cursor, &WPOL2_TAIL);
        (done, stopped)
    }

    /// Takes out as many as there are and fit, oldest first. Says how many, or why none.
    pub(super) fn pop_batch(
        &self,
        memory: &Memory,
        into: &mut [u32],
        retry: &mut Retry,
    ) -> Result<usize, RingError> {
        let hint = memory.u64_at(self.control + control::HEAD);
        let mut cursor = hint.load(WPOL2_HEAD.acquire());
        let mut done = 0;
        let mut stopped = None;
        while done < into.len() && stopped.is_none() && retry.again() {
            let place = self.place(memory, cursor);
            let word = place.load(WPOL2_ENTRY.acquire());
            match self.ahead(word, cursor, 1) {
                0 => {
                    let empty = entry(sequence(word).wrapping_add(1), 0);
                    if place.compare_exchange(word, empty, Relaxed, Relaxed).is_ok() {
                        into[done] = word as u32;
                        done += 1;
                        cursor = cursor.wrapping_add(1);
                    }
                }
                ahead @ 1.. => match step_over(hint, cursor, ahead, &WPOL2_HEAD) {
                    Ok(next) => cursor = next,
                    Err(corrupt) => stopped = Some(corrupt),
                },
                -1 => stopped = Some(RingError::Empty),
                _ => stopped = Some(RingError::Corrupt),
            }
        }
        raise(hint, cursor, &WPOL2_HEAD);
        // What was taken must be handed on. A ring found corrupt on the way is found so again by the next call.
        if done == 0 && !into.is_empty() { Err(stopped.unwrap_or(RingError::Contended)) } else { Ok(done) }
    }

    /// What a pop would take out, if nothing comes between.
    #[inline]
    pub(super) fn peek(&self, memory: &Memory) -> Option<u32> {
        let head = memory.u64_at(self.control + control::HEAD).load(Relaxed);
        let word = self.place(memory, head).load(Relaxed);
        (self.ahead(word, head, 1) == 0).then_some(word as u32)
    }

    /// Whether a pop would find something, or at least not find the ring empty.
    pub(super) fn has_item(&self, memory: &Memory) -> bool {
        let head = memory.u64_at(self.control + control::HEAD).load(WPOL2_HEAD.acquire());
        self.ahead(self.place(memory, head).load(Relaxed), head, 1) != -1
    }

    /// Whether a push would find room, or at least not find the ring full.
    pub(super) fn has_space(&self, memory: &Memory) -> bool {
        let tail = memory.u64_at(self.control + control::TAIL).load(WPOL2_TAIL.acquire());
        self.ahead(self.place(memory, tail).load(Relaxed), tail, 0) != -1
    }

    /// Indices inside, from the hints: may be stale and, for a moment, off by those in flight.
    pub(super) fn len(&self, memory: &Memory) -> u32 {
        let head = memory.u64_at(self.control + control::HEAD).load(Relaxed);
        let tail = memory.u64_at(self.control + control::TAIL).load(Relaxed);
        (tail.wrapping_sub(head) as i64).clamp(0, i64::from(self.capacity())) as u32
    }

    /// Calls `visit` with every index that is in the ring now.
    pub(super) fn scan(&self, memory: &Memory, mut visit: impl FnMut(u32)) {
        for position in 0..u64::from(self.capacity()) {
            let word = self.place(memory, position).load(Relaxed);
            if sequence(word) & 1 == 1 {
                visit(word as u32);
            }
        }
    }

    /// Makes an empty ring whose next position is `position`. Position 0 is what zeroed memory says anyway.
    pub(super) fn format(&self, memory: &Memory, position: u64) {
        memory.u64_at(self.control + control::TAIL).store(position, Relaxed);
        memory.u64_at(self.control + control::HEAD).store(position, Relaxed);
        for next in 0..u64::from(self.capacity()) {
            let next = position.wrapping_add(next);
            self.place(memory, next).store(entry(self.lap(next).wrapping_mul(2), 0), Relaxed);
        }
    }

    /// Attempts for one call.
    pub(super) fn retry(&self) -> Retry {
        Retry::around(self.capacity())
    }

    /// Attempts for a call that takes indices out until one means something: the ring holds no more stale ones than
    /// it has places, and each may need an attempt of its own.
    pub(super) fn retry_over_stale(&self, count: usize) -> Retry {
        Retry::around(self.capacity().saturating_mul(2).saturating_add(count as u32))
    }

    /// Places.
    pub(super) fn capacity(&self) -> u32 {
        1 << self.log2
    }

    /// Offset of the control block.
    pub(super) fn control(&self) -> usize {
        self.control
    }

    /// Offset of the first entry.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// The entry of a position.
    #[inline]
    pub(super) fn place<'m>(&self, memory: &'m Memory, position: u64) -> &'m AtomicU64 {
        let index = position as usize & (self.capacity() as usize - 1);
        memory.u64_at(self.entries + 8 * index)
    }

    /// How far the entry is beyond "empty" (0) or "full" (1) of the position's lap.
    #[inline]
    fn ahead(&self, word: u64, position: u64, full: u32) -> i32 {
        let awaited = self.lap(position).wrapping_mul(2).wrapping_add(full);
        sequence(word).wrapping_sub(awaited) as i32
    }

    /// The lap, modulo 2^32: only differences matter.
    fn lap(&self, position: u64) -> u32 {
        (position >> self.log2) as u32
    }

    /// The atomic words of this ring: (offset, width).
    pub(super) fn words(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let entries = self.entries;
        super::layout::words(&super::layout::V2_CONTROL, self.control, control::BYTES)
            .chain((0..self.capacity() as usize).map(move |index| (entries + 8 * index, 8)))
    }
}

fn sequence(word: u64) -> u32 {
    (word >> 32) as u32
}

fn entry(sequence: u32, slot: u32) -> u64 {
    u64::from(sequence) << 32 | u64::from(slot)
}

/// Moves a hint past `position`, unless somebody has done so already.
#[inline]
fn advance(hint: &AtomicU64, position: u64, edge: &Edge) -> bool {
    // WPOL2_TAIL and WPOL2_HEAD, giving ends: the place was filled or emptied, or seen so, before this.
    hint.compare_exchange(position, position.wrapping_add(1), edge.release(), Relaxed).is_ok()
}

/// Moves on a hint whose owner died or is slow: the place is `ahead` steps beyond it.
fn help(hint: &AtomicU64, position: u64, ahead: i32, edge: &Edge) -> Result<(), RingError> {
    if ahead > 1 && left_out("WPOL2_HELP") {
        return Ok(());
    }
    // If the hint had moved on meanwhile, this caller slept, and the place may be ahead by any number of laps.
    if advance(hint, position, edge) && ahead > AHEAD_MAX { Err(RingError::Corrupt) } else { Ok(()) }
}

/// The next position for a batch whose cursor stands before a place `ahead` of it.
fn step_over(hint: &AtomicU64, cursor: u64, ahead: i32, edge: &Edge) -> Result<u64, RingError> {
    if ahead <= AHEAD_MAX {
        return Ok(cursor.wrapping_add(1));
    }
    help(hint, cursor, ahead, edge)?;
    Ok(hint.load(edge.acquire()))
}

/// Moves a hint up to `cursor`, never back.
fn raise(hint: &AtomicU64, cursor: u64, edge: &Edge) {
    let mut seen = hint.load(Relaxed);
    // A hint may stay behind, so giving up after a few lost rounds is fine: everybody helps.
    for _ in 0..4 {
        if cursor.wrapping_sub(seen) as i64 <= 0 {
            return;
        }
        // WPOL2_TAIL and WPOL2_HEAD, giving ends, for every place the cursor went over.
        match hint.compare_exchange(seen, cursor, edge.release(), Relaxed) {
            Ok(_) => return,
            Err(newer) => seen = newer,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn ring(log2: u32, position: u64) -> (Memory, Ring) {
        let ring = Ring::new(0, control::BYTES, log2);
        let memory = Memory::heap(control::BYTES + (8 << log2)).unwrap();
        ring.format(&memory, position);
        (memory, ring)
    }

    fn push_batch(ring: &Ring, memory: &Memory, slots: &[u32]) -> (usize, Option<RingError>) {
        ring.push_batch(memory, slots.len(), |at| slots.get(at).copied())
    }

    #[test]
    fn rings_of_every_size_and_age_fill_and_empty_exactly() {
        for log2 in [0, 1, 3] {
            let ages =
                [0, 1 << 31, (1 << 32) - 1, (1_u64 << 32) << log2, 1 << 63, (1 << 63) - 1, u64::MAX - 2];
            for position in ages {
                let (memory, ring) = ring(log2, position);
                for lap in 0..5 {
                    assert_eq!(ring.pop(&memory), Err(RingError::Empty));
                    for slot in 0..ring.capacity() {
                        ring.push(&memory, slot + lap).unwrap();
                    }
                    assert_eq!(ring.push(&memory, 9), Err(RingError::Full));
                    assert_eq!(ring.len(&memory), ring.capacity());
                    for slot in 0..ring.capacity() {
                        assert_eq!(ring.pop(&memory), Ok(slot + lap));
                    }
                }
            }
        }
    }

    #[test]
    fn batches_keep_their_order_and_stop_at_the_limit() {
        let (memory, ring) = ring(2, (1 << 63) - 2);
        assert_eq!(push_batch(&ring, &memory, &[1, 2, 3]), (3, None));
        assert_eq!(push_batch(&ring, &memory, &[4, 5, 6]), (1, Some(RingError::Full)));
        assert_eq!(push_batch(&ring, &memory, &[5]), (0, Some(RingError::Full)));
        let mut out = [0; 8];
        assert_eq!(ring.pop_batch(&memory, &mut out[..3], &mut ring.retry()), Ok(3));
        assert_eq!(ring.pop_batch(&memory, &mut out[3..], &mut ring.retry()), Ok(1));
        assert_eq!(out[..4], [1, 2, 3, 4]);
        assert_eq!(ring.pop_batch(&memory, &mut out, &mut ring.retry()), Err(RingError::Empty));
        assert_eq!(push_batch(&ring, &memory, &[]), (0, None));
        assert_eq!(ring.push_batch(&memory, 2, |_| None), (0, Some(RingError::Contended)));
    }

    #[test]
    fn hints_left_far_behind_by_the_dead_are_brought_forward() {
        let (memory, ring) = ring(2, 0);
        for lap in 0..3 {
            for slot in 0..4 {
                ring.push(&memory, slot + lap).unwrap();
                ring.pop(&memory).unwrap();
            }
        }
        memory.u64_at(control::TAIL).store(0, Relaxed);
        memory.u64_at(control::HEAD).store(3, Relaxed);
        assert_eq!(ring.pop(&memory), Err(RingError::Empty));
        ring.push(&memory, 42).unwrap();
        assert_eq!(ring.pop(&memory), Ok(42));
        assert_eq!(memory.u64_at(control::TAIL).load(Relaxed), 13);
    }

    #[test]
    fn impossible_sequences_are_reported_and_loops_end() {
        let (memory, ring) = ring(2, 1 << 20);
        ring.place(&memory, 0).store(entry(3, 0), Relaxed);
        assert_eq!(ring.push(&memory, 0), Err(RingError::Corrupt));
        assert_eq!(ring.pop(&memory), Err(RingError::Corrupt));
        for index in 0..4 {
            ring.place(&memory, index).store(entry(u32::MAX / 2, 0), Relaxed);
        }
        assert_eq!(ring.push(&memory, 0), Err(RingError::Corrupt));
        assert_eq!(ring.pop(&memory), Err(RingError::Corrupt));
    }

    #[test]
    fn a_hint_put_far_back_is_called_corrupt_and_one_left_behind_is_not() {
        for far in [600, 1 << 20] {
            let (memory, ring) = ring(2, far * 4);
            ring.push(&memory, 5).unwrap();
            for hint in [control::TAIL, control::HEAD] {
                memory.u64_at(hint).store(0, Relaxed);
            }
            assert_eq!(push_batch(&ring, &memory, &[6]), (0, Some(RingError::Corrupt)));
            memory.u64_at(control::TAIL).store(0, Relaxed);
            assert_eq!(ring.push(&memory, 6), Err(RingError::Corrupt));
            assert_eq!(ring.pop_batch(&memory, &mut [0; 2], &mut ring.retry()), Err(RingError::Corrupt));
            memory.u64_at(control::HEAD).store(0, Relaxed);
            assert_eq!(ring.pop(&memory), Err(RingError::Corrupt));
        }
    }

    #[test]
    fn a_scan_visits_exactly_what_is_inside() {
        let (memory, ring) = ring(2, 6);
        push_batch(&ring, &memory, &[7, 8, 9]);
        ring.pop(&memory).unwrap();
        let mut seen = alloc::vec::Vec::new();
        ring.scan(&memory, |slot| seen.push(slot));
        seen.sort_unstable();
        assert_eq!(seen, [8, 9]);
    }
}
