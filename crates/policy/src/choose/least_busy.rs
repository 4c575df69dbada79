//! `least-busy`: the fewest tasks running and waiting. The simplest strategy that looks at what workers do.
//!
//! Every worker is compared, until one with nothing to do is found; of a large crew only those that may
//! have changed are looked at (`blocks.rs`). The search begins after the worker that was chosen last, so
//! that equals take turns and none becomes a hotspot.
//!
//! Not here: its kin `least-used` and `least-utilised` (`least_used.rs`, `least_utilised.rs`), which must
//! remember something of each worker.

use super::blocks::Blocks;
use super::scan::Smallest;
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{BLOCK, Columns, TaskView, Views, WorkerView};
use core::ops::Range;

/// The worker with the fewest tasks running and waiting.
#[derive(Clone, Debug, Default)]
pub struct LeastBusy {
    next: usize,
    blocks: Blocks<u32, ()>,
}

impl LeastBusy {
    /// What it is called.
    pub const NAME: &'static str = "least-busy";

    /// Begins with the first of equals.
    pub const fn new() -> Self {
        Self { next: 0, blocks: Blocks::new() }
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
        let look = |search: &mut Smallest<'_, u32>, places: Range<usize>| {
            search.look(places.clone(), workers.load()[places].iter().copied());
        };
        let start = super::within(self.next, workers.len());
        let (at, load) = idle_near(workers, start, look).or_else(|| {
            let found = self.blocks.find(workers, start, (), look)?;
            Some((found.at, found.key))
        })?;
        self.next = at + 1;
        Some(Choice { at, worker: workers.ids()[at], reason: Reason::LowestLoad { load } })
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

/// A worker with nothing to do among the next ones of a large crew. There mostly is one, and then it need
/// not be found out what has changed. A small crew is about to be searched anyway.
fn idle_near(
    workers: &Views,
    start: usize,
    look: impl Fn(&mut Smallest<'_, u32>, Range<usize>),
) -> Option<(usize, u32)> {
    if !workers.notes_changes() {
        return None;
    }
    let mut search = Smallest::among(workers.states());
    look(&mut search, start..workers.len().min(start + BLOCK));
    if search.is_over() { search.found(start) } else { None }
}
