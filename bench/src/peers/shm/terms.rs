//! What the bench and the process at the other end must agree on: where things lie, and how large they are.
//!
//! ```text
//! 0                4096 ................ HALF           HALF + 4096
//! | go, ready, stop | raw ring or region |  ...          | the same, for the way back |
//! ```
//!
//! The sizes of a region are those of a program that attaches to the daemon with its defaults.
//!
//! Not here: who talks to whom (`peers/shm/mod.rs`, `bin/shm_echo.rs`).

use super::map::Map;
use millpond_queue::wpol::RegionError;
use millpond_queue::wpol::v2::Config;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Where the part for each way begins. There is room for a region in each.
pub(crate) const WAYS: [usize; 2] = [4096, HALF + 4096];
/// Bytes of the whole mapping.
pub(crate) const BYTES: usize = 2 * HALF;
const HALF: usize = 1 << 20;

/// Longest message. Tasks are about 60 bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 112;
/// Most messages that are under way at a time, in any group.
pub(crate) const IN_FLIGHT_MAX: usize = 128;
/// Messages that a batch holds.
pub(crate) const BATCH: usize = 32;

/// What a region of either way is made for.
pub(crate) fn region() -> Config {
    Config { lanes: 1, lane_capacity: 1024, slots: 1024, slot_stride: 256, attach_records: 2, segment: 1 }
}

/// Bytes of such a region.
pub(crate) fn region_bytes() -> Result<usize, RegionError> {
    region().bytes()
}

/// A flag that one process sets once and the other waits for or looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flag {
    /// The process at the other end is there.
    Ready,
    /// It may go.
    Stop,
}

impl Flag {
    fn word(self, map: &Map) -> &AtomicU64 {
        // On lines of their own: the second is looked at all the time.
        &map.words()[16 * (1 + self as usize)]
    }

    pub(crate) fn set(self, map: &Map) {
        self.word(map).store(1, Release);
    }

    pub(crate) fn is_set(self, map: &Map) -> bool {
        self.word(map).load(Acquire) != 0
    }
}
