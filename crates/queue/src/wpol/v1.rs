//! Version 1 of the region, byte for byte as specified: who may attach, and what a fresh region holds.
//!
//! ```text
//! 0       64                64 + 8 x capacity        64 + 72 x capacity
//! | header | entries (u64 each) | slots (64 bytes each) |
//! ```
//!
//! The creator writes everything and the magic number last, so that whoever sees the magic number sees the rest. An
//! attacher copies the header once, checks it, and never reads those fields again: a peer that changes them later
//! harms itself only. Creating over a finished region attaches to it, as the specification says, but unlike there
//! the version and the capacity are compared first.
//!
//! Two creators at the same moment are not told apart in version 1; version 2 decides that by one word.
//!
//! Not here: the ring (`v1_ring.rs`), the slots (`v1_slots.rs`).

use super::error::RegionError;
use super::layout::{self, V1_CAPACITY_MAX, V1_ENTRY_BYTES, v1_header as header, v1_slot as slot};
use super::memory::Memory;
use crate::edge::Edge;
use crate::sync::Ordering::Relaxed;
use alloc::sync::Arc;

pub use super::error::{AllocateError, PopError, PushError, ReferenceError};
pub use super::v1_ring::Entry;
pub use super::v1_slots::Task;

/// Carries the whole fresh region from its creator to every attacher.
static WPOL1_MAGIC: Edge = Edge::new("WPOL1_MAGIC");

const VERSION: u32 = 1;
const FEATURES: u32 = layout::V1_FEATURE_TAGGED | layout::V1_FEATURE_ZERO_ENTRY;
const FEATURES_KNOWN: u32 = FEATURES | layout::V1_FEATURE_SLOT_0_RESERVED;

/// A ring of slot indices with priorities, and the slots, in memory shared with other threads.
///
/// Items are delivered exactly once, in the order of their claims. `Full` and `Empty` are exact. A thread that is
/// *stopped* between claim and publish holds up the others, so between processes that may be killed use version 2.
#[derive(Debug)]
pub struct Queue {
    /// Shared with other queues of this process over the same bytes.
    pub(super) memory: Arc<Memory>,
    /// Private copies of checked header fields; the header itself is never read for them again.
    pub(super) capacity: u32,
    pub(super) slots_base: usize,
    /// Whether peers know [`layout::V1_ZERO_ENTRY`].
    pub(super) has_zero_entry: bool,
}

impl Queue {
    /// Bytes a region of this capacity takes.
    pub fn bytes_for(capacity: u32) -> Result<usize, RegionError> {
        check_capacity(capacity)?;
        Ok(slots_base(capacity) + capacity as usize * slot::BYTES)
    }

    /// Builds an empty queue, or attaches if the memory already holds one of this capacity.
    ///
    /// The memory need not be zeroed. No other thread may create in it at the same time.
    pub fn create(memory: impl Into<Arc<Memory>>, capacity: u32) -> Result<Self, RegionError> {
        Self::create_at(memory, capacity, 0)
    }

    /// As `create`, with both positions at `position`, for tests of old age.
    #[doc(hidden)]
    pub fn create_at(
        memory: impl Into<Arc<Memory>>,
        capacity: u32,
        position: u64,
    ) -> Result<Self, RegionError> {
        let memory = memory.into();
        let bytes = Self::bytes_for(capacity)?;
        check_length(&memory, bytes as u64)?;
        if memory.u32_at(header::MAGIC).load(WPOL1_MAGIC.acquire()) == layout::MAGIC {
            let queue = Self::attach(memory)?;
            if queue.capacity != capacity {
                let expected = "the capacity of the region already there";
                return Err(RegionError::BadField { field: "capacity", expected, found: capacity.into() });
            }
            return Ok(queue);
        }
        // Attachers look at the header meanwhile, so it is cleared word by word, the magic number first.
        memory.clear(layout::words(&layout::V1_HEADER, 0, header::BYTES));
        memory.zero(header::BYTES, bytes);
        let set = |offset, value| memory.u32_at(offset).store(value, Relaxed);
        set(header::VERSION, VERSION);
        set(header::CAPACITY, capacity);
        set(header::MASK, capacity - 1);
        set(header::FEATURES, FEATURES);
        set(header::SLOTS_BASE, slots_base(capacity) as u32);
        memory.u64_at(header::HEAD).store(position, Relaxed);
        memory.u64_at(header::TAIL).store(position, Relaxed);
        for index in 0..capacity {
            let next = if index + 1 == capacity { layout::V1_NONE } else { index + 1 };
            set(slots_base(capacity) + index as usize * slot::BYTES + slot::NEXT, next);
        }
        // The free list starts at slot 0 with tag 0, which is what the zeroed word says.
        // WPOL1_MAGIC, creator's end: everything above travels with the magic number.
        memory.u32_at(header::MAGIC).store(layout::MAGIC, WPOL1_MAGIC.release());
        Ok(Self { memory, capacity, slots_base: slots_base(capacity), has_zero_entry: true })
    }

