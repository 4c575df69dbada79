//! How tasks come back after a restart: each to where it stood, and what cannot go on to the dead letters.
//!
//! A task that waited for a time goes on waiting for it, by the clock on the wall. One that waited for a worker
//! waits for one again, in the old order. One that ran when the daemon died begins its next attempt; that does not
//! use up a retry, unless the daemon dies with it again and again: then the task is probably why, and becomes a
//! dead letter. So does one whose handler is no longer there.
//!
//! Not here: what the records say (`replay.rs`).

use super::Ledger;
use super::records::{self, AcceptedRecord, Standing};
use super::replay::{Found, Table};
use crate::dead::DeadLetter;
use crate::error::{ErrorCode, TaskFailure};
use crate::ledger::JournalError;
use crate::outcome::Outcome;
use crate::registry::Registered;
use crate::request::{Request, Target};
use crate::service::Shared;
use crate::symbols::Region;
use crate::task::{Fresh, Stage, Task};
use millpond_journal::Journal;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::time::{Duration, Instant};

/// A task as it stood.
pub(crate) struct Restored {
    pub(crate) accepted_unix_ns: u64,
    pub(crate) attempt: u32,
    pub(crate) crashes: u32,
    pub(crate) stage: Stage,
}

/// What is to be done with a task that came back.
struct Waiting {
    task: Arc<Task>,
    /// How long it has to wait, if for a time.
    wait: Option<Duration>,
    /// The daemon died too often while it ran.
    is_fatal: bool,
}

