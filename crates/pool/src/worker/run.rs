//! What a worker does with a task it has found: runs it, and counts how it ended.
//!
//! A task may run inside another: one that waits runs what it waits for, and one that submits to a full pool runs
//! what it could not submit. `depth` counts how many are on this stack, so that the second cannot go on for ever.

use super::Worker;
use super::find::Found;
use crate::counters::bump;
use crate::task::{InHand, Ran, Task};
use crate::token;
use crate::why::{self, Placed};
use std::sync::atomic::Ordering::Relaxed;

/// So many tasks deep a submitter may run its task in place; beyond, a full pool refuses.
pub(crate) const IN_PLACE_DEPTH_MAX: u32 = 16;

/// Runs a task of which the worker knows that it runs no other.
pub(super) struct RunHere<'a>(pub(super) &'a Worker);

impl Found for RunHere<'_> {
    type Done = ();

    #[inline(always)]
    fn in_hand(self, task: InHand<'_>) {
        self.busy(|worker| match worker.shared.choosing.is_timed() {
            true => worker.run_timed(task.take()),
            false => drop(worker.count(task.run())),
        });
    }
}

impl RunHere<'_> {
    #[inline(always)]
    fn busy(&self, run: impl FnOnce(&Worker)) {
        self.0.counters().busy.store(1, Relaxed);
        run(self.0);
        self.0.counters().busy.store(0, Relaxed);
    }
}

impl Worker {
    /// Runs a task and notes how long that took, for the strategy.
    #[cold]
    fn run_timed(&self, task: Task) {
        self.seat.pace.begin(self.shared.now().as_nanos());
        self.run_and_tell(task);
        self.seat.pace.end(self.shared.now().as_nanos());
    }

    /// Runs a task, and tells the strategy if it has come to its end.
    #[cold]
    fn run_and_tell(&self, task: Task) {
        let began = self.shared.now();
        if self.count(task.run()).has_ended() {
            let now = self.shared.now();
            self.shared.choosing.task_done(self.number, now.since(began), now);
        }
    }

    /// Runs a task inside another, which waits for something meanwhile. It is none of that one's business whether
    /// this one is cancelled, nor the other way round.
    pub(crate) fn run_inside(&self, task: Task) {
        self.run_all_inside([task]);
    }

    /// As `run_inside`, one after the other.
    pub(crate) fn run_all_inside(&self, tasks: impl IntoIterator<Item = Task>) {
        let _alone = token::leave();
        let run = || {
            for task in tasks {
                if self.shared.choosing.is_timed() {
                    self.run_and_tell(task);
                } else {
                    self.count(task.run());
                }
            }
        };
        self.stack.on_top(|| self.forks.apart(run));
    }

    /// How many tasks run on this stack inside of others.
    pub(crate) fn depth(&self) -> u32 {
        self.stack.depth()
    }

    /// Counts how a task ended.
    #[inline(always)]
    fn count(&self, ran: Ran) -> Ran {
        if let Some(ending) = ran.ending() {
            self.counters().ended(ending);
        }
        ran
    }

    /// Runs a task that no queue had room for, unless too many are on this stack already.
    pub(crate) fn run_in_place(&self, task: Task) -> Result<(), Task> {
        if self.depth() >= IN_PLACE_DEPTH_MAX {
            return Err(task);
        }
        bump(&self.counters().ran_in_place, 1);
        self.run_inside(task);
        why::note(Placed::RunByCaller);
        Ok(())
    }
}
