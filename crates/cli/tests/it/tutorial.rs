//! `docs/TUTORIAL.md`, run as it is written: a page that newcomers type off must work to the letter.
//!
//! Blocks with a file's name are written to that file. In `console` blocks, lines after `$ ` are run by a shell,
//! and what they print must be what stands below them; `…` stands for anything. `millpond serve` goes on in the
//! background until the next one or the end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/TUTORIAL.md");

/// One fenced block of the page.
struct Block {
    language: String,
    /// The rest of the line that opens it: a file's name.
    file: String,
    lines: Vec<String>,
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let (language, file) = info.split_once(' ').unwrap_or((info, ""));
            let body = lines.by_ref().take_while(|line| !line.starts_with("```")).map(str::to_owned);
            blocks.push(Block {
                language: language.to_owned(),
                file: file.to_owned(),
                lines: body.collect(),
            });
        }
    }
    blocks
}

/// A directory with the program in its path, and the daemon if one runs.
struct Desk {
    directory: PathBuf,
    daemon: Option<Child>,
}

impl Desk {
    fn command(&self, line: &str) -> Command {
        let program =
            Path::new(env!("CARGO_BIN_EXE_millpond")).parent().expect("a program lies in a directory");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        // `exec`, so that a signal goes to the program and not to the shell around it.
        command
            .args(["-c", line])
            .current_dir(&self.directory)
            .env("PATH", path)
            .env("XDG_RUNTIME_DIR", &self.directory);
        command
    }

    /// Runs one line, and gives all that it printed.
    fn run(&mut self, line: &str) -> String {
        if line.starts_with("millpond serve") {
            return self.serve(line);
        }
        let output = self.command(&format!("( {line} ) 2>&1")).output().expect("a shell runs");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    fn serve(&mut self, line: &str) -> String {
        self.end_daemon();
        let mut command = self.command(&format!("exec {line}"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the daemon starts");
        let mut printed = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        // The line to try is the last.
        while !printed.contains(" submit ") {
            let read = output.read_line(&mut printed).expect("it prints text");
            assert!(read > 0, "the daemon ended after it printed: {printed}");
        }
        // Its output stays open, or it would be written to nobody.
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        self.daemon = Some(child);
        printed
    }

    fn end_daemon(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let pid = child.id().to_string();
            let status = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
            assert!(status.success());
            let ended = child.wait().expect("the daemon can be waited for");
            assert!(ended.success(), "Ctrl-C ends the daemon in order, got {ended}");
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(child) = &mut self.daemon {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether `line` is `pattern`, where `…` stands for anything.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn assert_printed(command: &str, expected: &[&String], printed: &str) {
    let lines: Vec<_> = printed.lines().collect();
    let all_fit = lines.len() == expected.len()
        && expected.iter().zip(&lines).all(|(pattern, line)| fits(pattern, line));
    let expected: Vec<_> = expected.iter().map(|line| line.as_str()).collect();
    assert!(all_fit, "$ {command}\nexpected:\n{}\nprinted:\n{printed}", expected.join("\n"));
}

#[test]
fn the_tutorial_works_as_it_is_written() {
    let directory = std::env::temp_dir().join(format!("millpond-tutorial-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory for the tutorial");
    let mut desk = Desk { directory, daemon: None };
    let mut commands = 0;
    for block in blocks() {
        if !block.file.is_empty() {
            let text = block.lines.join("\n") + "\n";
            fs::write(desk.directory.join(&block.file), text).expect("the file can be written");
        } else if block.language == "console" {
            let mut lines = block.lines.iter().peekable();
            while let Some(line) = lines.next() {
                let command = line.strip_prefix("$ ").expect("a block begins with a command");
                let mut expected = Vec::new();
                while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                    expected.push(line);
                }
                let printed = desk.run(command);
                assert_printed(command, &expected, &printed);
                commands += 1;
            }
        }
    }
    desk.end_daemon();
    assert!(commands >= 15, "the page has {commands} commands; is it read to its end?");
}

#[test]
fn dots_stand_for_anything_and_letters_for_themselves() {
    assert!(fits("a…c", "abbbc") && fits("…", "") && fits("a", "a") && fits("a … b …", "a 1 b 2"));
    assert!(!fits("a…c", "abbb") && !fits("a", "ab") && !fits("a…b…c", "axc") && !fits("…b", "ab "));
}
