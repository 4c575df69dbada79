//! `millpond nats`: a queue on a NATS server, from any machine that reaches the server.
//!
//! These commands ask the server and not a daemon: results, dead letters and who is there are found on it,
//! whichever daemon wrote them. `millpond submit --nats` is the same for new tasks.
//!
//! Not here: what is asked of the server (the crate `millpond-nats`).

mod cancel;
mod dead;
mod get;
mod heard;
mod queue;
mod status;

pub(crate) use heard::answer_of;
pub(crate) use queue::{QueueFlags, failure};

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// What `nats` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond nats status --nats nats://127.0.0.1:4222 --queue jobs
  millpond submit --nats nats://127.0.0.1:4222 --queue jobs '{\"handler\": \"echo\"}' --wait
  export MILLPOND_NATS_URL=nats://127.0.0.1:4222 MILLPOND_NATS_QUEUE=jobs
  millpond nats get job-17 --wait
  millpond nats dead retry --all --handler thumbnail")]
pub(crate) struct NatsArguments {
    #[command(subcommand)]
    command: NatsCommand,
}

#[derive(Debug, Subcommand)]
enum NatsCommand {
    /// Show the lanes, how full the queue is, and which daemons are there
    Status(status::StatusArguments),
    /// Show how a task ended, or wait for it
    Get(get::GetArguments),
    /// End tasks, wherever they wait or run
    Cancel(cancel::CancelArguments),
    /// Tasks that failed for good: list them, try them again, let them go
    Dead(dead::DeadArguments),
}

pub(crate) fn run(arguments: &NatsArguments) -> Result<(), Failure> {
    match &arguments.command {
        NatsCommand::Status(arguments) => status::run(arguments),
        NatsCommand::Get(arguments) => get::run(arguments),
        NatsCommand::Cancel(arguments) => cancel::run(arguments),
        NatsCommand::Dead(arguments) => dead::run(arguments),
    }
}
