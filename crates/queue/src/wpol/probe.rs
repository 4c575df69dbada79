//! Looking into a region and spoiling it, word by word: for tests and for people with a broken region.
//!
//! A word that peers change must be touched with its own width, or two atomic accesses of different widths race. So
//! a probe is told what the region is, takes the list of its words from the layout, and reads and writes by that
//! list. Bytes that no table names are nobody's, and are read as words.
//!
//! Not here: opening a region for use (`v1.rs`, `v2_region.rs`).

use super::error::RegionError;
use super::memory::Memory;
use super::v1::check_length;
use super::v2_geometry::{Config, Geometry};
use crate::sync::Ordering::Relaxed;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A view of a region that sees and changes every word of it, without the protocol.
#[derive(Debug)]
pub struct Probe {
    memory: Arc<Memory>,
    /// Width of the word at each offset that has one.
    words: BTreeMap<usize, usize>,
    bytes: usize,
}

impl Probe {
    /// Of a version 1 region of this capacity.
    pub fn version_1(memory: Arc<Memory>, capacity: u32) -> Result<Self, RegionError> {
        let bytes = super::v1::Queue::bytes_for(capacity)?;
        check_length(&memory, bytes as u64)?;
        Ok(Self { memory, words: super::v1::words(capacity).collect(), bytes })
    }

    /// Of a version 2 region made for this.
    pub fn version_2(memory: Arc<Memory>, config: Config) -> Result<Self, RegionError> {
        let geometry = Geometry::new(config)?;
        check_length(&memory, geometry.total as u64)?;
        Ok(Self { memory, words: geometry.words().into_iter().collect(), bytes: geometry.total })
    }

    /// The memory, to open the region once more.
    pub fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    /// A copy of the region. Peers may change it meanwhile, so its words need not be of one moment.
    pub fn to_bytes(&self) -> Vec<u8> {
        (0..self.bytes).step_by(8).flat_map(|at| self.read(at).to_le_bytes()).collect()
    }

    /// The eight bytes at a multiple of 8, as one word or as two.
    pub fn read(&self, at: usize) -> u64 {
        let half = |at: usize| u64::from(self.memory.u32_at(at).load(Relaxed));
        match self.words.get(&at) {
            Some(8) => self.memory.u64_at(at).load(Relaxed),
            _ => half(at) | half(at + 4) << 32,
        }
    }

    /// Overwrites the eight bytes at a multiple of 8, as only a hostile peer would.
    pub fn overwrite(&self, at: usize, value: u64) {
        match self.words.get(&at) {
            Some(8) => self.memory.u64_at(at).store(value, Relaxed),
            _ => {
                self.memory.u32_at(at).store(value as u32, Relaxed);
                self.memory.u32_at(at + 4).store((value >> 32) as u32, Relaxed);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_overwritten_reads_back_whatever_its_width() {
        let config = Config { slots: 2, lane_capacity: 64, ..Config::default() };
        let bytes = config.bytes().unwrap();
        let probe = Probe::version_2(Arc::new(Memory::heap(bytes).unwrap()), config).unwrap();
        for at in (0..bytes).step_by(8) {
            probe.overwrite(at, at as u64 | (at as u64) << 33);
        }
        assert!((0..bytes).step_by(8).all(|at| probe.read(at) == (at as u64 | (at as u64) << 33)));
        assert_eq!(probe.to_bytes().len(), bytes);
        assert!(Probe::version_1(Arc::new(Memory::heap(64).unwrap()), 4).is_err());
    }
}
