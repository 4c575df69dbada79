//! `fair-share`: the worker that has had the least time lately, counting what waits for it.
//!
//! What a worker has had is its run time, of which half is forgotten in each half-life; what it is still to
//! have is its tasks times how long they take. Both are nanoseconds, so they can be added. Forgetting goes by
//! elapsed time: a worker with a thousand short tasks has had as much as one with a long task of the same
//! length, and one long task is not held against a worker for ever.
//!
//! A task that waits counts as long as the worker's own tasks take, and not less than tasks usually take. By
//! its own alone a worker whose first task happened to be short would be given thousands before they weighed
//! as much as one task of another. One that is really faster makes up for it by the time it has had.
//!
//! The run time is read off the worker's total, so nobody need report every task. What was not watched is
//! taken to have passed evenly since the last look. A worker that begins to take tasks starts level with the
//! one that has had least, and not with nothing, or it would get everything until it has caught up.
//!
//! Every worker is compared; of a large crew only those that may have changed are looked at (`blocks.rs`),
//! and everybody when time has faded or another run time is usual. Equals take turns.

use super::blocks::Blocks;
use super::roster::Roster;
use super::scan::{Smallest, split};
use super::{Choice, Choose, Reason};
use crate::decay::Fading;
use crate::view::{Columns, TaskView, Views, WorkerView};
use crate::{BadSetting, Moment};
use alloc::format;
use alloc::string::ToString;
use core::ops::Range;
use core::time::Duration;

const HALF_LIFE_MIN: Duration = Duration::from_millis(1);
const HALF_LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Time is let fade so often in a half-life, and not for every task. All fade alike, so the order among them
/// does not depend on it; only against what waits, they may stand 0.3 per cent too high.
const FADINGS_PER_HALF_LIFE: u32 = 256;

/// More than two years of work count as this, so that sums cannot overflow.
const WORK_MAX: u64 = 1 << 56;

/// The worker that has had the least time lately.
#[derive(Clone, Debug)]
pub struct FairShare {
    half_life: Duration,
    next: usize,
    tallies: Roster<Tally>,
    /// Up to when the tallies are.
    tallied: Moment,
    /// How long a task takes, over all workers; `None` while that is not known of anybody.
    usual_ns: Option<u64>,
    /// So many choices were made since that is known, until the next tally. It is looked up again whenever
    /// they have doubled: the tasks that end first are the short ones, so what is known at first is too
    /// little, and soon less so.
    choices_since_known: u32,
    blocks: Blocks<u64, Basis>,
}

/// What it takes, besides the picture, to say how much work a worker has had and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    /// Of the tallies.
    revision: u64,
    usual_ns: u64,
}

/// The time a worker has had, and its total when that was added up.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// What it has had less its total, around the end of the numbers if need be: added to the total of today,
    /// it gives what the worker has had by today, which is all that is read for every task.
    had_less_total: u64,
    total_ns: u64,
}

impl Tally {
    fn new(had_ns: u64, total_ns: u64) -> Self {
        Self { had_less_total: had_ns.min(WORK_MAX).wrapping_sub(total_ns), total_ns }
    }

    /// What it has had by the time its total is `total_ns`, without fading. A total that has shrunk gives
    /// anything, until it is added up again.
    fn had_by(self, total_ns: u64) -> u64 {
        self.had_less_total.wrapping_add(total_ns)
    }
}

impl Default for FairShare {
    fn default() -> Self {
        Self::new()
    }
}

impl FairShare {
    /// What it is called.
    pub const NAME: &'static str = "fair-share";

    /// Half is forgotten in a second.
    pub const HALF_LIFE_DEFAULT: Duration = Duration::from_secs(1);

    /// With the default half-life.
    pub const fn new() -> Self {
        Self {
            half_life: Self::HALF_LIFE_DEFAULT,
            next: 0,
            tallies: Roster::new(),
            tallied: Moment::ZERO,
            usual_ns: None,
            choices_since_known: 0,
            blocks: Blocks::new(),
        }
    }

    /// With another half-life: 1 ms to 1 day.
    ///
    /// # Errors
    ///
    /// A half-life outside of that.
    pub fn with_half_life(half_life: Duration) -> Result<Self, BadSetting> {
        if (HALF_LIFE_MIN..=HALF_LIFE_MAX).contains(&half_life) {
            return Ok(Self { half_life, ..Self::new() });
        }
        Err(BadSetting {
            setting: "fair_share.half_life",
            expected: "1 ms to 1 day".to_string(),
            got: format!("{half_life:?}"),
        })
    }

    /// Adds up what everybody has had until now, and lets it fade.
    fn tally(&mut self, workers: &Views, now: Moment) {
        let elapsed = now.since(self.tallied);
        let fading = Fading::over(elapsed, self.half_life);
        let of_growth = fading.of_even_growth(elapsed, self.half_life);
        for (tally, total_ns) in self.tallies.notes_mut().iter_mut().zip(workers.run_total_ns()) {
            // A total that has shrunk is that of another worker with the same number, and has grown from
            // nothing.
            let grown = total_ns.checked_sub(tally.total_ns).unwrap_or(*total_ns);
            let grown = (u128::from(grown) * u128::from(of_growth)) >> 32;
            let had_ns = fading.of(tally.had_by(tally.total_ns)).saturating_add(grown as u64);
            *tally = Tally::new(had_ns, *total_ns);
        }
        self.tallied = now;
        self.usual_ns = usual_ns(workers.run_mean_ns());
        self.choices_since_known = 0;
    }

