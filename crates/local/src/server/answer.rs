//! What the server does about each frame of a client.
//!
//! A frame is answered or refused; refused means ERROR with what was expected and what came. The header says
//! how long the frame is, so the next one is found whatever is wrong with this one. Only a header that is
//! wrong in two ways at once, too large and of no known form, is taken for something else than our protocol:
//! a web browser, perhaps. Then the connection is closed, for its bytes would be noise.
//!
//! Not here: the frames that come later, when a task says something or ends (`exchanges.rs`).

use super::Context;
use super::exchanges::Exchanges;
use super::manage;
use crate::frame::{Flags, Header, Kind};
use millpond_tasks::{
    Accepted, DoorName, ErrorCode, LIST_MAX, ListFilter, Position, Reader, Refused, Stage, Submit, Task,
    TaskFailure, TaskId, Wants,
};
use serde::de::{Deserialize, Deserializer};
use std::sync::Arc;

/// How many characters of a client's own words an error repeats.
const WORDS_SHOWN_MAX: usize = 200;

/// Whether the next bytes are the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// They are.
    Kept,
    /// These bytes are no frames of ours.
    Lost,
}

/// The payload of GET.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct GetWords {
    #[serde(deserialize_with = "task_id")]
    task_id: TaskId,
    from: Option<u64>,
}

/// The payload of CANCEL and TAKE.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskWords {
    #[serde(deserialize_with = "task_id")]
    task_id: TaskId,
}

/// The payload of LIST.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListWords {
    stage: Option<String>,
    handler: Option<String>,
    max: Option<usize>,
}

/// The payload of STATS.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoWords {}

/// The payload of FORGET.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgetWords {
    tag: u64,
}

impl Exchanges {
    /// A whole frame has come. `is_gone` says that nobody will read the answer.
    pub(super) fn answer(&mut self, context: &Context, header: Header, payload: &[u8], is_gone: bool) {
        let tag = header.tag;
        let kind = match check(header) {
            Ok(kind) => kind,
            Err(failure) => return self.fail(context, tag, None, failure),
        };
        match kind {
            Kind::Submit => self.submit(context, header, payload, is_gone),
            Kind::Ping => self.say(Kind::Pong, tag, |out| out.extend_from_slice(payload)),
            _ => {
                if let Err(refused) = self.ask(context, kind, header, payload) {
                    self.refuse(context, tag, &refused);
                }
            }
        }
    }

    /// The header of a frame has come whose payload is too large. It will be stepped over, if it is one.
    pub(super) fn answer_too_large(&mut self, context: &Context, header: Header) -> Step {
        let wrong_form = check(header).err();
        let bytes_max = context.payload_bytes_max();
        let mut message =
            format!("expected a payload of at most {bytes_max} bytes, got {}", header.payload_bytes);
        match &wrong_form {
            Some(other) => {
                message.push_str(&format!("; and {}; is this the millpond protocol?", other.message));
            }
            None => message.push_str("; send less, or raise request.bytes_max"),
        }
        self.fail(context, header.tag, None, TaskFailure::new(ErrorCode::TooLarge, message));
        if wrong_form.is_some() { Step::Lost } else { Step::Kept }
    }

    fn submit(&mut self, context: &Context, header: Header, payload: &[u8], is_gone: bool) {
        let (flags, tag) = (header.flags, header.tag);
        let wants = if is_gone { None } else { wants(flags, 0) };
        let opened = wants.map(|wants| (self.outbox.open(tag, wants != Wants::Result), wants));
        let reader = opened.map(|((_, number), wants)| self.reader(number, wants));
        // Nobody who waits: then it is kept for whoever asks.
        let keep = flags.has(Flags::KEEP) || reader.is_none();
        match context.service.submit(payload, Submit { reader, keep, door: DoorName::Control, earlier: None })
        {
            Ok(mut accepted) => {
                let watching = accepted.watching.take();
                if let (Some(((slot, _), _)), Some(watching)) = (opened, watching) {
                    self.begin(context, slot, tag, Some(watching));
                }
                if opened.is_none() || flags.has(Flags::ACK) {
                    let number = opened.map(|((_, number), _)| number);
                    self.acknowledge(context, tag, number, &accepted, is_gone);
                }
            }
            Err(refused) => {
                if let Some(((slot, _), _)) = opened {
                    self.outbox.close(slot);
                }
                self.refuse(context, tag, &refused);
            }
        }
    }

    /// Says that a task is accepted, once it is kept. `number` is what the exchange is called that goes on; without
    /// one this is the last word.
    fn acknowledge(
        &mut self,
        context: &Context,
        tag: u64,
        number: Option<u64>,
        accepted: &Accepted,
        is_gone: bool,
    ) {
        if accepted.is_kept() {
            return self.say(Kind::Accepted, tag, |out| say_id(&accepted.task, out));
        }
        let (outbox, task) = (Arc::clone(&self.outbox), Arc::clone(&accepted.task));
        if let Some(number) = number {
            // One that is not kept after all is answered as every task is that has failed.
            return accepted.on_kept(move |kept| {
                if kept.is_ok() {
                    outbox.put(number, Kind::Accepted, |out| say_id(&task, out));
                }
            });
        }
        if is_gone {
            return;
        }
        let (slot, number) = self.outbox.open(tag, false);
        self.begin(context, slot, tag, None);
        accepted.on_kept(move |kept| match kept {
            Ok(()) => outbox.put_last(number, Kind::Accepted, |out| say_id(&task, out)),
            Err(refused) => outbox.put_last(number, Kind::Error, |out| refused.write_json(out)),
        });
    }

