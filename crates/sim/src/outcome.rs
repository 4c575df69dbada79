//! What came of a run: plain figures, the same for the same scenario to the last bit.
//!
//! How long the run took on the real clock is not among them, since that is never the same twice; whoever asks for a
//! run can time it.

use crate::crew::Crew;
use crate::error::SimError;
use crate::ledger::{LEVELS, Ledger};
use millpond_policy::histogram::Histogram;
use std::time::Duration;

/// The figures of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The strategy's name.
    pub strategy: String,
    /// Tasks that arrived, and were all run to their end.
    pub tasks: u64,
    /// How long tasks waited from their arrival until they began, in nanoseconds.
    pub waits: Histogram,
    /// The mean wait in nanoseconds, exact and with its fraction.
    pub wait_mean_ns: f64,
    /// The mean time from arrival to end in nanoseconds.
    pub sojourn_mean_ns: f64,
    /// Jain's index over the share of its time each worker was busy: 1 if all were alike, 1/n if one did it all.
    pub fairness: f64,
    /// Which share of the workers' time was busy, until the last arrival.
    pub utilisation: f64,
    /// Tasks present, waiting or running, on average over the whole run.
    pub present_mean: f64,
    /// For k from 1: which share of the workers' time, until the last arrival, each had at least k tasks running and
    /// waiting for it. Tasks that wait in a shared queue wait for nobody.
    pub load_at_least: [f64; LEVELS],
    /// How often a worker robbed another, and how many tasks it took with it.
    pub robberies: u64,
    /// See `robberies`.
    pub stolen: u64,
    /// How often workers were added.
    pub scale_ups: u64,
    /// How often workers were told to go.
    pub scale_downs: u64,
    /// How many workers there were at the end.
    pub workers_end: u32,
    /// The most there ever were.
    pub workers_peak: u32,
    /// Simulated time from the beginning to the end of the last task.
    pub simulated: Duration,
}

/// What scaling did in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScaleSteps {
    pub(crate) ups: u64,
    pub(crate) downs: u64,
    pub(crate) peak: usize,
}

impl Outcome {
    /// Sums a run up; an error if not every task is accounted for.
    pub(crate) fn new(
        strategy: String,
        tasks: u64,
        ledger: Ledger,
        crew: &Crew,
        steps: ScaleSteps,
        now_ns: u64,
    ) -> Result<Self, SimError> {
        let shares = ledger.settle(tasks)?;
        Ok(Self {
            strategy,
            tasks,
            wait_mean_ns: ledger.wait_sum_ns as f64 / tasks as f64,
            sojourn_mean_ns: ledger.sojourn_sum_ns as f64 / tasks as f64,
            fairness: jain(crew.busy_shares(now_ns)),
            utilisation: shares.busy,
            present_mean: ledger.present_mean(),
            load_at_least: shares.at_least,
            robberies: ledger.robberies,
            stolen: ledger.stolen,
            scale_ups: steps.ups,
            scale_downs: steps.downs,
            workers_end: crew.len() as u32,
            workers_peak: steps.peak.max(crew.len()) as u32,
            simulated: Duration::from_nanos(now_ns),
            waits: ledger.waits,
        })
    }
}

/// (Σx)² / (n·Σx²); 1 if there is nobody, or nobody has anything.
fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_of_n_for_one_that_does_it_all() {
        assert_eq!(jain([0.5; 4].into_iter()), 1.0);
        assert_eq!(jain([0.0, 0.0, 0.7, 0.0].into_iter()), 0.25);
        assert_eq!(jain([].into_iter()), 1.0);
        assert_eq!(jain([0.0, 0.0].into_iter()), 1.0);
    }
}
