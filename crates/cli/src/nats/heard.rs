//! What is heard of a task over NATS, as the frames of the control socket would say it.
//!
//! So one loop and one report serve both ways, and `--json` prints the same for a task wherever it ran.

use crate::daemon::Answer;
use millpond_local::Kind;
use millpond_nats::{Heard, Record, RecordState};
use millpond_tasks::ErrorCode;
use serde_json::{Value, json};

/// The frame that says the same.
pub(crate) fn answer_of(heard: Heard) -> Answer {
    match heard {
        Heard::Accepted { tag, id, sequence, is_duplicate } => {
            let payload = json!({ "task_id": id, "sequence": sequence, "duplicate": is_duplicate });
            Answer { kind: Kind::Accepted, tag, payload: payload.to_string().into_bytes() }
        }
        Heard::Refused { tag, refused } => {
            let mut payload = Vec::new();
            refused.write_json(&mut payload);
            Answer { kind: Kind::Error, tag, payload }
        }
        Heard::Said { tag, event } => Answer { kind: Kind::Event, tag, payload: event },
        Heard::Retrying { tag, record } => {
            Answer { kind: Kind::Event, tag, payload: retrying(&record).to_string().into_bytes() }
        }
        Heard::Ended { tag, record } => Answer { kind: Kind::Result, tag, payload: outcome(&record) },
    }
}

/// That an attempt failed: as much of its outcome as people want to know.
fn retrying(record: &Record) -> Value {
    let outcome = record.outcome.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
    let outcome = outcome.unwrap_or_default();
    let of_outcome = |name: &str| outcome.get(name).cloned().unwrap_or_default();
    let (status, error, message) = (of_outcome("status"), of_outcome("error"), of_outcome("message"));
    json!({ "retrying": {
        "failures": record.failures,
        "status": status.as_i64().unwrap_or_default(),
        "error": error.as_str().unwrap_or_default(),
        "message": message.as_str().unwrap_or_default(),
    } })
}

/// How a task ended, in the words of every door.
pub(super) fn outcome(record: &Record) -> Vec<u8> {
    if let Some(outcome) = &record.outcome {
        return outcome.get().as_bytes().to_vec();
    }
    // Somebody else's program may write entries too.
    let code = match record.state {
        RecordState::Done => return br#"{"task_id":null,"status":0,"result":null}"#.to_vec(),
        RecordState::Cancelled => ErrorCode::Cancelled,
        RecordState::Failed | RecordState::Retrying => ErrorCode::HandlerError,
    };
    let outcome = json!({
        "task_id": null, "status": code.number(), "error": code.name(), "message": "its result says nothing more",
    });
    outcome.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{self, Event, Outcome};
    use millpond_tasks::TaskId;

    #[test]
    fn what_comes_over_nats_reads_like_what_a_daemon_says() {
        let record = Record::cancelled(&TaskId::Number(7), 3, "me", 1);
        let ended = answer_of(Heard::Ended { tag: 5, record: record.clone() });
        let outcome: Outcome = answer::read(&ended.payload).unwrap();
        assert_eq!(
            (ended.tag, ended.kind, outcome.status, outcome.task_id.shown()),
            (5, Kind::Result, -101, "7".to_owned())
        );
        let failed = Record { state: RecordState::Retrying, failures: 2, ..record };
        let event: Event =
            answer::read(&answer_of(Heard::Retrying { tag: 5, record: failed }).payload).unwrap();
        let retrying = event.retrying.expect("it says so");
        assert_eq!(
            (retrying.failures, retrying.failure()),
            (2, "cancelled (-101): it was cancelled".to_owned())
        );
    }

    #[test]
    fn an_entry_that_says_little_is_still_an_end() {
        for state in [RecordState::Done, RecordState::Failed, RecordState::Cancelled] {
            let record = Record { state, outcome: None, ..Record::cancelled(&TaskId::Number(7), 3, "me", 1) };
            let read: Outcome = answer::read(&outcome(&record)).unwrap();
            assert_eq!(read.status == 0, state == RecordState::Done);
        }
    }
}
