//! `millpond dead`: tasks that failed for good. List them, look at one, try them again, let them go.
//!
//! Letters are named by the id of their task, or chosen by handler and age. Trying many again needs `--all`, so that a
//! slip of the keyboard does not start ten thousand tasks.

use crate::answer::{self, Id, Refusal};
use crate::columns::{Cell, Heading, table};
use crate::daemon::{Daemon, DaemonArguments};
use crate::failure::{FAILED, Failure};
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::task_argument;
use crate::units::{grouped, parse_time, time};
use clap::{Args, Subcommand, value_parser};
use millpond_local::Kind;
use millpond_tasks::{DEAD_LIST_MAX, TaskId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What `dead` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond dead ls --handler thumbnail
  millpond dead show t17
  millpond dead retry t17
  millpond dead retry --all --handler thumbnail
  millpond dead purge --all --older-than 7d")]
pub(crate) struct DeadArguments {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, Subcommand)]
enum DeadCommand {
    /// List dead letters, the latest first
    Ls(ListArguments),
    /// Show one with its arguments, its checkpoint and why it failed
    Show(ShowArguments),
    /// Ask for the same again: a new task with an id of its own
    Retry(ChoiceArguments),
    /// Let dead letters go
    Purge(ChoiceArguments),
}

/// Which dead letters are meant; `nats dead` asks for the same.
#[derive(Debug, Args)]
pub(crate) struct FilterArguments {
    /// Only those of this handler
    #[arg(long, value_name = "NAME")]
    pub(crate) handler: Option<String>,

    /// Only those that died so long ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) older_than: Option<Duration>,
}

#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    filter: FilterArguments,

    /// How many at most [default: 50]
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEAD_LIST_MAX as u64))]
    max: Option<u64>,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
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
    daemon: DaemonArguments,
}

#[derive(Debug, Args)]
struct ChoiceArguments {
    /// The tasks' ids; without any, say --all
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
    daemon: DaemonArguments,
}

/// As much of a letter as the table shows.
#[derive(Deserialize)]
struct Letter {
    task_id: Id,
    handler: String,
    attempts: u64,
    died_at_ms: u64,
    error: String,
    message: String,
}

#[derive(Deserialize)]
struct Page {
    letters: Vec<Box<RawValue>>,
    next: Option<u64>,
    kept: u64,
    enabled: bool,
}

pub(crate) fn run(arguments: &DeadArguments) -> Result<(), Failure> {
    match &arguments.command {
        DeadCommand::Ls(arguments) => list(arguments),
        DeadCommand::Show(arguments) => show(arguments),
        DeadCommand::Retry(arguments) => choose(arguments, "dead-retry", "dead-retry-all"),
        DeadCommand::Purge(arguments) => choose(arguments, "dead-purge", "dead-purge-all"),
    }
}

impl FilterArguments {
    fn is_empty(&self) -> bool {
        self.handler.is_none() && self.older_than.is_none()
    }

    fn question(&self, ask: &str) -> Map<String, Value> {
        let mut question = Map::from_iter([("ask".to_owned(), Value::from(ask))]);
        question.extend(self.handler.clone().map(|handler| ("handler".to_owned(), handler.into())));
        let milliseconds = self.older_than.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        question.extend(milliseconds.map(|time| ("older_than_ms".to_owned(), time.into())));
        question
    }
}

/// Asks the daemon, which answers TOLD.
pub(crate) fn ask(daemon: &mut Daemon, question: &Value) -> Result<Result<Vec<u8>, Refusal>, Failure> {
    daemon.ask(Kind::Ask, question.to_string().as_bytes(), Kind::Told)
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let mut question = arguments.filter.question("dead-list");
    question.insert("max".to_owned(), arguments.max.unwrap_or(50).into());
    let told = ask(&mut daemon, &Value::Object(question))?.map_err(Refusal::into_failure)?;
    let page: Page = answer::read(&told)?;
    if arguments.json {
        let lines: String = page.letters.iter().flat_map(|letter| [letter.get(), "\n"]).collect();
        return output::print(lines.as_bytes());
    }
    if page.letters.is_empty() {
        let nothing = match arguments.filter.is_empty() {
            _ if !page.enabled => NOT_KEPT,
            true => "there are no dead letters",
            false => "there are no such dead letters; without --handler and --older-than all are shown",
        };
        output::note("note", nothing);
        return Ok(());
    }
    let letters: Vec<Letter> =
        page.letters.iter().map(|letter| answer::read(letter.get().as_bytes())).collect::<Result<_, _>>()?;
    let rows: Vec<Vec<Cell>> = letters.iter().map(row).collect();
    output::print(table(&HEADINGS, &rows, Paint::for_output()).as_bytes())?;
    if page.next.is_some() {
        output::note(
            "note",
            &format!("these are the latest {} of {}; --max shows more", rows.len(), page.kept),
        );
    }
    Ok(())
}

