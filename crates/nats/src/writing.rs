//! The steps of a task that talk to the server: what is sent for each, and what its answer means.
//!
//! A result is written by compare-and-set: first as if there were no entry. If there is one, it is read, and
//! `record.rs` decides whether ours may follow; an entry of another daemon for the same task that is final means that
//! we came late, and ours is dropped. The message is acknowledged only after the server has said that the entry is
//! kept, a dead letter is copied before its result is written, and that before the message is removed: whatever dies
//! in between, the task comes again and nothing is lost.
//!
//! Not here: the decision what follows from an end (`ending.rs`).

use crate::api::{read, time_ms};
use crate::ending::{End, Ending, last_word};
use crate::engine::Engine;
use crate::error::NatsError;
use crate::figures::count;
use crate::holding::{Entry, Finish, Held, Step};
use crate::intake::{LATER_PAUSE_MAX, copy_of, moved, to};
use crate::link::{Link, Sent};
use crate::message::{EXPECTED_LAST, Heading, MESSAGE_ID, REASON, TASK};
use crate::names::{Lane, bucket_stream, entry_subject};
use crate::record::{Follows, Record, RecordState};
use crate::shared::{Ended, Shared, now_ms};
use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use millpond_tasks::{ErrorCode, TaskFailure};
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an entry needs beside what is in it: headers, and the subject.
const OVERHEAD_BYTES: usize = 1024;
/// How long after the server refused something it is tried again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// How often a step is tried that the server refuses.
const REFUSALS_MAX: u32 = 30;
/// How often refusals are told.
const REFUSAL_TOLD_EVERY: Duration = Duration::from_secs(10);
/// The longest reason in the header of a dead letter.
const REASON_BYTES_MAX: usize = 512;

/// What is to be done after an end.
pub(crate) fn step_after(
    shared: &Shared,
    held: &Held,
    end: &End<'_>,
    ending: Ending,
    ended: &Ended,
    payload_max: usize,
) -> Step {
    match ending {
        Ending::GiveBack { pause } => Step::Finish(Finish::Nack(pause)),
        Ending::Retry { pause, is_long } => {
            let failures = held.failures + 1;
            let outcome = ended.failure.as_ref().map(|failure| failed(held, failure)).unwrap_or_default();
            let checkpoint = ended.checkpoint.as_ref().map(|value| value.get());
            let entry =
                entry(shared, held, RecordState::Retrying, failures, &outcome, checkpoint, payload_max);
            if is_long {
                let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                let due_ms = now_ms().saturating_add(pause_ms);
                let copy = moved(shared, held, Lane::Later, Some(due_ms), failures);
                // The entry first: a copy without it would be run without what the attempt has left.
                return Step::Put { entry, expected: held.revision, then: Box::new(copy) };
            }
            let then = Box::new(Step::Finish(Finish::Nack(pause)));
            Step::Put { entry, expected: held.revision, then }
        }
        Ending::Final { record, buried } => {
            let told = ended.failure.as_ref().map(|failure| last_word(end, failure));
            let outcome =
                told.as_ref().map_or_else(|| ended.outcome.clone(), |failure| failed(held, failure));
            let state = match told.as_ref().map(|failure| failure.code) {
                None => RecordState::Done,
                Some(ErrorCode::Cancelled) => RecordState::Cancelled,
                Some(_) => RecordState::Failed,
            };
            let failures = held.failures + u32::from(state == RecordState::Failed);
            let finish = if buried { Finish::Term } else { Finish::Ack };
            let last = if record {
                let entry = entry(shared, held, state, failures, &outcome, None, payload_max);
                Step::Put { entry, expected: held.revision, then: Box::new(Step::Finish(finish)) }
            } else {
                Step::Finish(finish)
            };
            match told.filter(|_| buried) {
                Some(failure) => bury(shared, held, &failure, last),
                None => last,
            }
        }
    }
}

/// A copy among the dead letters, and then `then`.
fn bury(shared: &Shared, held: &Held, failure: &TaskFailure, then: Step) -> Step {
    let mut headers = held.heading.write();
    headers.insert(MESSAGE_ID, format!("mill:{}:{}", held.origin, held.key).as_str());
    headers.insert(crate::message::ORIGIN, held.origin.to_string().as_str());
    headers.insert(crate::message::SINCE, held.since_ms.to_string().as_str());
    let failures = held.failures + u32::from(held.run > 0);
    headers.insert(crate::message::FAILURES, failures.to_string().as_str());
    headers.insert(TASK, header_text(&held.id.to_string()).as_str());
    headers.insert(REASON, header_text(&failure.to_string()).as_str());
    Step::Copy { subject: shared.queue.dead_subject(), headers, then: Box::new(then) }
}

