//! More workers, or fewer: decided from samples of the load, a few seconds apart.
//!
//! More, when the tasks running and waiting are `scale_up_threshold` a worker or more for some samples in a
//! row, when a task has waited too long, or when the trend of arrivals says that more will be needed soon.
//! Fewer, when the load is at or below a lower threshold, nothing waits, and workers have been idle for long;
//! and never so few that the next sample would ask for more. One cooldown holds for both directions, so the
//! number of workers cannot swing. A number outside of `workers_min` to `workers_max` is put right at once,
//! whatever the cooldown.
//!
//! Not here: starting and stopping. The pool adds workers, or asks so many to retire; each retires itself
//! when it finds nothing to do, so that no task is given to one that is about to go.

mod reason;
mod settings;
mod trend;

pub use reason::{Reason, ScaleEvent};
pub use settings::{Predict, ScaleSettings};

use crate::view::{Views, WorkerState};
use crate::{BadSetting, Moment};
use core::time::Duration;
use settings::Thresholds;
use trend::Trend;

/// A sample of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Workers there are, with those that start and without those that are to go.
    pub workers: u32,
    /// Tasks that wait, wherever they do.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
    /// Workers that have had nothing to do for `scale_down_idle` or longer. One that never had a task counts
    /// from its start.
    pub idle_long: u32,
    /// How long the task that has waited longest has waited.
    pub oldest_wait: Duration,
    /// Tasks that have come since the pool began. Read only to predict.
    pub arrivals_total: u64,
    /// How long tasks run, in nanoseconds; 0 while that is not known. Read only to predict.
    pub run_mean_ns: u64,
}

impl Load {
    /// What a picture of the workers says of the load, with tasks that wait for nobody in particular. It does
    /// not know of arrivals and of the longest wait.
    pub fn from_views(workers: &Views, waiting: u64, scale_down_idle: Duration, now: Moment) -> Self {
        let mut load = Self { waiting, ..Self::default() };
        let (mut timed, mut mean_sum_ns) = (0_u64, 0_u64);
        for worker in workers.rows() {
            load.waiting = load.waiting.saturating_add(worker.queued.into());
            load.running += u64::from(worker.running);
            if matches!(worker.state, WorkerState::Terminating | WorkerState::Terminated) {
                continue;
            }
            load.workers += 1;
            let is_idle = worker.state == WorkerState::Ready && worker.running == 0 && worker.queued == 0;
            let is_long = now.since(worker.idle_since) >= scale_down_idle;
            load.idle_long += u32::from(is_idle && is_long);
            timed += u64::from(worker.run_mean_ns > 0);
            mean_sum_ns = mean_sum_ns.saturating_add(worker.run_mean_ns);
        }
        load.run_mean_ns = mean_sum_ns.checked_div(timed).unwrap_or(0);
        load
    }

    fn tasks(&self) -> u64 {
        self.waiting.saturating_add(self.running)
    }
}

/// What to do about the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Stay(Reason),
    /// Start some.
    Up {
        /// So many.
        by: u32,
        /// Then there are so many.
        to: u32,
        /// Why.
        reason: Reason,
    },
    /// Let some retire.
    Down {
        /// So many.
        by: u32,
        /// Then there are so many.
        to: u32,
        /// Why.
        reason: Reason,
    },
}

impl Decision {
    /// Why.
    pub const fn reason(&self) -> Reason {
        match *self {
            Self::Stay(reason) | Self::Up { reason, .. } | Self::Down { reason, .. } => reason,
        }
    }

    /// What a pool that carries it out should publish; nothing if nothing changes.
    pub const fn event(&self, at: Moment) -> Option<ScaleEvent> {
        match *self {
            Self::Stay(_) => None,
            Self::Up { by, to, reason } => Some(ScaleEvent { at, from: to - by, to, reason }),
            Self::Down { by, to, reason } => Some(ScaleEvent { at, from: to + by, to, reason }),
        }
    }
}

/// Decides how many workers there should be, sample by sample.
#[derive(Clone, Debug)]
pub struct Scaler {
    settings: ScaleSettings,
    thresholds: Thresholds,
    /// When the load last changed the number; none if it never did. A clock may begin at 0, so 0 is not
    /// never.
    last_change: Option<Moment>,
    /// Samples in a row that asked for more.
    pressing: u32,
    trend: Trend,
}

impl Scaler {
    /// One that has seen nothing yet.
    pub fn new(settings: ScaleSettings) -> Result<Self, BadSetting> {
        settings.checked().map(|thresholds| Self::with(settings, thresholds))
    }

    /// The same without words; none if the settings cannot work. See [`set_silently`](Self::set_silently).
    pub fn new_silently(settings: ScaleSettings) -> Option<Self> {
        settings.checked::<()>().ok().map(|thresholds| Self::with(settings, thresholds))
    }

    fn with(settings: ScaleSettings, thresholds: Thresholds) -> Self {
        Self { settings, thresholds, last_change: None, pressing: 0, trend: Trend::default() }
    }

