//! Where tasks wait that were accepted and find no room in the pool's queue: in lanes of priority, in their order.
//!
//! A task that was promised to run cannot be refused any more. Whoever takes a task out of the queue sees to it
//! that the next ones come in, so nobody has to look for room every so often, however many wait. Nobody is left
//! behind: a task is put here first and room is looked for then, so either there is room, or somebody who will
//! begin a task later sees it.
//!
//! Tasks are moved by the timer's thread. A worker must not: what it submits goes to its own queue, past those that
//! wait.
//!
//! Tasks with a key may only wait for one worker, so they have a lane of their own and hold up nobody.

use crate::attempt::NoRoom;
use crate::service::Shared;
use crate::task::Task;
use millpond::Priority;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Three of priority, and one for tasks with a key.
const LANES: usize = 4;
/// How many tasks are moved at once, so that others on the timer's thread come to their turn.
const MOVED_MAX: usize = 1024;
/// In the lane of keys, how many are passed over because their worker has no room.
const PASSED_OVER_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Backlog {
    /// By their place in the order of acceptance.
    lanes: Mutex<[BTreeMap<u64, Arc<Task>>; LANES]>,
    len: AtomicUsize,
    /// The timer's thread has been asked to move some, and has not begun.
    is_planned: AtomicBool,
}

fn lane(task: &Task) -> usize {
    match (task.affinity, task.priority) {
        (Some(_), _) => 3,
        (None, Priority::High) => 0,
        (None, Priority::Normal) => 1,
        (None, Priority::Low) => 2,
    }
}

impl Backlog {
    /// How many wait here.
    pub(crate) fn len(&self) -> usize {
        self.len.load(SeqCst)
    }

    pub(crate) fn add(&self, task: &Arc<Task>) {
        let mut lanes = self.lock();
        if lanes[lane(task)].insert(task.sequence, Arc::clone(task)).is_none() {
            self.len.fetch_add(1, SeqCst);
        }
    }

    /// The task has ended.
    pub(crate) fn remove(&self, task: &Task) {
        let mut lanes = self.lock();
        let gone = lanes[lane(task)].remove(&task.sequence);
        if gone.is_some() {
            self.len.fetch_sub(1, SeqCst);
        }
        drop(lanes);
        drop(gone);
    }

    /// The first of a lane from this place on.
    fn take(&self, lane: usize, from: u64) -> Option<Arc<Task>> {
        let mut lanes = self.lock();
        let sequence = *lanes[lane].range(from..).next()?.0;
        let task = lanes[lane].remove(&sequence);
        self.len.fetch_sub(1, SeqCst);
        task
    }

    fn lock(&self) -> MutexGuard<'_, [BTreeMap<u64, Arc<Task>>; LANES]> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Lets a task that found no room wait for some.
    pub(crate) fn wait_for_room(self: &Arc<Self>, task: &Arc<Task>) {
        self.put_into_backlog(task);
        self.feed();
    }

    fn put_into_backlog(&self, task: &Arc<Task>) {
        self.backlog.add(task);
        // Whoever ended it meanwhile did not find it there.
        if task.has_left() {
            self.backlog.remove(task);
        }
    }

    /// There may be room: has tasks moved into the queue, soon.
    pub(crate) fn feed(self: &Arc<Self>) {
        if self.backlog.len() > 0 && !self.backlog.is_planned.swap(true, SeqCst) {
            let shared = Arc::clone(self);
            self.timer.after(Duration::ZERO, move || {
                shared.backlog.is_planned.store(false, SeqCst);
                shared.move_in();
            });
        }
    }

    fn move_in(self: &Arc<Self>) {
        let mut left = MOVED_MAX;
        for lane in 0..LANES {
            let mut passed_over = 0;
            let mut from = 0;
            while left > 0 {
                let Some(task) = self.backlog.take(lane, from) else { break };
                from = task.sequence + 1;
                left -= 1;
                match task.queue() {
                    Ok(()) => {}
                    Err(NoRoom::Closed) => task.stops_unrun(),
                    Err(NoRoom::Full) => {
                        self.put_into_backlog(&task);
                        passed_over += 1;
                        if lane != LANES - 1 || passed_over == PASSED_OVER_MAX {
                            break;
                        }
                    }
                }
            }
        }
    }
}
