//! The picture of the workers, as JavaScript keeps it: rows by place, single facts, and what happens to tasks.
//!
//! A place is where a row stands; JavaScript remembers the place of each worker and says it, so nothing is searched
//! here. A worker that goes leaves the rows behind it one place further up. A task that comes, starts or ends is one
//! call, which keeps load, state, counts and times right together: a pool that says what happens needs no other.

use crate::brain::{self, Brain, has_room};
use crate::number::{moment, nanos, whole};
use alloc::vec::Vec;
use millpond_policy::Moment;
use millpond_policy::choose::Choose;
use millpond_policy::view::{WorkerState, WorkerView};

/// The most workers of one picture.
pub const WORKERS_MAX: usize = 4096;
/// What a row, a strategy's notes on it and their growth may take, in bytes.
const ROW_BYTES: usize = 512;
/// Over how many tasks the mean run time is smoothed; as in the native pool.
const SMOOTHED_OVER: u64 = 8;

impl Brain {
    fn add(&mut self, id: u32, state: WorkerState, weight: u32, now: Moment) -> bool {
        let len = self.workers.len();
        if len >= WORKERS_MAX || id > i32::MAX as u32 || !has_room((len + 8) * ROW_BYTES) {
            return false;
        }
        self.workers.push(WorkerView { id, state, weight, idle_since: now, ..WorkerView::default() });
        true
    }

    /// Takes the row at a place out, and keeps the order of the others.
    fn remove(&mut self, at: usize) {
        let behind: Vec<_> = (at + 1..self.workers.len()).map(|at| self.workers.row(at)).collect();
        self.workers.truncate(at);
        behind.into_iter().for_each(|worker| self.workers.push(worker));
    }

    fn running(&self, at: usize) -> u32 {
        self.workers.load()[at] - self.workers.queued()[at]
    }

    /// One more task waits for the worker.
    pub(crate) fn queue(&mut self, at: usize) {
        let queued = self.workers.queued()[at].saturating_add(1);
        self.workers.set_load(at, self.running(at), queued);
    }

    fn start(&mut self, at: usize) {
        let queued = self.workers.queued()[at].saturating_sub(1);
        self.workers.set_load(at, self.running(at).saturating_add(1), queued);
        if self.workers.states()[at] == WorkerState::Ready {
            self.workers.set_state(at, WorkerState::Busy);
        }
    }

    fn finish(&mut self, at: usize, ran_ns: u64, now: Moment) {
        let running = self.running(at).saturating_sub(1);
        self.workers.set_load(at, running, self.workers.queued()[at]);
        self.workers.set_completed(at, self.workers.completed()[at].saturating_add(1));
        let (total_ns, mean_ns) = (self.workers.run_total_ns()[at], self.workers.run_mean_ns()[at]);
        let next_ns =
            if mean_ns == 0 { ran_ns } else { mean_ns - mean_ns / SMOOTHED_OVER + ran_ns / SMOOTHED_OVER };
        // A mean of nothing stands for "not known".
        self.workers.set_run_time(at, total_ns.saturating_add(ran_ns), next_ns.max(1));
        if running == 0 && self.workers.states()[at] == WorkerState::Busy {
            self.workers.set_state(at, WorkerState::Ready);
        }
        if self.workers.load()[at] == 0 {
            self.workers.set_idle_since(at, now);
        }
        if self.chooser.wants_task_done() {
            self.chooser.task_done(self.workers.ids()[at], core::time::Duration::from_nanos(ran_ns), now);
        }
    }
}

/// Does something with the row at a place; nothing if there is none.
fn at(place: u32, act: impl FnOnce(&mut Brain, usize)) {
    brain::with(|brain| {
        if (place as usize) < brain.workers.len() {
            act(brain, place as usize);
        }
    });
}

fn state_of(code: u32) -> Option<WorkerState> {
    use WorkerState::{Busy, Cold, Ready, Terminated, Terminating, Warming};
    [Cold, Warming, Ready, Busy, Terminating, Terminated].get(code as usize).copied()
}

