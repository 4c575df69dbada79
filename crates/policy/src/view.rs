//! The picture that policy decides from: one row for each worker, kept column by column.
//!
//! A strategy looks at one or two facts about every worker. With a column for each fact, a look at a thousand workers
//! reads a few kilobytes that lie side by side, and a pool fills only the columns its strategy reads
//! ([`Columns`]). [`Views::row`] puts the facts of one worker together for those who want them all.
//!
//! Times are plain numbers of nanoseconds here, since the columns are also filled from JavaScript.
//!
//! Not here: what has changed since a strategy last looked (`view/changes.rs`).

mod changes;

pub(crate) use changes::{BLOCK, CHANGES_ARE_NOTED, Seen, places_of};

use crate::Moment;
use changes::{Changes, Column};
use core::fmt;

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WorkerState {
    /// It has been asked for, and there is no thread yet.
    #[default]
    Cold = 0,
    /// Its thread runs, and has not looked for work yet.
    Warming = 1,
    /// It has nothing to do.
    Ready = 2,
    /// It runs a task.
    Busy = 3,
    /// It takes no more tasks, and passes on what waits at it.
    Terminating = 4,
    /// It is gone.
    Terminated = 5,
}

impl WorkerState {
    /// Whether a task may be given to a worker in this state.
    pub const fn takes_tasks(self) -> bool {
        matches!(self, Self::Ready | Self::Busy)
    }
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cold => "cold",
            Self::Warming => "warming",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        })
    }
}

/// All that is known of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerView {
    /// Its number, which stays with it for life.
    pub id: u32,
    /// Where it is in its life.
    pub state: WorkerState,
    /// Tasks it runs now.
    pub running: u32,
    /// Tasks that wait for it.
    pub queued: u32,
    /// Tasks it has run to their end.
    pub completed: u64,
    /// How long it has run tasks, all together, in nanoseconds.
    pub run_total_ns: u64,
    /// How long its tasks take, smoothed over the last ones, in nanoseconds; 0 while that is not known.
    pub run_mean_ns: u64,
    /// Which share of the last while it was busy, of 10 000. In Node this is the event loop's utilisation.
    pub utilisation: u16,
    /// How much it can do, as it was told; 0 if that is to be measured.
    pub weight: u32,
    /// Since when it has had nothing to do; for one that never had, since its start.
    pub idle_since: Moment,
}

/// What is known of a task before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskView {
    /// 0 is the most urgent lane.
    pub lane: u8,
    /// Tasks with the same key belong to the same worker.
    pub key: Option<u64>,
    /// How long it will probably run, in nanoseconds; 0 if that is not known.
    pub expected_ns: u64,
}

/// Which columns somebody reads. The state of a worker is always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns(u8);

impl Columns {
    /// None but the states.
    pub const NONE: Self = Self(0);
    /// `running` and `queued`, and their sum.
    pub const LOAD: Self = Self(1);
    /// `completed`.
    pub const COMPLETED: Self = Self(2);
    /// `run_total_ns` and `run_mean_ns`: every task must be timed.
    pub const RUN_TIME: Self = Self(4);
    /// `utilisation`: every task must be timed.
    pub const UTILISATION: Self = Self(8);
    /// All of them.
    pub const ALL: Self = Self(15);

    /// These and those.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub const fn contain(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The picture of all workers.
#[derive(Clone, Debug, Default)]
pub struct Views {
    ids: Column<u32>,
    states: Column<WorkerState>,
    running: Column<u32>,
    queued: Column<u32>,
    /// `running` and `queued` together, which is what most strategies ask for.
    load: Column<u32>,
    completed: Column<u64>,
    run_total_ns: Column<u64>,
    run_mean_ns: Column<u64>,
    utilisation: Column<u16>,
    weights: Column<u32>,
    idle_since: Column<Moment>,
    /// Told before any of the columns changes.
    changes: Changes,
}

impl Views {
    /// A picture of nobody, with room for so many.
    pub fn with_capacity(workers: usize) -> Self {
        let mut views = Self::default();
        views.reserve(workers);
        views
    }

