//! `interleaved-weighted`: the shares of `weighted-round-robin`, with nobody's tasks in a row.
//!
//! Workers take turns in as many rounds as the heaviest one weighs. It comes in every round; one that weighs
//! a third as much in every third, and so on: in round r a worker of weight w comes if r·w / heaviest passes
//! a whole number there, as a line on squared paper passes into the next row. So in all the rounds together
//! it comes exactly w times, evenly spread. Each worker's line begins at its own height, or all light ones
//! would come in the same round.
//!
//! The smooth weighted round-robin of web servers is a little smoother, but adds to a counter of every worker
//! for every task. Here a round is gone through once, and the only state is the round and the place in it: a
//! task costs as many looks as the heaviest worker is heavier than the average one.

use super::scan::next_taking;
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};
use crate::weights::Weights;

/// Workers take turns in rounds, and come in as many of them as they weigh.
#[derive(Clone, Debug, Default)]
pub struct InterleavedWeighted {
    weights: Weights,
    /// How many rounds there are; 0 before the first one.
    heaviest: u32,
    round: u32,
    /// Where this round goes on.
    next: usize,
}

impl InterleavedWeighted {
    /// What it is called.
    pub const NAME: &'static str = "interleaved-weighted";

    /// Begins with the first round.
    pub const fn new() -> Self {
        Self { weights: Weights::new(), heaviest: 0, round: 0, next: 0 }
    }

    /// The next worker that comes in this round, and why.
    fn rest_of_round(&self, workers: &Views) -> Option<(usize, Reason)> {
        let mut next = self.next;
        while let Some(at) = next_taking(workers.states(), next) {
            let weight = self.weights.of(workers, at).min(self.heaviest);
            let height = self.height(workers.ids()[at]) + self.round * weight;
            if height % self.heaviest + weight >= self.heaviest {
                let turns = (height + weight) / self.heaviest;
                return Some((at, Reason::WeightedTurn { weight, left: weight - turns }));
            }
            next = at + 1;
        }
        None
    }

    /// How high a worker's line begins: below the first row to be reached.
    fn height(&self, id: u32) -> u32 {
        /// Multiples of this share of 2^32 are spread evenly however many are taken: it is the golden
        /// section.
        const GOLDEN: u32 = 0x9E37_79B9;
        ((u64::from(id.wrapping_mul(GOLDEN)) * u64::from(self.heaviest)) >> 32) as u32
    }

    /// Begins the next round. The heaviest that takes tasks comes in it, so if anybody does, the round is not
    /// empty.
    fn next_round(&mut self, workers: &Views, now: Moment) {
        self.weights.measure(workers, now);
        let (mut heaviest, mut next) = (0, 0);
        while let Some(at) = next_taking(workers.states(), next) {
            heaviest = self.weights.of(workers, at).max(heaviest);
            next = at + 1;
        }
        let is_first = self.heaviest == 0 || self.round + 1 >= heaviest;
        (self.heaviest, self.round, self.next) = (heaviest, if is_first { 0 } else { self.round + 1 }, 0);
    }
}

impl Choose for InterleavedWeighted {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::RUN_TIME
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, now: Moment) -> Option<Choice> {
        // Before the first round there are no rounds, and in none of them comes anybody.
        let in_this_round = if self.heaviest == 0 { None } else { self.rest_of_round(workers) };
        let (at, reason) = match in_this_round {
            Some(found) => found,
            None => {
                self.next_round(workers, now);
                self.rest_of_round(workers)?
            }
        };
        self.next = at + 1;
        Some(Choice { at, worker: workers.ids()[at], reason })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.weights.worker_added();
    }

    fn worker_removed(&mut self, worker: u32) {
        self.weights.worker_removed(worker);
    }

    fn reset(&mut self) {
        self.weights.reset();
        (self.heaviest, self.round, self.next) = (0, 0, 0);
    }
}
