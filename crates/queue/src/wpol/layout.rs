//! Where every field of a region lies: the one table for both versions.
//!
//! The code takes its offsets from the constants here, `docs/WPOL.md` and the TypeScript constants are printed from
//! the same rows, and the compiler checks that no two fields overlap, that each is aligned, and that version 1
//! agrees with its specification. Words are little-endian; bytes no row names are zero.
//!
//! ```text
//! version 1                              version 2
//! 0    header            64 bytes        0x000  header                         0x100 bytes
//! 64   entries           capacity x 8    0x100  control blocks: free ring, lanes   0x180 each
//!      slots             capacity x 64   A      attach records                      0x40 each
//!                                        B      entries of ring 0, 1, ...              8 each
//!                                        C      slots                             stride each
//! ```
//!
//! Not here: what the fields are for at run time (`v1_*.rs`, `v2_*.rs`), where A, B and C fall (`v2_geometry.rs`),
//! the text around the tables (`page.rs`).

pub use super::page::markdown;

/// "WPOL", read as a little-endian word. The bytes in memory are therefore `4C 4F 50 57`.
pub const MAGIC: u32 = 0x5750_4F4C;

/// How wide a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two bytes; read and written together with its neighbour as one `U32`.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
    /// Payload bytes up to the end of the structure.
    Bytes,
}

impl Kind {
    /// Bytes of one field; `None` for payload, which ends with its structure.
    pub const fn bytes(self) -> Option<usize> {
        match self {
            Self::U16 => Some(2),
            Self::U32 => Some(4),
            Self::U64 => Some(8),
            Self::Bytes => None,
        }
    }
}

/// One field: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its constant, as in `v1_header::HEAD`.
    pub name: &'static str,
    /// From the start of its structure.
    pub offset: usize,
    /// Its width.
    pub kind: Kind,
    /// What it says, and who may change it.
    pub meaning: &'static str,
}

/// A run of bytes with named fields.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// Its module, as in `v1_header`.
    pub name: &'static str,
    /// Its size; for a slot of version 2 the smallest stride.
    pub bytes: usize,
    /// Its fields, by offset.
    pub fields: &'static [Field],
}

