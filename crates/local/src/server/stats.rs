//! What the door has done and has to do, in figures.
//!
//! The reactor counts, anybody reads; nothing is decided by these numbers, so they need no order among them.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The control socket at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ControlStats {
    /// Connections that are open.
    pub connections: u64,
    /// How many may be.
    pub connections_max: u64,
    /// Connections since the start.
    pub accepted: u64,
    /// Connections that were turned away: too many, or of another user.
    pub refused: u64,
    /// Exchanges under way on all connections: answers that are still to come.
    pub in_flight: u64,
    /// Frames that came.
    pub frames_in: u64,
    /// Frames that were sent, or wait to be.
    pub frames_out: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Bytes that were sent.
    pub bytes_out: u64,
    /// Frames that were answered with ERROR.
    pub errors: u64,
    /// How often a worker had to wake the reactor. Far fewer than frames, if it is busy.
    pub wakes: u64,
}

/// Counted by the reactor.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) in_flight: AtomicU64,
    pub(super) frames_in: AtomicU64,
    pub(super) frames_out: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) errors: AtomicU64,
}

impl Counters {
    pub(super) fn stats(&self, connections_max: usize, wakes: u64) -> ControlStats {
        let read = |count: &AtomicU64| count.load(Relaxed);
        ControlStats {
            connections: read(&self.connections),
            connections_max: connections_max as u64,
            accepted: read(&self.accepted),
            refused: read(&self.refused),
            in_flight: read(&self.in_flight),
            frames_in: read(&self.frames_in),
            frames_out: read(&self.frames_out),
            bytes_in: read(&self.bytes_in),
            bytes_out: read(&self.bytes_out),
            errors: read(&self.errors),
            wakes,
        }
    }
}

/// More by so many, of which 0 costs nothing.
pub(super) fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.fetch_add(more, Relaxed);
    }
}

/// One less.
pub(super) fn subtract(count: &AtomicU64, less: u64) {
    if less > 0 {
        count.fetch_sub(less, Relaxed);
    }
}
