//! The first bytes of a file: whose it is, which format it has, and where it stands in the log.
//!
//! ```text
//!  0  [u8; 8]   "MILLPOND"
//!  8  u32       format version
//! 12  u8        what the file is: 1 segment, 2 snapshot
//! 13  u8        flags: 1 = mended, so sequence numbers may be missing
//! 16  [u8; 16]  the log's own number, drawn at random when it was begun
//! 32  u64       number of the segment, or of the segment that follows the snapshot
//! 40  u64       sequence number of the first record, or of the first record after the snapshot
//! 48  u64       length of the file, which it had before it got its name
//! 60  u32       checksum of bytes 0..60
//! ```
//!
//! The same bytes stand once more at 2048. Only a repair reads them there: without the log's number, no record of the
//! file could be told from noise. Magic and version are looked at before the checksum, so that a file of a newer
//! release is refused as such, and not called damaged.

use crate::error::OpenError;
use crc32c::crc32c;
use std::path::Path;

/// Bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 4096;
const COPY_AT: usize = 2048;
const SEALED_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"MILLPOND";
const VERSION: u32 = 1;
const MENDED: u8 = 1;

/// The number of a log.
pub(crate) type LogId = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileKind {
    Segment = 1,
    Snapshot = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FileKind,
    pub(crate) mended: bool,
    pub(crate) log: LogId,
    pub(crate) number: u64,
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
}

/// Why a header was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Foreign,
    Version(u32),
    Damaged,
}

impl HeaderFault {
    pub(crate) fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Foreign => OpenError::Foreign { path },
            Self::Version(found) => OpenError::Version { path, found, known: VERSION },
            Self::Damaged => {
                OpenError::Damaged { path, offset: 0, what: "the header's checksum is wrong".to_owned() }
            }
        }
    }
}

impl Header {
    /// What checksums of records begin with, so that a record of another log is none of this one.
    pub(crate) fn seed(&self) -> u32 {
        crc32c(&self.log)
    }

    /// The whole block, with its copy.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; HEADER_BYTES];
        block[..8].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12] = self.kind as u8;
        block[13] = if self.mended { MENDED } else { 0 };
        block[16..32].copy_from_slice(&self.log);
        block[32..40].copy_from_slice(&self.number.to_le_bytes());
        block[40..48].copy_from_slice(&self.sequence.to_le_bytes());
        block[48..56].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c(&block[..60]);
        block[60..64].copy_from_slice(&crc.to_le_bytes());
        block.copy_within(..SEALED_BYTES, COPY_AT);
        block
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Self, HeaderFault> {
        let bytes: &[u8; SEALED_BYTES] = block.first_chunk().ok_or(HeaderFault::Foreign)?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let sound = word(60) == crc32c(&bytes[..60]);
        if bytes[..8] != *MAGIC {
            return Err(if sound { HeaderFault::Damaged } else { HeaderFault::Foreign });
        }
        if !sound {
            // A newer version may seal its header in another way, but a flipped bit is likelier than version 2^31.
            let version = word(8);
            let newer = version > VERSION && version < 1000 && !Self::copy_is_ours(block);
            return Err(if newer { HeaderFault::Version(version) } else { HeaderFault::Damaged });
        }
        if word(8) != VERSION {
            return Err(HeaderFault::Version(word(8)));
        }
        let kind = match bytes[12] {
            1 => FileKind::Segment,
            2 => FileKind::Snapshot,
            _ => return Err(HeaderFault::Damaged),
        };
        let mut log = [0; 16];
        log.copy_from_slice(&bytes[16..32]);
        let (number, sequence, length) = (long(32), long(40), long(48));
        Ok(Self { kind, mended: bytes[13] & MENDED != 0, log, number, sequence, bytes: length })
    }

    /// The header from its copy, for a repair.
    pub(crate) fn decode_copy(block: &[u8]) -> Result<Self, HeaderFault> {
        block.get(COPY_AT..).map_or(Err(HeaderFault::Foreign), |copy| {
            let mut alone = vec![0; SEALED_BYTES];
            let length = copy.len().min(SEALED_BYTES);
            alone[..length].copy_from_slice(&copy[..length]);
            Self::decode(&alone)
        })
    }

    fn copy_is_ours(block: &[u8]) -> bool {
        block.len() > COPY_AT && Self::decode_copy(block).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: FileKind::Segment,
            mended: true,
            log: [7; 16],
            number: 3,
            sequence: 1 << 33,
            bytes: 1 << 34,
        }
    }

    #[test]
    fn a_header_comes_back_from_either_place() {
        let block = header().encode();
        assert_eq!(block.len(), HEADER_BYTES);
        assert_eq!(Header::decode(&block), Ok(header()));
        assert_eq!(Header::decode_copy(&block), Ok(header()));
    }

    #[test]
    fn no_flipped_bit_makes_another_header_and_its_copy_still_helps() {
        let block = header().encode();
        for bit in 0..SEALED_BYTES * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let fault = Header::decode(&flipped).unwrap_err();
            assert!(!matches!(fault, HeaderFault::Version(_)), "bit {bit} is taken for a newer version");
            assert_eq!(Header::decode_copy(&flipped), Ok(header()));
        }
    }

    #[test]
    fn a_stranger_and_a_newer_version_are_refused_as_such() {
        assert_eq!(Header::decode(b"#!/bin/sh\n"), Err(HeaderFault::Foreign));
        assert_eq!(Header::decode(&[b'x'; 4096]), Err(HeaderFault::Foreign));
        assert_eq!(Header::decode(&[]), Err(HeaderFault::Foreign));
        let mut newer = header().encode();
        newer[8] = 2;
        let crc = crc32c(&newer[..60]);
        newer[60..64].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::decode(&newer), Err(HeaderFault::Version(2)));
        // One that seals its header in another way altogether.
        let mut other = vec![0; HEADER_BYTES];
        other[..8].copy_from_slice(MAGIC);
        other[8] = 9;
        assert_eq!(Header::decode(&other), Err(HeaderFault::Version(9)));
    }
}
