//! Whether the programs of handlers are there, which a look at the settings alone cannot tell.
//!
//! One that is not found is a note and no mistake: it may come with the machine on which the daemon will run.

use millpond_tasks::config::{Finding, HandlerSettings, Loaded, Severity};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A note for every handler whose program is not found. Nothing while there are mistakes.
pub(super) fn missing(loaded: &Loaded) -> Vec<Finding> {
    let Ok(settings) = loaded.settings() else { return Vec::new() };
    let rows = loaded.listing();
    let missing = settings.handlers.iter().filter_map(|(name, handler)| {
        let program = handler.command.first().filter(|program| !is_there(program, handler))?;
        let setting = format!("handler.{name}.command");
        let source = rows.iter().find(|row| row.name == setting)?.source.clone();
        let place = if program.contains('/') { "there" } else { "in PATH" };
        let message = format!(
            "{setting}: expected a program that can be run, got {program:?}, which is not {place}; tasks of \
             this handler will fail until it is"
        );
        Some(Finding { severity: Severity::Note, source, message })
    });
    missing.collect()
}

fn is_there(program: &str, handler: &HandlerSettings) -> bool {
    // A handler is started in its own directory, and with its own PATH if it has one.
    let here =
        |path: PathBuf| handler.directory.as_ref().map_or(path.clone(), |directory| directory.join(path));
    if program.contains('/') {
        return can_be_run(&here(PathBuf::from(program)));
    }
    let own = handler.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| OsString::from(value));
    let path = own.or_else(|| env::var_os("PATH")).unwrap_or_default();
    env::split_paths(&path).any(|folder| can_be_run(&here(folder.join(program))))
}

fn can_be_run(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}
