//! What a group asks of a peer, in the fewest words: one trait per kind of use.
//!
//! The traits are implemented for the peers' own handle types, so that every thread holds what a user's thread
//! would hold (a clone of a sender, a worker, a stealer), and the measured loops in `groups/` are compiled afresh
//! for each of them, with nothing between the loop and the call.
//!
//! Not here: what is asked of a pool (`pools.rs`) and of a task server (`tasks/mod.rs`), the loops (`groups/`).

pub(crate) mod channel_pools;
pub(crate) mod channels;
pub(crate) mod deques;
pub(crate) mod executors;
pub(crate) mod forks;
pub(crate) mod http;
pub(crate) mod injectors;
pub(crate) mod inline;
pub(crate) mod journal;
pub(crate) mod millpond;
pub(crate) mod millpond_pool;
pub(crate) mod nats;
pub(crate) mod pools;
pub(crate) mod queues;
pub(crate) mod shm;
pub(crate) mod tasks;
pub(crate) mod thread_pools;

use std::ops::Range;

/// A producer that never waits.
pub(crate) trait TryPush: Send + 'static {
    /// Adds the item, or says that there is no room.
    fn try_push(&mut self, item: u64) -> bool;
}

/// A consumer that never waits.
pub(crate) trait TryPop: Send + 'static {
    fn try_pop(&mut self) -> Option<u64>;
}

/// A producer that adds many items by one call and never waits.
pub(crate) trait TryPushMany: Send + 'static {
    /// Adds the first items of the run, as many as there is room for, and says how many.
    fn try_push_many(&mut self, items: Range<u64>) -> u64;
}

/// A consumer that takes many items by one call and never waits.
pub(crate) trait TryPopMany: Send + 'static {
    /// Hands at most `max` items to `each`, and says how many.
    fn try_pop_many(&mut self, max: usize, each: impl FnMut(u64)) -> usize;
}

/// A producer that waits for room.
pub(crate) trait WaitPush: Send + 'static {
    fn push(&mut self, item: u64);

    /// Called once, by the last producer to finish. Channels close by themselves when their senders are dropped.
    fn close(&mut self) {}
}

/// A consumer that waits for an item.
pub(crate) trait WaitPop: Send + 'static {
    /// Nothing more will come once this gives `None`.
    fn pop(&mut self) -> Option<u64>;
}

/// The owner's end of a work-stealing queue.
pub(crate) trait Owner: Send + 'static {
    type Thief: Thief;

    /// Adds the item, or says that there is no room; a growable queue always has room.
    fn push(&mut self, item: u64) -> bool;
    fn pop(&mut self) -> Option<u64>;
    /// A thief with a queue of its own, like another worker of the same pool.
    fn thief(&self) -> Self::Thief;
}

/// A thief, and the queue it brings its booty home to.
pub(crate) trait Thief: Send + 'static {
    fn steal_one(&mut self) -> Theft<u64>;
    /// Moves half of what there is to the thief's own queue.
    fn steal_half(&mut self) -> Theft<()>;
    /// Takes an item from the thief's own queue.
    fn pop_own(&mut self) -> Option<u64>;
}

/// How a theft ended.
pub(crate) enum Theft<T> {
    Success(T),
    /// Somebody else was quicker; there may be more.
    Retry,
    Empty,
}

impl<T> Theft<T> {
    #[inline]
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Theft<U> {
        match self {
            Self::Success(item) => Theft::Success(change(item)),
            Self::Retry => Theft::Retry,
            Self::Empty => Theft::Empty,
        }
    }
}

/// A worker that fetches from the shared queue by the batch and runs from its own.
pub(crate) trait Fetch: Send + 'static {
    /// Takes one item to run at once and moves a batch of others to the worker's own queue.
    fn fetch(&mut self) -> Option<u64>;
    fn pop_own(&mut self) -> Option<u64>;
}
