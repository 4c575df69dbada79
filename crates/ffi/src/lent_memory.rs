//! Memory that C lends to tasks under a name, and how it is given back.
//!
//! The memory is the caller's. Taking the name away therefore waits until no task can touch it any more: the
//! handle on it is counted, and the last one to go says so. Tasks read and write under a lock, so they see
//! each other's writes whole; what the caller does with its memory meanwhile is its own affair.
//!
//! Not here: names and bounds (`millpond_tasks::Symbols`).

use millpond_tasks::symbols::Memory;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

/// Memory of the caller's.
pub(crate) struct LentMemory {
    start: *mut u8,
    len: usize,
    lock: RwLock<()>,
    gone: Arc<Gone>,
}

// SAFETY: the caller lends the memory to tasks, which run on any thread, until `Gone` says that none has it.
unsafe impl Send for LentMemory {}
// SAFETY: every access goes through `lock`, so no two threads write at once, nor one while others read.
unsafe impl Sync for LentMemory {}

/// Tells when nobody can touch the memory any more.
#[derive(Default)]
pub(crate) struct Gone {
    is_gone: Mutex<bool>,
    happened: Condvar,
}

impl Gone {
    /// Waits for it.
    pub(crate) fn wait(&self) {
        let is_gone = self.is_gone.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = millpond::blocking(|| self.happened.wait_while(is_gone, |is_gone| !*is_gone));
        drop(waited);
    }
}

impl LentMemory {
    /// Memory of `len` bytes.
    ///
    /// # Safety
    /// It can be read and written until `gone` says that it is given back.
    pub(crate) unsafe fn new(start: *mut u8, len: usize, gone: Arc<Gone>) -> Self {
        Self { start, len, lock: RwLock::new(()), gone }
    }
}

impl Memory for LentMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(
            offset.checked_add(into.len()).is_some_and(|end| end <= self.len),
            "the region has checked it"
        );
        let _shared = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range lies within the memory, as was just seen, so its start does too.
        let from = unsafe { self.start.add(offset) };
        // SAFETY: so many bytes can be read there, by the promise made to `new`, and no task writes them
        // while the lock is held. `into` is memory of ours, so they do not overlap.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    fn write(&self, offset: usize, from: &[u8]) {
        assert!(
            offset.checked_add(from.len()).is_some_and(|end| end <= self.len),
            "the region has checked it"
        );
        let _alone = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range lies within the memory, as was just seen, so its start does too.
        let into = unsafe { self.start.add(offset) };
        // SAFETY: so many bytes can be written there, by the promise made to `new`, and no other task touches
        // them while the lock is held. `from` is memory of ours, so they do not overlap.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
    }
}

impl Drop for LentMemory {
    fn drop(&mut self) {
        *self.gone.is_gone.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.gone.happened.notify_all();
    }
}
