//! What is written about a task: the records of the journal, field by field.
//!
//! ```text
//! ACCEPTED   key: the task's place in the order of acceptance    what was asked for, and by which door
//! BEGAN      the same                                            which attempt
//! FAILED     the same                                            which attempt, and when the next one is due
//! HELD       the same                                            which attempt a shutdown interrupted
//! CHECKPOINT the same                                            what attempts left for the next one
//! ENDED      the same                                            the outcome
//! FORGOTTEN  the same                                            nothing: the outcome was taken
//! DEAD       the letter's number                                 the letter
//! UNDEAD     the letter's number                                 nothing: it was tried again or let go
//! FIRED      0                                                   which schedule, and when it was due
//! KEY        0                                                   an idempotency key and its task
//! COUNTERS   0                                                   the last numbers given
//! STANDING   the task's place                                    how far it has come; in snapshots only
//! ```
//!
//! A kind keeps its number and its fields for ever; what a later release wants to say gets a new kind.
//!
//! Not here: what follows from them (`replay.rs`), numbers and texts (`words.rs`).

use super::words::{Reader, Writer};
use crate::dead::DeadLetter;
use crate::door::DoorName;
use crate::error::{ErrorCode, TaskFailure};
use crate::outcome::Outcome;
use crate::request::TaskId;
use crate::task::Task;
use millpond::Priority;
use serde_json::value::RawValue;
use std::time::Duration;

pub(super) const ACCEPTED: u8 = 1;
pub(super) const BEGAN: u8 = 2;
pub(super) const FAILED: u8 = 3;
pub(super) const HELD: u8 = 4;
pub(super) const CHECKPOINT: u8 = 5;
pub(super) const ENDED: u8 = 6;
pub(super) const FORGOTTEN: u8 = 7;
pub(super) const DEAD: u8 = 8;
pub(super) const UNDEAD: u8 = 9;
pub(super) const FIRED: u8 = 10;
pub(super) const KEY: u8 = 11;
pub(super) const COUNTERS: u8 = 12;
pub(super) const STANDING: u8 = 13;

/// A record on its way to the journal.
pub(crate) struct Entry {
    pub(super) kind: u8,
    pub(super) key: u64,
    pub(super) bytes: Vec<u8>,
}

