//! The promises of the public interface, kept by real threads: one module per theme.
//!
//! Nobody sleeps to let another thread get somewhere: `eventually` waits for the condition itself, and `promptly`
//! ends a test that hangs, both with a deadline far beyond what is needed. A worker that must be out of the way is
//! kept busy (`busy.rs`), so that what waits behind it is known exactly.
//!
//! Not here: interleavings (`src/*_model.rs`), memory (`tests/memory.rs`), random load (`tests/stress.rs`).

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod affinity;
mod bad_input;
mod busy;
mod cancel;
mod crew;
mod depth;
mod drain;
mod enders;
mod events;
mod eventually;
mod fairness;
mod futures;
mod join;
mod keys;
mod life;
mod metrics;
mod nesting;
mod options;
mod own_pool;
mod own_strategy;
mod panics;
mod pressure;
mod prometheus;
mod reactors;
mod scaling;
mod scope;
mod stealing;
mod stop;
mod strategies;
mod submit;
mod tickets;
mod time;
mod why;
mod witness;
