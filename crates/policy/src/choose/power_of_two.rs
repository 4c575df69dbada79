//! `power-of-two`: two workers drawn at random, and the less loaded of them.
//!
//! The second draw is what matters: it brings the longest queue down from the order of log n to that of log
//! log n, for a cost that does not depend on the number of workers. And since two submitters with the same
//! picture draw different workers, they do not all run to the same one.
//!
//! A few draws find a pair where most workers take tasks; after that those that do are counted, so that
//! nobody who takes tasks is missed and each pair has the same chance.

use super::draw::Draws;
use super::scan::{count_taking, nth_taking};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views};

/// So often it draws before it counts.
const DRAWS_MAX: u32 = 8;

/// The less loaded of two workers drawn at random.
#[derive(Clone, Debug)]
pub struct PowerOfTwo {
    draws: Draws,
}

impl PowerOfTwo {
    /// What it is called.
    pub const NAME: &'static str = "power-of-two";

    /// The same seed draws the same workers.
    pub const fn new(seed: u64) -> Self {
        Self { draws: Draws::new(seed) }
    }

    /// Two different workers that both take tasks, if draws alone find them.
    fn draw_pair(&mut self, workers: &Views) -> Option<(usize, usize)> {
        if workers.len() < 2 {
            return None;
        }
        for _ in 0..DRAWS_MAX {
            let (one, other) = self.draws.two_below(workers.len());
            if workers.takes_tasks(one) && workers.takes_tasks(other) {
                return Some((one, other));
            }
        }
        None
    }

    /// The same by counting; the second is missing if only one takes tasks.
    fn count_pair(&mut self, workers: &Views) -> Option<(usize, Option<usize>)> {
        let states = workers.states();
        match count_taking(states) {
            0 => None,
            1 => Some((nth_taking(states, 0)?, None)),
            taking => {
                let (one, other) = self.draws.two_below(taking);
                Some((nth_taking(states, one)?, nth_taking(states, other)))
            }
        }
    }
}

impl Choose for PowerOfTwo {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::LOAD
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, _now: Moment) -> Option<Choice> {
        let (one, other) = match self.draw_pair(workers) {
            Some((one, other)) => (one, Some(other)),
            None => self.count_pair(workers)?,
        };
        let load = workers.load();
        let (at, reason) = match other {
            None => (one, Reason::OnlyOne),
            Some(other) if load[other] < load[one] => {
                (other, Reason::BetterOfTwo { load: load[other], other: load[one] })
            }
            Some(other) => (one, Reason::BetterOfTwo { load: load[one], other: load[other] }),
        };
        Some(Choice { at, worker: workers.ids()[at], reason })
    }

    fn reset(&mut self) {
        self.draws.restart();
    }
}
