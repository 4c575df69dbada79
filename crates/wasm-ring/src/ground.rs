//! What a module without the standard library must bring itself: what a panic does, and where memory comes from.
//!
//! A panic traps, and JavaScript sees a `RuntimeError`. All instances share one memory, and a thread may be ended at
//! any instruction, so a shared allocator with a lock could be held for ever. Instead every instance has a *block* of
//! its own, given to it by JavaScript before its first call:
//!
//! ```text
//! block, aligned to its size
//! | bytes used | what this instance allocated ... ->        <- ... stack |
//! ```
//!
//! An instance finds its block by its stack pointer, the one thing it does not share. Nothing is ever given back: an
//! instance allocates when it opens its region and not afterwards, and its block is cleared when the instance is gone.

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

/// Bytes of a block, and what it is aligned to.
pub(crate) const BLOCK_BYTES: usize = 16 * 1024;
/// The part of it that may be allocated; the stack has the rest.
const HEAP_BYTES: usize = 4 * 1024;

struct Block;

// SAFETY: the bytes handed out lie in this instance's own block behind those handed out before, and are aligned and as
// many as asked for, or there are none and the answer is null.
unsafe impl GlobalAlloc for Block {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let marker = 0_u8;
        let block = (&raw const marker).addr() & !(BLOCK_BYTES - 1);
        let used = block as *mut usize;
        // SAFETY: the first word of the block holds how much of it is used; only this instance touches it, and it has
        // one thread.
        let from = unsafe { used.read() }.max(size_of::<usize>()).next_multiple_of(layout.align());
        let Some(to) = from.checked_add(layout.size()).filter(|to| *to <= HEAP_BYTES) else {
            return core::ptr::null_mut();
        };
        // SAFETY: as above: the first word of this instance's own block, which nobody else touches.
        unsafe { used.write(to) };
        (block + from) as *mut u8
    }

    unsafe fn dealloc(&self, _memory: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static BLOCK: Block = Block;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
