//! What a `Gate` tells about itself: how full it was at worst, how long values waited, how many were turned away.
//!
//! Reading a clock costs more than passing a value, so the wait is measured for one value in
//! `measure_every`, and for every value while somebody sleeps, which is whenever traffic is light. The time
//! of arrival stands beside the slots, and the slot's mark tells the reader that it is there. The depth is
//! not computed for every value: as long as a value is written no further from a known place of the head
//! than the record, it cannot be a new one. It is never more than the truth; a peak shorter than the push
//! that made it may be missed.
//!
//! Nothing here decides anything. The models leave it out.

use core::time::Duration;

/// How full a gate is and was, and how long values waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateStats {
    /// How many values wait.
    pub len: usize,
    /// How many may wait.
    pub capacity: usize,
    /// The most that were seen to wait at once.
    pub len_max: usize,
    /// How many were taken in since the start.
    pub enqueued: u64,
    /// How many were taken out since the start.
    pub dequeued: u64,
    /// How many `try_enqueue` turned away because the gate was full.
    pub rejected: u64,
    /// How many waits were measured.
    pub waits_measured: u64,
    /// The mean of the measured waits between enqueue and dequeue.
    pub wait_mean: Duration,
    /// The longest of the measured waits.
    pub wait_max: Duration,
}

#[cfg(not(any(loom, shuttle)))]
mod make {
    use super::{Duration, GateStats};
    use crate::slots::{CapacityError, is_before};
    use crate::sync::{AtomicU64, Ordering::Relaxed};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use crossbeam_utils::CachePadded;
    use std::time::Instant;

    pub(crate) struct Meter {
        start: Instant,
        /// One less than a power of two, or `u64::MAX` to measure nothing.
        unmeasured_mask: u64,
        /// When the value in the slot of the same index arrived, in nanoseconds since the start. Written by
        /// the slot's writer and read by its reader, whom the slot's turn keeps apart.
        arrivals: Box<[AtomicU64]>,
        /// Written by producers.
        depth: CachePadded<Depth>,
        /// Written by consumers.
        waits: CachePadded<Waits>,
        rejected: CachePadded<AtomicU64>,
    }

    struct Depth {
        /// A value written before this position is no record.
        record_from: AtomicU64,
        len_max: AtomicU64,
    }

    struct Waits {
        count: AtomicU64,
        nanoseconds: AtomicU64,
        nanoseconds_max: AtomicU64,
    }

    impl Meter {
        pub(crate) fn new(capacity: usize, measure_every: u32) -> Result<Self, CapacityError> {
            let mut arrivals = Vec::new();
            if measure_every != 0 {
                let out_of_memory = |_| CapacityError::OutOfMemory { asked: capacity };
                arrivals.try_reserve_exact(capacity).map_err(out_of_memory)?;
                arrivals.extend((0..capacity).map(|_| AtomicU64::new(0)));
            }
            Ok(Self {
                start: Instant::now(),
                unmeasured_mask: match measure_every {
                    0 => u64::MAX,
                    often => u64::from(often).next_power_of_two() - 1,
                },
                arrivals: arrivals.into_boxed_slice(),
                depth: CachePadded::new(Depth { record_from: AtomicU64::new(0), len_max: AtomicU64::new(0) }),
                waits: CachePadded::new(Waits {
                    count: AtomicU64::new(0),
                    nanoseconds: AtomicU64::new(0),
                    nanoseconds_max: AtomicU64::new(0),
                }),
                rejected: CachePadded::new(AtomicU64::new(0)),
            })
        }

        /// A value arrives at a slot. Says whether its wait is measured.
        #[inline(always)]
        pub(crate) fn arrives(&self, index: usize, position: u64, somebody_sleeps: bool) -> bool {
            let skipped = position & self.unmeasured_mask != 0;
            if (skipped && !somebody_sleeps) || self.arrivals.is_empty() {
                return false;
            }
            self.arrivals[index].store(self.now(), Relaxed);
            true
        }

        /// A measured value leaves its slot.
        #[cold]
        pub(crate) fn leaves(&self, index: usize) {
            let wait = self.now().saturating_sub(self.arrivals[index].load(Relaxed));
            self.waits.count.fetch_add(1, Relaxed);
            self.waits.nanoseconds.fetch_add(wait, Relaxed);
            self.waits.nanoseconds_max.fetch_max(wait, Relaxed);
        }

        /// Whether the value written at `position` may have made the queue longer than ever.
        #[inline(always)]
        pub(crate) fn may_be_record(&self, position: u64) -> bool {
            !is_before(position, self.depth.record_from.load(Relaxed))
        }

        /// The queue held `len` values; the next record lies behind the place `after` gives for the longest so far.
        #[cold]
        pub(crate) fn record(&self, len: usize, after: impl FnOnce(usize) -> u64) {
            let len_max = self.depth.len_max.fetch_max(len as u64, Relaxed).max(len as u64);
            self.depth.record_from.store(after(len_max as usize), Relaxed);
        }

        pub(crate) fn rejected(&self) {
            self.rejected.fetch_add(1, Relaxed);
        }

        pub(crate) fn stats(&self, len: usize, capacity: usize, enqueued: u64, dequeued: u64) -> GateStats {
            let count = self.waits.count.load(Relaxed);
            let total = self.waits.nanoseconds.load(Relaxed);
            GateStats {
                len,
                capacity,
                len_max: self.depth.len_max.load(Relaxed) as usize,
                enqueued,
                dequeued,
                rejected: self.rejected.load(Relaxed),
                waits_measured: count,
                wait_mean: Duration::from_nanos(total.checked_div(count).unwrap_or(0)),
                wait_max: Duration::from_nanos(self.waits.nanoseconds_max.load(Relaxed)),
            }
        }

        fn now(&self) -> u64 {
            self.start.elapsed().as_nanos() as u64
        }
    }
}

#[cfg(any(loom, shuttle))]
mod make {
    use super::GateStats;
    use crate::slots::CapacityError;

    /// A model has no clock.
    pub(crate) struct Meter;

    impl Meter {
        pub(crate) fn new(_capacity: usize, _measure_every: u32) -> Result<Self, CapacityError> {
            Ok(Self)
        }
        pub(crate) fn arrives(&self, _index: usize, _position: u64, _somebody_sleeps: bool) -> bool {
            false
        }
        pub(crate) fn leaves(&self, _index: usize) {}
        pub(crate) fn may_be_record(&self, _position: u64) -> bool {
            false
        }
        pub(crate) fn record(&self, _len: usize, _after: impl FnOnce(usize) -> u64) {}
        pub(crate) fn rejected(&self) {}
        pub(crate) fn stats(&self, len: usize, capacity: usize, enqueued: u64, dequeued: u64) -> GateStats {
            GateStats { len, capacity, enqueued, dequeued, ..GateStats::default() }
        }
    }
}

pub(crate) use make::Meter;
