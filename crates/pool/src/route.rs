//! Which queue a task goes to, and what happens when that queue is full.
//!
//! | who submits | goes to | when that is full |
//! |---|---|---|
//! | a thread outside | the shared lane of its priority | waits, or is refused |
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
use crate::lanes::Wait;
use crate::options::Priority;
use crate::shared::{Shared, attention};
use crate::sync::full_fence;
use crate::task::Task;
use crate::worker::Worker;
use millpond_queue::Refusal;
use std::time::{Duration, Instant};

/// Where a task should go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Route {
    pub(crate) priority: Priority,
    pub(crate) affinity: Option<u64>,
}

impl Shared {
    /// Takes a task in, or hands it back.
    #[inline]
    pub(crate) fn admit(&self, route: Route, task: Task, wait: Wait) -> Result<(), Refusal<Task>> {
        let task = match route.affinity {
            None => task,
            Some(key) => match self.to_inbox(key, task) {
                Ok(()) => return Ok(()),
                Err(task) => task,
            },
        };
        match current::worker() {
            None => self.to_lane(route.priority, task, wait),
            Some(worker) if worker.is_of(self) => {
                let stops = self.attention() & attention::STOPPING != 0;
                if stops || route.priority != Priority::Normal {
                    return self.admit_inside(worker, route.priority, task, wait);
                }
                match worker.own.push(task) {
                    Ok(()) => {
                        self.sleep.work_came();
                        Ok(())
                    }
                    Err(task) => self.admit_inside(worker, Priority::Normal, task, wait),
                }
            }
            Some(worker) => self.admit_from(worker, route.priority, task, wait),
        }
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
            Err(Refusal::Full(task) | Refusal::TimedOut(task) | Refusal::Closed(task))
                if wait != Wait::Never =>
            {
                // While the pool drains, what its tasks still submit is part of what it finishes.
                worker.run_in_place(task).map_err(Refusal::Full)
            }
            answer => answer,
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
        let seat = choose_seat(key, self.crew.wanted().min(self.seats_used()));
        if self.lanes.is_closed() {
            return Err(task);
        }
        match self.seat(seat).inbox.try_enqueue(task) {
            Ok(()) => {
                // Its own worker if that sleeps, or else anybody: who has nothing to do may take it over.
                self.sleep.work_came_for(seat);
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

/// Rendezvous hashing: the seat that draws the highest number for the key. When one more seat comes, only the keys it
/// wins move.
fn choose_seat(key: u64, seats: usize) -> usize {
    let draw = |seat: usize| mix(key ^ mix(seat as u64 + 1));
    (0..seats).max_by_key(|&seat| draw(seat)).unwrap_or(0)
}

/// The finisher of SplitMix64: every bit of the result hangs on every bit of the argument.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_evenly_and_few_move_when_a_seat_comes() {
        let mut held = [0u32; 8];
        let mut moved = 0;
        for key in 0..8000 {
            let seat = choose_seat(key, 8);
            held[seat] += 1;
            let after = choose_seat(key, 9);
            assert!(after == seat || after == 8, "a key moves to the new seat or not at all");
            moved += u32::from(after != seat);
        }
        assert!(held.iter().all(|&count| (850..1150).contains(&count)), "{held:?}");
        assert!((750..1050).contains(&moved), "{moved} of 8000 moved");
    }
}
