//! The bytes a region lives in: atomic words at checked offsets, over memory of any origin.
//!
//! Everything the protocols read or write in a region goes through [`Memory`], and every access is atomic, payload
//! copies included. A peer that breaks the protocol can therefore spoil data but cannot cause a data race, and no
//! Rust reference to plain shared bytes ever exists. No word is read with one width while it may be written with
//! another: the tables of `layout.rs` give each its own. The owned kind is zeroed heap; the borrowed kind is whatever
//! the caller maps: `mmap`, a `SharedArrayBuffer` behind WASM linear memory, a static. Length and alignment of the
//! borrowed kind are checked, because a file may be shorter than its header claims.
//!
//! Under the model checkers a region is two sparse tables of model atomics instead of bytes. That works because no
//! offset is ever used with two widths, which the tables of `layout.rs` assert.
//!
//! Not here: which offset means what (`layout.rs`).

#[cfg(not(any(loom, shuttle)))]
use super::error::RegionError;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What a region's first byte must be aligned to.
pub const ALIGNMENT: usize = 8;

pub use make::Memory;

#[cfg(not(any(loom, shuttle)))]
mod make {
    use super::{ALIGNMENT, AtomicU32, AtomicU64, RegionError};
    use alloc::alloc::{Layout, alloc_zeroed, dealloc};
    use alloc::boxed::Box;
    use core::fmt;
    use core::ptr::NonNull;

    /// The heap kind starts on a line of its own, so that the padding of version 2 does what it is for.
    const HEAP_ALIGNMENT: usize = 128;

    /// A run of bytes shared with other threads or processes, seen as atomic words.
    pub struct Memory {
        /// First byte, aligned to [`ALIGNMENT`]. Anybody may change what lies behind it at any time.
        base: NonNull<u8>,
        /// Bytes from `base` on; never changes.
        len: usize,
        keeper: Keeper,
    }

    /// Who gives the bytes back, and when.
    enum Keeper {
        /// This value, when it is dropped.
        Heap(Layout),
        /// The caller of `from_raw`, at some later time.
        Caller,
        /// The owner handed over, dropped together with this value.
        Owner(#[allow(dead_code, reason = "held only to be dropped")] Box<dyn Send + Sync>),
    }

    impl Memory {
        /// Zeroed heap memory of `len` bytes, rounded up to whole words.
        pub fn heap(len: usize) -> Result<Self, RegionError> {
            let refused = RegionError::OutOfMemory { bytes: len };
            let layout = len
                .max(ALIGNMENT)
                .checked_next_multiple_of(ALIGNMENT)
                .and_then(|len| Layout::from_size_align(len, HEAP_ALIGNMENT).ok())
                .ok_or(refused)?;
            // SAFETY: the layout's size is at least `ALIGNMENT`, so it is not zero.
            let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
            Ok(Self { base, len: layout.size(), keeper: Keeper::Heap(layout) })
        }

        /// Heap memory that holds a copy of `bytes`: a region read back from a dump, say.
        pub fn from_bytes(bytes: &[u8]) -> Result<Self, RegionError> {
            let memory = Self::heap(bytes.len())?;
            memory.copy_in(0, bytes);
            Ok(memory)
        }

        /// Memory of the caller's, such as a mapping or WASM linear memory.
        ///
        /// # Errors
        /// A null or misaligned `base` is refused. The length is taken as given; creating or attaching compares
        /// it with what the header asks for.
        ///
        /// # Safety
        /// Until the returned value is dropped, `len` bytes from `base` on must stay mapped and writable, and
        /// this process must touch them only through atomics: other `Memory` values over the same bytes, or
        /// accesses of other processes, are fine; plain Rust references to them are not.
        pub unsafe fn from_raw(base: *mut u8, len: usize) -> Result<Self, RegionError> {
            let base = NonNull::new(base).ok_or(RegionError::Misaligned { remainder: 0, null: true })?;
            match base.addr().get() % ALIGNMENT {
                0 => Ok(Self { base, len: len.min(isize::MAX as usize), keeper: Keeper::Caller }),
                remainder => Err(RegionError::Misaligned { remainder, null: false }),
            }
        }

        /// As `from_raw`, for memory that lives as long as `owner` does: a mapping that unmaps itself, say. The
        /// owner is dropped together with the returned value, or at once if the memory is refused.
        ///
        /// # Errors
        /// As for `from_raw`.
        ///
        /// # Safety
        /// As for `from_raw`, until `owner` is dropped.
        pub unsafe fn from_owner(
            base: *mut u8,
            len: usize,
            owner: Box<dyn Send + Sync>,
        ) -> Result<Self, RegionError> {
            // SAFETY: the caller promises for the owner's life what `from_raw` asks for, and the owner is kept.
            let mut memory = unsafe { Self::from_raw(base, len) }?;
            memory.keeper = Keeper::Owner(owner);
            Ok(memory)
        }

