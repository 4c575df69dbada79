//! `millpond journal`: what lies in a journal's directory, and what can be saved of one that is damaged.
//!
//! Both work on the files, without a daemon: `status` also beside one that runs, `repair` only if none does.
//! Figures of a running daemon are in `millpond stats`. A repair deletes nothing: what it could not save is put
//! aside under another name.

use crate::columns::{Cell, Heading, table};
use crate::config_file;
use crate::failure::{FAILED, Failure};
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::setting_flags::SettingFlags;
use crate::units::{bytes, grouped};
use clap::{Args, Subcommand};
use millpond_journal::{FileState, Inspection, RealDisk, RepairReport};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What `journal` is told.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  millpond journal status
  millpond journal status /var/lib/millpond/journal --json
  millpond journal repair /var/lib/millpond/journal")]
pub(crate) struct JournalArguments {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(Debug, Subcommand)]
enum JournalCommand {
    /// Show the files and whether a start would read them
    Status(PlaceArguments),
    /// Save what is whole of a damaged journal, and put the rest aside
    Repair(PlaceArguments),
}

#[derive(Debug, Args)]
struct PlaceArguments {
    /// The directory [default: `journal.dir` of the settings]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,

    /// The configuration file that says so [default: as `millpond serve` finds it]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print JSON: one object
    #[arg(long)]
    json: bool,
}

impl PlaceArguments {
    fn directory(&self) -> Result<PathBuf, Failure> {
        if let Some(directory) = &self.directory {
            return Ok(directory.clone());
        }
        let loaded = config_file::load(self.config.as_deref(), &SettingFlags::default())?.loaded;
        let settings = loaded.settings().ok().and_then(|settings| settings.journal);
        settings.map(|journal| journal.directory).ok_or_else(|| {
            Failure::Usage("the settings name no journal; say which directory, or set journal.dir".to_owned())
        })
    }
}

pub(crate) fn run(arguments: &JournalArguments) -> Result<(), Failure> {
    match &arguments.command {
        JournalCommand::Status(place) => status(place),
        JournalCommand::Repair(place) => repair(place),
    }
}

fn status(place: &PlaceArguments) -> Result<(), Failure> {
    let directory = place.directory()?;
    let inspected = millpond_journal::inspect(&directory, &RealDisk);
    let inspection = inspected.map_err(|error| Failure::Failed(error.to_string()))?;
    if place.json {
        output::print_json(&status_json(&inspection))?;
    } else {
        output::print(status_text(&inspection).as_bytes())?;
    }
    if inspection.is_sound() {
        return Ok(());
    }
    output::note("error", "a start would refuse this journal; `millpond journal repair` saves what is whole");
    Err(Failure::Shown(FAILED))
}

fn state(state: &FileState) -> (Tone, String) {
    match state {
        FileState::Sound => (Tone::Good, "sound".to_owned()),
        FileState::Old => (Tone::Faint, "old, goes at the next start".to_owned()),
        FileState::Torn { offset } => {
            (Tone::Doubtful, format!("torn behind byte {offset}, which a start cuts"))
        }
        FileState::Damaged { what } => (Tone::Bad, format!("damaged: {what}")),
    }
}

const HEADINGS: [Heading; 5] = [
    Heading::left("file"),
    Heading::right("size"),
    Heading::right("used"),
    Heading::right("records"),
    Heading::left("state"),
];

fn status_text(inspection: &Inspection) -> String {
    let row = |file: &millpond_journal::FileInspected| {
        let (tone, words) = state(&file.state);
        vec![
            Cell::new(harmless(&file.name)),
            Cell::new(bytes(file.bytes)),
            Cell::new(bytes(file.bytes_used)),
            Cell::new(grouped(file.records)),
            Cell::toned(tone, harmless(&words)),
        ]
    };
    let rows: Vec<Vec<Cell>> = inspection.files.iter().map(row).collect();
    let files = table(&HEADINGS, &rows, Paint::for_output());
    format!(
        "{files}{} records in the snapshot, {} in the log; {} large payloads ({}); {} in all\n",
        grouped(inspection.snapshot_records),
        grouped(inspection.log_records),
        grouped(inspection.spill_files),
        bytes(inspection.spill_bytes),
        bytes(inspection.bytes)
    )
}

fn status_json(inspection: &Inspection) -> Value {
    let file = |file: &millpond_journal::FileInspected| {
        json!({
            "name": file.name,
            "bytes": file.bytes,
            "bytes_used": file.bytes_used,
            "records": file.records,
            "state": state(&file.state).1,
        })
    };
    json!({
        "is_sound": inspection.is_sound(),
        "files": inspection.files.iter().map(file).collect::<Vec<_>>(),
        "snapshot_records": inspection.snapshot_records,
        "log_records": inspection.log_records,
        "spill_files": inspection.spill_files,
        "spill_bytes": inspection.spill_bytes,
        "parts": inspection.parts,
        "bytes": inspection.bytes,
    })
}

fn repair(place: &PlaceArguments) -> Result<(), Failure> {
    let directory = place.directory()?;
    let report = millpond_journal::repair(&directory, &RealDisk);
    let report = report.map_err(|error| Failure::Failed(error.to_string()))?;
    if place.json {
        return output::print_json(&repair_json(&report));
    }
    if report.is_empty() {
        return output::print(b"nothing had to be mended\n");
    }
    let mut text = String::new();
    for file in &report.files {
        text += &format!(
            "{}: {}; {} records saved, {} lost; the damaged bytes are in {}\n",
            file.name, file.why, file.records_kept, file.records_lost, file.put_aside
        );
    }
    for name in &report.missing {
        text += &format!("{name}: it was missing, and is empty now\n");
    }
    text += &format!("{} records kept, {} known to be lost\n", report.records_kept, report.records_lost);
    output::print(text.as_bytes())
}

fn repair_json(report: &RepairReport) -> Value {
    let file = |file: &millpond_journal::RepairedFile| {
        json!({
            "name": file.name,
            "why": file.why,
            "put_aside": file.put_aside,
            "records_kept": file.records_kept,
            "records_lost": file.records_lost,
            "bytes_lost": file.bytes_lost,
        })
    };
    json!({
        "files": report.files.iter().map(file).collect::<Vec<_>>(),
        "missing": report.missing,
        "spills_put_aside": report.spills_put_aside,
        "records_kept": report.records_kept,
        "records_lost": report.records_lost,
    })
}