/// A text that a header can have.
fn header_text(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace(['\r', '\n'], " ")
}

/// How a failure is told, as every door does it.
fn failed(held: &Held, failure: &TaskFailure) -> Vec<u8> {
    let mut told = json!({
        "task_id": held.id,
        "status": failure.code.number(),
        "error": failure.code.name(),
        "message": failure.message,
        "attempts": held.failures + u32::from(held.run > 0),
    });
    if let Some(at) = failure.at {
        told["line"] = at.line.into();
        told["column"] = at.column.into();
    }
    told.to_string().into_bytes()
}

/// An entry that the server can take.
fn entry(
    shared: &Shared,
    held: &Held,
    state: RecordState,
    failures: u32,
    outcome: &[u8],
    checkpoint: Option<&str>,
    payload_max: usize,
) -> Entry {
    let json = write_entry(shared, held, state, failures, outcome, checkpoint);
    if json.len() + OVERHEAD_BYTES <= payload_max {
        return Entry { json: json.into(), state, failures };
    }
    let message = format!(
        "expected a result of at most {} bytes, the limit of the NATS server, got {}; stream it, or raise max_payload \
         of the server",
        payload_max.saturating_sub(OVERHEAD_BYTES),
        json.len()
    );
    let outcome = failed(held, &TaskFailure::new(ErrorCode::TooLarge, message));
    let state = if state == RecordState::Done { RecordState::Failed } else { state };
    Entry { json: write_entry(shared, held, state, failures, &outcome, None).into(), state, failures }
}

/// As `Record` is written, by hand: there is one for every task.
fn write_entry(
    shared: &Shared,
    held: &Held,
    state: RecordState,
    failures: u32,
    outcome: &[u8],
    checkpoint: Option<&str>,
) -> Vec<u8> {
    let mut json = Vec::with_capacity(outcome.len() + 192);
    let _ = write!(
        json,
        "{{\"state\":\"{}\",\"origin\":{},\"deliveries\":{},\"failures\":{failures},\"daemon\":{},\"at_ms\":{},\
         \"outcome\":",
        state.name(),
        held.origin,
        held.place.deliveries,
        shared.daemon_json,
        now_ms(),
    );
    json.extend_from_slice(outcome);
    if let Some(checkpoint) = checkpoint {
        let _ = write!(json, ",\"checkpoint\":{checkpoint}");
    }
    json.push(b'}');
    json
}