/// How many rows there are.
#[unsafe(no_mangle)]
pub extern "C" fn workers_len() -> u32 {
    brain::with(|brain| brain.workers.len() as u32)
}

/// Adds a row behind all others; 0 if there are [`WORKERS_MAX`], if there is no memory for it, or if its number is 2^31
/// or more. Whoever calls sees to it that no two have the same number, and then says that the worker has come
/// ([`workers_came`]).
#[unsafe(no_mangle)]
pub extern "C" fn workers_add(id: u32, state: u32, weight: u32, now: f64) -> u32 {
    let Some(state) = state_of(state) else { return 0 };
    brain::with(|brain| brain.add(id, state, weight, moment(now)).into())
}

/// Takes the row at a place away. Whoever calls then says that the worker is gone ([`workers_gone`]).
#[unsafe(no_mangle)]
pub extern "C" fn workers_remove(place: u32) {
    at(place, Brain::remove);
}

/// A worker has come, of which the strategy is told.
#[unsafe(no_mangle)]
pub extern "C" fn workers_came(id: u32, now: f64) {
    let worker = WorkerView { id, ..WorkerView::default() };
    brain::with(|brain| brain.chooser.worker_added(&worker, moment(now)));
}

/// A worker has gone: from the strategy, the thieves and the owners of keys.
#[unsafe(no_mangle)]
pub extern "C" fn workers_gone(id: u32, now: f64) {
    brain::with(|brain| {
        brain.chooser.worker_removed(id);
        brain.thieves.forget(id);
        brain.keys.remove(id, moment(now));
    });
}

/// Where a worker is in its life: 0 cold, 1 warming, 2 ready, 3 busy, 4 terminating, 5 terminated.
#[unsafe(no_mangle)]
pub extern "C" fn workers_state(place: u32, state: u32) {
    if let Some(state) = state_of(state) {
        at(place, |brain, at| brain.workers.set_state(at, state));
    }
}

/// How many tasks run at a worker, and how many wait for it.
#[unsafe(no_mangle)]
pub extern "C" fn workers_load(place: u32, running: u32, queued: u32) {
    at(place, |brain, at| brain.workers.set_load(at, running, queued));
}

/// How many tasks a worker has run to their end.
#[unsafe(no_mangle)]
pub extern "C" fn workers_completed(place: u32, low: u32, high: u32) {
    at(place, |brain, at| brain.workers.set_completed(at, whole(low, high)));
}

/// How long a worker's tasks take, all together and each.
#[unsafe(no_mangle)]
pub extern "C" fn workers_run_time(place: u32, total: f64, mean: f64) {
    at(place, |brain, at| brain.workers.set_run_time(at, nanos(total), nanos(mean)));
}

/// How busy a worker was, from 0 to 1; policy also takes what is more than always.
#[unsafe(no_mangle)]
pub extern "C" fn workers_utilisation(place: u32, share: f64) {
    let per_10_000 = (share * 10_000.0 + 0.5) as u16;
    at(place, |brain, at| brain.workers.set_utilisation(at, per_10_000));
}

/// How much a worker can do; 0: that is to be measured.
#[unsafe(no_mangle)]
pub extern "C" fn workers_weight(place: u32, weight: u32) {
    at(place, |brain, at| brain.workers.set_weight(at, weight));
}

/// Since when a worker has had nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn workers_idle_since(place: u32, since: f64) {
    at(place, |brain, at| brain.workers.set_idle_since(at, moment(since)));
}

/// One more task waits for a worker.
#[unsafe(no_mangle)]
pub extern "C" fn workers_queued(place: u32) {
    at(place, Brain::queue);
}

/// So many tasks wait no more for a worker and have not started there: cancelled, or stolen.
#[unsafe(no_mangle)]
pub extern "C" fn workers_unqueued(place: u32, tasks: u32) {
    at(place, |brain, at| {
        let queued = brain.workers.queued()[at].saturating_sub(tasks);
        brain.workers.set_load(at, brain.running(at), queued);
    });
}

