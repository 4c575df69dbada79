//! `millpond stats`: what the daemon has done and has to do, in figures.
//!
//! For programs it is the daemon's own JSON, whole. For people it is put into a page; what this program does
//! not know is left out there.
//!
//! Not here: what the page looks like (`page.rs`).

mod page;

use crate::answer::{self, Refusal};
use crate::daemon::DaemonArguments;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use millpond_local::Kind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What `stats` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond stats
  millpond stats --json | jq .handlers")]
pub(crate) struct StatsArguments {
    /// Print JSON: one object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

/// As much of the daemon's answer as the page shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stats {
    uptime_ms: u64,
    is_draining: bool,
    accepted: u64,
    succeeded: u64,
    failed: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    retried: u64,
    rate: f64,
    live: u64,
    tasks_max: u64,
    stages: BTreeMap<String, u64>,
    results: Results,
    backlog: u64,
    journal: Option<Journal>,
    dead_letters: Option<Dead>,
    nats: Option<Nats>,
    pool: Pool,
    handlers: BTreeMap<String, Handler>,
    control: Control,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Journal {
    directory: String,
    state: String,
    reason: Option<String>,
    disk_bytes: u64,
    batch_records_mean: f64,
    sync_mean_us: u64,
    restored: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Dead {
    kept: u64,
    bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Nats {
    connected: bool,
    url: String,
    queue: String,
    in_flight: u64,
    slots: u64,
    acked: u64,
    redelivered: u64,
    fenced: u64,
    dead: u64,
    unsent: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Control {
    connections: u64,
    connections_max: u64,
    in_flight: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Results {
    kept: u64,
    bytes: u64,
    dropped: u64,
    aged: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pool {
    strategy: String,
    queued: u64,
    workers: Vec<Worker>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Worker {
    worker: u64,
    completed: u64,
    is_busy: bool,
    queued: u64,
    utilisation: f64,
    stolen: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Handler {
    accepted: u64,
    succeeded: u64,
    failed: u64,
    waited: Times,
    ran: Times,
    own: Option<Program>,
}

/// What a command says of its processes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Program {
    concurrency: u64,
    processes: u64,
    busy: u64,
    waiting: u64,
    crashes: u64,
    restarts: u64,
    rest_ms: Option<u64>,
    broken: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

pub(crate) fn run(arguments: &StatsArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let payload = daemon.ask(Kind::Stats, b"{}", Kind::Numbers)?.map_err(Refusal::into_failure)?;
    if arguments.json {
        return output::print(&[payload.as_slice(), b"\n"].concat());
    }
    let stats: Stats = answer::read(&payload)?;
    output::print(page::text(daemon.hello(), &stats).as_bytes())
}
