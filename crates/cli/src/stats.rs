//! `millpond stats`: what the daemon has done and has to do, in figures.
//!
//! For programs it is the daemon's own JSON, whole. For people it is put into a page; what this program does
//! not know is left out there.

use crate::answer::{self, Refusal};
use crate::columns::{Cell, Heading, list, table};
use crate::daemon::DaemonArguments;
use crate::failure::Failure;
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::units::{bytes, grouped, time};
use clap::Args;
use millpond_local::{Hello, Kind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

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
    pool: Pool,
    handlers: BTreeMap<String, Handler>,
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
    output::print(text(daemon.hello(), &stats, Paint::for_output()).as_bytes())
}

fn text(hello: &Hello, stats: &Stats, paint: Paint) -> String {
    let uptime = time(Duration::from_millis(stats.uptime_ms).as_nanos() as f64);
    let draining = if stats.is_draining { paint.put(Tone::Doubtful, ", draining") } else { String::new() };
    let title = format!("millpond {}, pid {}, up for {uptime}", harmless(&hello.version), hello.pid);
    let mut text = format!("{}{draining}\n\n", paint.put(Tone::Strong, &title));
    text.push_str(&list(&summary(stats), paint));
    let strategy = harmless(&stats.pool.strategy).into_owned();
    text.push_str(&format!("\n{}\n", paint.put(Tone::Strong, &format!("Workers ({strategy})"))));
    text.push_str(&workers(&stats.pool.workers, paint));
    // Built-in handlers that nobody has used are many and say nothing.
    let used: Vec<_> = stats.handlers.iter().filter(|(_, handler)| handler.accepted > 0).collect();
    if !used.is_empty() {
        text.push_str(&format!("\n{}\n", paint.put(Tone::Strong, "Handlers")));
        text.push_str(&handlers(&used, paint));
    }
    text
}

fn summary(stats: &Stats) -> Vec<Vec<Cell>> {
    let row = |name: &str, value: String| vec![Cell::toned(Tone::Faint, name), Cell::new(value)];
    let failures: u64 = stats.failed.values().sum();
    let ended = match failures {
        0 => format!("{} done", grouped(stats.succeeded)),
        _ => {
            let (done, failed) = (grouped(stats.succeeded), grouped(failures));
            format!("{done} done, {failed} failed: {}", by_name(&stats.failed))
        }
    };
    let stages: BTreeMap<_, _> = stats
        .stages
        .iter()
        .filter(|(name, _)| *name != "ended")
        .map(|(name, count)| (name.clone(), *count))
        .collect();
    let mut rows = vec![
        row("accepted", format!("{}, {ended}", grouped(stats.accepted))),
        row(
            "under way",
            match stats.live {
                0 => "none".to_owned(),
                live => format!("{} of {}: {}", grouped(live), grouped(stats.tasks_max), by_name(&stages)),
            },
        ),
        row("rate", format!("{} tasks/s", grouped(stats.rate as u64))),
    ];
    if stats.pool.queued > 0 {
        rows.push(row("queued", grouped(stats.pool.queued)));
    }
    if stats.retried > 0 {
        rows.push(row("retried", grouped(stats.retried)));
    }
    if !stats.refused.is_empty() {
        rows.push(row("refused", by_name(&stats.refused)));
    }
    let Results { kept, bytes: held, dropped, aged } = &stats.results;
    let gone = match dropped + aged {
        0 => String::new(),
        _ => format!(", {} dropped, {} too old", grouped(*dropped), grouped(*aged)),
    };
    rows.push(row("results", format!("{} kept, {}{gone}", grouped(*kept), bytes(*held))));
    rows
}

/// `7 handler-crashed, 3 timed-out`; nothing of what there is none of.
fn by_name(counts: &BTreeMap<String, u64>) -> String {
    let some = counts.iter().filter(|(_, count)| **count > 0);
    let parts: Vec<_> = some.map(|(name, count)| format!("{} {}", grouped(*count), harmless(name))).collect();
    parts.join(", ")
}

fn workers(workers: &[Worker], paint: Paint) -> String {
    let headings = [
        Heading::right("worker"),
        Heading::left("now"),
        Heading::right("tasks"),
        Heading::right("waiting"),
        Heading::right("stolen"),
        Heading::right("busy"),
    ];
    let row = |worker: &Worker| {
        let (tone, now) = if worker.is_busy { (Tone::Good, "busy") } else { (Tone::Faint, "idle") };
        vec![
            Cell::new(worker.worker.to_string()),
            Cell::toned(tone, now),
            Cell::new(grouped(worker.completed)),
            Cell::new(grouped(worker.queued)),
            Cell::new(grouped(worker.stolen)),
            Cell::new(format!("{:.1} %", 100.0 * worker.utilisation)),
        ]
    };
    table(&headings, &workers.iter().map(row).collect::<Vec<_>>(), paint)
}

fn handlers(handlers: &[(&String, &Handler)], paint: Paint) -> String {
    let headings = [
        Heading::left("handler"),
        Heading::right("accepted"),
        Heading::right("done"),
        Heading::right("failed"),
        Heading::right("waited p50"),
        Heading::right("p99"),
        Heading::right("max"),
        Heading::right("ran p50"),
        Heading::right("p99"),
        Heading::right("max"),
    ];
    let micros = |micros: f64| Cell::new(time(micros * 1000.0));
    let row = |(name, handler): &(&String, &Handler)| {
        let failed = if handler.failed > 0 { Tone::Bad } else { Tone::Plain };
        let Handler { waited, ran, .. } = handler;
        vec![
            Cell::toned(Tone::Strong, harmless(name)),
            Cell::new(grouped(handler.accepted)),
            Cell::new(grouped(handler.succeeded)),
            Cell::toned(failed, grouped(handler.failed)),
            micros(waited.p50_us),
            micros(waited.p99_us),
            micros(waited.max_us),
            micros(ran.p50_us),
            micros(ran.p99_us),
            micros(ran.max_us),
        ]
    };
    table(&headings, &handlers.iter().map(row).collect::<Vec<_>>(), paint)
}
