//! All tasks that are known: those under way, and those whose outcome is kept. Found by id, listed by age.
//!
//! The list is cut into parts with a lock each, by the id. Workers never look at it, since a queued task
//! carries what it needs, so the list grows without anybody standing still; a part that moves its entries
//! delays only who looks for an id of the same part. Whoever lists tasks takes a few from each part at a
//! time, so no lock is held for long and only what is shown is copied.
//!
//! Not here: when a task leaves the list (`results.rs`), what a page of it shows (`page.rs`).

use crate::order::Order;
use crate::request::TaskId;
use crate::stages::StageCounts;
use crate::task::{Stage, Task};
use std::collections::hash_map::{Entry, RandomState};
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A power of two; more than the threads that submit and end tasks at once on any machine we know.
const PARTS: usize = 64;
/// How many tasks are taken from a part at once: at first, since a page is short, and later.
const BATCH_MIN: usize = 4;
const BATCH_MAX: usize = 64;
/// In how many tasks of each part the oldest one that waits is looked for.
const LOOKED_AT_MAX: usize = 32;
/// How many tasks of each part are stepped over to find those, at most.
const STEPPED_OVER_MAX: usize = 1024;

#[derive(Default)]
struct Part {
    /// Each with its place in the order.
    by_id: HashMap<TaskId, u64>,
    order: Order<Arc<Task>>,
}

pub(crate) struct TaskList {
    parts: [Mutex<Part>; PARTS],
    hasher: RandomState,
    /// The last id given.
    assigned: AtomicU64,
    /// The last place given in the order of acceptance.
    sequence: AtomicU64,
    /// Of those that are known.
    pub(crate) stages: StageCounts,
}

impl TaskList {
    pub(crate) fn new() -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            assigned: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            stages: StageCounts::default(),
        }
    }

    /// An id that nobody has.
    pub(crate) fn assign(&self) -> TaskId {
        TaskId::Assigned(self.assigned.fetch_add(1, Relaxed) + 1)
    }

    /// The next place in the order of acceptance, from 1.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) + 1
    }

    /// Ids and places go on behind these.
    pub(crate) fn go_on_from(&self, assigned: u64, sequence: u64) {
        self.assigned.fetch_max(assigned, Relaxed);
        self.sequence.fetch_max(sequence, Relaxed);
    }

    /// The last id given.
    pub(crate) fn last_assigned(&self) -> u64 {
        self.assigned.load(Relaxed)
    }

    /// The last place given.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.sequence.load(Relaxed)
    }

    /// Whether this id was given once.
    pub(crate) fn was_assigned(&self, id: &TaskId) -> bool {
        matches!(id, TaskId::Assigned(number) if (1..=self.assigned.load(Relaxed)).contains(number))
    }

    /// Adds a task that begins at this stage; false if its id is taken.
    pub(crate) fn add(&self, task: &Arc<Task>, stage: Stage) -> bool {
        let mut part = self.part(task.id());
        match part.by_id.entry(task.id().clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(task.sequence);
                part.order.add(task.sequence, Arc::clone(task));
                // Before anybody can find and move it.
                self.stages.entered(stage);
                true
            }
        }
    }

    pub(crate) fn get(&self, id: &TaskId) -> Option<Arc<Task>> {
        let part = self.part(id);
        part.order.get(*part.by_id.get(id)?).cloned()
    }

    /// Takes out a task that has ended. Its id may have gone to another one meanwhile; that stays.
    pub(crate) fn remove(&self, task: &Arc<Task>) {
        let mut part = self.part(task.id());
        if part.by_id.get(task.id()) == Some(&task.sequence) {
            part.by_id.remove(task.id());
            part.order.remove(task.sequence);
            self.stages.left(Stage::Ended);
        }
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).by_id.len()).sum()
    }

    /// Those with these places in the order, each if it is still known; 0 is nobody's.
    pub(crate) fn find(&self, sequences: Vec<u64>) -> Vec<Option<Arc<Task>>> {
        let mut found = vec![None; sequences.len()];
        if sequences.iter().all(|sequence| *sequence == 0) {
            return found;
        }
        for part in &self.parts {
            let part = lock(part);
            for (sequence, found) in sequences.iter().zip(&mut found) {
                if *sequence > 0 && found.is_none() {
                    *found = part.order.get(*sequence).cloned();
                }
            }
        }
        found
    }

    /// Since when the oldest task of each priority has been waiting for a worker, most urgent first. Of the
    /// tasks that have not ended the first few of each part are looked at: those that wait longest are among
    /// them, unless a great many that were accepted earlier wait for something else.
    pub(crate) fn oldest_queued(&self) -> [Option<Instant>; 3] {
        let mut oldest = [None::<Instant>; 3];
        for part in &self.parts {
            let mut part = lock(part);
            // A task's lock inside a part's: the other way round it is never done.
            let unended = part.order.first_unended(|task| task.is_ended()).take(STEPPED_OVER_MAX);
            for task in unended.filter(|task| !task.is_ended()).take(LOOKED_AT_MAX) {
                let state = task.lock();
                if state.stage == Stage::Queued {
                    let since = state.queued_since.unwrap_or(task.accepted_at);
                    let known = &mut oldest[task.priority as usize];
                    *known = Some(known.map_or(since, |known| known.min(since)));
                }
            }
        }
        oldest
    }

    /// All of them, part by part.
    pub(crate) fn all(&self) -> Vec<Arc<Task>> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(lock(part).order.below(u64::MAX).map(|(_, task)| Arc::clone(task)));
        }
        all
    }

    /// Those that came before this place in the order, newest first.
    pub(crate) fn newest(&self, before: u64) -> Newest<'_> {
        let mut newest = Newest {
            list: self,
            heads: BinaryHeap::new(),
            batches: [const { Vec::new() }; PARTS],
            batch: BATCH_MIN,
        };
        for part in 0..PARTS {
            newest.refill(part, before);
        }
        newest.batch = BATCH_MAX;
        newest
    }

    fn part(&self, id: &TaskId) -> MutexGuard<'_, Part> {
        let spread = match id {
            // Neighbours lie in different parts.
            TaskId::Assigned(number) | TaskId::Number(number) => *number as usize,
            TaskId::Name(name) => self.hasher.hash_one(name) as usize,
        };
        lock(&self.parts[spread % PARTS])
    }
}

/// Tasks, newest first. Those that come meanwhile are not among them, those that leave may be.
pub(crate) struct Newest<'a> {
    list: &'a TaskList,
    /// The newest of each part that has one, by its place in the order.
    heads: BinaryHeap<(u64, usize)>,
    /// What was taken from each part, oldest first.
    batches: [Vec<Arc<Task>>; PARTS],
    batch: usize,
}

impl Newest<'_> {
    /// Takes more from a part that has no batch.
    fn refill(&mut self, part: usize, before: u64) {
        let batch = &mut self.batches[part];
        let of_list = lock(&self.list.parts[part]);
        batch.extend(of_list.order.below(before).take(self.batch).map(|(_, task)| Arc::clone(task)));
        drop(of_list);
        batch.reverse();
        self.heads.extend(batch.last().map(|newest| (newest.sequence, part)));
    }
}

impl Iterator for Newest<'_> {
    type Item = Arc<Task>;

    fn next(&mut self) -> Option<Arc<Task>> {
        let (sequence, part) = self.heads.pop()?;
        let task = self.batches[part].pop()?;
        match self.batches[part].last() {
            Some(next) => self.heads.push((next.sequence, part)),
            None => self.refill(part, sequence),
        }
        Some(task)
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
