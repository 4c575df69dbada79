//! `round-robin`: one after the other, whatever they do.
//!
//! The cheapest strategy, and an even one when tasks are alike. A worker that takes no tasks is passed over;
//! with nobody to pass over the cost does not depend on the number of workers. Where the last turn ended is a
//! place and not a worker, so it is brought back into the picture first: there may be fewer workers than
//! there were.

use super::scan::first_taking;
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views};

/// Workers take turns.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    /// Where the next turn begins; may lie beyond the end.
    next: usize,
}

impl RoundRobin {
    /// What it is called.
    pub const NAME: &'static str = "round-robin";

    /// Begins with the first worker.
    pub const fn new() -> Self {
        Self { next: 0 }
    }
}

impl Choose for RoundRobin {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::NONE
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        let start = super::within(self.next, workers.len());
        let at = first_taking(workers.states(), start)?;
        self.next = at + 1;
        Some(Choice { at, worker: workers.ids()[at], reason: Reason::Turn })
    }

    fn reset(&mut self) {
        self.next = 0;
    }
}
