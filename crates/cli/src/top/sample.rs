//! The daemon's figures at one moment, and what two moments together say: rates and recent shares.
//!
//! The daemon counts from its start. What a person wants to know is what happens now, which is the difference
//! between two answers, divided by the time between them by the daemon's own clock.

use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};

/// How many rates are remembered, for the curve.
const RATES_MAX: usize = 240;

/// The daemon's figures, as far as they are shown.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Figures {
    pub(super) uptime_ms: u64,
    pub(super) is_draining: bool,
    pub(super) accepted: u64,
    pub(super) succeeded: u64,
    pub(super) failed: BTreeMap<String, u64>,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) retried: u64,
    pub(super) live: usize,
    pub(super) tasks_max: usize,
    pub(super) stages: BTreeMap<String, usize>,
    pub(super) results: Kept,
    pub(super) pool: PoolFigures,
    pub(super) handlers: BTreeMap<String, HandlerFigures>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Kept {
    pub(super) kept: usize,
    pub(super) bytes: u64,
    pub(super) dropped: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PoolFigures {
    pub(super) strategy: String,
    pub(super) queued: usize,
    pub(super) queue_capacity: usize,
    pub(super) workers: Vec<WorkerFigures>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct WorkerFigures {
    pub(super) worker: usize,
    pub(super) is_busy: bool,
    pub(super) completed: u64,
    pub(super) queued: usize,
    pub(super) utilisation: f64,
    pub(super) stolen: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct HandlerFigures {
    pub(super) accepted: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) waited: Times,
    pub(super) ran: Times,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Times {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// A task that runs.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Running {
    pub(super) task_id: serde_json::Value,
    pub(super) handler: String,
    pub(super) attempts: u32,
    #[serde(default)]
    pub(super) progress: Option<f64>,
    #[serde(default)]
    pub(super) ran_us: Option<u64>,
}

#[derive(Deserialize)]
struct Tasks {
    tasks: Vec<Running>,
}

/// All that is known at one moment.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) figures: Figures,
    pub(super) running: Vec<Running>,
}

impl Moment {
    /// Reads the two answers.
    pub(super) fn read(version: String, pid: u32, stats: &[u8], tasks: &[u8]) -> serde_json::Result<Self> {
        let Tasks { tasks: running } = serde_json::from_slice(tasks)?;
        Ok(Self { version, pid, figures: serde_json::from_slice(stats)?, running })
    }
}

/// The latest moment, the one before, and the rates until now.
#[derive(Clone, Debug)]
pub(super) struct Trend {
    pub(super) now: Moment,
    before: Option<Moment>,
    /// Tasks ended a second, oldest first.
    rates: VecDeque<u64>,
}

impl Trend {
    pub(super) fn new(now: Moment) -> Self {
        Self { now, before: None, rates: VecDeque::new() }
    }

    pub(super) fn add(&mut self, now: Moment) {
        self.before = Some(std::mem::replace(&mut self.now, now));
        if self.rates.len() == RATES_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(self.rate(ended).round() as u64);
    }

    /// The latest rates, oldest first.
    pub(super) fn rates(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.rates.iter().copied()
    }

    /// Tasks ended a second.
    pub(super) fn ended_rate(&self) -> f64 {
        self.rate(ended)
    }

    /// Tasks accepted a second.
    pub(super) fn accepted_rate(&self) -> f64 {
        self.rate(|figures| figures.accepted)
    }

    /// Tasks of this handler ended a second.
    pub(super) fn handler_rate(&self, name: &str) -> f64 {
        self.rate(|figures| figures.handlers.get(name).map_or(0, |of| of.succeeded + of.failed))
    }

    /// Which share of the time between the two moments a worker was busy, as far as can be told.
    pub(super) fn busy(&self, worker: usize) -> f64 {
        let busy_ms = |moment: &Moment| {
            let of = moment.figures.pool.workers.iter().find(|of| of.worker == worker);
            of.map_or(0.0, |of| of.utilisation * moment.figures.uptime_ms as f64)
        };
        match (&self.before, self.elapsed_ms()) {
            (Some(before), elapsed) if elapsed > 0.0 => {
                ((busy_ms(&self.now) - busy_ms(before)) / elapsed).clamp(0.0, 1.0)
            }
            _ => 0.0,
        }
    }

    fn rate(&self, of: impl Fn(&Figures) -> u64) -> f64 {
        match (&self.before, self.elapsed_ms()) {
            (Some(before), elapsed) if elapsed > 0.0 => {
                of(&self.now.figures).saturating_sub(of(&before.figures)) as f64 * 1000.0 / elapsed
            }
            _ => 0.0,
        }
    }

    fn elapsed_ms(&self) -> f64 {
        let before =
            self.before.as_ref().map_or(self.now.figures.uptime_ms, |before| before.figures.uptime_ms);
        self.now.figures.uptime_ms.saturating_sub(before) as f64
    }
}

fn ended(figures: &Figures) -> u64 {
    figures.succeeded + figures.failed.values().sum::<u64>()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A daemon that has run so long and ended so many tasks.
    pub(in crate::top) fn moment(uptime_ms: u64, ended: u64, utilisation: f64) -> Moment {
        let stats = json!({
            "uptime_ms": uptime_ms, "is_draining": false, "accepted": ended + 3, "succeeded": ended - 1,
            "failed": {"timed-out": 1}, "refused": {"queue-full": 2}, "retried": 4, "rate": 0, "live": 3,
            "tasks_max": 65536, "stages": {"queued": 2, "running": 1}, "keys": 0, "timers": 0, "regions": 0,
            "results": {"kept": 5, "bytes": 2048, "dropped": 0, "aged": 0},
            "pool": {"strategy": "shared", "queued": 2, "queue_capacity": 1024, "stolen": 0, "workers": [
                {"worker": 0, "completed": ended, "is_busy": true, "queued": 1, "utilisation": utilisation, "stolen": 7}
            ]},
            "handlers": {"echo": {"accepted": ended, "succeeded": ended, "failed": 0,
                "waited": {"p50_us": 10.0, "p99_us": 200.0, "max_us": 300.0},
                "ran": {"p50_us": 1.5, "p99_us": 2500.0, "max_us": 1e6}}},
        });
        let tasks = json!({"tasks": [{"task_id": "t9", "handler": "echo", "stage": "running", "attempts": 1,
            "age_us": 5000, "progress": 0.25, "ran_us": 4000, "events": 0}]});
        let (stats, tasks) = (stats.to_string(), tasks.to_string());
        Moment::read("0.1.0".to_owned(), 17, stats.as_bytes(), tasks.as_bytes()).unwrap()
    }

    #[test]
    fn rates_and_shares_are_those_between_two_moments() {
        let mut trend = Trend::new(moment(10_000, 1_000, 0.5));
        assert_eq!((trend.ended_rate(), trend.busy(0)), (0.0, 0.0), "one moment says nothing about a rate");
        trend.add(moment(12_000, 1_500, 0.5));
        assert_eq!(trend.ended_rate(), 250.0);
        assert_eq!(trend.handler_rate("echo"), 250.0);
        assert_eq!(trend.handler_rate("other"), 0.0);
        assert_eq!(trend.busy(0), 0.5);
        assert_eq!(trend.busy(9), 0.0);
        trend.add(moment(12_000, 1_500, 0.5));
        assert_eq!(trend.ended_rate(), 0.0, "no time has passed");
        assert_eq!(trend.rates().collect::<Vec<_>>(), [250, 0]);
    }
}
