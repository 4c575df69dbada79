//! Numbers for tasks: which task a number means, and which numbers ended and were not fetched yet.
//!
//! C knows tasks by numbers from 1. A request that brings no id of its own gets its number as its id, so
//! nothing has to be remembered for it; only ids that requests bring, streams and callbacks are kept in a
//! table. What the store of results has let go of is swept out when the tables have doubled, so they stay as
//! bounded as the store.
//!
//! Not here: the results themselves; the service keeps them.

use crate::stream::StreamReader;
use millpond_tasks::{ServiceHandle, TaskId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The tables are not swept while they are smaller than this.
const SWEEP_FROM: usize = 1024;
/// How many streams may still be read whose results were fetched; then the oldest go.
const FETCHED_STREAMS_MAX: usize = 1024;
/// How many ends wait for whoever asks for the next one; then the oldest are not told that way any more.
const ENDED_MAX: usize = 1 << 20;

/// What is remembered of tasks whose number does not say it all.
#[derive(Default)]
struct Table {
    special: HashMap<u64, Special>,
    by_id: HashMap<TaskId, u64>,
    /// Those whose result was fetched and whose stream was not read to its end, oldest first.
    fetched_streams: VecDeque<u64>,
    sweep_at: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Special {
    /// What the request calls it, if it does.
    pub(crate) id: Option<TaskId>,
    pub(crate) stream: Option<Arc<StreamReader>>,
    /// Its result goes to a callback and to nobody else.
    pub(crate) has_callback: bool,
    /// Only its stream is left.
    pub(crate) is_fetched: bool,
}

/// Numbers that ended and were not fetched.
#[derive(Default)]
struct Ended {
    /// Oldest first. Those that are not in `unfetched` do not count.
    numbers: VecDeque<u64>,
    unfetched: HashSet<u64>,
    /// Fetched by somebody who knew of the end before it was told here.
    fetched_early: HashSet<u64>,
    /// Given to somebody who asked for the next one, and whether another was quicker to fetch it.
    given: HashMap<u64, bool>,
    /// Nothing more will end.
    is_closed: bool,
}

/// The numbers of one pool.
#[derive(Default)]
pub(crate) struct Numbers {
    last: AtomicU64,
    table: Mutex<Table>,
    ended: Mutex<Ended>,
    one_more: Condvar,
}

impl Numbers {
    /// A new number.
    pub(crate) fn next(&self) -> u64 {
        self.last.fetch_add(1, Relaxed) + 1
    }

    /// Whether this number was given once.
    pub(crate) fn was_given(&self, number: u64) -> bool {
        (1..=self.last.load(Relaxed)).contains(&number)
    }

    /// Remembers what a number alone does not say.
    pub(crate) fn note(&self, number: u64, special: Special, service: &ServiceHandle) {
        let mut table = self.table();
        if table.special.len() >= table.sweep_at.max(SWEEP_FROM) {
            table.sweep(service);
        }
        table.special.insert(number, special);
    }

    /// A task that brought its own id was accepted: from now on the id means this number.
    pub(crate) fn named(&self, id: &TaskId, number: u64) {
        if !matches!(id, TaskId::Assigned(_)) {
            self.table().by_id.insert(id.clone(), number);
        }
    }

    /// Forgets what was noted: the task was refused, or told its callback.
    pub(crate) fn forget(&self, number: u64) {
        let gone = self.table().remove(number);
        // What a stream's reader holds is let go of after the lock.
        drop(gone);
    }

    /// A result was fetched. Only the rest of its stream is still of interest.
    pub(crate) fn was_fetched(&self, number: u64) {
        let mut ended = self.ended();
        if let Some(is_fetched) = ended.given.get_mut(&number) {
            *is_fetched = true;
        } else if !ended.unfetched.remove(&number) {
            ended.fetched_early.insert(number);
        }
        drop(ended);
        let mut table = self.table();
        let streams = table.special.get_mut(&number).filter(|special| special.stream.is_some());
        let gone = match streams {
            Some(special) => {
                special.is_fetched = true;
                table.fetched_streams.push_back(number);
                let is_full = table.fetched_streams.len() > FETCHED_STREAMS_MAX;
                let oldest = is_full.then(|| table.fetched_streams.pop_front()).flatten();
                oldest.and_then(|oldest| table.remove(oldest))
            }
            None => table.remove(number),
        };
        drop(table);
        drop(gone);
    }

    /// A stream was read to its end.
    pub(crate) fn stream_is_over(&self, number: u64) {
        let mut table = self.table();
        let gone = if table.special.get(&number).is_some_and(|special| special.is_fetched) {
            table.fetched_streams.retain(|other| *other != number);
            table.remove(number)
        } else {
            None
        };
        drop(table);
        drop(gone);
    }

    /// What was noted of a number.
    pub(crate) fn special(&self, number: u64) -> Special {
        self.table().special.get(&number).cloned().unwrap_or_default()
    }

    /// The number of a task that was accepted before.
    pub(crate) fn number_of(&self, id: &TaskId) -> Option<u64> {
        match id {
            TaskId::Assigned(number) => Some(*number),
            other => self.table().by_id.get(other).copied(),
        }
    }

    /// A task has ended, and its result may be fetched by whoever comes first.
    pub(crate) fn has_ended(&self, number: u64) {
        let mut ended = self.ended();
        if ended.fetched_early.remove(&number) {
            return;
        }
        ended.unfetched.insert(number);
        ended.numbers.push_back(number);
        ended.tidy();
        drop(ended);
        self.one_more.notify_one();
    }

    /// The oldest number that ended and was not fetched, waiting for one until then. Nobody else is given it;
    /// say [`was_tried`](Self::was_tried) once it was asked for.
    pub(crate) fn next_ended(&self, until: Instant) -> Option<u64> {
        let mut ended = self.ended();
        loop {
            while let Some(number) = ended.numbers.pop_front() {
                if ended.unfetched.remove(&number) {
                    ended.given.insert(number, false);
                    return Some(number);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if ended.is_closed || left.is_zero() {
                return None;
            }
            let woken = millpond::blocking(|| self.one_more.wait_timeout(ended, left));
            ended = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A number of [`next_ended`](Self::next_ended) was asked for. Says whether its result was fetched, by
    /// whomever.
    pub(crate) fn was_tried(&self, number: u64) -> bool {
        self.ended().given.remove(&number).unwrap_or_default()
    }

    /// Nothing more will end; whoever waits is let go.
    pub(crate) fn close(&self) {
        self.ended().is_closed = true;
        self.one_more.notify_all();
        let table = std::mem::take(&mut *self.table());
        drop(table);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ended {
    /// Drops numbers that were fetched once they are the most, and the oldest if there are too many.
    fn tidy(&mut self) {
        if self.numbers.len() > 2 * self.unfetched.len() + SWEEP_FROM {
            let unfetched = &self.unfetched;
            self.numbers.retain(|number| unfetched.contains(number));
        }
        if self.numbers.len() > ENDED_MAX
            && let Some(oldest) = self.numbers.pop_front()
        {
            self.unfetched.remove(&oldest);
        }
    }
}

impl Table {
    fn remove(&mut self, number: u64) -> Option<Special> {
        let gone = self.special.remove(&number)?;
        if let Some(id) = &gone.id
            && self.by_id.get(id) == Some(&number)
        {
            self.by_id.remove(id);
        }
        Some(gone)
    }

    fn id_of(&self, number: u64) -> TaskId {
        let noted = self.special.get(&number).and_then(|special| special.id.clone());
        noted.unwrap_or(TaskId::Assigned(number))
    }

    fn sweep(&mut self, service: &ServiceHandle) {
        let known: HashMap<_, _> = self.special.keys().map(|number| (*number, self.id_of(*number))).collect();
        let is_known = |number: &u64| known.get(number).is_some_and(|id| service.get(id).is_ok());
        self.special.retain(|number, special| special.is_fetched || is_known(number));
        self.by_id.retain(|_, number| self.special.contains_key(number));
        self.sweep_at = 2 * self.special.len();
    }
}

/// When a wait of so many milliseconds is over.
pub(crate) fn deadline(timeout_ms: u32) -> Instant {
    Instant::now() + Duration::from_millis(timeout_ms.into())
}
