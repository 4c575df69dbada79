//! What happens in the service, told to whoever listens: tasks that move, and what the pool does about its
//! workers.
//!
//! While nobody listens, a task that moves costs one load. Whoever listens has a bounded queue of their own:
//! what does not fit is counted and lost, so a slow listener holds up nobody. Tasks are a sample: of each
//! stage no more than so many are told in a round, however many there are, because a page cannot show a
//! hundred thousand a second. A round ends every few hundredths of a second by the timer, which then also
//! fetches what the pool had to tell; that comes by so much later.
//!
//! A task tells of its moves under its own lock, so its news come in the order of its stages.

use crate::error::ErrorCode;
use crate::outcome::{Outcome, microseconds};
use crate::request::TaskId;
use crate::service::{ServiceHandle, Shared};
use crate::task::{Stage, Task};
use millpond::{Event, EventKind};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long a round takes.
const ROUND: Duration = Duration::from_millis(50);
/// How many tasks of each stage are told of in a round.
const TASKS_A_ROUND: u32 = 32;
/// How many events of each kind are fetched from the pool in a round.
const POOL_EVENTS_A_ROUND: u32 = 16;
/// How many events of the pool may wait for a round.
const POOL_EVENTS_MAX: usize = 1024;
/// The most that may wait for one listener.
const CAPACITY_MAX: usize = 1 << 16;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ServiceEvent {
    /// The pool did something.
    Pool(PoolNews),
    /// A task moved.
    Task(TaskNews),
}

/// What the pool did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolNews {
    /// When, in Unix time.
    pub at_ms: u64,
    /// What, for programs: `scaled-up`, `scaled-down`, `worker-started`, `worker-stopped`, `stole`,
    /// `refused`, `dropped-newest`, `dropped-oldest`, `strategy-swapped`, or `other`.
    pub kind: &'static str,
    /// What, as a sentence.
    pub text: String,
}

/// A task that moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskNews {
    /// When, in Unix time.
    pub at_ms: u64,
    /// Which task.
    pub task_id: TaskId,
    /// Who does it.
    pub handler: String,
    /// Where it stands now.
    pub stage: Stage,
    /// 0 or the number of its error, if it has ended. A task that was refused after all has ended, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// The name of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// How long it waited for its last attempt, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_us: Option<u64>,
    /// How long its last attempt took, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_us: Option<u64>,
}

/// Calls whoever waits for news.
pub type OnNews = Arc<dyn Fn() + Send + Sync>;

/// What happens from the moment of [`events`](ServiceHandle::events) on. Dropping it ends the subscription.
pub struct ServiceEvents {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
}

impl ServiceHandle {
    /// Listens to what happens from now on. Up to `capacity` events (1 to 65 536, the nearest of those) wait
    /// for the listener; what comes beyond is counted and lost.
    pub fn events(&self, capacity: usize) -> ServiceEvents {
        ServiceEvents { feed: self.shared.subscribe(capacity), shared: Arc::clone(&self.shared) }
    }
}

impl ServiceEvents {
    /// The next event, if there is one.
    pub fn try_recv(&self) -> Option<ServiceEvent> {
        self.feed.lock().events.pop_front()
    }

    /// The next event; waits at most so long. `None` may also mean that all is [over](Self::is_over).
    pub fn recv_timeout(&self, timeout: Duration) -> Option<ServiceEvent> {
        let nothing = |queue: &mut Queue| queue.events.is_empty() && !queue.is_over;
        let woken = millpond::blocking(|| {
            let queue = self.feed.lock();
            self.feed.came.wait_timeout_while(queue, timeout, nothing)
        });
        woken.unwrap_or_else(PoisonError::into_inner).0.events.pop_front()
    }

    /// Has `act` called when something comes and nothing had been waiting, and at the end; at once if that
    /// is so already. It may be called from any thread, with locks held: it must do no more than wake
    /// somebody.
    pub fn on_news(&self, act: OnNews) {
        let mut queue = self.feed.lock();
        let is_due = !queue.events.is_empty() || queue.is_over;
        queue.on_news = Some(Arc::clone(&act));
        drop(queue);
        if is_due {
            act();
        }
    }

