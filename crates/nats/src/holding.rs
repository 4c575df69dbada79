//! A task that this daemon has been given: what is known of it, and what is to be done with it next.
//!
//! ```text
//!  given ──► [look up] ──► [wait for room] ──► running ──► [copy] ──► [put ⇄ check] ──► finish: ack, nack or term
//! ```
//!
//! Each step but running is one message to the server, sent again until it is answered; so a server that goes away in
//! between costs time and nothing else. The lease is renewed in every step. A task is sure to be ours until a lease
//! after the last sign of life that the server is known to have; after that it may be another daemon's, and must not
//! be given back by us.
//!
//! Not here: who moves it from step to step (`intake.rs`, `writing.rs`).

use crate::message::{Heading, Place};
use crate::names::Lane;
use crate::record::RecordState;
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use millpond_tasks::config::NatsResults;
use millpond_tasks::{TaskId, Watching};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A task that is here.
#[derive(Debug)]
pub(crate) struct Held {
    /// Where its acknowledgement goes.
    pub(crate) reply: Subject,
    pub(crate) place: Place,
    pub(crate) heading: Heading,
    pub(crate) payload: Bytes,
    /// Its first sequence.
    pub(crate) origin: u64,
    /// When it came first.
    pub(crate) since_ms: u64,
    pub(crate) id: TaskId,
    pub(crate) key: String,
    /// How many failures its request allows.
    pub(crate) retries: u32,
    /// Where it goes when it is due.
    pub(crate) priority: millpond::Priority,
    /// How many attempts failed before this one.
    pub(crate) failures: u32,
    /// What the last of them left.
    pub(crate) checkpoint: Option<Arc<RawValue>>,
    /// Which run of the loop's it is; an end of an earlier one is not its own.
    pub(crate) run: u64,
    pub(crate) was_looked_up: bool,
    /// The revision of its entry, if one was found.
    pub(crate) revision: u64,
    /// Whoever reads its stream for those who listen.
    pub(crate) watching: Option<Watching>,
    pub(crate) step: Step,
    /// Whether it is counted among those that have or need a worker.
    pub(crate) is_counted: bool,
    /// Under which number the answer to the step comes, and when it was asked for.
    pub(crate) asked: Option<(u64, Instant)>,
    /// Whether the service has it.
    pub(crate) is_in_service: bool,
    /// Since when it waits for a slot in the service, if it does.
    pub(crate) queued_at: Option<Instant>,
    /// How often the server has refused its step.
    pub(crate) refusals: u32,
    /// When nothing could be done, it is not tried again before this.
    pub(crate) not_before: Option<Instant>,
    /// Until when the server gives it to nobody else.
    pub(crate) sure_until: Instant,
    pub(crate) got_at: Instant,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask what is known of it.
    LookUp,
    /// Hand it to the service, once that has room.
    Room,
    /// Nothing until it ends.
    Running,
    /// Publish a copy elsewhere, and go on once it is kept.
    Copy { subject: String, headers: HeaderMap, then: Box<Step> },
    /// Write its entry, if the present one is still of this revision.
    Put { entry: Entry, expected: u64, then: Box<Step> },
    /// Somebody else has written the entry: read it, and decide.
    Check { entry: Entry, then: Box<Step> },
    /// The last word to the server.
    Finish(Finish),
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) json: Bytes,
    pub(crate) state: RecordState,
    pub(crate) failures: u32,
}

/// The last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// It has ended.
    Ack,
    /// It has ended, and must not come again.
    Term,
    /// Give it out again, after this pause.
    Nack(Duration),
    /// Nothing: it is another daemon's by now.
    Silence,
}

impl Finish {
    /// As it is sent.
    pub(crate) fn words(self) -> Option<Bytes> {
        match self {
            Self::Ack => Some(Bytes::from_static(b"+ACK")),
            Self::Term => Some(Bytes::from_static(b"+TERM")),
            Self::Nack(pause) if pause.is_zero() => Some(Bytes::from_static(b"-NAK")),
            Self::Nack(pause) => Some(Bytes::from(format!("-NAK {{\"delay\":{}}}", pause.as_nanos()))),
            Self::Silence => None,
        }
    }
}

impl Held {
    /// Whether a worker has it, or will.
    pub(crate) fn is_busy(&self) -> bool {
        self.place.lane != Lane::Later && matches!(self.step, Step::LookUp | Step::Room | Step::Running)
    }

    /// The last word, as it may be said at this time: what may be another's is not given back.
    pub(crate) fn last_word(&self, finish: Finish, now: Instant) -> Finish {
        match finish {
            Finish::Nack(_) if now >= self.sure_until => Finish::Silence,
            other => other,
        }
    }

    /// Which results are wanted of it.
    pub(crate) fn results(&self, of_queue: NatsResults) -> NatsResults {
        self.heading.results.unwrap_or(of_queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_what_the_server_understands() {
        let said = |finish: Finish| finish.words().map(|words| String::from_utf8(words.to_vec()).unwrap());
        assert_eq!(said(Finish::Ack).as_deref(), Some("+ACK"));
        assert_eq!(said(Finish::Term).as_deref(), Some("+TERM"));
        assert_eq!(said(Finish::Nack(Duration::ZERO)).as_deref(), Some("-NAK"));
        let delayed = said(Finish::Nack(Duration::from_millis(1_500)));
        assert_eq!(delayed.as_deref(), Some("-NAK {\"delay\":1500000000}"));
        assert_eq!(said(Finish::Silence), None);
    }
}
