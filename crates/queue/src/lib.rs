//! Queues for worker pools: bounded, lock-free, and proved by models kept beside the code.

#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", loom, shuttle, test))]
extern crate std;

mod cursor;
mod edge;
#[cfg(any(feature = "std", loom, shuttle))]
mod futex;
#[cfg(any(feature = "std", loom, shuttle))]
mod gate;
#[cfg(all(test, any(loom, shuttle)))]
mod gate_model;
#[cfg(any(feature = "std", loom, shuttle))]
mod gate_meter;
mod global;
#[cfg(all(test, any(loom, shuttle)))]
mod global_model;
#[cfg(all(test, not(loom)))]
mod linear;
#[cfg(all(test, shuttle))]
mod linear_model;
mod ring;
#[cfg(all(test, any(loom, shuttle)))]
mod ring_model;
mod slots;
mod steal;
#[cfg(all(test, any(loom, shuttle)))]
mod steal_model;
mod steal_buffer;
mod sync;
pub mod wpol;

#[cfg(any(loom, shuttle))]
mod model;

#[cfg(any(feature = "std", loom, shuttle))]
pub use gate::{Gate, GateConfig, NoValue, Refusal};
#[cfg(any(feature = "std", loom, shuttle))]
pub use gate_meter::GateStats;
pub use global::{GlobalQueue, LANES_MAX, Lane, LaneError, LaneTurn, WEIGHT_MAX};
pub use ring::Ring;
pub use steal::{STEAL_CAPACITY_MAX, Steal, StealQueue, Stealer};
pub use slots::{CAPACITY_MAX, CapacityError};
