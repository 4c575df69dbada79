//! `StealQueue`: one owner pushes and pops at the bottom, thieves take from the top, one item or half of them.
//!
//! ```text
//!             claim word                      owner's line
//!   ┌──────────────┬───┬─────────────┐   ┌────────────┬───┐
//!   │ pops 32 bits │ g │ top 31 bits │   │   pushes   │ g │    bottom = pushes − pops
//!   └──────────────┴───┴─────────────┘   └────────────┴───┘
//!          positions   top ▼        ▼ bottom
//!   buffer g   │ copied │ a │ b │ c │   │ …                   a, b, c are waiting; a is the oldest
//! ```
//!
//! This is the deque of Chase and Lev with the decision moved into one word. Taking is a compare-and-swap of
//! the *claim word*, by owner and thief alike, so it cannot happen twice and needs no fence. A thief claims
//! first and copies afterwards. It may therefore claim any number of items with one swap, also from an owner
//! who pops at the other end, and it never reads a cell that somebody may write: there is no data race to
//! excuse. When it has copied, it adds to the buffer's `copied`; the owner reuses a cell only when the
//! counts show that nobody is still copying from it.
//!
//! The buffer grows and shrinks. A new one is installed by flipping `g` in the claim word, so a claim also
//! fixes which buffer it reads. The old one is freed when its count of copied items reaches the number
//! claimed from it: exact, with no epochs and no cost to a steal (docs/decisions/0002-steal-by-claim.md).
//!
//! Not here: the thieves (`steal_thief.rs`), whom to rob and how often (the pool's business), items from outside
//! (`global.rs`).

use crate::edge::{Edge, left_out};
use crate::slots::drop_all;
use crate::steal_buffer::Buffer;
use crate::steal_thief::Stealer;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed, UnsafeCell};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use crossbeam_utils::CachePadded;

/// A pushed item's bytes travel to the thief who counts it.
pub(crate) static STEAL_PUBLISH: Edge = Edge::new("STEAL_PUBLISH");
/// Whoever sees a claim word sees the pushes and the buffer it speaks of.
pub(crate) static STEAL_CLAIM: Edge = Edge::new("STEAL_CLAIM");

/// The most items a buffer ever holds, unless the queue is given a lower limit: 67 million.
pub const STEAL_CAPACITY_MAX: usize = 1 << 26;
/// The smallest buffer.
const CAPACITY_MIN: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 64 };
/// A buffer up to this size is kept when it is not needed, until the owner rests: queues run empty all the time, and to
/// make a new one for each burst would cost as much as to run it.
const CAPACITY_KEPT: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 1024 };
/// A larger one, of which no more than this part is used, is halved.
const SHRINK_AT: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };
/// Old buffers still being copied from, beyond which the buffer is not shrunk.
const RETIRED_MAX: usize = 4;

pub(crate) const TOP_MASK: u64 = (1 << 31) - 1;
pub(crate) const GENERATION: u64 = 1 << 31;
const ONE_POP: u64 = 1 << 32;

/// What owner and thieves share.
pub(crate) struct Shared<T> {
    /// Who has taken what: see the picture above. Everyone swaps it.
    pub(crate) claim: CachePadded<AtomicU64>,
    /// Written by the owner.
    pub(crate) bottom: CachePadded<Bottom<T>>,
    /// Old buffers with the number of items claimed from each. Touched by the owner, and by the last to leave.
    retired: UnsafeCell<Vec<(*mut Buffer<T>, u32)>>,
}

/// The owner's line: read by thieves.
pub(crate) struct Bottom<T> {
    /// How many pushes there have been, doubled, plus the generation of the buffer they went to. A pop does
    /// not take it back: it counts in the claim word.
    pub(crate) pushes: AtomicU32,
    /// The buffer of generation 0 and of generation 1; only the one the claim word names may be followed.
    pub(crate) buffers: [AtomicPtr<Buffer<T>>; 2],
}

// SAFETY: items move from thread to thread by value, hence `T: Send`. A cell is read by the one thread whose
// claim covers it, or written by the owner when no claim does; `retired` is the owner's alone until nobody
// else is left.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; owning it all is owning the items.
unsafe impl<T: Send> Send for Shared<T> {}

