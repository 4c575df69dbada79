//! The brain on the host: one for each thread, and as much memory as there is.
//!
//! Only the tests call it here. In WebAssembly `ground.rs` takes its place.

use crate::brain::Brain;
use std::cell::RefCell;

std::thread_local! {
    static BRAIN: RefCell<Brain> = RefCell::new(Brain::new());
}

/// Does something with this thread's brain.
pub(crate) fn with<R>(act: impl FnOnce(&mut Brain) -> R) -> R {
    BRAIN.with_borrow_mut(act)
}

/// Whether so many bytes can be had.
pub(crate) const fn has_room(_bytes: usize) -> bool {
    true
}
