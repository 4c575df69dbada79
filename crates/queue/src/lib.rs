//! Queues for worker pools: bounded, lock-free where it pays, and proved by models kept beside the code.
//!
//! | queue | for |
//! |---|---|
//! | [`Ring`] | many producers, many consumers, bounded |
//! | [`StealQueue`] | one worker's own tasks, which others may steal |
//! | [`GlobalQueue`] | tasks from outside the pool, in lanes of priority |
//! | [`Gate`] | a blocking way in that refuses when full and closes without loss |
//! | [`wpol`] | queues over shared memory, between processes that may be killed |
//!
//! Read `slots.rs` first, then `ring.rs`; the others build on the same ideas. `ORDERING.md` lists every edge
//! by which one thread's writes reach another.
//!
//! Not here: threads that run anything, policy, and what a task is.
//!
//! `sync`, `edge`, `futex` and `model` are public for the crates above, which are proved by the same means, and
//! hidden: they are no part of what this crate promises.

#![no_std]
#![cfg_attr(any(loom, shuttle), allow(clippy::unwrap_used, reason = "a model is a test"))]

extern crate alloc;
#[cfg(any(feature = "std", loom, shuttle, test))]
extern crate std;

mod cursor;
#[doc(hidden)]
pub mod edge;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod futex;
#[cfg(feature = "std")]
mod gate;
#[cfg(feature = "std")]
mod gate_claimed;
#[cfg(feature = "std")]
mod gate_meter;
#[cfg(all(test, any(loom, shuttle)))]
mod gate_model;
#[cfg(feature = "std")]
mod gate_refusal;
#[cfg(feature = "std")]
mod gate_waiting;
mod global;
#[cfg(all(test, any(loom, shuttle)))]
mod global_model;
#[cfg(all(test, not(loom)))]
mod linear;
#[cfg(all(test, shuttle))]
mod linear_model;
mod lines;
mod ring;
#[cfg(all(test, any(loom, shuttle)))]
mod ring_model;
mod slots;
mod steal;
mod steal_buffer;
#[cfg(all(test, any(loom, shuttle)))]
mod steal_model;
mod steal_thief;
#[doc(hidden)]
pub mod sync;
pub mod wpol;

#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod model;

#[cfg(feature = "std")]
pub use gate::{Gate, GateConfig};
#[cfg(feature = "std")]
pub use gate_claimed::Claimed;
#[cfg(feature = "std")]
pub use gate_meter::GateStats;
#[cfg(feature = "std")]
pub use gate_refusal::{NoValue, Refusal};
pub use global::{GlobalQueue, LANES_MAX, Lane, LaneError, LanePattern, LaneTurn, WEIGHT_MAX};
pub use ring::Ring;
pub use slots::{CAPACITY_MAX, CapacityError};
pub use steal::{Mark, STEAL_CAPACITY_MAX, StealQueue};
pub use steal_thief::{Steal, Stealer};

/// The snippets of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
