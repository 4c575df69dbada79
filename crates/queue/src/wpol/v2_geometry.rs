//! Where everything in a region of version 2 lies: from five numbers to every offset, and back from a header.
//!
//! No offset is stored. Creator and attacher compute all of them from the counts, with checked arithmetic, and the
//! attacher compares the total with the memory it was given. A header is read once, word by word, into private
//! memory; what is checked is the copy, and the copy is all that is used afterwards. So a peer may overwrite the
//! header at any time without moving a single access of ours.
//!
//! Not here: the names of the fields (`layout.rs`), the life of a region (`v2_region.rs`).

use super::crc32c::crc32c;
use super::error::RegionError;
use super::layout::{
    self, V2_LANE_LOG2_MAX, V2_LANES_MAX, V2_RECORDS_MAX, V2_SLOTS_MAX, V2_STRIDE_MAX, v2_control,
    v2_header as header, v2_record, v2_slot,
};
use super::memory::Memory;
use super::v2_ring::Ring;
use crate::sync::Ordering::Relaxed;
use alloc::vec::Vec;

/// What a region is made for. Every number is a limit that is never passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Lanes, 1 to 8; lane 0 is served first most often.
    pub lanes: u32,
    /// Places per lane, a power of two from 64 to 2^25. The 64 keeps a stalled peer from meeting a sequence number
    /// that has come round again.
    pub lane_capacity: u32,
    /// Tasks that can be queued, running or waiting to be fetched at one time, 1 to 2^25.
    pub slots: u32,
    /// Bytes per slot, a multiple of 64 up to 2^20; payload and result share all but the first 64.
    pub slot_stride: u32,
    /// Peers that can be attached at one time, 1 to 65535.
    pub attach_records: u32,
    /// A random number that tells this region from others; not 0.
    pub segment: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { lanes: 1, lane_capacity: 1024, slots: 1024, slot_stride: 256, attach_records: 64, segment: 1 }
    }
}

impl Config {
    /// Bytes a region of this configuration takes.
    pub fn bytes(&self) -> Result<usize, RegionError> {
        Geometry::new(*self).map(|geometry| geometry.total)
    }
}

/// The smallest lane. Models need rings they can go around.
const LANE_CAPACITY_MIN: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };
pub(super) const VERSION: u32 = 2;
const LINE: u64 = 128;

/// A checked configuration with every offset, private to this process.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) config: Config,
    /// Ring 0 lists free slots, ring 1 + n is lane n.
    rings: [Ring; 1 + V2_LANES_MAX as usize],
    records: usize,
    slots: usize,
    pub(super) total: usize,
}

impl Geometry {
    pub(super) fn new(config: Config) -> Result<Self, RegionError> {
        check(&config)?;
        let mut at = header::BYTES as u64 + v2_control::BYTES as u64 * u64::from(1 + config.lanes);
        let records = at.next_multiple_of(LINE);
        at = records + v2_record::BYTES as u64 * u64::from(config.attach_records);
        let mut rings = [Ring::default(); 1 + V2_LANES_MAX as usize];
        let places = (2 * config.slots).next_power_of_two().max(LANE_CAPACITY_MIN);
        for index in 0..=config.lanes {
            let capacity = if index == 0 { places } else { config.lane_capacity };
            let entries = at.next_multiple_of(LINE);
            at = entries + 8 * u64::from(capacity);
            let control = header::BYTES + v2_control::BYTES * index as usize;
            rings[index as usize] = Ring::new(control, to_usize(entries)?, capacity.ilog2());
        }
        let slots = at.next_multiple_of(LINE);
        let total = slots + u64::from(config.slot_stride) * u64::from(config.slots);
        // Every sum above stays below 2^46: counts are at most 2^26 and strides at most 2^20.
        Ok(Self {
            config,
            rings,
            records: to_usize(records)?,
            slots: to_usize(slots)?,
            total: to_usize(total)?,
        })
    }

