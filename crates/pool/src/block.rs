//! `Block`: a box whose memory is used again, for what is made on one thread and freed on another.
//!
//! ```text
//!   a thread's stash ── full: a parcel ──► depot ── empty: a parcel ──► another thread's stash
//! ```
//!
//! That is the way of most tasks, and what usual allocators are worst at: each block takes a lock that the other side
//! wants too, and is merged with its neighbours only to be cut off again. Here a thread puts what it frees into a
//! stash of its own, and takes from there what it needs; stashes pass on parcels of 31 blocks, through a ring. The
//! allocator is asked when there is no parcel, and is given back what the depot has no room for. A thread that is
//! stopped while it passes a parcel on holds up others at that place of the ring, as allocators' locks do.
//!
//! Blocks are sorted by size, in steps of a cache line up to eight. Larger ones, and those of an unusual alignment, are
//! the allocator's. What is kept is bounded: 62 blocks of each size for a thread, given back when it ends, and for the
//! process as much as [`set_kept_bytes_max`] says, an eighth of it of each size. The checkers see plain allocations.
//!
//! Not here: what is in a block (`cell.rs`, `task.rs`).

use crate::sync::expect_to_write;
use millpond_queue::Ring;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Sizes differ by so much.
const STEP: usize = 64;
/// So many sizes are kept.
const SIZES: usize = 8;
/// As allocators do for a block of any of these sizes.
const ALIGNMENT: usize = 16;
/// So many blocks change threads at a time.
const PARCEL: usize = 31;
/// So many bytes of each size wait for a thread that needs them, unless they are to be fewer.
const DEPOT_BYTES: usize = 256 << 10;
/// What the depots keep at most, in bytes of all sizes.
const KEPT_BYTES_MAX: usize = SIZES * DEPOT_BYTES;
/// Under a checker a block that is freed is to be gone, so that who uses it afterwards is seen. (Address sanitizers
/// cannot be asked for here in stable Rust: they see kept blocks as in use.)
const KEEPS: bool = !cfg!(any(miri, loom, shuttle));

/// What the depots are to keep at most. A hint to those who pass parcels on: it is read without further order.
static KEPT_MAX: AtomicUsize = AtomicUsize::new(KEPT_BYTES_MAX);

/// How much memory of ended tasks waits for the next ones, in bytes, of all pools of this process. What threads keep
/// for themselves, at most 140 KiB each, is not counted.
pub fn kept_bytes() -> usize {
    (0..SIZES).map(|size| depot(size).map_or(0, Ring::len) * parcel_bytes(size)).sum()
}

/// How much may wait at most, in bytes; about 2 MiB until somebody says otherwise.
pub fn kept_bytes_max() -> usize {
    KEPT_MAX.load(Relaxed)
}

/// Sets how much memory of ended tasks may wait for the next ones, for all pools of this process, up to 2 MiB, apart
/// from what threads keep for themselves. What is too much already is given back. Returns what is in force now.
///
/// Each of eight sizes may have an eighth of it, in parcels of 31 blocks: with 64 KiB nothing is kept of more than 256
/// bytes, with 0 nothing at all. Threads that are just passing a parcel on may add one each.
///
/// ```
/// assert_eq!(millpond::set_kept_bytes_max(64 << 10), 64 << 10);
/// assert!(millpond::kept_bytes() <= millpond::kept_bytes_max());
/// ```
pub fn set_kept_bytes_max(bytes: usize) -> usize {
    let bytes = bytes.min(KEPT_BYTES_MAX);
    KEPT_MAX.store(bytes, Relaxed);
    for size in 0..SIZES {
        let Some(depot) = depot(size) else { continue };
        while depot.len() > parcels_max(size)
            && let Some(Parcel(blocks)) = depot.pop()
        {
            blocks.into_iter().for_each(|block| give_back(block, size));
        }
    }
    bytes
}

const fn parcel_bytes(size: usize) -> usize {
    PARCEL * Kind::Kept(size).layout().size()
}

/// How many parcels of this size may wait.
fn parcels_max(size: usize) -> usize {
    KEPT_MAX.load(Relaxed) / SIZES / parcel_bytes(size)
}

