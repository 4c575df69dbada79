//! Handlers of the configuration that are functions in libraries: `[handler.resize] library = "libimage.so"`.
//!
//! They are loaded before the service starts, so that a library that is not there, or lacks its function, is
//! a mistake of the configuration and not of a task. A library that several handlers name is loaded once, by
//! the loader.
//!
//! Not here: what the configuration may say (`millpond_tasks::config`).

use crate::find::{FindError, Library};
use crate::handler::NativeHandler;
use millpond_tasks::config::{LibrarySettings, Settings};
use millpond_tasks::{Handler, Registry, RegistryError};
use std::error::Error;
use std::fmt;

/// Handlers with their names.
pub type NamedHandlers = Vec<(String, Box<dyn Handler>)>;

/// Why a handler of the configuration could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryError {
    /// Which handler, and why its function was not found.
    NotFound(String, FindError),
    /// The registry does not take it.
    Registry(RegistryError),
}

impl fmt::Display for LibraryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(handler, error) => write!(formatter, "handler.{handler}: {error}"),
            Self::Registry(error) => error.fmt(formatter),
        }
    }
}

impl Error for LibraryError {}

/// Loads the libraries of the settings and makes handlers of their functions, by name. Whoever wrote the
/// configuration vouches for them, as for the programs it names.
pub fn library_handlers(settings: &Settings) -> Result<NamedHandlers, LibraryError> {
    let handler = |(name, library): (&String, &LibrarySettings)| {
        let function = Library::open(&library.library)
            .and_then(|loaded| loaded.function(&library.symbol_names(name)))
            .map_err(|error| LibraryError::NotFound(name.clone(), error))?;
        let opcode =
            settings.opcodes.iter().find(|(_, called)| *called == name).map_or(0, |(opcode, _)| *opcode);
        // SAFETY: the configuration says that this is a handler; the manual says what that asks of a function.
        // Libraries are never unloaded.
        let handler = unsafe { NativeHandler::new(function) };
        let handler: Box<dyn Handler> = Box::new(handler.with_opcode(opcode).with_library(library));
        Ok((name.clone(), handler))
    };
    settings.libraries.iter().map(handler).collect()
}

/// Adds the [handlers in libraries](library_handlers) to `registry`.
pub fn add_libraries(registry: &mut Registry, settings: &Settings) -> Result<(), LibraryError> {
    for (name, handler) in library_handlers(settings)? {
        registry.add_boxed(&name, handler).map_err(LibraryError::Registry)?;
    }
    Ok(())
}