/// What ACCEPTED says.
#[derive(Debug)]
pub(super) struct AcceptedRecord {
    pub(super) id: TaskId,
    pub(super) door: DoorName,
    pub(super) accepted_unix_ns: u64,
    pub(super) handler: Box<str>,
    pub(super) args: Box<RawValue>,
    pub(super) priority: Priority,
    pub(super) affinity: Option<u64>,
    pub(super) timeout: Option<Duration>,
    pub(super) retries: u32,
    pub(super) traceparent: Option<Box<str>>,
    pub(super) unique_key: Option<Box<str>>,
    pub(super) expires: Option<Duration>,
    pub(super) keep: bool,
    /// When its delay is over, in Unix time.
    pub(super) due_ms: Option<u64>,
    /// Its idempotency key, and the fingerprint of the request.
    pub(super) key: Option<(Box<str>, u64)>,
    pub(super) checkpoint: Option<Box<RawValue>>,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(super) const fn lane(priority: Priority) -> u8 {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

fn priority_of(lane: u8) -> Option<Priority> {
    [Priority::High, Priority::Normal, Priority::Low]
        .into_iter()
        .find(|priority| self::lane(*priority) == lane)
}

/// A task as it was accepted.
pub(super) fn accepted(task: &Task, due_ms: Option<u64>, checkpoint: Option<&RawValue>) -> Entry {
    let mut writer = Writer::new(128 + task.args.get().len());
    // The first four are looked at without the others.
    writer.id(&task.id);
    writer.number(task.accepted_unix_ns);
    writer.perhaps_text(task.idempotency.as_ref().map(|(key, _)| &**key));
    writer.number(task.idempotency.as_ref().map_or(0, |(_, fingerprint)| *fingerprint));
    writer.byte(task.door as u8);
    writer.text(&task.handler.name);
    writer.text(task.args.get());
    writer.byte(lane(task.priority));
    writer.perhaps(task.affinity);
    writer.perhaps(task.timeout.map(microseconds));
    writer.small(task.retries);
    writer.perhaps_text(task.traceparent.as_deref());
    writer.perhaps_text(task.unique_key.as_deref());
    writer.perhaps(task.expires.map(microseconds));
    writer.byte(u8::from(task.keep));
    writer.perhaps(due_ms);
    writer.perhaps_text(checkpoint.map(RawValue::get));
    Entry { kind: ACCEPTED, key: task.sequence, bytes: writer.0 }
}

pub(super) fn read_accepted(bytes: &[u8]) -> Option<AcceptedRecord> {
    let mut reader = Reader(bytes);
    let micros = |time: Option<u64>| time.map(Duration::from_micros);
    let owned = |text: Option<&str>| text.map(Into::into);
    let head = read_head(&mut reader)?;
    Some(AcceptedRecord {
        id: head.id,
        accepted_unix_ns: head.accepted_unix_ns,
        key: head.key.map(|key| (key.into(), head.fingerprint)),
        door: door(reader.byte()?),
        handler: reader.text()?.into(),
        args: reader.json()?,
        priority: priority_of(reader.byte()?)?,
        affinity: reader.perhaps()?,
        timeout: micros(reader.perhaps()?),
        retries: reader.small()?,
        traceparent: owned(reader.perhaps_text()?),
        unique_key: owned(reader.perhaps_text()?),
        expires: micros(reader.perhaps()?),
        keep: reader.byte()? == 1,
        due_ms: reader.perhaps()?,
        checkpoint: json_perhaps(reader.perhaps_text()?)?,
    })
}

/// The beginning of ACCEPTED, which is wanted also where the rest is not.
pub(super) struct AcceptedHead<'a> {
    pub(super) id: TaskId,
    accepted_unix_ns: u64,
    key: Option<&'a str>,
    fingerprint: u64,
}

impl AcceptedHead<'_> {
    /// Its idempotency key, which outlives the task.
    pub(super) fn key(&self) -> Option<KeyRecord> {
        let since_ms = self.accepted_unix_ns / 1_000_000;
        let (id, fingerprint) = (self.id.clone(), self.fingerprint);
        self.key.map(|key| KeyRecord { key: key.into(), fingerprint, id, since_ms })
    }
}

pub(super) fn read_accepted_head(bytes: &[u8]) -> Option<AcceptedHead<'_>> {
    read_head(&mut Reader(bytes))
}

fn read_head<'a>(reader: &mut Reader<'a>) -> Option<AcceptedHead<'a>> {
    Some(AcceptedHead {
        id: reader.id()?,
        accepted_unix_ns: reader.number()?,
        key: reader.perhaps_text()?,
        fingerprint: reader.number()?,
    })
}

/// A door of a later release is one of the program's own.
fn door(number: u8) -> DoorName {
    DoorName::ALL.get(usize::from(number)).copied().unwrap_or_default()
}

fn json_perhaps(text: Option<&str>) -> Option<Option<Box<RawValue>>> {
    match text {
        None => Some(None),
        Some(text) => RawValue::from_string(text.to_owned()).ok().map(Some),
    }
}

/// An attempt by its number: BEGAN and HELD.
pub(super) fn attempt(kind: u8, task: &Task, attempt: u32) -> Entry {
    Entry { kind, key: task.sequence, bytes: attempt.to_le_bytes().to_vec() }
}

pub(super) fn read_attempt(bytes: &[u8]) -> Option<u32> {
    Reader(bytes).small()
}

/// An attempt failed, and the next one is due then.
pub(super) fn failed(task: &Task, attempt: u32, due_ms: u64) -> Entry {
    let mut writer = Writer::new(12);
    writer.small(attempt);
    writer.number(due_ms);
    Entry { kind: FAILED, key: task.sequence, bytes: writer.0 }
}

pub(super) fn read_failed(bytes: &[u8]) -> Option<(u32, u64)> {
    let mut reader = Reader(bytes);
    Some((reader.small()?, reader.number()?))
}

pub(super) fn checkpoint(task: &Task, value: &RawValue) -> Entry {
    Entry { kind: CHECKPOINT, key: task.sequence, bytes: value.get().as_bytes().to_vec() }
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) attempt: u32,
    /// How often the daemon died while it ran.
    pub(super) crashes: u32,
    pub(super) is_running: bool,
    /// Whether an attempt failed and the next one waits.
    pub(super) is_retrying: bool,
    /// What it waits for, in Unix time.
    pub(super) due_ms: Option<u64>,
}

