//! How much each worker can do: given by the user, or measured by how long its tasks take.
//!
//! A given weight wins. Without one, a worker whose tasks take half as long as the crew's weighs twice as
//! much. What is measured moves slowly (a half-life of one second), since a worker with lighter tasks for a
//! moment is not a faster worker, and stays between 1 and [`WEIGHT_MAX`], since one that weighed nothing
//! would never be measured again.
//!
//! Only the proportions of given weights count, so they may be any numbers; [`whole`] makes them small and
//! whole, and refuses what is none.

use crate::choose::Roster;
use crate::decay::Fading;
use crate::view::Views;
use crate::{BadSetting, Moment};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

/// The most a worker can weigh. A larger given weight counts as this.
pub const WEIGHT_MAX: u32 = 1_000;

/// What a worker weighs that is as fast as the crew on average, if no weights are given. Shares by weight are
/// exact only over as many rounds as workers weigh, so it is small; it is also the finest difference that can
/// be told, an eighth.
pub const WEIGHT_MEAN: u32 = 8;

/// Measured weights lose half of what they were in this time.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// Measured weights are kept so much finer than they are used, or small steps would be lost in rounding.
const FINE: u32 = 256;

/// Speed of a worker whose tasks take one nanosecond. For tasks of hours there are still a million steps to
/// one.
const SPEED_OF_ONE_NS: u64 = 1 << 63;

/// Measuring again sooner than this would change a weight by less than one per cent.
const MEASURE_EVERY: Duration = Duration::from_nanos(HALF_LIFE.as_nanos() as u64 / 64);

/// The weight of every worker, as measured and smoothed.
#[derive(Clone, Debug)]
pub struct Weights {
    /// What each weighs by measurement, times [`FINE`]; 0 if it is new. Wider than it need be, so that there is one
    /// kind of roster less in the program.
    measured: Roster<u64>,
    /// What a worker weighs that was not measured, times [`FINE`].
    usual: u32,
    measured_at: Moment,
}

impl Default for Weights {
    fn default() -> Self {
        Self::new()
    }
}

impl Weights {
    /// Nobody is measured yet.
    pub const fn new() -> Self {
        Self { measured: Roster::new(), usual: WEIGHT_MEAN * FINE, measured_at: Moment::ZERO }
    }

    /// What the worker at `at` weighs: 1 to [`WEIGHT_MAX`]. Panics beyond the end of the picture.
    pub fn of(&self, workers: &Views, at: usize) -> u32 {
        match workers.weights()[at] {
            0 => {
                let fine = self.measured.note(at, workers.ids()[at]).map_or(self.usual, |fine| *fine as u32);
                ((fine + FINE / 2) / FINE).clamp(1, WEIGHT_MAX)
            }
            given => given.min(WEIGHT_MAX),
        }
    }

    /// Measures everybody again, if that is due or somebody has come or gone. Goes through all workers, so it
    /// is done once a round and not for every task.
    pub fn measure(&mut self, workers: &Views, now: Moment) {
        let has_changed = self.measured.align(workers, 0);
        if !has_changed && now.since(self.measured_at) < MEASURE_EVERY {
            return;
        }
        let crew = Crew::of(workers);
        self.usual = crew.usual;
        let fading = Fading::over(now.since(self.measured_at), HALF_LIFE);
        self.measured_at = now;
        for (weight, mean_ns) in self.measured.notes_mut().iter_mut().zip(workers.run_mean_ns()) {
            let now_is = crew.weight(*mean_ns).into();
            *weight = match *weight {
                0 => now_is,
                was => nearer(was, now_is, fading),
            };
        }
    }

    /// A worker has come.
    pub fn worker_added(&mut self) {
        self.measured.expect_one();
    }

    /// The worker with this number has gone.
    pub fn worker_removed(&mut self, worker: u32) {
        self.measured.forget(worker);
    }

    /// Forgets what was measured.
    pub fn reset(&mut self) {
        self.measured.clear();
        self.usual = WEIGHT_MEAN * FINE;
        self.measured_at = Moment::ZERO;
    }
}

/// What the crew does on average.
struct Crew {
    /// What an average worker weighs, times [`FINE`]: as much as those that were given a weight, if any were.
    usual: u32,
    /// How long a task takes at an average worker, times `usual`. 0 if nobody was measured.
    usual_run_ns: u64,
}

