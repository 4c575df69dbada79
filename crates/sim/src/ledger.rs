//! What is counted while a run goes on, and the check at its end that every task is accounted for.
//!
//! The area under the number of tasks present, summed event by event, must equal the sum of what each task spent
//! here (Little's law, exact in integers). The two sums come from different places; a task that was lost, doubled or
//! ended at the wrong time makes them differ.
//!
//! Shares of time are taken until the last arrival. What comes after it, the emptying of the queues, says nothing
//! about the load that was asked for.

use crate::error::SimError;
use millpond_policy::histogram::Histogram;

/// Loads up to this are told apart in [`Ledger::shares`].
pub(crate) const LEVELS: usize = 16;

/// The sums of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) waits: Histogram,
    pub(crate) wait_sum_ns: u128,
    pub(crate) sojourn_sum_ns: u128,
    pub(crate) arrived: u64,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) robberies: u64,
    pub(crate) stolen: u64,
    now_ns: u64,
    /// Tasks present × time, over the whole run.
    present_area: u128,
    /// Workers running a task, and workers there are.
    busy: u64,
    crew: u64,
    busy_area: u128,
    crew_area: u128,
    /// For each load k from 1: workers with at least k tasks, and the sum of the times at which one stopped to be one
    /// of them less those at which it became one.
    at_least: [u64; LEVELS],
    at_least_area: [i128; LEVELS],
    /// Set at the last arrival; from then on only the present area grows.
    shares: Option<Shares>,
}

/// Shares of the workers' time until the last arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) busy: f64,
    pub(crate) at_least: [f64; LEVELS],
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            waits: Histogram::new(),
            wait_sum_ns: 0,
            sojourn_sum_ns: 0,
            arrived: 0,
            begun: 0,
            ended: 0,
            robberies: 0,
            stolen: 0,
            now_ns: 0,
            present_area: 0,
            busy: 0,
            crew: 0,
            busy_area: 0,
            crew_area: 0,
            at_least: [0; LEVELS],
            at_least_area: [0; LEVELS],
            shares: None,
        }
    }

    /// Time goes on. To be called before anything of the new time is told.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let step = u128::from(now_ns - self.now_ns);
        self.present_area += u128::from(self.present()) * step;
        self.busy_area += u128::from(self.busy) * step;
        self.crew_area += u128::from(self.crew) * step;
        self.now_ns = now_ns;
    }

    /// Tasks that have arrived and not ended.
    pub(crate) fn present(&self) -> u64 {
        self.arrived - self.ended
    }

    /// Tasks that have arrived and not begun.
    pub(crate) fn waiting(&self) -> u64 {
        self.arrived - self.begun
    }

    pub(crate) fn begin(&mut self, arrived_ns: u64) {
        let wait_ns = self.now_ns - arrived_ns;
        self.waits.record(wait_ns);
        self.wait_sum_ns += u128::from(wait_ns);
        self.begun += 1;
        self.busy += 1;
    }

    pub(crate) fn end(&mut self, arrived_ns: u64) {
        self.sojourn_sum_ns += u128::from(self.now_ns - arrived_ns);
        self.ended += 1;
        self.busy -= 1;
    }

    /// How many workers there are from now on, those that only finish their last task included.
    pub(crate) fn crew_is(&mut self, workers: u64) {
        self.crew = workers;
    }

    /// What one worker has running and waiting changed.
    pub(crate) fn load_changed(&mut self, from: u32, to: u32) {
        let now = i128::from(self.now_ns);
        for level in from..to.min(LEVELS as u32) {
            self.at_least[level as usize] += 1;
            self.at_least_area[level as usize] -= now;
        }
        for level in to..from.min(LEVELS as u32) {
            self.at_least[level as usize] -= 1;
            self.at_least_area[level as usize] += now;
        }
    }

    /// The last task has arrived: the shares are taken now.
    pub(crate) fn close_shares(&mut self) {
        let time = self.crew_area.max(1) as f64;
        let mut at_least = [0.0; LEVELS];
        for (level, share) in at_least.iter_mut().enumerate() {
            let area = self.at_least_area[level] + i128::from(self.at_least[level]) * i128::from(self.now_ns);
            *share = area as f64 / time;
        }
        self.shares = Some(Shares { busy: self.busy_area as f64 / time, at_least });
    }

    /// Whether everything adds up after the end of a run of so many tasks, and the shares.
    pub(crate) fn settle(&self, tasks: u64) -> Result<Shares, SimError> {
        let adds_up = [self.arrived, self.begun, self.ended, self.waits.count()] == [tasks; 4]
            && self.present_area == self.sojourn_sum_ns;
        match self.shares {
            Some(shares) if adds_up => Ok(shares),
            _ => Err(SimError::Lost { tasks, arrived: self.arrived, begun: self.begun, ended: self.ended }),
        }
    }

    /// Tasks present, on average over the whole run.
    pub(crate) fn present_mean(&self) -> f64 {
        self.present_area as f64 / self.now_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One worker: a task from 10 to 40, another that comes at 20 and runs from 40 to 50.
    fn two_tasks() -> Ledger {
        let mut ledger = Ledger::new();
        ledger.crew_is(1);
        ledger.advance(10);
        ledger.arrived += 1;
        ledger.load_changed(0, 1);
        ledger.begin(10);
        ledger.advance(20);
        ledger.arrived += 1;
        ledger.load_changed(1, 2);
        ledger.close_shares();
        ledger.advance(40);
        ledger.end(10);
        ledger.begin(20);
        ledger.load_changed(2, 1);
        ledger
    }

    #[test]
    fn shares_are_of_the_time_until_the_last_arrival_and_areas_of_all() {
        let mut ledger = two_tasks();
        ledger.advance(50);
        ledger.end(20);
        let shares = ledger.settle(2).unwrap();
        assert_eq!(shares.busy, 0.5);
        assert_eq!(shares.at_least[..2], [0.5, 0.0]);
        assert_eq!(ledger.wait_sum_ns, 20);
        assert_eq!(ledger.present_mean(), 60.0 / 50.0);
    }

    #[test]
    fn a_task_that_is_lost_or_ends_at_the_wrong_time_is_noticed() {
        let ledger = two_tasks();
        assert!(matches!(ledger.settle(2), Err(SimError::Lost { ended: 1, .. })));
        let mut ledger = two_tasks();
        ledger.advance(50);
        ledger.end(21);
        assert!(ledger.settle(2).is_err(), "the second task came at 20");
    }
}
