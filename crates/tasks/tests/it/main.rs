//! The promises of the public interface, one module per theme.
//!
//! Messages are held to the letter: people search for them, and programs in other languages show them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod attempts;
mod builtins;
mod checkpoints;
mod command;
mod core_stress;
mod dead_letters;
mod disk_trouble;
mod durable;
mod errors;
mod events;
mod figures;
mod fuzz;
mod idempotency;
mod lines;
mod lists;
mod mailboxes;
mod quick;
mod requests;
mod requests_refused;
mod results;
mod retry;
mod schedules;
mod service;
mod setup;
mod shutdown;
mod status;
mod streams;
mod symbols;
mod timing;
mod toys;
mod tracing;
mod uniques;
mod why;