/// The owner's handle: pushes and pops without contention. It can move to another thread, but is used by one
/// at a time.
///
/// ```
/// use millpond_queue::{Steal, StealQueue};
/// let own = StealQueue::new();
/// let thief = own.stealer();
/// for task in [1, 2, 3] {
///     own.push(task).expect("far below the limit");
/// }
/// assert_eq!(own.pop(), Some(3), "the owner takes the newest, whose data is warm");
/// assert_eq!(thief.steal(), Steal::Success(1), "a thief takes the oldest");
/// assert_eq!(own.pop_oldest(), Some(2), "the owner may take the oldest too");
/// ```
pub struct StealQueue<T> {
    pub(crate) shared: Arc<Shared<T>>,
    /// Copies of what only the owner changes, so that it need not ask the shared lines.
    pushes: Cell<u32>,
    pops: Cell<u32>,
    /// The claim word as the owner last knew it; thieves may have moved its top on since.
    claim_seen: Cell<u64>,
    /// Pushes may go on until bottom reaches this position.
    pub(crate) room: Cell<u32>,
    /// A pop that finds no more than this many items shrinks the buffer.
    shrink_below: Cell<u32>,
    buffer: Cell<*const Buffer<T>>,
    /// Where `top` was when the buffer was installed, and what the owner itself has taken from the top since.
    buffer_base: Cell<u32>,
    taken_oldest: Cell<u32>,
    capacity_max: u32,
}

/// A position of a [`StealQueue`], to tell what came later.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u32);

// SAFETY: the handle is used by one thread at a time (`Cell` keeps it from being `Sync`); the buffer it
// points to is kept alive by `shared`. Items may cross threads since `T: Send`.
unsafe impl<T: Send> Send for StealQueue<T> {}

impl<T> StealQueue<T> {
    /// An empty queue that grows to at most [`STEAL_CAPACITY_MAX`] items.
    #[expect(clippy::new_without_default, reason = "a queue is made on purpose, with a limit in mind")]
    pub fn new() -> Self {
        Self::with_limit(STEAL_CAPACITY_MAX)
    }

    /// An empty queue that grows to at most `limit` items, rounded up to a power of two between 64 and
    /// [`STEAL_CAPACITY_MAX`].
    pub fn with_limit(limit: usize) -> Self {
        let capacity_max = limit.clamp(CAPACITY_MIN as usize, STEAL_CAPACITY_MAX).next_power_of_two() as u32;
        let buffer = Box::into_raw(Box::new(Buffer::with_capacity(CAPACITY_MIN)));
        let shared = Shared {
            claim: CachePadded::new(AtomicU64::new(0)),
            bottom: CachePadded::new(Bottom {
                pushes: AtomicU32::new(0),
                buffers: [AtomicPtr::new(buffer), AtomicPtr::new(core::ptr::null_mut())],
            }),
            retired: UnsafeCell::new(Vec::new()),
        };
        Self {
            shared: Arc::new(shared),
            pushes: Cell::new(0),
            pops: Cell::new(0),
            claim_seen: Cell::new(0),
            room: Cell::new(CAPACITY_MIN),
            shrink_below: Cell::new(0),
            buffer: Cell::new(buffer),
            buffer_base: Cell::new(0),
            taken_oldest: Cell::new(0),
            capacity_max,
        }
    }

    /// A handle for thieves.
    pub fn stealer(&self) -> Stealer<T> {
        Stealer::new(Arc::clone(&self.shared))
    }

    /// Adds an item at the bottom. At the limit it is handed back: give it to the
    /// [`GlobalQueue`](crate::GlobalQueue) instead.
    #[inline(always)]
    pub fn push(&self, item: T) -> Result<(), T> {
        let bottom = self.bottom();
        if bottom == self.room.get() && !self.make_room(1) {
            return Err(item);
        }
        self.write(bottom, item);
        self.publish(1);
        Ok(())
    }

    /// As [`push`](Self::push), with an item that `fill` puts into its place: for items so large that handing them down
    /// costs more than adding them.
    ///
    /// # Safety
    /// `fill` puts a whole item there, unless it unwinds, and does not use this queue.
    #[inline(always)]
    pub unsafe fn push_filled<S>(&self, seed: S, fill: impl FnOnce(S, &mut MaybeUninit<T>)) -> Result<(), S> {
        let bottom = self.bottom();
        if bottom == self.room.get() && !self.make_room(1) {
            return Err(seed);
        }
        // Should it panic, nothing was added.
        self.fill(bottom, |place| fill(seed, place));
        self.publish(1);
        Ok(())
    }

