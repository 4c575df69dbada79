//! What to simulate, and whether it can be: every setting has bounds, and an error says which.
//!
//! The load is the share of its time a crew would be busy: mean arrivals × mean service / workers, with the speeds of
//! the workers counted. From it follows the mean gap between arrivals. A crew that is scaled is loaded as if it kept
//! the number of workers it began with.
//!
//! Not here: whether a strategy of that name exists (`strategy.rs`).

use crate::arrivals::Arrivals;
use crate::service::Service;
use millpond_policy::BadSetting;
use millpond_policy::scale::ScaleSettings;
use millpond_policy::steal::StealSettings;
use std::time::Duration;

/// The most workers a run may have.
pub const WORKERS_MAX: u32 = 10_000;
/// The most tasks a run may have.
pub const TASKS_MAX: u64 = 10_000_000;
/// The highest load. From 1 on more comes than can be done, and the wait grows for as long as tasks come.
pub const LOAD_MAX: f64 = 10.0;

const SERVICE_MEAN_MIN: Duration = Duration::from_micros(1);
const SERVICE_MEAN_MAX: Duration = Duration::from_secs(3600);
const SPEED_MIN: f64 = 0.01;
const SPEED_MAX: f64 = 100.0;
/// The longest time a run may simulate by its settings, in nanoseconds: a hundred years. There is room for five times
/// as much, for runs that take longer than their settings let expect.
const SPAN_NS_MAX: f64 = 3.15e18;
/// The scaling policy looks at the crew at most so often in a run.
const LOOKS_MAX: f64 = 1e7;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Workers at the beginning: 1 to 10 000. Default 16.
    pub workers: u32,
    /// Tasks that arrive: 1 to 10 000 000. Default 200 000. Of a trace, at most as many as it has.
    pub tasks: u64,
    /// Mean arrivals × mean service / workers: more than 0 and at most 10. Default 0.9. A trace has its own.
    pub load: f64,
    /// When tasks come. Default: Poisson.
    pub arrivals: Arrivals,
    /// How long they run, unless a trace says so. Default: exponential.
    pub service: Service,
    /// How long they run on average on a worker of speed 1: 1 µs to 1 hour. Default 1 ms.
    pub service_mean: Duration,
    /// How fast the workers are: the speeds go round over them, each from 0.01 to 100. Default: none given, which is
    /// 1 for all.
    pub speeds: Vec<f64>,
    /// Who gets a task: a name of [`strategies`](crate::strategies). Default: `shared`.
    pub strategy: String,
    /// Whether idle workers rob others, and how. Default: they do not.
    pub stealing: Option<StealSettings>,
    /// Whether workers come and go with the load, and how. Default: they do not.
    pub scaling: Option<ScaleSettings>,
    /// The same seed gives the same run. Default 0.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            workers: 16,
            tasks: 200_000,
            load: 0.9,
            arrivals: Arrivals::default(),
            service: Service::default(),
            service_mean: Duration::from_millis(1),
            speeds: Vec::new(),
            strategy: "shared".to_owned(),
            stealing: None,
            scaling: None,
            seed: 0,
        }
    }
}

impl Scenario {
    /// Whether everything is within its bounds. The error names the setting and what is allowed.
    pub fn check(&self) -> Result<(), BadSetting> {
        within("workers", self.workers, 1, WORKERS_MAX)?;
        within("tasks", self.tasks, 1, TASKS_MAX)?;
        let is_mean = (SERVICE_MEAN_MIN..=SERVICE_MEAN_MAX).contains(&self.service_mean);
        if !is_mean {
            return Err(bad("service_mean", "1µs to 1 hour", format!("{:?}", self.service_mean)));
        }
        if !(self.load > 0.0 && self.load <= LOAD_MAX) {
            let expected = format!("more than 0 and at most {LOAD_MAX}; 0.9 is a busy crew");
            return Err(bad("load", expected, self.load));
        }
        for speed in &self.speeds {
            if !(SPEED_MIN..=SPEED_MAX).contains(speed) {
                return Err(bad("speeds", format!("{SPEED_MIN} to {SPEED_MAX} for each worker"), speed));
            }
        }
        if self.speeds.len() > self.workers as usize {
            let got = format!("{} speeds", self.speeds.len());
            return Err(bad("speeds", format!("at most one for each of {} workers", self.workers), got));
        }
        self.check_arrivals()?;
        if let Some(stealing) = &self.stealing {
            stealing.check()?;
        }
        self.check_scaling()?;
        let span_ns = self.span_ns();
        if span_ns > SPAN_NS_MAX {
            let years = format!("about {:.0} years", span_ns / (SPAN_NS_MAX / 100.0));
            return Err(bad("tasks", "a run of at most 100 simulated years", years));
        }
        Ok(())
    }

