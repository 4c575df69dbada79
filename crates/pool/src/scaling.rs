//! More workers when there is much to do, fewer when there is little: a watch that looks now and then and acts.
//!
//! How many there should be is decided by `millpond_policy::scale` from a sample of the load; here the sample is taken
//! and the decision carried out. The watch is a thread of its own that sleeps between two looks, and there is none
//! unless [`scaling`](crate::PoolConfig::scaling) is asked for. Nobody is made to leave in the middle of anything: a
//! worker that is one too many retires when it next looks up, and passes on what waits at it (`crew.rs`).
//!
//! How long the oldest task has waited is not written on it. But a queue gives out in order: if fewer tasks have left
//! it than had come by an earlier look, its oldest has waited since that look at least.

use crate::counters::ScaleCounts;
use crate::events::EventKind;
use crate::options::Priority;
use crate::pool::Pool;
use crate::shared::Shared;
use millpond_policy::scale::{Decision, Load, Reason, ScaleSettings, Scaler};
use millpond_policy::view::WorkerState;
use millpond_policy::{BadSetting, Moment};
use millpond_queue::{Gate, GateStats};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// So many earlier looks are remembered. A task that has waited longer than those is known to have waited as long.
const LOOKS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Scaling {
    /// `None`: the number of workers is the owner's affair.
    scaler: Mutex<Option<Scaler>>,
    looks: Mutex<VecDeque<Look>>,
    watch: Mutex<Option<JoinHandle<()>>>,
    bell: Arc<Bell>,
    pub(crate) counts: ScaleCounts,
}

/// How many tasks had come to each queue by a moment.
#[derive(Clone, Debug)]
struct Look {
    at: Moment,
    came: Vec<u64>,
}

/// Wakes the watch to end it.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    told: Condvar,
}

impl Bell {
    /// Sleeps for so long; `true` if it was rung.
    fn wait(&self, at_most: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(rung, at_most, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }
}

impl Scaling {
    pub(crate) fn new(settings: Option<ScaleSettings>) -> Result<Self, BadSetting> {
        let scaler = settings.map(Scaler::new).transpose()?;
        Ok(Self { scaler: Mutex::new(scaler), ..Self::default() })
    }

    /// Starts the watch, if one is asked for.
    pub(crate) fn begin(&self, shared: &Arc<Shared>) -> io::Result<()> {
        let Some(interval) = self.scaler().as_ref().map(|scaler| scaler.settings().interval) else {
            return Ok(());
        };
        let (weak, bell) = (Arc::downgrade(shared), Arc::clone(&self.bell));
        let watch =
            thread::Builder::new().name(format!("{}-scale", shared.config.name)).spawn(move || {
                while !bell.wait(interval) {
                    let Some(shared) = weak.upgrade() else { break };
                    let now = shared.now();
                    shared.scale(&shared.sample(now), now);
                }
            })?;
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
        Ok(())
    }

    /// Ends the watch. It may be in the middle of a look; what it still decides finds the pool closed.
    pub(crate) fn end(&self) {
        self.bell.ring();
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(watch) = watch.filter(|watch| watch.thread().id() != thread::current().id()) {
            // It ends by itself, and there is nothing to be told.
            let _ = watch.join();
        }
    }

    fn scaler(&self) -> MutexGuard<'_, Option<Scaler>> {
        self.scaler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The load as it is.
    pub(crate) fn sample(&self, now: Moment) -> Load {
        let idle_for = self.scaling.scaler().as_ref().map(|scaler| scaler.settings().scale_down_idle);
        let idle_long = |seat: &&crate::seat::Seat| {
            seat.state() == WorkerState::Ready
                && seat.is_empty()
                && idle_for
                    .is_some_and(|least| now.since(Moment::from_nanos(seat.pace.idle_since_ns())) >= least)
        };
        Load {
            workers: self.crew.wanted() as u32,
            waiting: self.waiting() as u64,
            running: self.busy() as u64,
            idle_long: self.seats().filter(idle_long).count() as u32,
            oldest_wait: self.oldest_wait(now),
            arrivals_total: self.queues().iter().map(|queue| queue.enqueued).sum(),
            run_mean_ns: self.run_mean_ns(),
        }
    }

