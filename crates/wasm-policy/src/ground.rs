//! What a module without the standard library brings itself: its brain, its heap, and what a panic does.
//!
//! The module is built without threads and its memory is not shared, so whatever runs here runs alone; that is what
//! both proofs below rest on. A panic traps, and JavaScript sees a `RuntimeError`; the instance is then not used again.

use crate::brain::Brain;
use crate::heap::{Heap, PAGE_BYTES, Pages};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;

/// What only one thread ever reaches, since there is only one.
struct Alone<T>(UnsafeCell<T>);

// SAFETY: the target is built without atomics and its memory is not shared, so there is no second thread that could
// reach the value while the first does.
unsafe impl<T> Sync for Alone<T> {}

static BRAIN: Alone<Option<Brain>> = Alone(UnsafeCell::new(None));

/// Does something with this instance's brain.
pub(crate) fn with<R>(act: impl FnOnce(&mut Brain) -> R) -> R {
    // SAFETY: only functions that JavaScript calls come here, one at a time and never one inside another: the module
    // imports nothing, so it cannot be called back. On the host the same calls run under a cell that would notice.
    act(unsafe { brain() })
}

/// The brain, made at the first call.
///
/// # Safety
///
/// No two of the references may be in use at once.
#[inline(never)]
unsafe fn brain() -> &'static mut Brain {
    // SAFETY: the caller promises that no other reference is in use.
    unsafe { &mut *BRAIN.0.get() }.get_or_insert_with(Brain::new)
}

#[global_allocator]
static HEAP: Alone<Heap<LinearMemory>> = Alone(UnsafeCell::new(Heap::new(LinearMemory)));

/// The heap. Nothing in `heap.rs` allocates, so no call of it is ever inside another.
fn heap() -> &'static mut Heap<LinearMemory> {
    // SAFETY: each reference is used for one call of the heap, which calls nothing outside itself, and there is no
    // second thread; so no two are in use at once.
    unsafe { &mut *HEAP.0.get() }
}

/// Whether so many bytes can be had at once; gets them from outside if need be.
pub(crate) fn has_room(bytes: usize) -> bool {
    heap().reserve(bytes)
}

// SAFETY: the heap hands out each block once until it is given back, as `heap.rs` proves; a block is as large and as
// aligned as the layout asks, or null.
unsafe impl GlobalAlloc for Alone<Heap<LinearMemory>> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        heap().take(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `block` came from `alloc` with this layout and is not used again.
        unsafe { heap().give_back(block, layout) }
    }
}

/// The module's memory, which grows by pages up to the limit that the build sets.
struct LinearMemory;

unsafe extern "C" {
    /// The linker puts this behind everything that the module itself lays out.
    static __heap_base: u8;
}

impl Pages for LinearMemory {
    fn begin(&self) -> usize {
        (&raw const __heap_base).addr()
    }

    fn end(&self) -> usize {
        core::arch::wasm32::memory_size(0) * PAGE_BYTES
    }

    fn grow(&mut self, pages: usize) -> bool {
        core::arch::wasm32::memory_grow(0, pages) != usize::MAX
    }

    fn block(&self, at: usize) -> *mut u8 {
        // The heap is no object of the program's, so there is no pointer that this one could be derived from.
        core::ptr::with_exposed_provenance_mut(at)
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
