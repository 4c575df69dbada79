//! `millpond ls`: the tasks that the daemon knows, the newest first.
//!
//! That is every task under way and every outcome that is still kept.

use crate::answer::{self, Refusal, Status};
use crate::columns::{Cell, Heading, table};
use crate::daemon::DaemonArguments;
use crate::failure::Failure;
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::units::{grouped, time};
use clap::{Args, value_parser};
use millpond_local::Kind;
use millpond_tasks::{LIST_MAX, Stage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// How many are shown if nothing is said.
const SHOWN_DEFAULT: u64 = 50;

/// What `ls` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond ls
  millpond ls --stage running --handler thumbnail
  millpond ls --max 1000 --json | jq 'select(.error)'")]
pub(crate) struct ListArguments {
    /// Only those at this stage
    #[arg(long, value_name = "STAGE", value_parser = stages())]
    stage: Option<String>,

    /// Only those of this handler
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,

    /// How many at most [default: 50]
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..=LIST_MAX as u64))]
    max: Option<u64>,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

fn stages() -> clap::builder::PossibleValuesParser {
    Stage::ALL.map(Stage::name).into()
}

/// TASKS.
#[derive(Deserialize)]
struct Tasks {
    tasks: Vec<Box<RawValue>>,
}

pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let max = arguments.max.unwrap_or(SHOWN_DEFAULT);
    // One more shows whether there are more.
    let mut question = Map::from_iter([("max".to_owned(), Value::from((max + 1).min(LIST_MAX as u64)))]);
    for (name, value) in [("stage", &arguments.stage), ("handler", &arguments.handler)] {
        question.extend(value.clone().map(|value| (name.to_owned(), Value::from(value))));
    }
    let question = Value::Object(question).to_string();
    let payload = daemon.ask(Kind::List, question.as_bytes(), Kind::Tasks)?.map_err(Refusal::into_failure)?;
    let Tasks { mut tasks } = answer::read(&payload)?;
    let has_more = tasks.len() as u64 > max;
    tasks.truncate(max as usize);
    if arguments.json {
        let lines: String = tasks.iter().flat_map(|task| [task.get(), "\n"]).collect();
        return output::print(lines.as_bytes());
    }
    let tasks: Vec<Status> =
        tasks.iter().map(|task| answer::read(task.get().as_bytes())).collect::<Result<_, _>>()?;
    if tasks.is_empty() {
        output::note("note", "there is no such task");
        return Ok(());
    }
    output::print(text(&tasks).as_bytes())?;
    // Whoever said how many knows that there may be more.
    if has_more && arguments.max.is_none() {
        output::note("note", &format!("these are the newest {max}; --max shows more"));
    }
    Ok(())
}

const HEADINGS: [Heading; 8] = [
    Heading::left("task"),
    Heading::left("handler"),
    Heading::left("stage"),
    Heading::right("attempts"),
    Heading::right("progress"),
    Heading::right("age"),
    Heading::right("ran"),
    Heading::left("error"),
];

fn text(tasks: &[Status]) -> String {
    let rows: Vec<Vec<Cell>> = tasks.iter().map(row).collect();
    table(&HEADINGS, &rows, Paint::for_output())
}

fn row(task: &Status) -> Vec<Cell> {
    let micros = |micros: u64| time(micros as f64 * 1000.0);
    let stage = match (&*task.stage, task.status) {
        ("running", _) => Tone::Strong,
        ("retrying", _) => Tone::Doubtful,
        (_, Some(0)) => Tone::Good,
        (_, Some(_)) => Tone::Bad,
        _ => Tone::Plain,
    };
    let error = match (&task.error, &task.message) {
        (Some(error), Some(message)) if !message.is_empty() => format!("{error}: {}", first_words(message)),
        (Some(error), _) => error.clone(),
        _ => String::new(),
    };
    vec![
        Cell::toned(Tone::Strong, task.task_id.shown()),
        Cell::new(harmless(&task.handler)),
        Cell::toned(stage, harmless(&task.stage)),
        Cell::new(grouped(task.attempts)),
        Cell::new(task.progress.map_or(String::new(), |fraction| format!("{:.0} %", 100.0 * fraction))),
        Cell::new(micros(task.age_us)),
        Cell::new(task.ran_us.map_or(String::new(), micros)),
        Cell::new(harmless(&error)),
    ]
}

/// As much of a message as fits a table; `get` shows it whole.
fn first_words(message: &str) -> String {
    const SHOWN_MAX: usize = 60;
    match message.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
