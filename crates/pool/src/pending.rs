//! How many tasks of a scope are not over, and the bed in which a thread waits for that.
//!
//! ```text
//!   while the body runs    pending = BODY_RUNS + spawned by tasks − over       far from zero; what the body
//!                                                                              has spawned is counted apart
//!   when it is over        pending = spawned by all − over                     zero: the scope may end
//! ```
//!
//! The count lies in the frame that the tasks borrow from. The last step of a task there is to count itself as over;
//! if it was the last one, the frame may be gone by the time it calls whoever waits. So threads wait in beds that
//! belong to nobody. A bed is shared by all scopes whose address says so, and who is called looks again.
//!
//! The thread that runs the body is mostly the only one that spawns. It counts for itself, without a word that the
//! workers change all the time.
//!
//! Not here: the tasks (`scope.rs`).

use crate::edge::{Edge, left_out};
use crate::futex::{self, Scope};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crossbeam_utils::CachePadded;
use std::time::Duration;

/// What the tasks did is seen by who goes on after the scope.
static PENDING_OVER: Edge = Edge::new("PENDING_OVER");
/// Who lies down after it was called sees why.
static PENDING_CALL: Edge = Edge::new("PENDING_CALL");

/// More than there can be tasks of one scope.
const BODY_RUNS: u64 = 1 << 63;

/// The tasks of one scope that are not over.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Changed by every task that ends, hence on a line of its own.
    tasks: CachePadded<AtomicU64>,
    /// The number of the thread that runs the body, until that is over: 0. Written by that thread only.
    body_thread: AtomicU64,
    /// How many tasks it has spawned. Written by that thread only.
    body_spawned: AtomicU64,
}

impl Pending {
    /// For a body that runs on the thread of this number, which is not 0.
    pub(crate) fn new(thread: u64) -> Self {
        Self {
            tasks: CachePadded::new(AtomicU64::new(BODY_RUNS)),
            body_thread: AtomicU64::new(thread),
            body_spawned: AtomicU64::new(0),
        }
    }

    /// One more is about to be spawned, by the thread of this number: that of the body, or of a task that is not over.
    #[inline]
    pub(crate) fn one_more(&self, thread: u64) {
        if self.body_thread.load(Relaxed) == thread {
            self.body_spawned.store(self.body_spawned.load(Relaxed) + 1, Relaxed);
        } else {
            self.tasks.fetch_add(1, Relaxed);
        }
    }

    /// The body is over, and the count as it should be. For the thread of the body.
    pub(crate) fn body_is_over(&self) {
        self.body_thread.store(0, Relaxed);
        // Relaxed: it gives nothing to itself, and what tasks gave before it travels on with the swap.
        self.tasks.fetch_sub(BODY_RUNS - self.body_spawned.load(Relaxed), Relaxed);
    }

    /// A task is over, and may not touch the frame any more. Says whether it was the last: then somebody is to be
    /// called.
    ///
    /// # Safety
    /// `this` is the count of a scope, which waits for the task. After the call it may be gone, hence the pointer.
    #[inline]
    pub(crate) unsafe fn one_is_over(this: *const Self) -> bool {
        // SAFETY: by the caller's word the count is there until this step is done.
        let tasks: &AtomicU64 = unsafe { &(*this).tasks };
        // PENDING_OVER, the task's end (Release): what it did is whole. Each task adds to what the others gave.
        tasks.fetch_sub(1, PENDING_OVER.release()) == 1
    }

    /// Whether all are over, and the body too.
    pub(crate) fn is_over(&self) -> bool {
        // PENDING_OVER, the waiter's end (Acquire).
        self.tasks.load(PENDING_OVER.acquire()) == 0
    }

    /// How many are not over. It may be stale.
    pub(crate) fn count(&self) -> u64 {
        match self.tasks.load(Relaxed) {
            runs if runs > BODY_RUNS / 2 => {
                let spawned = self.body_spawned.load(Relaxed) as i64 + runs.wrapping_sub(BODY_RUNS) as i64;
                spawned.max(0) as u64
            }
            pending => pending,
        }
    }
}

/// Where threads wait for scopes: the number of calls, and whether somebody lies there.
#[derive(Debug)]
pub(crate) struct Bed(AtomicU32);

const SOMEBODY: u32 = 1;
const ONE_CALL: u32 = 2;

impl Bed {
    /// The bed for what is at this address.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn at(address: usize) -> &'static Self {
        static BEDS: [CachePadded<Bed>; 16] = [const { CachePadded::new(Bed(AtomicU32::new(0))) }; 16];
        // Frames of several threads are often alike in the lower bits, hence a hash; its upper four bits are best.
        let hash = (address as u64 >> 7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &BEDS[(hash >> 60) as usize]
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Says that the caller is about to wait. It has to look once more, and then hands what this returns to `wait`.
    pub(crate) fn lie_down(&self) -> u32 {
        // PENDING_CALL, the sleeper's end (Acquire): if it was called before, its next look tells it why.
        self.0.fetch_or(SOMEBODY, PENDING_CALL.acquire()) | SOMEBODY
    }

    /// Sleeps until somebody calls, or for as long as it may; it may return early.
    pub(crate) fn wait(&self, lay_down: u32, at_most: Option<Duration>) {
        futex::wait(&self.0, lay_down, at_most, Scope::Private);
    }

    /// Wakes whoever lies there.
    pub(crate) fn call(&self) {
        let mut word = self.0.load(Relaxed);
        loop {
            let called = word.wrapping_add(ONE_CALL) & !SOMEBODY;
            // PENDING_CALL, the caller's end (Release).
            match self.0.compare_exchange_weak(word, called, PENDING_CALL.release(), Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word & SOMEBODY != 0 && !left_out("PENDING_CALL_WAKES") {
            futex::wake(&self.0, u32::MAX, Scope::Private);
        }
    }
}
