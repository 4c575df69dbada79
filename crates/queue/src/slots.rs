//! The numbered slots behind `Ring` and `Gate`, and who may touch each one when.
//!
//! ```text
//! position 46 bits     lap ───────────────┐ ┌─ index, always below the capacity
//!                     ┌───────────────────┬───────────┐
//!                     │       lap         │   index   │
//!                     └───────────────────┴───────────┘
//! turn word           ┌───────────────────────────────┬──────┬──────┐
//!  of the slot        │           position            │ mark │ full │
//!                     └───────────────────────────────┴──────┴──────┘
//! ```
//!
//! A slot's *turn* says whose turn it is: `free(p)` waits for the writer of position `p`, `full(p)` for its reader,
//! who hands it on as `free(p + one lap)`. Claiming a position is the business of the queue's cursor; the turn then
//! carries the value across. Because `full` is a bit and not a neighbouring number, a capacity of one works, and
//! because a lap is counted apart from the index, any capacity is honoured exactly and no division is needed.
//!
//! Not here: which position is next (`ring.rs`, `gate.rs`).

use crate::edge::Edge;
use crate::lines::Lines;
use crate::sync::{AtomicU64, UnsafeCell};
use core::fmt;
use core::mem::MaybeUninit;

/// The value's bytes travel from the writer of a position to its reader.
pub(crate) static SLOT_PUBLISH: Edge = Edge::new("SLOT_PUBLISH");
/// The reader is done with the slot's bytes before the writer of the next lap overwrites them.
pub(crate) static SLOT_RECYCLE: Edge = Edge::new("SLOT_RECYCLE");

/// Bits of a position. At a hundred million items a second it repeats after eight days (four, if the capacity is
/// just above a power of two); a repeat does harm only to a thread that slept through exactly that many items
/// between two of its instructions.
pub(crate) const POSITION_BITS: u32 = 46;
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
const FULL: u64 = 1;
const MARK: u64 = 2;
const TURN_SHIFT: u32 = 2;

/// The largest capacity of a bounded queue: 67 million.
pub const CAPACITY_MAX: usize = 1 << 26;

/// Why a queue of the asked capacity cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapacityError {
    /// A queue needs room for at least one item.
    Zero,
    /// More than [`CAPACITY_MAX`].
    TooLarge {
        /// What was asked for.
        asked: usize,
    },
    /// The allocator has no room for so many slots.
    OutOfMemory {
        /// What was asked for.
        asked: usize,
    },
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => write!(f, "capacity: expected 1 to {CAPACITY_MAX}, got 0"),
            Self::TooLarge { asked } => write!(
                f,
                "capacity: expected 1 to {CAPACITY_MAX}, got {asked}; use several queues or smaller bursts"
            ),
            Self::OutOfMemory { asked } => {
                write!(f, "capacity: no memory for {asked} slots; ask for fewer")
            }
        }
    }
}

impl core::error::Error for CapacityError {}

/// One slot. `value` belongs to the claimer of the position that `turn` names, and to nobody else.
struct Slot<T> {
    /// Written by the claimer of a position only; read by everybody.
    turn: AtomicU64,
    /// Whole exactly while `turn` is full.
    value: UnsafeCell<MaybeUninit<T>>,
}

/// What a look at a slot tells about a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is this position's turn: claim it.
    Ready,
    /// The slot still serves an earlier turn: the other side has to act first.
    Behind,
    /// The slot serves a later turn: the cursor that led here is old.
    Ahead,
}

/// A fixed number of slots and the arithmetic of their positions.
pub(crate) struct Slots<T> {
    slots: Lines<Slot<T>>,
    /// Positions per lap: the capacity rounded up to a power of two. Indices from the capacity on are skipped.
    lap: u64,
}

