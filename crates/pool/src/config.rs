//! How a pool is made: one plain struct, checked as a whole before the first thread starts.
//!
//! Every limit of the pool is a field here, with its default and its bounds in its comment. What cannot work is
//! refused by [`Pool::start`](crate::Pool::start) with the field's name, so that no worker ever meets it.

use crate::latency::MetricsConfig;
use crate::strategy::Strategy;
use millpond_policy::BadSetting;
use millpond_policy::admit::Policy as BackPressure;
use millpond_policy::affinity::AffinitySettings;
use millpond_policy::scale::ScaleSettings;
use millpond_policy::steal::StealSettings;
use millpond_queue::{CAPACITY_MAX, STEAL_CAPACITY_MAX, WEIGHT_MAX};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The most async tasks a pool may ever have.
const FUTURES_MAX: usize = 1 << 28;

/// The most workers a pool may ever have.
pub const WORKERS_MAX: usize = 4096;

/// The most tasks that a worker takes at a time.
const BATCH_MAX: usize = 64;

/// Called on a worker's own thread with the worker's number.
#[derive(Clone)]
pub struct Hook(Arc<dyn Fn(usize) + Send + Sync>);

impl Hook {
    /// A hook that calls `act`. A panic in it is caught and counted.
    pub fn new(act: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self(Arc::new(act))
    }

    pub(crate) fn call(&self, worker: usize) {
        (self.0)(worker);
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// How a [`Pool`](crate::Pool) is made.
///
/// ```
/// use millpond::{Pool, PoolConfig};
/// let pool = Pool::start(PoolConfig { workers: 2, queue_capacity: 64, ..PoolConfig::default() })?;
/// # drop(pool);
/// # Ok::<(), millpond::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// How many workers run tasks: 1 to [`WORKERS_MAX`]. Default: one for each processor.
    pub workers: usize,
    /// How many there may be at most, with those that stand in for workers that wait (see
    /// [`blocking`](crate::blocking)) and after a [`resize`](crate::Pool::resize): up to [`WORKERS_MAX`].
    /// Default 0, which means `workers` and 64 more.
    pub workers_max: usize,
    /// How many tasks from outside may wait in each lane of priority; a lane takes 72 bytes for each once it is used.
    /// Default 1024.
    pub queue_capacity: usize,
    /// How many tasks submitted by tasks may wait at each worker, rounded up to a power of two of at least 64.
    /// What comes beyond goes to the shared queue. Default 1024.
    pub local_capacity: usize,
    /// How many tasks a worker takes from the shared queue at a time, 1 to 64, while tasks are so small that these are
    /// done within some microseconds; it runs one, and the others can be stolen. More than 1 makes floods of tiny tasks
    /// up to half as fast again. It gives up that whoever is free takes the oldest: a task may wait behind another of
    /// its batch, so tasks that wait for each other have to say so ([`blocking`](crate::blocking)). Default 1.
    pub batch_max: usize,
    /// How many tasks with an affinity key may wait for one worker, which takes 64 bytes for each when it first starts.
    /// What comes beyond goes to the shared queue. Default 64.
    pub inbox_capacity: usize,
    /// Which worker a task from outside is given to. Default: nobody chooses, and whoever is free takes the oldest.
    pub strategy: Strategy,
    /// How much each worker can do, by its number, compared with the others: for the weighted strategies. Default:
    /// none, so that it is measured.
    pub worker_weights: Vec<f64>,
    /// Whether and how the number of workers follows the load. Default: none, it stays as it is told.
    pub scaling: Option<ScaleSettings>,
    /// What a full queue means for the verbs that do not say it by their name (`try_`, `_timeout`). Default: block,
    /// that is, they wait for room.
    pub back_pressure: BackPressure,
    /// Whether and how workers without work take tasks from others. Default: half of what waits at the worker with
    /// most, 256 at most, and no cooldown: moving a task costs some nanoseconds, less than waiting for the next look.
    pub stealing: StealSettings,
    /// Which worker the tasks with an affinity key belong to, and for how long.
    pub affinity: AffinitySettings,
    /// Which tasks are timed, and how their times are shown. Default: one in 128.
    pub metrics: MetricsConfig,
    /// How many async tasks may live at once, waiting or running. Default 65536.
    pub futures_max: usize,
    /// How often each lane comes first when a worker looks for work, most urgent first: 1 to 64 each. A task with q
    /// tasks before it in its lane is taken after at most ⌈(q + 1) / weight⌉ × (sum of weights) takes of one worker
    /// from the shared queue, whatever the other lanes hold. Default 8, 4, 1.
    pub lane_weights: [u32; 3],
    /// How long a worker without work looks around before it sleeps, and how long one who waits for a ticket looks for
    /// its result. It keeps a processor busy meanwhile. Zero sleeps after a few looks. Default 20 µs.
    pub spin: Duration,
    /// The name of the threads, followed by a number. Default `millpond`.
    pub name: String,
    /// The size of each worker's stack. Default: that of `std::thread`.
    pub stack_bytes: Option<usize>,
    /// Whether worker n stays on the n-th processor this process may use, counted round. Linux only; elsewhere it
    /// does nothing. Default false.
    pub pin: bool,
    /// Called by each worker before its first task.
    pub on_start: Option<Hook>,
    /// Called by each worker after its last task.
    pub on_stop: Option<Hook>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            workers_max: 0,
            queue_capacity: 1024,
            local_capacity: 1024,
            batch_max: 1,
            inbox_capacity: 64,
            strategy: Strategy::default(),
            worker_weights: Vec::new(),
            scaling: None,
            back_pressure: BackPressure::Block { timeout: None },
            stealing: StealSettings { tasks_max: 256, cooldown: Duration::ZERO, ..StealSettings::default() },
            affinity: AffinitySettings::default(),
            metrics: MetricsConfig::default(),
            futures_max: 65_536,
            lane_weights: [8, 4, 1],
            spin: Duration::from_micros(20),
            name: "millpond".to_owned(),
            stack_bytes: None,
            pin: false,
            on_start: None,
            on_stop: None,
        }
    }
}

