//! `millpond nats dead`: tasks of a queue that failed for good. List them, look at one, try them again, let them go.
//!
//! The same words as `millpond dead`, which is for tasks of one daemon. A letter that is tried again keeps its id,
//! so that its new result is found where the old one was.

use super::queue::{QueueArguments, failure};
use crate::answer::Id;
use crate::columns::{Cell, Heading, table};
use crate::dead::FilterArguments;
use crate::failure::{FAILED, Failure};
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::task_argument;
use crate::units::time;
use clap::{Args, Subcommand, value_parser};
use millpond_nats::{Letter, LetterFilter, NatsClient};
use millpond_tasks::{ErrorCode, TaskId};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most letters that are listed or tried again at once.
const LETTERS_MAX: u64 = 100_000;
/// As much of a reason as fits a table.
const REASON_SHOWN_MAX: usize = 70;

/// What `nats dead` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond nats dead ls --handler thumbnail
  millpond nats dead show job-17
  millpond nats dead retry job-17
  millpond nats dead purge --all --older-than 24h")]
pub(super) struct DeadArguments {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// List dead letters, the latest first
    Ls(ListArguments),
    /// Show one with its request and why it failed
    Show(ShowArguments),
    /// Put them into the queue again, with all their attempts before them
    Retry(ChoiceArguments),
    /// Let dead letters go
    Purge(ChoiceArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    filter: FilterArguments,

    /// How many at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = value_parser!(u64).range(1..=LETTERS_MAX))]
    max: u64,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

#[derive(Debug, Args)]
struct ShowArguments {
    /// The task's id
    #[arg(value_name = "ID", value_parser = task_argument::parse)]
    id: TaskId,

    /// Print JSON: one object on one line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

#[derive(Debug, Args)]
struct ChoiceArguments {
    /// The tasks' ids
    #[arg(value_name = "ID", required_unless_present = "all", value_parser = task_argument::parse)]
    ids: Vec<TaskId>,

    /// All of them, or all that the filters leave
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    #[command(flatten)]
    filter: FilterArguments,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

fn filter(arguments: &FilterArguments) -> LetterFilter {
    LetterFilter { handler: arguments.handler.clone(), older_than: arguments.older_than, id: None }
}

pub(super) fn run(arguments: &DeadArguments) -> Result<(), Failure> {
    match &arguments.command {
        DeadCommand::Ls(arguments) => ls(arguments),
        DeadCommand::Show(arguments) => show(arguments),
        DeadCommand::Retry(arguments) => retry(arguments),
        DeadCommand::Purge(arguments) => purge(arguments),
    }
}

fn ls(arguments: &ListArguments) -> Result<(), Failure> {
    let (client, _) = arguments.queue.connect()?;
    let max = usize::try_from(arguments.max).unwrap_or(usize::MAX);
    let (letters, kept) = client.dead(&filter(&arguments.filter), max).map_err(|error| failure(&error))?;
    if arguments.json {
        return letters.iter().try_for_each(output::print_json);
    }
    if letters.is_empty() {
        output::note("note", &format!("no task of queue {} has died so", client.queue()));
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = letters.iter().map(row).collect();
    output::print(table(&HEADINGS, &rows, Paint::for_output()).as_bytes())?;
    if rows.len() as u64 == arguments.max && kept > arguments.max {
        output::note("note", &format!("these are the latest {} of {kept}; --max shows more", rows.len()));
    }
    Ok(())
}

const HEADINGS: [Heading; 5] = [
    Heading::left("task"),
    Heading::left("handler"),
    Heading::right("failures"),
    Heading::right("died"),
    Heading::left("reason"),
];

fn row(letter: &Letter) -> Vec<Cell> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let ago = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(letter.died_at_ms);
    let reason = match letter.reason.char_indices().nth(REASON_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &letter.reason[..end]),
        None => letter.reason.clone(),
    };
    vec![
        Cell::toned(Tone::Strong, Id::of(&letter.task_id).shown()),
        Cell::new(harmless(&letter.handler)),
        Cell::new(letter.failures.to_string()),
        Cell::new(format!("{} ago", time(ago as f64 * 1e6))),
        Cell::toned(Tone::Bad, harmless(&reason)),
    ]
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let (client, _) = arguments.queue.connect()?;
    let (letters, _) = client.dead(&LetterFilter::of(&arguments.id), 1).map_err(|error| failure(&error))?;
    let Some(letter) = letters.first() else {
        return Err(Failure::Failed(not_found(&client, &arguments.id)));
    };
    if arguments.json {
        return output::print_json(letter);
    }
    let text = serde_json::to_string_pretty(letter).map_err(|error| Failure::Failed(error.to_string()))?;
    output::print(format!("{}\n", text.lines().map(harmless).collect::<Vec<_>>().join("\n")).as_bytes())
}

fn not_found(client: &NatsClient, id: &TaskId) -> String {
    let code = ErrorCode::NotFound;
    let (shown, number, queue) = (Id::of(id).shown(), code.number(), client.queue());
    format!("task {shown}: {code} ({number}): queue {queue} has no dead letter of it")
}

fn retry(arguments: &ChoiceArguments) -> Result<(), Failure> {
    let (client, _) = arguments.queue.connect()?;
    let mut is_all_done = true;
    let filters = filters(arguments);
    for filter in &filters {
        let max = usize::try_from(if filter.id.is_some() { 1 } else { LETTERS_MAX }).unwrap_or(usize::MAX);
        let done = client.dead_retry(filter, max).map_err(|error| failure(&error))?;
        if let (Some(id), true) = (&filter.id, done.retried.is_empty() && done.refused.is_none()) {
            is_all_done = false;
            tell_failure(arguments.json, &not_found(&client, id), id)?;
            continue;
        }
        if let Some(refused) = &done.refused {
            is_all_done = false;
            output::note("error", refused);
        }
        let retried = done.retried.len();
        match (arguments.json, &filter.id) {
            (true, Some(id)) if retried > 0 => {
                output::print_json(&json!({ "task_id": id, "retried": true }))?
            }
            (true, Some(_)) => {}
            (true, None) => output::print_json(&json!({ "retried": retried, "left": done.left }))?,
            (false, Some(id)) if retried > 0 => {
                output::print(format!("{} is tried again\n", Id::of(id).shown()).as_bytes())?;
            }
            (false, Some(_)) => {}
            (false, None) => {
                output::print(format!("{retried} are tried again, {} are left\n", done.left).as_bytes())?;
            }
        }
    }
    if is_all_done { Ok(()) } else { Err(Failure::Shown(FAILED)) }
}

fn purge(arguments: &ChoiceArguments) -> Result<(), Failure> {
    let (client, _) = arguments.queue.connect()?;
    let (mut purged, mut is_all_done) = (0, true);
    for filter in &filters(arguments) {
        let gone = client.dead_purge(filter).map_err(|error| failure(&error))?;
        purged += gone;
        if let (Some(id), 0) = (&filter.id, gone) {
            is_all_done = false;
            tell_failure(arguments.json, &not_found(&client, id), id)?;
        }
    }
    match arguments.json {
        true => output::print_json(&json!({ "purged": purged }))?,
        false => output::print(format!("{purged} let go\n").as_bytes())?,
    }
    if is_all_done { Ok(()) } else { Err(Failure::Shown(FAILED)) }
}

/// What is meant, one after the other.
fn filters(arguments: &ChoiceArguments) -> Vec<LetterFilter> {
    if arguments.all {
        return vec![filter(&arguments.filter)];
    }
    let with_id = |id: &TaskId| LetterFilter { id: Some(id.clone()), ..filter(&arguments.filter) };
    arguments.ids.iter().map(with_id).collect()
}

fn tell_failure(is_json: bool, message: &str, id: &TaskId) -> Result<(), Failure> {
    if !is_json {
        output::note("error", message);
        return Ok(());
    }
    let code = ErrorCode::NotFound;
    output::print_json(
        &json!({ "task_id": id, "status": code.number(), "error": code.name(), "message": message }),
    )
}
