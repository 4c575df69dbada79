//! The program `millpond`: what is said on the command line, handed to the command it names.
//!
//! Exit codes: 0 all went well; 1 something failed on the way; 2 the command line asks for what cannot be, and the
//! message says what can; 130 stopped by Ctrl-C. What was asked for goes to standard output, everything else to
//! standard error, so that output can be piped.
//!
//! Not here: what the commands do; each has a file of its own name.
#![forbid(unsafe_code)]

mod completions;
mod failure;
mod interrupt;
mod output;
mod sim;
mod units;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A worker pool you can link, run or join.
#[derive(Debug, Parser)]
#[command(name = "millpond", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate worker-choice strategies under a load and compare how long tasks wait
    Sim(Box<sim::SimArguments>),
    /// Print a completion script for a shell
    Completions(completions::CompletionArguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Sim(arguments) => sim::run(*arguments),
        Command::Completions(arguments) => completions::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                output::note("error", message);
            }
            failure.exit_code()
        }
    }
}
