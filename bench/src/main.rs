//! How fast are millpond's queues, pool and daemon next to their peers, on this machine, in this hour?
//!
//! One command answers: `cargo run --release -p millpond-bench -- --quick ring`. Every round of a group runs each
//! peer once, so that a noisy minute hurts all of them alike; the table shows medians over the rounds, and the
//! ratio to the row `millpond`. A round is only counted once its items are: a peer that loses or doubles an item
//! ends the run with an error.
//!
//! Not here: what is measured (`groups/`), how the peers are called (`peers/`).

mod arguments;
mod cores;
mod daemon;
mod debian;
mod groups;
mod heap;
mod ledger;
mod measure;
mod peers;
mod plot;
mod report;
mod tally;
mod team;
mod usage;
mod wire;
mod work;

use arguments::{Arguments, Wish};
use measure::Row;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs, thread};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("millpond-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments = match arguments::parse(env::args().skip(1))? {
        Wish::Help => {
            print!("{}", arguments::HELP);
            return Ok(());
        }
        Wish::List => {
            print!("{}", report::listing(&groups::all()));
            return Ok(());
        }
        Wish::Measure(arguments) => arguments,
    };
    let groups = groups::chosen(&arguments.prefixes)?;
    let conditions = conditions(&arguments);
    println!("{conditions}");
    let mut rows: Vec<Row> = Vec::new();
    for group in &groups {
        let (measured, absent) = measure::run(group, &arguments.plan)?;
        print!("\n{}", report::table(group, &measured, &absent));
        rows.extend(measured);
    }
    if let Some(path) = &arguments.json {
        write(path, &report::json(&rows))?;
    }
    if let Some(path) = &arguments.plot {
        write(path, &plot::svg(&rows, &conditions))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: cannot be written: {error}", path.display()))
}

/// What a quoted number must be quoted with, in two lines: commit and machine, and how it was measured.
fn conditions(arguments: &Arguments) -> String {
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| processor_name(&text).map(str::to_owned))
        .unwrap_or_else(|| env::consts::ARCH.to_owned());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // A machine that was already busy gives figures worth little, and the reader should know.
    let load = fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(' ').next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned());
    let build = if cfg!(debug_assertions) { "DEBUG BUILD, figures mean nothing" } else { "release build" };
    format!("commit {commit}, {processor}, {cores} cores, load {load}\n{build}, {}", arguments.plan)
}

fn processor_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_as_the_machine_names_it() {
        assert_eq!(processor_name("processor : 0\nmodel name\t: Mill Wheel 9\n"), Some("Mill Wheel 9"));
        assert_eq!(processor_name("processor : 0\n"), None);
    }
}