    /// Those that have begun to take tasks have had as much as the worker that has had least; nothing, if all
    /// are new.
    fn level(&mut self, workers: &Views) {
        let totals = workers.run_total_ns();
        let crew = self.tallies.crew(workers.states());
        let least = crew.map(|(at, tally)| tally.had_by(totals[at])).min().unwrap_or(0);
        self.tallies.settle(workers, |at| Tally::new(least, totals[at]));
    }

    /// Brings what is known of the workers up to date.
    fn prepare(&mut self, workers: &Views, now: Moment) {
        self.tallies.align(workers, Tally::new(0, 0));
        if now.since(self.tallied) >= self.half_life / FADINGS_PER_HALF_LIFE {
            self.tally(workers, now);
        } else {
            self.choices_since_known =
                self.choices_since_known.saturating_add(u32::from(self.usual_ns.is_some()));
            if self.usual_ns.is_none() || self.choices_since_known.is_power_of_two() {
                self.usual_ns = usual_ns(workers.run_mean_ns());
            }
        }
        // Last, since a newcomer is to be level with what is left and not with what has faded by now.
        if !self.tallies.is_settled(workers) {
            self.level(workers);
        }
    }
}

/// How long a worker has to run for what it has. Its tasks take as long as they usually do, or longer. So much
/// work never waits that the product would not fit, centuries of it; checking costs a third of the search.
fn waiting_ns(mean_ns: u64, usual_ns: u64, load: u32) -> u64 {
    mean_ns.max(usual_ns).wrapping_mul(u64::from(load))
}

/// The mean over those of which it is known.
fn usual_ns(means: &[u64]) -> Option<u64> {
    let known = means.iter().filter(|mean| **mean != 0);
    let sum: u128 = known.clone().map(|mean| u128::from(*mean)).sum();
    sum.checked_div(known.count() as u128).and_then(|mean| u64::try_from(mean).ok())
}

impl Choose for FairShare {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reads(&self) -> Columns {
        Columns::RUN_TIME.with(Columns::LOAD)
    }

    fn choose(&mut self, workers: &Views, task: &TaskView, now: Moment) -> Option<Choice> {
        self.prepare(workers, now);
        let (totals, tallies) = (workers.run_total_ns(), self.tallies.notes());
        let usual_ns = self.usual_ns.unwrap_or(task.expected_ns).max(1);
        let waiting = |places: Range<usize>| {
            let columns = workers.run_mean_ns()[places.clone()].iter().zip(&workers.load()[places]);
            columns.map(|(mean_ns, load)| waiting_ns(*mean_ns, usual_ns, *load))
        };
        let look = |search: &mut Smallest<'_, u64>, places| {
            let (noted, others) = split(places, tallies.len());
            let tallies = tallies.get(noted.clone()).unwrap_or_default().iter();
            let had = tallies.zip(&totals[noted.clone()]).map(|(tally, total)| tally.had_by(*total));
            let work = waiting(noted.clone()).zip(had).map(|(waits, had)| waits.wrapping_add(had));
            search.look_and_add(noted, work);
            // Workers beyond the tallies were not announced: only what waits for them is known.
            search.look(others.clone(), waiting(others));
        };
        let start = super::within(self.next, workers.len());
        let basis = Basis { revision: self.tallies.revision(), usual_ns };
        let found = self.blocks.find(workers, start, basis, look)?;
        self.next = found.at + 1;
        let (least, everybody) = (u128::from(found.key.min(WORK_MAX)), u128::from(found.sum));
        let share = (least * 10_000).checked_div(everybody).unwrap_or(0);
        let reason = Reason::SmallestShare { share: share.min(10_000) as u16 };
        Some(Choice { at: found.at, worker: workers.ids()[found.at], reason })
    }

    fn worker_added(&mut self, _worker: &WorkerView, _now: Moment) {
        self.tallies.expect_one();
        self.blocks.expect_one();
    }

    fn worker_removed(&mut self, worker: u32) {
        self.tallies.forget(worker);
        self.blocks.forget_one();
    }

    fn reset(&mut self) {
        self.next = 0;
        self.tallies.clear();
        self.blocks.clear();
        self.tallied = Moment::ZERO;
        self.usual_ns = None;
        self.choices_since_known = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::WorkerState;

    #[test]
    fn a_half_life_that_cannot_work_is_refused_with_what_is_allowed() {
        let day = Duration::from_secs(86_400);
        let too_long = day + Duration::from_nanos(1);
        for bad in [Duration::ZERO, Duration::from_micros(999), too_long, Duration::MAX] {
            assert_eq!(FairShare::with_half_life(bad).expect_err("refused").expected, "1 ms to 1 day");
        }
        for good in [Duration::from_millis(1), day] {
            assert_eq!(FairShare::with_half_life(good).map(|strategy| strategy.half_life), Ok(good));
        }
        let error = FairShare::with_half_life(Duration::ZERO).expect_err("refused").to_string();
        assert_eq!(error, "fair_share.half_life: expected 1 ms to 1 day, got 0ns");
    }

    #[test]
    fn of_workers_that_were_not_announced_no_share_is_known() {
        let mut workers = Views::default();
        for id in 0..2 {
            let state = WorkerState::Busy;
            workers.push(WorkerView { id, state, running: 1, run_mean_ns: 1_000, ..WorkerView::default() });
        }
        let choice = FairShare::new().choose(&workers, &TaskView::default(), Moment::ZERO);
        let reason = choice.expect("both take tasks").reason;
        assert_eq!(reason, Reason::SmallestShare { share: 0 });
    }
}
