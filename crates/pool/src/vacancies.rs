//! Places in the queues whose task was cancelled or run elsewhere: the next task that finds its lane full gets one.
//!
//! So a cancelled task gives its place back at once, though its entry stays where it is (`heir.rs`). A place is
//! listed here from the end of its task until it is given away or its entry is taken out, so there are never more
//! than there are entries in the queues. Which queue it is in does not matter: each is emptied by workers.

use crate::cell::TaskRef;
use crate::options::Priority;
use crate::task::Task;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Vacancies {
    /// How many there are of each priority; changed under the locks, read without.
    len: [AtomicUsize; 3],
    /// By the address of the task, for each priority.
    places: [Mutex<HashMap<usize, TaskRef>>; 3],
}

impl Vacancies {
    /// Lists the place of a task that has ended, unless its entry has been taken out already.
    pub(crate) fn list(&self, task: TaskRef) {
        let priority = task.priority();
        let mut places = self.places(priority);
        // Whoever takes the entry out says so before it comes to `strike`, and so before or after this lock.
        if !task.heir().is_gone() {
            places.insert(task.address(), task);
            self.len[priority.lane()].fetch_add(1, Relaxed);
        }
    }

    /// The entry of a task that had ended has been taken out of its queue.
    pub(crate) fn strike(&self, priority: Priority, address: usize) {
        let struck = self.places(priority).remove(&address);
        if struck.is_some() {
            self.len[priority.lane()].fetch_sub(1, Relaxed);
        }
        // Outside of the lock: it may be the last reference.
        drop(struck);
    }

    /// Gives a place to `task`, if there is one.
    pub(crate) fn give(&self, priority: Priority, mut task: Task) -> Result<(), Task> {
        while self.of(priority) > 0 {
            let place = {
                let mut places = self.places(priority);
                let Some(address) = places.keys().next().copied() else { break };
                self.len[priority.lane()].fetch_sub(1, Relaxed);
                places.remove(&address).expect("it was found under the same lock")
            };
            task.inherits(&place);
            match place.heir().appoint(task) {
                Ok(()) => return Ok(()),
                // Its entry has been taken out in between.
                Err(back) => task = back,
            }
        }
        Err(task)
    }

    /// How many there are of one priority. It may be stale.
    pub(crate) fn of(&self, priority: Priority) -> usize {
        self.len[priority.lane()].load(Relaxed)
    }

    /// How many there are. It may be stale.
    pub(crate) fn len(&self) -> usize {
        Priority::ALL.into_iter().map(|priority| self.of(priority)).sum()
    }

    fn places(&self, priority: Priority) -> MutexGuard<'_, HashMap<usize, TaskRef>> {
        self.places[priority.lane()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