    /// Makes room for so many more, so that adding them allocates nothing.
    pub fn reserve(&mut self, workers: usize) {
        self.ids.reserve(workers);
        self.states.reserve(workers);
        self.running.reserve(workers);
        self.queued.reserve(workers);
        self.load.reserve(workers);
        self.completed.reserve(workers);
        self.run_total_ns.reserve(workers);
        self.run_mean_ns.reserve(workers);
        self.utilisation.reserve(workers);
        self.weights.reserve(workers);
        self.idle_since.reserve(workers);
        self.changes.reserve(self.len().saturating_add(workers));
    }

    /// How many workers there are, in whatever state.
    #[inline]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a worker at the end.
    pub fn push(&mut self, worker: WorkerView) {
        let end = self.changes.new_row(self.len());
        self.ids.push(end, worker.id);
        self.states.push(end, worker.state);
        self.running.push(end, worker.running);
        self.queued.push(end, worker.queued);
        self.load.push(end, worker.running.saturating_add(worker.queued));
        self.completed.push(end, worker.completed);
        self.run_total_ns.push(end, worker.run_total_ns);
        self.run_mean_ns.push(end, worker.run_mean_ns);
        self.utilisation.push(end, worker.utilisation);
        self.weights.push(end, worker.weight);
        self.idle_since.push(end, worker.idle_since);
    }

    /// Takes the last worker away.
    pub fn pop(&mut self) -> Option<WorkerView> {
        let last = self.len().checked_sub(1)?;
        let row = self.row(last);
        self.truncate(last);
        Some(row)
    }

    /// Takes all but the first `workers` away.
    pub fn truncate(&mut self, workers: usize) {
        let end = self.changes.no_rows_from(workers.min(self.len()));
        self.ids.truncate(end);
        self.states.truncate(end);
        self.running.truncate(end);
        self.queued.truncate(end);
        self.load.truncate(end);
        self.completed.truncate(end);
        self.run_total_ns.truncate(end);
        self.run_mean_ns.truncate(end);
        self.utilisation.truncate(end);
        self.weights.truncate(end);
        self.idle_since.truncate(end);
    }

    /// Takes the worker at `at` away; those behind it move up by one place. Panics beyond the end.
    pub fn remove(&mut self, at: usize) {
        let end = self.changes.no_rows_from(self.len() - 1);
        self.ids.remove(end, at);
        self.states.remove(end, at);
        self.running.remove(end, at);
        self.queued.remove(end, at);
        self.load.remove(end, at);
        self.completed.remove(end, at);
        self.run_total_ns.remove(end, at);
        self.run_mean_ns.remove(end, at);
        self.utilisation.remove(end, at);
        self.weights.remove(end, at);
        self.idle_since.remove(end, at);
    }

    /// All that is known of the worker at `at`. Panics beyond the end.
    pub fn row(&self, at: usize) -> WorkerView {
        WorkerView {
            id: self.ids[at],
            state: self.states[at],
            running: self.running[at],
            queued: self.queued[at],
            completed: self.completed[at],
            run_total_ns: self.run_total_ns[at],
            run_mean_ns: self.run_mean_ns[at],
            utilisation: self.utilisation[at],
            weight: self.weights[at],
            idle_since: self.idle_since[at],
        }
    }

    /// The workers, one after the other.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = WorkerView> + '_ {
        (0..self.len()).map(|at| self.row(at))
    }

    /// The numbers of the workers.
    #[inline]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Their states.
    #[inline]
    pub fn states(&self) -> &[WorkerState] {
        &self.states
    }

    /// How many tasks run at and wait for each.
    #[inline]
    pub fn load(&self) -> &[u32] {
        &self.load
    }

    /// How many tasks wait for each.
    #[inline]
    pub fn queued(&self) -> &[u32] {
        &self.queued
    }

    /// How many tasks each has run to their end.
    #[inline]
    pub fn completed(&self) -> &[u64] {
        &self.completed
    }

    /// How long each has run tasks, in nanoseconds.
    #[inline]
    pub fn run_total_ns(&self) -> &[u64] {
        &self.run_total_ns
    }

    /// How long the tasks of each take, in nanoseconds.
    #[inline]
    pub fn run_mean_ns(&self) -> &[u64] {
        &self.run_mean_ns
    }

    /// How busy each was, of 10 000.
    #[inline]
    pub fn utilisation(&self) -> &[u16] {
        &self.utilisation
    }

