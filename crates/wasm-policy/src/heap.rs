//! The heap of the module: blocks of a power of two, in a list for each size once they are given back.
//!
//! A brain asks for few blocks and seldom: rows that grow by doubling, a strategy, a histogram. So a block that nobody
//! has had yet is cut from the end of the memory, and one that was given back waits in the list of its size for the
//! next of that size. Nothing is searched, split or joined, which takes some 500 bytes of
//! code. It costs memory: up to half of each block, and what waits in lists of other sizes. A row that grows
//! leaves behind one block of each smaller size, which together are no more than itself. The memory has a limit, and
//! whoever may reach it asks for room first (`has_room`) and refuses instead of trapping.
//!
//! ```text
//! begin          cut, in use or in a list        unused so far    end of the memory, which grows by pages
//! |----|----|--------|--------|----|----------|. . . . . . . . . .|
//! ```

use core::alloc::Layout;
use core::ptr;

/// A page of WebAssembly.
pub(crate) const PAGE_BYTES: usize = 65_536;

/// The smallest block: it must hold the address of the next in its list.
const BLOCK_BYTES_MIN: usize = 16;
/// Sizes there are: from 16 bytes to 64 MB.
const SIZES: usize = 23;

/// Memory that grows at its end.
pub(crate) trait Pages {
    /// Where the heap begins.
    fn begin(&self) -> usize;
    /// Where the memory ends now.
    fn end(&self) -> usize;
    /// So many pages more; false if they are not to be had.
    fn grow(&mut self, pages: usize) -> bool;
    /// The block at an address between the two.
    fn block(&self, at: usize) -> *mut u8;
}

/// The heap.
pub(crate) struct Heap<M> {
    memory: M,
    /// Where nothing has been cut yet; 0 before the first block.
    unused: usize,
    /// The first block in each list, or null. Each block holds the next.
    lists: [*mut u8; SIZES],
}

impl<M: Pages> Heap<M> {
    pub(crate) const fn new(memory: M) -> Self {
        Self { memory, unused: 0, lists: [ptr::null_mut(); SIZES] }
    }

    /// A block for this layout that nobody else has, or null.
    pub(crate) fn take(&mut self, layout: Layout) -> *mut u8 {
        let Some(list) = list_of(layout) else { return ptr::null_mut() };
        let first = self.lists[list];
        if !first.is_null() {
            // SAFETY: a block in a list was given back by its user, is at least a pointer large and aligned to one,
            // and holds the next block, which `give_back` wrote there.
            self.lists[list] = unsafe { first.cast::<*mut u8>().read() };
            return first;
        }
        let bytes = bytes_of(list);
        if !self.reserve(bytes) {
            return ptr::null_mut();
        }
        let at = self.unused;
        self.unused += bytes;
        self.memory.block(at)
    }

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// It came from [`take`](Self::take) with this layout, and nobody uses it any more.
    pub(crate) unsafe fn give_back(&mut self, block: *mut u8, layout: Layout) {
        let Some(list) = list_of(layout) else { return };
        // SAFETY: the caller gives up the block, which is of the size of its list: at least a pointer, and aligned.
        unsafe { block.cast::<*mut u8>().write(self.lists[list]) };
        self.lists[list] = block;
    }

    /// Sees to it that so many bytes can be cut; false if they are not to be had.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        if self.unused == 0 {
            self.unused = self.memory.begin().next_multiple_of(BLOCK_BYTES_MIN);
        }
        let Some(wanted) = self.unused.checked_add(bytes) else { return false };
        let missing = wanted.saturating_sub(self.memory.end());
        missing == 0 || self.memory.grow(missing.div_ceil(PAGE_BYTES))
    }
}

/// The list of a layout's blocks; none if it is too large, or wants to be aligned to more than blocks are.
fn list_of(layout: Layout) -> Option<usize> {
    let bytes = layout.size().max(BLOCK_BYTES_MIN).checked_next_power_of_two()?;
    let list = (bytes / BLOCK_BYTES_MIN).trailing_zeros() as usize;
    (list < SIZES && layout.align() <= BLOCK_BYTES_MIN).then_some(list)
}

const fn bytes_of(list: usize) -> usize {
    BLOCK_BYTES_MIN << list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of the test's own, with a limit.
    struct Arena {
        bytes: Vec<u128>,
        pages: usize,
    }

    const PAGES_MAX: usize = 8;

    fn heap() -> Heap<Arena> {
        Heap::new(Arena { bytes: vec![0; PAGES_MAX * PAGE_BYTES / 16], pages: 1 })
    }

    impl Pages for Arena {
        fn begin(&self) -> usize {
            self.bytes.as_ptr().expose_provenance() + 32
        }

        fn end(&self) -> usize {
            self.bytes.as_ptr().addr() + self.pages * PAGE_BYTES
        }

        fn grow(&mut self, pages: usize) -> bool {
            let fits = self.pages + pages <= PAGES_MAX;
            self.pages += if fits { pages } else { 0 };
            fits
        }

        fn block(&self, at: usize) -> *mut u8 {
            ptr::with_exposed_provenance_mut(at)
        }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).expect("a layout")
    }

    #[test]
    fn blocks_do_not_overlap_and_are_aligned() {
        let mut heap = heap();
        let mut ends = 0;
        for bytes in [1, 16, 17, 100, 4096, 5000, 8] {
            let block = heap.take(layout(bytes)).addr();
            assert!(block >= ends && block.is_multiple_of(BLOCK_BYTES_MIN), "{bytes}");
            ends = block + bytes;
        }
    }

    #[test]
    fn a_block_that_is_given_back_is_the_next_of_its_size() {
        let mut heap = heap();
        let (one, other) = (heap.take(layout(60)), heap.take(layout(50)));
        for block in [one, other] {
            // SAFETY: the block came from this heap with a layout of the same list, and is not used again.
            unsafe { heap.give_back(block, layout(64)) };
        }
        assert_eq!((heap.take(layout(33)), heap.take(layout(64))), (other, one), "the last first");
        let third = heap.take(layout(64));
        assert!(third != one && third != other);
    }

    #[test]
    fn growing_rows_use_a_bounded_part_of_the_memory() {
        let mut heap = heap();
        // Rows that double a hundred times over, each giving its last block back.
        for _ in 0..100 {
            let mut block = heap.take(layout(16));
            for doubled in 5..17 {
                let next = heap.take(layout(1 << doubled));
                assert!(!next.is_null());
                // SAFETY: the block came from this heap with the layout before, and is not used again.
                unsafe { heap.give_back(block, layout(1 << (doubled - 1))) };
                block = next;
            }
            // SAFETY: the block came from this heap with the last layout, and is not used again.
            unsafe { heap.give_back(block, layout(1 << 16)) };
        }
        let used = heap.unused - heap.memory.begin();
        assert!(used <= 2 << 16, "{used} bytes for rows of at most {}", 1 << 16);
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let mut heap = heap();
        assert!(heap.take(layout(PAGES_MAX * PAGE_BYTES)).is_null(), "more than there is");
        assert!(!heap.take(layout(4 * PAGE_BYTES)).is_null());
        assert!(heap.take(layout(4 * PAGE_BYTES)).is_null(), "more than is left");
        assert!(heap.take(layout(1 << 30)).is_null(), "more than any list has");
        assert!(heap.take(Layout::from_size_align(16, 64).expect("a layout")).is_null(), "more aligned");
        assert!(!heap.reserve(usize::MAX) && heap.reserve(PAGE_BYTES));
        assert!(!heap.take(layout(16)).is_null(), "and the rest is still there");
    }
}