impl Engine {
    /// The next step of a task, at once.
    pub(crate) async fn go(&mut self, sequence: u64, step: Step) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        held.step = step;
        held.asked = None;
        held.not_before = None;
        let is_busy = held.is_busy();
        self.busy = self.busy + usize::from(is_busy) - usize::from(held.is_counted);
        held.is_counted = is_busy;
        self.advance(sequence).await;
    }

    /// Sends what its step needs; if that is not possible now, it is tried again.
    pub(crate) async fn advance(&mut self, sequence: u64) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let shared = &self.shared;
        let token = self.next_token + 1;
        let answer_to = |link: &Link| Some(link.reply('a', token));
        let results = || shared.queue.results();
        let sent = match &held.step {
            Step::Running => return,
            Step::Room => {
                held.not_before = None;
                return Box::pin(self.run_again(sequence)).await;
            }
            Step::LookUp | Step::Check { .. } => {
                let bucket = results();
                let subject = format!(
                    "$JS.API.DIRECT.GET.{}.{}",
                    bucket_stream(&bucket),
                    entry_subject(&bucket, &held.key)
                );
                let reply = answer_to(&self.link);
                self.link.send(to(&subject), reply, None, Bytes::new()).await
            }
            Step::Copy { subject, headers, .. } => {
                let reply = answer_to(&self.link);
                self.link.send(to(subject), reply, Some(headers.clone()), copy_of(held)).await
            }
            Step::Put { entry, expected, .. } => {
                let mut headers = HeaderMap::new();
                headers.insert(EXPECTED_LAST, expected.to_string().as_str());
                let subject = entry_subject(&results(), &held.key);
                let reply = answer_to(&self.link);
                self.link.send(to(&subject), reply, Some(headers), entry.json.clone()).await
            }
            Step::Finish(finish) => {
                let finish = held.last_word(*finish, Instant::now());
                let sent = match finish.words() {
                    Some(words) => self.link.send(held.reply.clone(), None, None, words).await,
                    None => Sent::Yes,
                };
                if sent != Sent::NotNow {
                    self.let_go(sequence, finish);
                }
                return;
            }
        };
        match sent {
            Sent::Yes => {
                self.next_token = token;
                if let Some((lost, _)) = held.asked.replace((token, Instant::now())) {
                    self.asked.remove(&lost);
                }
                self.asked.insert(token, sequence);
            }
            Sent::NotNow => held.not_before = None,
            Sent::Never => Box::pin(self.is_too_large(sequence)).await,
        }
    }

    pub(crate) fn let_go(&mut self, sequence: u64, finish: Finish) {
        let Some(held) = self.held.remove(&sequence) else { return };
        self.busy -= usize::from(held.is_counted);
        self.held_bytes -= held.payload.len();
        self.in_service -= usize::from(held.is_in_service);
        if held.place.lane == Lane::Later {
            self.later = self.later.saturating_sub(1);
        }
        let figures = &self.shared.figures;
        match finish {
            Finish::Ack | Finish::Term => count(&figures.acked),
            Finish::Nack(_) if held.place.lane == Lane::Later => {}
            Finish::Nack(_) => count(&figures.nacked),
            Finish::Silence => count(&figures.fenced),
        }
    }

    /// The server has answered a step.
    pub(crate) async fn answered(&mut self, sequence: u64, token: u64, message: &Message) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        if held.asked.is_none_or(|(asked, _)| asked != token) {
            return;
        }
        held.asked = None;
        match &held.step {
            Step::LookUp | Step::Check { .. } => match found(message) {
                Ok(found) => self.was_found(sequence, found).await,
                Err(words) => self.wait_and_try_again(sequence, &words),
            },
            Step::Copy { .. } | Step::Put { .. } => match kept(message) {
                Ok(()) => self.is_done(sequence).await,
                Err(NatsError::Conflict(_)) => self.was_not_first(sequence).await,
                Err(NatsError::Full(words) | NatsError::TooLarge(words)) => {
                    self.found_no_room(sequence, &words).await
                }
                Err(error) => self.wait_and_try_again(sequence, error.message()),
            },
            Step::Room | Step::Running | Step::Finish(_) => {}
        }
    }

    fn wait_and_try_again(&mut self, sequence: u64, words: &str) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        held.refusals += 1;
        let now = Instant::now();
        // One line for all that are refused at about the same time.
        let untold = match self.told_refusal {
            Some((at, untold)) if now.saturating_duration_since(at) < REFUSAL_TOLD_EVERY => {
                self.told_refusal = Some((at, untold + 1));
                None
            }
            told => Some(told.map_or(0, |(_, untold)| untold)),
        };
        if let Some(untold) = untold {
            self.told_refusal = Some((now, 0));
            let line = format!(
                "nats: task {}: {words}; it is tried again ({untold} others since the last line)",
                held.id
            );
            self.shared.log.warn(&line);
        }
        if held.refusals > REFUSALS_MAX {
            // It comes again after its lease, and one day too often.
            return self.let_go(sequence, Finish::Silence);
        }
        held.not_before = Some(Instant::now() + REFUSED_PAUSE);
    }

    /// No server with this limit takes it.
    async fn is_too_large(&mut self, sequence: u64) {
        let payload_max = self.link.client.max_payload();
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let words = format!("too large for the server, whose max_payload is {payload_max}; raise that");
        let dead = self.shared.queue.dead_subject();
        let is_letter = matches!(&held.step, Step::Copy { subject, .. } if *subject == dead);
        let note = format!("{{\"note\":\"the request had {} bytes, {words}\"}}", held.payload.len());
        if is_letter && held.payload.len() > note.len() {
            self.shared.log.error(&format!("nats: task {}: {words}; its letter is a note", held.id));
            self.held_bytes = self.held_bytes + note.len() - held.payload.len();
            held.payload = note.into();
            return self.advance(sequence).await;
        }
        self.found_no_room(sequence, &words).await;
    }

    /// The queue is full, or a copy would be too large: nothing can be moved. What is due is run where it is; what is
    /// not waits on its lane.
    async fn found_no_room(&mut self, sequence: u64, words: &str) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let due_ms = match &held.step {
            Step::Copy { subject, headers, .. } if *subject != self.shared.queue.dead_subject() => {
                Heading::read(Some(headers)).run_at_ms
            }
            _ => return self.wait_and_try_again(sequence, words),
        };
        match due_ms {
            None => Box::pin(self.run_again(sequence)).await,
            Some(due_ms) => {
                let left = Duration::from_millis(due_ms.saturating_sub(now_ms())).min(LATER_PAUSE_MAX);
                Box::pin(self.go(sequence, Step::Finish(Finish::Nack(left)))).await;
            }
        }
    }

    /// A copy or an entry is kept.
    async fn is_done(&mut self, sequence: u64) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let figures = &self.shared.figures;
        let next = match std::mem::replace(&mut held.step, Step::Running) {
            Step::Copy { subject, then, .. } => {
                if subject == self.shared.queue.dead_subject() {
                    count(&figures.dead)
                } else {
                    count(&figures.moved)
                }
                *then
            }
            Step::Put { entry, then, .. } => {
                if entry.state.is_final() {
                    count(&figures.results);
                }
                *then
            }
            other => other,
        };
        Box::pin(self.go(sequence, next)).await;
    }

    /// There is an entry already.
    async fn was_not_first(&mut self, sequence: u64) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        if let Step::Put { entry, then, .. } = std::mem::replace(&mut held.step, Step::Running) {
            Box::pin(self.go(sequence, Step::Check { entry, then })).await;
        }
    }

    async fn was_found(&mut self, sequence: u64, found: Found) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        if matches!(held.step, Step::LookUp) {
            return Box::pin(self.was_looked_up(sequence, found)).await;
        }
        let Step::Check { entry, then } = std::mem::replace(&mut held.step, Step::Running) else { return };
        let shared = Arc::clone(&self.shared);
        let Some(present) = found.record else {
            return Box::pin(self.go(sequence, Step::Put { entry, expected: found.revision, then })).await;
        };
        let ours = Record {
            state: entry.state,
            origin: held.origin,
            deliveries: held.place.deliveries,
            failures: entry.failures,
            daemon: String::new(),
            at_ms: 0,
            outcome: None,
            checkpoint: None,
        };
        let step = if ours.may_follow(held.since_ms, &present, found.at_ms) == Follows::Yes {
            Step::Put { entry, expected: found.revision, then }
        } else if present.origin == held.origin
            && present.daemon == shared.daemon
            && (present.state, present.failures) == (entry.state, entry.failures)
        {
            // It is ours: the answer was lost.
            *then
        } else if present.state == RecordState::Cancelled {
            if entry.state != RecordState::Cancelled {
                count(&shared.figures.cancelled);
            }
            Step::Finish(Finish::Ack)
        } else {
            count(&shared.figures.fenced);
            // A final one: whoever wrote it may have died before its acknowledgement. Otherwise it is another
            // daemon's.
            Step::Finish(if present.state.is_final() { Finish::Ack } else { Finish::Silence })
        };
        Box::pin(self.go(sequence, step)).await;
    }
}