    /// Attaches to a finished region without changing it.
    pub fn attach(memory: impl Into<Arc<Memory>>) -> Result<Self, RegionError> {
        let memory = memory.into();
        check_length(&memory, header::BYTES as u64)?;
        // WPOL1_MAGIC, attacher's end: once the magic number is seen, so is the rest of the header.
        let magic = memory.u32_at(header::MAGIC).load(WPOL1_MAGIC.acquire());
        if magic != layout::MAGIC {
            return Err(RegionError::InvalidMagic { found: magic });
        }
        let get = |offset| memory.u32_at(offset).load(Relaxed);
        let version = get(header::VERSION);
        if version != VERSION {
            return Err(RegionError::VersionMismatch { expected: VERSION, found: version });
        }
        let capacity = get(header::CAPACITY);
        check_capacity(capacity)?;
        check_field("mask", "the capacity less one", get(header::MASK), capacity - 1)?;
        let base = slots_base(capacity);
        check_field("slots base", "64 + 8 x capacity", get(header::SLOTS_BASE), base as u32)?;
        let features = get(header::FEATURES);
        check_field("features", "bits 1, 2 and 8 only", features & !FEATURES_KNOWN, 0)?;
        check_length(&memory, Self::bytes_for(capacity)? as u64)?;
        let has_zero_entry = features & layout::V1_FEATURE_ZERO_ENTRY != 0;
        Ok(Self { memory, capacity, slots_base: base, has_zero_entry })
    }

    /// Places in the ring, and slots.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The memory, for peers in the same process that attach to it.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Whether a peer found values nobody may write. Every operation answers `Poisoned` from then on.
    pub fn is_poisoned(&self) -> bool {
        self.memory.u32_at(header::POISON).load(Relaxed) != 0
    }

    /// Marks the region as broken for everybody.
    pub fn poison(&self) {
        self.memory.u32_at(header::POISON).store(1, Relaxed);
    }
}

/// Where the slots of a queue of this capacity start.
fn slots_base(capacity: u32) -> usize {
    header::BYTES + capacity as usize * V1_ENTRY_BYTES
}

fn check_capacity(capacity: u32) -> Result<(), RegionError> {
    if capacity.is_power_of_two() && capacity <= V1_CAPACITY_MAX {
        return Ok(());
    }
    let expected = "a power of two from 1 to 33554432";
    Err(RegionError::BadField { field: "capacity", expected, found: capacity.into() })
}

fn check_field(
    field: &'static str,
    expected: &'static str,
    found: u32,
    wanted: u32,
) -> Result<(), RegionError> {
    if found == wanted { Ok(()) } else { Err(RegionError::BadField { field, expected, found: found.into() }) }
}

pub(super) fn check_length(memory: &Memory, expected: u64) -> Result<(), RegionError> {
    if cfg!(target_endian = "big") {
        let expected = "a little-endian machine";
        return Err(RegionError::BadField { field: "byte order", expected, found: 0 });
    }
    match memory.len() as u64 >= expected {
        true => Ok(()),
        false => Err(RegionError::Truncated { expected, found: memory.len() }),
    }
}

/// Every word of a region of this capacity: (offset, width).
pub(super) fn words(capacity: u32) -> impl Iterator<Item = (usize, usize)> {
    let base = slots_base(capacity);
    let slots = (0..capacity as usize)
        .flat_map(move |index| layout::words(&layout::V1_SLOT, base + index * slot::BYTES, slot::BYTES));
    layout::words(&layout::V1_HEADER, 0, header::BYTES)
        .chain((header::BYTES..base).step_by(V1_ENTRY_BYTES).map(|at| (at, V1_ENTRY_BYTES)))
        .chain(slots)
}

/// A zeroed model region for a queue of this capacity.
#[cfg(all(test, any(loom, shuttle)))]
pub(super) fn model_memory(capacity: u32) -> Memory {
    Memory::model(words(capacity), Queue::bytes_for(capacity).unwrap())
}
