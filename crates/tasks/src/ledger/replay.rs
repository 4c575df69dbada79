//! What the records of a journal amount to: which tasks are alive and where they stand, and what else is remembered.
//!
//! Records are applied in their order, and each may come twice: a snapshot is written while the log goes on, so it may
//! know already what the log says after it. An attempt's number tells old from new. Payloads stay bytes until all
//! records are there, because most tasks of a long log have ended and nobody wants to know what they were.
//!
//! Not here: making tasks of it (`restore.rs`).

use super::records::{self, KeyRecord, Standing};
use crate::request::TaskId;
use millpond_journal::{Journal, Payload, Record, SpillRef};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a record, or where they are.
#[derive(Debug)]
pub(super) enum Blob {
    Bytes(Box<[u8]>),
    Spilled(SpillRef),
}

impl Blob {
    fn of(payload: Payload<'_>) -> Self {
        match payload {
            Payload::Bytes(bytes) => Self::Bytes(bytes.into()),
            Payload::Spilled(spill) => Self::Spilled(spill),
        }
    }

    fn here(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Spilled(_) => None,
        }
    }

    /// The bytes, wherever they are.
    pub(super) fn read(&self, journal: &Journal) -> Result<Cow<'_, [u8]>, String> {
        let payload = match self {
            Self::Bytes(bytes) => Payload::Bytes(bytes),
            Self::Spilled(spill) => Payload::Spilled(*spill),
        };
        journal.read(payload).map_err(|error| error.to_string())
    }
}

/// A task as the records tell of it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) accepted: Blob,
    pub(super) standing: Standing,
    /// Whether anything was said of it after its acceptance.
    pub(super) has_moved: bool,
    pub(super) checkpoint: Option<Blob>,
    pub(super) ended: Option<Blob>,
}

/// All that the records amount to.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By their place in the order of acceptance.
    pub(super) tasks: BTreeMap<u64, Found>,
    /// By number.
    pub(super) dead: BTreeMap<u64, Blob>,
    pub(super) keys: Vec<KeyRecord>,
    /// When each schedule was due last.
    pub(super) fired: HashMap<Box<str>, u64>,
    /// The last id, place and dead letter.
    pub(super) numbers: [u64; 3],
    /// What could not be read, the first of it: another release wrote it.
    pub(super) unreadable: Option<String>,
}

impl Table {
    pub(super) fn apply(&mut self, record: Record<'_>) {
        if self.try_apply(record).is_none() {
            let Record { kind, key, .. } = record;
            let what = format!("a record of kind {kind} about {key} says what this release does not know");
            self.unreadable.get_or_insert(what);
        }
    }

    fn try_apply(&mut self, Record { kind, key, payload }: Record<'_>) -> Option<()> {
        let small = || match payload {
            Payload::Bytes(bytes) => Some(bytes),
            Payload::Spilled(_) => None,
        };
        match kind {
            records::ACCEPTED => self.accepted(key, payload)?,
            records::BEGAN => {
                let attempt = records::read_attempt(small()?)?;
                self.stands(key, |standing| standing.begins(attempt));
            }
            records::FAILED => {
                let (attempt, due_ms) = records::read_failed(small()?)?;
                self.stands(key, |standing| standing.fails(attempt, due_ms));
            }
            records::HELD => {
                let attempt = records::read_attempt(small()?)?;
                self.stands(key, |standing| standing.is_running &= attempt < standing.attempt);
            }
            records::STANDING => {
                let read = records::read_standing(small()?)?;
                self.stands(key, |standing| *standing = read);
            }
            records::CHECKPOINT => {
                if let Some(found) = self.tasks.get_mut(&key) {
                    found.checkpoint = Some(Blob::of(payload));
                }
            }
            records::ENDED => self.ended(key, payload),
            records::FORGOTTEN => self.forget(key),
            records::DEAD => {
                self.numbers[2] = self.numbers[2].max(key);
                self.dead.insert(key, Blob::of(payload));
            }
            records::UNDEAD => drop(self.dead.remove(&key)),
            records::FIRED => {
                let (name, at_ms) = records::read_fired(small()?)?;
                let last = self.fired.entry(name.into()).or_insert(at_ms);
                *last = at_ms.max(*last);
            }
            records::KEY => self.keys.push(records::read_key(small()?)?),
            records::COUNTERS => {
                let numbers = records::read_counters(small()?)?;
                self.numbers.iter_mut().zip(numbers).for_each(|(known, number)| *known = number.max(*known));
            }
            _ => return None,
        }
        Some(())
    }

    fn accepted(&mut self, key: u64, payload: Payload<'_>) -> Option<()> {
        self.numbers[1] = self.numbers[1].max(key);
        if let Payload::Bytes(bytes) = payload
            && let TaskId::Assigned(number) = records::read_accepted_head(bytes)?.id
        {
            self.numbers[0] = self.numbers[0].max(number);
        }
        // A snapshot may know it already, and how far it has come since.
        self.tasks.entry(key).or_insert_with(|| Found {
            accepted: Blob::of(payload),
            standing: Standing::default(),
            has_moved: false,
            checkpoint: None,
            ended: None,
        });
        Some(())
    }

