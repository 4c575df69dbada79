//! The promises of the doors on this machine, one module per theme.
//!
//! Every test has a directory, a service and a door of its own, so that they run side by side.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod client;
mod clients;
mod closing;
mod exchanges;
mod fuzz;
mod limits;
mod mailbox;
mod mailbox_files;
mod mailbox_processes;
mod mistakes;
mod page;
mod runtime_dir;
mod start;
mod streams;
