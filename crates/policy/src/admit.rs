//! What happens to a task when the queue is full: five policies, and the rules that keep each of them from
//! hanging.
//!
//! The pool says how things stand at its door, gets the next step, takes it, and asks again if the step was
//! to wait or to drop. Every policy ends: dropping is tried so many times, waiting has a limit or ends when
//! the pool closes, and tasks are run on top of each other only so deep. A closed pool refuses whatever the
//! policy is.
//!
//! | policy | a full queue means |
//! |---|---|
//! | `reject` | the task goes back to its submitter |
//! | `drop-newest` | the new task is accepted and ends at once as dropped |
//! | `drop-oldest` | the oldest waiting task ends as dropped, and the new one takes its place |
//! | `block` | the submitter waits for a place; a worker of the same pool runs the task instead |
//! | `caller-runs` | the submitter runs the task itself, at once |
//!
//! Not here: keeping a third submitter from the place of a dropped task, where that can be done, and telling
//! the ticket of that task. Both are the pool's.

use crate::BadSetting;
use crate::setting::unknown_name;
use core::fmt;
use core::time::Duration;

/// How often a submitter tries to drop an old task for one new task. Each try may find its task already taken
/// by a worker, and then a place is likely to be free soon.
pub const DROPS_MAX: u32 = 8;

/// How many tasks may be run on top of each other by submitters. Each takes its share of one stack.
pub const DEPTH_MAX: u32 = 4;

/// What a full queue means for a new task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It goes back to its submitter.
    #[default]
    Reject,
    /// It is accepted, and ends at once as dropped.
    DropNewest,
    /// The oldest task that waits ends as dropped, and the new one takes its place.
    DropOldest,
    /// Its submitter waits for a place.
    Block {
        /// For so long at most; without, until there is a place or the pool closes.
        timeout: Option<Duration>,
    },
    /// Its submitter runs it.
    CallerRuns,
}

impl Policy {
    /// The names, as settings are written.
    pub const NAMES: &'static [&'static str] =
        &["reject", "drop-newest", "drop-oldest", "block", "caller-runs"];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::DropNewest => "drop-newest",
            Self::DropOldest => "drop-oldest",
            Self::Block { .. } => "block",
            Self::CallerRuns => "caller-runs",
        }
    }

    /// The policy of this name. `block` waits without a limit until it is given a timeout.
    pub fn by_name(name: &str) -> Result<Self, BadSetting> {
        match name {
            "reject" => Ok(Self::Reject),
            "drop-newest" => Ok(Self::DropNewest),
            "drop-oldest" => Ok(Self::DropOldest),
            "block" => Ok(Self::Block { timeout: None }),
            "caller-runs" => Ok(Self::CallerRuns),
            _ => Err(unknown_name("back_pressure.policy", Self::NAMES, name)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How things stand for one task that wants in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Door {
    /// No place is free.
    pub is_full: bool,
    /// The pool takes no more tasks.
    pub is_closed: bool,
    /// The submitter is a worker of this pool. If it waited for a place, it might wait for itself.
    pub is_worker: bool,
    /// How many tasks the submitter's thread already runs on top of each other because the queue was full.
    pub depth: u32,
    /// How deep it may go; [`DEPTH_MAX`] if nothing is said. A pool that gives its threads large stacks says
    /// more.
    pub depth_max: Option<u32>,
    /// How often an old task was looked for to be dropped for this one, in vain.
    pub drops: u32,
    /// How long the submitter has waited.
    pub waited: Duration,
}

/// What to do next with the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put it into the queue.
    Take,
    /// Give it back.
    Refuse(Refused),
    /// Accept it, and end it as dropped.
    DropThis,
    /// Drop the oldest task that waits, in the order of [`drop_order`], and put this one in its place. If a
    /// worker was faster, count one more in `drops` and ask again.
    DropOldestThenRetry,
    /// Wait for a place, at most so long, and ask again.
    Wait(Option<Duration>),
    /// Run it here and now.
    RunHere(RunHere),
}

/// Why a task is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full, and the policy says no more.
    Full,
    /// The pool is closed.
    Closed,
    /// Workers were faster than the submitter every time it looked for an old task to drop.
    NothingToDrop {
        /// So often it looked.
        drops: u32,
    },
    /// The submitter already runs as many tasks on top of each other as it may.
    TooDeep {
        /// So many.
        depth: u32,
    },
    /// No place came free in time.
    TimedOut {
        /// So long it waited.
        waited: Duration,
    },
}

/// Why a submitter runs the task itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunHere {
    /// The policy says so.
    CallerRuns,
    /// It is a worker of this pool and must not wait for it.
    InsteadOfWaiting,
}

