//! The cells of a `StealQueue`, and the count by which the owner knows that thieves have left them.
//!
//! The buffer does not know which positions hold items: that is decided by the queue's claim word. It only
//! maps positions to cells, moves bytes, and counts. Cells are plain memory; the queue sees to it that
//! nobody writes one while another reads it, and the models watch that it does.

use crate::edge::Edge;
use crate::sync::{AtomicU32, UnsafeCell};
use alloc::boxed::Box;
use core::mem::MaybeUninit;
use crossbeam_utils::CachePadded;

/// A thief is done with the cells it claimed before the owner writes or frees them.
static STEAL_VACATE: Edge = Edge::new("STEAL_VACATE");

pub(crate) struct Buffer<T> {
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
    mask: u32,
    /// How many items thieves have claimed from this buffer and finished copying. Thieves add, the owner reads.
    copied: CachePadded<AtomicU32>,
}

impl<T> Buffer<T> {
    /// `capacity` is a power of two.
    pub(crate) fn with_capacity(capacity: u32) -> Self {
        debug_assert!(capacity.is_power_of_two());
        let cells = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self { cells, mask: capacity - 1, copied: CachePadded::new(AtomicU32::new(0)) }
    }

    #[inline(always)]
    pub(crate) fn capacity(&self) -> u32 {
        self.mask + 1
    }

    #[inline(always)]
    fn cell(&self, position: u32) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: the mask is one less than the number of cells.
        unsafe { self.cells.get_unchecked((position & self.mask) as usize) }
    }

    /// Puts an item into its cell.
    ///
    /// # Safety
    /// No item is at `position`, and nobody else uses its cell, `fill` included, which puts a whole item there unless
    /// it unwinds.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, position: u32, fill: impl FnOnce(&mut MaybeUninit<T>)) {
        self.cell(position).with_mut(|cell| {
            // SAFETY: by the caller's word this is the only use of the cell, and there is nothing to drop in it.
            fill(unsafe { &mut *cell });
        });
    }

    /// Moves an item to where it is wanted.
    ///
    /// # Safety
    /// As for `read`.
    #[inline(always)]
    pub(crate) unsafe fn read_into(&self, position: u32, place: &mut MaybeUninit<T>) {
        self.cell(position).with(|cell| {
            // SAFETY: by the caller's word the item is whole and this thread's own; nobody writes the cell
            // meanwhile, and the place is another's.
            unsafe { core::ptr::copy_nonoverlapping(cell.cast::<T>(), place.as_mut_ptr(), 1) };
        });
    }

    /// # Safety
    /// The item at `position` is whole, visible to this thread and claimed by it; it counts as gone afterwards.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, position: u32) -> T {
        self.cell(position).with(|cell| {
            // SAFETY: by the caller's word the item is whole and this thread's own; nobody writes the cell
            // meanwhile.
            unsafe { cell.cast::<T>().read() }
        })
    }

    /// Copies the bits of `count` items to the same positions of `new`. Which copy is the item is decided later.
    ///
    /// # Safety
    /// The cells from `first` on are not written meanwhile, and no other thread knows `new`, which has room.
    pub(crate) unsafe fn copy_to(&self, new: &Self, first: u32, count: u32) {
        // SAFETY: as the caller says; copying bits makes no second item, since one of the two is never used.
        unsafe { self.move_to(first, new, first, count) };
    }

    /// Moves `count` items from `from` on to the positions from `to` on of another buffer.
    ///
    /// # Safety
    /// This thread has claimed the items and owns the vacant cells of `into`, which is another buffer.
    pub(crate) unsafe fn move_to(&self, from: u32, into: &Self, to: u32, count: u32) {
        let mut done = 0;
        while done < count {
            let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
            let run = (count - done).min(self.run(from)).min(into.run(to));
            // SAFETY: by the caller's word nobody writes the source cells and nobody else uses the target cells;
            // neither run passes the end of its buffer, and they are different buffers, so they do not overlap.
            unsafe { self.copy_run(from, into, to, run) };
            done += run;
        }
    }

    /// # Safety
    /// As for `move_to`, and neither run of cells passes the end of its buffer.
    #[cfg(not(any(loom, shuttle)))]
    unsafe fn copy_run(&self, from: u32, into: &Self, to: u32, run: u32) {
        // From the slices, not from one cell each: a pointer may be used for the cells it was made from only.
        let source = self.cells.as_ptr().wrapping_add((from & self.mask) as usize);
        let target = into.cells.as_ptr().wrapping_add((to & into.mask) as usize).cast_mut();
        // SAFETY: the caller vouches for the cells, which may be written through a shared slice, being
        // `UnsafeCell`s.
        unsafe { core::ptr::copy_nonoverlapping(source, target, run as usize) };
    }

    /// # Safety
    /// As for `move_to`; a model goes cell by cell, so that each is watched.
    #[cfg(any(loom, shuttle))]
    unsafe fn copy_run(&self, from: u32, into: &Self, to: u32, _run: u32) {
        self.cell(from).with(|source| {
            into.cell(to).with_mut(|target| {
                // SAFETY: by the caller's word nobody writes the source cell and nobody else uses the target.
                unsafe { core::ptr::copy_nonoverlapping(source, target, 1) };
            });
        });
    }

    /// How many cells from this position's on lie side by side.
    fn run(&self, position: u32) -> u32 {
        if cfg!(any(loom, shuttle)) { 1 } else { self.capacity() - (position & self.mask) }
    }

    /// A thief has finished with `count` items.
    ///
    /// # Safety
    /// The thief has claimed them and not said so yet, which keeps the buffer alive. It does not touch the buffer
    /// afterwards: the owner may free it while this call is still returning, hence the pointer.
    #[inline(always)]
    pub(crate) unsafe fn add_copied(buffer: *const Self, count: u32) {
        // SAFETY: the claim keeps the buffer alive until the addition below; only the counter is borrowed.
        let copied: &AtomicU32 = unsafe { &(*buffer).copied };
        // STEAL_VACATE, thief's end (Release): its reads are over before the owner reuses or frees the cells.
        copied.fetch_add(count, STEAL_VACATE.release());
    }

    /// How many items thieves have finished with.
    #[inline(always)]
    pub(crate) fn copied(&self) -> u32 {
        // STEAL_VACATE, owner's end (Acquire): the thieves counted here have left.
        self.copied.load(STEAL_VACATE.acquire())
    }
}
