//! Answers on their way into the file of results: written down by whoever ends a task, in the order of the
//! ends.
//!
//! The text is made on the thread that ends the task, under a short lock, so the door's thread only copies
//! bytes into a file. Which lines have ended travels with the text: a line counts as done when its answer is
//! written.
//!
//! A task that was refused or ended because the daemon stops has not been run. Its line gets no answer and is
//! left to the next process.
//!
//! Not here: the file (`results_file.rs`).

use super::bell::Bell;
use millpond_tasks::mailbox::{Reply, write_outcome, write_refused};
use millpond_tasks::{ErrorCode, Outcome, Refused, TaskId};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has ended since the door's thread last looked.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// Whole lines of JSON.
    pub(super) text: Vec<u8>,
    /// Whose answers those are, and lines that were not run.
    pub(super) lines: Vec<Done>,
}

/// One line that is not under way any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// The source it stood in.
    pub(super) source: u64,
    pub(super) line: u64,
    /// False if it is left to the next process.
    pub(super) was_run: bool,
}

/// The answers of one mailbox.
#[derive(Debug)]
pub(super) struct Outbox {
    finished: Mutex<Finished>,
    bell: Arc<Bell>,
}

impl Outbox {
    pub(super) fn new(bell: Arc<Bell>) -> Self {
        Self { finished: Mutex::default(), bell }
    }

    fn lock(&self) -> MutexGuard<'_, Finished> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all that has ended.
    pub(super) fn take(&self) -> Finished {
        mem::take(&mut self.lock())
    }

    /// How much text waits.
    pub(super) fn bytes(&self) -> usize {
        self.lock().text.len()
    }

    fn add(&self, source: u64, line: u64, answer: Option<impl FnOnce(&mut Vec<u8>)>) {
        let mut finished = self.lock();
        finished.lines.push(Done { source, line, was_run: answer.is_some() });
        if let Some(write) = answer {
            write(&mut finished.text);
            finished.text.push(b'\n');
        }
        drop(finished);
        self.bell.ring();
    }

    /// The answer to a line that was not handed on.
    pub(super) fn refuse(&self, source: u64, line: u64, refused: Refused) {
        let was_run = refused.failure.code != ErrorCode::Draining;
        self.add(source, line, was_run.then_some(|out: &mut Vec<u8>| write_refused(refused, line, out)));
    }
}

/// Whom the tasks of one source answer. The tag of a letter is the number of its line.
#[derive(Debug)]
pub(super) struct Correspondent {
    pub(super) outbox: Arc<Outbox>,
    pub(super) source: u64,
}

impl Reply for Correspondent {
    fn ended(&self, line: u64, id: &TaskId, outcome: &Outcome) {
        let was_run = outcome.result().err().is_none_or(|failure| failure.code != ErrorCode::Draining);
        let write = |out: &mut Vec<u8>| write_outcome(outcome, id, line, out);
        self.outbox.add(self.source, line, was_run.then_some(write));
    }

    fn refused(&self, line: u64, refused: Refused) {
        self.outbox.refuse(self.source, line, refused);
    }
}