// SAFETY: the slots hand values from thread to thread by value (`T: Send`) and never share one by reference; the
// claim of a position makes its claimer the only user of the cell.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: owning the slots is owning the values in them.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> Slots<T> {
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        if capacity == 0 {
            return Err(CapacityError::Zero);
        }
        if capacity > CAPACITY_MAX {
            return Err(CapacityError::TooLarge { asked: capacity });
        }
        let slots = Lines::try_new(capacity, |index| Slot {
            turn: AtomicU64::new(free(index as u64)),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        });
        let slots = slots.ok_or(CapacityError::OutOfMemory { asked: capacity })?;
        Ok(Self { slots, lap: (capacity as u64).next_power_of_two() })
    }

    /// Moves an empty, unused set of slots to the lap of `position`, so that tests need not count that far.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, lap: u64) -> u64 {
        let base = (lap * self.lap) & POSITION_MASK;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.turn = AtomicU64::new(free(base + index as u64));
        }
        base
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    pub(crate) fn index(&self, position: u64) -> usize {
        (position & (self.lap - 1)) as usize
    }

    /// The position after this one.
    #[inline(always)]
    pub(crate) fn next(&self, position: u64) -> u64 {
        let index = position & (self.lap - 1);
        if index + 1 < self.slots.len() as u64 { position + 1 } else { self.next_lap(position - index) }
    }

    /// The same slot one lap later.
    #[inline(always)]
    pub(crate) fn next_lap(&self, position: u64) -> u64 {
        (position + self.lap) & POSITION_MASK
    }

    /// How many items lie between two cursors read one after the other; clamped, since they may have moved.
    pub(crate) fn distance(&self, head: u64, tail: u64) -> usize {
        let laps = (tail.wrapping_sub(head & !(self.lap - 1)) & POSITION_MASK) >> self.lap.trailing_zeros();
        let count = laps as i64 * self.slots.len() as i64 + self.index(tail) as i64 - self.index(head) as i64;
        // A torn pair of cursors can look like most of the number range.
        if laps > POSITION_MASK >> (self.lap.trailing_zeros() + 1) {
            return 0;
        }
        count.clamp(0, self.slots.len() as i64) as usize
    }

    #[inline(always)]
    fn at(&self, position: u64) -> &Slot<T> {
        let index = self.index(position);
        debug_assert!(index < self.slots.len());
        // SAFETY: positions come from `next` and `advance` alone, which skip every index from the capacity on,
        // so the index is below the number of slots.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// Asks for the cache line two lines after this position's: its slot will be written soon, and the
    /// transfer from the other core can run beside the work on this one.
    #[inline(always)]
    pub(crate) fn expect_after(&self, position: u64) {
        let slots_ahead = const { 128 / (size_of::<Slot<T>>() + 1) + 1 };
        let index = (self.index(position) + slots_ahead) & (self.lap as usize - 1);
        crate::sync::expect_to_write(self.slots.as_ptr().wrapping_add(index).cast());
    }

    /// What the writer of `position` finds there.
    #[inline(always)]
    pub(crate) fn look_free(&self, position: u64) -> Look {
        // SLOT_RECYCLE, writer's end (Acquire): the reader of the lap before has left the cell.
        look(self.at(position).turn.load(SLOT_RECYCLE.acquire()), free(position))
    }

    /// What the reader of `position` finds there.
    #[inline(always)]
    pub(crate) fn look_full(&self, position: u64) -> Look {
        // SLOT_PUBLISH, reader's end (Acquire): the value is whole.
        look(self.at(position).turn.load(SLOT_PUBLISH.acquire()) & !MARK, full(position))
    }

    /// Writes the value of a position and passes it on to its reader, with a mark if `marked`.
    ///
    /// # Safety
    /// The caller has claimed `position` after `look_free` said `Ready`, and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, position: u64, value: T, marked: bool) {
        // SAFETY: the caller has claimed the position, and to hand over a value that is there does not unwind.
        unsafe { self.put_with(position, || value, marked) };
    }

    /// As `put`, with a value that is made in its place.
    ///
    /// # Safety
    /// As for `put`, and `make` does not unwind.
    #[inline(always)]
    pub(crate) unsafe fn put_with(&self, position: u64, make: impl FnOnce() -> T, marked: bool) {
        let slot = self.at(position);
        slot.value.with_mut(|cell| {
            // SAFETY: the claim makes this thread the only user of the cell until PUBLISH below; `look_free`
            // received SLOT_RECYCLE, so the last reader is gone and there is nothing to drop.
            unsafe { (*cell).write(make()) };
        });
        let mark = if marked { MARK } else { 0 };
        // SLOT_PUBLISH, writer's end (Release): the value travels with the turn.
        slot.turn.store(full(position) | mark, SLOT_PUBLISH.release());
    }

    /// Takes the value of a position and passes the slot on to the next lap.
    ///
    /// # Safety
    /// The caller has claimed `position` after `look_full` said `Ready`, and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, position: u64) -> T {
        // SAFETY: the caller has claimed the position, and the value is moved out here only.
        let value = unsafe { self.read(position) };
        // SAFETY: the caller has claimed the position, and the value has just been moved out.
        unsafe { self.leave(position) };
        value
    }

    /// Moves the value of a position out of its slot, which is still the caller's.
    ///
    /// # Safety
    /// The caller has claimed `position` after `look_full` said `Ready`, and nobody else moves the value out.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, position: u64) -> T {
        self.at(position).value.with(|cell| {
            // SAFETY: `look_full` received SLOT_PUBLISH, so the value is whole, and the claim makes this thread its
            // only reader.
            unsafe { cell.cast::<T>().read() }
        })
    }

    /// Passes the slot of a position on to the next lap. Its value counts as gone.
    ///
    /// # Safety
    /// The caller has claimed `position` after `look_full` said `Ready`, and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn leave(&self, position: u64) {
        // SLOT_RECYCLE, reader's end (Release): what the reader did there is over before the next lap's writer starts.
        self.at(position).turn.store(free(self.next_lap(position)), SLOT_RECYCLE.release());
    }
}

