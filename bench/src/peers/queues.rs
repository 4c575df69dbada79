//! The peers that are one shared object without handles: every thread holds an `Arc` of it.
//!
//! The lock and two conditions that one would write with the standard library alone stand here too: they are what
//! every queue must beat to be worth a dependency.
//!
//! Not here: queues with a sender and a receiver (`channels.rs`), ours (`millpond.rs`).

use super::{TryPop, TryPush, WaitPop, WaitPush};
use concurrent_queue::ConcurrentQueue;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use thingbuf::ThingBuf;

/// The two ends of a queue that is its own producer and its own consumer.
pub(crate) fn shared<Q>(queue: Q) -> (Arc<Q>, Arc<Q>) {
    let queue = Arc::new(queue);
    (Arc::clone(&queue), queue)
}

impl TryPush for Arc<ArrayQueue<u64>> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(item).is_ok()
    }
}

impl TryPop for Arc<ArrayQueue<u64>> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.pop()
    }
}

impl TryPush for Arc<ConcurrentQueue<u64>> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(item).is_ok()
    }
}

impl TryPop for Arc<ConcurrentQueue<u64>> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.pop().ok()
    }
}

impl TryPush for Arc<ThingBuf<u64>> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(item).is_ok()
    }
}

impl TryPop for Arc<ThingBuf<u64>> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.pop()
    }
}

/// What one writes with the standard library alone: a lock, a deque and two conditions.
pub(crate) struct LockedQueue {
    capacity: usize,
    /// Everything that changes, under the one lock.
    inside: Mutex<Inside>,
    /// Signalled by consumers, waited for by producers.
    room: Condvar,
    /// Signalled by producers, waited for by consumers.
    filled: Condvar,
}

struct Inside {
    items: VecDeque<u64>,
    closed: bool,
}

impl LockedQueue {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            inside: Mutex::new(Inside { items: VecDeque::with_capacity(capacity), closed: false }),
            room: Condvar::new(),
            filled: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TryPush for Arc<LockedQueue> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        let mut inside = self.lock();
        let room = inside.items.len() < self.capacity;
        if room {
            inside.items.push_back(item);
        }
        room
    }
}

impl TryPop for Arc<LockedQueue> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.lock().items.pop_front()
    }
}

impl WaitPush for Arc<LockedQueue> {
    #[inline]
    fn push(&mut self, item: u64) {
        let full = |inside: &mut Inside| inside.items.len() == self.capacity;
        let mut inside = self.room.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        inside.items.push_back(item);
        drop(inside);
        self.filled.notify_one();
    }

    fn close(&mut self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

impl WaitPop for Arc<LockedQueue> {
    #[inline]
    fn pop(&mut self) -> Option<u64> {
        let empty = |inside: &mut Inside| inside.items.is_empty() && !inside.closed;
        let mut inside = self.filled.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        let item = inside.items.pop_front();
        drop(inside);
        self.room.notify_one();
        item
    }
}
