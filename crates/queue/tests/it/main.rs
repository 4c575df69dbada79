//! The promises of the public interface, kept by real threads: one module per queue, one for drops.
//!
//! Random tests print the seed they start from and take it back from `MILLPOND_SEED`. Nobody sleeps to let another
//! thread get somewhere: `eventually` waits for the condition itself, with a deadline far beyond what is needed.
//!
//! Not here: interleavings (`src/*_model.rs`), memory (`tests/memory.rs`), shared memory (`tests/wpol`).

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod dice;
mod drops;
mod drops_concurrent;
mod eventually;
mod gate;
mod gate_close;
mod global;
mod ring;
mod steal;
mod steal_concurrent;
