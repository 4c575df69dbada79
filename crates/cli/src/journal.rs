//! `millpond journal`: what lies in a journal's directory, and what can be saved of one that is damaged.
//!
//! Both work on the files, without a daemon: `status` also beside one that runs, `repair` only if none does.
//! Figures of a running daemon are in `millpond stats`. A repair deletes nothing: what it could not save is put
//! aside under another name. A directory without a journal is left as it is, whatever was meant by naming it.

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
use std::fs;
use std::io::ErrorKind;
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
        let settings = loaded.settings().map_err(|_| Failure::usage(MISTAKES))?;
        settings.journal.map(|journal| journal.directory).ok_or_else(|| Failure::usage(NO_JOURNAL))
    }

    /// What lies in the directory, if that is a journal.
    fn look(&self) -> Result<(PathBuf, Inspection), Failure> {
        let directory = self.directory()?;
        let shown = directory.display();
        let what = match fs::metadata(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => "there is no such directory",
            Ok(found) if !found.is_dir() => "not a directory",
            // Whatever else is in the way, the look at the files tells.
            _ => match millpond_journal::inspect(&directory, &RealDisk) {
                Err(error) => return Err(Failure::Failed(error.to_string())),
                Ok(found) if !found.is_empty() => return Ok((directory, found)),
                Ok(_) => "no journal lies here",
            },
        };
        Err(Failure::Failed(format!("{shown}: {what}; {ELSEWHERE}")))
    }
}

const MISTAKES: &str = "the configuration has mistakes, so where the journal is cannot be told; `millpond check` shows \
                        them, or say which directory";
const NO_JOURNAL: &str = "the settings name no journal; say which directory, or set journal.dir";
const ELSEWHERE: &str = "say which directory has the journal; `millpond serve --journal DIR` begins one";

pub(crate) fn run(arguments: &JournalArguments) -> Result<(), Failure> {
    match &arguments.command {
        JournalCommand::Status(place) => status(place),
        JournalCommand::Repair(place) => repair(place),
    }
}

fn status(place: &PlaceArguments) -> Result<(), Failure> {
    let (directory, inspection) = place.look()?;
    if place.json {
        output::print_json(&status_json(&inspection))?;
    } else {
        output::print(status_text(&inspection).as_bytes())?;
    }
    if inspection.is_sound() {
        return Ok(());
    }
    let repair = format!("millpond journal repair {}", directory.display());
    output::note("error", &format!("a start would refuse this journal; `{repair}` saves what is whole"));
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
    let (directory, _) = place.look()?;
    let report = millpond_journal::repair(&directory, &RealDisk);
    let report = report.map_err(|error| Failure::Failed(error.to_string()))?;
    if place.json {
        return output::print_json(&repair_json(&report));
    }
    if report.is_empty() {
        let kept = grouped(report.records_kept);
        return output::print(format!("nothing had to be mended; {kept} records are there\n").as_bytes());
    }
    output::print(repair_text(&report).as_bytes())
}

fn repair_text(report: &RepairReport) -> String {
    let mut text = String::new();
    for file in &report.files {
        text += &format!(
            "{}: {}; {} records saved, {} could not be read; the damaged file is kept as {}\n",
            file.name,
            file.why,
            grouped(file.records_kept),
            bytes(file.bytes_lost),
            file.put_aside
        );
    }
    for name in &report.missing {
        text += &format!("{name}: it was missing, and is there again without records\n");
    }
    for name in &report.spills_put_aside {
        text += &format!("{name}: a large payload that no record names, or that is damaged\n");
    }
    // What stood at the end of a file leaves no hole that could be counted.
    let (kept, lost) = (grouped(report.records_kept), grouped(report.records_lost));
    text += &format!("{kept} records kept, at least {lost} lost; a daemon starts with this journal again\n");
    text
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