pub(super) fn standing(task: &Task, standing: &Standing) -> Entry {
    let mut writer = Writer::new(20);
    writer.small(standing.attempt);
    writer.small(standing.crashes);
    writer.byte(u8::from(standing.is_running) | u8::from(standing.is_retrying) << 1);
    writer.perhaps(standing.due_ms);
    Entry { kind: STANDING, key: task.sequence, bytes: writer.0 }
}

pub(super) fn read_standing(bytes: &[u8]) -> Option<Standing> {
    let mut reader = Reader(bytes);
    let (attempt, crashes, flags) = (reader.small()?, reader.small()?, reader.byte()?);
    let due_ms = reader.perhaps()?;
    Some(Standing { attempt, crashes, is_running: flags & 1 == 1, is_retrying: flags & 2 == 2, due_ms })
}

/// What ENDED says.
#[derive(Debug)]
pub(super) struct EndedRecord {
    pub(super) outcome: Outcome,
    pub(super) ended_at_ms: u64,
}

/// The first byte of ENDED if the outcome is kept.
pub(super) const IS_KEPT: u8 = 1;

pub(super) fn ended(sequence: u64, outcome: &Outcome, is_kept: bool, ended_at_ms: u64) -> Entry {
    let mut writer = Writer::new(64 + outcome.bytes());
    writer.byte(u8::from(is_kept));
    writer.number(ended_at_ms);
    writer.small(outcome.attempts);
    writer.number(microseconds(outcome.waited));
    writer.number(microseconds(outcome.ran));
    match &outcome.result {
        Ok(value) => {
            writer.byte(0);
            writer.text(value.get());
        }
        Err(failure) => {
            writer.byte(1);
            writer.failure(failure);
        }
    }
    Entry { kind: ENDED, key: sequence, bytes: writer.0 }
}

pub(super) fn read_ended(bytes: &[u8]) -> Option<EndedRecord> {
    let mut reader = Reader(bytes);
    let _ = reader.byte()?;
    let ended_at_ms = reader.number()?;
    let attempts = reader.small()?;
    let waited = Duration::from_micros(reader.number()?);
    let ran = Duration::from_micros(reader.number()?);
    let result = match reader.byte()? {
        0 => Ok(reader.json()?),
        _ => Err(reader.failure()?),
    };
    Some(EndedRecord { outcome: Outcome { result, attempts, waited, ran }, ended_at_ms })
}

/// A record that says nothing but whom it is about.
pub(super) fn plain(kind: u8, key: u64) -> Entry {
    Entry { kind, key, bytes: Vec::new() }
}

pub(super) fn dead(letter: &DeadLetter) -> Entry {
    let mut writer = Writer::new(128 + letter.args.get().len() + letter.message.len());
    writer.id(&letter.task_id);
    writer.text(&letter.handler);
    writer.text(letter.args.get());
    writer.byte(lane(letter.priority));
    writer.perhaps(letter.affinity);
    writer.perhaps(letter.timeout_ms);
    writer.small(letter.retries);
    writer.perhaps_text(letter.traceparent.as_deref());
    writer.small(letter.attempts);
    writer.number(letter.accepted_at_ms);
    writer.number(letter.died_at_ms);
    writer.failure(&TaskFailure::new(letter.error, letter.message.clone()));
    writer.perhaps_text(letter.checkpoint.as_ref().map(|value| value.get()));
    Entry { kind: DEAD, key: letter.number, bytes: writer.0 }
}

pub(super) fn read_dead(number: u64, bytes: &[u8]) -> Option<DeadLetter> {
    let mut reader = Reader(bytes);
    let task_id = reader.id()?;
    let handler = reader.text()?.into();
    let args = reader.json()?;
    let priority = priority_of(reader.byte()?)?;
    let (affinity, timeout_ms, retries) = (reader.perhaps()?, reader.perhaps()?, reader.small()?);
    let traceparent = reader.perhaps_text()?.map(Into::into);
    let (attempts, accepted_at_ms, died_at_ms) = (reader.small()?, reader.number()?, reader.number()?);
    let TaskFailure { code, message, .. } = reader.failure()?;
    let checkpoint = json_perhaps(reader.perhaps_text()?)?;
    let (error, message): (ErrorCode, Box<str>) = (code, message.into());
    Some(DeadLetter {
        number,
        task_id,
        handler,
        args,
        priority,
        affinity,
        timeout_ms,
        retries,
        traceparent,
        attempts,
        accepted_at_ms,
        died_at_ms,
        error,
        message,
        checkpoint,
    })
}

