//! Tasks that are asked for in JSON: from the text of a request to the result of its handler.
//!
//! Every door hands its bytes to a [`ServiceHandle`] and gets back either a task or an error with a code, a
//! place and a sentence. The codes are one table ([`ErrorCode`]) for Rust, C, HTTP and JavaScript.
//!
//! To follow one task: `request.rs` reads it, `submit.rs` takes it in, `attempt.rs` moves it through the pool
//! to its `handler.rs`, which has it as a `call.rs`; `task.rs` is what it is all the while, `stream.rs` what it
//! says, `watch.rs` who listens, `outcome.rs` its end, `results.rs` where that is kept.
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

mod attempt;
mod call;
mod keys;
mod list;
mod nearest;
mod outcome;
mod registry;
mod results;
mod service;
mod setup;
mod stats;
mod stream;
mod submit;
mod task;
mod watch;

pub use call::{Call, StopCause, Stopped};
pub use error::{ErrorCode, Position, TaskFailure};
pub use handler::{Handler, function};
pub use log::{Level, Log};
pub use outcome::{Outcome, Refused};
pub use registry::{Registry, RegistryError};
pub use request::{Limits, Lines, Request, RequestError, Target, TaskId};
pub use results::ResultStats;
pub use service::{DrainReport, LIST_MAX, ListFilter, Service, ServiceConfig, ServiceHandle, StartError};
pub use setup::SetupError;
pub use stats::{HandlerStats, PoolStats, Stats, Times, WorkerStats};
pub use stream::{Said, StreamEvent};
pub use submit::{Accepted, Submit};
pub use symbols::Symbols;
pub use task::{Stage, Task, TaskStatus};
pub use timer::Timer;
pub use watch::{Reader, Wants, Watch, Watching};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
