//! Which queue a task goes to, and what happens when that queue is full.
//!
//! | who submits | goes to | when that is full |
//! |---|---|---|
//! | a thread outside | the lane of its priority, or the worker a strategy chooses | the lane, then `pressure.rs` |
//! | a task of this pool | its worker's own queue; with a priority, the lane | the lane, then it is run in place |
//! | anybody, with an affinity key | the inbox of the key's worker | as without the key |
//! | a waker | the worker's own queue, or the shared lane | the overflow list: it holds its place already |
//!
//! A task that submits to its own full pool never waits for room, since it might be the very one to make it. It runs
//! what it submits in place instead, up to sixteen deep on one stack, and is refused beyond. With `try_` verbs it is
//! refused at once, as anybody.
//!
//! Not here: what a task is (`task.rs`), who wakes up (`sleep.rs`).

use crate::current;
use crate::lanes::{self, Wait};
use crate::options::Priority;
use crate::shared::{Shared, attention};
use crate::sync::full_fence;
use crate::task::{Run, Seed, Task};
use crate::why::{self, Placed};
use crate::worker::Worker;
use millpond_queue::Refusal;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Where a task should go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Route {
    pub(crate) priority: Priority,
    pub(crate) affinity: Option<u64>,
    /// How long it will probably run; 0 if that is not known. Strategies may ask.
    pub(crate) expected_ns: u64,
}

impl Shared {
    /// Takes work in where it goes when nothing is in the way, as nearly always, and hands it back otherwise: then
    /// `admit` has more to say. The task is made in its place in the queue.
    #[inline(always)]
    pub(crate) fn admit_at_once<R: Run>(&self, route: Route, seed: Seed<R>) -> Result<(), Seed<R>> {
        if route.affinity.is_some() {
            return Err(seed);
        }
        match current::worker() {
            None if !self.choosing.is_on() => {
                self.lanes.push_at_once(route.priority, seed)?;
                // Its place was claimed by a swap of the lane's tail, and a last look compares that with the head. So
                // a worker that parks sees that a task is there, or on its way into its slot.
                self.sleep.work_came_by_swap();
            }
            Some(worker)
                if worker.is_of(self)
                    && route.priority == Priority::Normal
                    && self.attention() & attention::STOPPING == 0 =>
            {
                seed.push_to(&worker.own)?;
                worker.tell_lightly();
            }
            _ => return Err(seed),
        }
        Ok(())
    }

    /// Takes a task in, or hands it back.
    #[inline(never)]
    pub(crate) fn admit(&self, route: Route, task: Task, wait: Wait) -> Result<(), Refusal<Task>> {
        let task = match route.affinity {
            None => task,
            Some(key) => match self.to_inbox(key, task) {
                Ok(()) => return Ok(()),
                Err(task) => task,
            },
        };
        match current::worker() {
            None if self.choosing.is_on() => self.to_chosen(route, task, wait),
            None => self.to_lane(route.priority, task, wait),
            Some(worker) if worker.is_of(self) => {
                let stops = self.attention() & attention::STOPPING != 0;
                if stops || route.priority != Priority::Normal {
                    return self.admit_inside(worker, route.priority, task, wait);
                }
                match worker.own.push(task) {
                    Ok(()) => {
                        worker.tell_lightly();
                        Ok(())
                    }
                    Err(task) => self.admit_inside(worker, Priority::Normal, task, wait),
                }
            }
            Some(worker) if self.choosing.is_on() && route.priority == Priority::Normal => {
                self.assign(route, task).or_else(|task| self.admit_from(worker, route.priority, task, wait))
            }
            Some(worker) => self.admit_from(worker, route.priority, task, wait),
        }
    }

    /// To the worker that the strategy chooses, or to the lane if it has no room. A task with a priority waits in its
    /// lane, where that means something.
    #[cold]
    fn to_chosen(&self, route: Route, task: Task, wait: Wait) -> Result<(), Refusal<Task>> {
        if route.priority != Priority::Normal {
            return self.to_lane(route.priority, task, wait);
        }
        self.assign(route, task).or_else(|task| self.to_lane(route.priority, task, wait))
    }

    /// As `admit` without waiting, when everything was full a moment ago.
    pub(crate) fn admit_once(&self, route: Route, task: Task) -> Result<(), Refusal<Task>> {
        self.to_lane(route.priority, task, Wait::Never)
    }

