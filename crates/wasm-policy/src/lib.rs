//! The policy of millpond as a WebAssembly module: what the JavaScript package calls.
//!
//! A module instance is the brain of one pool: its picture of the workers, its strategy, its scaler, its owners of
//! keys and its histograms. A pool gets an instance of its own, so that a trap in one harms no other, and no
//! handle needs to be checked. Its memory is private, so it also works where pages may not share memory.
//!
//! Numbers go in and come out as they are; keys and rows of numbers go over the slate ([`slate_at`]). Times are
//! nanoseconds in floating point, which JavaScript has without making garbage; numbers of 64 bits that must be exact
//! come as two halves.
//!
//! There are no words here, in or out: a strategy is its place in the table, a reason is its place and its numbers,
//! and settings are checked by whoever calls. Words in WebAssembly took 22 KB of the module, and JavaScript has
//! names, texts and errors anyway (`npm/src/brain/words.ts`); the vectors hold both sides to the same ones.
//!
//! Not here: decisions; those are `millpond-policy`. On the host this is an ordinary library with the same functions,
//! so that tests, clippy and tidy see it.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod brain;
mod number;
mod slate;

pub mod affinity;
pub mod choose;
pub mod histogram;
pub mod scale;
pub mod workers;

pub use slate::{slate_at, version};

#[cfg(target_arch = "wasm32")]
mod ground;
#[cfg(any(target_arch = "wasm32", test))]
mod heap;
#[cfg(not(target_arch = "wasm32"))]
mod host;
