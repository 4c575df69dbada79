//! When and how the number of workers may change, and whether that makes sense.
//!
//! Thresholds are written as fractions and compared as whole thousandths: converted once, here, so that no
//! decision hangs on how a machine rounds.

use crate::BadSetting;
use crate::setting::Complaint;
use core::time::Duration;

/// The highest threshold.
const THRESHOLD_MAX: f64 = 1_000_000.0;

/// When and how the number of workers changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleSettings {
    /// The fewest workers: 1 to `workers_max`. Default 1.
    pub workers_min: u32,
    /// The most workers: 1 or more. Default 8.
    pub workers_max: u32,
    /// Tasks running and waiting for each worker, from which on there should be more: 0.001 to 1000000.
    /// Default 2.
    pub scale_up_threshold: f64,
    /// Tasks running and waiting for each worker, up to which there may be fewer: from 0.001, and below
    /// `scale_up_threshold`. Default 0.5.
    pub scale_down_threshold: f64,
    /// For how long a worker must have had nothing to do before it may go. Default 30 s.
    pub scale_down_idle: Duration,
    /// Workers to add at once: 1 or more. Default 1.
    pub step_up: u32,
    /// Workers to let go at once: 1 or more. Default 1.
    pub step_down: u32,
    /// For how long the number stays after a change, in either direction. Default 5 s.
    pub cooldown: Duration,
    /// Samples in a row that must ask for more: 1 or more. Default 2.
    pub samples: u32,
    /// How long a task may wait before there should be more, whatever the load. Default: none, any time.
    pub wait_max: Option<Duration>,
    /// How to look ahead. Default: none, only the present counts.
    pub predict: Option<Predict>,
    /// How often the pool takes a sample: more than 0. Default 1 s.
    pub interval: Duration,
}

/// How to look ahead: so many workers will be needed as tasks will come in a second, if they go on as they
/// do, times how long a task runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predict {
    /// How far to look ahead: more than 0. About as long as a new worker takes to be of use, and a sample or
    /// two. Default 10 s.
    pub horizon: Duration,
    /// After how long a past rate of arrivals counts half as much as the present one: more than 0. Shorter
    /// follows a climb sooner, and chance too. Default 3 s.
    pub half_life: Duration,
    /// Which share of their time workers should be busy: 0.01 to 1. Default 0.8.
    pub utilisation: f64,
}

impl Default for ScaleSettings {
    fn default() -> Self {
        Self {
            workers_min: 1,
            workers_max: 8,
            scale_up_threshold: 2.0,
            scale_down_threshold: 0.5,
            scale_down_idle: Duration::from_secs(30),
            step_up: 1,
            step_down: 1,
            cooldown: Duration::from_secs(5),
            samples: 2,
            wait_max: None,
            predict: None,
            interval: Duration::from_secs(1),
        }
    }
}

impl Default for Predict {
    fn default() -> Self {
        Self { horizon: Duration::from_secs(10), half_life: Duration::from_secs(3), utilisation: 0.8 }
    }
}

/// The settings' fractions, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub(super) up: u64,
    pub(super) down: u64,
    /// 1000 if nothing is predicted.
    pub(super) utilisation: u64,
}

impl Thresholds {
    /// Tasks for each worker, in thousandths, rounded up: so a ratio at or below a threshold really is.
    pub(super) fn ratio(tasks: u64, workers: u32) -> u64 {
        tasks.saturating_mul(1000).div_ceil(u64::from(workers).max(1))
    }

    /// Whether so many tasks are too many for so many workers.
    pub(super) fn is_reached(&self, tasks: u64, workers: u32) -> bool {
        tasks.saturating_mul(1000) >= self.up.saturating_mul(workers.into())
    }

    /// The fewest workers for which so many tasks are not too many.
    pub(super) fn fewest(&self, tasks: u64) -> u32 {
        let most_below = tasks.saturating_mul(1000) / self.up;
        u32::try_from(most_below).unwrap_or(u32::MAX).saturating_add(1)
    }
}

impl ScaleSettings {
    /// Whether they can work.
    pub fn check(&self) -> Result<(), BadSetting> {
        self.checked::<BadSetting>().map(drop)
    }

    pub(super) fn checked<E: Complaint>(&self) -> Result<Thresholds, E> {
        at_least_one("scaling.workers_max", self.workers_max)?;
        if !(1..=self.workers_max).contains(&self.workers_min) {
            let (expected, got) = (format_args!("1 to workers_max ({})", self.workers_max), self.workers_min);
            return Err(E::about("scaling.workers_min", expected, format_args!("{got}")));
        }
        at_least_one("scaling.step_up", self.step_up)?;
        at_least_one("scaling.step_down", self.step_down)?;
        at_least_one("scaling.samples", self.samples)?;
        more_than_none("scaling.interval", self.interval)?;
        let up = fraction("scaling.scale_up_threshold", self.scale_up_threshold, 0.001, THRESHOLD_MAX)?;
        let down = fraction("scaling.scale_down_threshold", self.scale_down_threshold, 0.001, THRESHOLD_MAX)?;
        if down >= up {
            let expected = format_args!("less than scale_up_threshold ({})", self.scale_up_threshold);
            let got = format_args!("{}", self.scale_down_threshold);
            return Err(E::about("scaling.scale_down_threshold", expected, got));
        }
        let utilisation = self.predict.map_or(Ok(1000), |predict| predict.checked())?;
        Ok(Thresholds { up, down, utilisation })
    }
}

impl Predict {
    fn checked<E: Complaint>(&self) -> Result<u64, E> {
        more_than_none("scaling.predict.horizon", self.horizon)?;
        more_than_none("scaling.predict.half_life", self.half_life)?;
        fraction("scaling.predict.utilisation", self.utilisation, 0.01, 1.0)
    }
}

/// In thousandths.
fn fraction<E: Complaint>(setting: &'static str, value: f64, least: f64, most: f64) -> Result<u64, E> {
    // A NaN is in no range.
    if (least..=most).contains(&value) {
        Ok((value * 1000.0 + 0.5) as u64)
    } else {
        Err(E::about(setting, format_args!("a number from {least} to {most}"), format_args!("{value}")))
    }
}

fn at_least_one<E: Complaint>(setting: &'static str, value: u32) -> Result<(), E> {
    if value == 0 {
        Err(E::about(setting, format_args!("1 to {}", u32::MAX), format_args!("0")))
    } else {
        Ok(())
    }
}

fn more_than_none<E: Complaint>(setting: &'static str, value: Duration) -> Result<(), E> {
    if value.is_zero() {
        return Err(E::about(setting, format_args!("more than 0 s"), format_args!("0 s")));
    }
    Ok(())
}