pub(super) fn fired(schedule: &str, at_ms: u64) -> Entry {
    let mut writer = Writer::new(16 + schedule.len());
    writer.text(schedule);
    writer.number(at_ms);
    Entry { kind: FIRED, key: 0, bytes: writer.0 }
}

pub(super) fn read_fired(bytes: &[u8]) -> Option<(&str, u64)> {
    let mut reader = Reader(bytes);
    Some((reader.text()?, reader.number()?))
}

/// An idempotency key, as a snapshot keeps it.
#[derive(Clone, Debug)]
pub(crate) struct KeyRecord {
    pub(crate) key: Box<str>,
    pub(crate) fingerprint: u64,
    pub(crate) id: TaskId,
    pub(crate) since_ms: u64,
}

pub(super) fn key(record: &KeyRecord) -> Entry {
    let mut writer = Writer::new(48 + record.key.len());
    writer.text(&record.key);
    writer.number(record.fingerprint);
    writer.id(&record.id);
    writer.number(record.since_ms);
    Entry { kind: KEY, key: 0, bytes: writer.0 }
}

pub(super) fn read_key(bytes: &[u8]) -> Option<KeyRecord> {
    let mut reader = Reader(bytes);
    let key = reader.text()?.into();
    Some(KeyRecord { key, fingerprint: reader.number()?, id: reader.id()?, since_ms: reader.number()? })
}

/// The last numbers given: ids, places in the order of acceptance, dead letters.
pub(super) fn counters(numbers: [u64; 3]) -> Entry {
    let bytes = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    Entry { kind: COUNTERS, key: 0, bytes }
}

pub(super) fn read_counters(bytes: &[u8]) -> Option<[u64; 3]> {
    let mut reader = Reader(bytes);
    Some([reader.number()?, reader.number()?, reader.number()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_and_a_letter_come_back_as_they_were() {
        let value = || RawValue::from_string("[1, 2]".to_owned()).unwrap();
        let outcome = Outcome {
            result: Ok(value()),
            attempts: 3,
            waited: Duration::from_micros(12),
            ran: Duration::from_micros(34),
        };
        let entry = ended(7, &outcome, true, 99);
        let back = read_ended(&entry.bytes).unwrap();
        assert_eq!((entry.key, entry.bytes[0], back.ended_at_ms, back.outcome.attempts), (7, IS_KEPT, 99, 3));
        assert_eq!(back.outcome.result.unwrap().get(), "[1, 2]");
        let letter = DeadLetter {
            number: 5,
            task_id: TaskId::Assigned(17),
            handler: "resize".into(),
            args: value(),
            priority: Priority::Low,
            affinity: Some(1),
            timeout_ms: None,
            retries: 2,
            traceparent: Some("00".into()),
            attempts: 3,
            accepted_at_ms: 1,
            died_at_ms: 2,
            error: ErrorCode::HandlerError,
            message: "no".into(),
            checkpoint: Some(value()),
        };
        let entry = dead(&letter);
        let back = read_dead(entry.key, &entry.bytes).unwrap();
        assert_eq!(format!("{back:?}"), format!("{letter:?}"));
        for end in 0..entry.bytes.len() {
            assert!(read_dead(5, &entry.bytes[..end]).is_none(), "{end} bytes");
        }
    }

    #[test]
    fn small_records_come_back_as_they_were() {
        assert_eq!(read_fired(&fired("nightly", 9).bytes), Some(("nightly", 9)));
        assert_eq!(read_counters(&counters([1, 2, 3]).bytes), Some([1, 2, 3]));
        let record = KeyRecord { key: "k".into(), fingerprint: 7, id: TaskId::Number(1), since_ms: 8 };
        assert_eq!(format!("{:?}", read_key(&key(&record).bytes).unwrap()), format!("{record:?}"));
        assert!(read_attempt(&[1, 0, 0]).is_none());
    }
}
