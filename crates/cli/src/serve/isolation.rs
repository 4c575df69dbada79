//! Where function handlers run: on threads of the daemon, or in processes that may crash for themselves.
//!
//! With `isolation = "process"` the first thing that the daemon does is to copy itself, as long as it has one thread;
//! all worker processes are copies of that copy. So [`prepare`] comes before anything that starts a thread, and
//! [`start`] when everything else is there.

use crate::failure::Failure;
use millpond_shm::isolate::{Handlers, IsolationError, Zygote, service};
use millpond_tasks::config::{Isolation, Settings};
use millpond_tasks::{Log, Service};

/// Copies the program, if its handlers are to run in processes. Before any thread.
pub(super) fn prepare(settings: &Settings) -> Result<Option<Zygote>, Failure> {
    if settings.isolation.mode == Isolation::Thread {
        return Ok(None);
    }
    let of_worker = settings.clone();
    Zygote::start(settings, move || handlers(&of_worker)).map(Some).map_err(|error| failed(&error))
}

/// Starts the service, with worker processes if there is a zygote to make them.
pub(super) fn start(settings: &Settings, log: &Log, zygote: Option<Zygote>) -> Result<Service, Failure> {
    let handlers = handlers(settings).map_err(Failure::Failed)?;
    service(settings, handlers, log, zygote).map_err(|error| failed(&error))
}

/// The handlers that the configuration finds in libraries. Every worker process opens them for itself.
fn handlers(settings: &Settings) -> Result<Handlers, String> {
    millpond_native::library_handlers(settings).map_err(|error| error.to_string())
}

fn failed(error: &IsolationError) -> Failure {
    Failure::Failed(format!("the service did not start: {error}"))
}
