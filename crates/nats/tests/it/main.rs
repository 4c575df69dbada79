//! The promises of the NATS door, against a real server: nothing is lost, nothing ends twice, and every end is told.
//!
//! Each test has a server of its own, and waits for conditions with a deadline.

#[path = "../server/mod.rs"]
mod server;

mod ground;
mod leftovers;
mod life;
mod misfortunes;
mod refusals;
mod waits;