    /// How many events were lost because as many as may wait did so already.
    pub fn missed(&self) -> u64 {
        self.feed.missed.load(Relaxed)
    }

    /// Whether the service has ended and all was received.
    pub fn is_over(&self) -> bool {
        let queue = self.feed.lock();
        queue.is_over && queue.events.is_empty()
    }
}

impl Drop for ServiceEvents {
    fn drop(&mut self) {
        self.shared.events.unsubscribe(&self.feed);
    }
}

impl fmt::Debug for ServiceEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.feed.lock().events.len();
        formatter
            .debug_struct("ServiceEvents")
            .field("waiting", &waiting)
            .field("missed", &self.missed())
            .finish()
    }
}

/// One subscription, as the service sees it.
struct Feed {
    queue: Mutex<Queue>,
    came: Condvar,
    capacity: usize,
    missed: AtomicU64,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<ServiceEvent>,
    on_news: Option<OnNews>,
    is_over: bool,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue, and wakes whoever waits if it was empty.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.lock();
        let on_news = queue.on_news.clone().filter(|_| queue.events.is_empty());
        change(&mut queue);
        drop(queue);
        self.came.notify_one();
        if let Some(act) = on_news {
            act();
        }
    }

    fn push(&self, event: ServiceEvent) {
        self.change(|queue| {
            if queue.events.len() < self.capacity {
                queue.events.push_back(event);
            } else {
                self.missed.fetch_add(1, Relaxed);
            }
        });
    }
}

/// Who listens to a service.
#[derive(Default)]
pub(crate) struct Bus {
    /// How many listen, to be read without the lock.
    listeners: AtomicUsize,
    /// How many tasks of each stage may still be told of in this round.
    left: [AtomicU32; Stage::ALL.len()],
    feeds: RwLock<Feeds>,
}

#[derive(Default)]
struct Feeds {
    open: Vec<Arc<Feed>>,
    /// What the pool tells, while somebody listens; rounds are planned as long as it is there.
    pool: Option<millpond::Events>,
    /// The service has ended.
    is_over: bool,
}

impl Bus {
    /// A task has come to this stage. Called under its lock.
    #[inline]
    pub(crate) fn tell(&self, task: &Task, stage: Stage) {
        if self.anybody() {
            self.tell_task(task, stage);
        }
    }

    /// Whether anybody listens.
    #[inline]
    pub(crate) fn anybody(&self) -> bool {
        self.listeners.load(Relaxed) > 0
    }

    #[cold]
    fn tell_task(&self, task: &Task, stage: Stage) {
        let left = &self.left[stage as usize];
        // Mostly there is nothing left under load, and then nobody writes here.
        if left.load(Relaxed) == 0 || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
        {
            return;
        }
        let outcome = task.outcome().filter(|_| stage == Stage::Ended);
        let failure = outcome.and_then(|outcome| outcome.result().err());
        let news = TaskNews {
            at_ms: task.shared.wall.unix_ns(Instant::now()) / 1_000_000,
            task_id: task.id().clone(),
            handler: task.handler().to_owned(),
            stage,
            status: outcome.map(Outcome::status),
            error: failure.map(|failure| ErrorCode::name(failure.code)),
            waited_us: outcome.map(|outcome| microseconds(outcome.waited)),
            ran_us: outcome.map(|outcome| microseconds(outcome.ran)),
        };
        self.push(&ServiceEvent::Task(news));
    }

    fn push(&self, event: &ServiceEvent) {
        let feeds = self.feeds.read().unwrap_or_else(PoisonError::into_inner);
        feeds.open.iter().for_each(|feed| feed.push(event.clone()));
    }

    /// As many tasks as a round has may be told of again.
    fn begin_round(&self) {
        self.left.iter().for_each(|left| left.store(TASKS_A_ROUND, Relaxed));
    }