    /// Cancels a task, and says so once that is kept.
    fn cancel(&mut self, context: &Context, tag: u64, id: &TaskId) -> Result<(), Refused> {
        if !context.service.is_durable() {
            context.service.cancel(id).map_err(|failure| about(id, failure))?;
            self.say(Kind::Ok, tag, |out| out.extend_from_slice(b"{}"));
            return Ok(());
        }
        let (slot, number) = self.outbox.open(tag, false);
        self.begin(context, slot, tag, None);
        let (outbox, id) = (Arc::clone(&self.outbox), id.clone());
        context.service.cancel_then(&id.clone(), move |cancelled| match cancelled {
            Ok(_) => outbox.put_last(number, Kind::Ok, |out| out.extend_from_slice(b"{}")),
            Err(failure) => outbox.put_last(number, Kind::Error, |out| about(&id, failure).write_json(out)),
        });
        Ok(())
    }

    /// The kinds that are asked by people rather than a hundred thousand times a second.
    fn ask(&mut self, context: &Context, kind: Kind, header: Header, payload: &[u8]) -> Result<(), Refused> {
        let tag = header.tag;
        match kind {
            Kind::Get => {
                let words: GetWords = read(kind, payload, r#"{"task_id": ..., "from": ...}"#)?;
                self.get(context, header, words)?;
            }
            Kind::Cancel => {
                let words: TaskWords = read(kind, payload, r#"{"task_id": ...}"#)?;
                self.cancel(context, tag, &words.task_id)?;
            }
            Kind::Take => {
                let TaskWords { task_id } = read(kind, payload, r#"{"task_id": ...}"#)?;
                let task = context.service.take(&task_id).map_err(|failure| about(&task_id, failure))?;
                self.say(Kind::Result, tag, |out| {
                    task.write_outcome(out);
                });
            }
            Kind::List => {
                let words: ListWords = read(kind, payload, r#"{"stage": ..., "handler": ..., "max": ...}"#)?;
                let tasks = context.service.list(&filter(words)?);
                self.say(Kind::Tasks, tag, |out| write_json(&serde_json::json!({ "tasks": tasks }), out));
            }
            Kind::Stats => {
                let NoWords {} = read(kind, payload, "{}")?;
                self.say(Kind::Numbers, tag, |out| write_json(&context.all_stats(), out));
            }
            Kind::Forget => {
                let words: ForgetWords = read(kind, payload, r#"{"tag": ...}"#)?;
                self.forget_tag(context, words.tag)?;
                self.say(Kind::Ok, tag, |out| out.extend_from_slice(b"{}"));
            }
            Kind::Ask => {
                let told = manage::answer(&context.service, read(kind, payload, manage::EXPECTED)?)?;
                self.say(Kind::Told, tag, |out| write_json(&told, out));
            }
            _ => unreachable!("checked to be a client's, and the other two are answered above"),
        }
        Ok(())
    }

    fn get(&mut self, context: &Context, header: Header, words: GetWords) -> Result<(), Refused> {
        let GetWords { task_id, from } = words;
        let Header { flags, tag, .. } = header;
        if from.is_some() && !flags.has(Flags::STREAM) {
            let message = "GET: from: expected only with the flag STREAM (2)";
            return Err(about(&task_id, TaskFailure::new(ErrorCode::InvalidRequest, message)));
        }
        let task = context.service.get(&task_id).map_err(|failure| about(&task_id, failure))?;
        let Some(wants) = wants(flags, from.unwrap_or(0)) else {
            self.say(Kind::Status, tag, |out| write_json(&task.status(), out));
            return Ok(());
        };
        let (slot, number) = self.outbox.open(tag, wants != Wants::Result);
        match task.watch(self.reader(number, wants)) {
            Ok(watching) => {
                self.begin(context, slot, tag, Some(watching));
                Ok(())
            }
            Err(failure) => {
                self.outbox.close(slot);
                Err(about(&task_id, failure))
            }
        }
    }

    /// Ends every exchange of a tag. An answer that was faster goes ahead of what is said about this.
    fn forget_tag(&mut self, context: &Context, tag: u64) -> Result<(), Refused> {
        let slots = self.called(tag);
        let mut is_any_forgotten = false;
        for slot in slots {
            is_any_forgotten |= self.forget(context, slot);
        }
        if is_any_forgotten {
            return Ok(());
        }
        let message =
            format!("FORGET: nothing is under way with the tag {tag}; its last answer may have been sent");
        Err(Refused { failure: TaskFailure::new(ErrorCode::NotFound, message), id: None, retry_after: None })
    }

    fn reader(&self, number: u64, wants: Wants) -> Reader {
        Reader { who: Arc::clone(&self.outbox) as _, tag: number, wants }
    }
}

/// What the flags of SUBMIT and GET ask for. STREAM brings the result as well.
fn wants(flags: Flags, from: u64) -> Option<Wants> {
    if flags.has(Flags::STREAM) {
        Some(Wants::Stream { from })
    } else {
        flags.has(Flags::RESULT).then_some(Wants::Result)
    }
}

/// The kind of a client's frame, if its header has the form of one.
fn check(header: Header) -> Result<Kind, TaskFailure> {
    let wrong = |message| Err(TaskFailure::new(ErrorCode::InvalidRequest, message));
    let Some(kind) = Kind::from_number(header.kind).filter(|kind| kind.is_from_client()) else {
        return wrong(format!("kind: expected one of a client's, 1 to 9, got {}", header.kind));
    };
    if header.reserved != 0 {
        return wrong(format!(
            "{kind}: expected 0 in bytes 6 and 7 of the header, got {:#06x}",
            header.reserved
        ));
    }
    let (allowed, names) = match kind {
        Kind::Submit => (
            Flags::RESULT | Flags::STREAM | Flags::KEEP | Flags::ACK,
            "RESULT (1), STREAM (2), KEEP (4) and ACK (8)",
        ),
        Kind::Get => (Flags::RESULT | Flags::STREAM, "RESULT (1) and STREAM (2)"),
        _ => (Flags::NONE, "none"),
    };
    if header.flags.exceeds(allowed) {
        return wrong(format!("{kind}: flags: expected {names}, got {:#04x}", header.flags.number()));
    }
    Ok(kind)
}

/// Reads a payload that is an object of ours.
fn read<'a, T: Deserialize<'a>>(kind: Kind, payload: &'a [u8], expected: &str) -> Result<T, Refused> {
    let first = payload.iter().position(|byte| !byte.is_ascii_whitespace());
    if let Some(at) = first.filter(|at| payload[*at] == b'[') {
        // The reader behind this would take the fields from an array, too.
        return Err(unreadable(kind, expected, "got an array", Position::of(payload, at)));
    }
    serde_json::from_slice(payload).map_err(|error| {
        let text = error.to_string();
        // The place is said beside the message, as everywhere.
        let words = text.split(" at line ").next().unwrap_or(&text);
        let at = Position { line: error.line().max(1) as u64, column: error.column().max(1) as u64 };
        unreadable(kind, expected, words, at)
    })
}

fn unreadable(kind: Kind, expected: &str, words: &str, at: Position) -> Refused {
    let message = format!("{kind}: expected {expected}: {}", shown(words));
    let failure = TaskFailure { code: ErrorCode::InvalidRequest, message, at: Some(at) };
    Refused { failure, id: None, retry_after: None }
}

/// Words with something of the client's in them, fit for a log: not long, and no control characters.
fn shown(words: &str) -> String {
    let mut shown = String::new();
    for (count, character) in words.chars().enumerate() {
        if count == WORDS_SHOWN_MAX {
            shown.push('…');
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

pub(super) fn about(id: &TaskId, failure: TaskFailure) -> Refused {
    Refused { failure, id: Some(id.clone()), retry_after: None }
}

fn filter(words: ListWords) -> Result<ListFilter, Refused> {
    let ListWords { stage, handler, max } = words;
    let wrong = |message| {
        let failure = TaskFailure::new(ErrorCode::InvalidRequest, message);
        Err(Refused { failure, id: None, retry_after: None })
    };
    let stage = match stage {
        None => None,
        Some(name) => match Stage::by_name(&name) {
            Some(stage) => Some(stage),
            None => {
                let names = Stage::ALL.map(Stage::name).join(", ");
                return wrong(format!("LIST: stage: expected one of {names}, got \"{}\"", shown(&name)));
            }
        },
    };
    if max.is_some_and(|max| max > LIST_MAX) {
        return wrong(format!("LIST: max: expected 0 to {LIST_MAX}, got {}", max.unwrap_or_default()));
    }
    Ok(ListFilter { stage, handler, max, ..ListFilter::default() })
}

/// A task's id as a request may give it: a whole number or a string.
pub(super) fn task_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskId, D::Error> {
    // A tagged question is read through a buffer, from which nothing can be borrowed.
    let raw = serde_json::Value::deserialize(deserializer)?.to_string();
    let raw = raw.as_str();
    let id = if raw.starts_with('"') { TaskId::parse(raw) } else { raw.parse().ok().map(TaskId::Number) };
    id.ok_or_else(|| {
        serde::de::Error::custom("task_id: expected a whole number from 0, or a string of 1 to 128 bytes")
    })
}

fn say_id(task: &Task, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"task_id\":");
    write_json(task.id(), out);
    out.push(b'}');
}

fn write_json(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("names are strings, and a vector takes all");
}