impl Crew {
    fn of(workers: &Views) -> Self {
        let (mut speeds, mut measured, mut weights, mut given) = (0_u128, 0_u64, 0_u64, 0_u64);
        for (mean_ns, weight) in workers.run_mean_ns().iter().zip(workers.weights()) {
            // The mean of speeds and not of run times: one slow worker does not make all others heavy.
            speeds += u128::from(SPEED_OF_ONE_NS.checked_div(*mean_ns).unwrap_or(0));
            measured += u64::from(*mean_ns != 0);
            weights += u64::from((*weight).min(WEIGHT_MAX));
            given += u64::from(*weight != 0);
        }
        let usual =
            (weights * u64::from(FINE)).checked_div(given).map_or(WEIGHT_MEAN * FINE, |mean| mean as u32);
        let run_ns = u128::from(SPEED_OF_ONE_NS) * u128::from(measured) * u128::from(usual) / speeds.max(1);
        Self { usual, usual_run_ns: u64::try_from(run_ns).unwrap_or(u64::MAX) }
    }

    /// What a worker weighs whose tasks take so long, times [`FINE`].
    fn weight(&self, mean_ns: u64) -> u32 {
        let relative = self.usual_run_ns.checked_div(mean_ns).unwrap_or(u64::from(self.usual));
        u32::try_from(relative).unwrap_or(u32::MAX).clamp(FINE, WEIGHT_MAX * FINE)
    }
}

/// From `was` towards `is`, as far as `fading` has made `was` fade.
fn nearer(was: u64, is: u64, fading: Fading) -> u64 {
    let left = fading.of(was.abs_diff(is));
    if was > is { is + left } else { is - left }
}

/// Small whole weights in the proportions of the given ones, each within 1 per cent of its share if that can
/// be done with weights up to [`WEIGHT_MAX`], and else as near as can be: `[0.5, 1.0, 1.5]` becomes `[1, 2,
/// 3]`.
///
/// # Errors
///
/// A weight that is no positive number, or [`WEIGHT_MAX`] times as large as another, or more.
pub fn whole(weights: &[f64]) -> Result<Vec<u32>, BadSetting> {
    let bad = |expected, got| Err(BadSetting { setting: "weights", expected, got });
    if let Some((at, weight)) = weights.iter().enumerate().find(|(_, weight)| !is_weight(**weight)) {
        let expected = "positive numbers (above 0, neither infinite nor NaN)".to_string();
        return bad(expected, format!("{weight} for worker {at}"));
    }
    let smallest = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest / smallest > f64::from(WEIGHT_MAX) {
        let expected = format!("no weight more than {WEIGHT_MAX} times as large as another");
        return bad(expected, format!("{smallest} and {largest}"));
    }
    let mut nearest = (f64::INFINITY, 1);
    // The smallest weight is tried as 1, 2, 3 and so on, since short rounds are better than long ones.
    for unit in 1..=WEIGHT_MAX {
        if scaled(largest, smallest, unit) > f64::from(WEIGHT_MAX) + 0.5 {
            break;
        }
        let off = weights.iter().map(|weight| off_by(scaled(*weight, smallest, unit))).fold(0.0, f64::max);
        if off < nearest.0 {
            nearest = (off, unit);
        }
        if off <= 0.01 {
            break;
        }
    }
    Ok(weights.iter().map(|weight| rounded(scaled(*weight, smallest, nearest.1))).collect())
}

/// What a weight becomes if the smallest becomes `unit`. The quotient comes first: it is bounded, while
/// `unit` over a tiny weight would be infinite.
fn scaled(weight: f64, smallest: f64, unit: u32) -> f64 {
    weight / smallest * f64::from(unit)
}

fn is_weight(weight: f64) -> bool {
    weight.is_finite() && weight > 0.0
}

/// To the nearest whole number; `f64::round` needs the standard library.
fn rounded(weight: f64) -> u32 {
    (weight + 0.5) as u32
}