    fn unsubscribe(&self, feed: &Arc<Feed>) {
        let mut feeds = self.feeds.write().unwrap_or_else(PoisonError::into_inner);
        feeds.open.retain(|open| !Arc::ptr_eq(open, feed));
        self.listeners.store(feeds.open.len(), Relaxed);
    }
}

impl Shared {
    fn subscribe(self: &Arc<Self>, capacity: usize) -> Arc<Feed> {
        let capacity = capacity.clamp(1, CAPACITY_MAX);
        let (queue, came, missed) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        let feed = Arc::new(Feed { queue, came, capacity, missed });
        let mut feeds = self.events.feeds.write().unwrap_or_else(PoisonError::into_inner);
        if feeds.is_over {
            feed.lock().is_over = true;
            return feed;
        }
        feeds.open.push(Arc::clone(&feed));
        self.events.listeners.store(feeds.open.len(), Relaxed);
        if feeds.pool.is_none() {
            feeds.pool = Some(self.pool.events(POOL_EVENTS_MAX));
            self.events.begin_round();
            self.plan_round();
        }
        feed
    }

    fn plan_round(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.timer.after(ROUND, move || {
            if let Some(shared) = weak.upgrade() {
                shared.end_round();
            }
        });
    }

    /// Fetches what the pool had to tell, and plans the next round if anybody still listens.
    fn end_round(self: &Arc<Self>) {
        self.fetch_from_pool();
        self.events.begin_round();
        let mut feeds = self.events.feeds.write().unwrap_or_else(PoisonError::into_inner);
        if feeds.open.is_empty() {
            feeds.pool = None;
        } else if feeds.pool.is_some() {
            self.plan_round();
        }
    }

    fn fetch_from_pool(&self) {
        let mut told: BTreeMap<&'static str, u32> = BTreeMap::new();
        let feeds = self.events.feeds.read().unwrap_or_else(PoisonError::into_inner);
        let Some(pool) = &feeds.pool else { return };
        // No more than may wait, so that a pool that never rests cannot keep us here.
        for event in std::iter::from_fn(|| pool.try_recv()).take(POOL_EVENTS_MAX) {
            let kind = kind_name(&event.kind);
            let of_kind = told.entry(kind).or_default();
            *of_kind += 1;
            if *of_kind <= POOL_EVENTS_A_ROUND {
                let news = ServiceEvent::Pool(self.pool_news(kind, &event));
                feeds.open.iter().for_each(|feed| feed.push(news.clone()));
            }
        }
    }

    fn pool_news(&self, kind: &'static str, event: &Event) -> PoolNews {
        // The pool started when the service did.
        let at_ms = self.wall.unix_ns(self.started_at + event.at) / 1_000_000;
        PoolNews { at_ms, kind, text: event.kind.to_string() }
    }

    /// Nothing will happen any more: tells what the pool still had to say, and ends every subscription.
    pub(crate) fn end_events(&self) {
        self.fetch_from_pool();
        let mut feeds = self.events.feeds.write().unwrap_or_else(PoisonError::into_inner);
        feeds.is_over = true;
        feeds.pool = None;
        self.events.listeners.store(0, Relaxed);
        for feed in feeds.open.drain(..) {
            feed.change(|queue| queue.is_over = true);
        }
    }
}

/// As it is written in JSON.
fn kind_name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::WorkerStarted { .. } => "worker-started",
        EventKind::WorkerStopped { .. } => "worker-stopped",
        EventKind::ScaledUp { .. } => "scaled-up",
        EventKind::ScaledDown { .. } => "scaled-down",
        EventKind::Stole { .. } => "stole",
        EventKind::Refused { .. } => "refused",
        EventKind::DroppedNewest => "dropped-newest",
        EventKind::DroppedOldest => "dropped-oldest",
        EventKind::StrategySwapped { .. } => "strategy-swapped",
        _ => "other",
    }
}
