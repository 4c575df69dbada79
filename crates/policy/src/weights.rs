//! How much each worker can do: given by the user, or measured by how long its tasks take.
//!
//! A given weight wins. Without one, a worker whose tasks take half as long as the crew's weighs twice as much. What is
//! measured moves slowly (a half-life of one second), since a worker with lighter tasks for a moment is not a faster
//! worker, and stays between 1 and [`WEIGHT_MAX`], since one that weighed nothing would never be measured again.
//!
//! Only the proportions of given weights count, so they may be any numbers; [`whole`] makes them small and whole, and
//! refuses what is none.

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

/// What a worker weighs that is as fast as the crew on average, if no weights are given. A round-robin by weights
/// gives a worker so many tasks in a row, so it is small; it is also the finest difference that can be told, an eighth.
pub const WEIGHT_MEAN: u32 = 8;

/// Measured weights lose half of what they were in this time.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// Measured weights are kept so much finer than they are used, or small steps would be lost in rounding.
const FINE: u32 = 256;

/// Speed of a worker whose tasks take one nanosecond. For tasks of hours there are still a million steps to one.
const SPEED_OF_ONE_NS: u64 = 1 << 63;

/// Measuring again sooner than this would change a weight by less than one per cent.
const MEASURE_EVERY: Duration = Duration::from_nanos(HALF_LIFE.as_nanos() as u64 / 64);

/// The weight of every worker, as measured and smoothed.
#[derive(Clone, Debug)]
pub struct Weights {
    /// What each weighs by measurement, times [`FINE`]; 0 if it is new.
    measured: Roster<u32>,
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
                let measured = self.measured.note(at, workers.ids()[at]).filter(|weight| **weight != 0);
                let weight = (measured.unwrap_or(&self.usual) + FINE / 2) / FINE;
                weight.clamp(1, WEIGHT_MAX)
            }
            given => given.min(WEIGHT_MAX),
        }
    }

    /// Measures everybody again, if that is due or somebody has come or gone. Goes through all workers, so it is done
    /// once a round and not for every task.
    pub fn measure(&mut self, workers: &Views, now: Moment) {
        let has_changed = self.measured.align(workers.ids(), 0);
        if !has_changed && now.since(self.measured_at) < MEASURE_EVERY {
            return;
        }
        let crew = Crew::of(workers);
        self.usual = crew.usual;
        let fading = Fading::over(now.since(self.measured_at), HALF_LIFE);
        self.measured_at = now;
        for (weight, mean_ns) in self.measured.notes_mut().iter_mut().zip(workers.run_mean_ns()) {
            let now_is = crew.weight(*mean_ns);
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
fn nearer(was: u32, is: u32, fading: Fading) -> u32 {
    let left = fading.of(u64::from(was.abs_diff(is))) as u32;
    if was > is { is + left } else { is - left }
}

/// Small whole weights in the proportions of the given ones, each within 1 per cent of its share if that can be done
/// with weights up to [`WEIGHT_MAX`], and else as near as can be: `[0.5, 1.0, 1.5]` becomes `[1, 2, 3]`.
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
        let scale = f64::from(unit) / smallest;
        if largest * scale > f64::from(WEIGHT_MAX) + 0.5 {
            break;
        }
        let off = weights.iter().map(|weight| off_by(weight * scale)).fold(0.0, f64::max);
        if off < nearest.0 {
            nearest = (off, unit);
        }
        if off <= 0.01 {
            break;
        }
    }
    let scale = f64::from(nearest.1) / smallest;
    Ok(weights.iter().map(|weight| rounded(weight * scale)).collect())
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