    /// Reads and checks a header. `life` has been seen to be past "building" by the caller.
    pub(super) fn read(memory: &Memory) -> Result<Self, RegionError> {
        let words: [u32; 16] = core::array::from_fn(|index| match index * 4 {
            // Double words are read as such, the other half of a pair with its first.
            at if at == header::TOTAL || at == header::SEGMENT => memory.u64_at(at).load(Relaxed) as u32,
            at if at == header::TOTAL + 4 || at == header::SEGMENT + 4 => {
                (memory.u64_at(at - 4).load(Relaxed) >> 32) as u32
            }
            at if at <= header::CHECKSUM => memory.u32_at(at).load(Relaxed),
            _ => 0,
        });
        let word = |at: usize| words[at / 4];
        let double = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if word(header::MAGIC) != layout::MAGIC {
            return Err(RegionError::InvalidMagic { found: word(header::MAGIC) });
        }
        if word(header::VERSION) != VERSION {
            return Err(RegionError::VersionMismatch { expected: VERSION, found: word(header::VERSION) });
        }
        let checksum = checksum(&words);
        if word(header::CHECKSUM) != checksum {
            return Err(RegionError::BadChecksum { expected: checksum, found: word(header::CHECKSUM) });
        }
        expect(
            "header bytes",
            "256",
            word(header::HEADER_BYTES) == header::BYTES as u32,
            word(header::HEADER_BYTES),
        )?;
        expect("incompatible features", "0", word(header::INCOMPATIBLE) == 0, word(header::INCOMPATIBLE))?;
        let (lanes, log2) = (word(header::LANES) & 0xFFFF, word(header::LANES) >> 16);
        expect("log2 of lane capacity", "at most 25", log2 <= V2_LANE_LOG2_MAX, log2)?;
        let geometry = Self::new(Config {
            lanes,
            lane_capacity: 1 << log2,
            slots: word(header::SLOTS),
            slot_stride: word(header::STRIDE),
            attach_records: word(header::RECORDS),
            segment: double(header::SEGMENT),
        })?;
        if double(header::TOTAL) != geometry.total as u64 {
            let expected = "the total that the counts add up to";
            return Err(RegionError::BadField {
                field: "total bytes",
                expected,
                found: double(header::TOTAL),
            });
        }
        super::v1::check_length(memory, geometry.total as u64)?;
        Ok(geometry)
    }

    /// Writes the header of a region that is being built, all but the magic number, which its caller writes last.
    pub(super) fn write(&self, memory: &Memory) {
        let mut words = [0; 16];
        words[header::MAGIC / 4] = layout::MAGIC;
        words[header::VERSION / 4] = VERSION;
        words[header::HEADER_BYTES / 4] = header::BYTES as u32;
        words[header::LANES / 4] = self.config.lanes | self.config.lane_capacity.ilog2() << 16;
        words[header::SLOTS / 4] = self.config.slots;
        words[header::STRIDE / 4] = self.config.slot_stride;
        words[header::TOTAL / 4] = self.total as u32;
        words[header::TOTAL / 4 + 1] = (self.total as u64 >> 32) as u32;
        words[header::SEGMENT / 4] = self.config.segment as u32;
        words[header::SEGMENT / 4 + 1] = (self.config.segment >> 32) as u32;
        words[header::RECORDS / 4] = self.config.attach_records;
        words[header::CHECKSUM / 4] = checksum(&words);
        for (index, word) in words.into_iter().enumerate() {
            match index * 4 {
                at if at == header::TOTAL => memory.u64_at(at).store(self.total as u64, Relaxed),
                at if at == header::SEGMENT => memory.u64_at(at).store(self.config.segment, Relaxed),
                at if at == header::TOTAL + 4 || at == header::SEGMENT + 4 || at > header::CHECKSUM => {}
                header::MAGIC => {}
                at => memory.u32_at(at).store(word, Relaxed),
            }
        }
    }

    /// The ring of free slots.
    pub(super) fn free_ring(&self) -> Ring {
        self.rings[0]
    }

    /// The ring of a lane, if there is such a lane.
    pub(super) fn lane(&self, lane: u32) -> Option<Ring> {
        (lane < self.config.lanes).then(|| self.rings[1 + lane as usize])
    }

    /// The lane whose item words all lanes share. There is always one.
    pub(super) fn first_lane(&self) -> Ring {
        self.rings[1]
    }

    /// The free ring and every lane.
    pub(super) fn rings(&self) -> &[Ring] {
        &self.rings[..=self.config.lanes as usize]
    }

    /// Offset of a slot, if there is such a slot. Every index that comes out of shared memory passes here.
    #[inline]
    pub(super) fn slot(&self, index: u32) -> Option<usize> {
        (index < self.config.slots).then(|| self.slots + index as usize * self.config.slot_stride as usize)
    }

    /// Offset of an attach record, if there is such a record.
    pub(super) fn record(&self, index: u32) -> Option<usize> {
        (index < self.config.attach_records).then(|| self.records + index as usize * v2_record::BYTES)
    }

    /// Every word of the region: (offset, width).
    pub(super) fn words(&self) -> Vec<(usize, usize)> {
        let mut words: Vec<_> = layout::words(&layout::V2_HEADER, 0, header::BYTES).collect();
        for ring in self.rings() {
            words.extend(ring.words());
        }
        for base in (0..).map_while(|index| self.record(index)) {
            words.extend(layout::words(&layout::V2_RECORD, base, v2_record::BYTES));
        }
        for base in (0..).map_while(|index| self.slot(index)) {
            words.extend(layout::words(&layout::V2_SLOT, base, v2_slot::BYTES));
            let payload = v2_slot::BYTES..self.config.slot_stride as usize;
            words.extend(payload.step_by(8).map(|at| (base + at, 8)));
        }
        words
    }

