//! A seat: what a worker owns that others may see. It stays when the worker leaves, so that nothing in it is lost.
//!
//! A worker that retires passes what waits at it on to the overflow list, so that the others come to it in turn; its
//! empty queue and its inbox stay in the seat for the next one to sit down. What comes to the inbox meanwhile is found
//! by thieves.

use crate::config::PoolConfig;
use crate::counters::Padded;
use crate::task::Task;
use millpond_queue::{CapacityError, Gate, GateConfig, Steal, StealQueue, Stealer};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct Seat {
    /// Others take from the worker's own queue through this.
    pub(crate) stealer: Stealer<Task>,
    /// The owner's end of that queue, while nobody sits here.
    own: Mutex<Option<StealQueue<Task>>>,
    /// Tasks meant for this worker: those with an affinity key.
    pub(crate) inbox: Gate<Task>,
    /// Written by the worker who sits here.
    pub(crate) counters: Padded,
}

impl Seat {
    pub(crate) fn new(config: &PoolConfig) -> Result<Self, CapacityError> {
        let own = StealQueue::with_limit(config.local_capacity);
        let inbox = GateConfig { capacity: config.inbox_capacity, measure_every: 0, ..GateConfig::default() };
        Ok(Self {
            stealer: own.stealer(),
            own: Mutex::new(Some(own)),
            inbox: Gate::start(inbox)?,
            counters: Padded::default(),
        })
    }

    /// Takes the owner's end; `None` if somebody sits here.
    pub(crate) fn sit_down(&self) -> Option<StealQueue<Task>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn get_up(&self, own: StealQueue<Task>) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }

    /// Whether a thief could find anything here. It may be stale.
    pub(crate) fn is_empty(&self) -> bool {
        self.stealer.is_empty() && self.inbox.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.stealer.len() + self.inbox.len()
    }

    /// Takes one task, from any thread. It waits for those who are in the middle of their step.
    pub(crate) fn take_one(&self) -> Option<Task> {
        loop {
            match self.stealer.steal() {
                Steal::Success(task) => return Some(task),
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => return self.inbox.try_dequeue().ok(),
            }
        }
    }
}