    fn stands(&mut self, key: u64, change: impl FnOnce(&mut Standing)) {
        if let Some(found) = self.tasks.get_mut(&key) {
            found.has_moved = true;
            change(&mut found.standing);
        }
    }

    fn ended(&mut self, key: u64, payload: Payload<'_>) {
        let is_kept = !matches!(payload, Payload::Bytes(bytes) if bytes.first() != Some(&records::IS_KEPT));
        if !is_kept {
            return self.forget(key);
        }
        if let Some(found) = self.tasks.get_mut(&key) {
            found.ended = Some(Blob::of(payload));
        }
    }

    /// A task whose outcome nobody will ask for. Its key is still known.
    fn forget(&mut self, key: u64) {
        let Some(found) = self.tasks.remove(&key) else { return };
        let head = found.accepted.here().and_then(records::read_accepted_head);
        self.keys.extend(head.and_then(|head| head.key()));
    }
}

impl Standing {
    fn begins(&mut self, attempt: u32) {
        if attempt > self.attempt {
            // One attempt after another without an end between them: a daemon died in the first.
            self.crashes += u32::from(self.is_running);
            *self =
                Self { attempt, crashes: self.crashes, is_running: true, is_retrying: false, due_ms: None };
        }
    }

    fn fails(&mut self, attempt: u32, due_ms: u64) {
        if attempt >= self.attempt {
            let crashes = self.crashes;
            *self = Self { attempt, crashes, is_running: false, is_retrying: true, due_ms: Some(due_ms) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(kind: u8, number: u32) -> (u8, Vec<u8>) {
        (kind, number.to_le_bytes().to_vec())
    }

    /// Where a task stands after these records.
    fn standing(records: &[(u8, Vec<u8>)]) -> Standing {
        let mut table = Table::default();
        let spill = Payload::Spilled(SpillRef { id: 1, bytes: 1, crc: 1 });
        table.apply(Record { kind: records::ACCEPTED, key: 7, payload: spill });
        for (kind, bytes) in records {
            table.apply(Record::new(*kind, 7, bytes));
        }
        assert_eq!(table.unreadable, None);
        table.tasks[&7].standing
    }

    fn failed(number: u32) -> (u8, Vec<u8>) {
        (records::FAILED, [number.to_le_bytes().as_slice(), &9_u64.to_le_bytes()].concat())
    }

    #[test]
    fn attempts_that_did_not_end_are_deaths_of_the_daemon_and_failures_are_not() {
        let [first, second, third] = [1, 2, 3].map(|number| attempt(records::BEGAN, number));
        let stands = standing(&[first.clone(), second.clone(), third.clone()]);
        assert_eq!((stands.attempt, stands.crashes, stands.is_running), (3, 2, true));
        let stands = standing(&[first.clone(), failed(1), second.clone()]);
        assert_eq!((stands.attempt, stands.crashes, stands.is_running), (2, 0, true));
        let stands = standing(&[first.clone(), attempt(records::HELD, 1), second.clone()]);
        assert_eq!((stands.attempt, stands.crashes), (2, 0), "a shutdown is no death");
        let stands = standing(&[first, failed(1)]);
        assert_eq!((stands.is_running, stands.is_retrying, stands.due_ms), (false, true, Some(9)));
    }

    #[test]
    fn what_a_snapshot_knew_already_changes_nothing() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&[1, 0]);
        let snapshot = (records::STANDING, bytes);
        let later = [snapshot, attempt(records::BEGAN, 1), failed(1), attempt(records::BEGAN, 2)];
        let stands = standing(&later);
        assert_eq!(
            (stands.attempt, stands.crashes, stands.is_running, stands.is_retrying),
            (2, 0, true, false)
        );
    }

    #[test]
    fn what_nobody_keeps_is_forgotten_and_what_nobody_knows_is_told() {
        let mut table = Table::default();
        let spill = Payload::Spilled(SpillRef { id: 1, bytes: 1, crc: 1 });
        for key in [1, 2, 3] {
            table.apply(Record { kind: records::ACCEPTED, key, payload: spill });
        }
        table.apply(Record::new(records::ENDED, 1, &[0, 0]));
        table.apply(Record::new(records::ENDED, 2, &[records::IS_KEPT, 0]));
        table.apply(Record::new(records::FORGOTTEN, 3, &[]));
        table.apply(Record::new(records::BEGAN, 99, &1_u32.to_le_bytes()));
        assert_eq!(table.tasks.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!((table.numbers, table.unreadable.is_none()), ([0, 3, 0], true));
        table.apply(Record::new(200, 5, &[]));
        assert!(table.unreadable.unwrap().contains("kind 200 about 5"));
    }
}
