//! What a task asks of whoever schedules it: the seam between a task's cell and its pool.
//!
//! The pool is on one side; the models put a toy there. Nothing in these calls waits for the task they are about.

use crate::cell::TaskRef;
use crate::counters::Ending;
use crate::job::Job;
use crate::options::Priority;
use std::time::{Duration, Instant};

/// The end of one task, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The address of the task, which lives until `ended` returns.
    pub(crate) address: usize,
    /// Where it is noted, if it is a future that has waited.
    pub(crate) place: u32,
    pub(crate) ending: Ending,
    /// Whether it was a future, which held a place of its own.
    pub(crate) is_future: bool,
    /// Whether some queue still has an entry for it, which will turn out to be stale.
    pub(crate) left_in_queue: bool,
}

/// Whoever schedules tasks. Each task holds one.
pub(crate) trait Schedule: Send + Sync + 'static {
    /// Puts a woken task where a worker finds it. It never refuses: a live future holds its place. May be called by
    /// any thread, and under locks that are not ours.
    fn queue(&self, job: Job);

    /// As `queue`, on a thread of which `is_inside` has just said that it is a worker's. There is no `self`, since
    /// the task may end and take its schedule along as soon as it is queued; a worker knows its pool.
    fn queue_inside(job: Job);

    /// A future, which runs on this thread, may be about to wait for the first time. It may be asked to stop.
    fn waits(&self, task: &TaskRef);

    /// Counts the end of one task. Called once for each task that was not refused, by whoever decided it, before the
    /// ticket is told: so who was told finds it counted.
    fn ended(&self, end: End);

    /// An entry of a queue, whose task had ended or was run elsewhere, has been taken out.
    fn entry_left(&self, address: usize, priority: Priority);

    /// Runs `wait`, telling the pool that this thread, if it is one of its workers, waits. For one wait in a loop
    /// that looks again: it may be told to wait only so long, or not be called at all, because the worker had
    /// something to run, if it `may_run` that.
    fn wait_once(&self, may_run: bool, wait: impl FnOnce(Option<Duration>));

    /// How long one who waits for a result may look for it before it sleeps.
    fn spin(&self) -> Duration;

    /// Whether every task is asked to end.
    fn stops(&self) -> bool;

    /// Whether the calling thread is one of its workers.
    fn is_inside(&self) -> bool;

    /// Sees to it that `task` is told when it is `due`; see `TaskRef::deadline_passed`.
    fn watch(&self, due: Instant, task: TaskRef);

    /// Forgets about `task`, if it is watched.
    fn unwatch(&self, due: Instant, task: &TaskRef);

    /// The task is freed, and lets go of the one it held.
    fn let_go(self)
    where
        Self: Sized,
    {
    }
}