        /// Bytes in all.
        pub fn len(&self) -> usize {
            self.len
        }

        /// Whether there is not even one byte.
        pub fn is_empty(&self) -> bool {
            self.len == 0
        }

        /// The word at `offset`. Panics outside the memory: offsets are computed from a validated header, so
        /// that would be our own mistake.
        #[inline]
        pub(crate) fn u32_at(&self, offset: usize) -> &AtomicU32 {
            assert!(
                offset.is_multiple_of(4) && self.len >= 4 && offset <= self.len - 4,
                "word out of region"
            );
            // SAFETY: the assertion keeps the offset inside the `len` bytes that `base` is good for.
            let word = unsafe { self.base.add(offset) };
            // SAFETY: inside the memory, four-aligned (base by construction, offset by the assertion), alive as
            // long as `self`, and touched by atomics only.
            unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
        }

        /// The double word at `offset`. Panics as `u32_at` does.
        #[inline]
        pub(crate) fn u64_at(&self, offset: usize) -> &AtomicU64 {
            assert!(
                offset.is_multiple_of(8) && self.len >= 8 && offset <= self.len - 8,
                "word out of region"
            );
            // SAFETY: the assertion keeps the offset inside the `len` bytes that `base` is good for.
            let word = unsafe { self.base.add(offset) };
            // SAFETY: inside the memory, eight-aligned (base by construction, offset by the assertion), alive as
            // long as `self`, and touched by atomics only.
            unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
        }

        /// The double words of a run, looked up at once. Panics as `u64_at` does.
        #[inline]
        pub(super) fn doubles(&self, offset: usize, count: usize) -> impl Iterator<Item = &AtomicU64> {
            assert!(
                offset.is_multiple_of(8) && offset <= self.len && count <= (self.len - offset) / 8,
                "words out of region"
            );
            // SAFETY: the assertion keeps the offset inside the `len` bytes that `base` is good for.
            let first = unsafe { self.base.add(offset) };
            // SAFETY: `count` double words from here on are inside the memory, aligned as in `u64_at`, alive as
            // long as `self`, and touched by atomics only.
            unsafe { core::slice::from_raw_parts(first.as_ptr().cast::<AtomicU64>(), count) }.iter()
        }

        /// Asks for the line at `offset` ahead of a change of it, so that it is on its way from another processor
        /// while this one goes on. A hint: nothing is read or written, and an offset out of range means nothing.
        #[inline]
        pub(crate) fn expect_change(&self, offset: usize) {
            let line = self.base.as_ptr().wrapping_add(offset);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            // SAFETY: the instruction is a hint that changes neither registers nor memory and never faults, whatever
            // the address.
            unsafe {
                core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            let _ = line;
        }

        /// Clears whole double words, where nobody else looks yet.
        pub(crate) fn zero(&self, from: usize, to: usize) {
            for offset in (from..to).step_by(8) {
                self.u64_at(offset).store(0, super::Ordering::Relaxed);
            }
        }

        /// Clears the given (offset, width) words in their order, where others may be looking.
        pub(crate) fn clear(&self, words: impl Iterator<Item = (usize, usize)>) {
            for (offset, width) in words {
                match width {
                    4 => self.u32_at(offset).store(0, super::Ordering::Relaxed),
                    _ => self.u64_at(offset).store(0, super::Ordering::Relaxed),
                }
            }
        }
    }

    // SAFETY: the bytes are touched by atomics only, which any thread may use; the keeper is `Send + Sync` itself.
    unsafe impl Send for Memory {}
    // SAFETY: as above; no method hands out anything but references to atomics.
    unsafe impl Sync for Memory {}

    impl Drop for Memory {
        fn drop(&mut self) {
            if let Keeper::Heap(layout) = self.keeper {
                // SAFETY: `heap` allocated `base` with this very layout, and nobody else frees it.
                unsafe { dealloc(self.base.as_ptr(), layout) };
            }
        }
    }

    impl fmt::Debug for Memory {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.debug_struct("Memory").field("base", &self.base).field("len", &self.len).finish()
        }
    }
}

#[cfg(any(loom, shuttle))]
mod make {
    use super::{AtomicU32, AtomicU64};
    use alloc::collections::BTreeMap;

    /// A region of model atomics: one per field that a protocol uses, all zero.
    #[derive(Debug)]
    pub struct Memory {
        words: BTreeMap<usize, AtomicU32>,
        doubles: BTreeMap<usize, AtomicU64>,
        len: usize,
    }

