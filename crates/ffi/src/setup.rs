//! From a configuration file to a service in this process.
//!
//! It means what it means to `millpond serve`, but for the doors. A library opens none, unless the file gives the
//! pool a name of its own: then other programs can attach to it by that name. A handler that the file names
//! (`1=handler_resize`) is one of millpond's own, or one that was registered, or a function that the program exports,
//! in this order.
//!
//! Not here: what files may say (`millpond_tasks::config`).

use crate::border::wrong;
use crate::registered::{Function, PoolHandler, for_later};
use millpond_native::{exported, library_handlers, symbol_name};
use millpond_shm::isolate::{Handlers, IsolationError, Zygote, service};
use millpond_shm::{MEMORY_SOCKET_NAME, MemoryDoor};
use millpond_tasks::config::{
    ConfigFile, ConfigSources, FILE_BYTES_MAX, Isolation, Loaded, Settings, Severity, Value, load,
};
use millpond_tasks::handler::builtin::BUILTIN_NAMES;
use millpond_tasks::{ErrorCode, Level, Log, Service, TaskFailure};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;

/// What was started, and by which settings.
pub(crate) struct Started {
    pub(crate) service: Service,
    pub(crate) settings: Settings,
    /// Where other programs attach, if the pool has a name.
    pub(crate) door: Option<MemoryDoor>,
}

/// Starts a service for the pool of this number, by a file or by the defaults.
pub(crate) fn start(path: Option<&str>, pool: usize) -> Result<Started, TaskFailure> {
    let bytes = path.map(read).transpose()?;
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let file = path.zip(bytes.as_deref()).map(|(name, bytes)| ConfigFile { name, bytes });
    let sources = ConfigSources { file, environment: &environment, flags: &[], handlers: BUILTIN_NAMES };
    let functions = functions(&load(&sources))?;
    let known: Vec<&str> =
        BUILTIN_NAMES.iter().copied().chain(functions.keys().map(String::as_str)).collect();
    let loaded = load(&ConfigSources { handlers: &known, ..sources });
    let settings = loaded.settings().map_err(|_| mistakes(&loaded))?;
    let build = {
        let settings = settings.clone();
        move || handlers(&functions, &settings, pool)
    };
    let failed = |error: IsolationError| wrong(format!("the pool did not start: {error}"));
    // Worker processes are copies of this one, so that they have its functions; it may have one thread only
    // by now.
    let isolates = settings.isolation.mode == Isolation::Process;
    let zygote = isolates.then(|| Zygote::start(&settings, build.clone())).transpose().map_err(failed)?;
    let service = service(&settings, build().map_err(wrong)?, &log(&settings), zygote).map_err(failed)?;
    let door = door(&settings, &service)?;
    Ok(Started { service, settings, door })
}

/// The name that a pool has if nobody gives it one; that of the daemon.
const UNNAMED: &str = "millpond";

fn door(settings: &Settings, service: &Service) -> Result<Option<MemoryDoor>, TaskFailure> {
    if settings.name == UNNAMED || !settings.memory_door.enabled {
        return Ok(None);
    }
    let path = settings.runtime_path().join(MEMORY_SOCKET_NAME);
    let door = MemoryDoor::open(&path, settings.memory_door.clone(), service.handle(), log(settings));
    door.map(Some).map_err(|error| wrong(format!("pool {:?}: {error}", settings.name)))
}

fn read(path: &str) -> Result<Vec<u8>, TaskFailure> {
    let failed = |error| wrong(format!("{path}: expected a configuration that can be read, got: {error}"));
    let mut bytes = Vec::new();
    // One byte more than there may be shows that there is too much.
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The handlers of a pool that are not built in.
fn handlers(
    functions: &BTreeMap<String, Function>,
    settings: &Settings,
    pool: usize,
) -> Result<Handlers, String> {
    let mut handlers = library_handlers(settings).map_err(|error| error.to_string())?;
    for (name, function) in functions {
        let opcode = settings.opcodes.iter().find(|(_, called)| *called == name).map_or(0, |(code, _)| *code);
        handlers.push((name.clone(), Box::new(PoolHandler::new(*function, opcode, pool))));
    }
    Ok(handlers)
}

/// The C functions of a new pool, by name: all that were registered, and those that the file names and the
/// program exports.
fn functions(loaded: &Loaded) -> Result<BTreeMap<String, Function>, TaskFailure> {
    let mut functions = for_later().clone();
    let rows = loaded.listing();
    let is_command = |name: &str| rows.iter().any(|row| row.name == format!("handler.{name}.command"));
    for row in &rows {
        let (Some(opcode), Value::Text(name)) = (row.name.strip_prefix("opcodes."), &row.value) else {
            continue;
        };
        if BUILTIN_NAMES.contains(&name.as_str()) || functions.contains_key(name) || is_command(name) {
            continue;
        }
        let symbol = symbol_name(name);
        let Some(function) = exported(&symbol) else {
            return Err(TaskFailure::new(
                ErrorCode::UnknownHandler,
                format!(
                    "{}: opcode {opcode}: expected a handler that exists, got {name:?}: it is not built in, \
                     threadpool_register_handler was not called with it, and the program does not export {symbol} \
                     (link it with -rdynamic)",
                    row.source
                ),
            ));
        };
        functions.insert(name.clone(), Function { function, is_quick: false });
    }
    Ok(functions)
}

/// All mistakes, one a line.
fn mistakes(loaded: &Loaded) -> TaskFailure {
    let errors = loaded.findings().iter().filter(|finding| finding.severity == Severity::Error);
    let lines: Vec<_> = errors.map(ToString::to_string).collect();
    wrong(lines.join("\n"))
}

/// A library says only what its user must hear, and where they will see it.
fn log(settings: &Settings) -> Log {
    let least = Level::by_name(&settings.log_level).unwrap_or(Level::Warn).min(Level::Warn);
    Log::new(move |level, line| {
        if level <= least {
            eprintln!("millpond: {level}: {line}");
        }
    })
}
