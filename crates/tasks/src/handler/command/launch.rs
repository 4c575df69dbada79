//! How a program is started, and why it could not be.
//!
//! It runs without a shell, in a process group of its own, so that a signal reaches whatever it starts too.
//! Some reasons why it cannot start stay until somebody does something (it is not there, it may not be run);
//! others pass by themselves (no memory, no room for another process). The first fail tasks at once, the
//! second let them wait.

use super::limits::ProcessLimits;
use crate::config::HandlerSettings;
use rustix::io::Errno;
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The longest command that messages show, in letters.
const LABEL_LETTERS_MAX: usize = 80;

/// Everything that is needed to start one more process of a handler.
#[derive(Debug)]
pub(super) struct Launch {
    handler: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    /// What the process may take.
    pub(super) limits: ProcessLimits,
    /// The command as messages show it.
    pub(super) label: String,
    /// The longest line that is read from it.
    pub(super) line_bytes_max: usize,
}

/// Why a program could not be started.
#[derive(Debug)]
pub(super) struct StartFailure {
    /// Who, what, why, and what to do.
    pub(super) message: String,
    /// Whether it stays so until somebody does something.
    pub(super) is_lasting: bool,
}

impl Launch {
    pub(super) fn new(handler: &str, settings: &HandlerSettings) -> Self {
        let (program, arguments) = settings.command.split_first().expect("a command is never empty");
        let program = match &settings.directory {
            // Where a relative path begins is left open by the system; it shall be where the program runs.
            Some(directory) if program.contains('/') => directory.join(program),
            _ => PathBuf::from(program),
        };
        Self {
            handler: handler.to_owned(),
            program,
            arguments: arguments.to_vec(),
            environment: settings.env.clone(),
            directory: settings.directory.clone(),
            limits: ProcessLimits::of(settings),
            label: label(&settings.command),
            line_bytes_max: settings.line_bytes_max,
        }
    }

    pub(super) fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).spawn()
    }

    /// Why it did not start.
    pub(super) fn failure(&self, error: &io::Error) -> StartFailure {
        self.failure_because(error, &self.reason(error))
    }

    /// It started, but must not run as it is.
    pub(super) fn unready(&self, error: &io::Error) -> StartFailure {
        let program = self.program.display();
        self.failure_because(
            error,
            &format!("{program} was killed because it could not be limited or watched: {error}"),
        )
    }

    fn failure_because(&self, error: &io::Error, reason: &str) -> StartFailure {
        let passing = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TXTBSY, Errno::INTR];
        let is_lasting = !passing.iter().any(|errno| Some(errno.raw_os_error()) == error.raw_os_error());
        StartFailure { message: format!("handler {}: {reason}", self.handler), is_lasting }
    }

    fn reason(&self, error: &io::Error) -> String {
        let program = self.program.display();
        let settings = format!("handler.{}", self.handler);
        if let Some(directory) = self.directory.as_deref().filter(|directory| !directory.is_dir()) {
            let directory = directory.display();
            return format!(
                "there is no directory {directory} to start {program} in; see {settings}.directory"
            );
        }
        let is_path = self.program.components().count() > 1;
        match error.kind() {
            ErrorKind::NotFound if !is_path => {
                let path = self.search_path();
                let path = path.to_string_lossy();
                format!(
                    "the program {program} was not found in PATH ({path}); write its whole path in \
                     {settings}.command, or set PATH in {settings}.env"
                )
            }
            ErrorKind::NotFound if self.program.exists() => {
                format!("{program} is there, but the interpreter that its first line names is not")
            }
            ErrorKind::NotFound => {
                format!("there is no program {program}; see {settings}.command")
            }
            ErrorKind::PermissionDenied => {
                format!("{program} may not be run (permission denied); make it executable with chmod +x")
            }
            _ => format!("{program} could not be started: {error}"),
        }
    }

    /// Where the program is looked for.
    fn search_path(&self) -> OsString {
        let own = self.environment.iter().rev().find(|(name, _)| name == "PATH");
        own.map(|(_, path)| path.into()).or_else(|| env::var_os("PATH")).unwrap_or_default()
    }
}

