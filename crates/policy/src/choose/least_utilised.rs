//! `least-utilised`: the smallest busy share of the last while; in Node, of the event loop.
//!
//! Such a figure is measured now and then, and a burst fits between two measurements: by the figure alone all
//! of it would go to one worker. So every task that a worker has been given since its figure last moved
//! counts as [`UTILISATION_PER_TASK`] more.
//!
//! Every worker is looked at. Equals take turns.

use super::roster::Roster;
use super::scan::{Smallest, round_from};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};

/// By how much a task raises a worker's utilisation until it is measured, of 10 000: one per cent.
pub const UTILISATION_PER_TASK: u16 = 100;

/// The worker that was busy for the smallest share of the last while.
#[derive(Clone, Debug, Default)]
pub struct LeastUtilised {
    next: usize,
    given: Roster<Given>,
}

/// What a worker has been given since its figure last moved.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    tasks: u16,
    /// The figure.
    at_utilisation: u16,
}

impl Given {
    fn since(self, utilisation: u16) -> u16 {
        if self.at_utilisation == utilisation { self.tasks } else { 0 }
    }

    /// What the figure will probably be.
    fn expected(self, utilisation: u16) -> u32 {
        u32::from(utilisation) + u32::from(self.since(utilisation)) * u32::from(UTILISATION_PER_TASK)
    }
}

impl LeastUtilised {
    /// What it is called.
    pub const NAME: &'static str = "least-utilised";

    /// Begins with the first of equals.
    pub const fn new() -> Self {
        Self { next: 0, given: Roster::new() }
    }
}

impl Choose for LeastUtilised {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::UTILISATION
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        self.given.align(workers.ids(), Given::default());
        let (utilisation, notes) = (workers.utilisation(), self.given.notes());
        let start = super::within(self.next, workers.len());
        let mut search = Smallest::among(workers.states());
        for places in round_from(start, workers.len(), notes.len()) {
            let shares = utilisation[places.clone()].iter();
            match notes.get(places.clone()) {
                Some(notes) => {
                    search.look(places, shares.zip(notes).map(|(share, given)| given.expected(*share)))
                }
                // Workers beyond the notes were not announced, and nothing is known of what they were given.
                None => search.look(places, shares.map(|share| u32::from(*share))),
            }
        }
        let (at, _) = search.found(start)?;
        self.next = at + 1;
        let (utilisation, mut given) = (utilisation[at], 0);
        if let Some(note) = self.given.notes_mut().get_mut(at) {
            given = note.since(utilisation);
            *note = Given { tasks: given.saturating_add(1), at_utilisation: utilisation };
        }
        Some(Choice { at, worker: workers.ids()[at], reason: Reason::LeastUtilised { utilisation, given } })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.given.expect_one();
    }

    fn worker_removed(&mut self, worker: u32) {
        self.given.forget(worker);
    }

    fn reset(&mut self) {
        self.next = 0;
        self.given.clear();
    }
}
