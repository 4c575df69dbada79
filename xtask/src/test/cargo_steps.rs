//! The steps that are cargo commands: format, clippy, unit, doc, torture.
//!
//! Format and clippy speak only when they find something. Tests run in the open, so that their counts are seen and a
//! test that vanished is noticed.
//!
//! Not here: models (`models.rs`), examples and benches, which need more than an exit code.

use super::Verdict;
use crate::process;
use crate::torture::{TORTURE_TEST, torture_test};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Longer than the whole test command may take: a cargo that hangs must not hang us for ever.
const LIMIT: Duration = Duration::from_secs(25 * 60);

pub(super) fn format(root: &Path) -> Result<Verdict, String> {
    quietly(root, process::cargo(root).args(["fmt", "--all", "--check"]))
}

/// All targets as they are built; the queues without `std`; and the queues with their models, as loom and as shuttle
/// see them.
pub(super) fn clippy(root: &Path) -> Result<Verdict, String> {
    let deny = ["--", "-D", "warnings"];
    let mut all = process::cargo(root);
    all.args(["clippy", "--workspace", "--all-targets"]).args(deny);
    let mut no_std = process::cargo(root);
    no_std.args(["clippy", "--package", "millpond-queue", "--no-default-features"]).args(deny);
    let models = ["loom", "shuttle"].map(|checker| {
        let mut command = process::cargo(root);
        let folder = process::target_folder(root).join(format!("clippy-{checker}"));
        command.args(["clippy", "--package", "millpond-queue", "--lib", "--profile", "test"]);
        command.arg("--target-dir").arg(folder).args(deny).env("RUSTFLAGS", format!("--cfg {checker}"));
        command
    });
    each(root, [all, no_std].into_iter().chain(models))
}

pub(super) fn unit(root: &Path) -> Result<Verdict, String> {
    let mut command = process::cargo(root);
    command.args(["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    // The torture test has a step of its own, in release; here it only shows that it runs.
    command.env("MILLPOND_TORTURE_SECONDS", "1");
    process::run_in_the_open(&mut command).map(Verdict::from)
}

pub(super) fn doc(root: &Path) -> Result<Verdict, String> {
    let mut examples = process::cargo(root);
    examples.args(["test", "--workspace", "--no-fail-fast", "--doc"]);
    let tested = process::run_in_the_open(&mut examples)?;
    let mut pages = process::cargo(root);
    pages.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    let written = quietly(root, &mut pages)?;
    Ok(Verdict::from(tested && written == Verdict::Passed))
}

pub(super) fn torture(root: &Path) -> Result<Verdict, String> {
    if !root.join(TORTURE_TEST).exists() {
        return Ok(Verdict::Skipped(format!("there is no {TORTURE_TEST}")));
    }
    process::run_in_the_open(&mut torture_test(root)?).map(Verdict::from)
}

fn each(root: &Path, commands: impl IntoIterator<Item = Command>) -> Result<Verdict, String> {
    let mut all_well = true;
    for mut command in commands {
        all_well &= quietly(root, &mut command)? == Verdict::Passed;
    }
    Ok(Verdict::from(all_well))
}

/// Runs a command and shows its output only if it fails.
fn quietly(root: &Path, command: &mut Command) -> Result<Verdict, String> {
    println!("{}", process::shown(command));
    let ended = process::watch(root, command, LIMIT)?;
    if !ended.succeeded() {
        print!("{}", ended.output);
        let end = ended.status.map_or_else(|| "timed out".to_owned(), |status| status.to_string());
        println!("{}: {end}", process::shown(command));
    }
    Ok(Verdict::from(ended.succeeded()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_command_fails_the_step_and_the_others_still_run() {
        let root = crate::repository_root();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert_eq!(each(&root, [shell("exit 0"), shell("exit 0")]), Ok(Verdict::Passed));
        assert_eq!(each(&root, [shell("exit 1"), shell("exit 0")]), Ok(Verdict::Failed));
        assert!(each(&root, [Command::new("millpond-no-such-program")]).is_err());
    }
}