/// A value in a block of its own. As a `Box`, but for where the memory comes from.
pub(crate) struct Block<T>(NonNull<T>);

// SAFETY: a block owns its value as a box does, and frees its memory from any thread.
unsafe impl<T: Send> Send for Block<T> {}
// SAFETY: as above, and to share a block is to share its value.
unsafe impl<T: Sync> Sync for Block<T> {}

impl<T> Block<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        let block = allocate(const { Kind::of::<T>() }).cast::<T>();
        // SAFETY: the block is this function's own, and large and aligned enough for a `T` by the making of its kind.
        unsafe { block.write(value) };
        Self(block)
    }

    /// The value; the memory is free from here on.
    #[inline]
    pub(crate) fn into_inner(self) -> T {
        let block = Self::into_raw(self);
        // SAFETY: the value is whole, and is moved out once, since the block is freed next.
        let value = unsafe { block.read() };
        // SAFETY: the block is this function's own, came from `allocate` with this kind, and its value has left it.
        unsafe { release(block.cast(), const { Kind::of::<T>() }) };
        value
    }

    /// Its address. Whoever has that sees to its end.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// The address is from `into_raw` of a block of this type, and nobody else will use it.
    #[inline]
    pub(crate) unsafe fn from_raw(block: NonNull<T>) -> Self {
        Self(block)
    }
}

impl<T> Deref for Block<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is whole from `new` until the block is used up, and is this block's alone.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Block<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and the block is borrowed for this alone.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Block<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value is whole, and nobody uses it after this. Should its drop panic, the memory stays behind.
        unsafe { self.0.drop_in_place() };
        // SAFETY: the block came from `allocate` with this kind, and its value is gone.
        unsafe { release(self.0.cast(), const { Kind::of::<T>() }) };
    }
}

impl<T> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").finish_non_exhaustive()
    }
}

/// Where the memory for a type comes from.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The allocator.
    Plain(Layout),
    /// The blocks of this size, counted from the smallest.
    Kept(usize),
}

impl Kind {
    const fn of<T>() -> Self {
        // What has no size may still ask for an alignment, and no allocator has blocks without a size.
        let size = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
        if KEEPS && size <= STEP * SIZES && align_of::<T>() <= ALIGNMENT {
            return Self::Kept((size - 1) / STEP);
        }
        match Layout::from_size_align(size, align_of::<T>()) {
            Ok(layout) => Self::Plain(layout),
            Err(_) => panic!("every type has a layout"),
        }
    }

    const fn layout(self) -> Layout {
        match self {
            Self::Plain(layout) => layout,
            Self::Kept(size) => match Layout::from_size_align((size + 1) * STEP, ALIGNMENT) {
                Ok(layout) => layout,
                Err(_) => panic!("all sizes are small"),
            },
        }
    }
}

#[inline]
fn allocate(kind: Kind) -> NonNull<u8> {
    if let Kind::Kept(size) = kind
        && let Ok(block) = STASHES.try_with(|stashes| stashes.0[size].take(size))
    {
        return block;
    }
    ask_allocator(kind)
}

/// # Safety
/// The block came from `allocate` with this kind, and nobody uses it any more.
#[inline]
unsafe fn release(block: NonNull<u8>, kind: Kind) {
    if let Kind::Kept(size) = kind
        && STASHES.try_with(|stashes| stashes.0[size].put(size, block)).is_ok()
    {
        return;
    }
    // SAFETY: it came from the allocator with the layout of its kind, and by the caller's word nobody uses it.
    unsafe { dealloc(block.as_ptr(), kind.layout()) };
}

#[cold]
#[inline(never)]
fn ask_allocator(kind: Kind) -> NonNull<u8> {
    // SAFETY: the layout has a size, as `Kind::of` sees to for each kind.
    let block = unsafe { alloc(kind.layout()) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(kind.layout()))
}

thread_local! {
    /// The blocks this thread keeps, of each size.
    static STASHES: Stashes = const { Stashes([const { Stash::new() }; SIZES]) };
}

struct Stashes([Stash; SIZES]);

/// Free blocks of one size: the first `len` are there.
struct Stash {
    len: Cell<usize>,
    blocks: [Cell<*mut u8>; 2 * PARCEL],
}

