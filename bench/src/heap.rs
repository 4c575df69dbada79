//! How many bytes of the heap are in use, counted by the allocator itself while somebody asks for it.
//!
//! The bench has one program for all groups, and counting would weigh on every peer that allocates. So it is
//! switched on for the groups about memory alone; otherwise the allocator pays for one look at a word.
//! Counted is what was asked for, without what the allocator adds to it, so the figure is the same on every
//! system.
//!
//! Not here: stacks of threads, which the system maps and the heap never sees.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// How many have asked for it and not had enough yet.
static COUNTING: AtomicUsize = AtomicUsize::new(0);
/// What was allocated while counting, less what was freed; negative if older things were freed.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// Runs `work` and counts meanwhile. Inside, differences of `live_bytes` mean something.
pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
    COUNTING.fetch_add(1, Ordering::SeqCst);
    let result = work();
    COUNTING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// The count so far.
pub(crate) fn live_bytes() -> i64 {
    LIVE.load(Ordering::SeqCst)
}

struct CountingHeap;

impl CountingHeap {
    #[inline]
    fn note(bytes: i64) {
        if COUNTING.load(Ordering::Relaxed) > 0 {
            LIVE.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

fn signed(bytes: usize) -> i64 {
    // No allocation is larger than `isize::MAX`, so nothing is cut off.
    bytes as i64
}

// SAFETY: every call is handed on to the system's allocator as it came, and its answer back; the counter
// beside it neither allocates nor panics.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::note(signed(layout.size()));
        // SAFETY: the caller's promises about `layout` are the ones that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::note(signed(layout.size()));
        // SAFETY: the caller's promises about `layout` are the ones that the system's allocator asks for.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::note(-signed(layout.size()));
        // SAFETY: `block` came from this allocator with `layout`, and so from the system's with the same.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::note(signed(new_size) - signed(layout.size()));
        // SAFETY: `block` came from this allocator with `layout`, and so from the system's with the same.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_is_kept_while_counting_is_counted() {
        // Far more than the other tests of this program, which run at the same time, could hold or free.
        let large = 1 << 28;
        let kept = counting(|| {
            let before = live_bytes();
            let kept: Vec<u8> = black_box(Vec::with_capacity(large));
            assert!(live_bytes() - before > signed(large) / 2);
            kept
        });
        drop(kept);
    }
}