    impl Memory {
        /// A region with the given (offset, width in bytes) fields.
        #[cfg(test)]
        pub(crate) fn model(fields: impl IntoIterator<Item = (usize, usize)>, len: usize) -> Self {
            let (mut words, mut doubles) = (BTreeMap::new(), BTreeMap::new());
            for (offset, width) in fields {
                match width {
                    4 => drop(words.insert(offset, AtomicU32::new(0))),
                    _ => drop(doubles.insert(offset, AtomicU64::new(0))),
                }
            }
            Self { words, doubles, len }
        }

        /// Bytes in all.
        pub fn len(&self) -> usize {
            self.len
        }

        /// Whether there is not even one byte.
        pub fn is_empty(&self) -> bool {
            self.len == 0
        }

        pub(crate) fn u32_at(&self, offset: usize) -> &AtomicU32 {
            self.words.get(&offset).expect("a word that the layout tables name")
        }

        pub(crate) fn u64_at(&self, offset: usize) -> &AtomicU64 {
            self.doubles.get(&offset).expect("a double word that the layout tables name")
        }

        pub(super) fn doubles(&self, offset: usize, count: usize) -> impl Iterator<Item = &AtomicU64> {
            (0..count).map(move |index| self.u64_at(offset + 8 * index))
        }

        pub(crate) fn expect_change(&self, _offset: usize) {
            // A hint, and no step of a protocol.
        }

        pub(crate) fn zero(&self, _from: usize, _to: usize) {
            // A model region is born zeroed and used once.
        }

        pub(crate) fn clear(&self, _words: impl Iterator<Item = (usize, usize)>) {
            // As for `zero`.
        }
    }
}

impl Memory {
    /// Copies `bytes` in, word by word; the last word is filled up with zeros. Panics outside the memory, and at an
    /// offset that is not a multiple of 8.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let mut words = self.doubles(offset, bytes.len().div_ceil(8));
        let (whole, rest) = bytes.as_chunks::<8>();
        for (chunk, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
        }
        if let Some(word) = words.next() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
    }

    /// Copies out as many bytes as `bytes` holds. A peer may change them meanwhile; the copy is the caller's own.
    /// Panics as `copy_in` does.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        let mut words = self.doubles(offset, bytes.len().div_ceil(8));
        let (whole, rest) = bytes.as_chunks_mut::<8>();
        for (chunk, word) in whole.iter_mut().zip(words.by_ref()) {
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if let Some(word) = words.next() {
            let last = word.load(Ordering::Relaxed).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn copies_of_any_length_come_back_whole() {
        let memory = Memory::heap(256).unwrap();
        for len in 0..=64 {
            let bytes: alloc::vec::Vec<u8> = (0..len).map(|at| at as u8 ^ 0xA5).collect();
            memory.copy_in(64, &bytes);
            let mut back = alloc::vec![0; len];
            memory.copy_out(64, &mut back);
            assert_eq!(back, bytes);
        }
    }

    #[test]
    fn misaligned_and_null_memory_is_refused() {
        let mut bytes = alloc::vec![0_u64; 16];
        let base: *mut u8 = bytes.as_mut_ptr().cast();
        for shift in 1..8 {
            // SAFETY: the vector outlives the value, and nothing else touches it meanwhile.
            let refused = unsafe { Memory::from_raw(base.wrapping_add(shift), 64) };
            assert!(matches!(refused, Err(RegionError::Misaligned { remainder, .. }) if remainder == shift));
        }
        // SAFETY: null is refused before anything is read or written through it.
        let refused = unsafe { Memory::from_raw(core::ptr::null_mut(), 64) };
        assert!(matches!(refused, Err(RegionError::Misaligned { null: true, .. })));
    }

    #[test]
    fn an_owner_lives_as_long_as_the_memory_it_owns() {
        let owner = alloc::sync::Arc::new(alloc::vec![0_u64; 8]);
        let keeper = alloc::boxed::Box::new(alloc::sync::Arc::clone(&owner));
        // SAFETY: the vector is kept alive by the owner, and nothing reads it but the value.
        let memory = unsafe { Memory::from_owner(owner.as_ptr().cast_mut().cast(), 64, keeper) }.unwrap();
        assert_eq!(alloc::sync::Arc::strong_count(&owner), 2);
        drop(memory);
        assert_eq!(alloc::sync::Arc::strong_count(&owner), 1);
    }

    #[test]
    fn memory_beyond_the_address_space_is_refused() {
        assert!(matches!(Memory::heap(usize::MAX), Err(RegionError::OutOfMemory { .. })));
        assert!(matches!(Memory::heap(isize::MAX as usize - 4096), Err(RegionError::OutOfMemory { .. })));
    }

    #[test]
    #[should_panic(expected = "word out of region")]
    fn a_word_across_the_end_is_never_touched() {
        Memory::heap(64).unwrap().u64_at(64);
    }
}
