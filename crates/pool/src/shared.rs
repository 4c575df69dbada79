//! What all handles and workers of one pool share.
//!
//! Field by field who may touch it: everything here is for any thread, and each part keeps its own order. Only the
//! owner's end of a worker's queue and what lies on its stack (`worker.rs`) belong to one thread.

use crate::affinity::Keys;
use crate::config::{PoolConfig, StartError};
use crate::counters::{Ending, Padded, PressureCounts};
use crate::crew::Crew;
use crate::current;
use crate::events::{Bus, EventKind};
use crate::futures::Futures;
use crate::lanes::Lanes;
use crate::latency::Latency;
use crate::metrics::Rate;
use crate::overflow::Overflow;
use crate::scaling::Scaling;
use crate::seat::Seat;
use crate::sleep::Sleep;
use crate::strategy::Choosing;
use crate::sync::{fence_after_swap, full_fence};
use crate::task::Task;
use crate::timer::Timer;
use crate::vacancies::Vacancies;
use crate::why::Placed;
use crossbeam_utils::CachePadded;
use millpond_policy::view::WorkerState;
use millpond_policy::weights;
use millpond_policy::{BadSetting, Moment};
use millpond_queue::{CapacityError, Ring};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Things a worker attends to between two tasks, as bits of `attention`.
pub(crate) mod attention {
    /// There are more workers than wanted: one may retire.
    pub(crate) const SURPLUS: u32 = 1;
    /// No task is begun until further notice.
    pub(crate) const PAUSED: u32 = 2;
    /// Somebody waits for the pool to run dry, and wants to hear of workers that go to sleep.
    pub(crate) const DRAINING: u32 = 4;
    /// Every worker leaves after its present task.
    pub(crate) const STOPPING: u32 = 8;
}

pub(crate) struct Shared {
    pub(crate) config: PoolConfig,
    started: Instant,
    pub(crate) lanes: Lanes,
    /// Halves of joins that were offered to others (`join.rs`).
    pub(crate) forks: Ring<Task>,
    /// Woken async tasks that found every queue full, and what retiring workers left.
    pub(crate) overflow: Overflow,
    /// Filled from the front, never emptied.
    seats: Box<[OnceLock<Arc<Seat>>]>,
    seats_used: AtomicUsize,
    pub(crate) sleep: Sleep,
    /// Bits of [`attention`]; zero nearly always, until the pool drains.
    pub(crate) attention: CachePadded<AtomicU32>,
    pub(crate) crew: Crew,
    pub(crate) futures: Futures,
    pub(crate) timer: Timer,
    pub(crate) vacancies: Vacancies,
    /// Which worker a key belongs to.
    pub(crate) affinity: Keys,
    /// Which worker a task is given to, if anybody chooses.
    pub(crate) choosing: Choosing,
    /// Who changes the number of workers, if anybody does.
    pub(crate) scaling: Scaling,
    /// What full queues meant for submitters.
    pub(crate) pressure: PressureCounts,
    /// Which tasks are timed.
    pub(crate) latency: Latency,
    /// How much was done when somebody last asked.
    pub(crate) rate: Rate,
    /// Who wants to hear what happens.
    pub(crate) events: Bus,
    /// What ends on threads that are no workers of this pool.
    pub(crate) elsewhere: Padded,
}

impl Shared {
    pub(crate) fn new(config: PoolConfig) -> Result<Self, StartError> {
        // How many there may be was checked before.
        let no_memory = |field, asked| move |_: CapacityError| StartError::no_memory(field, asked);
        Ok(Self {
            started: Instant::now(),
            lanes: Lanes::new(config.queue_capacity, config.lane_weights)
                .map_err(no_memory("queue_capacity", config.queue_capacity))?,
            forks: Ring::with_capacity(config.workers_max)
                .map_err(no_memory("workers_max", config.workers_max))?,
            overflow: Overflow::default(),
            seats: (0..config.workers_max).map(|_| OnceLock::new()).collect(),
            seats_used: AtomicUsize::new(0),
            sleep: Sleep::new(config.workers_max),
            attention: CachePadded::new(AtomicU32::new(0)),
            crew: Crew::new(config.workers),
            futures: Futures::new(config.futures_max),
            timer: Timer::new(format!("{}-timer", config.name)),
            vacancies: Vacancies::default(),
            affinity: Keys::new(&config.affinity)?,
            choosing: Choosing::new(
                weights::whole(&config.worker_weights)
                    .map_err(|bad| BadSetting { setting: "worker_weights", ..bad })?,
            ),
            scaling: Scaling::new(config.scaling)?,
            pressure: PressureCounts::default(),
            latency: Latency::new(config.metrics.sample_every),
            rate: Rate::default(),
            events: Bus::default(),
            elsewhere: Padded::default(),
            config,
        })
    }

