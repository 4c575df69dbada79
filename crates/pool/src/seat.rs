//! A seat: what a worker owns that others may see. It stays when the worker leaves, so that nothing in it is lost.
//!
//! A worker that retires passes what waits at it on to the overflow list, so that the others come to it in turn; its
//! empty queue stays in the seat for the next one to sit down. What is sent to it meanwhile is passed on too
//! (`presence.rs`).

use crate::config::PoolConfig;
use crate::counters::{Ending, Padded};
use crate::latency::Samples;
use crate::pace::Pace;
use crate::presence::Presence;
use crate::task::Task;
use millpond_policy::view::WorkerState;
use millpond_queue::{CapacityError, Gate, GateConfig, Steal, StealQueue, Stealer};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The most tasks that a strategy may give to one worker. Room for all of them is made with the first.
const ASSIGNED_MAX: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Seat {
    /// Others take from the worker's own queue through this.
    pub(crate) stealer: Stealer<Task>,
    /// The owner's end of that queue, while nobody sits here.
    own: Mutex<Option<StealQueue<Task>>>,
    /// Tasks meant for this worker: those with an affinity key. Others leave them to it for a while.
    pub(crate) inbox: Gate<Task>,
    /// Tasks that a strategy gave to this worker; made with the first. Others may take them as they may take its own.
    assigned: OnceLock<Gate<Task>>,
    assigned_capacity: usize,
    /// Where the worker is in its life.
    pub(crate) presence: Presence,
    /// How long the worker's tasks take, where that is measured.
    pub(crate) pace: Pace,
    /// How long the tasks took that were timed; written by the worker who sits here.
    pub(crate) samples: Samples,
    /// Written by the worker who sits here.
    pub(crate) counters: Padded,
}

impl Seat {
    pub(crate) fn new(config: &PoolConfig) -> Result<Self, CapacityError> {
        let own = StealQueue::with_limit(config.local_capacity);
        Ok(Self {
            stealer: own.stealer(),
            own: Mutex::new(Some(own)),
            inbox: unmeasured(config.inbox_capacity)?,
            assigned: OnceLock::new(),
            assigned_capacity: config.local_capacity.min(ASSIGNED_MAX),
            presence: Presence::new(),
            pace: Pace::default(),
            samples: Samples::default(),
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

    /// Where the worker is in its life, and whether it runs a task. It may be stale.
    pub(crate) fn state(&self) -> WorkerState {
        match self.presence.get() {
            WorkerState::Ready if self.counters.busy.load(Relaxed) > 0 => WorkerState::Busy,
            state => state,
        }
    }

    /// How many tasks ran to their end here.
    pub(crate) fn completed(&self) -> u64 {
        self.counters.endings(Ending::Completed)
    }

    /// Where tasks wait that a strategy gave to this worker, once there were any.
    #[inline(always)]
    pub(crate) fn assigned(&self) -> Option<&Gate<Task>> {
        self.assigned.get()
    }

    /// As `assigned`, made if need be; `None` if there is no memory.
    pub(crate) fn furnish_assigned(&self) -> Option<&Gate<Task>> {
        if self.assigned.get().is_none() {
            let made = unmeasured(self.assigned_capacity).ok()?;
            let _ = self.assigned.set(made);
        }
        self.assigned.get()
    }

    /// Takes nothing more in.
    pub(crate) fn close(&self) {
        self.inbox.close();
        // If there is none, it is made closed, so that none can be made open afterwards.
        if let Ok(closed) = unmeasured(1) {
            closed.close();
            let _ = self.assigned.set(closed);
        }
        self.assigned().into_iter().for_each(Gate::close);
    }

    /// How many tasks wait that any worker may take. It may be stale.
    pub(crate) fn stealable(&self) -> usize {
        self.stealer.len() + self.assigned().map_or(0, Gate::len)
    }

    /// Whether anything waits here. It may be stale.
    pub(crate) fn is_empty(&self) -> bool {
        self.stealable() == 0 && self.inbox.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.stealable() + self.inbox.len()
    }

    /// Takes one task, from any thread. It waits for those who are in the middle of their step.
    pub(crate) fn take_one(&self) -> Option<Task> {
        self.take_stealable().or_else(|| self.inbox.try_dequeue().ok())
    }

    /// Takes one task that any worker may take.
    pub(crate) fn take_stealable(&self) -> Option<Task> {
        loop {
            match self.stealer.steal() {
                Steal::Success(task) => return Some(task),
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => return self.assigned()?.try_dequeue().ok(),
            }
        }
    }

    /// Takes one task that was put here from outside.
    pub(crate) fn take_mail(&self) -> Option<Task> {
        self.inbox.try_dequeue().ok().or_else(|| self.assigned()?.try_dequeue().ok())
    }
}

fn unmeasured(capacity: usize) -> Result<Gate<Task>, CapacityError> {
    Gate::start(GateConfig { capacity, measure_every: 0, ..GateConfig::default() })
}
