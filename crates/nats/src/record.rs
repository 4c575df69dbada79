//! The entry of a task in the bucket of results, and who may replace which: the fence against a daemon that comes
//! late.
//!
//! ```text
//!  nothing ──► retrying ──► retrying (one failure more) ──► done | failed | cancelled     for one origin
//!  an entry of an older origin is replaced by any of a newer one, never the other way round
//! ```
//!
//! An origin is the sequence under which the task came first. A client that cancels may not know it: its entry has
//! origin 0 and stands for every task of that key that was there before. Every write is a compare-and-set of the
//! server, so what [`Record::may_follow`] allows is decided on the entry that is really replaced.
//!
//! Not here: how it is written (`writing.rs`), where the key comes from (`names.rs`).

use millpond_tasks::TaskId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Where a task of the queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordState {
    /// It has a result.
    Done,
    /// It failed for good.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// An attempt failed, and another one follows.
    Retrying,
}

impl RecordState {
    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        self != Self::Retrying
    }

    /// As it is written in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Retrying => "retrying",
        }
    }
}

/// The entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Where the task stands.
    pub state: RecordState,
    /// The sequence under which it came first; 0 for all that came before this entry.
    pub origin: u64,
    /// How often it was given out.
    #[serde(default)]
    pub deliveries: u32,
    /// How many attempts failed.
    #[serde(default)]
    pub failures: u32,
    /// Who wrote this.
    #[serde(default)]
    pub daemon: String,
    /// When, in Unix time in milliseconds.
    #[serde(default)]
    pub at_ms: u64,
    /// How it ended, or how the last attempt did, as every door tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<RawValue>>,
    /// What the last attempt left for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

/// Whether an entry may be written over another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Yes.
    Yes,
    /// No: the task has ended already, or somebody else has got further with it.
    Fenced,
}

impl Record {
    /// Reads an entry; none if it is not one.
    pub fn read(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// As JSON.
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record is JSON")
    }

    /// That a task, or all of its key that came before now, was cancelled by `who`.
    pub fn cancelled(id: &TaskId, origin: u64, who: &str, at_ms: u64) -> Self {
        let code = millpond_tasks::ErrorCode::Cancelled;
        let outcome = serde_json::json!({
            "task_id": id, "status": code.number(), "error": code.name(), "message": "it was cancelled", "attempts": 0,
        });
        Self {
            state: RecordState::Cancelled,
            origin,
            deliveries: 0,
            failures: 0,
            daemon: who.to_owned(),
            at_ms,
            outcome: Some(RawValue::from_string(outcome.to_string()).expect("it was made of JSON")),
            checkpoint: None,
        }
    }

    /// Whether this entry of the task that came at `since_ms` may replace `present`, which the server took at
    /// `present_at_ms`.
    pub fn may_follow(&self, since_ms: u64, present: &Self, present_at_ms: u64) -> Follows {
        // An entry from before the task came cannot be about it, whatever its origin: the stream may be a new one.
        let stands = if since_ms > present_at_ms {
            false
        } else if present.origin == 0 || present.origin == self.origin {
            present.state.is_final() || (!self.state.is_final() && present.failures >= self.failures)
        } else {
            present.origin > self.origin
        };
        if stands { Follows::Fenced } else { Follows::Yes }
    }

    /// Whether this entry, which the server took at `at_ms`, says that the task of `origin` that came at `since_ms`
    /// has ended.
    pub fn ends(&self, origin: u64, since_ms: u64, at_ms: u64) -> bool {
        let is_same = self.origin == 0 || self.origin == origin;
        is_same && since_ms <= at_ms && self.state.is_final()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: RecordState, origin: u64, failures: u32) -> Record {
        Record {
            state,
            origin,
            deliveries: 1,
            failures,
            daemon: "d".to_owned(),
            at_ms: 1,
            outcome: None,
            checkpoint: None,
        }
    }

    #[test]
    fn a_final_entry_of_the_same_task_stands_for_ever() {
        use RecordState::{Cancelled, Done, Failed, Retrying};
        for present in [Done, Failed, Cancelled] {
            for late in [Done, Failed, Cancelled, Retrying] {
                let follows = record(late, 5, 9).may_follow(0, &record(present, 5, 0), 0);
                assert_eq!(follows, Follows::Fenced, "{late:?} after {present:?}");
            }
        }
    }

    #[test]
    fn failures_are_counted_upwards_only() {
        use RecordState::{Done, Retrying};
        let present = record(Retrying, 5, 2);
        let after = |state, failures| record(state, 5, failures).may_follow(0, &present, 0);
        assert_eq!(after(Retrying, 3), Follows::Yes);
        assert_eq!(after(Retrying, 2), Follows::Fenced, "another daemon has counted this one");
        assert_eq!(after(Done, 1), Follows::Yes, "a result ends it whoever brings it");
    }

    #[test]
    fn an_older_task_never_replaces_a_newer_one_of_the_same_id() {
        use RecordState::{Done, Retrying};
        assert_eq!(record(Done, 5, 0).may_follow(0, &record(Retrying, 6, 1), 0), Follows::Fenced);
        assert_eq!(record(Done, 6, 0).may_follow(0, &record(Done, 5, 1), 0), Follows::Yes);
    }

    #[test]
    fn an_entry_from_before_the_task_came_says_nothing_of_it() {
        // The stream was removed and made anew: sequences begin again, entries are still there.
        let old = record(RecordState::Done, 5, 0);
        assert_eq!(record(RecordState::Done, 5, 0).may_follow(2_000, &old, 1_000), Follows::Yes);
        assert_eq!(record(RecordState::Retrying, 1, 1).may_follow(2_000, &old, 1_000), Follows::Yes);
        assert!(!old.ends(5, 2_000, 1_000) && old.ends(5, 1_000, 1_000));
    }

    #[test]
    fn a_cancel_without_an_origin_is_for_what_was_there_before() {
        let cancel = Record::cancelled(&TaskId::Number(1), 0, "somebody", 1_000);
        let done = record(RecordState::Done, 5, 0);
        assert_eq!(done.may_follow(900, &cancel, 1_000), Follows::Fenced);
        assert_eq!(done.may_follow(1_001, &cancel, 1_000), Follows::Yes);
        assert!(cancel.ends(5, 900, 1_000) && !cancel.ends(5, 1_001, 1_000));
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let mut written = Record::cancelled(&TaskId::Name("x".into()), 3, "me", 4);
        written.checkpoint = Some(RawValue::from_string("[1]".to_owned()).unwrap());
        let read = Record::read(&written.write()).expect("it is one");
        assert_eq!((read.state, read.origin, read.at_ms), (RecordState::Cancelled, 3, 4));
        assert_eq!(read.checkpoint.unwrap().get(), "[1]");
        assert!(Record::read(b"{}").is_none() && Record::read(b"no").is_none());
    }
}