    /// The seat of this number, made if it is the first time that somebody sits there.
    pub(crate) fn furnish(&self, number: usize) -> Result<(), StartError> {
        if self.seats[number].get().is_none() {
            let seat = Seat::new(&self.config)
                .map_err(|_| StartError::no_memory("inbox_capacity", self.config.inbox_capacity))?;
            let _ = self.seats[number].set(Arc::new(seat));
            self.seats_used.fetch_max(number + 1, Ordering::Release);
            full_fence();
            if self.lanes.is_closed() {
                self.seat(number).close();
            }
        }
        Ok(())
    }

    /// A seat in which somebody sits or sat.
    pub(crate) fn seat(&self, number: usize) -> &Arc<Seat> {
        self.seats[number].get().expect("seats are filled before their number is given out")
    }

    /// All seats in which somebody sits or sat.
    pub(crate) fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats[..self.seats_used()].iter().filter_map(OnceLock::get).map(Arc::as_ref)
    }

    pub(crate) fn seats_used(&self) -> usize {
        self.seats_used.load(Ordering::Acquire)
    }

    /// Whether any task waits anywhere. It may be stale.
    pub(crate) fn anything_waits(&self) -> bool {
        self.anything_is_shared() || self.seats().any(|seat| !seat.is_empty())
    }

    /// Whether any task waits that the worker of this seat may take at once. It may be stale.
    pub(crate) fn anything_waits_for(&self, number: usize) -> bool {
        let steals = self.config.stealing.enabled;
        let may_take =
            |seat: &Seat| (steals && seat.stealable() > 0) || (seat.presence.is_open() && !seat.is_empty());
        self.anything_is_shared() || !self.seat(number).is_empty() || self.seats().any(may_take)
    }

    /// Another seat than this one where a task with a key waits, which its worker may take in the end.
    pub(crate) fn mail_elsewhere(&self, number: usize) -> Option<(usize, &Seat)> {
        let mut others = self.seats().enumerate().filter(|(at, _)| *at != number);
        if self.config.stealing.enabled { others.find(|(_, seat)| !seat.inbox.is_empty()) } else { None }
    }

    fn anything_is_shared(&self) -> bool {
        !self.lanes.is_empty() || !self.forks.is_empty() || !self.overflow.is_empty()
    }

    /// The worker of this seat takes tasks from now on.
    pub(crate) fn worker_came(&self, number: usize) {
        self.choosing.worker_came(number, self.now());
        self.events.tell(|| EventKind::WorkerStarted { worker: number });
    }

    /// The worker of this seat takes no more tasks.
    pub(crate) fn worker_left(&self, number: usize) {
        self.choosing.worker_left(number);
        self.events.tell(|| EventKind::WorkerStopped { worker: number });
    }

    /// The worker that a task put there waits for, if that is busy and nobody else may take the task at once.
    pub(crate) fn bound_to(&self, placed: Placed) -> Option<usize> {
        let (worker, is_stealable) = match placed {
            Placed::ByKey { worker } => (worker, false),
            Placed::Chosen { worker, .. } | Placed::Own { worker } => (worker, self.config.stealing.enabled),
            _ => return None,
        };
        // The ticket may be of another pool.
        let seat = self.seats.get(worker)?.get()?;
        (!is_stealable && !seat.presence.is_open() && seat.state() == WorkerState::Busy).then_some(worker)
    }

    /// How long ago the pool began.
    pub(crate) fn now(&self) -> Moment {
        Moment::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// How many tasks wait. It may be stale.
    pub(crate) fn waiting(&self) -> usize {
        let entries = self.lanes.len() + self.overflow.len() + self.seats().map(Seat::len).sum::<usize>();
        // Entries whose task has ended are places, not tasks.
        entries.saturating_sub(self.vacancies.len())
    }

    /// A future has ended, or was not taken in.
    pub(crate) fn future_left(&self, place: u32) {
        self.futures.leave(place);
        // Meets the fence in `drain`: it sees that one is gone, or this sees that it drains. Leaving was a swap.
        fence_after_swap();
        if self.attention() & attention::DRAINING != 0 {
            self.crew.tell_drainers();
        }
    }

    /// How many workers run a task. It may be stale.
    pub(crate) fn busy(&self) -> usize {
        self.seats().map(|seat| seat.counters.busy.load(Ordering::Relaxed) as usize).sum()
    }

    /// Counts the end of a task, whoever the caller is.
    pub(crate) fn count(&self, ending: Ending) {
        match current::worker_of(self) {
            Some(worker) => worker.counters().ended(ending),
            None => self.elsewhere.ended_elsewhere(ending, 1),
        }
    }

    /// How many tasks ended in this way since the start.
    pub(crate) fn endings(&self, ending: Ending) -> u64 {
        self.seats().map(|seat| seat.counters.endings(ending)).sum::<u64>() + self.elsewhere.endings(ending)
    }

    /// Whether the worker of this seat should leave off looking for tasks and look up.
    pub(crate) fn calls_worker(&self, number: usize) -> bool {
        let bits = self.attention();
        bits & (attention::PAUSED | attention::STOPPING) != 0
            || (bits & attention::SURPLUS != 0 && number >= self.crew.wanted())
    }

    #[inline(always)]
    pub(crate) fn attention(&self) -> u32 {
        self.attention.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("name", &self.config.name)
            .field("workers", &self.crew.wanted())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
