//! The command line of the examples: options that take a value, at most one plain word, `--help`, and how it
//! ends.
//!
//! A program of this size needs no crate for it. What is not understood is an error that says what was
//! expected, so that a mistyped option is never taken for the default.

use std::error::Error;
use std::io::Write;
use std::process::{ExitCode, exit};
use std::{env, io};

/// What stands on the command line and has not been asked for yet.
pub(crate) struct CommandLine(Vec<String>);

impl CommandLine {
    /// Reads the command line. With `--help` in it, prints `help` and ends the program.
    pub(crate) fn read(help: &str) -> Self {
        let words: Vec<_> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        if words.iter().any(|word| word == "--help" || word == "-h") {
            // A reader that closes its end early has read enough.
            let _ = writeln!(io::stdout(), "{}", help.trim());
            exit(0);
        }
        Self(words)
    }

    /// The value behind `option`, if it is there.
    pub(crate) fn value(&mut self, option: &str) -> Result<Option<String>, String> {
        let Some(place) = self.0.iter().position(|word| word == option) else { return Ok(None) };
        if place + 1 >= self.0.len() {
            return Err(format!("{option}: expected a value behind it; see --help"));
        }
        Ok(self.0.drain(place..place + 2).nth(1))
    }

    /// The number behind `option`, at least 1.
    pub(crate) fn count(&mut self, option: &str, default: usize) -> Result<usize, String> {
        let Some(value) = self.value(option)? else { return Ok(default) };
        let count = value.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| format!("{option}: expected a number of at least 1, got {value:?}"))
    }

    /// The one plain word, if there is one. Nothing else may be left.
    pub(crate) fn last(mut self) -> Result<Option<String>, String> {
        if let Some(unknown) = self.0.iter().find(|word| word.starts_with('-')) {
            return Err(format!("{unknown}: no such option; see --help"));
        }
        match self.0.len() {
            0 | 1 => Ok(self.0.pop()),
            _ => Err(format!("expected at most one word that is no option, got {:?}; see --help", self.0)),
        }
    }
}

/// Says what went wrong, if anything did.
pub(crate) fn end(program: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
