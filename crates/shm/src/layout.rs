//! Where everything lies in the memory of a channel: from three numbers to every range.
//!
//! ```text
//! 0            requests: a wpol region (version 2), from the maker to the other side
//!              answers: one more, the other way
//!              arena of the requests: payloads that are too large for a slot
//!              arena of the answers
//! ```
//!
//! No offset is stored. Both sides compute all of them from the plan, which the maker tells the other side when
//! it hands the memory over; the sum must be the size of the file to the byte. The layout has a number of its
//! own: whoever reads layout n reads every older one too, and refuses a newer one by name, so a daemon is
//! replaced before the programs that attach to it.
//!
//! Not here: the regions themselves (`wpol`, and `docs/WPOL.md`).

use millpond_queue::wpol::RegionError;
use millpond_queue::wpol::v2;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::ops::Range;

/// The layout that this build makes.
pub(crate) const LAYOUT: u32 = 1;
/// The oldest that it reads.
pub(crate) const LAYOUT_MIN: u32 = 1;

/// Ranges begin at multiples of two cache lines.
const LINE: usize = 128;
/// Records: one for the maker, one for the other side, and as many again while one takes over from another.
const RECORDS: u32 = 4;
/// The smallest arena, and the smallest block in one.
pub(crate) const BLOCK_BYTES_MIN: usize = 256;
const ARENA_BYTES_MAX: usize = 1 << 31;

/// The size of a channel. Every number is a limit that is never passed; it is the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How many messages may wait in one direction: a power of two from 64 to 65536.
    pub slots: u32,
    /// How many bytes a message has in the queue itself, its head of 64 included: a multiple of 64.
    pub slot_bytes: u32,
    /// How many bytes larger payloads have, together: a power of two from 256 to 2 GiB. A single one may take all.
    pub arena_bytes: usize,
}

impl Default for Plan {
    /// Small messages in 256 bytes, 1024 of them, and 4 MiB for larger ones: 9 MiB in all, of which the system
    /// gives only what is used.
    fn default() -> Self {
        Self { slots: 1024, slot_bytes: 256, arena_bytes: 4 << 20 }
    }
}

/// What is wrong with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// `slots`.
    Slots(u32),
    /// `slot_bytes`.
    SlotBytes(u32),
    /// `arena_bytes`.
    ArenaBytes(usize),
    /// What the region says.
    Region(RegionError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(got) => {
                write!(formatter, "slots: expected a power of two from 64 to 65536, got {got}")
            }
            Self::SlotBytes(got) => {
                write!(formatter, "slot_bytes: expected a multiple of 64 from 128 to 1048576, got {got}")
            }
            Self::ArenaBytes(got) => {
                write!(formatter, "arena_bytes: expected a power of two from 256 to 2147483648, got {got}")
            }
            Self::Region(error) => error.fmt(formatter),
        }
    }
}

impl Error for PlanError {}

/// Where the parts lie.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) requests: Range<usize>,
    pub(crate) answers: Range<usize>,
    pub(crate) requests_arena: Range<usize>,
    pub(crate) answers_arena: Range<usize>,
}

impl Parts {
    /// Bytes in all.
    pub(crate) fn bytes(&self) -> usize {
        self.answers_arena.end
    }
}

impl Plan {
    /// The region of one direction.
    pub(crate) fn region(&self) -> v2::Config {
        v2::Config {
            lanes: 1,
            lane_capacity: self.slots,
            slots: self.slots,
            slot_stride: self.slot_bytes,
            attach_records: RECORDS,
            segment: u64::from(LAYOUT),
        }
    }

    /// Where everything lies, if the plan is one.
    pub(crate) fn parts(&self) -> Result<Parts, PlanError> {
        if !self.slots.is_power_of_two() || !(64..=65_536).contains(&self.slots) {
            return Err(PlanError::Slots(self.slots));
        }
        if !self.slot_bytes.is_multiple_of(64) || !(128..=1 << 20).contains(&self.slot_bytes) {
            return Err(PlanError::SlotBytes(self.slot_bytes));
        }
        if !self.arena_bytes.is_power_of_two()
            || !(BLOCK_BYTES_MIN..=ARENA_BYTES_MAX).contains(&self.arena_bytes)
        {
            return Err(PlanError::ArenaBytes(self.arena_bytes));
        }
        let region = self.region().bytes().map_err(PlanError::Region)?;
        let mut at = 0_usize;
        // At most 2^37 for a region and 2^31 for an arena: no sum can overflow.
        let mut next = |bytes: usize| {
            let start = at;
            at = (start + bytes).next_multiple_of(LINE);
            start..start + bytes
        };
        Ok(Parts {
            requests: next(region),
            answers: next(region),
            requests_arena: next(self.arena_bytes),
            answers_arena: next(self.arena_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_never_overlap() {
        let parts = Plan::default().parts().unwrap();
        let ranges = [&parts.requests, &parts.answers, &parts.requests_arena, &parts.answers_arena];
        for pair in ranges.windows(2) {
            assert!(pair[0].end <= pair[1].start && pair[1].start.is_multiple_of(LINE));
        }
        assert_eq!(parts.bytes(), parts.answers_arena.end);
    }

    #[test]
    fn a_plan_nobody_can_keep_is_refused_with_what_is_wrong() {
        let plan = Plan::default();
        for (wrong, word) in [
            (Plan { slots: 0, ..plan }, "slots"),
            (Plan { slots: 100, ..plan }, "slots"),
            (Plan { slots: 1 << 20, ..plan }, "slots"),
            (Plan { slot_bytes: 64, ..plan }, "slot_bytes"),
            (Plan { slot_bytes: 100, ..plan }, "slot_bytes"),
            (Plan { slot_bytes: u32::MAX, ..plan }, "slot_bytes"),
            (Plan { arena_bytes: 0, ..plan }, "arena_bytes"),
            (Plan { arena_bytes: 1000, ..plan }, "arena_bytes"),
            (Plan { arena_bytes: 1 << 40, ..plan }, "arena_bytes"),
        ] {
            assert!(wrong.parts().unwrap_err().to_string().starts_with(word), "{wrong:?}");
        }
        assert!(Plan { slots: 65_536, slot_bytes: 1 << 20, arena_bytes: 1 << 31 }.parts().is_ok());
    }
}
