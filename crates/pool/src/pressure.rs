//! What a full queue means for a submitter: the pool's back-pressure, carried out.
//!
//! What to do is decided by `millpond_policy::admit`; here it is done. Waiting for room is the queue's own affair
//! (`route.rs`), so what is left is to drop a task, to run it on the submitter's thread, or to hand it back.
//!
//! A task that is dropped ends as any other: its ticket is told, and it is counted. Dropping the oldest frees a place,
//! which another submitter may take first; then it got in without dropping anything, and the next oldest goes. So as
//! many are dropped as came in too many, whoever drops them.

use crate::current;
use crate::error::Refused;
use crate::events::EventKind;
use crate::lanes::Wait;
use crate::options::Priority;
use crate::route::Route;
use crate::shared::{Shared, attention};
use crate::state::Verdict;
use crate::task::Task;
use crate::token;
use crate::why::{self, Placed};
use crate::worker::IN_PLACE_DEPTH_MAX;
use millpond_policy::admit::{self, Door, Policy, Step};
use millpond_queue::Refusal;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How the caller of a verb takes a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As the pool is configured: a bare verb.
    ByPolicy,
    /// It is refused: a `try_` verb.
    Refused,
    /// It waits at most so long: a `_timeout` verb.
    AtMost(Duration),
}

impl Manner {
    /// For how long the queue itself may keep the submitter waiting.
    #[inline(always)]
    pub(crate) fn wait(self, policy: Policy) -> Wait {
        match (self, policy) {
            (Self::AtMost(timeout), _) | (Self::ByPolicy, Policy::Block { timeout: Some(timeout) }) => {
                Wait::AtMost(timeout)
            }
            (Self::ByPolicy, Policy::Block { timeout: None }) => Wait::Forever,
            _ => Wait::Never,
        }
    }
}

thread_local! {
    /// How many tasks this thread, which is no worker of the pool, runs on top of each other for full pools.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

impl Shared {
    /// The queue is full, and waiting is not the policy: does what is.
    #[cold]
    pub(crate) fn press(&self, route: Route, mut task: Task) -> Result<(), Refusal<Task>> {
        let worker = current::worker_of(self);
        if let Some(worker) = worker
            && self.lanes.is_closed()
            && self.attention() & attention::STOPPING == 0
        {
            // While the pool drains, what its tasks still submit is part of what it finishes.
            return worker.run_in_place(task).map_err(Refusal::Full);
        }
        let mut door = Door {
            is_full: true,
            is_closed: self.lanes.is_closed(),
            is_worker: worker.is_some(),
            depth: worker.map_or_else(|| DEPTH.get(), |worker| worker.depth()),
            depth_max: Some(IN_PLACE_DEPTH_MAX),
            ..Door::default()
        };
        loop {
            match admit::decide(self.config.back_pressure, &door) {
                Step::Take => match self.admit_once(route, task) {
                    Err(Refusal::Full(back)) => {
                        task = back;
                        door.is_full = true;
                    }
                    admitted => {
                        why::note(Placed::Shared);
                        return admitted;
                    }
                },
                Step::DropOldestThenRetry => {
                    self.drop_oldest(route.priority);
                    door.drops += 1;
                    door.is_full = false;
                }
                Step::DropThis => {
                    self.pressure.dropped_newest.fetch_add(1, Relaxed);
                    self.events.tell(|| EventKind::DroppedNewest);
                    self.discard(task, Verdict::Dropped);
                    why::note(Placed::Dropped);
                    return Ok(());
                }
                Step::RunHere(_) => {
                    self.run_here(task);
                    return Ok(());
                }
                Step::Refuse(admit::Refused::Closed) => return Err(Refusal::Closed(task)),
                // Where waiting is the policy, the queue has waited.
                Step::Refuse(_) | Step::Wait(_) => return Err(Refusal::Full(task)),
            }
        }
    }

    /// Drops the oldest task of a lane, or moves one that must run out of the way. Each lane has its own bound, so to
    /// drop from another would make no room.
    fn drop_oldest(&self, priority: Priority) {
        let Some(oldest) = self.lanes.take_oldest(priority) else { return };
        if oldest.must_run() {
            // A future that was woken, or a task of a scope.
            self.overflow.push(oldest);
            self.sleep.work_came();
            // A stop raises its flag before it takes everything out: it has seen this one, or this sees the flag.
            while self.attention() & attention::STOPPING != 0
                && let Some(task) = self.overflow.pop()
            {
                self.discard(task, Verdict::Cancelled);
            }
            return;
        }
        self.events.tell(|| EventKind::DroppedOldest);
        self.discard(oldest, Verdict::Dropped);
    }

    /// Runs a task on the thread of its submitter; a future makes its first step there.
    fn run_here(&self, task: Task) {
        self.pressure.ran_by_caller.fetch_add(1, Relaxed);
        if let Some(worker) = current::worker_of(self) {
            worker.run_inside(task);
            return why::note(Placed::RunByCaller);
        }
        let _alone = token::leave();
        DEPTH.set(DEPTH.get() + 1);
        if let Some(ending) = task.run().ending() {
            self.count(ending);
        }
        DEPTH.set(DEPTH.get() - 1);
        why::note(Placed::RunByCaller);
    }

    /// Counts a refusal, and tells of it.
    #[cold]
    pub(crate) fn note_refusal(&self, why: Refused) {
        match why {
            Refused::Full => self.pressure.refused.fetch_add(1, Relaxed),
            Refused::TimedOut => self.pressure.timed_out.fetch_add(1, Relaxed),
            Refused::Closed | Refused::TooLate | Refused::OutOfMemory => 0,
        };
        self.events.tell(|| EventKind::Refused { why });
    }
}
