//! What is printed about tasks while they come and go: results and events, failures, and a sum at the end.
//!
//! Results go to standard output, one line each; for people the id stands before them if there are several.
//! What went wrong goes to standard error, unless programs read along: they get all of it as JSON on standard
//! output. A bar shows how far a file has come, if standard error is a terminal.
//!
//! Not here: what the daemon said (`answer.rs`), the exit codes (`failure.rs`).

mod counts;
mod progress;

use crate::answer::{Accepted, Event, Id, Outcome, Refusal, json_shown};
use crate::excerpt::excerpt;
use crate::failure::{FAILED, Failure, REFUSED};
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use counts::Counts;
use millpond_tasks::ErrorCode;
use progress::Progress;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::mem;

const TOO_LARGE: ErrorCode = ErrorCode::TooLarge;
/// Of many failures, people are shown so many.
const FAILURES_SHOWN_MAX: u64 = 20;

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// Whether results are waited for.
    pub(crate) waits: bool,
    /// Whether programs read it.
    pub(crate) json: bool,
    /// Whether there is but one task.
    pub(crate) is_one: bool,
}

/// What is left when nobody waits any longer.
#[derive(Debug)]
pub(crate) struct Left<'a> {
    /// Those that are known of the tasks under way.
    pub(crate) ids: Vec<&'a Id>,
    /// How many tasks go on.
    pub(crate) under_way: usize,
    /// How many the daemon had no room for, so far.
    pub(crate) refused: usize,
    /// The flags that name server and queue, if they went to one.
    pub(crate) nats: Option<&'a str>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every task was answered.
    Done,
    /// The time to wait is over.
    TimeOver,
    /// Ctrl-C was pressed.
    Interrupted,
}

#[derive(Debug)]
pub(crate) struct Report {
    mode: Mode,
    is_terminal: bool,
    output: Vec<u8>,
    counts: Counts,
    progress: Progress,
}

