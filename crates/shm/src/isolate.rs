//! Handlers in processes of their own (`isolation = "process"`): what crashes there costs one task and nothing else.
//!
//! ```text
//!   program starts ── Zygote::start ──► zygote: one thread, all handlers (zygote.rs)
//!        │                                │ a copy for each worker process
//!   service(..) ── crew of processes ◄────┘ ── channel ──► worker process (worker.rs)
//!        (crew.rs)
//! ```
//! The zygote has to be started before the program has a second thread; everything else comes later. Which handlers
//! go where: functions (built in, native, the program's own) run in worker processes. Command handlers are processes
//! already. A task that names a region of memory runs in the daemon, whose memory that is, and so does `sleep`, which
//! would keep a process from work for as long as it sleeps.
//!
//! `fork.rs` is how a process is copied, `parcel.rs` and `wire.rs` what the processes say to each other, `link.rs` the
//! daemon's end of the zygote, `process.rs`, `keeper.rs` and `desk.rs` how it keeps workers and gives them tasks,
//! `outlet.rs` how words get out of a worker, `ending.rs` how it ended.

mod crew;
mod desk;
mod ending;
mod fork;
mod keeper;
mod link;
mod outlet;
mod parcel;
mod process;
mod wire;
mod worker;
mod zygote;

pub use zygote::Zygote;

use crate::layout::Plan;
use crew::{Crew, Isolated};
use millpond_tasks::config::Settings;
use millpond_tasks::{Handler, Log, Registry, RegistryError, Service, SetupError};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Handlers of the program that are not built in, with their names.
pub type Handlers = Vec<(String, Box<dyn Handler>)>;

/// How long both sides look for more before they sleep. Waking one that sleeps takes about as long.
const LINGER: Duration = Duration::from_micros(50);
/// The longest sleep in a channel.
const NAP: Duration = Duration::from_millis(100);
/// How long a handler has to notice that its task was cancelled, before its process is killed.
const GRACE: Duration = Duration::from_millis(250);
/// The largest payload, whatever the limits of requests and results.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;
/// What a task has in a message beside its arguments.
const HEAD_BYTES: usize = 512;

/// Handlers that stay in the daemon although they are functions.
const STAY: &[&str] = &["sleep"];

/// Why isolation could not begin.
#[derive(Debug)]
pub enum IsolationError {
    /// The process has so many threads already.
    Threads(usize),
    /// The zygote could not be started.
    NoZygote(io::Error),
    /// Worker processes cannot be started.
    NoProcess(String),
    /// A handler of the program could not be added.
    Registry(RegistryError),
    /// The service did not start.
    Setup(SetupError),
}

impl fmt::Display for IsolationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(threads) => write!(
                formatter,
                "isolation = \"process\": expected a process with one thread, got {threads}; start the pool before \
                 anything that starts threads"
            ),
            Self::NoZygote(error) => {
                write!(formatter, "isolation: the process that starts the others did not start: {error}")
            }
            Self::NoProcess(words) => write!(formatter, "isolation: {words}"),
            Self::Registry(error) => error.fmt(formatter),
            Self::Setup(error) => error.fmt(formatter),
        }
    }
}

impl Error for IsolationError {}

/// Starts the service that the settings describe, with `handlers` beside the built-in ones. With a zygote, functions
/// run in worker processes; it was given the same handlers.
pub fn service(
    settings: &Settings,
    handlers: Handlers,
    log: &Log,
    zygote: Option<Zygote>,
) -> Result<Service, IsolationError> {
    let crew = zygote.map(|zygote| Crew::start(zygote, &settings.isolation, log)).transpose()?;
    let started = start(settings, handlers, log, crew.as_ref());
    if let (Err(_), Some(crew)) = (&started, &crew) {
        crew.close(Duration::ZERO);
    }
    started
}

fn start(
    settings: &Settings,
    handlers: Handlers,
    log: &Log,
    crew: Option<&Arc<Crew>>,
) -> Result<Service, IsolationError> {
    let wrap = |name: &str, handler: Box<dyn Handler>| -> Box<dyn Handler> {
        match crew {
            Some(crew) if !STAY.contains(&name) => Box::new(Isolated { handler, crew: Arc::clone(crew) }),
            _ => handler,
        }
    };
    let mut registry = Registry::new();
    for (name, handler) in handlers {
        let handler = wrap(&name, handler);
        registry.add_boxed(&name, handler).map_err(IsolationError::Registry)?;
    }
    Service::from_settings_with(settings, registry, log, &wrap).map_err(IsolationError::Setup)
}

/// Passes a moment, if there was something to do not long ago; false if it is time to sleep. The one that is waited
/// for may need this very processor, so it is offered each time.
fn linger(busy_at: Instant) -> bool {
    let is_early = busy_at.elapsed() < LINGER;
    if is_early {
        thread::yield_now();
    }
    is_early
}

/// The memory of a process: large enough for the largest task and the largest answer. It has one task at a time, so
/// few messages wait.
fn plan(settings: &Settings) -> Plan {
    let largest = [
        usize::try_from(settings.request.args_bytes_max).unwrap_or(usize::MAX).saturating_add(HEAD_BYTES),
        settings.results.result_bytes_max,
        settings.stream.chunk_bytes_max,
    ];
    let payload = largest.into_iter().max().unwrap_or(0).min(PAYLOAD_BYTES_MAX);
    Plan { slots: 128, slot_bytes: 512, arena_bytes: payload.next_power_of_two().max(1 << 16) }
}