    /// Takes the newest item.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let bottom = self.bottom();
        self.take(bottom, |claim| claim.wrapping_add(ONE_POP))?;
        self.pops.set(self.pops.get().wrapping_add(1));
        Some(self.read(bottom.wrapping_sub(1) & TOP_MASK as u32))
    }

    /// Where the next item goes, for [`pop_since`](Self::pop_since).
    pub fn mark(&self) -> Mark {
        Mark(self.bottom())
    }

    /// As [`pop`](Self::pop), but leaves alone what waited when the mark was made, or lies where such an item was. A
    /// mark is good for two billion pushes (2^31 − 2^26).
    ///
    /// ```
    /// let own = millpond_queue::StealQueue::new();
    /// own.push("before").expect("far below the limit");
    /// let mark = own.mark();
    /// own.push("since").expect("far below the limit");
    /// assert_eq!([own.pop_since(mark), own.pop_since(mark)], [Some("since"), None]);
    /// assert_eq!(own.pop(), Some("before"));
    /// ```
    #[inline]
    pub fn pop_since(&self, mark: Mark) -> Option<T> {
        let since = distance(mark.0, self.bottom());
        // Pops may have taken bottom back behind the mark, by a capacity at most: nearly once around the circle.
        let is_behind = since >= (1 << 31) - STEAL_CAPACITY_MAX as u32;
        if since == 0 || is_behind { None } else { self.pop() }
    }

    /// Takes the oldest item, as a thief would: the queue used first in, first out.
    #[inline]
    pub fn pop_oldest(&self) -> Option<T> {
        let mut item = MaybeUninit::uninit();
        // SAFETY: if it says so, it has just moved a whole item there.
        self.pop_oldest_into(&mut item).then(|| unsafe { item.assume_init() })
    }

    /// As [`pop_oldest`](Self::pop_oldest), and moves the item to where it is wanted, once: for items so large that
    /// handing them on costs more than taking them. What was there is overwritten. Says whether there was an item.
    #[inline(always)]
    pub fn pop_oldest_into(&self, place: &mut MaybeUninit<T>) -> bool {
        let Some(claim) = self.take(self.bottom(), |claim| claim_more(claim, 1)) else { return false };
        self.taken_oldest.set(self.taken_oldest.get().wrapping_add(1));
        // SAFETY: the owner wrote the cell and has just claimed the position, so the item is whole and its own alone.
        unsafe { self.buffer_ref().read_into(top(claim), place) };
        true
    }

    /// Makes room for up to `count` more items, and says for how many there is.
    pub fn reserve(&self, count: usize) -> usize {
        // Thieves can only make more room meanwhile.
        let count = count.min(self.limit() - self.len());
        if (distance(self.bottom(), self.room.get()) as usize) < count {
            let made = self.make_room(count as u32);
            debug_assert!(made, "below the limit there is always room to be made");
        }
        count
    }

    /// How many items wait. Thieves may be at work, so it may be stale.
    pub fn len(&self) -> usize {
        distance(top(self.shared.claim.load(Relaxed)), self.bottom()) as usize
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing waits, as far as the owner knows without a look at what it shares with thieves. They can only
    /// have made it emptier.
    #[inline(always)]
    pub fn is_known_empty(&self) -> bool {
        distance(top(self.claim_seen.get()), self.bottom()) == 0
    }

    /// How many items the present buffer holds; it follows the load between 64 and the limit. Up to 1024 it is kept
    /// for the next burst, until [`shrink_to_fit`](Self::shrink_to_fit).
    pub fn capacity(&self) -> usize {
        self.buffer_ref().capacity() as usize
    }

    /// Gives back what memory it can, when no burst is expected soon.
    pub fn shrink_to_fit(&self) {
        self.free_retired();
        let live = distance(top(self.shared.claim.load(Relaxed)), self.bottom());
        let capacity = live.next_power_of_two().max(CAPACITY_MIN);
        if capacity < self.buffer_ref().capacity() && self.retired() < RETIRED_MAX {
            self.install(capacity);
        }
    }

    /// How many items the queue holds at most.
    pub fn limit(&self) -> usize {
        self.capacity_max as usize
    }

    #[inline(always)]
    pub(crate) fn bottom(&self) -> u32 {
        (self.pushes.get() >> 1).wrapping_sub(self.pops.get()) & TOP_MASK as u32
    }

    #[inline(always)]
    pub(crate) fn buffer_ref(&self) -> &Buffer<T> {
        // SAFETY: `buffer` is the installed buffer, which lives until the owner replaces it, here and in
        // this thread.
        unsafe { &*self.buffer.get() }
    }

    #[inline(always)]
    fn write(&self, position: u32, item: T) {
        self.fill(position, |place| {
            place.write(item);
        });
    }

    #[inline(always)]
    fn fill(&self, position: u32, fill: impl FnOnce(&mut MaybeUninit<T>)) {
        // SAFETY: the position is at or above bottom, so no item is there and nobody may claim it; `room`
        // says that no thief still copies from its cell. What fills it puts a whole item there, and
        // does not use the queue meanwhile.
        unsafe { self.buffer_ref().fill(position, fill) };
    }

    #[inline(always)]
    fn read(&self, position: u32) -> T {
        // SAFETY: the owner wrote the cell and has just claimed the position, so the item is whole and its
        // own alone.
        unsafe { self.buffer_ref().read(position) }
    }

    /// Lets thieves see `count` more items.
    #[inline(always)]
    pub(crate) fn publish(&self, count: u32) {
        self.pushes.set(self.pushes.get().wrapping_add(count << 1));
        // STEAL_PUBLISH, owner's end (Release): the items travel with the count.
        self.shared.bottom.pushes.store(self.pushes.get(), STEAL_PUBLISH.release());
    }

    /// Claims one item, if there is one, by changing the claim word to `taken`. Returns the word as it was.
    ///
    /// The owner guesses that the word is still as it left it, which saves it a look. `top` moves only forward,
    /// and the guess is less than a round of the positions old: bottom never passes `room`, which is a capacity
    /// from the `top` that `refresh_room` or `install` saw last. So a queue that was empty by the guess is empty.
    #[inline(always)]
    fn take(&self, bottom: u32, taken: impl Fn(u64) -> u64) -> Option<u64> {
        loop {
            let claim = self.claim_seen.get();
            let live = distance(top(claim), bottom);
            if live <= self.shrink_below.get() && !self.shrink(live) {
                return None;
            }
            let claim = self.claim_seen.get();
            if self.swap_claim(claim, taken(claim)) {
                return Some(claim);
            }
        }
    }

    /// Swaps the claim word if it is `old`, and remembers what it is in any case.
    #[inline(always)]
    fn swap_claim(&self, old: u64, new: u64) -> bool {
        // STEAL_CLAIM, owner's end (Release): who sees this claim sees the pushes before it.
        match self.shared.claim.compare_exchange(old, new, STEAL_CLAIM.release(), Relaxed) {
            Ok(_) => {
                self.claim_seen.set(new);
                true
            }
            Err(now) => {
                self.claim_seen.set(now);
                false
            }
        }
    }

    /// Makes place for `count` more items, in this buffer or a new one. Says whether there is.
    #[cold]
    fn make_room(&self, count: u32) -> bool {
        self.refresh_room();
        let bottom = self.bottom();
        if distance(bottom, self.room.get()) >= count {
            return true;
        }
        let live = distance(top(self.shared.claim.load(Relaxed)), bottom);
        if live + count > self.capacity_max {
            return false;
        }
        // If there is place but for a thief who still copies, a buffer of the same size will do.
        let capacity = (live + count).next_power_of_two().max(CAPACITY_MIN);
        let crowded = live + count > self.buffer_ref().capacity() / 2;
        let capacity = if crowded { capacity.max(self.buffer_ref().capacity() * 2) } else { capacity };
        self.install(capacity.min(self.capacity_max));
        true
    }

    /// Moves `room` up to what the thieves have left behind.
    fn refresh_room(&self) {
        let copied = self.buffer_ref().copied().wrapping_add(self.taken_oldest.get());
        // Read after `copied`: every claim counted there shows in `top`. If the two agree, the claims
        // counted are all the claims there have been below `top`, so no cell below it is being copied from
        // any more.
        self.claim_seen.set(self.shared.claim.load(Relaxed));
        let top = top(self.claim_seen.get());
        let claimed = distance(self.buffer_base.get(), top);
        if distance(claimed, copied) == 0 || left_out("STEAL_REUSE_WAITS_FOR_COPIES") {
            self.room.set(top.wrapping_add(self.buffer_ref().capacity()) & TOP_MASK as u32);
        }
    }

    /// The few items left do not need so large a buffer; none at all need only one that is kept. Says whether any are
    /// left.
    #[cold]
    fn shrink(&self, live: u32) -> bool {
        self.free_retired();
        let capacity = self.buffer_ref().capacity();
        if capacity > CAPACITY_KEPT && self.retired() < RETIRED_MAX {
            self.install(if live == 0 { CAPACITY_KEPT } else { capacity / 2 });
        }
        distance(top(self.claim_seen.get()), self.bottom()) > 0
    }

    /// How many old buffers are still being copied from.
    fn retired(&self) -> usize {
        self.shared.retired.with(|retired| {
            // SAFETY: `retired` is the owner's, and this is the owner.
            unsafe { (*retired).len() }
        })
    }

    /// Replaces the buffer by one of `capacity` items, which must hold those that are waiting.
    fn install(&self, capacity: u32) {
        let new = Box::new(Buffer::with_capacity(capacity));
        let bottom = self.bottom();
        let mut claim = self.shared.claim.load(Relaxed);
        let first = top(claim);
        assert!(distance(first, bottom) <= capacity, "the new buffer holds what is waiting");
        self.shared.retired.with_mut(|retired| {
            // SAFETY: `retired` is the owner's, and this is the owner. Room now: nothing may fail after the swap.
            unsafe { &mut *retired }.reserve(1);
        });
        // SAFETY: the positions from top to bottom hold items in the old buffer, which thieves only read;
        // nobody but this thread knows the new one. Items claimed meanwhile leave bits in the new buffer
        // that nobody will ever read.
        unsafe { self.buffer_ref().copy_to(&new, first, distance(first, bottom)) };
        let new = Box::into_raw(new);
        let generation = usize::from(claim & GENERATION == 0);
        self.shared.bottom.buffers[generation].store(new, Relaxed);
        // The extra pop makes the word differ from every word of the old buffer; the extra push evens it out.
        let extra = if left_out("STEAL_NEW_BUFFER_NEW_WORD") { 0 } else { 1 };
        while !self.swap_claim(claim, claim.wrapping_add(extra * ONE_POP) ^ GENERATION) {
            claim = self.claim_seen.get();
        }
        self.pops.set(self.pops.get().wrapping_add(extra as u32));
        self.pushes.set(self.pushes.get() ^ 1);
        self.publish(extra as u32);

        let claimed = distance(self.buffer_base.get(), top(claim)).wrapping_sub(self.taken_oldest.get());
        self.shared.retired.with_mut(|retired| {
            // SAFETY: `retired` is the owner's, and this is the owner.
            let retired = unsafe { &mut *retired };
            retired.push((self.buffer.get().cast_mut(), claimed));
        });
        self.buffer.set(new);
        self.buffer_base.set(top(claim));
        self.taken_oldest.set(0);
        self.room.set(top(claim).wrapping_add(capacity) & TOP_MASK as u32);
        self.shrink_below.set(if capacity > CAPACITY_KEPT { capacity / SHRINK_AT } else { 0 });
        self.free_retired();
    }

    /// Frees the old buffers that nobody copies from any more.
    fn free_retired(&self) {
        self.shared.retired.with_mut(|retired| {
            // SAFETY: `retired` is the owner's, and this is the owner.
            let retired = unsafe { &mut *retired };
            retired.retain(|&(buffer, claimed)| {
                // SAFETY: a buffer in the list is not freed yet; thieves too only read it and add to its count.
                let copied = unsafe { &*buffer }.copied();
                if distance(claimed, copied) != 0 && !left_out("STEAL_FREE_WAITS_FOR_COPIES") {
                    return true;
                }
                // SAFETY: it came from `Box::into_raw`, everyone who claimed from it has left, nobody new
                // can come, and this is where it leaves the list.
                drop(unsafe { Box::from_raw(buffer) });
                false
            });
        });
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // The last handle is gone: nobody is copying, and the counts are final.
        let claim = self.claim.load(Relaxed);
        let count = available(claim, self.bottom.pushes.load(Relaxed));
        let buffer = self.bottom.buffers[usize::from(claim & GENERATION != 0)].load(Relaxed);
        // SAFETY: the claim word names the installed buffer, which came from `Box::into_raw` and is freed
        // here alone.
        let buffer = unsafe { Box::from_raw(buffer) };
        let mut positions = (0..count).map(|offset| top(claim).wrapping_add(offset) & TOP_MASK as u32);
        drop_all(|| {
            // SAFETY: the positions from top to bottom hold items that nobody has claimed; each is read once.
            positions.next().map(|position| unsafe { buffer.read(position) })
        });
        self.retired.with_mut(|retired| {
            // SAFETY: this is the last to leave, so the list is its own.
            for (buffer, _) in unsafe { &mut *retired }.drain(..) {
                // SAFETY: it came from `Box::into_raw` and nobody is left to copy from it.
                drop(unsafe { Box::from_raw(buffer) });
            }
        });
    }
}

