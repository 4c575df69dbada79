//! `millpond cancel`: ends tasks, whether they wait or run.
//!
//! Each id is answered for itself; one that cannot be cancelled does not keep the others from it.

use crate::answer::Id;
use crate::daemon::DaemonArguments;
use crate::failure::{FAILED, Failure};
use crate::{output, task_argument};
use clap::Args;
use millpond_local::Kind;
use millpond_tasks::TaskId;
use serde_json::json;

/// What `cancel` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond cancel t17
  millpond ls --stage queued --json | jq -r .task_id | xargs millpond cancel")]
pub(crate) struct CancelArguments {
    /// The tasks' ids
    #[arg(value_name = "ID", required = true, value_parser = task_argument::parse)]
    ids: Vec<TaskId>,

    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: DaemonArguments,
}

pub(crate) fn run(arguments: &CancelArguments) -> Result<(), Failure> {
    let mut daemon = arguments.daemon.connect()?;
    let mut all_cancelled = true;
    for id in &arguments.ids {
        let question = json!({ "task_id": id }).to_string();
        match (daemon.ask(Kind::Cancel, question.as_bytes(), Kind::Ok)?, arguments.json) {
            (Ok(_), true) => output::print_json(&json!({ "task_id": id, "cancelled": true }))?,
            (Ok(_), false) => output::print(format!("cancelled {}\n", Id::of(id).shown()).as_bytes())?,
            (Err(refusal), is_json) => {
                all_cancelled = false;
                match is_json {
                    true => output::print(&[refusal.json.as_slice(), b"\n"].concat())?,
                    false => output::note("error", &refusal.in_words()),
                }
            }
        }
    }
    if all_cancelled { Ok(()) } else { Err(Failure::Shown(FAILED)) }
}
