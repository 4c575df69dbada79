//! How fast does our daemon empty a queue of NATS, next to async-nats with nothing around it?
//!
//! `nats-ack`: tasks are fetched and acknowledged, and nobody wants their results. `nats-result`: the result of
//! each is kept in a bucket before the task is acknowledged. All tasks are on the queue before the clock starts.
//! The rows with `~` are limits: they do nothing with a task but what the server must be told. One keeps results as
//! long as ours are, on the condition that there is none yet.
//!
//! `nats-roundtrip`: one task at a time, from its submission until its result is there.
//!
//! Not here: the server, the queue and the loops (`peers/nats/`).

use crate::measure::{Better, Contestant, Figures, Group, Pace, Round};
use crate::peers::nats::bare::{self, Work};
use crate::peers::nats::{Server, millpond, payload_bytes, program};
use serde_json::Value;
use std::thread::JoinHandle;
use std::time::Duration;

/// Tasks of a round, as a share of its items.
const TASKS_SHARE: u64 = 10;
/// The same, one at a time.
const ROUND_TRIPS_SHARE: u64 = 400;
/// Round trips before the clock starts.
const WARMING: u64 = 50;

pub(crate) fn groups() -> Vec<Group> {
    let emptied = |name, question, contestants| Group {
        name,
        question,
        unit: "tasks/s",
        better: Better::Higher,
        pace: Pace::Rounds,
        contestants,
    };
    let round_trips =
        vec![contestant("millpond", millpond_round_trips), contestant("~async-nats", bare_round_trips)];
    vec![
        emptied(
            "nats-ack",
            "tasks of a queue fetched and acknowledged, no results kept",
            vec![
                contestant("millpond", |round| ours(round, "none")),
                contestant("~async-nats", |round| bare(round, Work::Ack)),
            ],
        ),
        emptied(
            "nats-result",
            "tasks of a queue fetched, results kept, acknowledged",
            vec![
                contestant("millpond", |round| ours(round, "all")),
                contestant("~async-nats", |round| bare(round, Work::Result)),
                contestant("~async-nats, our entries", |round| bare(round, Work::Entry)),
            ],
        ),
        super::measured("nats-roundtrip", "from submission to result, one task at a time", "us", round_trips),
    ]
}

fn contestant(peer: &'static str, round: fn(&Round) -> Result<Figures, String>) -> Contestant {
    Contestant::new(peer, round).needing(|| program().map(drop))
}

fn rate(tasks: u64, elapsed: Duration) -> Figures {
    Figures::from(tasks as f64 / elapsed.as_secs_f64())
}

fn ours(round: &Round, results: &str) -> Result<Figures, String> {
    let tasks = round.items / TASKS_SHARE;
    let server = Server::start()?;
    server.fill(tasks)?;
    let daemon = millpond::start(&server, results)?;
    let elapsed = server.watch(tasks)?;
    millpond::check(&daemon, tasks)?;
    if results == "all" {
        server.check_results(tasks, |entry| &entry["outcome"]["result"]["n"])?;
    }
    Ok(rate(tasks, elapsed))
}

fn bare(round: &Round, work: Work) -> Result<Figures, String> {
    let tasks = round.items / TASKS_SHARE;
    let server = Server::start()?;
    server.fill(tasks)?;
    let consumer = bare::start(server.address(), tasks, work);
    let elapsed = server.watch(tasks);
    // A consumer in trouble knows more about it than whoever watches in vain.
    check_bytes(consumer, tasks)?;
    match work {
        Work::Ack => {}
        Work::Entry => server.check_results(tasks, |entry| &entry["outcome"]["result"]["args"]["n"])?,
        Work::Result | Work::ResultAtOnce => server.check_results(tasks, number_in_request)?,
    }
    Ok(rate(tasks, elapsed?))
}

fn number_in_request(request: &Value) -> &Value {
    &request["args"]["n"]
}

fn check_bytes(consumer: JoinHandle<Result<u64, String>>, tasks: u64) -> Result<(), String> {
    let bytes = consumer.join().map_err(|_| "the consumer panicked; its message stands above")??;
    let expected = payload_bytes(tasks);
    if bytes == expected {
        return Ok(());
    }
    Err(format!("expected {tasks} tasks of {expected} bytes together, got {bytes} bytes"))
}

fn millpond_round_trips(round: &Round) -> Result<Figures, String> {
    let tasks = round.items / ROUND_TRIPS_SHARE;
    let server = Server::start()?;
    let _daemon = millpond::start(&server, "all")?;
    let times = server.round_trips(WARMING + tasks)?;
    server.check_results(WARMING + tasks, |entry| &entry["outcome"]["result"]["n"])?;
    Ok(quantiles(times))
}

fn bare_round_trips(round: &Round) -> Result<Figures, String> {
    let tasks = round.items / ROUND_TRIPS_SHARE;
    let server = Server::start()?;
    let consumer = bare::start(server.address(), WARMING + tasks, Work::ResultAtOnce);
    let times = server.round_trips(WARMING + tasks);
    check_bytes(consumer, WARMING + tasks)?;
    server.check_results(WARMING + tasks, number_in_request)?;
    Ok(quantiles(times?))
}

/// The median, with the 99th percentile beside it.
fn quantiles(times: Vec<Duration>) -> Figures {
    let mut times: Vec<Duration> = times.into_iter().skip(WARMING as usize).collect();
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (times.len().saturating_sub(1) as f64 * share).round() as usize;
        times.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    Figures { main: at(0.5), beside: vec![("p99_us", at(0.99))] }
}
