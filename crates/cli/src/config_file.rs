//! Which configuration counts: how the file is found and read, and all layers put together.
//!
//! `--config` names it, else `MILLPOND_CONFIG`, else it is `millpond.toml` here, else `config/config` here,
//! else there is none. One that was named must be there; one that was only looked for need not.
//!
//! Not here: what may stand in it (`millpond_tasks::config`).

use crate::failure::Failure;
use crate::setting_flags::SettingFlags;
use millpond_tasks::config::{self, ConfigFile, ConfigSources, FILE_BYTES_MAX, Loaded};
use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "MILLPOND_CONFIG";

/// Where it is looked for, in this order.
pub(crate) const PLACES: [&str; 2] = ["millpond.toml", "config/config"];

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Found {
    /// As it was named.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// All layers together.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) file: Option<Found>,
    pub(crate) loaded: Loaded,
}

/// Finds the file, and puts it together with the environment and the flags. `named` is what `--config` says.
pub(crate) fn load(named: Option<&Path>, flags: &SettingFlags) -> Result<Configuration, Failure> {
    load_named("--config", named, flags)
}

/// The same, where something else than `--config` names the file.
pub(crate) fn load_named(
    who: &str,
    named: Option<&Path>,
    flags: &SettingFlags,
) -> Result<Configuration, Failure> {
    let file = find(who, named)?;
    let environment: Vec<_> = env::vars_os().collect();
    let loaded = config::load(&ConfigSources {
        file: file.as_ref().map(|file| ConfigFile { name: &file.name, bytes: &file.bytes }),
        environment: &environment,
        flags: &flags.given,
        handlers: millpond_tasks::handler::builtin::BUILTIN_NAMES,
    });
    Ok(Configuration { file, loaded })
}

fn find(who: &str, named: Option<&Path>) -> Result<Option<Found>, Failure> {
    let cannot_be_read = |who: &str, path: &Path, error: &io::Error| {
        Failure::Usage(format!("{who} {}: the file cannot be read: {error}", path.display()))
    };
    let variable = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let named = named.map(|path| (who, path)).or(variable.as_deref().map(|path| (VARIABLE, path)));
    if let Some((who, path)) = named {
        return read(path).map(Some).map_err(|error| cannot_be_read(who, path, &error));
    }
    for place in PLACES {
        match read(Path::new(place)) {
            Ok(found) => return Ok(Some(found)),
            // A folder on the way may be a file, which also means that there is none.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(cannot_be_read("configuration", Path::new(place), &error)),
        }
    }
    Ok(None)
}

/// Reads a file, but not more of it than is needed to see that it is too long.
fn read(path: &Path) -> io::Result<Found> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Found { name: path.display().to_string(), bytes })
}
