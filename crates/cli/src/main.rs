//! The program `millpond`: what is said on the command line, handed to the command it names.
//!
//! What was asked for goes to standard output, everything else to standard error, so that output can be
//! piped. The exit codes are a table in `failure.rs`.
//!
//! Not here: what the commands do; each has a file of its own name.
#![forbid(unsafe_code)]

mod answer;
mod bench;
mod cancel;
mod check;
mod columns;
mod completions;
mod config;
mod config_file;
mod daemon;
mod dead;
mod excerpt;
mod failure;
mod get;
mod interrupt;
mod journal;
mod load;
mod ls;
mod man;
mod nats;
mod output;
mod paint;
mod report;
mod schedule;
mod serve;
mod setting_flags;
mod sim;
mod stats;
mod submit;
mod task_argument;
mod top;
mod units;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tasks are made by doors and let go by workers; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A worker pool you can link, run or join.
#[derive(Debug, Parser)]
#[command(name = "millpond", version, arg_required_else_help = true, after_help = failure::exit_codes_help())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: any program hands it tasks and reads results
    Serve(Box<serve::ServeArguments>),
    /// Hand tasks to the daemon
    Submit(submit::SubmitArguments),
    /// Show where a task stands, what it says, or how it ended
    Get(get::GetArguments),
    /// End tasks, whether they wait or run
    Cancel(cancel::CancelArguments),
    /// List the tasks that the daemon knows
    Ls(ls::ListArguments),
    /// Tasks that failed for good: list them, try them again, let them go
    Dead(dead::DeadArguments),
    /// A queue on a NATS server: how it stands, its results, its dead letters
    Nats(nats::NatsArguments),
    /// What the clock asks the daemon for
    Schedule(schedule::ScheduleArguments),
    /// Look at the files of a journal, or mend them
    Journal(journal::JournalArguments),
    /// Show what the daemon has done and has to do
    Stats(stats::StatsArguments),
    /// Watch the daemon work: workers, queues, rates and latencies, live
    Top(top::TopArguments),
    /// Load the daemon, and measure how many tasks it does and how long they take
    Bench(bench::BenchArguments),
    /// Load an HTTP server with many clients, and measure how long each answer takes
    Load(Box<load::LoadArguments>),
    /// Simulate worker-choice strategies under a load and compare how long tasks wait
    Sim(Box<sim::SimArguments>),
    /// Look for mistakes in the configuration
    Check(check::CheckArguments),
    /// Show every setting, and where it came from
    Config(config::ConfigArguments),
    /// Print a completion script for a shell
    Completions(completions::CompletionArguments),
    /// Print or write the manual pages
    Man(man::ManArguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Submit(arguments) => submit::run(&arguments),
        Command::Get(arguments) => get::run(&arguments),
        Command::Cancel(arguments) => cancel::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Dead(arguments) => dead::run(&arguments),
        Command::Nats(arguments) => nats::run(&arguments),
        Command::Schedule(arguments) => schedule::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Sim(arguments) => sim::run(*arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(&arguments),
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
