//! `weighted-round-robin`: workers take turns, and heavy ones get several tasks in a row.
//!
//! A turn of the lightest worker is one task; one that weighs three times as much gets three. Where a weight is
//! no multiple, turns differ by one from round to round, so that in as many rounds as the lightest weighs each
//! worker gets exactly as many tasks as it weighs. Only proportions count: equal weights, however large, are
//! plain round-robin, and measured ones that nearly agree nearly so.
//!
//! Tasks in a row keep a worker's data warm, at the price of a queue that comes in bursts; where that
//! matters, `interleaved-weighted` gives the same shares without them. Weights are measured again once a
//! round, so the cost for a task does not depend on the number of workers, though that of the first in a
//! round does.
//!
//! Not here: what a worker weighs (`weights.rs`).

use super::scan::{first_taking, next_taking};
use super::{Choice, Choose, Reason};
use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};
use crate::weights::{WEIGHT_MAX, Weights};

/// Workers take turns, longer ones the more they weigh.
#[derive(Clone, Debug, Default)]
pub struct WeightedRoundRobin {
    weights: Weights,
    /// Whose turn it is, and where it stood.
    worker: u32,
    place: usize,
    /// How many tasks it is still to get.
    left: u32,
    weight: u32,
    /// What the lightest worker weighs, and so how many rounds there are until they repeat.
    lightest: u32,
    round: u32,
    /// Where the next turn begins. It is 0 only before the first one.
    next: usize,
}

impl WeightedRoundRobin {
    /// What it is called.
    pub const NAME: &'static str = "weighted-round-robin";

    /// Begins with the first worker.
    pub const fn new() -> Self {
        let weights = Weights::new();
        Self { weights, worker: 0, place: 0, left: 0, weight: 0, lightest: 0, round: 0, next: 0 }
    }

    /// Where the worker stands whose turn it is, if its turn goes on.
    fn same_again(&mut self, workers: &Views) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let ids = workers.ids();
        let stayed = ids.get(self.place) == Some(&self.worker);
        let moved = || ids.iter().position(|id| *id == self.worker);
        match if stayed { Some(self.place) } else { moved() } {
            Some(at) => {
                self.place = at;
                self.next = at + 1;
                workers.takes_tasks(at).then_some(at)
            }
            // It has gone, and the one after it has taken its place.
            None => {
                self.next = self.place;
                None
            }
        }
    }

    fn next_turn(&mut self, workers: &Views, now: Moment) -> Option<usize> {
        let start = super::within(self.next, workers.len());
        let at = first_taking(workers.states(), start)?;
        if start == 0 || at < start {
            self.next_round(workers, now);
        }
        self.weight = self.weights.of(workers, at);
        (self.worker, self.place, self.left, self.next) = (workers.ids()[at], at, self.turn(), at + 1);
        Some(at)
    }

    /// Begins the next round.
    fn next_round(&mut self, workers: &Views, now: Moment) {
        self.weights.measure(workers, now);
        let (mut lightest, mut next) = (WEIGHT_MAX, 0);
        while let Some(at) = next_taking(workers.states(), next) {
            lightest = self.weights.of(workers, at).min(lightest);
            next = at + 1;
        }
        let is_first = self.lightest == 0 || self.round + 1 >= lightest;
        (self.lightest, self.round) = (lightest, if is_first { 0 } else { self.round + 1 });
    }

    /// How many tasks the worker of this weight gets in this round: what it is due by the end of the round,
    /// less what it was due by the beginning.
    fn turn(&self) -> u32 {
        let due = |rounds: u32| rounds * self.weight / self.lightest;
        // One that has only now begun to take tasks may be lighter than the lightest was.
        (due(self.round + 1) - due(self.round)).max(1)
    }
}

impl Choose for WeightedRoundRobin {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::RUN_TIME
    }

    fn choose(&mut self, workers: &Views, _task: &TaskView, now: Moment) -> Option<Choice> {
        let at = match self.same_again(workers) {
            Some(at) => at,
            None => self.next_turn(workers, now)?,
        };
        self.left -= 1;
        let reason = Reason::WeightedTurn { weight: self.weight, left: self.left };
        Some(Choice { at, worker: self.worker, reason })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.weights.worker_added();
    }

    fn worker_removed(&mut self, worker: u32) {
        self.weights.worker_removed(worker);
    }

    fn reset(&mut self) {
        self.weights.reset();
        (self.left, self.lightest, self.round, self.next) = (0, 0, 0, 0);
    }
}
