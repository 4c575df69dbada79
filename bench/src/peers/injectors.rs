//! The peers that a pool's outside submissions go through, each with a worker's own queue behind it.
//!
//! All of them hand one item out and move the rest of a batch, of the same size, to the worker.
//!
//! Not here: ours (`millpond.rs`).

use super::{Fetch, TryPush};
use crossbeam_deque::{Injector, Steal, Worker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many items a worker fetches at once: what crossbeam's injector gives unless told otherwise.
pub(crate) const BATCH: usize = 33;

/// A shared queue and the worker's own.
pub(crate) struct Fetcher<G, Q> {
    pub(crate) shared: Arc<G>,
    pub(crate) own: Q,
}

impl TryPush for Arc<Injector<u64>> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(item);
        true
    }
}

impl Fetch for Fetcher<Injector<u64>, Worker<u64>> {
    #[inline]
    fn fetch(&mut self) -> Option<u64> {
        loop {
            match self.shared.steal_batch_and_pop(&self.own) {
                Steal::Success(item) => return Some(item),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    #[inline]
    fn pop_own(&mut self) -> Option<u64> {
        self.own.pop()
    }
}

/// What one writes with the standard library alone: a lock around a deque.
pub(crate) struct LockedInjector {
    capacity: usize,
    /// Everything that changes, under the one lock.
    items: Mutex<VecDeque<u64>>,
}

impl LockedInjector {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { capacity, items: Mutex::new(VecDeque::with_capacity(capacity)) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TryPush for Arc<LockedInjector> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        let mut items = self.lock();
        let room = items.len() < self.capacity;
        if room {
            items.push_back(item);
        }
        room
    }
}

impl Fetch for Fetcher<LockedInjector, VecDeque<u64>> {
    #[inline]
    fn fetch(&mut self) -> Option<u64> {
        let mut items = self.shared.lock();
        let first = items.pop_front()?;
        let batch = items.len().min(BATCH - 1);
        self.own.extend(items.drain(..batch));
        Some(first)
    }

    #[inline]
    fn pop_own(&mut self) -> Option<u64> {
        self.own.pop_front()
    }
}
