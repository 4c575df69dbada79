//! What happens in a pool, told to whoever listens: workers that come and go, scaling, robberies, refusals, drops.
//!
//! While nobody listens, telling costs one load, and the event is not even made. A subscription is a bounded queue of
//! its own: what does not fit is counted and dropped, so that a slow listener misses events and the pool never waits.
//! The list of subscriptions is read under a lock that readers share, and written only when one begins or ends.
//!
//! Not here: who tells what (each place its own), and numbers instead of stories (`metrics.rs`).

use crate::current;
use crate::error::Refused;
use crate::handle::PoolHandle;
use crate::shared::{Shared, attention};
use millpond_policy::{scale, steal};
use millpond_queue::{Gate, GateConfig, Refusal};
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The most events that may wait for one listener.
const CAPACITY_MAX: usize = 1 << 16;
/// A task that listens to its own pool looks this often whether that stops.
const OWN_POOL_WAIT: Duration = Duration::from_millis(10);

/// Something that happened in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// How long after the start of the pool.
    pub at: Duration,
    /// What.
    pub kind: EventKind,
}

/// What happened. It prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A worker is about to look for its first task.
    WorkerStarted {
        /// The number of its seat.
        worker: usize,
    },
    /// A worker has run its last task.
    WorkerStopped {
        /// The number of its seat.
        worker: usize,
    },
    /// There are to be more workers.
    ScaledUp {
        /// So many there were to be.
        from: usize,
        /// So many there are to be.
        to: usize,
        /// Why; `None` if somebody called [`resize`](crate::Pool::resize).
        reason: Option<scale::Reason>,
    },
    /// There are to be fewer workers.
    ScaledDown {
        /// So many there were to be.
        from: usize,
        /// So many there are to be.
        to: usize,
        /// Why; `None` if somebody called [`resize`](crate::Pool::resize).
        reason: Option<scale::Reason>,
    },
    /// A worker without work took tasks that waited at another.
    Stole {
        /// Who took them.
        thief: usize,
        /// At whom they waited.
        victim: usize,
        /// How many there were.
        tasks: u32,
        /// Why from that one, and why so many.
        reason: steal::Reason,
    },
    /// A task went back to its submitter.
    Refused {
        /// Why.
        why: Refused,
    },
    /// A new task was dropped because the queue was full.
    DroppedNewest,
    /// The task that had waited longest was dropped because the queue was full.
    DroppedOldest,
    /// Workers are chosen in another way from now on.
    StrategySwapped {
        /// What the old way is called.
        from: Cow<'static, str>,
        /// What the new way is called.
        to: Cow<'static, str>,
    },
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkerStarted { worker } => write!(f, "worker {worker} started"),
            Self::WorkerStopped { worker } => write!(f, "worker {worker} stopped"),
            Self::ScaledUp { from, to, reason } => {
                write!(f, "scaled up from {from} to {to} workers")?;
                because(f, reason.as_ref())
            }
            Self::ScaledDown { from, to, reason } => {
                write!(f, "scaled down from {from} to {to} workers")?;
                because(f, reason.as_ref())
            }
            Self::Stole { thief, victim, tasks, reason } => {
                write!(f, "worker {thief} took {tasks} tasks from worker {victim}: {reason}")
            }
            Self::Refused { why } => write!(f, "refused a task: {why}"),
            Self::DroppedNewest => f.write_str("dropped a new task: the queue is full"),
            Self::DroppedOldest => f.write_str("dropped the oldest task: the queue is full"),
            Self::StrategySwapped { from, to } => write!(f, "chooses workers by {to} instead of {from}"),
        }
    }
}

fn because(f: &mut fmt::Formatter<'_>, reason: Option<&impl fmt::Display>) -> fmt::Result {
    reason.map_or(Ok(()), |reason| write!(f, ": {reason}"))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s: {}", self.at.as_secs_f64(), self.kind)
    }
}