    /// The mean gap between two arrivals in nanoseconds, as it follows from the load.
    pub(crate) fn gap_ns(&self) -> f64 {
        self.service_mean.as_nanos() as f64 / (self.speed_sum() * self.load)
    }

    /// For how long tasks arrive, about.
    pub fn arrival_span(&self) -> Duration {
        let span_ns = match &self.arrivals {
            Arrivals::Trace(trace) => trace.offset_ns(trace.len() - 1),
            _ => (self.tasks as f64 * self.gap_ns()) as u64,
        };
        Duration::from_nanos(span_ns)
    }

    /// For how long tasks arrive or run, about, in nanoseconds.
    fn span_ns(&self) -> f64 {
        match &self.arrivals {
            Arrivals::Trace(trace) => {
                let mean_ns =
                    trace.service_mean_ns(trace.len()).unwrap_or(self.service_mean.as_nanos() as f64);
                let work_ns = mean_ns * trace.len() as f64 / self.speed_sum();
                trace.offset_ns(trace.len() - 1) as f64 + work_ns
            }
            _ => self.tasks as f64 * self.gap_ns() * self.load.max(1.0),
        }
    }

    fn speed_sum(&self) -> f64 {
        match self.speeds.len() {
            0 => f64::from(self.workers),
            _ => self.speeds.iter().cycle().take(self.workers as usize).sum(),
        }
    }

    /// The load the first tasks of a trace make, or the load that was asked for.
    pub fn load_offered(&self) -> f64 {
        let Arrivals::Trace(trace) = &self.arrivals else { return self.load };
        let tasks = (self.tasks as usize).min(trace.len());
        let mean_ns = trace.service_mean_ns(tasks).unwrap_or(self.service_mean.as_nanos() as f64);
        let span_ns = trace.offset_ns(tasks - 1).saturating_sub(trace.offset_ns(0)).max(1);
        mean_ns * tasks as f64 / (span_ns as f64 * self.speed_sum())
    }

    fn check_arrivals(&self) -> Result<(), BadSetting> {
        match &self.arrivals {
            Arrivals::Poisson | Arrivals::Even => Ok(()),
            Arrivals::Trace(trace) => within("tasks", self.tasks, 1, trace.len() as u64),
            Arrivals::Bursts { on, off } => {
                // Else most bursts would be empty, and a run would take for ever to find the others.
                let gap_ns = self.gap_ns();
                let share = on.as_nanos() as f64 / (on.as_nanos() + off.as_nanos()).max(1) as f64;
                let in_burst = on.as_nanos() as f64 / (gap_ns * share);
                if in_burst >= 1.0 && in_burst.is_finite() {
                    return Ok(());
                }
                let got = format!("bursts of {on:?} and pauses of {off:?}: {in_burst:.3} on average");
                Err(bad("bursts", "long enough for one arrival in each burst on average", got))
            }
            Arrivals::Diurnal { period, swing } => {
                if !(0.0..=1.0).contains(swing) {
                    return Err(bad("swing", "0 to 1", swing));
                }
                if period.is_zero() {
                    return Err(bad("period", "more than 0", format!("{period:?}")));
                }
                Ok(())
            }
        }
    }

