//! The promises of the HTTP door, one module per theme.
//!
//! Every test has a service and a door of its own, on a port of its own, and talks to it over a real socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod http;
mod start;

mod front;
mod storm;

mod about;
mod batches;
mod dead;
mod events;
mod lists;
mod metrics;
mod page;
mod refusals;
mod safety;
mod stats;
mod streams;
mod tasks;
