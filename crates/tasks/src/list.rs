//! All tasks that are known by their ids: those under way, and those whose outcome is kept.
//!
//! The list is cut into parts with a lock each, by the id. Workers never look at it, since a queued task
//! carries what it needs, so the list grows without anybody standing still; a part that moves its entries
//! delays only who looks for an id of the same part.
//!
//! Not here: when a task leaves the list (`results.rs`).

use crate::request::TaskId;
use crate::task::Task;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A power of two; more than the threads that submit and end tasks at once on any machine we know.
const PARTS: usize = 64;

type Part = HashMap<TaskId, Arc<Task>>;

pub(crate) struct TaskList {
    parts: [Mutex<Part>; PARTS],
    hasher: RandomState,
    /// The last id given.
    assigned: AtomicU64,
}

impl TaskList {
    pub(crate) fn new() -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            assigned: AtomicU64::new(0),
        }
    }

    /// An id that nobody has.
    pub(crate) fn assign(&self) -> TaskId {
        TaskId::Assigned(self.assigned.fetch_add(1, Relaxed) + 1)
    }

    /// Whether this id was given once.
    pub(crate) fn was_assigned(&self, id: &TaskId) -> bool {
        matches!(id, TaskId::Assigned(number) if (1..=self.assigned.load(Relaxed)).contains(number))
    }

    /// Adds a task; false if its id is taken.
    pub(crate) fn add(&self, task: &Arc<Task>) -> bool {
        match self.part(task.id()).entry(task.id().clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Arc::clone(task));
                true
            }
        }
    }

    pub(crate) fn get(&self, id: &TaskId) -> Option<Arc<Task>> {
        self.part(id).get(id).cloned()
    }

    /// Takes a task out. Its id may have gone to another one meanwhile; that stays.
    pub(crate) fn remove(&self, task: &Arc<Task>) {
        let mut part = self.part(task.id());
        if part.get(task.id()).is_some_and(|there| Arc::ptr_eq(there, task)) {
            part.remove(task.id());
        }
    }

    /// All of them, part by part.
    pub(crate) fn all(&self) -> Vec<Arc<Task>> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(lock(part).values().cloned());
        }
        all
    }

    fn part(&self, id: &TaskId) -> MutexGuard<'_, Part> {
        let spread = match id {
            // Neighbours lie in different parts.
            TaskId::Assigned(number) | TaskId::Number(number) => *number as usize,
            TaskId::Name(name) => self.hasher.hash_one(name) as usize,
        };
        lock(&self.parts[spread % PARTS])
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
