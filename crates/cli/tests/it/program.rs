//! What holds for every command: help, version, completions, exit codes, closed pipes.
//!
//! Here is also how the other tests run the program, since they all look at the same three things.

use std::process::{Command, Output, Stdio};

pub(crate) fn millpond(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

pub(crate) fn run(line: &str) -> Output {
    millpond(line).output().expect("cargo has built the program")
}

/// The output of a command that must succeed and have nothing to say beside it.
pub(crate) fn output_of(line: &str) -> String {
    let output = run(line);
    assert_eq!(text(&output.stderr), "", "{line}");
    assert!(output.status.success(), "{line}");
    text(&output.stdout)
}

/// The message of a command that must be refused with this exit code and print nothing.
pub(crate) fn refusal(line: &str, code: i32) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(code), "{line}: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "{line}");
    text(&output.stderr)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8")
}

#[test]
fn help_lists_the_commands_and_each_command_has_examples() {
    let help = output_of("--help");
    assert!(help.contains("sim ") && help.contains("completions "), "{help}");
    let help = output_of("sim --help");
    for expected in ["Examples:\n  millpond sim", "Strategies:\n  shared", "power-of-two", "--plot <FILE>"] {
        assert!(help.contains(expected), "{expected}: {help}");
    }
    assert!(output_of("completions --help").contains("Examples:"));
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(output_of("--version"), format!("millpond {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_command_that_does_not_exist_is_refused() {
    assert!(refusal("simm", 2).contains("a similar subcommand exists: 'sim'"));
    assert!(refusal("", 2).contains("Usage: millpond <COMMAND>"));
}

#[test]
fn every_shell_gets_a_script_that_knows_the_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = output_of(&format!("completions {shell}"));
        assert!(script.contains("service-mean") && script.contains("heavy-tail"), "{shell}");
    }
    assert!(refusal("completions csh", 2).contains("possible values: bash"));
}

#[test]
fn a_pipe_that_nobody_reads_is_no_reason_to_panic() {
    for line in [
        "sim --tasks 100 --workers 1 --load 0.1 --strategy shared --seed 1",
        "completions bash",
        "sim --help",
    ] {
        let mut child = millpond(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr).matches("panicked").count(), 0, "{line}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{line}");
    }
}
