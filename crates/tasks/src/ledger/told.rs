//! The thread that does what follows once something was kept: sets tasks going, sets outcomes, tells those who wait.
//!
//! The journal's writer leaves a note for each record that somebody waits for, and goes on writing. All notes of a
//! batch are taken at once, so the thread is woken once for each batch. What found no room on the disk is tried
//! again, a few times a second, until there is some.
//!
//! There are no more notes than tasks under way, so the list needs no limit of its own.

use super::Ended;
use crate::task::Task;
use millpond_journal::{AppendError, Receipt};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long an end that found no room waits before it is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What somebody waits for.
pub(super) enum Told {
    /// That a task is accepted.
    Kept(Arc<Task>),
    /// That a task has ended.
    Ended(Arc<Task>, Box<Ended>),
}

struct Note {
    told: Told,
    outcome: Result<(), AppendError>,
}

#[derive(Default)]
struct Notes {
    list: Vec<Note>,
    is_over: bool,
}

#[derive(Default)]
struct Inbox {
    notes: Mutex<Notes>,
    came: Condvar,
}

pub(super) struct TellThread {
    inbox: Arc<Inbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl TellThread {
    pub(super) fn start() -> std::io::Result<Self> {
        let inbox = Arc::<Inbox>::default();
        let of_thread = Arc::clone(&inbox);
        let thread =
            thread::Builder::new().name("millpond-ledger".to_owned()).spawn(move || of_thread.run())?;
        Ok(Self { inbox, thread: Mutex::new(Some(thread)) })
    }

    /// Tells when the receipt's records are kept, or why they are not.
    pub(super) fn when_synced(&self, receipt: Receipt, told: Told) {
        let inbox = Arc::clone(&self.inbox);
        receipt.on_synced(move |outcome| inbox.put(Note { told, outcome }));
    }

    pub(super) fn tell(&self, told: Told, outcome: Result<(), AppendError>) {
        self.inbox.put(Note { told, outcome });
    }

    /// Tells what is left, and ends the thread.
    pub(super) fn stop(&self) {
        self.inbox.lock().is_over = true;
        self.inbox.came.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for TellThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, note: Note) {
        let mut notes = self.lock();
        let was_empty = notes.list.is_empty();
        notes.list.push(note);
        drop(notes);
        if was_empty {
            self.came.notify_one();
        }
    }

    fn run(&self) {
        let mut spare = Vec::new();
        // Ends that found no room, each with when it is tried again.
        let mut again: VecDeque<(Instant, Arc<Task>, Ended)> = VecDeque::new();
        loop {
            let mut notes = self.lock();
            while notes.list.is_empty() {
                let wait = again.front().map(|(at, ..)| at.saturating_duration_since(Instant::now()));
                if notes.is_over || wait.is_some_and(|wait| wait.is_zero()) {
                    break;
                }
                notes = match wait {
                    Some(wait) => {
                        self.came.wait_timeout(notes, wait).unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self.came.wait(notes).unwrap_or_else(PoisonError::into_inner),
                };
            }
            let is_over = notes.is_over && notes.list.is_empty();
            mem::swap(&mut notes.list, &mut spare);
            drop(notes);
            if is_over {
                // What found no room to the last is done once more after the restart, as the journal has it.
                return;
            }
            for Note { told, outcome } in spare.drain(..) {
                let (Told::Kept(task) | Told::Ended(task, _)) = &told;
                let shared = Arc::clone(&task.shared);
                if let Some(Told::Ended(task, ended)) = shared.hear(told, outcome) {
                    again.push_back((Instant::now() + AGAIN_AFTER, task, *ended));
                }
            }
            while again.front().is_some_and(|(at, ..)| *at <= Instant::now()) {
                if let Some((_, task, ended)) = again.pop_front() {
                    task.shared.end_again(&task, ended);
                }
            }
        }
    }
}