/// By which share of itself a number is off when rounded.
fn off_by(weight: f64) -> f64 {
    (f64::from(rounded(weight)) - weight).abs() / weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{WorkerState, WorkerView};

    fn crew(means_ns: &[u64], given: &[u32]) -> Views {
        let mut views = Views::default();
        for (id, run_mean_ns) in means_ns.iter().copied().enumerate() {
            let weight = given.get(id).copied().unwrap_or(0);
            let state = WorkerState::Ready;
            views.push(WorkerView { id: id as u32, state, run_mean_ns, weight, ..WorkerView::default() });
        }
        views
    }

    fn measured(workers: &Views) -> Weights {
        let mut weights = Weights::new();
        (0..workers.len()).for_each(|_| weights.worker_added());
        weights.measure(workers, Moment::ZERO);
        weights
    }

    fn all(weights: &Weights, workers: &Views) -> Vec<u32> {
        (0..workers.len()).map(|at| weights.of(workers, at)).collect()
    }

    #[test]
    fn who_is_twice_as_fast_weighs_twice_as_much_whatever_the_unit() {
        for ns in [1, 1_000, 1_000_000_000, 3_600_000_000_000] {
            // Speeds 1, 1/2 and 1/4 have the mean 7/12, which weighs 8.
            let workers = crew(&[2 * ns, 4 * ns, 8 * ns], &[]);
            assert_eq!(all(&measured(&workers), &workers), [14, 7, 3], "{ns} ns");
        }
    }

    #[test]
    fn a_given_weight_wins_and_the_others_are_relative_to_it() {
        let workers = crew(&[1_000, 1_000, 0, 500], &[6, 2, 0, 0]);
        // Mean speed 4/3 of 1/1000, mean weight 4: a worker with twice the speed of the first weighs 6.
        assert_eq!(all(&measured(&workers), &workers), [6, 2, 4, 6]);
        let workers = crew(&[1], &[u32::MAX]);
        assert_eq!(all(&measured(&workers), &workers), [WEIGHT_MAX]);
    }

    #[test]
    fn weights_stay_within_bounds_for_any_run_times() {
        let mut means = alloc::vec![u64::MAX; 1_000];
        means[0] = 1;
        let workers = crew(&means, &[]);
        let weights = all(&measured(&workers), &workers);
        assert_eq!((weights[0], weights[999]), (WEIGHT_MAX, 1));
        let day_ns = 24 * 3_600_000_000_000;
        let workers = crew(&[day_ns, day_ns, 0], &[]);
        assert_eq!(all(&measured(&workers), &workers), [WEIGHT_MEAN; 3], "slow, and alike");
    }

    #[test]
    fn a_changed_speed_is_believed_by_half_after_a_half_life() {
        let mut workers = crew(&[1_000, 1_000], &[]);
        let mut weights = measured(&workers);
        workers.set_run_time(0, 0, 3_000);
        let mut after = |lives: u64| {
            weights.measure(&workers, Moment::from_nanos(lives * HALF_LIFE.as_nanos() as u64));
            all(&weights, &workers)
        };
        // Speeds 1/3 and 1: from 8 and 8 on the way to 4 and 12.
        assert_eq!(after(0), [8, 8]);
        assert_eq!(after(1), [6, 10]);
        assert_eq!(after(2), [5, 11]);
        assert_eq!(after(40), [4, 12]);
    }

    #[test]
    fn a_worker_that_moved_or_was_not_announced_has_the_usual_weight_until_it_is_measured() {
        let workers = crew(&[1_000, 3_000], &[]);
        let weights = measured(&workers);
        assert_eq!(all(&weights, &workers), [12, 4]);
        let mut moved = Views::default();
        (0..2).rev().for_each(|at| moved.push(workers.row(at)));
        assert_eq!(all(&weights, &moved), [WEIGHT_MEAN; 2]);
        assert_eq!(all(&Weights::new(), &workers), [WEIGHT_MEAN; 2]);
    }

    #[test]
    fn any_proportions_become_small_whole_weights() {
        let cases: [(&[f64], &[u32]); 9] = [
            (&[], &[]),
            (&[0.25], &[1]),
            (&[0.5, 1.0, 1.5], &[1, 2, 3]),
            (&[2e300, 4e300, 6e300], &[1, 2, 3]),
            (&[1.0, 1.004], &[1, 1]),
            (&[0.1, 0.2, 0.35], &[2, 4, 7]),
            (&[1.0, core::f64::consts::PI], &[6, 19]),
            (&[1.0, 1_000.0], &[1, 1_000]),
            (&[1e-320, 3e-320], &[1, 3]),
        ];
        for (given, expected) in cases {
            assert_eq!(whole(given).as_deref(), Ok(expected), "{given:?}");
        }
    }

    #[test]
    fn what_is_no_weight_is_refused_with_what_is_allowed() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.5] {
            let error = whole(&[1.0, bad]).expect_err("refused");
            let expected = "weights: expected positive numbers (above 0, neither infinite nor NaN), got ";
            assert_eq!(error.to_string(), format!("{expected}{bad} for worker 1"));
        }
        let error = whole(&[1.0, 1_001.0]).expect_err("refused").to_string();
        assert_eq!(
            error,
            "weights: expected no weight more than 1000 times as large as another, got 1 and 1001"
        );
    }
}
