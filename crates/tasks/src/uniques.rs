//! Unique keys: while a task with a key has not ended, whoever asks for another with that key gets this one.
//!
//! Other than an idempotency key it says nothing about the past: with the task's end the key is free again. There
//! are no more keys than tasks under way, so the map needs no limit of its own.
//!
//! Not here: keys that outlive their task (`keys.rs`).

use crate::task::Task;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Uniques {
    by_key: Mutex<HashMap<Box<str>, Arc<Task>>>,
}

/// The keys, held still: what is looked up stays true until this is dropped.
pub(crate) struct LockedUniques<'a>(MutexGuard<'a, HashMap<Box<str>, Arc<Task>>>);

impl Uniques {
    pub(crate) fn lock(&self) -> LockedUniques<'_> {
        LockedUniques(self.by_key.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The task has ended, or was not accepted after all. Its key may belong to another by now.
    pub(crate) fn free(&self, task: &Arc<Task>) {
        let Some(key) = &task.unique_key else { return };
        let mut by_key = self.lock().0;
        if by_key.get(key).is_some_and(|holder| Arc::ptr_eq(holder, task)) {
            by_key.remove(key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().0.len()
    }
}

impl LockedUniques<'_> {
    /// The task that has the key, if it has not ended.
    pub(crate) fn under_way(&self, key: &str) -> Option<Arc<Task>> {
        self.0.get(key).filter(|task| !task.is_ended()).cloned()
    }

    /// Gives a free key to a task.
    pub(crate) fn take(&mut self, key: &str, task: &Arc<Task>) {
        self.0.insert(key.into(), Arc::clone(task));
    }
}