impl Shared {
    /// Brings back what the journal has. Nothing has been accepted yet.
    pub(crate) fn restore(self: &Arc<Self>, table: Table) -> Result<(), JournalError> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let Table { tasks, dead, mut keys, fired, numbers, .. } = table;
        self.list.go_on_from(numbers[0], numbers[1]);
        let journal = ledger.journal();
        let Some(journal) = journal.as_ref() else { return Ok(()) };
        for (number, blob) in dead {
            let letter = blob.read(journal).map_err(JournalError::Unreadable)?;
            self.dead.restore(records::read_dead(number, &letter).ok_or_else(|| unknown("DEAD", number))?);
        }
        self.dead.go_on_from(numbers[2]);
        for (name, at_ms) in fired {
            self.schedules.restore(&name, at_ms);
        }
        let mut waiting = Vec::new();
        let mut ended = Vec::new();
        for (sequence, found) in tasks {
            let bytes = found.accepted.read(journal).map_err(JournalError::Unreadable)?;
            let record = records::read_accepted(&bytes).ok_or_else(|| unknown("ACCEPTED", sequence))?;
            keys.extend(records::read_accepted_head(&bytes).and_then(|head| head.key()));
            match &found.ended {
                Some(end) => {
                    let end = end.read(journal).map_err(JournalError::Unreadable)?;
                    let end = records::read_ended(&end).ok_or_else(|| unknown("ENDED", sequence))?;
                    if let Ok(task) = self.bring_back(sequence, record, &found, journal)? {
                        ended.push((end.ended_at_ms, task, end.outcome));
                    }
                }
                None => match self.bring_back(sequence, record, &found, journal)? {
                    Ok(task) => waiting.push(self.plan(ledger, task, &found.standing)),
                    Err(letter) => self.bury(ledger, sequence, *letter),
                },
            }
        }
        self.keep_outcomes(ended);
        let now_ms = self.now_ms();
        self.keys.restore(keys, now_ms);
        let count = waiting.len();
        for waiting in waiting {
            waiting.go_on();
        }
        self.feed();
        ledger.health.came_back(count, ledger.began.elapsed());
        Ok(())
    }

    /// Makes a task of what the records say. One whose handler is gone is a letter.
    fn bring_back(
        self: &Arc<Self>,
        sequence: u64,
        record: AcceptedRecord,
        found: &Found,
        journal: &Journal,
    ) -> Result<Result<Arc<Task>, Box<DeadLetter>>, JournalError> {
        let checkpoint = match &found.checkpoint {
            Some(blob) => {
                let bytes = blob.read(journal).map_err(JournalError::Unreadable)?;
                let text = String::from_utf8(bytes.into_owned()).ok();
                Some(
                    text.and_then(|text| RawValue::from_string(text).ok())
                        .ok_or_else(|| unknown("CHECKPOINT", sequence))?,
                )
            }
            None => record.checkpoint.clone(),
        };
        let target = Target::Handler(record.handler.clone());
        let resolved = self.registry.find(&target).and_then(|handler| {
            let regions = self.regions_of(handler, &record.args)?;
            Ok((Arc::clone(handler), regions))
        });
        let (handler, regions) = match resolved {
            Ok(resolved) => resolved,
            Err(failure) => {
                let letter = letter_of(record, &found.standing, checkpoint, &failure, self.now_ms());
                return Ok(Err(Box::new(letter)));
            }
        };
        Ok(Ok(self.task_of(sequence, record, found, checkpoint, (handler, regions))))
    }

    fn task_of(
        self: &Arc<Self>,
        sequence: u64,
        record: AcceptedRecord,
        found: &Found,
        checkpoint: Option<Box<RawValue>>,
        (handler, regions): (Arc<Registered>, Vec<Region>),
    ) -> Arc<Task> {
        let standing = &found.standing;
        let stage = match standing {
            _ if found.ended.is_some() => Stage::Ended,
            Standing { is_retrying: true, .. } => Stage::Retrying,
            Standing { attempt: 0, due_ms: Some(_), .. } => Stage::Delayed,
            Standing { attempt: 0, .. } if !found.has_moved && record.due_ms.is_some() => Stage::Delayed,
            _ => Stage::Queued,
        };
        let request = Request {
            priority: record.priority,
            retries: record.retries,
            expires: record.expires,
            unique_key: record.unique_key,
            traceparent: record.traceparent,
            ..Request::for_handler(&record.handler, record.args)
        };
        let task = Arc::new(Task::restored(
            Fresh {
                shared: Arc::clone(self),
                id: record.id,
                sequence,
                door: record.door,
                handler,
                regions,
                affinity: record.affinity,
                timeout: record.timeout,
                keep: record.keep,
                checkpoint: checkpoint.map(Into::into),
                idempotency: record.key,
                request,
                reader: None,
                is_durable: true,
            },
            Restored {
                accepted_unix_ns: record.accepted_unix_ns,
                attempt: standing.attempt,
                crashes: standing.crashes + u32::from(standing.is_running),
                stage,
            },
        ));
        task.set_due_ms(standing.due_ms.or(record.due_ms.filter(|_| stage == Stage::Delayed)));
        task
    }

    /// Lists a task that has not ended, and says what it waits for.
    fn plan(&self, ledger: &Ledger, task: Arc<Task>, standing: &Standing) -> Waiting {
        let stage = task.lock().stage;
        self.untold.fetch_add(1, SeqCst);
        self.live.fetch_add(1, AcqRel);
        self.list.add(&task, stage);
        if let Some(key) = &task.unique_key {
            self.uniques.lock().take(key, &task);
        }
        let wait = task.due_ms().filter(|_| matches!(stage, Stage::Delayed | Stage::Retrying));
        let wait = wait.map(|due| Duration::from_millis(due.saturating_sub(self.now_ms())));
        let crashes = task.lock().crashes;
        let is_fatal = standing.is_running && crashes > ledger.crash_attempts_max();
        Waiting { task, wait, is_fatal }
    }

    /// Keeps outcomes, oldest first.
    fn keep_outcomes(&self, mut ended: Vec<(u64, Arc<Task>, Outcome)>) {
        ended.sort_by_key(|(at_ms, task, _)| (*at_ms, task.sequence));
        let (now, now_ms) = (Instant::now(), self.now_ms());
        for (at_ms, task, outcome) in ended {
            let _ = task.outcome.set(outcome);
            self.list.add(&task, Stage::Ended);
            let age = Duration::from_millis(now_ms.saturating_sub(at_ms));
            for gone in self.results.keep(&task, now.checked_sub(age).unwrap_or(now)) {
                self.list.remove(&gone);
            }
        }
    }

    /// A task that cannot go on becomes a dead letter.
    fn bury(&self, ledger: &Ledger, sequence: u64, mut letter: DeadLetter) {
        letter.number = self.dead.next_number();
        let failure = TaskFailure::new(letter.error, letter.message.clone());
        let (attempts, zero) = (letter.attempts, Duration::ZERO);
        let outcome = Outcome { result: Err(failure), attempts, waited: zero, ran: zero };
        ledger.buried(sequence, &outcome, &letter);
        ledger.health.buried.fetch_add(1, Relaxed);
        self.dead.restore(letter);
    }
}

impl Waiting {
    fn go_on(self) {
        let Self { task, wait, is_fatal } = self;
        if is_fatal {
            task.dies_of_crashes();
        } else {
            task.go_on(wait);
        }
    }
}

fn letter_of(
    record: AcceptedRecord,
    standing: &Standing,
    checkpoint: Option<Box<RawValue>>,
    failure: &TaskFailure,
    died_at_ms: u64,
) -> DeadLetter {
    let message = format!("it was accepted by an earlier daemon and cannot go on: {}", failure.message);
    DeadLetter {
        number: 0,
        task_id: record.id,
        handler: record.handler,
        args: record.args,
        priority: record.priority,
        affinity: record.affinity,
        timeout_ms: record.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        retries: record.retries,
        traceparent: record.traceparent,
        attempts: standing.attempt,
        accepted_at_ms: record.accepted_unix_ns / 1_000_000,
        died_at_ms,
        error: if failure.code == ErrorCode::Ok { ErrorCode::Internal } else { failure.code },
        message: message.into(),
        checkpoint,
    }
}

fn unknown(kind: &str, key: u64) -> JournalError {
    JournalError::Unreadable(format!("record {kind} about {key} says what this release does not know"))
}
