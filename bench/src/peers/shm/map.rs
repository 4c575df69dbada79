//! Memory that two processes share: a file without a name, mapped by both, seen as atomic words.
//!
//! The bench makes the file and gives it to the other process as its standard input, so that nobody has to pass on a
//! number. Its first words are for starting and ending together; what follows belongs to whoever is measured.
//!
//! Not here: what lies in it (`raw_ring.rs`, `terms.rs`).

use millpond_queue::wpol::Memory;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A mapping, until it is dropped.
pub(crate) struct Map {
    base: NonNull<u8>,
    bytes: usize,
}

impl Map {
    /// Maps the first so many bytes of a file, which must be at least as long.
    pub(crate) fn new(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe { mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, bytes })
    }

    /// All of it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping starts at a page, is this long, lives as long as `self`, and is touched by atomics only,
        // here and in `memory`.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast(), self.bytes / 8) }
    }

    /// A part of it, for a wpol region.
    pub(crate) fn memory(self: &Arc<Self>, from: usize, bytes: usize) -> Result<Memory, String> {
        assert!(from <= self.bytes && bytes <= self.bytes - from, "a region beyond its mapping");
        let start = self.base.as_ptr().wrapping_add(from);
        // SAFETY: inside the mapping by the assertion; the owner handed over keeps it mapped, and nobody touches it but
        // by atomics.
        unsafe { Memory::from_owner(start, bytes, Box::new(Arc::clone(self))) }
            .map_err(|error| error.to_string())
    }
}

// SAFETY: a mapping belongs to the process and not to a thread, and its words are touched by atomics only.
unsafe impl Send for Map {}
// SAFETY: as for `Send`: what is handed out are references to atomics, which any thread may use.
unsafe impl Sync for Map {}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping with this length, and whatever borrows it is gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
