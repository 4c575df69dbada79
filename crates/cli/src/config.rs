//! `millpond config`: every effective value, and where it came from.
//!
//! With the flags of `millpond serve`, so that one can see what a command line would do before it does it.
//! Mistakes do not hide the values: what can be read is shown, and what is wrong is told beside it.

use crate::columns::{Cell, list};
use crate::config_file::{self, Configuration};
use crate::failure::{FAILED, Failure};
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::setting_flags::SettingFlags;
use clap::Args;
use millpond_tasks::config::{Row, Severity, Source};
use serde_json::json;
use std::path::PathBuf;

/// What `config` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond config                      every setting as it would be here
  millpond config --changed            only what differs from the defaults
  millpond config --workers 8 --json   what a flag would do, for a program")]
pub(crate) struct ConfigArguments {
    /// The file [default: MILLPOND_CONFIG, else millpond.toml or config/config here]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Only what somebody has set
    #[arg(long)]
    changed: bool,

    /// Print JSON: one object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    flags: SettingFlags,
}

pub(crate) fn run(arguments: &ConfigArguments) -> Result<(), Failure> {
    let configuration = config_file::load(arguments.config.as_deref(), &arguments.flags)?;
    let mut rows = configuration.loaded.listing();
    // A region is there because somebody named it, though all of its values may be defaults.
    let is_said = |row: &Row| row.source != Source::Default || row.name.starts_with("region.");
    rows.retain(|row| !arguments.changed || is_said(row));
    for finding in configuration.loaded.findings() {
        let kind = if finding.severity == Severity::Error { "error" } else { "note" };
        let said = finding.to_string().replacen(&format!("{kind}: "), "", 1);
        output::note(kind, &harmless(&said));
    }
    if arguments.json {
        output::print_json(&json!({
            "file": configuration.file.as_ref().map(|file| &file.name),
            "settings": rows,
        }))?;
    } else {
        output::print(text(&configuration, &rows, arguments.changed).as_bytes())?;
    }
    if configuration.loaded.has_errors() { Err(Failure::Shown(FAILED)) } else { Ok(()) }
}

fn text(configuration: &Configuration, rows: &[Row], only_changed: bool) -> String {
    let paint = Paint::for_output();
    let heading = match &configuration.file {
        Some(file) => format!("# {}", harmless(&file.name)),
        None => "# no file".to_owned(),
    };
    let mut text = paint.put(Tone::Faint, &heading) + "\n";
    if rows.is_empty() && only_changed {
        text.push_str("# everything is at its default\n");
    }
    let rows: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    text.push_str(&list(&rows, paint));
    text
}

fn cells(row: &Row) -> Vec<Cell> {
    let (tone, source_tone) = match row.source {
        Source::Default => (Tone::Faint, Tone::Faint),
        _ => (Tone::Plain, Tone::Good),
    };
    vec![
        Cell::toned(tone, &row.name),
        Cell::toned(tone, format!("= {}", harmless(&row.value.to_string()))),
        Cell::toned(source_tone, format!("# {}", harmless(&row.source.to_string()))),
    ]
}
