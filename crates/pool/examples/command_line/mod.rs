//! The command line of the examples: options that take a value, at most one plain word, `--help`; what is
//! said on standard output, and how the program ends.
//!
//! A program of this size needs no crate for it. What is not understood is an error that says what was
//! expected, so that a mistyped option is never taken for the default. Whoever reads the output may leave
//! when it has seen enough, as `head` does; `println!` would panic then, so it is not used.
//!
//! Not here: Ctrl-C (`interrupt/mod.rs`).

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::process::{ExitCode, exit};
use std::{env, fmt, io};

/// What stands on the command line and has not been asked for yet. Names of files need not be Unicode.
pub(crate) struct CommandLine(Vec<OsString>);

impl CommandLine {
    /// Reads the command line. With `--help` in it, prints `help` and ends the program.
    pub(crate) fn read(help: &str) -> Result<Self, Box<dyn Error>> {
        let words: Vec<_> = env::args_os().skip(1).collect();
        if words.iter().any(|word| word == "--help" || word == "-h") {
            say!("{}", help.trim())?;
            exit(0);
        }
        Ok(Self(words))
    }

    /// The value of `option`, if it is there: `--option value` or `--option=value`.
    pub(crate) fn value(&mut self, option: &str) -> Result<Option<OsString>, String> {
        let value = self.take(option)?;
        match self.take(option)? {
            None => Ok(value),
            Some(_) => Err(format!("{option}: expected once, got more than once; leave one of them out")),
        }
    }

    /// Takes out the first `option`, with its value.
    fn take(&mut self, option: &str) -> Result<Option<OsString>, String> {
        let joined =
            |word: &OsStr| word.to_str()?.strip_prefix(option)?.strip_prefix('=').map(OsString::from);
        let is_it = |word: &OsString| word == option || joined(word).is_some();
        let Some(place) = self.0.iter().position(is_it) else { return Ok(None) };
        let word = self.0.remove(place);
        let value = match joined(&word) {
            Some(value) => Some(value),
            // An option in the place of a value: the value was forgotten.
            None if self.0.get(place).is_none_or(|next| is_option(next, "--")) => None,
            None => Some(self.0.remove(place)),
        };
        let value = value.filter(|value| !value.is_empty());
        value.map(Some).ok_or_else(|| format!("{option}: expected a value behind it; see --help"))
    }

    /// The number behind `option`, at least 1.
    pub(crate) fn count(&mut self, option: &str, default: usize) -> Result<usize, String> {
        self.count_up_to(option, default, usize::MAX)
    }

    /// The number behind `option`, from 1 to `max`.
    pub(crate) fn count_up_to(&mut self, option: &str, default: usize, max: usize) -> Result<usize, String> {
        let Some(value) = self.value(option)? else { return Ok(default) };
        let count = value.to_str().and_then(|value| value.parse().ok());
        count.filter(|count| (1..=max).contains(count)).ok_or_else(|| match max {
            usize::MAX => format!("{option}: expected a number of at least 1, got {value:?}"),
            max => format!("{option}: expected a number from 1 to {max}, got {value:?}"),
        })
    }

    /// The one plain word, if there is one. Nothing else may be left.
    pub(crate) fn last(mut self) -> Result<Option<OsString>, String> {
        if let Some(unknown) = self.0.iter().find(|word| is_option(word, "-")) {
            return Err(match unknown.to_str() {
                Some(unknown) => format!("{unknown}: no such option; see --help"),
                None => {
                    format!(
                        "{unknown:?}: expected Unicode, got other bytes; such a name needs a space before it, no `=`"
                    )
                }
            });
        }
        match self.0.len() {
            0 | 1 => Ok(self.0.pop()),
            _ => Err(format!("expected at most one word that is no option, got {:?}; see --help", self.0)),
        }
    }
}

fn is_option(word: &OsStr, dashes: &str) -> bool {
    word.as_encoded_bytes().starts_with(dashes.as_bytes())
}

/// Says a line on standard output, like `println!`, but with an error to be passed on instead of a panic.
macro_rules! say {
    ($($words:tt)*) => { $crate::command_line::say_line(format_args!($($words)*)) };
}
pub(crate) use say;

/// What `say!` stands for.
pub(crate) fn say_line(line: fmt::Arguments<'_>) -> Result<(), Box<dyn Error>> {
    let mut output = io::stdout().lock();
    // Whole, and at once: what is kept for later could fail when nobody looks any more.
    match output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            Err(EarlyEnd { status: 0, line: String::new() }.into())
        }
        Err(error) => Err(format!("standard output: {error}").into()),
    }
}

/// An end before the work is done that is nobody's mistake: the reader of the output has left, or whoever
/// started the program wants it ended.
#[derive(Debug)]
pub(crate) struct EarlyEnd {
    pub(crate) status: u8,
    /// What is said about it; empty for nothing.
    pub(crate) line: String,
}

impl Error for EarlyEnd {}

impl fmt::Display for EarlyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// Says what went wrong, if anything did.
pub(crate) fn end(program: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let line = error.to_string();
    if !line.is_empty() {
        // There is nowhere left to say that this cannot be said.
        let _ = writeln!(io::stderr(), "{program}: {line}");
    }
    error.downcast_ref::<EarlyEnd>().map_or(ExitCode::FAILURE, |early| ExitCode::from(early.status))
}