impl PoolHandle {
    /// Listens to what happens from now on. Up to `capacity` events (1 to 65 536, the nearest of those) wait for the
    /// listener; what comes beyond is counted and lost.
    ///
    /// ```
    /// use millpond::{EventKind, Pool, PoolConfig};
    /// let pool = Pool::start(PoolConfig { workers: 1, ..PoolConfig::default() })?;
    /// let events = pool.events(100);
    /// pool.resize(2)?;
    /// drop(pool);
    /// let told: Vec<EventKind> = events.map(|event| event.kind).collect();
    /// assert!(told.contains(&EventKind::ScaledUp { from: 1, to: 2, reason: None }));
    /// # Ok::<(), millpond::StartError>(())
    /// ```
    pub fn events(&self, capacity: usize) -> Events {
        Events { feed: self.shared.events.subscribe(capacity), shared: Arc::clone(&self.shared) }
    }
}

/// What happens in a pool, from the moment of [`events`](PoolHandle::events) on. As an iterator it ends when the pool
/// has stopped. Dropping it ends the subscription.
pub struct Events {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
}

impl Events {
    /// The next event; waits for one if need be. `None`: the pool has stopped, and all has been told.
    pub fn recv(&self) -> Option<Event> {
        if current::worker_of(&self.shared).is_none() {
            return current::stand_still(|| self.feed.gate.dequeue());
        }
        // A task of the pool itself: a stop waits for its end, so it must not wait for the end of the stop.
        loop {
            let event = self.recv_timeout(OWN_POOL_WAIT);
            let stops = self.shared.attention() & attention::STOPPING != 0;
            if event.is_some() || stops || self.is_over() {
                return event;
            }
        }
    }

    /// As [`recv`](Self::recv), but waits at most so long. `None` may also mean that nothing happened meanwhile; see
    /// [`is_over`](Self::is_over).
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        current::stand_still(|| self.feed.gate.dequeue_timeout(timeout)).ok()
    }

    /// As [`recv`](Self::recv), but never waits.
    pub fn try_recv(&self) -> Option<Event> {
        self.feed.gate.try_dequeue().ok()
    }

    /// Whether the pool has stopped and all has been told.
    pub fn is_over(&self) -> bool {
        self.feed.gate.is_closed() && self.feed.gate.is_empty()
    }

    /// How many events were lost because as many as may wait did so already.
    pub fn missed(&self) -> u64 {
        self.feed.missed.load(Relaxed)
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.events.unsubscribe(&self.feed);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("waiting", &self.feed.gate.len())
            .field("missed", &self.missed())
            .finish_non_exhaustive()
    }
}

/// One subscription, as the pool sees it.
#[derive(Debug)]
struct Feed {
    gate: Gate<Event>,
    missed: AtomicU64,
}

/// Who listens to a pool.
#[derive(Debug)]
pub(crate) struct Bus {
    started: Instant,
    /// How many subscriptions there are, to be read without the lock.
    listeners: AtomicUsize,
    feeds: RwLock<Feeds>,
}

#[derive(Debug, Default)]
struct Feeds {
    open: Vec<Arc<Feed>>,
    /// Whether the pool has stopped: nothing will happen any more.
    over: bool,
}

impl Default for Bus {
    fn default() -> Self {
        Self { started: Instant::now(), listeners: AtomicUsize::new(0), feeds: RwLock::default() }
    }
}

impl Bus {
    /// Whether anybody listens. Who subscribed before the event, in whatever order the threads agree on, is seen.
    #[inline(always)]
    pub(crate) fn anybody(&self) -> bool {
        self.listeners.load(Relaxed) > 0
    }

    /// Tells what happened to everybody who listens. `what` is called only if there is somebody.
    #[inline(always)]
    pub(crate) fn tell(&self, what: impl FnOnce() -> EventKind) {
        if self.anybody() {
            self.tell_all(what());
        }
    }

    #[cold]
    fn tell_all(&self, kind: EventKind) {
        let event = Event { at: self.started.elapsed(), kind };
        let feeds = self.feeds.read().unwrap_or_else(PoisonError::into_inner);
        for feed in &feeds.open {
            if let Err(Refusal::Full(_)) = feed.gate.try_enqueue(event.clone()) {
                feed.missed.fetch_add(1, Relaxed);
            }
        }
    }