// A panic of a user's code cannot leave a queue half changed: none runs between two of its steps.
impl<T> UnwindSafe for StealQueue<T> {}
impl<T> RefUnwindSafe for StealQueue<T> {}
impl<T> fmt::Debug for StealQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StealQueue").field("len", &self.len()).field("capacity", &self.capacity()).finish()
    }
}

#[inline(always)]
pub(crate) fn top(claim: u64) -> u32 {
    (claim & TOP_MASK) as u32
}

/// The claim word after `count` more items are taken from the top.
#[inline(always)]
pub(crate) fn claim_more(claim: u64, count: u32) -> u64 {
    (claim & !TOP_MASK) | (claim.wrapping_add(u64::from(count)) & TOP_MASK)
}

/// Positions from `from` up to `to`, on the circle of 2^31.
#[inline(always)]
pub(crate) fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & TOP_MASK as u32
}

/// How many items a claim word and a later count of pushes leave to take.
#[inline(always)]
pub(crate) fn available(claim: u64, pushes: u32) -> u32 {
    let bottom = (pushes >> 1).wrapping_sub((claim >> 32) as u32);
    let ahead = bottom.wrapping_sub(top(claim)) << 1;
    // One short for a moment while a new buffer's extra pop is counted and its extra push is not.
    if (ahead as i32) < 0 { 0 } else { ahead >> 1 }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::steal_thief::Steal;

    /// An empty queue whose positions and counts are about to begin anew.
    fn aged(position: u32, pops: u32) -> StealQueue<u64> {
        let queue = StealQueue::new();
        let pushes = pops.wrapping_add(position) << 1;
        let claim = u64::from(pops) << 32 | u64::from(position);
        queue.shared.claim.store(claim, Relaxed);
        queue.shared.bottom.pushes.store(pushes, Relaxed);
        queue.pushes.set(pushes);
        queue.pops.set(pops);
        queue.claim_seen.set(claim);
        queue.buffer_base.set(position);
        queue.room.set(position.wrapping_add(CAPACITY_MIN) & TOP_MASK as u32);
        queue
    }

    #[test]
    fn an_item_that_is_put_into_its_place_is_there_whole_or_not_at_all() {
        let queue = StealQueue::with_limit(64);
        let add = |text: &'static str| {
            let fill = |text: &'static str, place: &mut MaybeUninit<std::string::String>| {
                assert_ne!(text, "broken");
                place.write(std::string::String::from(text));
            };
            // SAFETY: a string is written there, and what makes one of a text does not use the queue.
            unsafe { queue.push_filled(text, fill) }
        };
        assert!((0..64).all(|_| add("seed") == Ok(())));
        assert_eq!(add("one too many"), Err("one too many"));
        assert_eq!(queue.pop().as_deref(), Some("seed"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| add("broken")));
        assert!(panicked.is_err());
        assert_eq!(core::iter::from_fn(|| queue.pop_oldest()).count(), 63, "a panic adds nothing");
    }

    #[test]
    fn a_queue_goes_on_where_its_positions_and_counts_begin_anew() {
        for (position, pops) in [(TOP_MASK as u32 - 100, 7), (3, u32::MAX - 50), (TOP_MASK as u32, u32::MAX)]
        {
            let queue = aged(position, pops);
            let (thief, own) = (queue.stealer(), StealQueue::new());
            let (mut sum, mut next) = (0u64, 0u64);
            for round in 0..400u64 {
                for _ in 0..round % 150 {
                    next += 1;
                    assert_eq!(queue.push(next), Ok(()));
                }
                sum += queue.pop().unwrap_or(0);
                sum += queue.pop_oldest().unwrap_or(0);
                sum += thief.steal().success().unwrap_or(0);
                let _ = thief.steal_half(&own);
                sum += core::iter::from_fn(|| own.pop()).sum::<u64>();
                if round % 3 == 0 {
                    sum += core::iter::from_fn(|| queue.pop()).sum::<u64>();
                }
            }
            sum += core::iter::from_fn(|| queue.pop()).sum::<u64>();
            assert_eq!(sum, next * (next + 1) / 2, "position {position}, pops {pops}");
            assert!(queue.capacity() <= CAPACITY_KEPT as usize, "an empty queue keeps little");
            queue.shrink_to_fit();
            assert_eq!(queue.capacity(), CAPACITY_MIN as usize, "an empty queue has given its memory back");
        }
    }

    #[test]
    fn what_waited_before_the_mark_is_left_alone_wherever_the_positions_begin_anew() {
        for position in [0, 3, TOP_MASK as u32 - 2, TOP_MASK as u32] {
            let queue = aged(position, 7);
            let thief = queue.stealer();
            let push = |items: &[u64]| items.iter().for_each(|&item| assert_eq!(queue.push(item), Ok(())));
            push(&[1, 2, 3]);
            let mark = queue.mark();
            assert_eq!(queue.pop_since(mark), None);
            push(&[4, 5, 6]);
            assert_eq!(queue.pop_since(mark), Some(6));
            assert_eq!((thief.steal(), queue.pop_oldest()), (Steal::Success(1), Some(2)));
            assert_eq!([queue.pop_since(mark), queue.pop_since(mark)], [Some(5), Some(4)]);
            assert_eq!([queue.pop_since(mark), queue.pop()], [None, Some(3)]);
            assert_eq!(queue.pop_since(mark), None, "bottom is behind the mark");
            push(&[7, 8]);
            assert_eq!([queue.pop_since(mark), queue.pop_since(mark)], [Some(8), None], "7 lies where 3 lay");
        }
    }

    #[test]
    fn a_mark_is_good_for_as_many_pushes_as_it_says() {
        let pushes = (1 << 31) - STEAL_CAPACITY_MAX as u32 - 1;
        for (since, is_good) in
            [(1, true), (STEAL_CAPACITY_MAX as u32 + 1, true), (pushes, true), (pushes + 1, false)]
        {
            let mark = Mark(5);
            let queue = aged(5 + since - 1, 7);
            assert_eq!(queue.push(1), Ok(()));
            assert_eq!(queue.pop_since(mark).is_some(), is_good, "after {since} pushes");
        }
    }

    #[test]
    fn an_owner_who_only_pushes_keeps_a_fresh_guess_of_the_claim_word() {
        let queue = StealQueue::new();
        let thief = queue.stealer();
        for item in 0..10_000u64 {
            assert_eq!(queue.push(item), Ok(()));
            assert_eq!(thief.steal(), Steal::Success(item));
            let behind = distance(top(queue.claim_seen.get()), queue.bottom());
            assert!(
                behind <= CAPACITY_MIN,
                "a guess {behind} old would be mistaken after a round of positions"
            );
        }
    }

    #[test]
    fn a_buffer_is_reused_when_thieves_have_left_and_not_replaced() {
        let queue = StealQueue::new();
        let thief = queue.stealer();
        let first = queue.buffer.get();
        for item in 0..10_000u64 {
            assert_eq!(queue.push(item), Ok(()));
            assert_eq!(thief.steal(), Steal::Success(item));
        }
        assert_eq!(queue.buffer.get(), first);
    }
}