    /// Decides from a sample, and carries it out.
    pub(crate) fn scale(self: &Arc<Self>, load: &Load, now: Moment) -> Option<Decision> {
        // Held until it is done, so that two who decide do not mix.
        let mut scaler = self.scaling.scaler();
        let decision = scaler.as_mut()?.decide(load, now);
        let from = self.crew.wanted();
        if let Decision::Up { to, reason, .. } | Decision::Down { to, reason, .. } = decision {
            let to = (to as usize).min(self.config.workers_max);
            if to != from {
                match self.crew.resize(self, to) {
                    Ok(()) => self.note_scaling(from, to, reason),
                    // No thread can be started now; the next look will try again.
                    Err(_) => {
                        self.scaling.counts.failed.fetch_add(1, Relaxed);
                    }
                }
            }
        }
        Some(decision)
    }

    fn note_scaling(&self, from: usize, to: usize, reason: Reason) {
        let reason = Some(reason);
        if to > from {
            self.scaling.counts.ups.fetch_add(1, Relaxed);
            self.events.tell(|| EventKind::ScaledUp { from, to, reason });
        } else {
            self.scaling.counts.downs.fetch_add(1, Relaxed);
            self.events.tell(|| EventKind::ScaledDown { from, to, reason });
        }
    }

    /// For how long the oldest task has waited, at least.
    fn oldest_wait(&self, now: Moment) -> Duration {
        let queues = self.queues();
        let mut looks = self.scaling.looks.lock().unwrap_or_else(PoisonError::into_inner);
        // A look from before the oldest task came tells nothing more.
        let tells = |look: &Look| {
            let mut queues = look.came.iter().zip(&queues);
            queues.any(|(&came, queue)| queue.len > 0 && came > queue.dequeued)
        };
        while looks.front().is_some_and(|look| !tells(look)) {
            looks.pop_front();
        }
        let oldest = looks.front().map_or(Duration::ZERO, |look| now.since(look.at));
        if looks.len() == LOOKS_MAX {
            // The first look stays: it is the one that says how long.
            looks.remove(1);
        }
        looks.push_back(Look { at: now, came: queues.iter().map(|queue| queue.enqueued).collect() });
        oldest
    }

    /// All queues that tasks from outside come to, always in the same order.
    fn queues(&self) -> Vec<GateStats> {
        let lanes = Priority::ALL.into_iter().map(|priority| self.lanes.stats(priority));
        let seats = self.seats().flat_map(|seat| {
            [seat.inbox.stats(), seat.assigned().map_or_else(GateStats::default, Gate::stats)]
        });
        lanes.chain(seats).collect()
    }

    /// How long tasks run, on average of those that were timed; 0 if none were.
    fn run_mean_ns(&self) -> u64 {
        let timed = self.seats().map(|seat| seat.samples.run());
        let (count, sum_ns) = timed.fold((0, 0_u64), |all, one| (all.0 + one.0, all.1.saturating_add(one.1)));
        sum_ns.checked_div(count).unwrap_or(0)
    }
}

impl Pool {
    /// Decides about the number of workers from a load that was measured elsewhere, at a time that is told, and acts
    /// on it: what the pool's own watch does every [`interval`](ScaleSettings::interval). `None` if the pool has no
    /// [`scaling`](crate::PoolConfig::scaling).
    pub fn scale(&self, load: &Load, now: Moment) -> Option<Decision> {
        self.shared.scale(load, now)
    }

    /// The load as the pool's watch sees it, and the time.
    pub fn load(&self) -> (Load, Moment) {
        let now = self.shared.now();
        (self.shared.sample(now), now)
    }
}