impl Stash {
    const fn new() -> Self {
        Self { len: Cell::new(0), blocks: [const { Cell::new(ptr::null_mut()) }; 2 * PARCEL] }
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        let len = self.len.get().checked_sub(1)?;
        self.len.set(len);
        NonNull::new(self.blocks[len].get())
    }

    #[inline]
    fn take(&self, size: usize) -> NonNull<u8> {
        let Some(block) = self.pop() else { return self.take_from_depot(size) };
        // Another thread has freed the next one, so that its line is on another core.
        if let Some(next) = self.len.get().checked_sub(1) {
            expect_to_write(self.blocks[next].get());
        }
        block
    }

    #[inline]
    fn put(&self, size: usize, block: NonNull<u8>) {
        if self.len.get() == self.blocks.len() {
            self.send_to_depot(size);
        }
        let len = self.len.get();
        self.blocks[len].set(block.as_ptr());
        self.len.set(len + 1);
    }

    #[cold]
    fn take_from_depot(&self, size: usize) -> NonNull<u8> {
        let Some(Parcel(blocks)) = depot(size).and_then(Ring::pop) else {
            return ask_allocator(Kind::Kept(size));
        };
        let [first, rest @ ..] = blocks;
        rest.into_iter().for_each(|block| self.put(size, block));
        first
    }

    /// Makes room for a parcel.
    #[cold]
    fn send_to_depot(&self, size: usize) {
        let depot =
            DEPOTS[size].get_or_init(|| Ring::with_capacity(DEPOT_BYTES / parcel_bytes(size)).ok()).as_ref();
        let parcel = Parcel(std::array::from_fn(|_| self.pop().expect("a full stash holds two parcels")));
        let refused = match depot {
            Some(depot) if depot.len() < parcels_max(size) => depot.push(parcel).err(),
            _ => Some(parcel),
        };
        if let Some(Parcel(blocks)) = refused {
            blocks.into_iter().for_each(|block| give_back(block, size));
        }
    }
}

impl Drop for Stashes {
    fn drop(&mut self) {
        for (size, stash) in self.0.iter().enumerate() {
            while let Some(block) = stash.pop() {
                give_back(block, size);
            }
        }
    }
}

/// Gives a block that was kept to the allocator.
fn give_back(block: NonNull<u8>, size: usize) {
    // SAFETY: only free blocks are kept; this one came from the allocator with the layout of its size, and whoever
    // calls this has just taken it out of where it was kept.
    unsafe { dealloc(block.as_ptr(), Kind::Kept(size).layout()) };
}

/// Blocks on their way to another thread.
struct Parcel([NonNull<u8>; PARCEL]);

// SAFETY: the blocks are free, and whoever holds the parcel is the only one that knows of them.
unsafe impl Send for Parcel {}

/// Parcels that no thread has needed yet, of each size; `None` if there was no memory for a ring.
static DEPOTS: [OnceLock<Option<Ring<Parcel>>>; SIZES] = [const { OnceLock::new() }; SIZES];

