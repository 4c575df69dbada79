//! The groups about shared memory: small tasks from one process to another and back, both of them busy.
//!
//! The row `millpond` is a program attached to the daemon, which runs `echo` for every task; `millpond socket` is the
//! same daemon by its control socket. The rows with `~` do less: they send messages back as they came, with no
//! server, no handler and no JSON. Of these, `wpol` is the queue under our own row, `iceoryx2` is its peer, and `raw
//! ring` is what the machine can do. Compare those three with each other.
//!
//! Not here: what is counted of a task (`flight.rs`), how the peers are called (`peers/shm/`), other task servers
//! (`groups/tasks/`).

mod flight;

use crate::cores;
use crate::measure::{Better, Contestant, Figures, Group, Pace, Round};
use crate::peers::shm::{self, Line, iceoryx2, millpond, raw, wpol};
use crate::peers::tasks::millpond_daemon;
use flight::{Flight, Way};
use std::panic::resume_unwind;
use std::thread;

/// Tasks per round, as a share of the round's items: a full round sends a hundred thousand, or asks ten thousand times.
const FLIGHT_SHARE: u64 = 10;
const ROUND_TRIP_SHARE: u64 = 100;

pub(crate) fn groups() -> Vec<Group> {
    vec![round_trip(), singly(), batched()]
}

/// How long does one small task take, there and back, when nothing else is under way?
fn round_trip() -> Group {
    let contestants = vec![
        alone("millpond", millpond::start_waiting).needing(ours),
        alone("millpond socket", socket).needing(ours),
        alone("~wpol", wpol::start_singly).needing(echo),
        alone("~iceoryx2", iceoryx2::start).needing(echo),
        alone("~raw ring", raw::start).needing(echo),
    ];
    let question = "one small task to another process and back, both busy; median";
    Group {
        name: "shm-roundtrip",
        question,
        unit: "us",
        better: Better::Lower,
        pace: Pace::Rounds,
        contestants,
    }
}

/// How many pass when each is sent by itself, 64 under way?
fn singly() -> Group {
    let contestants = vec![
        many("millpond", Way::Singly, millpond::start_singly).needing(ours),
        many("millpond socket", Way::Singly, socket).needing(ours),
        many("~wpol", Way::Singly, wpol::start_singly).needing(echo),
        many("~iceoryx2", Way::Singly, iceoryx2::start).needing(echo),
        many("~raw ring", Way::Singly, raw::start).needing(echo),
    ];
    rate(
        "shm-single",
        "small tasks to another process and back, each sent by itself, 64 under way",
        contestants,
    )
}

/// And when they are sent 32 at a time, with up to 128 under way?
fn batched() -> Group {
    let contestants = vec![
        many("millpond", Way::Batches, millpond::start_batched).needing(ours),
        many("~wpol", Way::Batches, wpol::start_batched).needing(echo),
        many("~raw ring", Way::Batches, raw::start).needing(echo),
    ];
    rate(
        "shm-batch",
        "small tasks to another process and back, 32 sent at a time, up to 128 under way",
        contestants,
    )
}

fn rate(name: &'static str, question: &'static str, contestants: Vec<Contestant>) -> Group {
    Group { name, question, unit: "tasks/s", better: Better::Higher, pace: Pace::Rounds, contestants }
}

fn alone<L: Line + 'static>(peer: &'static str, start: fn() -> Result<L, String>) -> Contestant {
    contestant(peer, ROUND_TRIP_SHARE, start, Flight::round_trips)
}

fn many<L: Line + 'static>(peer: &'static str, way: Way, start: fn() -> Result<L, String>) -> Contestant {
    contestant(peer, FLIGHT_SHARE, start, move |flight, line, tasks| flight.pass(line, tasks, way))
}

/// Starts the other process, lets some tasks pass to warm up, and measures.
fn contestant<L: Line + 'static>(
    peer: &'static str,
    share: u64,
    start: fn() -> Result<L, String>,
    measure: impl Fn(&mut Flight, &mut L, u64) -> Result<Figures, String> + Sync + 'static,
) -> Contestant {
    let run = move |round: &Round| {
        let tasks = round.items / share;
        let mut line = if round.pinned { cores::apart(start) } else { start() }?;
        let mut flight = Flight::new();
        measure(&mut flight, &mut line, tasks / 10)?;
        measure(&mut flight, &mut line, tasks)
    };
    // On a thread of its own: what is bound to one core stays so, and the next round needs both.
    Contestant::new(peer, move |round: &Round| {
        let joined = thread::scope(|scope| scope.spawn(|| run(round)).join());
        joined.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn socket() -> Result<millpond::SocketLine, String> {
    millpond::start_socket(flight::number_of)
}

fn ours() -> Result<(), String> {
    millpond_daemon::programs().map(drop)
}

fn echo() -> Result<(), String> {
    shm::program().map(drop)
}
