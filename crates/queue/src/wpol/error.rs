//! What can be refused, by which operation, and in which words.
//!
//! One enum per operation. Each has a sentence for people and a stable code for programs, and the table of
//! `docs/WPOL.md` is printed from the same lists. Answers that say nothing about the queue's level (`Busy`,
//! `Contended`) are kept apart from those that do (`Full`, `Empty`): a caller that mixes them up drops an item or
//! sleeps beside one.

use core::fmt;

/// One row of the error table in the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The operation's enum.
    pub operation: &'static str,
    /// The stable code.
    pub code: &'static str,
    /// The sentence for people, without numbers.
    pub meaning: &'static str,
}

macro_rules! refusal {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = $text] $variant,)*
        }

        impl $name {
            /// Every refusal of this operation, for the documentation.
            pub const ROWS: &[Row] =
                &[$(Row { operation: stringify!($name), code: $code, meaning: $text },)*];

            /// The stable code, for programs.
            pub fn code(&self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $(Self::$variant => $text,)* })
            }
        }

        impl core::error::Error for $name {}
    };
}

refusal! {
    /// Why version 1 did not take an entry.
    PushError {
        Full = "full", "queue is full: every place is taken; pop first or use a larger capacity";
        Busy = "busy", "the next place is still being cleared by a consumer; try again";
        BadSlot = "bad_slot", "slot index is not below the capacity; push what `allocate` returned";
        Unrepresentable = "unrepresentable", "priority 0 with slot 0 means empty in this region; use another priority";
        Contended = "contended", "gave way to other producers too often; try again";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why version 1 gave no entry.
    PopError {
        Empty = "empty", "queue is empty";
        Busy = "busy", "the next entry is claimed but not yet written by its producer; try again";
        Contended = "contended", "gave way to other consumers too often; try again";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why version 1 gave no slot.
    AllocateError {
        NoFreeSlot = "no_free_slot", "every slot is taken; release one first";
        Contended = "contended", "gave way to others too often; try again";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why a reference to a slot of version 1 was neither added nor given back.
    ReferenceError {
        BadSlot = "bad_slot", "slot index is not below the capacity";
        NotAllocated = "not_allocated", "slot is free: it was released more often than retained";
        TooMany = "too_many_references", "slot has as many references as its counter holds";
        Contended = "contended", "gave way to others too often; try again";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why version 2 did not take a task. Nothing is left behind: trying costs nothing.
    SubmitError {
        NoSlot = "no_free_slot", "every slot is taken; release a ticket or wait for room";
        LaneFull = "full", "lane is full; wait for room or use another lane";
        BadLane = "bad_lane", "lane number is not below the number of lanes";
        TooLong = "payload_too_long", "payload is longer than a slot holds; use a larger slot stride";
        Closed = "closed", "region is closed: it takes no more tasks";
        Contended = "contended", "gave way to others too often; try again";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why version 2 gave no task to run.
    StartError {
        Empty = "empty", "no lane holds a task";
        Contended = "contended", "gave way to others too often; try again";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why a result was not stored.
    FinishError {
        TooLong = "result_too_long", "result is longer than what the payload leaves of its slot; the task failed";
        GivenAway = "given_away", "this worker was taken for dead and its task given away; the result is dropped";
    }
}

refusal! {
    /// Why a ticket could not be used.
    TicketError {
        Gone = "gone", "ticket's slot serves another task now: it was released or its submitter was taken for dead";
        NotFinal = "not_final", "task is still queued or running; cancel it, wait for it or detach";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

refusal! {
    /// Why a sweep was not made.
    SweepError {
        AnotherReaper = "another_reaper", "another live peer holds the reaper role";
        Poisoned = "poisoned", "region holds values no peer may write; detach and build a new one";
    }
}

/// Why memory is not a region, or cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionError {
    /// The allocator refused.
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
    },
    /// The first byte is not where words may be.
    Misaligned {
        /// The address modulo the alignment.
        remainder: usize,
        /// Whether there was no address at all.
        null: bool,
    },
    /// The memory ends before the region does.
    Truncated {
        /// What the header or the configuration asks for.
        expected: u64,
        /// What there is.
        found: usize,
    },
    /// No region was ever completed here.
    InvalidMagic {
        /// The word in its place.
        found: u32,
    },
    /// A region of another layout.
    VersionMismatch {
        /// What this code reads.
        expected: u32,
        /// What the header says.
        found: u32,
    },
    /// A number in the header or the configuration that no valid region has.
    BadField {
        /// Which one.
        field: &'static str,
        /// What would be valid.
        expected: &'static str,
        /// What came.
        found: u64,
    },
    /// The header was damaged after it was written.
    BadChecksum {
        /// Computed from the header.
        expected: u32,
        /// Stored in the header.
        found: u32,
    },
    /// The memory holds a region already.
    AlreadyThere,
    /// The region exists, but cannot be used now.
    NotReady {
        /// The life word: 1 building, 4 poisoned.
        life: u32,
    },
    /// Every attach record is taken.
    NoRecord {
        /// How many there are.
        records: u32,
    },
}

impl RegionError {
    /// Every refusal, for the documentation.
    pub const ROWS: &[Row] = &[
        row("out_of_memory", "the allocator refused"),
        row("misaligned", "the memory does not start at a multiple of 8"),
        row("truncated", "the memory ends before the region does"),
        row("invalid_magic", "no region was ever completed here"),
        row("version_mismatch", "a region of another layout"),
        row("bad_field", "a number in the header or configuration is out of range"),
        row("bad_checksum", "the header was damaged after it was written"),
        row("already_there", "the memory holds a region already"),
        row("not_ready", "the region is still being built, or is poisoned"),
        row("no_record", "every attach record is taken"),
    ];

    /// The stable code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::Misaligned { .. } => "misaligned",
            Self::Truncated { .. } => "truncated",
            Self::InvalidMagic { .. } => "invalid_magic",
            Self::VersionMismatch { .. } => "version_mismatch",
            Self::BadField { .. } => "bad_field",
            Self::BadChecksum { .. } => "bad_checksum",
            Self::AlreadyThere => "already_there",
            Self::NotReady { .. } => "not_ready",
            Self::NoRecord { .. } => "no_record",
        }
    }
}

const fn row(code: &'static str, meaning: &'static str) -> Row {
    Row { operation: "RegionError", code, meaning }
}

impl fmt::Display for RegionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { bytes } => {
                write!(formatter, "region: {bytes} bytes could not be allocated; use fewer or smaller slots")
            }
            Self::Misaligned { null: true, .. } => {
                formatter.write_str("region: expected an address, got null; map the memory first")
            }
            Self::Misaligned { remainder, .. } => write!(
                formatter,
                "region: expected an address divisible by 8, got one that leaves {remainder}; move the region"
            ),
            Self::Truncated { expected, found } => write!(
                formatter,
                "region: expected {expected} bytes, got {found}; map all of it or create it anew"
            ),
            Self::InvalidMagic { found } => write!(
                formatter,
                "region: expected magic 0x57504f4c, got {found:#010x}; create the region before attaching"
            ),
            Self::VersionMismatch { expected, found } => write!(
                formatter,
                "region: layout {found}, this call reads {expected}; start both sides from one release"
            ),
            Self::BadField { field, expected, found } => {
                write!(formatter, "region: {field}: expected {expected}, got {found}")
            }
            Self::BadChecksum { expected, found } => write!(
                formatter,
                "region: header checksum: expected {expected:#010x}, got {found:#010x}; create the region anew"
            ),
            Self::AlreadyThere => formatter.write_str(
                "region: expected blank memory, got a region in use; attach to it or zero the memory first",
            ),
            Self::NotReady { life } => write!(
                formatter,
                "region: expected life 2 (ready), got {life}; 1 means wait for its creator, 4 means build a new one"
            ),
            Self::NoRecord { records } => write!(
                formatter,
                "region: all {records} attach records are taken; raise attach_records or sweep the dead"
            ),
        }
    }
}

impl core::error::Error for RegionError {}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn messages_are_lower_case_and_have_no_full_stop() {
        let tables = [
            PushError::ROWS,
            PopError::ROWS,
            AllocateError::ROWS,
            ReferenceError::ROWS,
            SubmitError::ROWS,
            StartError::ROWS,
            FinishError::ROWS,
            TicketError::ROWS,
            SweepError::ROWS,
            RegionError::ROWS,
        ];
        for row in tables.concat() {
            assert!(!row.meaning.starts_with(char::is_uppercase), "{}", row.meaning);
            assert!(!row.meaning.ends_with('.'), "{}", row.meaning);
        }
        let field = RegionError::BadField { field: "capacity", expected: "a power of two", found: 3 };
        assert_eq!(field.to_string(), "region: capacity: expected a power of two, got 3");
    }
}