    /// Changes the settings and keeps what it has seen.
    pub fn set(&mut self, settings: ScaleSettings) -> Result<(), BadSetting> {
        self.thresholds = settings.checked()?;
        self.settings = settings;
        Ok(())
    }

    /// The same without words, for programs that have their own and must be small; false if they cannot work.
    pub fn set_silently(&mut self, settings: ScaleSettings) -> bool {
        let Ok(thresholds) = settings.checked::<()>() else { return false };
        (self.thresholds, self.settings) = (thresholds, settings);
        true
    }

    /// Its settings.
    pub const fn settings(&self) -> &ScaleSettings {
        &self.settings
    }

    /// What to do after this sample. Whoever asks does it, or the next decision rests on what is not so.
    pub fn decide(&mut self, load: &Load, now: Moment) -> Decision {
        let forecast = self.forecast(load, now);
        let (least, most) = (self.settings.workers_min, self.settings.workers_max);
        if load.workers < least {
            return Decision::Up { by: least - load.workers, to: least, reason: Reason::BelowMin { least } };
        }
        if load.workers > most {
            return Decision::Down { by: load.workers - most, to: most, reason: Reason::AboveMax { most } };
        }
        let asks = self.asks_for_more(load, forecast);
        self.pressing = if asks.is_some() { self.pressing.saturating_add(1) } else { 0 };
        let waited = self.waits_too_long(load);
        match (waited, asks) {
            (Some(reason), _) => self.up(load, reason, now),
            (None, Some(reason)) if self.pressing >= self.settings.samples => self.up(load, reason, now),
            (None, Some(_)) => {
                Decision::Stay(Reason::TooFewSamples { seen: self.pressing, wanted: self.settings.samples })
            }
            (None, None) => self.down(load, forecast, now),
        }
    }

    /// How many workers the trend of arrivals will need; 0 without a forecast.
    fn forecast(&mut self, load: &Load, now: Moment) -> u32 {
        let Some(predict) = &self.settings.predict else { return 0 };
        self.trend.observe(load.arrivals_total, now, predict.half_life);
        self.trend.workers_needed(predict.horizon, load.run_mean_ns, self.thresholds.utilisation)
    }

    fn asks_for_more(&self, load: &Load, forecast: u32) -> Option<Reason> {
        if self.thresholds.is_reached(load.tasks(), load.workers) {
            let (load, threshold) = (Thresholds::ratio(load.tasks(), load.workers), self.thresholds.up);
            return Some(Reason::Load { load, threshold });
        }
        let horizon = self.settings.predict.map_or(Duration::ZERO, |predict| predict.horizon);
        (forecast > load.workers).then_some(Reason::Forecast { needed: forecast, horizon })
    }

    fn waits_too_long(&self, load: &Load) -> Option<Reason> {
        let limit = self.settings.wait_max.filter(|&limit| load.waiting > 0 && load.oldest_wait > limit)?;
        Some(Reason::OldestWait { waited: load.oldest_wait, limit })
    }

    fn up(&mut self, load: &Load, reason: Reason, now: Moment) -> Decision {
        let room = self.settings.workers_max - load.workers;
        if room == 0 {
            return Decision::Stay(Reason::AtMax { most: self.settings.workers_max });
        }
        if let Some(cooldown) = self.cools_down(now) {
            return Decision::Stay(cooldown);
        }
        let wanted = match reason {
            Reason::Forecast { needed, .. } => needed - load.workers,
            _ => room,
        };
        let by = self.settings.step_up.min(room).min(wanted);
        self.changed(now);
        Decision::Up { by, to: load.workers + by, reason }
    }

    fn down(&mut self, load: &Load, forecast: u32, now: Moment) -> Decision {
        let ratio = Thresholds::ratio(load.tasks(), load.workers);
        let threshold = self.thresholds.down;
        if ratio > threshold || load.waiting > 0 {
            return Decision::Stay(Reason::Steady { load: ratio });
        }
        if load.workers == self.settings.workers_min {
            return Decision::Stay(Reason::AtMin { least: self.settings.workers_min });
        }
        if load.idle_long == 0 {
            return Decision::Stay(Reason::NobodyIdle { idle: self.settings.scale_down_idle });
        }
        let floor = forecast.max(self.thresholds.fewest(load.tasks())).max(self.settings.workers_min);
        let by = self.settings.step_down.min(load.idle_long).min(load.workers.saturating_sub(floor));
        if by == 0 {
            return Decision::Stay(Reason::Needed { workers: floor });
        }
        if let Some(cooldown) = self.cools_down(now) {
            return Decision::Stay(cooldown);
        }
        self.changed(now);
        let reason = Reason::Idle { workers: load.idle_long, load: ratio, threshold };
        Decision::Down { by, to: load.workers - by, reason }
    }

    fn cools_down(&self, now: Moment) -> Option<Reason> {
        let ago = now.since(self.last_change?);
        let left = self.settings.cooldown.saturating_sub(ago);
        (!left.is_zero()).then_some(Reason::Cooldown { left })
    }

    fn changed(&mut self, now: Moment) {
        self.last_change = Some(now);
        self.pressing = 0;
    }
}
