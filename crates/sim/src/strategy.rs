//! Who gets a task: the strategies of the policy by their names, and the one that is none of them, `shared`.
//!
//! `shared` is what millpond's pool does unless it is told otherwise: one queue for all, and whoever is free takes the
//! oldest task. It chooses nobody, so it cannot be one of the policy's strategies; it stands first in the list, as
//! what the others are measured against.

use crate::error::SimError;
use crate::random::{Source, Stream};
use millpond_policy::choose::{Choose, RoundRobin};
use millpond_policy::registry::{Registry, STRATEGIES};
use millpond_policy::view::{Columns, TaskView, Views, WorkerView};
use millpond_policy::{BadSetting, Moment};
use std::time::Duration;

/// The name of millpond's default.
pub const SHARED: &str = "shared";

/// All strategies by name, with what each does in a few words; `shared` first.
pub fn strategies() -> impl Iterator<Item = (&'static str, &'static str)> {
    let shared = (SHARED, "one queue for all; whoever is free takes the oldest task (the pool's default)");
    std::iter::once(shared).chain(STRATEGIES.iter().map(|entry| (entry.name, entry.about)))
}

/// Whether there is a strategy of this name; the error lists those there are, and the nearest.
pub fn check_strategy(name: &str) -> Result<(), BadSetting> {
    Strategy::by_name(name, 0).map(drop)
}

/// One of them at work.
#[derive(Debug)]
pub(crate) enum Strategy {
    Shared,
    Chosen(Box<dyn Choose>),
}

impl Strategy {
    pub(crate) fn by_name(name: &str, seed: u64) -> Result<Self, BadSetting> {
        if name == SHARED {
            return Ok(Self::Shared);
        }
        // The register knows `shared` as well, so that its errors list it and guess it; what it would make of the name
        // is never asked for.
        let mut registry = Registry::new();
        registry.register(SHARED, |_| Box::new(RoundRobin::new()))?;
        let seed = Source::new(seed, Stream::Strategy).seed();
        registry.by_name(name, seed).map(Self::Chosen)
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Shared => SHARED,
            Self::Chosen(strategy) => strategy.name(),
        }
    }

    pub(crate) fn reads_utilisation(&self) -> bool {
        matches!(self, Self::Chosen(strategy) if strategy.reads().contain(Columns::UTILISATION))
    }

    /// Where the chosen worker stands, or nobody if the task is for whoever is free.
    pub(crate) fn choose(&mut self, workers: &Views, now_ns: u64) -> Result<Option<usize>, SimError> {
        let Self::Chosen(strategy) = self else { return Ok(None) };
        let choice = strategy.choose(workers, &TaskView::default(), Moment::from_nanos(now_ns));
        match choice {
            Some(choice) if choice.at < workers.len() && workers.takes_tasks(choice.at) => {
                Ok(Some(choice.at))
            }
            _ => Err(SimError::BadChoice { strategy: strategy.name().to_owned() }),
        }
    }

    pub(crate) fn task_done(&mut self, worker: u32, ran: Duration, now_ns: u64) {
        if let Self::Chosen(strategy) = self
            && strategy.wants_task_done()
        {
            strategy.task_done(worker, ran, Moment::from_nanos(now_ns));
        }
    }

    pub(crate) fn worker_added(&mut self, worker: &WorkerView, now_ns: u64) {
        if let Self::Chosen(strategy) = self {
            strategy.worker_added(worker, Moment::from_nanos(now_ns));
        }
    }

    pub(crate) fn worker_removed(&mut self, worker: u32) {
        if let Self::Chosen(strategy) = self {
            strategy.worker_removed(worker);
        }
    }
}
