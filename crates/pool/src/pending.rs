//! How many tasks of a scope are not over, and the bed in which a thread waits for that.
//!
//! ```text
//!   pending = tasks + own      tasks: spawned − over, by other threads, and what `own` was at the last settling
//!                              own:   spawned − over, by the scope's thread since
//! ```
//!
//! The thread that runs the body is mostly the only one that spawns; and if it is a worker, it runs many of the tasks
//! itself while it waits. So it counts for itself, without a word that the workers change all the time, and settles
//! before it sleeps: from then on `tasks` is the whole truth, and who brings it to zero was the last. Before, either
//! may be below zero.
//!
//! The count lies in the frame that the tasks borrow from. The last step of a task there is to count itself as over;
//! if it was the last one, the frame may be gone by the time it calls whoever waits. So threads wait in beds that
//! belong to nobody. A bed is shared by all scopes whose address says so, and who is called looks again.
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

/// The tasks of one scope that are not over.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Changed by every task that another thread ends, hence on a line of its own.
    tasks: CachePadded<AtomicU64>,
    /// The number of the scope's thread, which runs the body. Every task that ends looks at it.
    thread: u64,
    /// Written by that thread only, whenever it spawns, hence on a line of its own.
    own: CachePadded<AtomicU64>,
}

impl Pending {
    /// For the scope of the thread of this number.
    pub(crate) fn new(thread: u64) -> Self {
        Self { tasks: CachePadded::new(AtomicU64::new(0)), thread, own: CachePadded::new(AtomicU64::new(0)) }
    }

    /// Whether the scope is that of the thread of this number.
    pub(crate) fn is_of(&self, thread: u64) -> bool {
        self.thread == thread
    }

    /// One more is about to be spawned, by the thread of this number: that of the body, or of a task that is not over.
    #[inline]
    pub(crate) fn one_more(&self, thread: u64) {
        if self.is_of(thread) {
            self.count_own(1);
        } else {
            self.tasks.fetch_add(1, Relaxed);
        }
    }

    /// A task is over on the thread of this number, and may not touch the frame any more. Says whether it may have been
    /// the last: then somebody is to be called.
    ///
    /// # Safety
    /// `this` is the count of a scope, which waits for the task. After the call it may be gone, hence the pointer.
    #[inline]
    pub(crate) unsafe fn one_is_over(this: *const Self, thread: u64) -> bool {
        // SAFETY: by the caller's word the count is there until this step is done.
        if unsafe { (*this).thread } == thread {
            // SAFETY: the scope cannot end before its own thread, which is here, goes on.
            unsafe { &*this }.count_own(u64::MAX);
            return false;
        }
        // SAFETY: the count stands for this task until the step below is done, and so the scope waits.
        let tasks: &AtomicU64 = unsafe { &(*this).tasks };
        // PENDING_OVER, the task's end (Release): what it did is whole. Each task adds to what the others gave.
        tasks.fetch_sub(1, PENDING_OVER.release()) == 1
    }

    /// Adds to what the scope's thread has counted, with wrapping.
    #[inline]
    fn count_own(&self, more: u64) {
        self.own.store(self.own.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Says whether all are over. For the scope's thread, which runs no task between this and its sleep.
    pub(crate) fn settle(&self) -> bool {
        let own = self.own.load(Relaxed);
        self.own.store(0, Relaxed);
        // PENDING_OVER, the waiter's end (Acquire).
        self.tasks.fetch_add(own, PENDING_OVER.acquire()).wrapping_add(own) == 0
    }

    /// Whether all are over, if the scope's thread has settled and run nothing since. It looks without writing.
    pub(crate) fn is_over(&self) -> bool {
        // PENDING_OVER, the waiter's end (Acquire).
        self.tasks.load(PENDING_OVER.acquire()) == 0
    }

    /// How many are not over. It may be stale.
    pub(crate) fn count(&self) -> u64 {
        let pending = self.tasks.load(Relaxed).wrapping_add(self.own.load(Relaxed)) as i64;
        // Both may have changed between the two looks.
        pending.max(0) as u64
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
