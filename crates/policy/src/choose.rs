//! Which worker gets a task: what a strategy is, and what its decision looks like.
//!
//! A strategy sees the picture of the workers and the time, remembers what it needs, and answers with a
//! worker and the reason. It never chooses a worker that does not take tasks, and answers with nobody only if
//! there is none that does. Whoever asks tells the picture of the choice (`load` one higher) before it asks
//! again, or two submitters with the same picture would both choose the same worker.
//!
//! Each strategy is a file below. Here: what they have in common.

mod fair_share;
mod interleaved;
mod least_busy;
mod least_used;
mod least_utilised;
mod power_of_two;
mod random;
mod round_robin;
mod weighted;

mod blocks;
mod draw;
mod roster;
mod scan;

pub use fair_share::FairShare;
pub use interleaved::InterleavedWeighted;
pub use least_busy::LeastBusy;
pub use least_used::LeastUsed;
pub use least_utilised::{LeastUtilised, UTILISATION_PER_TASK};
pub use power_of_two::PowerOfTwo;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use weighted::WeightedRoundRobin;

pub(crate) use roster::Roster;

use crate::Moment;
use crate::view::{Columns, TaskView, Views, WorkerView};
use core::fmt;
use core::time::Duration;

/// A way to choose workers.
pub trait Choose: Send + fmt::Debug {
    /// What it is called: `least-busy`.
    fn name(&self) -> &str;

    /// Which columns of the picture it reads. The others may hold anything.
    fn reads(&self) -> Columns;

    /// A worker for the task, or nobody if none takes tasks. Allocates nothing.
    fn choose(&mut self, workers: &Views, task: &TaskView, now: Moment) -> Option<Choice>;

    /// Whether it wants to be told of every task that ends. Telling costs the pool a lock for each.
    fn wants_task_done(&self) -> bool {
        false
    }

    /// The worker with this number has run a task to its end.
    fn task_done(&mut self, worker: u32, ran: Duration, now: Moment) {
        let _ = (worker, ran, now);
    }

    /// A worker has come.
    fn worker_added(&mut self, worker: &WorkerView, now: Moment) {
        let _ = (worker, now);
    }

    /// The worker with this number has gone.
    fn worker_removed(&mut self, worker: u32) {
        let _ = worker;
    }

    /// Forgets everything.
    fn reset(&mut self) {}
}

/// A chosen worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Where it stands in the picture.
    pub at: usize,
    /// Its number.
    pub worker: u32,
    /// Why it.
    pub reason: Reason,
}

/// Why a worker was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It was its turn.
    Turn,
    /// It was its turn, and it may come so many times more before the round ends.
    WeightedTurn {
        /// What it can do.
        weight: u32,
        /// How many tasks it is still to get in this round.
        left: u32,
    },
    /// Nobody has been given fewer tasks.
    FewestGiven {
        /// So many it has, with those that the others had when it came.
        given: u64,
    },
    /// Nobody has fewer tasks running and waiting.
    LowestLoad {
        /// So many it has.
        load: u32,
    },
    /// Nobody was busy for a smaller share of the last while, with what it has running and waiting counted.
    LeastUtilised {
        /// The share, of 10 000.
        utilisation: u16,
        /// What it has running and waiting.
        load: u32,
    },
    /// Nobody has had less time lately, with what waits for it counted.
    SmallestShare {
        /// Its share of everybody's time, of 10 000.
        share: u16,
    },
    /// The less loaded of two drawn at random.
    BetterOfTwo {
        /// What it has running and waiting.
        load: u32,
        /// What the other has.
        other: u32,
    },
    /// It was drawn at random.
    Drawn,
    /// Nobody else takes tasks.
    OnlyOne,
    /// A strategy of the user's own says why.
    Custom(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Turn => f.write_str("it was its turn"),
            Self::WeightedTurn { weight, left } => {
                write!(f, "it was its turn: weight {weight}, {left} more this round")
            }
            Self::FewestGiven { given } => write!(f, "it has been given the fewest tasks: {given}"),
            Self::LowestLoad { load } => write!(f, "it has the fewest tasks running and waiting: {load}"),
            Self::LeastUtilised { utilisation, load } => {
                let (whole, hundredths) = (utilisation / 100, utilisation % 100);
                write!(f, "it was the least busy: {whole}.{hundredths:02} %, with {load} running and waiting")
            }
            Self::SmallestShare { share } => {
                write!(f, "it has had the least time lately: {}.{:02} %", share / 100, share % 100)
            }
            Self::BetterOfTwo { load, other } => {
                write!(f, "the better of two drawn: {load} tasks against {other}")
            }
            Self::Drawn => f.write_str("it was drawn at random"),
            Self::OnlyOne => f.write_str("no other worker takes tasks"),
            Self::Custom(why) => f.write_str(why),
        }
    }
}

/// Brings a place back into a picture of `len` workers, which may have shrunk since the place was noted.
fn within(place: usize, len: usize) -> usize {
    if place < len { place } else { place.checked_rem(len).unwrap_or(0) }
}
