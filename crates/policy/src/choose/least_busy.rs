//! `least-busy`: the fewest tasks running and waiting. The simplest strategy that looks at what workers do.
//!
//! Every worker is looked at, until one with nothing to do is found. The search begins after the worker that
//! was chosen last, so that equals take turns and none becomes a hotspot.
//!
//! Not here: its kin `least-used` and `least-utilised` (`least_used.rs`, `least_utilised.rs`), which must
//! remember something of each worker.

use super::scan::{Smallest, round_from};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views};

/// The worker with the fewest tasks running and waiting.
#[derive(Clone, Debug, Default)]
pub struct LeastBusy {
    next: usize,
}

impl LeastBusy {
    /// What it is called.
    pub const NAME: &'static str = "least-busy";

    /// Begins with the first of equals.
    pub const fn new() -> Self {
        Self { next: 0 }
    }
}

impl Choose for LeastBusy {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::LOAD
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        let start = super::within(self.next, workers.len());
        let mut search = Smallest::among(workers.states());
        for places in round_from(start, workers.len(), workers.len()) {
            search.look(places.clone(), workers.load()[places].iter().copied());
        }
        let (at, load) = search.found(start)?;
        self.next = at + 1;
        Some(Choice { at, worker: workers.ids()[at], reason: Reason::LowestLoad { load } })
    }

    fn reset(&mut self) {
        self.next = 0;
    }
}
