//! What the journal keeps: a kind, a key and bytes, or the name of a file that has the bytes.
//!
//! The same shape goes in and comes out. A large payload comes out as a reference, since the owner of ten thousand of
//! them wants to start without reading all; `Journal::read_spilled` brings the bytes.

/// One record, on its way in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is about; the caller's to choose.
    pub kind: u8,
    /// Whom it is about; the caller's to choose.
    pub key: u64,
    /// What it says.
    pub payload: Payload<'a>,
}

impl<'a> Record<'a> {
    /// A record with these bytes.
    pub fn new(kind: u8, key: u64, bytes: &'a [u8]) -> Self {
        Self { kind, key, payload: Payload::Bytes(bytes) }
    }
}

/// The bytes of a record, or where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Here they are. On the way in, those of `spill_bytes` and more get a file of their own.
    Bytes(&'a [u8]),
    /// In a file of their own that is already there.
    Spilled(SpillRef),
}

/// A payload in a file of its own, as a record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpillRef {
    /// The number in the file's name.
    pub id: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Their checksum.
    pub crc: u32,
}

pub(crate) const SPILL_REF_BYTES: usize = 20;

impl SpillRef {
    pub(crate) fn encode(self) -> [u8; SPILL_REF_BYTES] {
        let mut bytes = [0; SPILL_REF_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let crc = rest.try_into().ok()?;
        let (id, bytes) = (u64::from_le_bytes(*id), u64::from_le_bytes(*length));
        Some(Self { id, bytes, crc: u32::from_le_bytes(crc) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_comes_back_as_it_went_in_and_a_short_one_is_none() {
        let spill = SpillRef { id: 7, bytes: 1 << 40, crc: 0xDEAD_BEEF };
        let encoded = spill.encode();
        assert_eq!(SpillRef::decode(&encoded), Some(spill));
        assert_eq!(SpillRef::decode(&encoded[1..]), None);
        assert_eq!(SpillRef::decode(&[0; 21]), None);
    }
}
