//! Queues for worker pools: bounded, lock-free, and proved by models kept beside the code.

#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", loom, shuttle, test))]
extern crate std;

mod edge;
mod sync;

#[cfg(any(loom, shuttle))]
mod model;