/// The depot of this size, once there is one.
fn depot(size: usize) -> Option<&'static Ring<Parcel>> {
    DEPOTS[size].get()?.as_ref()
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;

    /// The tests each use a size of their own, which the tasks of other tests have not: all threads share the depots.
    type Bytes<const BYTES: usize> = [u8; BYTES];

    fn kept<T>() -> usize {
        match Kind::of::<T>() {
            Kind::Kept(size) => STASHES.with(|stashes| stashes.0[size].len.get()),
            Kind::Plain(_) => panic!("blocks of this type are not kept"),
        }
    }

    fn parcels<T>() -> usize {
        match Kind::of::<T>() {
            Kind::Kept(size) => depot(size).map_or(0, Ring::len),
            Kind::Plain(_) => panic!("blocks of this type are not kept"),
        }
    }

    #[test]
    fn each_size_has_its_blocks_and_what_is_too_large_or_too_aligned_has_none() {
        #[repr(align(32))]
        struct Aligned(#[allow(dead_code, reason = "it is there for its size")] u8);
        let size = |kind: Kind| match kind {
            Kind::Kept(_) => Some(kind.layout().size()),
            Kind::Plain(_) => None,
        };
        assert_eq!(size(Kind::of::<u8>()), Some(64));
        assert_eq!(size(Kind::of::<Bytes<64>>()), Some(64));
        assert_eq!(size(Kind::of::<Bytes<65>>()), Some(128));
        assert_eq!(size(Kind::of::<Bytes<512>>()), Some(512));
        assert_eq!(size(Kind::of::<Bytes<513>>()), None);
        assert_eq!(size(Kind::of::<Aligned>()), None);
        assert_eq!(Kind::of::<Aligned>().layout(), Layout::new::<Aligned>());
    }

    #[test]
    fn what_has_no_size_may_have_an_alignment() {
        #[repr(align(128))]
        struct Empty;
        let block = Block::new(Empty);
        assert!(block.0.as_ptr().is_aligned());
        let Empty = block.into_inner();
        drop(Block::new(()));
    }

    #[test]
    fn a_block_holds_its_value_and_drops_it_once() {
        let witness = Arc::new(7);
        let block = Block::new((Arc::clone(&witness), [1_u8; 600]));
        let (shared, bytes) = &*block;
        assert_eq!((**shared, bytes[599]), (7, 1));
        drop(block);
        assert_eq!(Arc::strong_count(&witness), 1);
        let mut block = Block::new(Arc::clone(&witness));
        assert_eq!(Arc::strong_count(&block), 2);
        *Arc::make_mut(&mut block) = 8;
        assert_eq!((*block.into_inner(), *witness), (8, 7));
        let raw = Block::new(Arc::clone(&witness)).into_raw();
        // SAFETY: it is the one that was just made, and nobody else knows of it.
        drop(unsafe { Block::from_raw(raw) });
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn what_is_freed_is_used_again() {
        type Value = Bytes<190>;
        let first = Block::new([1; 190]);
        let address = first.0;
        drop(first);
        let again: Block<Value> = Block::new([2; 190]);
        assert_eq!((again.0, again[0]), (address, 2));
    }

    #[test]
    fn what_one_thread_frees_comes_back_to_the_one_that_makes_and_no_more_is_kept_than_said() {
        type Value = Bytes<500>;
        let (send, receive) = mpsc::sync_channel::<Block<Value>>(8);
        let freeing = thread::spawn(move || {
            let mut most = 0;
            for block in receive {
                assert!(block.iter().all(|&byte| byte == block[0]), "somebody else wrote there");
                drop(block);
                most = most.max(kept::<Value>());
            }
            most
        });
        let mut seen = HashSet::new();
        for number in 0..20_000 {
            let block = Block::new([number as u8; 500]);
            seen.insert(block.0.as_ptr().expose_provenance());
            send.send(block).unwrap();
        }
        drop(send);
        assert_eq!(freeing.join().unwrap(), 2 * PARCEL);
        assert!(seen.len() < 1000, "{} blocks were asked for though hardly 150 lived", seen.len());
        let many: Vec<Block<Value>> = (0..10_000).map(|_| Block::new([0; 500])).collect();
        drop(many);
        assert!(kept::<Value>() <= 2 * PARCEL);
        assert_eq!(parcels::<Value>(), DEPOT_BYTES / (PARCEL * 512), "the depot is full, and holds no more");
    }

    #[test]
    fn blocks_may_be_made_and_freed_while_a_thread_ends() {
        struct Late(Option<Block<Bytes<300>>>);
        impl Drop for Late {
            fn drop(&mut self) {
                assert!(self.0.as_ref().is_some_and(|block| block[299] == 9));
                self.0 = Some(Block::new([3; 300]));
            }
        }
        thread_local! {
            static LATE: Late = Late(Some(Block::new([9; 300])));
        }
        // Whether the stash or this value goes first is not told: both orders have to work.
        thread::spawn(|| LATE.with(|late| assert!(late.0.is_some()))).join().unwrap();
        thread::spawn(|| {
            drop(Block::new([1_u8; 300]));
            LATE.with(|late| assert!(late.0.is_some()));
        })
        .join()
        .unwrap();
    }
}