/// The command on one line, cut if it is long; the program without its folders.
fn label(command: &[String]) -> String {
    let name = |program: &String| {
        Path::new(program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned())
    };
    let words: Vec<_> = command
        .iter()
        .enumerate()
        .map(|(index, word)| if index == 0 { name(word) } else { word.clone() })
        .map(|word| {
            if word.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
                format!("{word:?}")
            } else {
                word
            }
        })
        .collect();
    let label = words.join(" ");
    match label.char_indices().nth(LABEL_LETTERS_MAX) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn settings(command: &[&str]) -> HandlerSettings {
        HandlerSettings {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            concurrency: 1,
            timeout: None,
            memory_bytes_max: None,
            cpu_seconds_max: None,
            restart_backoff_min: Duration::from_millis(1),
            restart_backoff_max: Duration::from_millis(1),
            stop_grace: Duration::ZERO,
            line_bytes_max: 1024,
            tasks_per_process_max: None,
            env: Vec::new(),
            directory: None,
            summary: None,
            example: None,
        }
    }

    /// Why it does not start.
    fn failure(settings: &HandlerSettings) -> StartFailure {
        let launch = Launch::new("resize", settings);
        launch.failure(&launch.spawn().expect_err("it must not start"))
    }

    #[test]
    fn a_program_that_is_not_there_is_looked_for_in_words() {
        let mut with_path = settings(&["no-such-program-here", "x"]);
        with_path.env.push(("PATH".to_owned(), "/nowhere:/at-all".to_owned()));
        let failed = failure(&with_path);
        assert!(failed.is_lasting);
        assert_eq!(
            failed.message,
            "handler resize: the program no-such-program-here was not found in PATH (/nowhere:/at-all); \
             write its whole path in handler.resize.command, or set PATH in handler.resize.env"
        );
        assert_eq!(
            failure(&settings(&["/no/such/program"])).message,
            "handler resize: there is no program /no/such/program; see handler.resize.command"
        );
        let elsewhere = HandlerSettings { directory: Some("/no/such".into()), ..settings(&["true"]) };
        assert_eq!(
            failure(&elsewhere).message,
            "handler resize: there is no directory /no/such to start true in; see handler.resize.directory"
        );
    }

    #[test]
    fn a_file_that_is_no_program_is_named() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let failed = failure(&settings(&[file]));
        let expected = "Cargo.toml may not be run (permission denied); make it executable with chmod +x";
        assert!(failed.is_lasting && failed.message.ends_with(expected), "{}", failed.message);
    }

    #[test]
    fn a_relative_program_begins_in_its_directory() {
        let relative = HandlerSettings { directory: Some("/usr".into()), ..settings(&["bin/env", "true"]) };
        let launch = Launch::new("resize", &relative);
        assert_eq!(launch.program, Path::new("/usr/bin/env"));
    }

    #[test]
    fn want_of_room_passes() {
        let launch = Launch::new("resize", &settings(&["true"]));
        let failure = launch.failure(&Errno::AGAIN.into());
        assert!(!failure.is_lasting);
        assert!(failure.message.contains("true could not be started: "), "{}", failure.message);
    }

    #[test]
    fn labels_are_short_and_on_one_line() {
        let of = |command: &[&str]| Launch::new("a", &settings(command)).label;
        assert_eq!(of(&["/usr/bin/python3", "-u", "a b.py"]), "python3 -u \"a b.py\"");
        assert_eq!(of(&["sh", "-c", "a\nb"]), "sh -c \"a\\nb\"");
        assert_eq!(of(&["x", &"ü".repeat(100)]).chars().count(), LABEL_LETTERS_MAX + 1);
    }
}