/// What to do next with a task that wants in.
pub fn decide(policy: Policy, door: &Door) -> Step {
    if door.is_closed {
        return Step::Refuse(Refused::Closed);
    }
    if !door.is_full {
        return Step::Take;
    }
    match policy {
        Policy::Reject => Step::Refuse(Refused::Full),
        Policy::DropNewest => Step::DropThis,
        Policy::DropOldest if door.drops < DROPS_MAX => Step::DropOldestThenRetry,
        Policy::DropOldest => Step::Refuse(Refused::NothingToDrop { drops: door.drops }),
        Policy::CallerRuns => run_here(door, RunHere::CallerRuns),
        Policy::Block { .. } if door.is_worker => run_here(door, RunHere::InsteadOfWaiting),
        Policy::Block { timeout: None } => Step::Wait(None),
        Policy::Block { timeout: Some(timeout) } => match timeout.saturating_sub(door.waited) {
            Duration::ZERO => Step::Refuse(Refused::TimedOut { waited: door.waited }),
            left => Step::Wait(Some(left)),
        },
    }
}

fn run_here(door: &Door, why: RunHere) -> Step {
    if door.depth < door.depth_max.unwrap_or(DEPTH_MAX) {
        Step::RunHere(why)
    } else {
        Step::Refuse(Refused::TooDeep { depth: door.depth })
    }
}

/// The lanes in which to look for a task to drop for a new one in `lane`, of `lanes` lanes: the least urgent
/// first, and none that is more urgent than the new task's own.
pub fn drop_order(lane: u8, lanes: u8) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator {
    (lane..lanes).rev()
}

impl Refused {
    /// A stable code for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Closed => "closed",
            Self::NothingToDrop { .. } => "nothing-to-drop",
            Self::TooDeep { .. } => "too-deep",
            Self::TimedOut { .. } => "timed-out",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Full => f.write_str("the queue is full; retry later or raise queue_capacity"),
            Self::Closed => f.write_str("the pool is closed; submit to another"),
            Self::NothingToDrop { drops } => {
                write!(f, "the queue is full, and {drops} times there was no old task to drop; retry at once")
            }
            Self::TooDeep { depth } => {
                write!(
                    f,
                    "the queue is full, and the submitter runs {depth} tasks already; retry when they end"
                )
            }
            Self::TimedOut { waited } => {
                write!(f, "the queue was full for {waited:?}; wait longer or raise queue_capacity")
            }
        }
    }
}

impl core::error::Error for Refused {}

impl fmt::Display for RunHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CallerRuns => "the queue is full: the submitter runs the task",
            Self::InsteadOfWaiting => {
                "the queue is full: a worker of this pool runs the task instead of waiting"
            }
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Take => f.write_str("there is room"),
            Self::Refuse(refused) => refused.fmt(f),
            Self::DropThis => f.write_str("the queue is full: the new task is dropped"),
            Self::DropOldestThenRetry => f.write_str("the queue is full: the oldest task is dropped"),
            Self::Wait(None) => f.write_str("the queue is full: the submitter waits for a place"),
            Self::Wait(Some(left)) => {
                write!(f, "the queue is full: the submitter waits for a place, at most {left:?}")
            }
            Self::RunHere(why) => why.fmt(f),
        }
    }
}
