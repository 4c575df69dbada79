//! ASK: what operators ask of a daemon beside its tasks, and what it answers. Dead letters, schedules, the journal.
//!
//! It is one kind of frame with many questions, because it is asked by people a few times a day: a kind of its own for
//! each would make the protocol large for nothing. Each question is an object that names itself in `ask`.
//!
//! Not here: what is done about it (the crate `millpond-tasks`).

use super::answer::{about, task_id};
use millpond_tasks::{DeadFilter, DoorName, Refused, ServiceHandle, TaskId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The payload of ASK.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Question {
    /// Dead letters, the latest first.
    DeadList { handler: Option<String>, older_than_ms: Option<u64>, max: Option<usize>, before: Option<u64> },
    /// One of them.
    DeadShow {
        #[serde(deserialize_with = "task_id")]
        task_id: TaskId,
    },
    /// Ask for the same again.
    DeadRetry {
        #[serde(deserialize_with = "task_id")]
        task_id: TaskId,
    },
    /// The same for all that fit.
    DeadRetryAll { handler: Option<String>, older_than_ms: Option<u64> },
    /// Let go of one.
    DeadPurge {
        #[serde(deserialize_with = "task_id")]
        task_id: TaskId,
    },
    /// Let go of all that fit.
    DeadPurgeAll { handler: Option<String>, older_than_ms: Option<u64> },
    /// What the clock asks for.
    ScheduleList {},
}

/// What is said to somebody whose question cannot be read.
pub(super) const EXPECTED: &str = r#"{"ask": "dead-list", ...}"#;

/// The answer, as TOLD has it.
pub(super) fn answer(service: &ServiceHandle, question: Question) -> Result<Value, Refused> {
    let old = |milliseconds: Option<u64>| milliseconds.map(Duration::from_millis);
    Ok(match question {
        Question::DeadList { handler, older_than_ms, max, before } => {
            let filter = DeadFilter { handler, older_than: old(older_than_ms), max, before };
            let page = service.dead_letters(&filter);
            json!({
                "letters": page.letters,
                "next": page.next,
                "kept": page.kept,
                "enabled": service.keeps_dead_letters(),
            })
        }
        Question::DeadShow { task_id } => {
            let letter = service.dead_letter(&task_id).map_err(|failure| about(&task_id, failure))?;
            json!(*letter)
        }
        Question::DeadRetry { task_id } => {
            let accepted = service.retry_dead(&task_id, DoorName::Control)?;
            json!({ "task_id": accepted.task.id(), "was": task_id })
        }
        Question::DeadRetryAll { handler, older_than_ms } => {
            let filter = DeadFilter { handler, older_than: old(older_than_ms), ..DeadFilter::default() };
            json!(service.retry_dead_all(&filter, DoorName::Control))
        }
        Question::DeadPurge { task_id } => {
            service.purge_dead(&task_id).map_err(|failure| about(&task_id, failure))?;
            json!({ "purged": 1 })
        }
        Question::DeadPurgeAll { handler, older_than_ms } => {
            let filter = DeadFilter { handler, older_than: old(older_than_ms), ..DeadFilter::default() };
            json!({ "purged": service.purge_dead_all(&filter) })
        }
        Question::ScheduleList {} => json!({ "schedules": service.schedules() }),
    })
}