    fn check_scaling(&self) -> Result<(), BadSetting> {
        let Some(scaling) = &self.scaling else { return Ok(()) };
        scaling.check()?;
        if scaling.workers_max > WORKERS_MAX {
            return Err(bad("scaling.workers_max", format!("at most {WORKERS_MAX}"), scaling.workers_max));
        }
        let looks = self.span_ns() / scaling.interval.as_nanos() as f64;
        if looks > LOOKS_MAX {
            let got = format!("{:?}, which is {looks:.0} looks in this run", scaling.interval);
            return Err(bad("scaling.interval", format!("at most {LOOKS_MAX:.0} looks in a run"), got));
        }
        Ok(())
    }
}

fn within<T: Copy + PartialOrd + ToString>(
    setting: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), BadSetting> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(bad(setting, format!("{} to {}", least.to_string(), most.to_string()), value))
}

fn bad(setting: &'static str, expected: impl Into<String>, got: impl ToString) -> BadSetting {
    BadSetting { setting, expected: expected.into(), got: got.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;
    use std::sync::Arc;

    fn refusal(scenario: Scenario) -> String {
        scenario.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_by_name_with_what_is_allowed() {
        let base = Scenario::default;
        assert!(base().check().is_ok());
        for (scenario, expected) in [
            (Scenario { workers: 0, ..base() }, "workers: expected 1 to 10000, got 0"),
            (Scenario { workers: 10_001, ..base() }, "workers: expected 1 to 10000, got 10001"),
            (Scenario { tasks: 0, ..base() }, "tasks: expected 1 to 10000000, got 0"),
            (
                Scenario { load: 0.0, ..base() },
                "load: expected more than 0 and at most 10; 0.9 is a busy crew, got 0",
            ),
            (
                Scenario { load: f64::NAN, ..base() },
                "load: expected more than 0 and at most 10; 0.9 is a busy crew, got NaN",
            ),
            (
                Scenario { service_mean: Duration::ZERO, ..base() },
                "service_mean: expected 1µs to 1 hour, got 0ns",
            ),
            (
                Scenario { speeds: vec![1.0, 0.0], ..base() },
                "speeds: expected 0.01 to 100 for each worker, got 0",
            ),
            (
                Scenario { workers: 1, speeds: vec![1.0, 1.0], ..base() },
                "speeds: expected at most one for each of 1 workers, got 2 speeds",
            ),
            (
                Scenario { load: 1e-9, ..base() },
                "tasks: expected a run of at most 100 simulated years, got about 397 years",
            ),
        ] {
            assert_eq!(refusal(scenario), expected);
        }
    }

    #[test]
    fn processes_that_would_never_deliver_are_refused() {
        let arrivals = |arrivals| refusal(Scenario { workers: 1, arrivals, ..Scenario::default() });
        let bursts = Arrivals::Bursts { on: Duration::from_micros(1), off: Duration::from_micros(2) };
        assert!(arrivals(bursts).starts_with("bursts: expected long enough for one arrival"));
        let none = Arrivals::Bursts { on: Duration::ZERO, off: Duration::ZERO };
        assert!(arrivals(none).starts_with("bursts: expected"));
        let swing = Arrivals::Diurnal { period: Duration::from_secs(1), swing: 1.5 };
        assert_eq!(arrivals(swing), "swing: expected 0 to 1, got 1.5");
        let period = Arrivals::Diurnal { period: Duration::ZERO, swing: 0.5 };
        assert_eq!(arrivals(period), "period: expected more than 0, got 0ns");
    }

    #[test]
    fn a_trace_has_the_load_it_makes() {
        let trace = Arc::new(Trace::read("day", "0,1\n1,1\n2,4\n".as_bytes()).unwrap());
        let arrivals = Arrivals::Trace(trace);
        let scenario = Scenario { workers: 2, tasks: 3, arrivals, ..Scenario::default() };
        assert!(scenario.check().is_ok());
        assert_eq!(scenario.load_offered(), 1.5);
        let more = Scenario { tasks: 4, ..scenario };
        assert_eq!(refusal(more), "tasks: expected 1 to 3, got 4");
    }
}
