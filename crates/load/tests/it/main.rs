//! What the generator promises, against a real server on real sockets: every request is counted once, and as
//! what it was.
//!
//! The figures of a load test decide what people build. A timeout that is missing from a count, or a refusal
//! that hides among the answers, would decide wrongly.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod arrivals;
mod faults;
mod server;
mod streams;
