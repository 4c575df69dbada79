//! An HTTP/1.1 load generator in one thread, for closed and open loops, with times by status.
//!
//! One event loop drives every connection, since a generator that takes half of the machine measures itself.
//! The answers are read by a small reader of our own (`response.rs`): it looks at four header fields and
//! copies nothing, while a general client would build a map of headers and a chain of buffers for every
//! answer.
//!
//! In a closed loop every client waits for its answer before it asks again, so a slow server is asked less.
//! In an open loop requests are due by the clock, and a time begins when its request was due: a server that
//! stalls is charged for everybody who would have come in the meantime.
//!
//! Not here: what is printed, and what may be loaded (`crates/cli`); what is compared (`bench`).
#![forbid(unsafe_code)]

mod alarm;
mod connection;
mod engine;
mod events;
mod measured;
mod open_files;
mod plan;
mod readers;
mod request;
mod response;
mod schedule;
mod socket;

pub use engine::run;
pub use measured::{Answers, Faults, Measured, Streams};
pub use plan::{Address, Arrivals, LoadError, Plan, Readers};
pub use request::Request;

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