/// Why a pool cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A number in the [`PoolConfig`] is out of its bounds.
    OutOfBounds {
        /// The field.
        field: &'static str,
        /// The smallest that works.
        least: usize,
        /// The largest that works.
        most: usize,
        /// What was asked for.
        asked: usize,
        /// The setting that says what the largest is, if one does.
        most_is: Option<&'static str>,
    },
    /// A setting of a policy cannot work.
    Setting(BadSetting),
    /// The name cannot be a thread's: it holds a zero byte.
    Name(String),
    /// There is no memory for a queue: which, and for how many.
    OutOfMemory(String),
    /// The system would not start a thread.
    Thread(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { field, least, most, asked, most_is } => {
                write!(f, "{field}: expected {least} to {most}, got {asked}")?;
                match most_is.filter(|_| asked > most) {
                    Some(setting) => write!(f, "; raise {setting}"),
                    None => Ok(()),
                }
            }
            Self::Setting(bad) => bad.fmt(f),
            Self::Name(name) => write!(f, "name: expected text without a zero byte, got {name:?}"),
            Self::OutOfMemory(what) => write!(f, "no memory for the queues: {what}; lower it"),
            Self::Thread(error) => {
                write!(f, "cannot start a worker thread: {error}; lower workers or stack_bytes")
            }
        }
    }
}

impl StartError {
    /// There is no memory for what this setting asks for.
    pub(crate) fn no_memory(field: &str, asked: usize) -> Self {
        Self::OutOfMemory(format!("{field}: {asked} places"))
    }

    /// Why there is no further worker: the thread, or, wrapped, its queues.
    pub(crate) fn of_worker(error: std::io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(Self::Thread)
    }
}

impl From<BadSetting> for StartError {
    fn from(bad: BadSetting) -> Self {
        Self::Setting(bad)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl PoolConfig {
    /// The configuration with its defaults filled in, or what is wrong with it.
    pub(crate) fn checked(mut self) -> Result<Self, StartError> {
        let within = |field, least, most, asked| bounded(field, least, most, asked, None);
        within("workers", 1, WORKERS_MAX, self.workers)?;
        if let Some(scaling) = &self.scaling
            && scaling.check().is_ok()
        {
            self.workers = self.workers.clamp(scaling.workers_min as usize, scaling.workers_max as usize);
        }
        let most = self.scaling.map_or(0, |scaling| scaling.workers_max as usize).max(self.workers);
        if self.workers_max == 0 {
            self.workers_max = (most + 64).min(WORKERS_MAX);
        }
        within("workers_max", self.workers, WORKERS_MAX, self.workers_max)?;
        if let Some(scaling) = &self.scaling {
            let most = scaling.workers_max as usize;
            bounded("scaling.workers_max", 1, self.workers_max, most, Some("workers_max"))?;
            if scaling.predict.is_some() {
                // A forecast needs to know how long tasks run.
                within("metrics.sample_every", 1, u32::MAX as usize, self.metrics.sample_every as usize)?;
            }
        }
        within("queue_capacity", 1, CAPACITY_MAX, self.queue_capacity)?;
        within("local_capacity", 1, STEAL_CAPACITY_MAX, self.local_capacity)?;
        within("batch_max", 1, BATCH_MAX, self.batch_max)?;
        within("inbox_capacity", 1, CAPACITY_MAX, self.inbox_capacity)?;
        within("futures_max", 1, FUTURES_MAX, self.futures_max)?;
        for weight in self.lane_weights {
            within("lane_weights", 1, WEIGHT_MAX as usize, weight as usize)?;
        }
        self.stealing.check()?;
        self.affinity.check()?;
        self.metrics.check()?;
        if self.name.contains('\0') {
            return Err(StartError::Name(self.name));
        }
        Ok(self)
    }
}

/// Whether `asked` is within its bounds, the upper one of which may be a setting as well.
pub(crate) fn bounded(
    field: &'static str,
    least: usize,
    most: usize,
    asked: usize,
    most_is: Option<&'static str>,
) -> Result<(), StartError> {
    if (least..=most).contains(&asked) {
        Ok(())
    } else {
        Err(StartError::OutOfBounds { field, least, most, asked, most_is })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let ask = |config: PoolConfig| config.checked().expect_err("must be refused").to_string();
        let plain = PoolConfig::default;
        assert_eq!(ask(PoolConfig { workers: 0, ..plain() }), "workers: expected 1 to 4096, got 0");
        assert_eq!(
            ask(PoolConfig { workers: 8, workers_max: 7, ..plain() }),
            "workers_max: expected 8 to 4096, got 7"
        );
        assert!(
            ask(PoolConfig { queue_capacity: 0, ..plain() }).starts_with("queue_capacity: expected 1 to")
        );
        assert!(
            ask(PoolConfig { lane_weights: [1, 0, 1], ..plain() }).starts_with("lane_weights: expected 1")
        );
        assert_eq!(ask(PoolConfig { batch_max: 65, ..plain() }), "batch_max: expected 1 to 64, got 65");
        assert!(ask(PoolConfig { name: "a\0b".to_owned(), ..plain() }).starts_with("name: expected text"));
    }
}
