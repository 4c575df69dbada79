//! `millpond get`: where a task stands, what it says, and how it ended.
//!
//! Without a switch it answers at once: a task that has ended is shown with its result, another with its
//! stage. `--wait` and `--stream` wait for the end; a stream can begin anywhere, so that whoever lost one
//! goes on where it was.

use crate::answer::{self, Event, Id, Outcome, Refusal, Status};
use crate::columns::{Cell, list};
use crate::daemon::{Daemon, DaemonArguments, STEP, Waited, unexpected};
use crate::failure::Failure;
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::report::{Ended, Left, Mode, Report};
use crate::units::{grouped, parse_time, time};
use crate::{interrupt, task_argument};
use clap::Args;
use millpond_local::{Flags, Kind};
use millpond_tasks::TaskId;
use serde_json::json;
use std::time::{Duration, Instant};

/// What `get` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond get t17                     where it stands, or how it ended
  millpond get t17 --wait --timeout 10s
  millpond get t17 --stream --from 42  what it says from event 42 on, and then its result
  millpond get '\"17\"'                  an id that is a text and looks like a number")]
pub(crate) struct GetArguments {
    /// The task's id
    #[arg(value_name = "ID", value_parser = task_argument::parse)]
    id: TaskId,

    /// Wait for its end
    #[arg(short, long)]
    wait: bool,

    /// Print what it says, and then its result
    #[arg(short, long)]
    stream: bool,

    /// The event to begin with
    #[arg(long, value_name = "N", default_value_t = 0, requires = "stream")]
    from: u64,

    /// Let the daemon forget the outcome once it is shown
    #[arg(long)]
    take: bool,

    /// How long to wait at most
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,

    /// Print JSON: the outcome of a task that has ended, else where it stands; events one a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

pub(crate) fn run(arguments: &GetArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let question = json!({ "task_id": arguments.id }).to_string();
    if arguments.stream {
        let question = json!({ "task_id": arguments.id, "from": arguments.from }).to_string();
        return follow(&mut daemon, arguments, Flags::STREAM, &question);
    }
    if arguments.wait {
        return follow(&mut daemon, arguments, Flags::RESULT, &question);
    }
    let payload = daemon.ask(Kind::Get, question.as_bytes(), Kind::Status)?.map_err(Refusal::into_failure)?;
    let status: Status = answer::read(&payload)?;
    if status.is_ended() {
        return follow(&mut daemon, arguments, Flags::RESULT, &question);
    }
    match arguments.json {
        true => output::print(&[payload.as_slice(), b"\n"].concat()),
        false => output::print(text(&status).as_bytes()),
    }
}

/// Shows what comes until the task has ended.
fn follow(
    daemon: &mut Daemon,
    arguments: &GetArguments,
    flags: Flags,
    question: &str,
) -> Result<(), Failure> {
    interrupt::listen()?;
    let id = Id::of(&arguments.id);
    let until = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut report = Report::new(Mode { waits: true, json: arguments.json, is_one: true }, None);
    daemon.send(Kind::Get, flags, 0, question.as_bytes())?;
    let ended = loop {
        let step = Instant::now() + STEP;
        match daemon.wait(Some(until.map_or(step, |until| until.min(step))))? {
            Waited::Answer(answer) => match answer.kind {
                Kind::Event => {
                    let event: Event = answer::read(&answer.payload)?;
                    report.event(Some(&id), &event, &answer.payload);
                }
                Kind::Result => {
                    let outcome: Outcome = answer::read(&answer.payload)?;
                    report.outcome(1, &outcome, &answer.payload);
                    break Ended::Done;
                }
                Kind::Error => return Err(Refusal::read(&answer.payload)?.into_failure()),
                other => return Err(unexpected(other, "an answer to GET")),
            },
            Waited::TimeOver if until.is_some_and(|until| until <= Instant::now()) => break Ended::TimeOver,
            Waited::TimeOver => {}
            Waited::Interrupted => break Ended::Interrupted,
        }
        report.flush()?;
    };
    report.flush()?;
    if arguments.take && ended == Ended::Done {
        // Whoever was faster has it, and it is gone as well.
        let _ = daemon.ask(
            Kind::Take,
            json!({ "task_id": arguments.id }).to_string().as_bytes(),
            Kind::Result,
        )?;
    }
    report.finish(
        ended,
        &Left { ids: vec![&id], under_way: usize::from(ended != Ended::Done), refused: 0, nats: None },
    )
}

/// Where a task stands that has not ended.
fn text(status: &Status) -> String {
    let row = |name: &str, value: String| vec![Cell::toned(Tone::Faint, name), Cell::new(value)];
    let micros = |micros: u64| time(micros as f64 * 1000.0);
    let mut rows = vec![
        row("task", status.task_id.shown()),
        row("handler", harmless(&status.handler).into_owned()),
        row("stage", harmless(&status.stage).into_owned()),
        row("attempts", grouped(status.attempts)),
        row("age", micros(status.age_us)),
    ];
    if let Some(ran) = status.ran_us {
        rows.push(row("running for", micros(ran)));
    }
    if let Some(fraction) = status.progress {
        rows.push(row("progress", format!("{:.0} %", 100.0 * fraction)));
    }
    if status.events > 0 {
        rows.push(row("events", grouped(status.events)));
    }
    list(&rows, Paint::for_output())
}
