//! What is heard of tasks under way: which entry is about which of them, what they say, and when that is all.
//!
//! An entry counts only if it is of the same origin and newer than the task: an older task of the same id may have left
//! one, also in an older stream of the same name. Revisions decide that, and no clock. The end of a task that is read
//! along with is told after the last that it said, or after a while if that does not come.
//!
//! Not here: sending (`submission.rs`).

use super::{Heard, Pending, Submission};
use crate::api::get_entry;
use crate::error::NatsError;
use crate::record::{Record, RecordState};
use async_nats::Message;
use async_nats::jetstream::kv::{self, Operation};
use millpond_tasks::ErrorCode;
use serde_json::value::RawValue;
use std::time::{Duration, Instant};

/// How many tasks are looked up at once.
const LOOK_UP_MAX: usize = 256;
/// How many entries may come before an acknowledgement does.
const EARLY_MAX: usize = 16;
/// How long chunks may come behind the result of their task.
const CHUNKS_GRACE: Duration = Duration::from_secs(2);

impl Submission<'_> {
    /// Something was written about a task, perhaps one of ours.
    pub(super) fn entry(&mut self, entry: &kv::Entry) {
        self.revision = self.revision.max(entry.revision);
        let Some(tags) = self.tags.get(&entry.key).cloned() else { return };
        if entry.operation != Operation::Put {
            return;
        }
        let Some(record) = Record::read(&entry.value) else { return };
        for tag in tags {
            self.record(tag, record.clone(), entry.revision);
        }
    }

    pub(super) fn record(&mut self, tag: u64, record: Record, revision: u64) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        let is_newer = revision > task.floor;
        let is_ours = match (&task.parcel, task.sequence) {
            // Whatever is there is what was asked for.
            (None, _) => true,
            (Some(_), None) => {
                if task.early.len() == EARLY_MAX {
                    task.early.remove(0);
                }
                task.early.push((record, revision));
                return;
            }
            // A cancel that knows no origin is for all that were there when it was written. Clocks are not asked; and
            // an older stream of the same name may have had the same sequence.
            (Some(_), Some(sequence)) if record.origin == 0 || record.origin == sequence => {
                is_newer || task.is_duplicate
            }
            (Some(_), Some(sequence)) if record.origin > sequence && is_newer && record.state.is_final() => {
                let message = "another task of the same id came after it, and the result is of that one";
                return self.give_up(tag, ErrorCode::ResultGone, message.to_owned());
            }
            _ => false,
        };
        if !is_ours || task.end.is_some() {
            return;
        }
        if record.state == RecordState::Retrying {
            if record.failures > task.failures {
                task.failures = record.failures;
                self.heard.push_back(Heard::Retrying { tag, record });
            }
            return;
        }
        if task.is_silent {
            self.remove(tag);
            self.heard.push_back(Heard::Ended { tag, record });
        } else {
            task.end = Some((record, Instant::now() + CHUNKS_GRACE));
        }
    }

    pub(super) fn chunk(&mut self, tag: u64, message: Option<Message>) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        match message {
            Some(message) if !is_end(&message.payload) => {
                self.heard.push_back(Heard::Said { tag, event: message.payload.to_vec() });
            }
            _ => {
                task.is_silent = true;
                self.end_silent(Instant::now());
            }
        }
    }

    /// Tells the ends of those that have nothing more to say, or have had the time to.
    pub(super) fn end_silent(&mut self, now: Instant) {
        let is_over =
            |task: &Pending| task.end.as_ref().is_some_and(|(_, until)| task.is_silent || *until <= now);
        let over: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| is_over(task)).map(|(tag, _)| *tag).collect();
        for tag in over {
            if let Some((record, _)) = self.remove(tag).and_then(|task| task.end) {
                self.heard.push_back(Heard::Ended { tag, record });
            }
        }
    }

    pub(super) fn look_up_the_old(&mut self, now: Instant) -> Result<(), NatsError> {
        let is_old = |task: &Pending| {
            let was_sent = task.parcel.is_none() || task.sequence.is_some();
            was_sent && task.end.is_none() && now.duration_since(task.begun) >= super::LOOK_UP_EVERY
        };
        let mut old: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| is_old(task)).map(|(tag, _)| *tag).collect();
        old.truncate(LOOK_UP_MAX);
        self.look_up(&old)
    }

    pub(super) fn look_up(&mut self, tags: &[u64]) -> Result<(), NatsError> {
        if self.results.is_none() || tags.is_empty() {
            return Ok(());
        }
        let keys: Vec<(u64, String)> =
            tags.iter().filter_map(|tag| Some((*tag, self.tasks.get(tag)?.key.clone()))).collect();
        let (client, bucket) = (&self.client.connection.client, self.client.queue.results());
        let look_ups = keys.iter().map(|(tag, key)| async { (*tag, get_entry(client, &bucket, key).await) });
        let found = self.client.block_on(futures_util::future::join_all(look_ups));
        for (tag, entry) in found {
            // One that cannot be read now is looked up again.
            if let Ok(Some(entry)) = entry
                && let Some(record) = Record::read(&entry.value)
            {
                self.record(tag, record, entry.revision);
            }
        }
        Ok(())
    }
}

/// Whether nothing more is said.
fn is_end(payload: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Last {
        end: Option<Box<RawValue>>,
    }
    serde_json::from_slice::<Last>(payload).is_ok_and(|last| last.end.is_some())
}
