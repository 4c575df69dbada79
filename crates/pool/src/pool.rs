//! `Pool`: the owner, who starts the workers, changes their number, and ends them.
//!
//! Everyone else has a [`PoolHandle`]. The owner is one as well, by `Deref`.
//!
//! Not here: what happens to tasks when the pool ends (`life.rs`).

use crate::config::{PoolConfig, StartError, bounded};
use crate::events::EventKind;
use crate::handle::PoolHandle;
use crate::life::Report;
use crate::shared::Shared;
use crate::strategy::Strategy;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A running pool. Dropping it is [`stop`](Self::stop) with all the time in the world: what waits is cancelled, and
/// what runs is waited for. Two pools whose tasks drop each other wait for ever.
#[derive(Debug)]
pub struct Pool {
    handle: PoolHandle,
    /// Whether a `stop` does, or has done, what it can in its time: then `Drop` has nothing to add. Set by whoever
    /// stops; read by `Drop`, which is alone.
    stopped: AtomicBool,
}

impl Pool {
    /// Starts the workers.
    pub fn start(config: PoolConfig) -> Result<Self, StartError> {
        let shared = Arc::new(Shared::new(config.checked()?)?);
        // From here on `Drop` ends what was begun.
        let pool = Self { handle: PoolHandle { shared }, stopped: AtomicBool::new(false) };
        let shared = &pool.handle.shared;
        shared.choosing.swap(&shared.config.strategy, shared.now());
        shared.crew.resize(shared, shared.config.workers).map_err(StartError::of_worker)?;
        shared.scaling.begin(shared).map_err(StartError::Thread)?;
        Ok(pool)
    }

    /// A handle to give to others.
    pub fn handle(&self) -> PoolHandle {
        self.handle.clone()
    }

    /// Changes how many workers there are. Those that are too many leave after their present task; what waits at them
    /// is taken over by the others. A pool that scales by itself goes on from there. If the system has no more threads,
    /// there are as many workers as could be started.
    pub fn resize(&self, workers: usize) -> Result<Report, StartError> {
        let before = self.shared.begin_report();
        bounded("workers", 1, self.shared.config.workers_max, workers, Some("workers_max"))?;
        let (from, to) = (self.shared.crew.wanted(), workers);
        self.shared.crew.resize(&self.shared, workers).map_err(StartError::of_worker)?;
        if to > from {
            self.shared.events.tell(|| EventKind::ScaledUp { from, to, reason: None });
        } else if to < from {
            self.shared.events.tell(|| EventKind::ScaledDown { from, to, reason: None });
        }
        Ok(before.report(&self.shared))
    }

    /// Chooses workers in another way from now on. Each task is given to its worker by the old strategy or by the new
    /// one, and stays there. Returns the name of the old one.
    pub fn set_strategy(&self, strategy: &Strategy) -> String {
        let from = self.shared.choosing.swap(strategy, self.shared.now());
        let to = strategy.name().to_owned();
        self.shared.events.tell(|| EventKind::StrategySwapped { from: from.clone().into(), to: to.into() });
        from
    }

    /// The name of the strategy in force.
    pub fn strategy(&self) -> String {
        self.shared.choosing.name()
    }

    /// Begins no further task until [`resume`](Self::resume): when this returns, every worker runs what it had
    /// begun, or nothing; only one that was at the very end of a task may have begun one more. What runs goes on, and
    /// tasks are still taken in.
    ///
    /// A task that runs goes on with what is part of it: those tasks of its scopes that wait in its own worker's queue,
    /// the halves of its joins, and what it submits to a full pool. Without effect once the pool is drained or stopped.
    ///
    /// Whoever waits for the pool outside, in a scope or for room, waits until somebody else resumes it.
    pub fn pause(&self) -> Report {
        self.set_paused(true)
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) -> Report {
        self.set_paused(false)
    }

    fn set_paused(&self, paused: bool) -> Report {
        let before = self.shared.begin_report();
        self.shared.crew.set_paused(&self.shared, paused);
        before.report(&self.shared)
    }

    /// Cancels every task that waits in a queue. What runs goes on, and so do futures that wait for something.
    pub fn purge(&self) -> Report {
        self.shared.purge_and_report()
    }

    /// Takes nothing more in from outside and waits until everything taken in has ended, for at most so long. What
    /// running tasks still submit is part of it. Afterwards the pool is closed for good; what is left, if the time
    /// did not suffice, goes on until [`stop`](Self::stop). Ends a [`pause`](Self::pause).
    ///
    /// A task may drain its own pool, and is not waited for by that. But it runs, so its report is never
    /// [finished](Report::is_finished): it is itself one that is `running`. If all else has ended, `waiting` is 0.
    pub fn drain(&self, within: Duration) -> Report {
        self.shared.drain(within)
    }

    /// Takes nothing more in, cancels what waits and every future, and waits for what runs, for at most so long. A
    /// closure that runs is asked to stop (see [`is_cancelled`](crate::is_cancelled)); threads that do not end in
    /// time are left to themselves.
    ///
    /// It may be called again, also by several threads at once and by tasks of this pool: each waits for what is left,
    /// and reports what ended meanwhile. A task that stops or drains its own pool is waited for by those outside, and
    /// not by others like it.
    pub fn stop(&self, within: Duration) -> Report {
        self.stopped.store(true, Relaxed);
        self.shared.stop(Some(within))
    }
}

impl Deref for Pool {
    type Target = PoolHandle;

    fn deref(&self) -> &PoolHandle {
        &self.handle
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !*self.stopped.get_mut() {
            self.shared.stop(None);
        }
    }
}
