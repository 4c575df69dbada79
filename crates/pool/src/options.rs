//! What a caller may say about a task: how urgent, where, by when, how long it will take, and its name.
//!
//! All of it is optional, and a task without options carries none of it. Priority and affinity only choose the
//! queue, so they cost nothing afterwards; a name and times live with the task.

use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Which lane a task waits in. A lower lane still gets its share: see
/// [`lane_weights`](crate::PoolConfig::lane_weights).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Before the others, most of the time.
    High,
    /// The lane of every task that says nothing else.
    #[default]
    Normal,
    /// When there is little else to do, but always in the end.
    Low,
}

impl Priority {
    /// All of them, most urgent first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    pub(crate) fn lane(self) -> usize {
        self as usize
    }
}

/// What a caller says about a task. See [`PoolHandle::with`](crate::PoolHandle::with).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOptions {
    /// Shown in reports and by [`Ticket`](crate::Ticket)'s `Debug`.
    pub name: Option<Cow<'static, str>>,
    /// Which lane it waits in.
    pub priority: Priority,
    /// Tasks with the same key go to the same worker while the number of workers stays the same, so that what they
    /// share stays warm there. A worker that would sleep otherwise may take them over.
    pub affinity: Option<u64>,
    /// The task must be done by then. Waiting in the queue counts. One that is already past is refused.
    pub deadline: Option<Instant>,
    /// As `deadline`, counted from the submission. If both are given, the earlier one holds.
    pub timeout: Option<Duration>,
    /// How long it will probably run. A task that could not be done by its deadline is not begun.
    pub expected: Option<Duration>,
}

impl TaskOptions {
    /// When the task must be done: the earlier of `deadline` and `timeout` from `now`.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        // A time-out past the end of the clock is no time-out.
        let timeout = self.timeout.and_then(|timeout| now.checked_add(timeout));
        match (self.deadline, timeout) {
            (Some(deadline), Some(timeout)) => Some(deadline.min(timeout)),
            (deadline, timeout) => deadline.or(timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_deadline_and_timeout_holds() {
        let now = Instant::now();
        let in_seconds = |seconds| now + Duration::from_secs(seconds);
        let both = TaskOptions {
            deadline: Some(in_seconds(5)),
            timeout: Some(Duration::from_secs(3)),
            ..TaskOptions::default()
        };
        assert_eq!(both.due(now), Some(in_seconds(3)));
        assert_eq!(TaskOptions { timeout: None, ..both.clone() }.due(now), Some(in_seconds(5)));
        assert_eq!(TaskOptions { timeout: Some(Duration::MAX), ..both }.due(now), Some(in_seconds(5)));
        assert_eq!(TaskOptions::default().due(now), None);
    }
}
