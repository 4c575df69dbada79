//! The HTTP door: a bounded front, REST and streams behind it, and a page to look at.
//!
//! To follow one request: `accept.rs` takes in its connection, `line.rs` gives it a place or has it wait, or
//! `front.rs` refuses it; `connection.rs` serves it with hyper over a `wire.rs`, `api.rs` answers, `reply.rs` is
//! what goes back, and `outbox.rs` sends it.
//!
//! Not here: what tasks are (the crate `millpond-tasks`), and what the settings may be (its `config`).
#![forbid(unsafe_code)]

mod accept;
mod api;
mod clients;
mod connection;
mod door;
mod figures;
mod front;
mod http_door;
mod line;
mod linger;
mod link;
mod listen;
mod mail;
mod meter;
mod metrics;
mod outbox;
mod page;
mod refuse;
mod reply;
mod socket;
mod stats;
mod visit;
mod wire;
mod worker;

pub use http_door::{CloseReport, HttpDoor, OpenError};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
