//! The groups about tasks: small JSON objects that go in, are run by two workers, and come back.
//!
//! One producer keeps 64 of them under way. A round starts the server and its workers, lets some tasks pass
//! to warm up, and then runs the clock from the first task put to the last result seen. The figure is the
//! rate; beside it stand the median and the 99th percentile of the time from the putting of a task to the
//! sight of its result.
//!
//! Not here: what is counted of a task (`flight.rs`), how the servers are spoken to (`peers/tasks/`).

mod flight;
mod inside;
mod socket;

use crate::measure::{Better, Contestant, Group, Pace, Round};
use crate::peers::tasks::{Producer, Start};

/// Tasks per round, as a share of the round's items.
const TASKS_SHARE: u64 = 20;
const WARMING_TASKS: usize = 2000;

pub(crate) fn groups() -> Vec<Group> {
    [socket::groups(), inside::groups()].into_iter().flatten().collect()
}

fn group(name: &'static str, question: &'static str, contestants: Vec<Contestant>) -> Group {
    let (better, pace) = (Better::Higher, Pace::Rounds);
    Group { name, question, unit: "tasks/s", better, pace, contestants }
}

fn contestant<P: Producer + 'static>(peer: &'static str, start: Start<P>) -> Contestant {
    Contestant::new(peer, move |round: &Round| {
        let tasks = usize::try_from(round.items / TASKS_SHARE).map_err(|error| error.to_string())?;
        let mut started = start()?;
        let warm = flight::pass(&mut started.producer, WARMING_TASKS);
        let figures = warm.and_then(|_| flight::pass(&mut started.producer, tasks));
        // A worker in trouble knows more about it than the producer who waits in vain.
        started.crew.dismiss().and(figures)
    })
}
