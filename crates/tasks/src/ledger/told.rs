//! The thread that does what follows once something was kept: sets tasks going, sets outcomes, tells those who wait.
//!
//! The journal's writer leaves a note for each record that somebody waits for, and goes on writing. The thread is woken
//! once for all notes of a batch. What found no room on the disk is tried again, a few times a second, until there is
//! some.
//!
//! There are no more notes than tasks under way, so the list needs no limit of its own.

use super::Ended;
use crate::task::Task;
use millpond_journal::{AppendError, Inbox, Receipt};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
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

/// What the journal delivers; none once it is the last.
type Notes = Inbox<Option<Told>>;

pub(super) struct TellThread {
    notes: Arc<Notes>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl TellThread {
    pub(super) fn start() -> std::io::Result<Self> {
        let notes = Arc::<Notes>::default();
        let of_thread = Arc::clone(&notes);
        let thread =
            thread::Builder::new().name("millpond-ledger".to_owned()).spawn(move || tell_all(&of_thread))?;
        Ok(Self { notes, thread: Mutex::new(Some(thread)) })
    }

    /// Tells when the receipt's records are kept, or why they are not.
    pub(super) fn when_synced(&self, receipt: Receipt, told: Told) {
        receipt.deliver(&self.notes, Some(told));
    }

    pub(super) fn tell(&self, told: Told, outcome: Result<(), AppendError>) {
        self.notes.put(Some(told), outcome);
    }

    /// Tells what is left, and ends the thread.
    pub(super) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.notes.put(None, Ok(()));
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for TellThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells everything that comes, until the last has come and nothing is left.
fn tell_all(inbox: &Notes) {
    let mut notes = Vec::new();
    let mut is_over = false;
    // Ends that found no room, each with when it is tried again.
    let mut again: VecDeque<(Instant, Arc<Task>, Ended)> = VecDeque::new();
    loop {
        match again.front() {
            _ if is_over && inbox.is_empty() => {
                // What found no room to the last is done once more after the restart, as the journal has it.
                return;
            }
            Some((at, ..)) => inbox.take_timeout(&mut notes, at.saturating_duration_since(Instant::now())),
            None => inbox.take(&mut notes),
        }
        for (told, outcome) in notes.drain(..) {
            let Some(told) = told else {
                is_over = true;
                continue;
            };
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