const NOT_KEPT: &str = "this daemon keeps no dead letters; start it with a journal, or with \
                        --dead-letters-enabled true";

const HEADINGS: [Heading; 5] = [
    Heading::left("task"),
    Heading::left("handler"),
    Heading::right("attempts"),
    Heading::right("died"),
    Heading::left("error"),
];

fn row(letter: &Letter) -> Vec<Cell> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let ago = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(letter.died_at_ms);
    let error = format!("{}: {}", letter.error, first_words(&letter.message));
    vec![
        Cell::toned(Tone::Strong, letter.task_id.shown()),
        Cell::new(harmless(&letter.handler)),
        Cell::new(letter.attempts.to_string()),
        Cell::new(format!("{} ago", time(ago as f64 * 1e6))),
        Cell::toned(Tone::Bad, harmless(&error)),
    ]
}

/// As much of a message as fits a table; `show` has it whole.
fn first_words(message: &str) -> String {
    const SHOWN_MAX: usize = 60;
    match message.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let question = json!({ "ask": "dead-show", "task_id": arguments.id });
    let told = ask(&mut daemon, &question)?.map_err(Refusal::into_failure)?;
    if arguments.json {
        return output::print(&[told.as_slice(), b"\n"].concat());
    }
    let letter: Value = answer::read(&told)?;
    let text = serde_json::to_string_pretty(&letter).map_err(|error| Failure::Failed(error.to_string()))?;
    output::print(format!("{}\n", text.lines().map(harmless).collect::<Vec<_>>().join("\n")).as_bytes())
}

fn choose(arguments: &ChoiceArguments, one: &str, all: &str) -> Result<(), Failure> {
    if !arguments.all && !arguments.filter.is_empty() {
        return Err(Failure::usage(
            "--handler and --older-than choose among --all; ids are taken as they are",
        ));
    }
    let mut daemon = arguments.daemon.connect()?;
    if arguments.all {
        let question = Value::Object(arguments.filter.question(all));
        let told = ask(&mut daemon, &question)?.map_err(Refusal::into_failure)?;
        return tell(&told, arguments.json);
    }
    let mut is_all_done = true;
    for id in &arguments.ids {
        match ask(&mut daemon, &json!({ "ask": one, "task_id": id }))? {
            Ok(told) => tell(&told, arguments.json)?,
            Err(refusal) => {
                is_all_done = false;
                match arguments.json {
                    true => output::print(&[refusal.json.as_slice(), b"\n"].concat())?,
                    false => output::note("error", &refusal.in_words()),
                }
            }
        }
    }
    if is_all_done { Ok(()) } else { Err(Failure::Shown(FAILED)) }
}

fn letters(count: u64) -> String {
    format!("{} {}", grouped(count), if count == 1 { "dead letter" } else { "dead letters" })
}

/// What a retry or a purge is answered with.
#[derive(Deserialize)]
struct Told {
    task_id: Option<Id>,
    was: Option<Id>,
    purged: Option<u64>,
    retried: Option<u64>,
    left: Option<u64>,
    #[serde(default)]
    refused: Vec<String>,
}

fn tell(told: &[u8], is_json: bool) -> Result<(), Failure> {
    if is_json {
        return output::print(&[told, b"\n"].concat());
    }
    let told: Told = answer::read(told)?;
    for refusal in &told.refused {
        output::note("error", refusal);
    }
    let text = match (told.task_id.zip(told.was), told.retried, told.purged) {
        (Some((new, old)), ..) => format!("{} is tried again as {}\n", old.shown(), new.shown()),
        (_, Some(retried), _) => format!("{} tried again\n", letters(retried)),
        (_, _, purged) => format!("{} let go\n", letters(purged.unwrap_or(0))),
    };
    output::print(text.as_bytes())?;
    if let Some(left) = told.left.filter(|left| *left > 0) {
        output::note("note", &format!("{} left; say the same again to go on", letters(left)));
    }
    if told.refused.is_empty() { Ok(()) } else { Err(Failure::Shown(FAILED)) }
}
