//! The promises of the exporter, one module per theme.
//!
//! Every test has a service, an exporter and a collector of its own, and they talk over a real socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod daemon;
mod receiver;

mod losses;
mod spans;
