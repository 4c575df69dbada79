//! What all handles and workers of one pool share.
//!
//! Field by field who may touch it: everything here is for any thread, and each part keeps its own order. Only the
//! owner's end of a worker's queue and what lies on its stack (`worker.rs`) belong to one thread.

use crate::config::{PoolConfig, StartError};
use crate::counters::{Ending, Padded};
use crate::crew::Crew;
use crate::current;
use crate::futures::Futures;
use crate::lanes::Lanes;
use crate::overflow::Overflow;
use crate::seat::Seat;
use crate::sleep::Sleep;
use crate::sync::full_fence;
use crate::task::Task;
use crate::timer::Timer;
use crate::vacancies::Vacancies;
use crossbeam_utils::CachePadded;
use millpond_queue::{CapacityError, Ring};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// What ends on threads that are no workers of this pool.
    pub(crate) elsewhere: Padded,
}

impl Shared {
    pub(crate) fn new(config: PoolConfig) -> Result<Self, StartError> {
        let no_memory = |reason: CapacityError| StartError::OutOfMemory(reason.to_string());
        Ok(Self {
            lanes: Lanes::new(config.queue_capacity, config.lane_weights).map_err(no_memory)?,
            forks: Ring::with_capacity(config.workers_max).map_err(no_memory)?,
            overflow: Overflow::default(),
            seats: (0..config.workers_max).map(|_| OnceLock::new()).collect(),
            seats_used: AtomicUsize::new(0),
            sleep: Sleep::new(config.workers_max),
            attention: CachePadded::new(AtomicU32::new(0)),
            crew: Crew::new(config.workers),
            futures: Futures::new(config.futures_max),
            timer: Timer::new(format!("{}-timer", config.name)),
            vacancies: Vacancies::default(),
            elsewhere: Padded::default(),
            config,
        })
    }

    /// The seat of this number, made if it is the first time that somebody sits there.
    pub(crate) fn furnish(&self, number: usize) -> Result<(), CapacityError> {
        if self.seats[number].get().is_none() {
            let _ = self.seats[number].set(Arc::new(Seat::new(&self.config)?));
            self.seats_used.fetch_max(number + 1, Ordering::Release);
            full_fence();
            if self.lanes.is_closed() {
                self.seat(number).inbox.close();
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

    /// Whether any task waits that any worker could take. It may be stale.
    pub(crate) fn anything_waits(&self) -> bool {
        !self.lanes.is_empty()
            || !self.forks.is_empty()
            || !self.overflow.is_empty()
            || self.seats().any(|seat| !seat.is_empty())
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
        // Meets the fence in `drain`: it sees that one is gone, or this sees that it drains.
        full_fence();
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
