//! `millpond nats get`: how a task of a queue ended, or what it says until then.
//!
//! The server knows of a task what daemons wrote down: its end, or that an attempt failed. Of one that waits, or
//! runs for the first time, it knows nothing, and nothing of one whose result was let go; so that is what is said.

use super::heard::{answer_of, outcome};
use super::queue::{QueueArguments, failure};
use crate::answer::{self, Event, Id, Outcome};
use crate::columns::{Cell, list};
use crate::daemon::{STEP, unexpected};
use crate::failure::Failure;
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::report::{Ended, Left, Mode, Report};
use crate::units::parse_time;
use crate::{interrupt, task_argument};
use clap::Args;
use millpond_local::Kind;
use millpond_nats::{NatsClient, Record, Wants};
use millpond_tasks::{ErrorCode, Limits, TaskId};
use std::time::{Duration, Instant};

/// What `nats get` is told.
#[derive(Debug, Args)]
pub(super) struct GetArguments {
    /// The task's id
    #[arg(value_name = "ID", value_parser = task_argument::parse)]
    id: TaskId,

    /// Wait for its end
    #[arg(short, long)]
    wait: bool,

    /// Print what it says from now on, if it was submitted so, and then its result
    #[arg(short, long)]
    stream: bool,

    /// How long to wait at most
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,

    /// Print JSON: the outcome of a task that has ended, else its entry; events one a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

pub(super) fn run(arguments: &GetArguments) -> Result<(), Failure> {
    let (client, limits) = arguments.queue.connect()?;
    if arguments.wait || arguments.stream {
        return follow(&client, arguments, limits);
    }
    let id = Id::of(&arguments.id);
    match client.get(&arguments.id).map_err(|error| failure(&error))? {
        Some(record) if record.state.is_final() => {
            let mut report = Report::new(Mode { waits: true, json: arguments.json, is_one: true }, None);
            let payload = outcome(&record);
            report.outcome(1, &answer::read::<Outcome>(&payload)?, &payload);
            report.flush()?;
            report.finish(Ended::Done, &Left { ids: vec![&id], under_way: 0, refused: 0, nats: None })
        }
        Some(record) if arguments.json => output::print_json(&record),
        Some(record) => output::print(text(&id, &record).as_bytes()),
        None => {
            let code = ErrorCode::NotFound;
            Err(Failure::Failed(format!(
                "task {}: {code} ({}): queue {} has no result of it: it waits or runs (--wait waits for it), its \
                 result is older than nats.results_age, or there was no such task",
                id.shown(),
                code.number(),
                client.queue()
            )))
        }
    }
}

fn follow(client: &NatsClient, arguments: &GetArguments, limits: Limits) -> Result<(), Failure> {
    interrupt::listen()?;
    let wants = if arguments.stream { Wants::Streams } else { Wants::Results };
    let id = Id::of(&arguments.id);
    let until = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut report = Report::new(Mode { waits: true, json: arguments.json, is_one: true }, None);
    let mut task = client.submission(limits, wants, true);
    task.follow(1, &arguments.id).map_err(|error| failure(&error))?;
    let ended = loop {
        report.flush()?;
        if interrupt::is_pressed() {
            break Ended::Interrupted;
        }
        let left = until.map_or(STEP, |until| until.saturating_duration_since(Instant::now()));
        let Some(heard) = task.wait(left.min(STEP)).map_err(|error| failure(&error))? else {
            if left.is_zero() {
                break Ended::TimeOver;
            }
            continue;
        };
        let answer = answer_of(heard);
        match answer.kind {
            Kind::Event => report.event(Some(&id), &answer::read::<Event>(&answer.payload)?, &answer.payload),
            Kind::Result => {
                report.outcome(1, &answer::read::<Outcome>(&answer.payload)?, &answer.payload);
                break Ended::Done;
            }
            other => return Err(unexpected(other, "news of a task")),
        }
    };
    report.flush()?;
    let flags = arguments.queue.typed();
    let under_way = usize::from(ended != Ended::Done);
    report.finish(ended, &Left { ids: vec![&id], under_way, refused: 0, nats: Some(&flags) })
}

/// What is known of a task that is tried again.
fn text(id: &Id, record: &Record) -> String {
    let row = |name: &str, value: String| vec![Cell::toned(Tone::Faint, name), Cell::new(value)];
    let mut rows = vec![
        row("task", id.shown()),
        row("state", record.state.name().to_owned()),
        row("failures", record.failures.to_string()),
        row("last daemon", harmless(&record.daemon).into_owned()),
    ];
    let failed = record.outcome.as_ref().and_then(|json| answer::read::<Outcome>(json.get().as_bytes()).ok());
    rows.extend(failed.map(|outcome| row("last failure", outcome.failure())));
    list(&rows, Paint::for_output())
}
