//! `millpond submit`: one task, a file of them, or whatever comes on standard input.
//!
//! A window of tasks is under way at once. When the daemon's queue is full it says when to come again; the
//! task is then sent again, and nothing new before it. What a request is, the daemon judges: a line that is
//! none costs that line alone.
//!
//! Not here: where requests come from (`source.rs`), what is printed (`report.rs`).

mod source;
mod window;

use crate::answer::{self, Accepted, Event, Outcome, Refusal};
use crate::daemon::{Answer, Daemon, DaemonArguments, STEP, Waited, unexpected};
use crate::failure::Failure;
use crate::interrupt;
use crate::report::{Ended, Mode, Report};
use crate::units::parse_time;
use clap::{Args, value_parser};
use millpond_local::{Flags, Kind};
use source::{Request, Source, Taken};
use std::time::{Duration, Instant};
use window::Window;

/// While tasks are under way and more lines may come at any moment, one is looked at so often for the other.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What `submit` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond submit '{\"handler\": \"echo\", \"args\": {\"hello\": \"world\"}}' --wait
  millpond submit tasks.ndjson --wait --json > results.ndjson     a request on each line
  seq 100 | sed 's/.*/{\"handler\": \"sleep\", \"args\": {\"ms\": &}}/' | millpond submit - --wait
  id=$(millpond submit '{\"handler\": \"sleep\", \"args\": {\"ms\": 5000}}'); millpond get $id --wait")]
pub(crate) struct SubmitArguments {
    /// A request in JSON, a file with one on each line, or - for standard input
    #[arg(value_name = "JSON|FILE|-")]
    input: String,

    /// Wait for the results and print them
    #[arg(short, long)]
    wait: bool,

    /// Print what the tasks say while they run, and then their results
    #[arg(short, long)]
    stream: bool,

    /// How long to wait at most; the tasks go on
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,

    /// Of many tasks, how many are under way at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = value_parser!(u64).range(1..=65_536))]
    in_flight: u64,

    /// Do not come again when the queue is full
    #[arg(long)]
    no_retry: bool,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

pub(crate) fn run(arguments: &SubmitArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let source = Source::open(&arguments.input, daemon.hello().frame_bytes_max)?;
    interrupt::listen()?;
    let waits = arguments.wait || arguments.stream;
    let mode = Mode { waits, json: arguments.json, is_one: source.is_one() };
    let in_flight =
        usize::try_from(arguments.in_flight.min(daemon.hello().in_flight_max)).unwrap_or(usize::MAX);
    let mut submission = Submission {
        report: Report::new(mode, source.bytes()),
        source,
        window: Window::new(in_flight),
        flags: flags(arguments, mode),
        may_retry: !arguments.no_retry,
        until: arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
    };
    let ended = submission.go(&mut daemon);
    // What has come is shown, whatever else happened.
    submission.report.flush()?;
    submission.report.finish(ended?, &submission.window.left())
}

/// What the daemon is asked to answer.
fn flags(arguments: &SubmitArguments, mode: Mode) -> Flags {
    let answer = match (arguments.stream, arguments.wait) {
        (true, _) => Flags::STREAM,
        (false, true) => Flags::RESULT,
        (false, false) => Flags::NONE,
    };
    // The id is known early where somebody may need it: to name the task of an event, or one that is given up
    // on.
    let needs_id = mode.waits && (mode.is_one || arguments.stream);
    if needs_id { answer | Flags::ACK } else { answer }
}

struct Submission {
    source: Source,
    window: Window,
    report: Report,
    flags: Flags,
    may_retry: bool,
    until: Option<Instant>,
}

impl Submission {
    fn go(&mut self, daemon: &mut Daemon) -> Result<Ended, Failure> {
        loop {
            self.send_what_may_go(daemon)?;
            if self.window.is_empty() && self.source.is_over() {
                return Ok(Ended::Done);
            }
            self.report.flush()?;
            if self.window.is_empty() {
                self.source.wait(STEP)?;
            } else if let Waited::Answer(answer) = daemon.wait(Some(self.look_up_at()))? {
                self.take_all(daemon, answer)?;
            }
            if interrupt::is_pressed() {
                return Ok(Ended::Interrupted);
            }
            let is_done = self.window.is_empty() && self.source.is_over();
            if !is_done && self.until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Ended::TimeOver);
            }
        }
    }

    /// Until when there is nothing to do but to wait for an answer.
    fn look_up_at(&self) -> Instant {
        let may_get_lines = self.window.has_room() && !self.source.is_over();
        let step = Instant::now() + if may_get_lines { LOOK_EVERY } else { STEP };
        [self.window.again_at(), self.until].into_iter().flatten().fold(step, Instant::min)
    }

    fn send_what_may_go(&mut self, daemon: &mut Daemon) -> Result<(), Failure> {
        while let Some(tag) = self.window.take_due(Instant::now()) {
            daemon.send(Kind::Submit, self.flags, tag, self.window.text(tag))?;
        }
        while self.window.has_room() {
            match self.source.take()? {
                Taken::Request(Request { line, text }) => {
                    self.report.sent(text.len());
                    let tag = self.window.add(line, text);
                    daemon.send(Kind::Submit, self.flags, tag, self.window.text(tag))?;
                }
                Taken::Wrong { line, message } => {
                    self.report.wrong_line(line, &message);
                    self.report.flush()?;
                }
                Taken::NothingYet | Taken::End => break,
            }
        }
        Ok(())
    }

    /// Takes an answer, and those that came with it.
    fn take_all(&mut self, daemon: &mut Daemon, first: Answer) -> Result<(), Failure> {
        let mut next = Some(first);
        while let Some(answer) = next {
            self.take(&answer)?;
            next = daemon.buffered();
        }
        Ok(())
    }

    fn take(&mut self, answer: &Answer) -> Result<(), Failure> {
        let Some(pending) = self.window.get(answer.tag) else {
            return Err(unexpected(answer.kind, "an answer to a task of ours"));
        };
        let payload = &answer.payload;
        match answer.kind {
            Kind::Accepted => {
                let accepted: Accepted = answer::read(payload)?;
                self.report.accepted(&accepted, payload);
                pending.id = Some(accepted.task_id);
                if !self.report.mode().waits {
                    self.window.remove(answer.tag);
                }
            }
            Kind::Event => {
                let event: Event = answer::read(payload)?;
                self.report.event(pending.id.as_ref(), &event, payload);
            }
            Kind::Result => {
                let outcome: Outcome = answer::read(payload)?;
                self.report.outcome(pending.line, &outcome, payload);
                self.window.remove(answer.tag);
            }
            Kind::Error => self.take_refusal(answer.tag, &Refusal::read(payload)?),
            other => return Err(unexpected(other, "an answer to SUBMIT")),
        }
        Ok(())
    }

    fn take_refusal(&mut self, tag: u64, refusal: &Refusal) {
        if refusal.is_full() && self.may_retry {
            return self.window.send_again(tag, refusal.retry_after_ms, Instant::now());
        }
        if refusal.is_draining() {
            // It will not take anything else either.
            self.source.stop();
        }
        if let Some(pending) = self.window.remove(tag) {
            self.report.refused(pending.line, refusal, &pending.text);
        }
    }
}
