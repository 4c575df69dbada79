//! `millpond bench`: loads the running daemon, and says how many tasks it did and how long they took.
//!
//! Each connection has a thread that keeps so many tasks under way: for every result that comes, the next
//! task goes out. A time is that from handing a request to the socket to reading its result, so it has the
//! client's own waiting in it.
//!
//! Not here: one connection's part (`lane.rs`); a comparison with others (`bench/` at the root of the
//! repository).

mod lane;

use crate::daemon::{DaemonArguments, STEP};
use crate::failure::{FAILED, Failure};
use crate::units::{grouped, parse_time, time};
use crate::{interrupt, output};
use clap::{Args, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use lane::{Lane, Measured, Stop};
use serde_json::{Value, json, value::RawValue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long tasks are sent if nothing is said.
const SECONDS_DEFAULT: Duration = Duration::from_secs(5);

/// What `bench` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond bench                                       echo for five seconds, 64 tasks under way
  millpond bench --tasks 1000000 --size 1000           a million, each with a kilobyte
  millpond bench --connections 4 --in-flight 16 --seconds 10s --json
  millpond bench --handler sleep --args '{\"ms\": 10}' --in-flight 500")]
pub(crate) struct BenchArguments {
    /// The handler that does the tasks
    #[arg(long, value_name = "NAME", default_value = "echo")]
    handler: String,

    /// The arguments of every task [default: a text of --size letters]
    #[arg(long, value_name = "JSON", value_parser = parse_args, conflicts_with = "size")]
    args: Option<Box<RawValue>>,

    /// How long the text in the arguments is
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    #[arg(value_parser = value_parser!(u64).range(..=1 << 20))]
    size: u64,

    /// How many tasks [default: as many as --seconds allow]
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    tasks: Option<u64>,

    /// For how long [default: 5s, or until --tasks are done]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// How many tasks are under way at once, on each connection
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u64).range(1..=65_536))]
    in_flight: u64,

    /// How many connections, each with a thread of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=256))]
    connections: u64,

    /// Print JSON: one object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

/// `5s`, or `5` for those who took the name at its word.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => parse_time(text),
    }
}

fn parse_args(text: &str) -> Result<Box<RawValue>, String> {
    let is_object = text.trim_start().starts_with('{');
    match RawValue::from_string(text.to_owned()) {
        Ok(args) if is_object => Ok(args),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("expected a JSON object; {error}")),
    }
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let request = request(arguments);
    let in_flight = usize::try_from(arguments.in_flight).unwrap_or(usize::MAX);
    let lanes: Vec<Lane> = (0..arguments.connections)
        .map(|_| Ok(Lane::new(arguments.daemon.connect()?.into_client(), request.clone(), in_flight)))
        .collect::<Result<_, Failure>>()?;
    interrupt::listen()?;
    let for_how_long = match (arguments.seconds, arguments.tasks) {
        (None, Some(_)) => None,
        (seconds, _) => Some(seconds.unwrap_or(SECONDS_DEFAULT)),
    };
    let begun = Instant::now();
    let until = for_how_long.and_then(|time| begun.checked_add(time));
    let stop = Arc::new(Stop::new(arguments.tasks));
    let threads: Vec<_> = lanes
        .into_iter()
        .map(|lane| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || lane.run(&stop))
        })
        .collect();
    watch(&stop, &threads, until, arguments.tasks);
    let mut measured = Measured::default();
    for thread in threads {
        let one = thread.join().map_err(|_| Failure::Failed("a thread of the bench panicked".to_owned()))?;
        measured.add(one?);
    }
    let took = measured.last.map_or(begun.elapsed(), |last| last.saturating_duration_since(begun));
    output::print(&text(arguments, &measured, took))?;
    match (interrupt::is_pressed(), measured.failed.is_empty()) {
        (true, _) => Err(Failure::Interrupted),
        (false, false) => Err(Failure::Shown(FAILED)),
        (false, true) => Ok(()),
    }
}

fn request(arguments: &BenchArguments) -> Vec<u8> {
    let args = match &arguments.args {
        Some(args) => args.get().to_owned(),
        None => json!({ "text": "x".repeat(arguments.size as usize) }).to_string(),
    };
    format!("{{\"handler\":{},\"args\":{args}}}", Value::from(arguments.handler.as_str())).into_bytes()
}

/// Waits for the end of it all, and shows how far it is.
fn watch<T>(stop: &Stop, threads: &[thread::JoinHandle<T>], until: Option<Instant>, tasks: Option<u64>) {
    let template = "{wide_bar} {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let begun = Instant::now();
    let whole = until.map(|until| until.saturating_duration_since(begun).as_millis() as u64);
    let bar = ProgressBar::new(tasks.or(whole).unwrap_or(0)).with_style(style);
    let (mut before, mut before_at) = (0, begun);
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        let now = Instant::now();
        let left = until.map_or(STEP, |until| until.saturating_duration_since(now));
        if interrupt::is_pressed() || left.is_zero() {
            stop.now();
        }
        thread::sleep(left.clamp(Duration::from_millis(1), STEP));
        let done = stop.done();
        let rate = (done - before) as f64 / before_at.elapsed().as_secs_f64();
        (before, before_at) = (done, Instant::now());
        bar.set_position(if tasks.is_some() { done } else { begun.elapsed().as_millis() as u64 });
        bar.set_message(format!("{} tasks, {}/s", grouped(done), grouped(rate as u64)));
    }
    bar.finish_and_clear();
}

fn text(arguments: &BenchArguments, measured: &Measured, took: Duration) -> Vec<u8> {
    let Measured { done, refused, failed, times, .. } = measured;
    let rate = *done as f64 / took.as_secs_f64().max(1e-9);
    let at = |per_10_000| times.quantile(per_10_000).unwrap_or(0);
    let (p50, p99, p999, max) = (at(5_000), at(9_900), at(9_990), times.max().unwrap_or(0));
    if arguments.json {
        let object = json!({
            "handler": arguments.handler,
            "connections": arguments.connections,
            "in_flight": arguments.in_flight,
            "request_bytes": request(arguments).len(),
            "tasks": done,
            "seconds": took.as_secs_f64(),
            "tasks_per_second": rate,
            "p50_ns": p50,
            "p99_ns": p99,
            "p999_ns": p999,
            "max_ns": max,
            "refused": refused,
            "failed": failed,
        });
        return format!("{object}\n").into_bytes();
    }
    let how = match arguments.connections {
        1 => format!("{} under way", grouped(arguments.in_flight)),
        several => format!("{several} connections with {} under way on each", grouped(arguments.in_flight)),
    };
    let mut text = format!(
        "{} tasks of {} in {}, {how}\n\n  rate  {} tasks/s\n",
        grouped(*done),
        output::harmless(&arguments.handler),
        time(took.as_nanos() as f64),
        grouped(rate as u64),
    );
    for (name, nanos) in [("p50", p50), ("p99", p99), ("p999", p999), ("max", max)] {
        text.push_str(&format!("  {name:<4}  {}\n", time(nanos as f64)));
    }
    if *refused > 0 {
        text.push_str(&format!(
            "\n{} times the queue was full, and the task was sent again\n",
            grouped(*refused)
        ));
    }
    text.push_str(&failures(failed));
    text.into_bytes()
}

fn failures(failed: &BTreeMap<String, u64>) -> String {
    let line = |(error, count): (&String, &u64)| {
        format!("\n{} failed: {}", grouped(*count), output::harmless(error))
    };
    let lines: String = failed.iter().map(line).collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}
