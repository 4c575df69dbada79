//! `random`: any worker that takes tasks, drawn from a seed. The baseline that other strategies are measured
//! against.
//!
//! A few draws find one where most workers take tasks; after that those that do are counted, so that nobody
//! who takes tasks is missed and each has the same chance.

use super::draw::Draws;
use super::scan::{count_taking, nth_taking};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views};

/// So often it draws before it counts.
const DRAWS_MAX: u32 = 8;

/// A worker drawn at random.
#[derive(Clone, Debug)]
pub struct Random {
    draws: Draws,
}

impl Random {
    /// What it is called.
    pub const NAME: &'static str = "random";

    /// The same seed draws the same workers.
    pub const fn new(seed: u64) -> Self {
        Self { draws: Draws::new(seed) }
    }

    fn draw(&mut self, workers: &Views) -> Option<usize> {
        if workers.is_empty() {
            return None;
        }
        for _ in 0..DRAWS_MAX {
            let at = self.draws.below(workers.len());
            if workers.takes_tasks(at) {
                return Some(at);
            }
        }
        match count_taking(workers.states()) {
            0 => None,
            taking => nth_taking(workers.states(), self.draws.below(taking)),
        }
    }
}

impl Choose for Random {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::NONE
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        let at = self.draw(workers)?;
        Some(Choice { at, worker: workers.ids()[at], reason: Reason::Drawn })
    }

    fn reset(&mut self) {
        self.draws.restart();
    }
}
