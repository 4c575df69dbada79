//! `least-utilised`: the smallest busy share of the last while; in Node, of the event loop.
//!
//! Such a figure lags behind, and a burst comes faster than it moves: by the figure alone all of the burst
//! would go to one worker. So every task that runs at a worker or waits for it counts as
//! [`UTILISATION_PER_TASK`] more. A task that has ended is part of the figure and counts no longer.
//!
//! To count the tasks given since the figure last moved would not do: a pool that works it out anew for
//! every task moves it every time. Every worker is compared; of a large crew only those that may have changed
//! are looked at (`blocks.rs`). Equals take turns.

use super::blocks::Blocks;
use super::scan::Smallest;
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};
use core::ops::Range;

/// By how much a task under way raises a worker's utilisation, of 10 000: one per cent.
pub const UTILISATION_PER_TASK: u16 = 100;

/// The worker that was busy for the smallest share of the last while.
#[derive(Clone, Debug, Default)]
pub struct LeastUtilised {
    next: usize,
    blocks: Blocks<u64, ()>,
}

impl LeastUtilised {
    /// What it is called.
    pub const NAME: &'static str = "least-utilised";

    /// Begins with the first of equals.
    pub const fn new() -> Self {
        Self { next: 0, blocks: Blocks::new() }
    }
}

/// What the figure will probably be when the tasks under way are part of it.
fn expected(utilisation: u16, load: u32) -> u64 {
    u64::from(utilisation) + u64::from(load) * u64::from(UTILISATION_PER_TASK)
}

impl Choose for LeastUtilised {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::UTILISATION.with(Columns::LOAD)
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        let (utilisation, load) = (workers.utilisation(), workers.load());
        let look = |search: &mut Smallest<'_, u64>, places: Range<usize>| {
            let columns = utilisation[places.clone()].iter().zip(&load[places.clone()]);
            search.look(places, columns.map(|(utilisation, load)| expected(*utilisation, *load)));
        };
        let start = super::within(self.next, workers.len());
        let at = self.blocks.find(workers, start, (), look)?.at;
        self.next = at + 1;
        let reason = Reason::LeastUtilised { utilisation: utilisation[at], load: load[at] };
        Some(Choice { at, worker: workers.ids()[at], reason })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.blocks.expect_one();
    }

    fn worker_removed(&mut self, _worker: u32) {
        self.blocks.forget_one();
    }

    fn reset(&mut self) {
        self.next = 0;
        self.blocks.clear();
    }
}
