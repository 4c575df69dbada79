//! How files get to where they lie: copied, written, linked, packed small, each with rights of its own.
//!
//! What is packed later must be the same wherever it was built, so rights are set here and not inherited. The time
//! that packed files bear is also decided here: that of the commit, unless the environment says another
//! (`SOURCE_DATE_EPOCH`, as other build tools understand it).
//!
//! Not here: which files there are (`dist.rs`, `dist/debian.rs`).

use crate::process;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const FOLDER: u32 = 0o755;
const PROGRAM: u32 = 0o755;
const PLAIN: u32 = 0o644;

/// A copy that anybody may read.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_folder_of(to)?;
    fs::copy(from, to).map_err(|error| format!("{}: cannot be copied: {error}", from.display()))?;
    set_mode(to, PLAIN)
}

/// A copy that anybody may run.
pub(super) fn copy_program(from: &Path, to: &Path) -> Result<(), String> {
    copy(from, to)?;
    set_mode(to, PROGRAM)
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    make_folder_of(path)?;
    fs::write(path, text).map_err(|error| cannot(path, &error))?;
    set_mode(path, PLAIN)
}

pub(super) fn write_program(path: &Path, text: &str) -> Result<(), String> {
    write(path, text)?;
    set_mode(path, PROGRAM)
}

/// A link to a name in the same folder; one that was there goes.
pub(super) fn link(target: &str, path: &Path) -> Result<(), String> {
    if path.symlink_metadata().is_ok() {
        fs::remove_file(path).map_err(|error| cannot(path, &error))?;
    }
    std::os::unix::fs::symlink(target, path).map_err(|error| cannot(path, &error))
}

/// Packs a file small, in its place, without its name and time.
pub(super) fn squeeze(path: &Path) -> Result<(), String> {
    must(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(path))
}

/// A folder of ours, empty.
pub(super) fn clear(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| format!("{}: cannot be cleared: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))
}

/// Gives every folder below the rights that anybody expects of it.
pub(super) fn open_folders(folder: &Path) -> Result<(), String> {
    set_mode(folder, FOLDER)?;
    for entry in fs::read_dir(folder).map_err(|error| cannot(folder, &error))? {
        let entry = entry.map_err(|error| cannot(folder, &error))?;
        // A link is not followed: it may lead out of here.
        if entry.file_type().map_err(|error| cannot(folder, &error))?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))
}

/// The names in a folder, sorted.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: cannot be listed: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The time that packed files bear, in seconds of Unix.
pub(super) fn moment(root: &Path) -> Result<u64, String> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        let wrong = |_| format!("SOURCE_DATE_EPOCH: expected seconds since 1970, got {text:?}");
        return text.trim().parse().map_err(wrong);
    }
    let mut log = Command::new("git");
    log.current_dir(root).args(["log", "-1", "--format=%ct"]);
    // Sources without a history are packed too; then there is no time that means anything.
    let told = process::output_of(&mut log).unwrap_or_default();
    Ok(told.trim().parse().unwrap_or(0))
}

/// Runs a command that the rest needs.
pub(super) fn must(command: &mut Command) -> Result<(), String> {
    if process::run_in_the_open(command)? {
        Ok(())
    } else {
        Err(format!("{} failed", process::shown(command)))
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| cannot(path, &error))
}

fn make_folder_of(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: cannot be written: {error}", path.display())
}
