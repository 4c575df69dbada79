//! When the scaling policy looks at the crew, and what it is shown.
//!
//! It looks at its own interval, beginning one interval after the start, and its word is done at once: a new worker is
//! there in no time, one that is to go ends its task first.
//!
//! Not here: how workers come and go (`crew.rs`), what the policy decides.

use crate::crew::Crew;
use crate::outcome::ScaleSteps;
use crate::tasks::Queue;
use crate::watch::Watch;
use millpond_policy::scale::{Decision, Load, ScaleSettings, Scaler};
use millpond_policy::{BadSetting, Moment};
use std::time::Duration;

/// The policy at work.
#[derive(Debug)]
pub(crate) struct Scaling {
    settings: ScaleSettings,
    scaler: Scaler,
    next_look_ns: u64,
    steps: ScaleSteps,
}

impl Scaling {
    pub(crate) fn new(settings: ScaleSettings) -> Result<Self, BadSetting> {
        let scaler = Scaler::new(settings)?;
        let next_look_ns = settings.interval.as_nanos() as u64;
        Ok(Self { settings, scaler, next_look_ns, steps: ScaleSteps::default() })
    }

    pub(crate) fn workers_max(&self) -> usize {
        self.settings.workers_max as usize
    }

    pub(crate) fn next_look_ns(&self) -> u64 {
        self.next_look_ns
    }

    pub(crate) fn steps(&self) -> ScaleSteps {
        self.steps
    }

    /// Looks, and gives how many workers there should be.
    pub(crate) fn look(
        &mut self,
        crew: &Crew,
        shared: &Queue,
        arrivals_total: u64,
        now_ns: u64,
        watch: &mut dyn Watch,
    ) -> usize {
        let now = Moment::from_nanos(now_ns);
        let oldest_ns = crew.oldest_waiting_ns(shared).unwrap_or(now_ns);
        let idle_long = self.settings.scale_down_idle;
        let load = Load {
            oldest_wait: Duration::from_nanos(now_ns - oldest_ns),
            arrivals_total,
            ..Load::from_views(crew.views(), shared.len().into(), idle_long, now)
        };
        let decision = self.scaler.decide(&load, now);
        watch.scaling_looked(now, &load, &decision);
        self.next_look_ns = now_ns.saturating_add(self.settings.interval.as_nanos() as u64);
        let wanted = match decision {
            Decision::Stay(_) => load.workers,
            Decision::Up { to, .. } => {
                self.steps.ups += 1;
                to
            }
            Decision::Down { to, .. } => {
                self.steps.downs += 1;
                to
            }
        };
        self.steps.peak = self.steps.peak.max(wanted.max(load.workers) as usize);
        wanted as usize
    }
}
