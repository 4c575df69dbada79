//! `millpond schedule`: what the clock asks the daemon for, and when it will do so next.
//!
//! Schedules are written in the configuration, so there is nothing to be done here but to look.

use crate::answer::{self, Id, Refusal};
use crate::columns::{Cell, Heading, table};
use crate::daemon::DaemonArguments;
use crate::dead::ask;
use crate::failure::Failure;
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use clap::{Args, Subcommand};
use millpond_tasks::config::print_moment;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// What `schedule` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond schedule ls
  millpond schedule ls --json | jq .next_ms")]
pub(crate) struct ScheduleArguments {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(Debug, Subcommand)]
enum ScheduleCommand {
    /// List the schedules with their next times
    Ls(ListArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

#[derive(Deserialize)]
struct Told {
    schedules: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Schedule {
    name: String,
    cron: String,
    time_zone: String,
    handler: String,
    next_ms: Vec<u64>,
    last_ms: Option<u64>,
    last_task: Option<Id>,
    last_refusal: Option<String>,
    fired: u64,
    skipped: u64,
}

const HEADINGS: [Heading; 8] = [
    Heading::left("schedule"),
    Heading::left("cron"),
    Heading::left("handler"),
    Heading::left("next"),
    Heading::left("last"),
    Heading::left("task"),
    Heading::right("fired"),
    Heading::right("skipped"),
];

pub(crate) fn run(arguments: &ScheduleArguments) -> Result<(), Failure> {
    let ScheduleCommand::Ls(arguments) = &arguments.command;
    let mut daemon = arguments.daemon.connect()?;
    let told = ask(&mut daemon, &json!({ "ask": "schedule-list" }))?.map_err(Refusal::into_failure)?;
    let Told { schedules } = answer::read(&told)?;
    if arguments.json {
        let lines: String = schedules.iter().flat_map(|schedule| [schedule.get(), "\n"]).collect();
        return output::print(lines.as_bytes());
    }
    if schedules.is_empty() {
        output::note("note", "this daemon has no schedules; add [schedule.NAME] to its millpond.toml");
        return Ok(());
    }
    let schedules: Vec<Schedule> =
        schedules.iter().map(|one| answer::read(one.get().as_bytes())).collect::<Result<_, _>>()?;
    let rows: Vec<Vec<Cell>> = schedules.iter().map(row).collect();
    output::print(table(&HEADINGS, &rows, Paint::for_output()).as_bytes())
}

fn row(schedule: &Schedule) -> Vec<Cell> {
    let moment = |time: Option<u64>| time.map_or(String::new(), print_moment);
    let task = match (&schedule.last_refusal, &schedule.last_task) {
        (Some(refusal), _) => Cell::toned(Tone::Bad, harmless(refusal)),
        (None, Some(task)) => Cell::new(task.shown()),
        (None, None) => Cell::new(""),
    };
    vec![
        Cell::toned(Tone::Strong, harmless(&schedule.name)),
        Cell::new(harmless(&format!("{} {}", schedule.cron, schedule.time_zone))),
        Cell::new(harmless(&schedule.handler)),
        Cell::new(moment(schedule.next_ms.first().copied())),
        Cell::new(moment(schedule.last_ms)),
        task,
        Cell::new(schedule.fired.to_string()),
        Cell::new(schedule.skipped.to_string()),
    ]
}
