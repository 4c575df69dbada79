//! `least-used`: the fewest tasks given, those that still run or wait among them.
//!
//! Tasks are counted when they are given and not when they end, or a burst would all go to the worker with
//! the lowest count before the first task of it ends. A worker that begins to take tasks when the others have
//! run thousands starts from the lowest count of them, or it would get every task until it has caught up.
//!
//! Every worker is looked at. Equals take turns.

use super::roster::Roster;
use super::scan::{Smallest, round_from};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};

/// The worker that has been given the fewest tasks.
#[derive(Clone, Debug, Default)]
pub struct LeastUsed {
    next: usize,
    /// How many tasks each counts besides its own, so that it started level with the others.
    head_starts: Roster<u64>,
}

impl LeastUsed {
    /// What it is called.
    pub const NAME: &'static str = "least-used";

    /// Knows nobody yet. The workers it sees first are compared by what they have run so far.
    pub const fn new() -> Self {
        Self { next: 0, head_starts: Roster::new() }
    }

    /// Makes those that have begun to take tasks level with the least used of the others. If there are none,
    /// they are compared by what they have run.
    fn level(&mut self, workers: &Views) {
        let given = |at: usize| given(workers.completed()[at], workers.load()[at]);
        let crew = self.head_starts.crew(workers.states());
        let least = crew.map(|(at, start)| given(at).wrapping_add(*start)).min().unwrap_or(0);
        self.head_starts.settle(workers.states(), |at| least.saturating_sub(given(at)));
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
        self.head_starts.align(workers.ids(), 0);
        if !self.head_starts.is_settled(workers.states()) {
            self.level(workers);
        }
        let (completed, load, starts) = (workers.completed(), workers.load(), self.head_starts.notes());
        let start = super::within(self.next, workers.len());
        let mut search = Smallest::among(workers.states());
        for places in round_from(start, workers.len(), starts.len()) {
            let columns = completed[places.clone()].iter().zip(&load[places.clone()]);
            let given = columns.map(|(completed, load)| given(*completed, *load));
            match starts.get(places.clone()) {
                Some(starts) => {
                    search.look(places, given.zip(starts).map(|(given, start)| given.wrapping_add(*start)))
                }
                // Workers beyond the notes were not announced, and have no head start.
                None => search.look(places, given),
            }
        }
        let (at, given) = search.found(start)?;
        self.next = at + 1;
        Some(Choice { at, worker: workers.ids()[at], reason: Reason::FewestGiven { given } })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.head_starts.expect_one();
    }

    fn worker_removed(&mut self, worker: u32) {
        self.head_starts.forget(worker);
    }

    fn reset(&mut self) {
        self.next = 0;
        self.head_starts.clear();
    }
}
