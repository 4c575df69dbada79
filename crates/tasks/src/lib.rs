//! Tasks that are asked for in JSON: from the text of a request to the result of its handler.
//!
//! Every door hands its bytes to a [`ServiceHandle`] and gets back either a task or an error with a code, a
//! place and a sentence. The codes are one table ([`ErrorCode`]) for Rust, C, HTTP and JavaScript.
//!
//! To follow one task: `request.rs` reads it, `submit.rs` takes it in, `attempt.rs` moves it through the
//! pool to its `handler.rs`, which has it as a `call.rs`; `task.rs` is what it is all the while, `stream.rs`
//! what it says, `watch.rs` who listens, `status.rs` how it looks, `outcome.rs` its end, `results.rs` where
//! that is kept.
//!
//! To look at all of them: `list.rs` knows them and `page.rs` shows them, `stats.rs` counts, `why.rs` gives
//! reasons, `events.rs` tells who listens, `tracer.rs` who writes it down.
//!
//! For the doors of one machine: `runtime_dir.rs` is the private directory they live in, `socket_file.rs` a
//! socket in it.
//!
//! Not here: queues and workers (the crate `millpond`), and the doors themselves.

pub mod config;
pub mod error;
pub mod handler;
pub mod log;
pub mod mailbox;
pub mod request;
pub mod symbols;
pub mod timer;

mod at_work;
mod attempt;
mod backlog;
mod call;
mod checkpoint;
mod dead;
mod door;
mod ending;
mod events;
mod keeping;
mod keys;
mod latency;
mod ledger;
mod list;
mod nearest;
mod order;
mod outcome;
mod page;
mod pool_stats;
mod quick;
mod registry;
mod results;
mod revive;
mod runtime_dir;
mod schedule;
mod service;
mod setup;
mod socket_file;
mod stages;
mod stats;
mod status;
mod stream;
mod submit;
mod task;
mod tracer;
mod uniques;
mod wall;
mod watch;
mod why;

pub use call::{Call, StopCause, Stopped};
pub use dead::{DEAD_LIST_MAX, DeadFilter, DeadLetter, DeadPage, DeadStats};
pub use door::DoorName;
pub use error::{ErrorCode, Position, TaskFailure};
pub use events::{OnNews, PoolNews, ServiceEvent, ServiceEvents, TaskNews};
pub use handler::{About, Handler, function, quick};
pub use latency::{Buckets, LATENCY_BOUNDS_US, Latency};
pub use ledger::{JournalError, JournalHealth};
pub use log::{Level, Log};
pub use outcome::{Outcome, Refused};
pub use page::{Cursor, LIST_MAX, ListFilter, ListPage};
pub use pool_stats::{LaneStats, PoolStats, WorkerStats};
pub use registry::{Registry, RegistryError};
pub use request::{Limits, Lines, Request, RequestError, Target, TaskId};
pub use results::ResultStats;
pub use revive::Revived;
pub use runtime_dir::{RuntimeDir, RuntimeLock};
pub use schedule::ScheduleInfo;
pub use service::{DrainReport, Service, ServiceConfig, ServiceHandle, StartError};
pub use setup::{SetupError, Wrap};
pub use socket_file::SocketFile;
pub use stats::{HandlerInfo, HandlerStats, MemoryDoorStats, NatsStats, ScheduleStats, Stats, Times};
pub use status::{TRIES_MAX, TaskDetail, TaskStatus, Try};
pub use stream::{Said, StreamEvent};
pub use submit::{Accepted, Earlier, Here, Submit};
pub use symbols::Symbols;
pub use task::{Stage, Task};
pub use timer::Timer;
pub use tracer::{TraceStats, Tracer};
pub use watch::{Reader, Wants, Watch, Watching};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
