//! Tasks that are asked for in JSON: what a request may say, what may go wrong, and how the daemon is set up.
//!
//! Every door hands its bytes to this crate and gets back either a [`Request`] or an error with a code, a
//! place and a sentence. The codes are one table ([`ErrorCode`]) for Rust, C, HTTP and JavaScript.
//!
//! Not here: queues and workers (the crate `millpond`), and the doors themselves.

pub mod config;
pub mod error;
pub mod request;

pub use error::{ErrorCode, Position, TaskFailure};
pub use request::{Limits, Lines, Request, RequestError, Target, TaskId};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
