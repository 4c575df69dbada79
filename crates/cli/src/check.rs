//! `millpond check`: every mistake in the configuration at once, each with its place and what to do.
//!
//! The line that is wrong is shown below what is said about it, with a mark at the place. The environment is
//! looked at too, since the daemon would see it; a mistake there fails the check as well.

mod programs;

use crate::config_file::{self, Configuration, PLACES};
use crate::excerpt::excerpt;
use crate::failure::{FAILED, Failure};
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::setting_flags::SettingFlags;
use clap::Args;
use millpond_tasks::config::{Finding, Severity, Source};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

/// What `check` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond check                       the file that `millpond serve` would read here
  millpond check other.toml
  millpond check --json | jq .errors")]
pub(crate) struct CheckArguments {
    /// The file [default: as `millpond serve` finds it]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print JSON: one object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    let configuration =
        config_file::load_named("check", arguments.file.as_deref(), &SettingFlags::default())?;
    let findings = [configuration.loaded.findings(), &programs::missing(&configuration.loaded)].concat();
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, notes) = (count(Severity::Error), count(Severity::Note));
    if arguments.json {
        output::print_json(&json!({
            "file": configuration.file.as_ref().map(|file| &file.name),
            "errors": errors,
            "notes": notes,
            "findings": findings,
        }))?;
    } else {
        output::print(text(&configuration, &findings, errors, notes).as_bytes())?;
    }
    if errors > 0 { Err(Failure::Shown(FAILED)) } else { Ok(()) }
}

fn text(configuration: &Configuration, findings: &[Finding], errors: usize, notes: usize) -> String {
    let paint = Paint::for_output();
    let mut text = String::new();
    for finding in findings {
        text.push_str(&told(finding, configuration, paint));
    }
    let about = match &configuration.file {
        Some(file) => harmless(&file.name).into_owned(),
        None => format!("no file (neither {} nor {} is here)", PLACES[0], PLACES[1]),
    };
    let several = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let verdict = match (errors, notes) {
        (0, 0) => paint.put(Tone::Good, "no mistakes"),
        (0, notes) => paint.put(Tone::Good, "no mistakes") + ", " + &several(notes, "note"),
        (errors, 0) => paint.put(Tone::Bad, &several(errors, "mistake")),
        (errors, notes) => paint.put(Tone::Bad, &several(errors, "mistake")) + ", " + &several(notes, "note"),
    };
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{about}: {verdict}");
    text
}

/// One finding, with its line of the file.
pub(crate) fn told(finding: &Finding, configuration: &Configuration, paint: Paint) -> String {
    let said = harmless(&finding.to_string()).into_owned();
    let (kind, tone) = match finding.severity {
        Severity::Error => (": error: ", Tone::Bad),
        Severity::Note => (": note: ", Tone::Strong),
    };
    let said = match said.split_once(kind) {
        Some((place, message)) => {
            let place = paint.put(Tone::Strong, place);
            format!("{place}: {}: {message}", paint.put(tone, kind.trim_matches([':', ' '])))
        }
        None => said,
    };
    match (&finding.source, &configuration.file) {
        (Source::File(place), Some(file)) => {
            format!("{said}\n{}", excerpt(&file.bytes, place.line, place.line, place.column, paint))
        }
        _ => said + "\n",
    }
}