    /// How much each can do, as it was told.
    #[inline]
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Whether the worker at `at` may be given a task.
    #[inline]
    pub fn takes_tasks(&self, at: usize) -> bool {
        self.states[at].takes_tasks()
    }

    /// Says where a worker is in its life.
    #[inline]
    pub fn set_state(&mut self, at: usize, state: WorkerState) {
        self.states.set(self.changes.row(at), state);
    }

    /// Says how many tasks run at and wait for a worker.
    #[inline]
    pub fn set_load(&mut self, at: usize, running: u32, queued: u32) {
        let place = self.changes.row(at);
        self.running.set(place, running);
        self.queued.set(place, queued);
        self.load.set(place, running.saturating_add(queued));
    }

    /// Says how many tasks a worker has run to their end.
    #[inline]
    pub fn set_completed(&mut self, at: usize, completed: u64) {
        self.completed.set(self.changes.row(at), completed);
    }

    /// Says how long a worker's tasks take, all together and each.
    #[inline]
    pub fn set_run_time(&mut self, at: usize, total_ns: u64, mean_ns: u64) {
        let place = self.changes.row(at);
        self.run_total_ns.set(place, total_ns);
        self.run_mean_ns.set(place, mean_ns);
    }

    /// Says how busy a worker was, of 10 000.
    #[inline]
    pub fn set_utilisation(&mut self, at: usize, utilisation: u16) {
        self.utilisation.set(self.changes.row(at), utilisation);
    }

    /// Says how much a worker can do; 0: that is to be measured.
    #[inline]
    pub fn set_weight(&mut self, at: usize, weight: u32) {
        self.weights.set(self.changes.row(at), weight);
    }

    /// Says since when a worker has had nothing to do.
    #[inline]
    pub fn set_idle_since(&mut self, at: usize, since: Moment) {
        self.idle_since.set(self.changes.row(at), since);
    }

    /// Whether it is noted what changes, which is so for all but small pictures.
    pub(crate) fn notes_changes(&self) -> bool {
        self.changes.are_noted()
    }

    /// Whether it is known that nobody has come or gone since `seen`.
    pub(crate) fn is_crew_of(&self, seen: &Seen) -> bool {
        self.changes.is_crew_of(seen)
    }

    /// The blocks in which anything may have changed since `seen`, some perhaps several times; see
    /// [`places_of`]. `None` if everything may have: another picture was seen, workers have come or gone,
    /// too much has changed, or changes are not noted.
    pub(crate) fn changed_since(&self, seen: &Seen) -> Option<impl Iterator<Item = usize> + use<'_>> {
        self.changes.since(seen)
    }

    /// Everything has been seen as it is now.
    pub(crate) fn see(&self, seen: &mut Seen) {
        self.changes.see(seen);
    }

    /// The same picture, of which nobody can know what has changed.
    #[cfg(test)]
    pub(crate) fn unnoted(&self) -> Self {
        let mut copy = self.clone();
        copy.changes.forget();
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_as_it_was_put_in_and_load_is_the_sum() {
        let worker = WorkerView {
            id: 7,
            state: WorkerState::Busy,
            running: 1,
            queued: 3,
            completed: 9,
            run_total_ns: 90,
            run_mean_ns: 10,
            utilisation: 5_000,
            weight: 2,
            idle_since: Moment::from_nanos(4),
        };
        let mut views = Views::with_capacity(2);
        views.push(WorkerView::default());
        views.push(worker);
        assert_eq!(views.row(1), worker);
        assert_eq!(views.load(), [0, 4]);
        views.set_load(0, 2, u32::MAX);
        assert_eq!(views.load(), [u32::MAX, 4], "a sum that does not fit stays as large as can be");
        assert_eq!(views.pop(), Some(worker));
        assert_eq!(views.len(), 1);
    }

    #[test]
    fn who_is_taken_away_leaves_the_others_as_they_were_and_in_order() {
        let worker = |id: u32| WorkerView { id, running: id, completed: id.into(), ..WorkerView::default() };
        let mut views = Views::default();
        (0..4).for_each(|id| views.push(worker(id)));
        views.remove(1);
        views.remove(2);
        assert!(views.rows().eq([worker(0), worker(2)]));
        assert_eq!(views.load(), [0, 2]);
    }
}