macro_rules! structure {
    ($(#[$doc:meta])* $table:ident = $module:ident, $bytes:literal bytes {
        $($name:ident: $kind:ident @ $offset:literal, $meaning:literal;)*
    }) => {
        $(#[$doc])*
        pub mod $module {
            $(#[doc = $meaning] pub const $name: usize = $offset;)*
            /// Bytes of the whole structure.
            pub const BYTES: usize = $bytes;
        }

        $(#[$doc])*
        pub const $table: Structure = Structure {
            name: stringify!($module),
            bytes: $bytes,
            fields: &[$(Field {
                name: stringify!($name),
                offset: $offset,
                kind: Kind::$kind,
                meaning: $meaning,
            },)*],
        };
        const _: () = assert!(is_sound(&$table), "fields overlap, are misaligned or leave their structure");
    };
}

structure! {
    /// Header of version 1.
    V1_HEADER = v1_header, 64 bytes {
        MAGIC: U32 @ 0, "magic number 0x57504F4C, written last";
        VERSION: U32 @ 4, "version, 1";
        HEAD: U64 @ 8, "position of the next pop, only grows; consumers";
        TAIL: U64 @ 16, "position of the next push, only grows; producers";
        CAPACITY: U32 @ 24, "places in the ring and number of slots, a power of two up to 2^25";
        MASK: U32 @ 28, "capacity - 1";
        ALLOCATED: U32 @ 32, "slots taken, approximate";
        FEATURES: U32 @ 36, "feature bits: 1 tagged free list, 2 slot 0 is never free, 8 escaped zero entry";
        SLOTS_BASE: U32 @ 40, "offset, not an address: of the first slot from the region's start, 64 + 8 x capacity";
        POISON: U32 @ 44, "not 0 once a peer found values nobody may write";
        FREE_LIST: U64 @ 48, "low half: first free slot or 0xFFFFFFFF; high half: tag, +1 by every change";
        SEGMENT: U64 @ 56, "segment id, 0 when unused";
    }
}

structure! {
    /// Task slot of version 1.
    V1_SLOT = v1_slot, 64 bytes {
        STATE: U32 @ 0, "0 free, 1 allocated";
        NEXT: U32 @ 4, "free: next free slot or 0xFFFFFFFF; allocated: task id of the owner's";
        PRIORITY: U32 @ 8, "priority, the owner's";
        GENERATION: U32 @ 12, "+1 by every allocation";
        TIMESTAMP: U64 @ 16, "time stamp, the owner's";
        METHOD: U32 @ 24, "method id, the owner's";
        REFERENCES: U32 @ 28, "references; the decrement to 0 frees the slot";
        OWNER: U64 @ 32, "reserved for an owner word, 0";
        DEADLINE: U64 @ 40, "deadline, the owner's, 0 for none";
        PAYLOAD: Bytes @ 48, "inline payload, 16 bytes";
    }
}

structure! {
    /// Header of version 2.
    V2_HEADER = v2_header, 0x100 bytes {
        MAGIC: U32 @ 0x00, "magic number 0x57504F4C";
        VERSION: U32 @ 0x04, "version, 2";
        HEADER_BYTES: U32 @ 0x08, "bytes of this header, 0x100";
        INCOMPATIBLE: U32 @ 0x0C, "feature bits an attacher must know, 0";
        COMPATIBLE: U32 @ 0x10, "feature bits an attacher may ignore, 0";
        LANES: U16 @ 0x14, "lanes, 1 to 8";
        LANE_LOG2: U16 @ 0x16, "log2 of a lane's capacity, up to 25";
        SLOTS: U32 @ 0x18, "number of slots, up to 2^25";
        STRIDE: U32 @ 0x1C, "bytes from slot to slot, a multiple of 64";
        TOTAL: U64 @ 0x20, "bytes of the whole region";
        SEGMENT: U64 @ 0x28, "segment id, not 0";
        RECORDS: U32 @ 0x30, "attach records, 1 to 65535";
        RESERVED: U32 @ 0x34, "0";
        CHECKSUM: U32 @ 0x38, "CRC-32C of bytes 0x00 to 0x37";
        LIFE: U32 @ 0x40, "0 blank, 1 building, 2 ready, 3 closed, 4 poisoned";
        REAPER: U32 @ 0x44, "tag 31-16, +1 by every take; attach index + 1 of the peer that sweeps 15-0, 0 for none";
        SWEPT: U64 @ 0x48, "time of the last sweep, the reaper's clock";
        NEXT_TASK: U64 @ 0x80, "task ids given out so far; on a line of its own, since everybody looks at life";
    }
}

structure! {
    /// Control block of one ring of version 2. Each group of fields has 128 or 64 bytes to itself.
    V2_CONTROL = v2_control, 0x180 bytes {
        TAIL: U64 @ 0x000, "hint: no position before it can be filled any more; never ahead of the truth";
        HEAD: U64 @ 0x080, "hint: no position before it can be emptied any more; never ahead of the truth";
        ITEMS_EVENT: U32 @ 0x100, "wait word for items";
        ITEMS_WAITERS: U32 @ 0x104, "peers waiting for items, or more";
        SPACE_EVENT: U32 @ 0x140, "wait word for space";
        SPACE_WAITERS: U32 @ 0x144, "peers waiting for space, or more";
    }
}

structure! {
    /// Attach record of version 2: one per peer.
    V2_RECORD = v2_record, 0x40 bytes {
        STATE: U32 @ 0x00, "epoch 31-8, +1 by every attach; state 7-0: 0 free, 1 live, 2 being reaped";
        PID: U32 @ 0x04, "process id, for people and not for decisions";
        STARTED: U64 @ 0x08, "start time of the process";
        HEARTBEAT: U64 @ 0x18, "last sign of life, monotonic nanoseconds";
        UID: U32 @ 0x20, "user id";
        WAITING: U32 @ 0x24, "1 while the peer is counted in some waiter count";
    }
}

structure! {
    /// Task slot of version 2. The payload starts at +0x40, the result after it at the next multiple of 8.
    V2_SLOT = v2_slot, 0x40 bytes {
        STATE: U64 @ 0x00, "state word: generation 63-32, owner 31-16, attempts 15-8, state 7-0";
        TASK: U64 @ 0x08, "task id";
        PRIORITY: U32 @ 0x10, "priority, carried and not interpreted";
        METHOD: U32 @ 0x14, "method id";
        ENQUEUED: U64 @ 0x18, "time of submission, monotonic nanoseconds";
        DEADLINE: U64 @ 0x20, "latest start, 0 for none";
        RESULT_BYTES: U32 @ 0x28, "result length";
        PAYLOAD_BYTES: U32 @ 0x2C, "payload length";
        STATUS: U32 @ 0x30, "status code of the finished task";
        COMPLETION: U32 @ 0x34, "wait word: lane 7-0, bit 8 somebody may sleep on it, submitter 31-16 (0 nobody)";
        ATTACHMENT: U64 @ 0x38, "attachment, carried and not interpreted, 0 for none";
    }
}

/// Every structure of both versions, in the order of the documentation.
pub const STRUCTURES: &[&Structure] = &[&V1_HEADER, &V1_SLOT, &V2_HEADER, &V2_CONTROL, &V2_RECORD, &V2_SLOT];

/// Version 1: bytes of one ring entry.
pub const V1_ENTRY_BYTES: usize = 8;
/// Version 1: the largest capacity, so that every offset fits the `u32` of `SLOTS_BASE`.
pub const V1_CAPACITY_MAX: u32 = 1 << 25;
/// Version 1: the end of the free list.
pub const V1_NONE: u32 = u32::MAX;
/// Version 1: the entry that stands for priority 0 with slot 0, since the all-zero entry means "empty". Bit 31 of
/// the index half is never part of a real index.
pub const V1_ZERO_ENTRY: u64 = 0x0000_0000_8000_0000;
/// Version 1 feature bit: the free list is one `u64` with a tag.
pub const V1_FEATURE_TAGGED: u32 = 1;
/// Version 1 feature bit: slot 0 is never on the free list.
pub const V1_FEATURE_SLOT_0_RESERVED: u32 = 2;
/// Version 1 feature bit: [`V1_ZERO_ENTRY`] is in use.
pub const V1_FEATURE_ZERO_ENTRY: u32 = 8;

/// Version 2: the most lanes a region has.
pub const V2_LANES_MAX: u32 = 8;
/// Version 2: log2 of the largest lane.
pub const V2_LANE_LOG2_MAX: u32 = 25;
/// Version 2: the most slots.
pub const V2_SLOTS_MAX: u32 = 1 << 25;
/// Version 2: the most attach records; a record's index + 1 must fit 16 bits.
pub const V2_RECORDS_MAX: u32 = 65_535;
/// Version 2: the largest slot.
pub const V2_STRIDE_MAX: u32 = 1 << 20;

// Version 1 is somebody else's specification: these numbers are its, and a slip in the table stops the build.
const _: () = {
    use v1_header as header;
    use v1_slot as slot;
    assert!(header::MAGIC == 0 && header::VERSION == 4 && header::HEAD == 8 && header::TAIL == 16);
    assert!(header::CAPACITY == 24 && header::MASK == 28 && header::ALLOCATED == 32);
    assert!(header::SLOTS_BASE == 40 && header::FREE_LIST == 48 && header::BYTES == 64);
    assert!(slot::STATE == 0 && slot::NEXT == 4 && slot::PRIORITY == 8 && slot::TIMESTAMP == 16);
    assert!(slot::METHOD == 24 && slot::REFERENCES == 28 && slot::BYTES == 64);
    assert!(V1_ENTRY_BYTES == 8);
    // The largest region's last slot must still be addressable through a `u32` base.
    assert!(header::BYTES as u64 + (V1_CAPACITY_MAX as u64) * 72 < u32::MAX as u64);
};

// Version 2 keeps what different parties write on different lines.
const _: () = {
    assert!(v2_control::HEAD - v2_control::TAIL >= 128);
    assert!(v2_control::ITEMS_EVENT - v2_control::HEAD >= 128);
    assert!(v2_header::LIFE - v2_header::CHECKSUM >= 8 && v2_header::LIFE.is_multiple_of(64));
    assert!(v2_header::BYTES.is_multiple_of(128) && v2_control::BYTES.is_multiple_of(128));
};

/// Whether the fields are sorted, aligned, apart, and inside.
const fn is_sound(structure: &Structure) -> bool {
    let mut end = 0;
    let mut at = 0;
    while at < structure.fields.len() {
        let field = &structure.fields[at];
        let (bytes, alignment) = match field.kind.bytes() {
            Some(bytes) => (bytes, bytes),
            None => (structure.bytes - field.offset, 8),
        };
        if field.offset < end || !field.offset.is_multiple_of(alignment) {
            return false;
        }
        end = field.offset + bytes;
        at += 1;
    }
    end <= structure.bytes && structure.bytes.is_multiple_of(8)
}

/// The atomic words of one structure at `base`, of which `bytes` belong to it: (offset, width). Every access to them
/// has exactly this width, in the product as in a model region, which is made of this list.
pub(crate) fn words(
    structure: &Structure,
    base: usize,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize)> + use<> {
    structure.fields.iter().flat_map(move |field| {
        let (width, end) = match field.kind {
            // A pair of halves is one word.
            Kind::U16 if !field.offset.is_multiple_of(4) => (4, field.offset),
            Kind::U16 | Kind::U32 => (4, field.offset + 4),
            Kind::U64 => (8, field.offset + 8),
            Kind::Bytes => (8, bytes),
        };
        (field.offset..end).step_by(width).map(move |at| (base + at, width))
    })
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_a_misalignment_and_an_overhang_are_found() {
        const fn field(offset: usize, kind: Kind) -> Field {
            Field { name: "", offset, kind, meaning: "" }
        }
        const fn holds(fields: &'static [Field]) -> bool {
            is_sound(&Structure { name: "", bytes: 16, fields })
        }
        assert!(holds(&const { [field(0, Kind::U32), field(8, Kind::U64)] }));
        assert!(!holds(&const { [field(0, Kind::U64), field(4, Kind::U32)] }));
        assert!(!holds(&const { [field(4, Kind::U64)] }));
        assert!(!holds(&const { [field(16, Kind::U32)] }));
    }
}