/// What only a gate asks for.
#[cfg(feature = "std")]
impl<T> Slots<T> {
    /// Where the value of a position lies, for its claimer: until it leaves the slot.
    #[inline(always)]
    pub(crate) fn value(&self, position: u64) -> *mut T {
        self.at(position).value.with_mut(|cell| cell.cast())
    }

    /// How many positions there have been before this one, since the start of the queue.
    pub(crate) fn count(&self, position: u64) -> u64 {
        (position >> self.lap.trailing_zeros()) * self.slots.len() as u64 + (position & (self.lap - 1))
    }

    /// The position `count` places further; `count` is at most the capacity.
    pub(crate) fn advance(&self, position: u64, count: usize) -> u64 {
        let index = self.index(position);
        let lap = position - index as u64;
        let sum = index + count;
        match sum.checked_sub(self.slots.len()) {
            None => lap + sum as u64,
            Some(over) => self.next_lap(lap) + over as u64,
        }
    }

    /// Whether the slot waits for the writer of `position`. A glance: it receives nothing.
    #[inline(always)]
    pub(crate) fn is_free(&self, position: u64) -> bool {
        self.at(position).turn.load(crate::sync::Ordering::Relaxed) == free(position)
    }

    /// Whether the slot waits for the reader of `position`. A glance: it receives nothing.
    #[inline(always)]
    pub(crate) fn is_full(&self, position: u64) -> bool {
        self.at(position).turn.load(crate::sync::Ordering::Relaxed) & !MARK == full(position)
    }

    /// Whether the writer of `position` marked it; for its reader, before it takes the value.
    #[inline(always)]
    pub(crate) fn is_marked(&self, position: u64) -> bool {
        self.at(position).turn.load(crate::sync::Ordering::Relaxed) & MARK != 0
    }
}

impl<T> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

/// Waiting for another thread to finish the step it is in: a few pauses, then the scheduler.
///
/// The other thread is between claiming and passing on a slot, a handful of instructions. If it lost its processor
/// there, spinning on would only keep it from getting one back.
#[derive(Debug)]
pub(crate) struct Patience(u32);

impl Patience {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    /// For a lost race: somebody else got on, so the wait stays short.
    #[inline]
    pub(crate) fn retry(&mut self) {
        let pauses = 1u32 << self.0.min(4);
        self.0 = self.0.saturating_add(1);
        for _ in 0..pauses {
            crate::sync::spin_loop();
        }
    }

    /// For a step that has to come from a certain thread.
    #[inline]
    pub(crate) fn wait(&mut self) {
        match self.0 {
            0..4 => self.retry(),
            4..68 => {
                self.0 += 1;
                crate::sync::yield_now();
            }
            // It has been without a processor for long: stop asking for one in its place.
            _ => crate::sync::nap(),
        }
    }
}

/// Drops what `next` gives until it gives nothing, also when one of the values panics while it is dropped.
pub(crate) fn drop_all<T>(next: impl FnMut() -> Option<T>) {
    struct Rest<T, F: FnMut() -> Option<T>>(F);
    impl<T, F: FnMut() -> Option<T>> Drop for Rest<T, F> {
        fn drop(&mut self) {
            while (self.0)().is_some() {}
        }
    }
    let mut rest = Rest(next);
    while (rest.0)().is_some() {}
}

#[inline(always)]
const fn free(position: u64) -> u64 {
    position << TURN_SHIFT
}

#[inline(always)]
const fn full(position: u64) -> u64 {
    position << TURN_SHIFT | FULL
}

#[inline(always)]
fn look(turn: u64, wanted: u64) -> Look {
    if turn == wanted { Look::Ready } else { look_closely(turn, wanted) }
}

/// Apart, so that the way of a slot that is ready is one branch, well predicted.
#[cold]
#[inline(never)]
fn look_closely(turn: u64, wanted: u64) -> Look {
    let (here, there) = (turn >> TURN_SHIFT, wanted >> TURN_SHIFT);
    // At the same position, free comes before full.
    if is_before(here, there) || (here == there && turn < wanted) { Look::Behind } else { Look::Ahead }
}

/// Whether one position comes before another. They run round a circle; the shorter way tells.
#[inline(always)]
pub(crate) fn is_before(one: u64, other: u64) -> bool {
    ((one.wrapping_sub(other) << (64 - POSITION_BITS)) as i64) < 0
}
