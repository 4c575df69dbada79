//! `millpond submit`: one task, a file of them, or whatever comes on standard input.
//!
//! A window of tasks is under way at once. When the daemon's queue is full it says when to come again; the
//! task is then sent again, and nothing new before it. What a request is, the daemon judges: a line that is
//! none costs that line alone.
//!
//! Not here: where requests come from (`source.rs`), which way they go (`way.rs`), what is printed (`report.rs`).

mod source;
mod way;
mod window;

use crate::answer::{self, Accepted, Event, Outcome, Refusal};
use crate::daemon::{Answer, DaemonArguments, STEP, Waited, unexpected};
use crate::failure::Failure;
use crate::interrupt;
use crate::nats::{self, QueueFlags};
use crate::report::{Ended, Left, Mode, Report};
use crate::units::parse_time;
use clap::{Args, value_parser};
use millpond_local::{Flags, Kind};
use millpond_nats::{NatsClient, Wants};
use source::{Request, Source, Taken};
use std::time::{Duration, Instant};
use way::Way;
use window::Window;

/// While tasks are under way and more lines may come at any moment, one is looked at so often for the other.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a queue is full before that is told.
const FULL_TOLD_AFTER: Duration = Duration::from_secs(1);

/// What `submit` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond submit '{\"handler\": \"echo\", \"args\": {\"hello\": \"world\"}}' --wait
  millpond submit tasks.ndjson --wait --json > results.ndjson     a request on each line
  seq 100 | sed 's/.*/{\"handler\": \"sleep\", \"args\": {\"ms\": &}}/' | millpond submit - --wait
  id=$(millpond submit '{\"handler\": \"sleep\", \"args\": {\"ms\": 5000}}'); millpond get $id --wait
  millpond submit --nats nats://127.0.0.1:4222 --queue jobs tasks.ndjson    to whichever daemon works on that queue")]
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

    #[command(flatten)]
    queue: QueueFlags,
}

pub(crate) fn run(arguments: &SubmitArguments) -> Result<(), Failure> {
    if arguments.queue.url.is_some() || arguments.queue.queue.is_some() {
        return run_nats(arguments);
    }
    let daemon = arguments.daemon.connect()?;
    let source = Source::open(&arguments.input, daemon.hello().frame_bytes_max)?;
    let in_flight_max = daemon.hello().in_flight_max;
    let flags = flags(arguments, mode(arguments, &source));
    go(arguments, source, in_flight_max, Way::Daemon(Box::new(daemon), flags), None)
}

/// The same over a NATS server.
fn run_nats(arguments: &SubmitArguments) -> Result<(), Failure> {
    let (settings, limits) = arguments.queue.settings(arguments.daemon.config.as_deref())?;
    let client = NatsClient::connect(&settings).map_err(|error| nats::failure(&error))?;
    let source = Source::open(&arguments.input, limits.request_bytes_max)?;
    let wants = match (arguments.stream, arguments.wait) {
        (true, _) => Wants::Streams,
        (false, true) => Wants::Results,
        (false, false) => Wants::Acceptance,
    };
    let tasks = client.submission(limits, wants, source.is_one());
    go(arguments, source, u64::MAX, Way::Nats(Box::new(tasks)), Some(&arguments.queue.typed()))
}

fn mode(arguments: &SubmitArguments, source: &Source) -> Mode {
    Mode { waits: arguments.wait || arguments.stream, json: arguments.json, is_one: source.is_one() }
}

/// Sends everything that way, and tells what becomes of it.
fn go(
    arguments: &SubmitArguments,
    source: Source,
    in_flight_max: u64,
    mut way: Way,
    nats: Option<&str>,
) -> Result<(), Failure> {
    interrupt::listen()?;
    let in_flight = usize::try_from(arguments.in_flight.min(in_flight_max)).unwrap_or(usize::MAX);
    let mut submission = Submission {
        report: Report::new(mode(arguments, &source), source.bytes()),
        source,
        window: Window::new(in_flight),
        may_retry: !arguments.no_retry,
        until: arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        full_since: None,
        tells_full: nats.is_some(),
    };
    let ended = submission.go(&mut way);
    // What has come is shown, whatever else happened.
    submission.report.flush()?;
    submission.report.finish(ended?, &Left { nats, ..submission.window.left() })
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
    may_retry: bool,
    until: Option<Instant>,
    /// Since when the queue is full, until that is told; over NATS nobody else says why nothing happens.
    full_since: Option<Instant>,
    tells_full: bool,
}

impl Submission {
    fn go(&mut self, way: &mut Way) -> Result<Ended, Failure> {
        loop {
            self.send_what_may_go(way)?;
            if self.window.is_empty() && self.source.is_over() {
                return Ok(Ended::Done);
            }
            self.report.flush()?;
            if self.window.is_empty() {
                self.source.wait(STEP)?;
            } else if let Waited::Answer(answer) = way.wait(self.look_up_at())? {
                self.take_all(way, answer)?;
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

    fn send_what_may_go(&mut self, way: &mut Way) -> Result<(), Failure> {
        while let Some(tag) = self.window.take_due(Instant::now()) {
            way.send(tag, self.window.text(tag))?;
        }
        while self.window.has_room() {
            match self.source.take()? {
                Taken::Request(Request { line, text }) => {
                    self.report.sent(text.len());
                    let tag = self.window.add(line, text);
                    way.send(tag, self.window.text(tag))?;
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
    fn take_all(&mut self, way: &mut Way, first: Answer) -> Result<(), Failure> {
        let mut next = Some(first);
        while let Some(answer) = next {
            self.take(&answer)?;
            next = way.buffered();
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
            let now = Instant::now();
            let since = *self.full_since.get_or_insert(now);
            if self.tells_full && now.duration_since(since) >= FULL_TOLD_AFTER {
                self.tells_full = false;
                self.report
                    .note(&format!("{}; waiting for room, --no-retry gives up instead", refusal.in_words()));
            }
            return self.window.send_again(tag, refusal.retry_after_ms, now);
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