    /// Bytes of payload and result together.
    pub(super) fn payload_bytes_max(&self) -> usize {
        self.config.slot_stride as usize - v2_slot::BYTES
    }
}

fn check(config: &Config) -> Result<(), RegionError> {
    let Config { lanes, lane_capacity, slots, slot_stride, attach_records, segment } = *config;
    let fits = lane_capacity.is_power_of_two()
        && (LANE_CAPACITY_MIN..=1 << V2_LANE_LOG2_MAX).contains(&lane_capacity);
    let strides = slot_stride.is_multiple_of(64) && (64..=V2_STRIDE_MAX).contains(&slot_stride);
    expect("lanes", "1 to 8", (1..=V2_LANES_MAX).contains(&lanes), lanes)?;
    expect("lane capacity", "a power of two from 64 to 33554432", fits, lane_capacity)?;
    expect("slots", "1 to 33554432", (1..=V2_SLOTS_MAX).contains(&slots), slots)?;
    expect("slot stride", "a multiple of 64 from 64 to 1048576", strides, slot_stride)?;
    expect("attach records", "1 to 65535", (1..=V2_RECORDS_MAX).contains(&attach_records), attach_records)?;
    expect("segment id", "not 0", segment != 0, 0)
}

fn expect(field: &'static str, expected: &'static str, holds: bool, found: u32) -> Result<(), RegionError> {
    if holds { Ok(()) } else { Err(RegionError::BadField { field, expected, found: found.into() }) }
}

fn to_usize(bytes: u64) -> Result<usize, RegionError> {
    let expected = "what this machine can address";
    let refusal = RegionError::BadField { field: "total bytes", expected, found: bytes };
    usize::try_from(bytes).ok().filter(|bytes| *bytes <= isize::MAX as usize).ok_or(refusal)
}

/// Of everything before the checksum field.
fn checksum(words: &[u32; 16]) -> u32 {
    words[..header::CHECKSUM / 4].iter().fold(0, |checksum, word| crc32c(checksum, &word.to_le_bytes()))
}

/// A zeroed model region for this configuration.
#[cfg(all(test, any(loom, shuttle)))]
pub(super) fn model_memory(config: Config) -> Memory {
    let geometry = Geometry::new(config).unwrap();
    Memory::model(geometry.words(), geometry.total)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_written_header_reads_back_as_the_same_configuration() {
        let config = Config {
            lanes: 8,
            lane_capacity: 64,
            slots: 5,
            slot_stride: 128,
            attach_records: 3,
            segment: 7 << 40,
        };
        let geometry = Geometry::new(config).unwrap();
        let memory = Memory::heap(geometry.total).unwrap();
        geometry.write(&memory);
        memory.u32_at(header::MAGIC).store(layout::MAGIC, Relaxed);
        let read = Geometry::read(&memory).unwrap();
        assert_eq!(read.config, config);
        assert_eq!(read.total, geometry.total);
    }

    #[test]
    fn parts_do_not_overlap_and_start_on_their_own_lines() {
        for (lanes, slots) in [(1, 1), (3, 33), (8, 1000)] {
            let geometry =
                Geometry::new(Config { lanes, slots, attach_records: 5, ..Config::default() }).unwrap();
            let mut end = geometry.record(4).unwrap() + v2_record::BYTES;
            for ring in geometry.rings() {
                assert!(ring.entries() >= end && ring.entries().is_multiple_of(128));
                end = ring.entries() + 8 * ring.capacity() as usize;
            }
            assert!(geometry.slot(0).unwrap() >= end);
            assert_eq!(geometry.slot(slots), None);
            assert_eq!(geometry.record(5), None);
            assert!(geometry.free_ring().capacity() >= 2 * slots);
        }
    }

    #[test]
    fn every_number_out_of_range_is_named() {
        let good = Config::default();
        let bad = [
            (Config { lanes: 0, ..good }, "lanes"),
            (Config { lanes: 9, ..good }, "lanes"),
            (Config { lane_capacity: 32, ..good }, "lane capacity"),
            (Config { lane_capacity: 100, ..good }, "lane capacity"),
            (Config { lane_capacity: 1 << 26, ..good }, "lane capacity"),
            (Config { slots: 0, ..good }, "slots"),
            (Config { slots: u32::MAX, ..good }, "slots"),
            (Config { slot_stride: 0, ..good }, "slot stride"),
            (Config { slot_stride: 100, ..good }, "slot stride"),
            (Config { attach_records: 0, ..good }, "attach records"),
            (Config { attach_records: 65_536, ..good }, "attach records"),
            (Config { segment: 0, ..good }, "segment id"),
        ];
        for (config, name) in bad {
            assert!(
                matches!(config.bytes(), Err(RegionError::BadField { field, .. }) if field == name),
                "{name}"
            );
        }
    }
}
