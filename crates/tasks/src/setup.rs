//! From settings to a running service: built-in handlers, commands, opcodes and regions, all as configured.
//!
//! The program and the C library both start here, so that a configuration file means the same to both.
//!
//! Not here: reading the configuration (`config.rs`), opening doors.

use crate::config::{RegionAccess, Settings};
use crate::handler::{Handler, builtin, command};
use crate::log::Log;
use crate::registry::{Registry, RegistryError};
use crate::service::{Service, ServiceConfig, StartError};
use crate::symbols::{Access, HeapMemory, SymbolError, Symbols};
use crate::timer::Timer;
use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

/// Gives back the built-in handler of this name in another form.
pub type Wrap<'a> = dyn Fn(&str, Box<dyn Handler>) -> Box<dyn Handler> + 'a;

/// Why a configured service did not start.
#[derive(Debug)]
pub enum SetupError {
    /// A handler or an opcode could not be added.
    Registry(RegistryError),
    /// A handler should be in a library, and whoever starts the service did not register it.
    NotLoaded {
        /// The handler.
        handler: String,
        /// The library.
        library: PathBuf,
    },
    /// A region could not be added.
    Symbols(SymbolError),
    /// The pool or the timer did not start.
    Start(StartError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(error) => error.fmt(formatter),
            Self::NotLoaded { handler, library } => write!(
                formatter,
                "handler.{handler}: expected a function of {} that was registered before, got none; this program \
                 loads no libraries",
                library.display()
            ),
            Self::Symbols(error) => error.fmt(formatter),
            Self::Start(error) => error.fmt(formatter),
        }
    }
}

impl Error for SetupError {}

impl Service {
    /// Starts what the settings describe, with the handlers of `registry` beside the configured ones. Those in
    /// [libraries](Settings::libraries) must be in `registry` already, because this crate loads none.
    pub fn from_settings(settings: &Settings, registry: Registry, log: &Log) -> Result<Self, SetupError> {
        Self::from_settings_with(settings, registry, log, &|_, handler| handler)
    }

    /// As [`from_settings`](Self::from_settings), with each built-in handler as `wrap` gives it back. Commands, and
    /// what `registry` holds, stay as they are.
    pub fn from_settings_with(
        settings: &Settings,
        registry: Registry,
        log: &Log,
        wrap: &Wrap<'_>,
    ) -> Result<Self, SetupError> {
        let timer = Timer::start().map_err(|error| SetupError::Start(StartError::Timer(error)))?;
        if let Some((handler, of)) = settings.libraries.iter().find(|(name, _)| !registry.contains(name)) {
            return Err(SetupError::NotLoaded { handler: handler.clone(), library: of.library.clone() });
        }
        let registry = with_handlers(registry, settings, &timer, log, wrap).map_err(SetupError::Registry)?;
        let symbols = regions(settings).map_err(SetupError::Symbols)?;
        let config = ServiceConfig::from(settings);
        let service = Self::start_with_timer(config, registry, symbols, timer).map_err(SetupError::Start)?;
        service.set_log(log);
        Ok(service)
    }
}

fn with_handlers(
    mut registry: Registry,
    settings: &Settings,
    timer: &Timer,
    log: &Log,
    wrap: &Wrap<'_>,
) -> Result<Registry, RegistryError> {
    for (name, handler) in builtin::builtins(&settings.builtin, timer) {
        registry.add_boxed(name, wrap(name, handler))?;
    }
    for (name, handler) in &settings.handlers {
        registry.add(name, command::command(name, handler.clone(), log.clone()))?;
    }
    for (name, retry) in &settings.handler_retries {
        registry.set_retry(name, retry.clone());
    }
    for (opcode, name) in &settings.opcodes {
        // Opcode 0 is the specification's updater, which needs no handler here.
        if let Some(opcode) = NonZeroU32::new(*opcode) {
            registry.set_opcode(opcode, name)?;
        }
    }
    Ok(registry)
}

fn regions(settings: &Settings) -> Result<Symbols, SymbolError> {
    let symbols = Symbols::new();
    for (name, region) in &settings.regions {
        let access = match region.access {
            RegionAccess::Read => Access::Read,
            RegionAccess::Write => Access::Write,
            RegionAccess::ReadWrite => Access::ReadWrite,
        };
        symbols.register(name, Arc::new(HeapMemory::new(region.bytes)), access)?;
    }
    Ok(symbols)
}
