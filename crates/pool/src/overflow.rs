//! Where tasks wait that were taken in once and cannot be refused now: woken async tasks that find every queue full,
//! what a retiring worker leaves, and what was in the way of a worker that waits for something else.
//!
//! Its length is bounded by the number of async tasks that may live, and by the workers' own queues and inboxes: what
//! is in the way is put here only while no more wait than fit into one of those. It is looked at only when it holds
//! something, which is seldom, so a lock will do.

use crate::task::Task;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Overflow {
    /// How many there are; changed under the lock, read without.
    len: AtomicUsize,
    tasks: Mutex<VecDeque<Task>>,
}

impl Overflow {
    pub(crate) fn push(&self, task: Task) {
        let mut tasks = self.lock();
        tasks.push_back(task);
        self.len.store(tasks.len(), Relaxed);
    }

    pub(crate) fn pop(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        let mut tasks = self.lock();
        let task = tasks.pop_front();
        self.len.store(tasks.len(), Relaxed);
        task
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
