//! `least-used`: the fewest tasks given, those that still run or wait among them.
//!
//! Tasks are counted when they are given and not when they end, or a burst would all go to the worker with
//! the lowest count before the first task of it ends. A worker that begins to take tasks when the others have
//! run thousands starts from the lowest count of them, or it would get every task until it has caught up.
//!
//! Every worker is compared; of a large crew only those that may have changed are looked at (`blocks.rs`).
//! Equals take turns.

use super::blocks::Blocks;
use super::roster::Roster;
use super::scan::{Smallest, split};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};
use core::ops::Range;

/// The worker that has been given the fewest tasks.
#[derive(Clone, Debug, Default)]
pub struct LeastUsed {
    next: usize,
    /// How many tasks each counts besides its own, so that it started level with the others.
    head_starts: Roster<u64>,
    /// Keys are made of the head starts, which are known by their revision.
    blocks: Blocks<u64, u64>,
}

impl LeastUsed {
    /// What it is called.
    pub const NAME: &'static str = "least-used";

    /// Knows nobody yet. The workers it sees first are compared by what they have run so far.
    pub const fn new() -> Self {
        Self { next: 0, head_starts: Roster::new(), blocks: Blocks::new() }
    }

    /// Makes those that have begun to take tasks level with the least used of the others. If there are none,
    /// they are compared by what they have run.
    fn level(&mut self, workers: &Views) {
        let given = |at: usize| given(workers.completed()[at], workers.load()[at]);
        let crew = self.head_starts.crew(workers.states());
        let least = crew.map(|(at, start)| given(at).wrapping_add(*start)).min().unwrap_or(0);
        self.head_starts.settle(workers, |at| least.saturating_sub(given(at)));
    }
}

/// So many tasks are never given that the sum would not fit; checking costs a tenth of the search.
fn given(completed: u64, load: u32) -> u64 {
    completed.wrapping_add(u64::from(load))
}

impl Choose for LeastUsed {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::COMPLETED.with(Columns::LOAD)
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        self.head_starts.align(workers, 0);
        if !self.head_starts.is_settled(workers) {
            self.level(workers);
        }
        let (completed, load, starts) = (workers.completed(), workers.load(), self.head_starts.notes());
        let given = |places: Range<usize>| {
            let columns = completed[places.clone()].iter().zip(&load[places]);
            columns.map(|(completed, load)| given(*completed, *load))
        };
        let look = |search: &mut Smallest<'_, u64>, places| {
            let (noted, others) = split(places, starts.len());
            let starts = starts.get(noted.clone()).unwrap_or_default();
            let raised = given(noted.clone()).zip(starts).map(|(given, start)| given.wrapping_add(*start));
            search.look(noted, raised);
            // Workers beyond the notes were not announced, and have no head start.
            search.look(others.clone(), given(others));
        };
        let start = super::within(self.next, workers.len());
        let found = self.blocks.find(workers, start, self.head_starts.revision(), look)?;
        self.next = found.at + 1;
        let reason = Reason::FewestGiven { given: found.key };
        Some(Choice { at: found.at, worker: workers.ids()[found.at], reason })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.head_starts.expect_one();
        self.blocks.expect_one();
    }

    fn worker_removed(&mut self, worker: u32) {
        self.head_starts.forget(worker);
        self.blocks.forget_one();
    }

    fn reset(&mut self) {
        self.next = 0;
        self.head_starts.clear();
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::WorkerState;

    #[test]
    fn in_a_large_crew_too_one_that_is_new_again_is_level_with_the_others_again() {
        let (mut strategy, mut workers) = (LeastUsed::new(), Views::default());
        for id in 0..300 {
            let worker = WorkerView { id, state: WorkerState::Cold, completed: 100, ..WorkerView::default() };
            workers.push(worker);
            strategy.worker_added(&worker, Moment::ZERO);
        }
        let last = workers.len() - 1;
        workers.set_state(0, WorkerState::Ready);
        workers.set_state(last, WorkerState::Ready);
        let choose = |strategy: &mut LeastUsed, workers: &Views| {
            let choice = strategy.choose(workers, &TaskView::default(), Moment::ZERO).expect("two are ready");
            (choice.at, choice.reason)
        };
        let level = Reason::FewestGiven { given: 100 };
        assert_eq!(choose(&mut strategy, &workers), (0, level));
        assert_eq!(choose(&mut strategy, &workers), (last, level));
        workers.set_completed(last, 200);
        // Nothing of the first one changes in the picture, only what is noted of it.
        strategy.worker_removed(0);
        assert_eq!(choose(&mut strategy, &workers), (0, Reason::FewestGiven { given: 200 }));
    }
}