/// What was found in the bucket.
pub(crate) struct Found {
    /// None if there is nothing, or nothing that can be read.
    pub(crate) record: Option<Record>,
    pub(crate) revision: u64,
    pub(crate) at_ms: u64,
}

fn found(message: &Message) -> Result<Found, String> {
    if let Some(status) = message.status {
        return match status.as_u16() {
            404 => Ok(Found { record: None, revision: 0, at_ms: 0 }),
            number => Err(format!("its entry cannot be read: the server answered {number}")),
        };
    }
    let header = |name: &str| {
        message.headers.as_ref().and_then(|headers| headers.get(name)).map(|value| value.as_str().to_owned())
    };
    let revision = header("Nats-Sequence").and_then(|text| text.parse().ok());
    let revision = revision.ok_or("its entry came without a revision")?;
    let at_ms = time_ms(&header("Nats-Time-Stamp").unwrap_or_default());
    Ok(Found { record: Record::read(&message.payload), revision, at_ms })
}

/// Whether the server keeps what it was sent.
fn kept(message: &Message) -> Result<(), NatsError> {
    if let Some(status) = message.status {
        return Err(NatsError::Missing(format!(
            "a stream of the queue is gone, or has no leader yet (the server answered {}); if it stays so, start a \
             daemon anew: it makes what is missing",
            status.as_u16()
        )));
    }
    // An error stands first in the answer; everything else is a yes.
    if message.payload.starts_with(b"{\"error\"") || !message.payload.starts_with(b"{") {
        return read("the server", &message.payload).map(|_| ());
    }
    Ok(())
}
