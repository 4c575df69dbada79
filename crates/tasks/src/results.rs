//! Outcomes that are kept until somebody asks for them: bounded by number, by memory and by age.
//!
//! They go oldest first. Whether a full store makes room, or makes new tasks wait or go away, is a setting;
//! for the latter two a place is promised to every task that will need one, before it is accepted.
//!
//! Not here: finding a task by its id (`list.rs`).

use crate::config::{ResultSettings, ResultsFull};
use crate::task::Task;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The number of a task whose outcome somebody took, perhaps before it was kept.
const TAKEN: u64 = u64::MAX;

pub(crate) struct Results {
    settings: ResultSettings,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By the number under which each task was kept, so oldest first.
    queue: BTreeMap<u64, Entry>,
    /// The last number given.
    number: u64,
    bytes: u64,
    /// Tasks under way whose outcome will be kept.
    promised: usize,
    /// The service has ended.
    is_closed: bool,
    stats: ResultStats,
}

struct Entry {
    task: Arc<Task>,
    bytes: u64,
    since: Instant,
}

/// What became of outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResultStats {
    /// Kept now.
    pub kept: usize,
    /// About how much memory they take.
    pub bytes: u64,
    /// Gone because there was no room.
    pub dropped: u64,
    /// Gone because nobody asked for so long.
    pub aged: u64,
}

impl Results {
    pub(crate) fn new(settings: ResultSettings) -> Self {
        Self { settings, kept: Mutex::default() }
    }

    /// Promises a place to a new task; false if the store is full and its policy is not to make room.
    pub(crate) fn promise(&self) -> bool {
        if self.settings.full == ResultsFull::DropOldest {
            return true;
        }
        let mut kept = self.lock();
        let has_room =
            kept.queue.len() + kept.promised < self.settings.max && kept.bytes < self.settings.bytes_max;
        kept.promised += usize::from(has_room);
        has_room
    }

    /// Takes a promise back: the task was not accepted, or its outcome is not kept after all.
    pub(crate) fn unpromise(&self) {
        if self.settings.full != ResultsFull::DropOldest {
            let mut kept = self.lock();
            kept.promised = kept.promised.saturating_sub(1);
        }
    }

    /// Keeps the outcome of a task. What has to go is handed back, to be forgotten.
    pub(crate) fn keep(&self, task: &Arc<Task>, now: Instant) -> Vec<Arc<Task>> {
        let bytes = task.kept_bytes() as u64;
        let mut kept = self.lock();
        if self.settings.full != ResultsFull::DropOldest {
            kept.promised = kept.promised.saturating_sub(1);
        }
        if kept.is_closed || task.kept_as.load(Relaxed) == TAKEN {
            return vec![Arc::clone(task)];
        }
        kept.bytes += bytes;
        kept.number += 1;
        let number = kept.number;
        task.kept_as.store(number, Relaxed);
        kept.queue.insert(number, Entry { task: Arc::clone(task), bytes, since: now });
        if self.settings.full != ResultsFull::DropOldest {
            return Vec::new();
        }
        let mut gone = Vec::new();
        // The newest stays even if it alone takes more than the limit.
        while kept.queue.len() > 1
            && (kept.queue.len() > self.settings.max || kept.bytes > self.settings.bytes_max)
        {
            gone.extend(kept.pop());
            kept.stats.dropped += 1;
        }
        gone
    }

    /// Lets go of outcomes that are too old.
    pub(crate) fn forget_old(&self, now: Instant) -> Vec<Arc<Task>> {
        let Some(age_max) = self.settings.age_max else { return Vec::new() };
        let mut gone = Vec::new();
        let mut kept = self.lock();
        while let Some(oldest) = kept.queue.first_entry() {
            if now.saturating_duration_since(oldest.get().since) <= age_max {
                break;
            }
            gone.extend(kept.pop());
            kept.stats.aged += 1;
        }
        gone
    }

    /// Lets go of one outcome. One that has been set and is about to be kept will not be.
    pub(crate) fn take(&self, task: &Task) {
        let mut kept = self.lock();
        // The number is written under this lock.
        let taken = kept.queue.remove(&task.kept_as.swap(TAKEN, Relaxed));
        kept.bytes -= taken.as_ref().map_or(0, |entry| entry.bytes);
        drop(kept);
    }

    /// Lets go of all, and keeps nothing from now on.
    pub(crate) fn clear(&self) {
        let closed = Kept { is_closed: true, ..Kept::default() };
        let gone = std::mem::replace(&mut *self.lock(), closed);
        drop(gone);
    }

    pub(crate) fn stats(&self) -> ResultStats {
        let kept = self.lock();
        ResultStats { kept: kept.queue.len(), bytes: kept.bytes, ..kept.stats.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn pop(&mut self) -> Option<Arc<Task>> {
        let (_, oldest) = self.queue.pop_first()?;
        self.bytes -= oldest.bytes;
        Some(oldest.task)
    }
}
