//! What is kept of an ended task until its spans are sent: names, times and attempts, and no data.
//!
//! It is copied out of the task at its end, so that arguments and results, which may be large, do not live
//! longer because somebody traces. Messages are cut for the same reason.

use crate::context::Context;
use millpond_tasks::{Task, TaskStatus, Try};

/// The most bytes of a message that a span is given.
const MESSAGE_BYTES_MAX: usize = 1024;

/// One ended task.
#[derive(Debug)]
pub(crate) struct Record {
    /// The task's own span.
    pub(crate) own: Context,
    /// The span that asked for it.
    pub(crate) parent: Option<u64>,
    pub(crate) accepted_ns: u64,
    pub(crate) status: TaskStatus,
    pub(crate) tries: Vec<Try>,
}

impl Record {
    /// What is kept of a task that has ended; none if it is not traced.
    pub(crate) fn of(task: &Task) -> Option<Self> {
        let own = Context::parse(task.own_traceparent()?)?;
        let parent = task.traceparent().and_then(Context::parse).map(|parent| parent.span);
        let mut status = task.status();
        if let Some(message) = &mut status.message {
            cut(message);
        }
        Some(Self { own, parent, accepted_ns: task.accepted_unix_ns(), status, tries: task.tries() })
    }

    /// How many spans are made of it.
    pub(crate) fn span_count(&self) -> u64 {
        1 + self.tries.len() as u64
    }

    /// When it ended, in Unix time. An attempt that ended it knows exactly; otherwise it ended when this
    /// record was made, which is a moment later.
    pub(crate) fn ended_ns(&self) -> u64 {
        let by_attempt = self.tries.last().filter(|last| last.error == self.status.error);
        let after_us = by_attempt.map_or(self.status.age_us, |last| last.began_after_us + last.ran_us);
        self.at_us(after_us)
    }

    /// So long after the acceptance, in Unix time.
    pub(crate) fn at_us(&self, after_us: u64) -> u64 {
        self.accepted_ns.saturating_add(after_us.saturating_mul(1000))
    }
}

/// Cuts a message, and lets go of the memory.
fn cut(message: &mut String) {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let mut message = "ä".repeat(600);
        cut(&mut message);
        assert_eq!(message, "ä".repeat(512));
        message = "a".to_owned() + &"ä".repeat(600);
        cut(&mut message);
        assert_eq!(message.len(), 1023);
    }
}
