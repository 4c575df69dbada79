//! The brain of millpond: what a pool should do, decided from a picture of its workers and the time it is told.
//!
//! Nothing here has a clock, a thread or a lock, and nothing allocates while it decides. So the native pool, the
//! JavaScript package and the simulator run the same code, and `tests/vectors/` proves that they decide the same.
//! Arithmetic is in integers, so that a decision does not hang on a machine's floating point.
//!
//! | question | module |
//! |---|---|
//! | which worker gets this task | [`choose`], by name through [`registry`], with [`weights`] |
//! | whom to rob, and of how much | [`steal`] |
//! | more workers, or fewer | [`scale`] |
//! | what to do with a task when the queue is full | [`admit`] |
//! | which worker a key belongs to | [`affinity`] |
//! | how long things took | [`histogram`] |
//!
//! What all of them look at is in [`view`]; what they are told of time is a [`Moment`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod decay;
mod moment;
mod setting;

pub mod view;

pub mod choose;
pub mod registry;
pub mod weights;

pub mod admit;
pub mod affinity;
pub mod histogram;
pub mod scale;
pub mod steal;

pub use moment::Moment;
pub use setting::BadSetting;

/// The snippets of the page, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Page;