    fn subscribe(&self, capacity: usize) -> Arc<Feed> {
        let capacity = capacity.clamp(1, CAPACITY_MAX);
        let gate = Gate::start(GateConfig { capacity, measure_every: 0, ..GateConfig::default() });
        let gate = gate.expect("a few megabytes are there, or the process would end anyway");
        let feed = Arc::new(Feed { gate, missed: AtomicU64::new(0) });
        let mut feeds = self.write();
        if feeds.over {
            feed.gate.close();
        } else {
            feeds.open.push(Arc::clone(&feed));
            self.listeners.store(feeds.open.len(), Relaxed);
        }
        feed
    }

    fn unsubscribe(&self, feed: &Arc<Feed>) {
        let mut feeds = self.write();
        feeds.open.retain(|open| !Arc::ptr_eq(open, feed));
        self.listeners.store(feeds.open.len(), Relaxed);
    }

    /// Nothing will happen any more: every subscription ends when what waits in it has been told.
    pub(crate) fn close(&self) {
        let mut feeds = self.write();
        feeds.over = true;
        self.listeners.store(0, Relaxed);
        feeds.open.drain(..).for_each(|feed| feed.gate.close());
    }

    fn write(&self) -> RwLockWriteGuard<'_, Feeds> {
        self.feeds.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_queue::NoValue;

    fn started(worker: usize) -> EventKind {
        EventKind::WorkerStarted { worker }
    }

    fn kinds(feed: &Feed) -> Vec<EventKind> {
        std::iter::from_fn(|| feed.gate.try_dequeue().ok()).map(|event| event.kind).collect()
    }

    #[test]
    fn an_event_nobody_listens_to_is_not_even_made() {
        let bus = Bus::default();
        bus.tell(|| unreachable!("nobody listens"));
        let feed = bus.subscribe(1);
        bus.unsubscribe(&feed);
        bus.tell(|| unreachable!("nobody listens any more"));
        assert!(!bus.anybody());
    }

    #[test]
    fn every_listener_is_told_from_its_beginning_on_and_the_newest_are_missed() {
        let bus = Bus::default();
        let wide = bus.subscribe(usize::MAX);
        bus.tell(|| started(0));
        let narrow = bus.subscribe(0);
        (1..4).for_each(|worker| bus.tell(|| started(worker)));
        assert_eq!(kinds(&wide), [0, 1, 2, 3].map(started));
        assert_eq!(kinds(&narrow), [started(1)]);
        assert_eq!((wide.missed.load(Relaxed), narrow.missed.load(Relaxed)), (0, 2));
        assert_eq!((wide.gate.capacity(), narrow.gate.capacity()), (CAPACITY_MAX, 1));
    }

    #[test]
    fn the_end_comes_after_what_was_told_and_is_there_for_who_comes_late() {
        let bus = Bus::default();
        let feed = bus.subscribe(4);
        bus.tell(|| EventKind::DroppedNewest);
        bus.close();
        bus.tell(|| unreachable!("nobody is told anything any more"));
        assert_eq!(kinds(&feed), [EventKind::DroppedNewest]);
        assert_eq!(feed.gate.try_dequeue(), Err(NoValue::Closed));
        assert_eq!(bus.subscribe(4).gate.try_dequeue(), Err(NoValue::Closed));
    }

    #[test]
    fn events_print_as_sentences() {
        let up = EventKind::ScaledUp { from: 2, to: 4, reason: Some(scale::Reason::BelowMin { least: 4 }) };
        let event = Event { at: Duration::from_millis(1500), kind: up };
        let reason = "there are fewer workers than workers_min (4)";
        assert_eq!(event.to_string(), format!("1.500 s: scaled up from 2 to 4 workers: {reason}"));
        let reason = steal::Reason::MostQueued { queued: 9 };
        let stole = EventKind::Stole { thief: 1, victim: 0, tasks: 4, reason };
        assert_eq!(
            stole.to_string(),
            "worker 1 took 4 tasks from worker 0: it has the most tasks waiting: 9"
        );
        assert_eq!(
            EventKind::ScaledDown { from: 4, to: 2, reason: None }.to_string(),
            "scaled down from 4 to 2 workers"
        );
    }
}