impl Report {
    /// `bytes` is how long the file of requests is, if that is known.
    pub(crate) fn new(mode: Mode, bytes: Option<u64>) -> Self {
        Self {
            mode,
            is_terminal: io::stdout().is_terminal(),
            output: Vec::new(),
            counts: Counts::new(),
            progress: Progress::new(mode.is_one, bytes),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// A request was sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.counts.sent += 1;
        self.progress.sent(bytes);
    }

    /// A line could not be sent.
    pub(crate) fn wrong_line(&mut self, line: u64, message: &str) {
        self.counts.sent += 1;
        if self.mode.json {
            let refused = json!({
                "task_id": null,
                "status": TOO_LARGE.number(),
                "error": TOO_LARGE.name(),
                "message": message,
                "line": line,
            });
            self.line(refused.to_string().as_bytes());
        }
        self.failed(TOO_LARGE.name(), &format!("line {line}: {message}"), "");
    }

    /// A task was accepted.
    pub(crate) fn accepted(&mut self, accepted: &Accepted, payload: &[u8]) {
        if accepted.duplicate {
            self.counts.duplicates += 1;
        }
        if self.mode.waits {
            return;
        }
        self.counts.done += 1;
        match self.mode.json {
            true => self.line(payload),
            false => self.line(accepted.task_id.shown().as_bytes()),
        }
    }

    /// Something that people should know.
    pub(crate) fn note(&mut self, message: &str) {
        if !self.mode.json {
            self.say("note", message);
        }
    }

    /// A task said something.
    pub(crate) fn event(&mut self, id: Option<&Id>, event: &Event, payload: &[u8]) {
        if self.mode.json {
            return self.event_json(id, payload);
        }
        let name = id.filter(|_| !self.mode.is_one).map_or(String::new(), |id| id.shown() + "  ");
        if let Some(fraction) = event.progress {
            self.progress.of_task(fraction);
        } else if let Some(line) = &event.log {
            self.say("log", &format!("{name}{}", harmless(line)));
        } else if let Some(missed) = event.missed {
            self.say("note", &format!("{name}{missed} events came and went before they were read"));
        } else if let Some(retrying) = &event.retrying {
            let (failures, failure) = (retrying.failures, retrying.failure());
            self.say("note", &format!("{name}attempt {failures} failed and another one follows: {failure}"));
        } else {
            let partial = event.partial.as_ref().map_or("null", |partial| partial.get());
            let line = format!("{name}{}", json_shown(partial, self.is_terminal));
            self.line(line.as_bytes());
        }
    }

    /// The same as it came, with the task's id before it.
    fn event_json(&mut self, id: Option<&Id>, payload: &[u8]) {
        match (id, payload.strip_prefix(b"{")) {
            (Some(id), Some(rest)) => {
                let mut line = format!("{{\"task_id\":{},", id.0.get()).into_bytes();
                line.extend_from_slice(rest);
                self.line(&line);
            }
            _ => self.line(payload),
        }
    }

    /// A task ended whose request stood on this line.
    pub(crate) fn outcome(&mut self, line: u64, outcome: &Outcome, payload: &[u8]) {
        if self.mode.json {
            self.line(payload);
        }
        if outcome.status != 0 {
            let message = self.with_line(line, &outcome.failure());
            return self.failed(&outcome.error, &message, "");
        }
        self.counts.done += 1;
        if !self.mode.json {
            // A result that is null reads as none.
            let result = outcome.result.as_ref().map_or("null", |result| result.get());
            let result = json_shown(result, self.is_terminal);
            match self.mode.is_one {
                true => self.line(result.as_bytes()),
                false => self.line(format!("{}  {result}", outcome.task_id.shown()).as_bytes()),
            }
        }
    }

    /// A request was refused for good.
    pub(crate) fn refused(&mut self, line: u64, refusal: &Refusal, request: &[u8]) {
        self.counts.refused += u64::from(refusal.is_about_the_daemon());
        if self.mode.json {
            self.line(&self.refusal_json(line, refusal));
        }
        let (place, excerpt) = match (refusal.line, refusal.column) {
            (Some(within), Some(column)) => {
                // In a file of lines each request is on one; elsewhere it may be on several.
                let number = if self.mode.is_one { within } else { line as usize };
                (format!(" (column {column})"), excerpt(request, within, number, column, Paint::for_errors()))
            }
            _ => (String::new(), String::new()),
        };
        let message = self.with_line(line, &(refusal.in_words() + &place));
        self.failed(&refusal.error, &message, &excerpt);
    }

    /// A message about one task of several, with the line where its request stood.
    fn with_line(&self, line: u64, message: &str) -> String {
        if self.mode.is_one { message.to_owned() } else { format!("line {line}: {message}") }
    }

    /// As it came, but with the line of the file instead of that of the request.
    fn refusal_json(&self, line: u64, refusal: &Refusal) -> Vec<u8> {
        let object = serde_json::from_slice::<serde_json::Map<_, _>>(&refusal.json);
        match object {
            Ok(mut object) if !self.mode.is_one => {
                object.insert("line".to_owned(), line.into());
                serde_json::Value::Object(object).to_string().into_bytes()
            }
            _ => refusal.json.clone(),
        }
    }

    fn failed(&mut self, error: &str, message: &str, excerpt: &str) {
        self.counts.failed(error);
        if !self.mode.json && self.counts.failures() <= FAILURES_SHOWN_MAX {
            self.say("error", message);
            self.progress.aside(|| drop(io::stderr().lock().write_all(excerpt.as_bytes())));
        }
    }

    fn say(&mut self, kind: &str, message: &str) {
        self.progress.aside(|| output::note(kind, message));
    }

    fn line(&mut self, line: &[u8]) {
        self.output.extend_from_slice(line);
        self.output.push(b'\n');
    }

    /// Writes what has gathered.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.progress.show(&self.counts);
        if self.output.is_empty() {
            return Ok(());
        }
        let output = mem::take(&mut self.output);
        self.progress.aside(|| output::print(&output))
    }

