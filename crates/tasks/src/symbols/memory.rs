//! The bytes behind a region: what a region asks of its memory, and memory on the heap.
//!
//! A region checks bounds and rights before it gets here, so that every kind of memory is guarded alike and
//! none has to be trusted with the arithmetic. The heap keeps its bytes under a lock: whoever reads sees a
//! write whole or not at all.
//!
//! Not here: names and rights (`symbols.rs`), memory of other languages (the crate that speaks with them).

use std::fmt;
use std::sync::{PoisonError, RwLock};

/// Bytes that a region gives a name to. It is dropped when its name and the last handle on it are gone.
pub trait Memory: Send + Sync {
    /// How many bytes there are. This never changes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes from `offset` on. Both ends lie within [`len`](Self::len).
    fn read(&self, offset: usize, into: &mut [u8]);

    /// Puts `from` in place of the bytes from `offset` on. Both ends lie within [`len`](Self::len).
    fn write(&self, offset: usize, from: &[u8]);
}

/// Memory on the heap.
pub struct HeapMemory {
    bytes: RwLock<Box<[u8]>>,
    len: usize,
}

impl HeapMemory {
    /// So many bytes, all zero.
    pub fn new(len: usize) -> Self {
        Self::from(vec![0; len])
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        // The bytes are always whole: nothing panics between the start of a copy and its end.
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).to_vec()
    }
}

impl From<Vec<u8>> for HeapMemory {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), bytes: RwLock::new(bytes.into_boxed_slice()) }
    }
}

impl Memory for HeapMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(&bytes[offset..offset + into.len()]);
    }

    fn write(&self, offset: usize, from: &[u8]) {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        bytes[offset..offset + from.len()].copy_from_slice(from);
    }
}

impl fmt::Debug for HeapMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HeapMemory").field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_changes_its_bytes_and_no_others() {
        let memory = HeapMemory::new(6);
        memory.write(2, b"abc");
        assert_eq!(memory.to_vec(), b"\0\0abc\0");
        let mut two = [0; 2];
        memory.read(3, &mut two);
        assert_eq!(&two, b"bc");
        memory.write(6, b"");
        memory.read(6, &mut []);
        assert!(HeapMemory::new(0).is_empty());
    }
}
