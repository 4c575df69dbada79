//! wpol: task queues in memory that threads and processes share, in two layouts.
//!
//! [`v1`] is the published layout, byte for byte, with the order of its steps corrected. It is for threads, and for
//! peers that speak it. [`v2`] is millpond's own: any process may be killed at any instruction and the others go
//! on. The version word in the header says which one a region is, and each refuses the other.
//!
//! Both run over any bytes: heap, `mmap`, WASM linear memory ([`Memory`]). Both treat what they read there as
//! hostile: every index and length is checked, every loop is bounded, and nonsense poisons the region instead of
//! the process.
//!
//! ```
//! use millpond_queue::wpol::{Memory, v2::{Config, Identity, Progress, Region, Submission}};
//!
//! let config = Config { slots: 64, lane_capacity: 64, ..Config::default() };
//! let region = Region::create(Memory::heap(config.bytes()?)?, config)?;
//! let (client, worker) = (region.attach(Identity::default())?, region.attach(Identity::default())?);
//!
//! let ticket = client.submit(Submission { method: 7, payload: b"21", ..Submission::default() })?;
//! let task = worker.start(0)?;
//! assert_eq!((task.method(), task.payload().as_slice()), (7, &b"21"[..]));
//! task.finish(0, b"42")?;
//!
//! assert_eq!(client.poll(&ticket)?, Progress::Done { status: 0 });
//! assert_eq!(client.result(&ticket)?, b"42");
//! client.release(ticket).map_err(|(refusal, _)| refusal)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bell;
mod crc32c;
pub mod error;
pub mod layout;
mod memory;
mod page;
#[cfg(not(any(loom, shuttle)))]
mod probe;
mod retry;
pub mod v1;
mod v1_ring;
mod v1_slots;
pub mod v2;
mod v2_batch;
mod v2_geometry;
mod v2_peer;
mod v2_reaper;
mod v2_record;
mod v2_region;
mod v2_reserve;
mod v2_ring;
mod v2_slots;
mod v2_task;
mod v2_ticket;
mod v2_wait;

#[cfg(all(test, any(loom, shuttle)))]
mod bell_model;
#[cfg(all(test, shuttle))]
mod linear_model;
#[cfg(all(test, any(loom, shuttle)))]
mod model_cells;
#[cfg(all(test, any(loom, shuttle)))]
mod v1_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v1_ring_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v1_slots_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v2_batch_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v2_reaper_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v2_ring_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v2_slots_model;
#[cfg(all(test, any(loom, shuttle)))]
mod v2_wait_model;

pub use bell::{AWAKE, Bell};
pub use error::RegionError;
pub use memory::{ALIGNMENT, Memory};
#[cfg(not(any(loom, shuttle)))]
#[doc(hidden)]
pub use probe::Probe;
