//! `Lines`: a fixed slice that begins where a cache line begins.
//!
//! A slot of 64 bytes is one line only if the first one starts a line. From the allocator it starts 16 bytes behind:
//! then each slot lies on two lines, and its neighbours' threads pull at both.
//!
//! Not a crate's, since the one that there is brings three more and a macro compiler for these few lines.

use alloc::alloc::{Layout, alloc, dealloc};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::slice;

/// Two lines of 64 bytes: processors fetch them in pairs.
const LINE: usize = 128;

/// Owns `len` items from `first` on.
pub(crate) struct Lines<T> {
    first: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its items, as a boxed slice does.
unsafe impl<T: Send> Send for Lines<T> {}
// SAFETY: through a shared reference to it there are shared references to its items, and nothing else.
unsafe impl<T: Sync> Sync for Lines<T> {}

impl<T> Lines<T> {
    /// `len` items, as `make` says for each index. `None`: there is no memory for them. Should `make` panic, what was
    /// made until then is forgotten.
    pub(crate) fn try_new(len: usize, make: impl FnMut(usize) -> T) -> Option<Self> {
        const { assert!(size_of::<T>() > 0, "there is nothing to lay on lines") };
        assert!(len > 0, "there is nothing to lay on lines");
        let layout = layout::<T>(len)?;
        // SAFETY: neither an item's size nor the number of items is 0, so the layout's size is not.
        let first = NonNull::new(unsafe { alloc(layout) })?.cast::<T>();
        // SAFETY: the layout has room for `len` items, aligned as they want to be.
        unsafe { fill(first, len, make) };
        Some(Self { first, len })
    }
}

/// Apart, since an item that no memory holds would not fit on the stack either.
///
/// # Safety
/// There is room for `len` items from `first` on.
#[inline(never)]
unsafe fn fill<T>(first: NonNull<T>, len: usize, mut make: impl FnMut(usize) -> T) {
    for index in 0..len {
        // SAFETY: the index is below `len`, for which there is room.
        let place = unsafe { first.add(index) };
        // SAFETY: the place is the next item's, and nobody else knows of it.
        unsafe { place.write(make(index)) };
    }
}

fn layout<T>(len: usize) -> Option<Layout> {
    // The last line is nobody else's either.
    Some(Layout::array::<T>(len).ok()?.align_to(LINE).ok()?.pad_to_align())
}

impl<T> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `try_new` made `len` items from `first` on, and they are there until this is dropped.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Lines<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and nobody else has a reference while this one is borrowed.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Lines<T> {
    fn drop(&mut self) {
        // SAFETY: the items are whole, and nobody has a reference to what is dropped.
        unsafe { ptr::drop_in_place::<[T]>(&raw mut **self) };
        let layout = layout::<T>(self.len).expect("as when it was made");
        // SAFETY: the memory came from `alloc` with this very layout, and nothing in it is used again.
        unsafe { dealloc(self.first.as_ptr().cast(), layout) };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{LINE, Lines};
    use alloc::rc::Rc;

    #[test]
    fn the_first_item_begins_a_line() {
        for len in [1, 2, 3, 100, 1024, 70_000] {
            let lines = Lines::try_new(len, |index| index as u64).expect("memory for a test");
            assert_eq!(lines.as_ptr() as usize % LINE, 0);
            assert_eq!(lines.len(), len);
            assert!(lines.iter().enumerate().all(|(index, &item)| item == index as u64));
        }
    }

    #[test]
    fn each_item_is_dropped_once() {
        let counted = Rc::new(());
        let mut lines = Lines::try_new(10, |_| Rc::clone(&counted)).expect("memory for a test");
        lines[3] = Rc::new(());
        assert_eq!(Rc::strong_count(&counted), 10);
        drop(lines);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn what_no_memory_holds_is_refused() {
        assert!(Lines::try_new(usize::MAX / 4, |_| 0_u64).is_none());
    }
}
