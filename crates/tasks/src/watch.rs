//! Who wants to know about a task: readers of its stream and of its result.
//!
//! A reader is told that something changed, never what: it then reads as much as it has room for, from where
//! it stopped. So a slow reader costs memory at nobody, and holds back only the task it reads.

use crate::error::{ErrorCode, TaskFailure};
use crate::stream::StreamEvent;
use crate::task::Task;
use std::fmt;
use std::sync::Arc;

/// Somebody who is told that a task changed.
pub trait Watch: Send + Sync {
    /// The task that was given `tag` has said something or has ended. Called from any thread and without
    /// locks; must be quick and must not wait.
    fn told(&self, tag: u64, task: &Arc<Task>);
}

/// What a reader wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// That the task has ended.
    Result,
    /// Everything it says, from this offset on, and that it has ended.
    Stream {
        /// The first event that is wanted; 0 is the first of all.
        from: u64,
    },
}

/// Somebody who wants to know about one task.
#[derive(Clone)]
pub struct Reader {
    /// Who.
    pub who: Arc<dyn Watch>,
    /// What `who` calls this task.
    pub tag: u64,
    /// What about.
    pub wants: Wants,
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reader").field("tag", &self.tag).field("wants", &self.wants).finish()
    }
}

/// A reader that a task knows, with how far it has read.
pub(crate) struct Known {
    pub(crate) number: u64,
    pub(crate) reader: Reader,
    /// The next offset it will read.
    pub(crate) next: u64,
    /// It stood still for too long, so nobody waits for it until it moves.
    pub(crate) is_given_up: bool,
}

impl Known {
    pub(crate) fn streams(&self) -> bool {
        matches!(self.reader.wants, Wants::Stream { .. })
    }
}

/// A reader's side: reads, and stops watching when it is dropped.
pub struct Watching {
    task: Arc<Task>,
    number: u64,
    next: u64,
}

impl Task {
    /// Lets somebody know. If there is something to read already, or the task has ended, they are told at
    /// once. Refused if the task has too many readers.
    pub fn watch(self: &Arc<Self>, reader: Reader) -> Result<Watching, TaskFailure> {
        let next = match reader.wants {
            Wants::Stream { from } => from,
            Wants::Result => 0,
        };
        let (who, tag) = (Arc::clone(&reader.who), reader.tag);
        let readers_max = self.shared.config.stream.readers_max;
        let mut state = self.lock();
        let news = match reader.wants {
            Wants::Stream { from } => state.stream.as_ref().is_some_and(|stream| from < stream.next()),
            Wants::Result => false,
        };
        let number = if self.is_ended() {
            0
        } else {
            if state.readers.len() >= readers_max {
                let message = format!(
                    "task {}: {readers_max} readers watch it already; raise stream.readers_max",
                    self.id()
                );
                return Err(TaskFailure::new(ErrorCode::QueueFull, message));
            }
            state.add_reader(reader)
        };
        drop(state);
        if number == 0 || news {
            who.told(tag, self);
        }
        Ok(Watching { task: Arc::clone(self), number, next })
    }
}

impl Watching {
    pub(crate) fn new(task: Arc<Task>, number: u64, wants: Wants) -> Self {
        let next = match wants {
            Wants::Stream { from } => from,
            Wants::Result => 0,
        };
        Self { task, number, next }
    }

    /// The task.
    pub fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// The next offset to be read.
    pub fn next_offset(&self) -> u64 {
        self.next
    }

    /// Appends what came since the last call, about `bytes_max` at most but one event at least if there is
    /// any. Says whether there is more now. What was read makes room for a handler that waits.
    pub fn read(&mut self, bytes_max: usize, out: &mut Vec<StreamEvent>) -> bool {
        let mut state = self.task.lock();
        let Some(stream) = &state.stream else { return false };
        let next = stream.read(self.next, bytes_max, out);
        let more = next < stream.next();
        if next != self.next {
            self.next = next;
            state.reader_moved(self.number, next);
            self.task.wake_waiting(&state);
        }
        more
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut state = self.task.lock();
        let gone = state.remove_reader(self.number);
        self.task.wake_waiting(&state);
        drop(state);
        drop(gone);
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.task.id();
        formatter.debug_struct("Watching").field("task", id).field("next", &self.next).finish()
    }
}