/// One of the tasks that wait for a worker has started; one that has not waited may start too.
#[unsafe(no_mangle)]
pub extern "C" fn workers_started(place: u32) {
    at(place, Brain::start);
}

/// A task has ended at a worker, after so long.
#[unsafe(no_mangle)]
pub extern "C" fn workers_finished(place: u32, ran: f64, now: f64) {
    at(place, |brain, at| brain.finish(at, nanos(ran), moment(now)));
}

/// Writes the row at a place to the slate: ten numbers of 64 bits, in the order of `WorkerView`. 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn workers_row(place: u32) -> u32 {
    brain::with(|brain| {
        if place as usize >= brain.workers.len() {
            return 0;
        }
        let row = brain.workers.row(place as usize);
        brain.slate.put_all([
            row.id.into(),
            row.state as u64,
            row.running.into(),
            row.queued.into(),
            row.completed,
            row.run_total_ns,
            row.run_mean_ns,
            row.utilisation.into(),
            row.weight.into(),
            row.idle_since.as_nanos(),
        ]);
        1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;

    const READY: u32 = WorkerState::Ready as u32;

    fn row(place: u32) -> [u64; 10] {
        assert_ne!(slate_at(0), 0);
        assert_eq!(workers_row(place), 1);
        brain::with(|brain| core::array::from_fn(|at| brain.slate.read(at)))
    }

    #[test]
    fn a_task_that_comes_starts_and_ends_keeps_the_row_right() {
        assert_eq!(workers_add(7, READY, 0, 1.0), 1);
        workers_queued(0);
        workers_queued(0);
        workers_started(0);
        assert_eq!(row(0), [7, 3, 1, 1, 0, 0, 0, 0, 0, 1], "busy: one runs, one waits");
        workers_finished(0, 80.0, 100.0);
        assert_eq!(row(0), [7, 2, 0, 1, 1, 80, 80, 0, 0, 1], "not idle while one waits");
        workers_started(0);
        workers_finished(0, 160.0, 300.0);
        assert_eq!(row(0), [7, 2, 0, 0, 2, 240, 90, 0, 0, 300], "the mean moves by an eighth");
        workers_queued(0);
        workers_unqueued(0, 5);
        assert_eq!(row(0)[2..4], [0, 0], "never below nothing");
    }

    #[test]
    fn single_facts_are_set_as_they_are_told() {
        assert_eq!(workers_add(1, 0, 3, 0.0), 1);
        workers_state(0, 5);
        workers_state(0, 6);
        workers_load(0, 2, 9);
        workers_completed(0, 1, 1);
        workers_run_time(0, 5.0, 6.0);
        workers_utilisation(0, 0.12345);
        workers_weight(0, 4);
        workers_idle_since(0, 8.0);
        assert_eq!(row(0), [1, 5, 2, 9, (1 << 32) + 1, 5, 6, 1235, 4, 8], "there is no state 6");
        workers_utilisation(0, 70.0);
        assert_eq!(row(0)[7], 65_535);
        workers_utilisation(0, f64::NAN);
        assert_eq!(row(0)[7], 0);
    }

    #[test]
    fn who_goes_leaves_the_others_in_order() {
        (0..5).for_each(|id| assert_eq!(workers_add(id, READY, 0, 0.0), 1));
        workers_remove(1);
        assert_eq!(brain::with(|brain| brain.workers.ids().to_vec()), [0, 2, 3, 4]);
        workers_remove(4);
        assert_eq!(workers_len(), 4, "there is none at place 4");
        workers_queued(4);
        assert_eq!(workers_row(4), 0);
    }

    #[test]
    fn there_is_a_limit_to_workers_and_to_their_numbers() {
        assert_eq!(workers_add(1 << 31, READY, 0, 0.0), 0);
        assert_eq!(workers_add(0, 9, 0, 0.0), 0, "there is no state 9");
        (0..WORKERS_MAX as u32).for_each(|id| assert_eq!(workers_add(id, READY, 0, 0.0), 1));
        assert_eq!(workers_add(WORKERS_MAX as u32, READY, 0, 0.0), 0);
    }
}
