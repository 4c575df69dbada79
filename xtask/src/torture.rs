//! `cargo xtask torture`: the test that kills processes while they share a queue, for as long as you like.
//!
//! The same test runs for a few seconds in `cargo xtask test`. Long runs are for a night or a release, and a run
//! that failed is run again from the seed it printed.
//!
//! Not here: the test itself, which lives with the queues.

use crate::process;
use clap::Args;
use std::path::Path;
use std::process::Command;

/// The test's file; `cargo xtask test` skips its step while there is none.
pub(crate) const TORTURE_TEST: &str = "crates/queue/tests/torture.rs";

#[derive(Args)]
pub(crate) struct TortureArguments {
    /// How long to go on
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// Start from the seed a failed run printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn run(root: &Path, arguments: &TortureArguments) -> Result<bool, String> {
    if !root.join(TORTURE_TEST).exists() {
        return Err(format!("{TORTURE_TEST}: expected the torture test, found no such file"));
    }
    let mut command = torture_test(root)?;
    command.env("MILLPOND_TORTURE_SECONDS", arguments.seconds.to_string());
    if let Some(seed) = arguments.seed {
        command.env("MILLPOND_TORTURE_SEED", seed.to_string());
    }
    process::run_in_the_open(&mut command)
}

/// The command that runs the torture test at its own length. A file without a test in it would pass by doing nothing,
/// so that is an error.
pub(crate) fn torture_test(root: &Path) -> Result<Command, String> {
    let command = |arguments: &[&str]| {
        let mut command = process::cargo(root);
        command.args(["test", "--release", "--package", "millpond-queue", "--test", "torture", "--"]);
        command.args(arguments);
        command
    };
    let listed = process::output_of(&mut command(&["--list", "--format", "terse"]))?;
    if !has_tests(&listed) {
        return Err(format!("{TORTURE_TEST}: expected at least one test, found none"));
    }
    Ok(command(&["--nocapture"]))
}

fn has_tests(listed: &str) -> bool {
    listed.lines().any(|line| line.ends_with(": test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_tests_is_noticed() {
        assert!(has_tests("nobody_takes_an_item_twice: test\n"));
        assert!(!has_tests("") && !has_tests("0 tests, 0 benchmarks\n"));
    }
}
