//! How tasks with a cell meet the pool: as entries of its queues, and as what a cell asks of whoever schedules it.
//!
//! Not here: the cell (`cell.rs`), the queues (`route.rs`).

use crate::cell::TaskRef;
use crate::current;
use crate::job::{Job, Turn};
use crate::options::Priority;
use crate::schedule::{End, Schedule};
use crate::shared::{Shared, attention};
use crate::state::Verdict;
use crate::sync::full_fence;
use crate::task::{PartOf, Ran, Run, Task};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Run for Job {
    const COUNTS_ITSELF: bool = true;

    #[inline]
    fn run(self) -> Ran {
        let turn = Self::run(self);
        let ended = matches!(turn, Turn::Ended);
        match turn {
            Turn::Again(job) => {
                // It woke itself while it ran, as one does that yields: the others come first.
                match current::worker() {
                    Some(worker) if job.is_inside() => worker.push_again(job),
                    // Its submitter made the first step, because the pool was full.
                    _ => job.requeue(),
                }
            }
            Turn::Stale(Some(heir)) => {
                let worker = current::worker().expect("a job that was queued is run by a worker");
                worker.run_inside(heir);
            }
            Turn::Ended | Turn::Waits | Turn::Stale(None) => {}
        }
        Ran::CountsItself { ended }
    }

    fn inherits(&self, root: &TaskRef) {
        Self::inherits(self, root);
    }

    fn must_run(&self) -> bool {
        self.has_begun()
    }

    fn part_of(&self) -> PartOf {
        Self::part_of(self)
    }

    fn discard(self, why: Verdict) -> Option<Task> {
        Self::discard(self, why)
    }
}

impl Schedule for Arc<Shared> {
    fn queue(&self, job: Job) {
        self.requeue(job.priority(), Task::new(job));
    }

    fn queue_inside(job: Job) {
        let worker = current::worker().expect("the caller is on a worker");
        worker.push_woken(job);
    }

    fn waits(&self, task: &TaskRef) {
        self.futures.note(task);
        // A stop raises its flag before it looks into the books, lock by lock: it finds this one, or this one comes
        // later to the lock and sees the flag.
        if self.stops() {
            task.cancel();
        }
    }

    fn ended(&self, end: End) {
        self.count(end.ending);
        if end.left_in_queue {
            // SAFETY: the caller is ending this very task, which lives until it returns from here.
            let task = unsafe { TaskRef::from_address(end.address) };
            // One that waited in another's place gives that back.
            let place = match task.take_root() {
                None => Some(task),
                Some(root) => root.heir().withdraw().map(|heir| {
                    drop(heir);
                    root
                }),
            };
            if let Some(place) = place {
                let priority = place.priority();
                self.vacancies.list(place);
                full_fence();
                self.lanes.nudge(priority);
            }
        }
        if end.is_future {
            self.future_left(end.place);
        }
    }

    fn entry_left(&self, address: usize, priority: Priority) {
        self.vacancies.strike(priority, address);
    }

    fn wait_once(&self, may_run: bool, wait: impl FnOnce(Option<Duration>)) {
        current::wait_once(may_run, wait);
    }

    fn spin(&self) -> Duration {
        self.config.spin
    }

    fn stops(&self) -> bool {
        self.attention() & attention::STOPPING != 0
    }

    fn is_inside(&self) -> bool {
        current::worker_of(self).is_some()
    }

    fn watch(&self, due: Instant, task: TaskRef) {
        self.timer.watch(due, task);
    }

    fn unwatch(&self, due: Instant, task: &TaskRef) {
        self.timer.unwatch(due, task);
    }

    fn let_go(self) {
        match current::worker_of(&self) {
            Some(worker) => worker.keep_reference(self),
            None => drop(self),
        }
    }
}
