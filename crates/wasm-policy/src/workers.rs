//! The picture of the workers, as JavaScript keeps it: rows by place, and single facts.
//!
//! A place is where a row stands; JavaScript remembers the place of each worker and says it, so nothing is searched
//! here. A worker that goes leaves the rows behind it one place further up. Facts are set just before a choice, and
//! only those that the strategy reads and that have changed.

use crate::brain::{self, Brain, has_room};
use crate::number::{moment, nanos, whole};
use millpond_policy::Moment;
use millpond_policy::view::{WorkerState, WorkerView};

/// The most workers of one picture.
pub const WORKERS_MAX: usize = 4096;
/// What a row, a strategy's notes on it and their growth may take, in bytes.
const ROW_BYTES: usize = 512;

impl Brain {
    fn add(&mut self, id: u32, state: WorkerState, weight: u32, now: Moment) -> bool {
        let len = self.workers.len();
        if len >= WORKERS_MAX || id > i32::MAX as u32 || !has_room((len + 8) * ROW_BYTES) {
            return false;
        }
        self.workers.push(WorkerView { id, state, weight, idle_since: now, ..WorkerView::default() });
        true
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
    at(place, |brain, at| brain.workers.remove(at));
}

/// A worker has come, of which the strategy is told.
#[unsafe(no_mangle)]
pub extern "C" fn workers_came(id: u32, now: f64) {
    brain::with(|brain| brain.strategy.worker_added(id, moment(now)));
}

/// A worker has gone: from the strategy and from the owners of keys.
#[unsafe(no_mangle)]
pub extern "C" fn workers_gone(id: u32, now: f64) {
    brain::with(|brain| {
        brain.strategy.worker_removed(id);
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

#[cfg(test)]
mod tests {
    use super::*;

    const READY: u32 = WorkerState::Ready as u32;

    fn row(place: usize) -> WorkerView {
        brain::with(|brain| brain.workers.row(place))
    }

    #[test]
    fn single_facts_are_set_as_they_are_told() {
        assert_eq!(workers_add(1, 0, 3, 8.0), 1);
        workers_state(0, 5);
        workers_state(0, 6);
        workers_load(0, 2, 9);
        workers_completed(0, 1, 1);
        workers_run_time(0, 5.0, 6.0);
        workers_utilisation(0, 0.12345);
        let told = WorkerView {
            id: 1,
            state: WorkerState::Terminated,
            running: 2,
            queued: 9,
            completed: (1 << 32) + 1,
            run_total_ns: 5,
            run_mean_ns: 6,
            utilisation: 1235,
            weight: 3,
            idle_since: Moment::from_nanos(8),
        };
        assert_eq!(row(0), told, "there is no state 6");
        workers_utilisation(0, 70.0);
        assert_eq!(row(0).utilisation, 65_535);
        workers_utilisation(0, f64::NAN);
        assert_eq!(row(0).utilisation, 0);
    }

    #[test]
    fn who_goes_leaves_the_others_in_order() {
        (0..5).for_each(|id| assert_eq!(workers_add(id, READY, 0, 0.0), 1));
        workers_remove(1);
        assert_eq!(brain::with(|brain| brain.workers.ids().to_vec()), [0, 2, 3, 4]);
        workers_remove(4);
        workers_load(4, 1, 1);
        assert_eq!(brain::with(|brain| brain.workers.load().to_vec()), [0; 4], "there is none at place 4");
    }

    #[test]
    fn there_is_a_limit_to_workers_and_to_their_numbers() {
        assert_eq!(workers_add(1 << 31, READY, 0, 0.0), 0);
        assert_eq!(workers_add(0, 9, 0, 0.0), 0, "there is no state 9");
        (0..WORKERS_MAX as u32).for_each(|id| assert_eq!(workers_add(id, READY, 0, 0.0), 1));
        assert_eq!(workers_add(WORKERS_MAX as u32, READY, 0, 0.0), 0);
    }
}