    /// The sum, and what became of it all.
    pub(crate) fn finish(mut self, ended: Ended, left: &Left) -> Result<(), Failure> {
        self.progress.clear();
        if self.counts.duplicates > 0 && !self.mode.json {
            self.say("note", &counts::were_there(self.counts.duplicates));
        }
        if !self.mode.is_one {
            let hidden = self.counts.failures().saturating_sub(FAILURES_SHOWN_MAX);
            if hidden > 0 && !self.mode.json {
                self.say("note", &format!("{hidden} more failures are not shown; --json shows all"));
            }
            let paint = Paint::for_errors();
            let tone = if self.counts.failures() == 0 { Tone::Good } else { Tone::Doubtful };
            let sum = paint.put(tone, &self.counts.sum(self.mode.waits, left.under_way));
            // If nobody hears it, so be it.
            let _ = writeln!(io::stderr().lock(), "{sum}");
        }
        match ended {
            Ended::Interrupted => {
                if left.under_way + left.refused > 0 {
                    self.say("note", &left.in_words());
                }
                Err(Failure::Interrupted)
            }
            Ended::TimeOver => {
                let message = format!("the time to wait is over; {}", left.in_words());
                Err(if left.is_refused() { Failure::Refused(message) } else { Failure::TimedOut(message) })
            }
            Ended::Done if self.counts.refused > 0 => Err(Failure::Shown(REFUSED)),
            Ended::Done if self.counts.failures() > 0 => Err(Failure::Shown(FAILED)),
            Ended::Done => Ok(()),
        }
    }
}

impl Left<'_> {
    /// Whether the daemon has none of it.
    fn is_refused(&self) -> bool {
        self.under_way == 0 && self.refused > 0
    }

    /// What to do about tasks that nobody waits for any more.
    fn in_words(&self) -> String {
        let under_way = match (&self.ids[..], self.under_way) {
            ([id], 1) if self.nats.is_some() => {
                let (id, flags) = (id.shown(), self.nats.unwrap_or_default());
                format!("task {id} goes on: \"millpond nats get {id} --wait{flags}\"")
            }
            (_, several) if self.nats.is_some() => {
                let (tasks, flags) = (counts::tasks(several as u64), self.nats.unwrap_or_default());
                format!("{tasks} may go on: \"millpond nats status{flags}\"")
            }
            ([id], 1) => {
                let id = id.shown();
                format!("task {id} goes on: \"millpond get {id} --wait\", or \"millpond cancel {id}\"")
            }
            (_, 1) => "1 task goes on: \"millpond ls\" shows it".to_owned(),
            (_, several) => format!("{} go on: \"millpond ls\" shows them", counts::tasks(several as u64)),
        };
        let refused = match self.refused {
            1 => "the queue is still full, and 1 task was not taken".to_owned(),
            several => {
                format!("the queue is still full, and {} were not taken", counts::tasks(several as u64))
            }
        };
        match (self.under_way, self.refused) {
            (0, 0) => "more lines may come".to_owned(),
            (_, 0) => under_way,
            (0, _) => refused,
            (_, _) => format!("{under_way}; {refused}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_tasks::TaskId;

    #[test]
    fn what_is_left_is_told_with_what_to_do() {
        let id = Id::of(&TaskId::Number(7));
        let left = |ids: &[_], under_way, refused| {
            Left { ids: ids.to_vec(), under_way, refused, nats: None }.in_words()
        };
        assert_eq!(left(&[&id], 1, 0), "task 7 goes on: \"millpond get 7 --wait\", or \"millpond cancel 7\"");
        assert_eq!(left(&[], 2, 0), "2 tasks go on: \"millpond ls\" shows them");
        assert_eq!(left(&[], 0, 1), "the queue is still full, and 1 task was not taken");
        let both =
            "1 task goes on: \"millpond ls\" shows it; the queue is still full, and 3 tasks were not taken";
        assert_eq!(left(&[], 1, 3), both);
        assert_eq!(left(&[], 0, 0), "more lines may come");
    }
}
