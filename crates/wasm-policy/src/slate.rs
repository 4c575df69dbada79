//! The slate: bytes that JavaScript and this module both write on, for whatever is not a single number.
//!
//! JavaScript asks where it is, writes a key or a row of numbers, and calls; a row that comes back stands there
//! afterwards, until the next call. It grows when a longer key comes, up to a limit, and then moves: so JavaScript
//! asks before it writes something long.

use crate::brain;
use alloc::vec::Vec;

/// The slate's first size, in bytes: enough for every row of numbers but weights.
const BYTES_MIN: usize = 4096;
/// The most it grows to: the longest key of a task, or as many weights as there may be workers.
pub(crate) const BYTES_MAX: usize = 65_536;

/// Bytes for both sides.
#[derive(Debug, Default)]
pub(crate) struct Slate(Vec<u8>);

impl Slate {
    /// Makes room for so many bytes; false if that is too much.
    fn reserve(&mut self, bytes: usize) -> bool {
        let wanted = bytes.max(BYTES_MIN);
        if wanted > BYTES_MAX || (wanted > self.0.len() && !brain::has_room(wanted)) {
            return false;
        }
        if wanted > self.0.len() {
            // What stands there is not kept: whoever asks is about to write.
            self.0 = alloc::vec![0; wanted.next_power_of_two()];
        }
        true
    }

    /// The first bytes, as many of them as there are.
    pub(crate) fn bytes(&self, len: u32) -> &[u8] {
        &self.0[..self.0.len().min(len as usize)]
    }

    /// The number of 64 bits at a place, counted in numbers; 0 beyond the end.
    #[inline(never)]
    pub(crate) fn read(&self, at: usize) -> u64 {
        let bytes = self.0.get(at * 8..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The number in floating point at a place, counted in numbers; 0 beyond the end.
    pub(crate) fn float(&self, at: usize) -> f64 {
        f64::from_bits(self.read(at))
    }

    /// Writes a number of 64 bits at a place, counted in numbers.
    #[inline(never)]
    pub(crate) fn put(&mut self, at: usize, number: u64) {
        self.0[at * 8..][..8].copy_from_slice(&number.to_le_bytes());
    }

    /// Writes numbers of 64 bits, one behind the other from the beginning.
    pub(crate) fn put_all(&mut self, numbers: &[u64]) {
        for (at, number) in numbers.iter().enumerate() {
            self.put(at, *number);
        }
    }
}

/// Where the slate is, with room for so many bytes; 0 if that is more than 65 536 or than there is memory for.
/// It stays there until more room is asked for.
#[unsafe(no_mangle)]
pub extern "C" fn slate_at(bytes: u32) -> usize {
    brain::with(|brain| if brain.slate.reserve(bytes as usize) { brain.slate.0.as_ptr() as usize } else { 0 })
}

/// The release of these functions: JavaScript refuses a module of another.
#[unsafe(no_mangle)]
pub extern "C" fn version() -> u32 {
    1
}

#[cfg(test)]
impl Slate {
    /// Writes a number in floating point at a place, counted in numbers.
    pub(crate) fn put_float(&mut self, at: usize, number: f64) {
        self.put(at, number.to_bits());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> u32 {
        assert!(self.reserve(bytes.len()));
        self.0[..bytes.len()].copy_from_slice(bytes);
        bytes.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slate_has_a_limit_and_stays_where_it_is_until_it_must_grow() {
        let first = slate_at(0);
        assert_ne!(first, 0);
        assert_eq!(slate_at(BYTES_MIN as u32), first);
        assert_ne!(slate_at(BYTES_MAX as u32), 0);
        assert_eq!(slate_at(BYTES_MAX as u32 + 1), 0);
    }

    #[test]
    fn numbers_stand_where_they_were_written() {
        let mut slate = Slate::default();
        assert!(slate.reserve(0));
        slate.put(2, u64::MAX);
        slate.put_float(3, 1.5);
        assert_eq!((slate.read(2), slate.float(3), slate.float(4)), (u64::MAX, 1.5, 0.0));
    }
}
