//! What holds for every command: help, pages, version, completions, exit codes, closed pipes.
//!
//! Here is also how the other tests run the program, since they all look at the same three things.

use std::env;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) fn millpond(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    // Whoever runs the tests may have a daemon and settings of their own.
    command.env_remove("MILLPOND_CONFIG").env_remove("MILLPOND_RUNTIME_DIR").env_remove("NO_COLOR");
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

/// The names of all commands, as the help lists them.
fn commands() -> Vec<String> {
    let help = output_of("--help");
    let (_, list) = help.split_once("Commands:\n").expect("the help lists the commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_examples() {
    let commands = commands();
    assert!(commands.len() >= 12, "{commands:?}");
    for command in commands {
        let help = output_of(&format!("{command} --help"));
        assert!(help.contains(&format!("Examples:\n  millpond {command}")), "{help}");
    }
    let help = output_of("sim --help");
    for expected in ["Strategies:\n  shared", "power-of-two", "--plot <FILE>"] {
        assert!(help.contains(expected), "{expected}: {help}");
    }
}

#[test]
fn the_page_has_every_command_and_every_exit_code() {
    let page = include_str!("../../../../docs/cli.md");
    for command in commands() {
        assert!(page.contains(&format!("`{command}`")), "docs/cli.md: {command} is missing");
    }
    let help = output_of("--help");
    let (_, codes) = help.split_once("Exit codes:\n").expect("the help lists the exit codes");
    let rows: Vec<String> = codes
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(code, meaning)| format!("| {code} | {} |", meaning.trim()))
        .collect();
    let table = rows.join("\n") + "\n\n";
    assert!(page.contains(&format!("|---|---|\n{table}")), "docs/cli.md: expected these rows\n{table}");
}

#[test]
fn the_commands_of_the_page_work() {
    let page = include_str!("../../../../docs/cli.md");
    let (_, rest) = page.split_once("```sh\n").expect("the page has commands to try");
    let (script, _) = rest.split_once("```").expect("and they end");
    let daemon = crate::daemon::Daemon::start("");
    let program = Path::new(env!("CARGO_BIN_EXE_millpond"));
    let folders = [program.parent().expect("it is in a folder").to_owned()];
    let paths = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(folders.into_iter().chain(env::split_paths(&paths))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).env("PATH", path).env("XDG_RUNTIME_DIR", daemon.folder().path());
    let output = shell.current_dir(daemon.folder().path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("{\"hello\": \"world\"}\n") && said.contains("\ncancelled t2\n"), "{said}");
}

#[test]
fn every_command_has_a_manual_page() {
    assert!(output_of("man").contains("millpond \\- A worker pool"));
    let folder = crate::daemon::Folder::new();
    let ran = folder.run(&["man", "pages/man1"]).with_code(0);
    assert_eq!((&*ran.out, &*ran.err), ("", "note: wrote the pages to pages/man1\n"));
    for command in commands() {
        let page = folder.path().join(format!("pages/man1/millpond-{command}.1"));
        assert!(page.is_file(), "{} is missing", page.display());
    }
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
        assert!(script.contains("no-retry") && script.contains("stealing-size"), "{shell}");
    }
    assert!(refusal("completions csh", 2).contains("possible values: bash"));
}

#[test]
fn a_pipe_that_nobody_reads_is_no_reason_to_panic() {
    for line in [
        "sim --tasks 100 --workers 1 --load 0.1 --strategy shared --seed 1",
        "completions bash",
        "sim --help",
        "config",
        "check --json",
        "man",
    ] {
        let mut child = millpond(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr).matches("panicked").count(), 0, "{line}: {}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{line}");
    }
}
