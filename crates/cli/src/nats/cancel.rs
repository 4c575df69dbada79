//! `millpond nats cancel`: ends tasks of a queue, wherever they wait or run.
//!
//! The word goes to all daemons by way of the server. A task that no daemon has begun never runs; one that runs is
//! told to stop, and what it may still answer is not taken.

use super::queue::{QueueArguments, failure};
use crate::answer::Id;
use crate::failure::{FAILED, Failure};
use crate::{output, task_argument};
use clap::Args;
use millpond_nats::Cancelled;
use millpond_tasks::{ErrorCode, TaskId};
use serde_json::json;

/// What `nats cancel` is told.
#[derive(Debug, Args)]
pub(super) struct CancelArguments {
    /// The tasks' ids
    #[arg(value_name = "ID", required = true, value_parser = task_argument::parse)]
    ids: Vec<TaskId>,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

pub(super) fn run(arguments: &CancelArguments) -> Result<(), Failure> {
    let (client, _) = arguments.queue.connect()?;
    let mut all_cancelled = true;
    for id in &arguments.ids {
        let cancelled = client.cancel(id).map_err(|error| failure(&error))?;
        let shown = Id::of(id).shown();
        match (cancelled, arguments.json) {
            (Cancelled::Yes, true) => output::print_json(&json!({ "task_id": id, "cancelled": true }))?,
            (Cancelled::Yes, false) => output::print(format!("cancelled {shown}\n").as_bytes())?,
            (Cancelled::HasEnded(record), is_json) => {
                all_cancelled = false;
                let (code, state) = (ErrorCode::AlreadyEnded, record.state.name());
                let message =
                    format!("it has ended and is {state}; one of the same id that came since is cancelled");
                match is_json {
                    true => output::print_json(&json!({
                        "task_id": id, "status": code.number(), "error": code.name(), "message": message,
                    }))?,
                    false => {
                        let number = code.number();
                        output::note("error", &format!("task {shown}: {code} ({number}): {message}"));
                    }
                }
            }
        }
    }
    if all_cancelled { Ok(()) } else { Err(Failure::Shown(FAILED)) }
}