    /// From a task of this pool, when its worker's own queue is full or not the right one.
    #[cold]
    fn admit_inside(
        &self,
        worker: &Worker,
        priority: Priority,
        task: Task,
        wait: Wait,
    ) -> Result<(), Refusal<Task>> {
        if self.attention() & attention::STOPPING != 0 {
            return Err(Refusal::Closed(task));
        }
        match self.to_lane(priority, task, Wait::Never) {
            Ok(()) => {
                why::note(Placed::Shared);
                Ok(())
            }
            Err(Refusal::Full(task) | Refusal::TimedOut(task) | Refusal::Closed(task))
                if wait != Wait::Never =>
            {
                // While the pool drains, what its tasks still submit is part of what it finishes.
                worker.run_in_place(task).map_err(Refusal::Full)
            }
            refused => refused,
        }
    }

    /// From a task of another pool: its worker may wait here, and somebody stands in for it there meanwhile.
    #[cold]
    fn admit_from(
        &self,
        worker: &Worker,
        priority: Priority,
        task: Task,
        wait: Wait,
    ) -> Result<(), Refusal<Task>> {
        match self.to_lane(priority, task, Wait::Never) {
            Err(Refusal::Full(task)) if wait != Wait::Never => {
                worker.stand_still(|| self.to_lane(priority, task, wait))
            }
            answer => answer,
        }
    }

    /// Puts a task into its shared lane; if that is full, into a place whose task was cancelled.
    #[inline]
    fn to_lane(&self, priority: Priority, task: Task, wait: Wait) -> Result<(), Refusal<Task>> {
        // The clock runs from here, whichever way the task gets in.
        let started = matches!(wait, Wait::AtMost(_)).then(Instant::now);
        let pushed = match wait {
            Wait::Never => self.lanes.try_push(priority, task),
            Wait::Forever => self.lanes.push(priority, task, None, || self.has_place(priority)),
            Wait::AtMost(timeout) => {
                self.lanes.push(priority, task, Some(timeout), || self.has_place(priority))
            }
        };
        let pushed = match pushed {
            Err(Refusal::Full(task)) => self.to_full_lane(priority, task, wait, started),
            pushed => pushed,
        };
        if pushed.is_ok() {
            self.sleep.work_came();
            lanes::nap_if_due();
        }
        pushed
    }

    #[cold]
    fn to_full_lane(
        &self,
        priority: Priority,
        mut task: Task,
        wait: Wait,
        started: Option<Instant>,
    ) -> Result<(), Refusal<Task>> {
        loop {
            task = match self.vacancies.give(priority, task) {
                Ok(()) => return Ok(()),
                Err(task) if wait == Wait::Never => return Err(Refusal::Full(task)),
                Err(task) => task,
            };
            // Another was faster.
            let left = match wait {
                Wait::AtMost(timeout) => {
                    let waited = started.map_or(Duration::ZERO, |started| started.elapsed());
                    Some(timeout.saturating_sub(waited))
                }
                Wait::Never | Wait::Forever => None,
            };
            task = match self.lanes.push(priority, task, left, || self.has_place(priority)) {
                Err(Refusal::Full(task)) => task,
                pushed => return pushed,
            };
        }
    }

    /// Whether there is a place elsewhere for one who waits for room. A place is listed before the waiting are looked
    /// for, and asked for by them after they are known to wait.
    #[cold]
    fn has_place(&self, priority: Priority) -> bool {
        full_fence();
        self.vacancies.of(priority) > 0
    }

    /// Puts a task into the inbox of the worker its key belongs to.
    fn to_inbox(&self, key: u64, task: Task) -> Result<(), Task> {
        let owner = self.affinity.owner(key, || self.now()).filter(|&owner| owner < self.seats_used());
        if self.lanes.is_closed() {
            return Err(task);
        }
        self.affinity.counts.keyed.fetch_add(1, Relaxed);
        let Some(owner) = owner else { return Err(task) };
        match self.seat(owner).inbox.try_enqueue(task) {
            Ok(()) => {
                self.affinity.counts.hits.fetch_add(1, Relaxed);
                why::note(Placed::ByKey { worker: owner });
                self.mail_came(owner);
                Ok(())
            }
            Err(refusal) => Err(refusal.into_inner()),
        }
    }

    /// Queues a task that was taken in before and cannot be refused now. On a worker see `push_woken`.
    pub(crate) fn requeue(&self, priority: Priority, task: Task) {
        if let Err(refusal) = self.lanes.try_push(priority, task) {
            self.overflow.push(refusal.into_inner());
        }
        self.sleep.work_came();
    }
}
