//! What of a segment is whole: where its records end, and whether they end there for a good reason.
//!
//! A crash can leave the batch that was just being written in pieces: some of its sectors are there and others are
//! not. That is a torn tail; nobody was promised anything in it, and it is cut. Anything else that is broken was whole
//! once, and is damage. The records behind the break tell which it is: each says how much of the file was synced
//! before it was written. If one of them says that the broken place was, it is damage.
//!
//! What was acknowledged last has no witness behind it. If it is damaged by other means than a crash, before the
//! journal was closed or anything was added, it cannot be told from a torn tail.

use crate::frame::{ALIGNMENT, FRAME_BYTES, Form, Frame};
use crate::header::{HEADER_BYTES, Header};
use crate::record::{Payload, Record, SpillRef};

/// What was found in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Where the whole records end.
    pub(crate) end: usize,
    /// The sequence number after the last of them.
    pub(crate) sequence: u64,
    /// How many there are of the caller's.
    pub(crate) records: u64,
    /// Up to where they were surely synced.
    pub(crate) synced: usize,
    /// The last thing written was that the journal was closed.
    pub(crate) closed: bool,
    pub(crate) ending: Ending,
}

/// What comes after the last whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Zeros, to the end of the file.
    Clean,
    /// Pieces of what nobody was promised.
    Torn,
    /// What was whole once.
    Damaged(&'static str),
}

/// Looks at every record of a segment, given as a whole.
pub(crate) fn scan(bytes: &[u8], header: &Header) -> Scan {
    let mut walk = Walk::new(bytes, header);
    let fault = loop {
        match walk.step() {
            Ok(true) => {}
            Ok(false) => break "zeros where a record should be",
            Err(fault) => break fault,
        }
    };
    let scan = walk.complete;
    let rest = bytes.get(scan.end..).unwrap_or_default();
    let ending = if is_zero(rest) {
        Ending::Clean
    } else if has_witness(bytes, &scan, header) {
        Ending::Damaged(fault)
    } else {
        Ending::Torn
    };
    Scan { ending, ..scan }
}

/// Hands out the caller's records of a segment that was scanned, with their offsets.
pub(crate) fn each<'a>(
    bytes: &'a [u8],
    header: &Header,
    end: usize,
    mut take: impl FnMut(usize, Record<'a>),
) {
    let mut at = HEADER_BYTES;
    while at < end {
        let Some(frame) = Frame::decode(&bytes[at..end], header.seed()) else { return };
        let payload = bytes.get(at + FRAME_BYTES..at + FRAME_BYTES + frame.payload_bytes as usize);
        if let Some(record) = payload.and_then(|payload| record_of(&frame, payload)) {
            take(at, record);
        }
        at += frame.bytes();
    }
}

/// The caller's record in a frame; none if it is one of ours, or names a payload in a way nobody writes.
pub(crate) fn record_of<'a>(frame: &Frame, payload: &'a [u8]) -> Option<Record<'a>> {
    let payload = match frame.form {
        Form::Plain => Payload::Bytes(payload),
        Form::Spilled => Payload::Spilled(SpillRef::decode(payload)?),
        Form::Closed | Form::Footer => return None,
    };
    Some(Record { kind: frame.kind, key: frame.key, payload })
}

/// Goes from record to record. An append counts when its last record was seen.
struct Walk<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    seed: u32,
    at: usize,
    sequence: u64,
    /// How many records of the present append must still follow, and how many of the caller's it has so far.
    more: u16,
    open_records: u64,
    complete: Scan,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], header: &'a Header) -> Self {
        let sequence = header.sequence;
        let (end, synced) = (HEADER_BYTES, HEADER_BYTES);
        let complete = Scan { end, sequence, records: 0, synced, closed: false, ending: Ending::Clean };
        let (seed, at) = (header.seed(), HEADER_BYTES);
        Self { bytes, header, seed, at, sequence, more: 0, open_records: 0, complete }
    }

    /// Whether there was a record, or what is wrong with it.
    fn step(&mut self) -> Result<bool, &'static str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.get(..FRAME_BYTES).is_none_or(is_zero) {
            return Ok(false);
        }
        let frame = Frame::decode(rest, self.seed).ok_or("the checksum of a record's head is wrong")?;
        let payload = frame.payload(rest).ok_or("the checksum of a record's payload is wrong")?;
        if rest.len() < frame.bytes() {
            return Err("the file ends within a record");
        }
        if frame.sequence < self.sequence || (frame.sequence > self.sequence && !self.header.mended) {
            return Err("a record out of sequence");
        }
        if self.more > 0 && frame.more != self.more - 1 {
            return Err("a record of an append is missing");
        }
        let ours = matches!(frame.form, Form::Closed | Form::Footer);
        if !ours && record_of(&frame, payload).is_none() {
            return Err("a record that names no payload");
        }
        self.at += frame.bytes();
        self.sequence = frame.sequence + 1;
        self.more = frame.more;
        self.open_records += u64::from(!ours);
        if self.more == 0 {
            self.complete.end = self.at;
            self.complete.sequence = self.sequence;
            self.complete.records += std::mem::take(&mut self.open_records);
            self.complete.synced = self.complete.synced.max(frame.synced as usize);
            self.complete.closed = frame.form == Form::Closed;
        }
        Ok(true)
    }
}

/// Whether a record behind the end says that the end had been synced before it was written.
fn has_witness(bytes: &[u8], scan: &Scan, header: &Header) -> bool {
    let seed = header.seed();
    let mut at = scan.end;
    while at + FRAME_BYTES <= bytes.len() {
        let is_empty = is_zero(&bytes[at..at + ALIGNMENT]);
        if !is_empty
            && let Some(frame) = Frame::decode(&bytes[at..], seed)
            && frame.sequence >= scan.sequence
            && frame.synced as usize > scan.end
        {
            return true;
        }
        at += ALIGNMENT;
    }
    false
}

/// Whether there is nothing but zeros.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{framed_bytes, push, stamp};
    use crate::header::FileKind;

    const HEADER: Header =
        Header { kind: FileKind::Segment, mended: false, log: [3; 16], number: 1, sequence: 5, bytes: 0 };

    /// A segment with batches of so many records each, and zeros behind.
    fn segment(batches: &[usize]) -> Vec<u8> {
        let (mut file, mut sequence) = (HEADER.encode(), HEADER.sequence);
        for batch in batches {
            let mut bytes = Vec::new();
            for key in 0..*batch {
                let payload = format!("record {key}");
                push(
                    &mut bytes,
                    &Frame::new(1, key as u64, Form::Plain, payload.as_bytes()),
                    payload.as_bytes(),
                );
            }
            sequence = stamp(&mut bytes, HEADER.seed(), u32::try_from(file.len()).unwrap(), sequence);
            file.extend(bytes);
        }
        file.resize(file.len() + 1024, 0);
        file
    }

    const RECORD: usize = 48;

    #[test]
    fn a_whole_segment_ends_where_its_records_end() {
        let file = segment(&[2, 3]);
        assert_eq!(framed_bytes("record 0".len()), RECORD);
        let scan = scan(&file, &HEADER);
        assert_eq!((scan.records, scan.sequence, scan.ending), (5, 10, Ending::Clean));
        assert_eq!((scan.end, scan.synced), (HEADER_BYTES + 5 * RECORD, HEADER_BYTES + 2 * RECORD));
        let mut keys = Vec::new();
        each(&file, &HEADER, scan.end, |_, record| keys.push(record.key));
        assert_eq!(keys, [0, 1, 0, 1, 2]);
    }

    #[test]
    fn a_break_in_the_last_batch_is_torn_and_before_it_is_damage() {
        for record in 0..5 {
            let mut file = segment(&[2, 3]);
            file[HEADER_BYTES + record * RECORD + 41] ^= 1;
            let scan = scan(&file, &HEADER);
            assert_eq!(scan.records, record as u64);
            let damaged = matches!(scan.ending, Ending::Damaged(_));
            assert_eq!(damaged, record < 2, "record {record}: {:?}", scan.ending);
        }
    }

    #[test]
    fn records_that_were_zeroed_are_missed_if_others_follow() {
        let mut file = segment(&[1, 1, 1]);
        file[HEADER_BYTES + RECORD..HEADER_BYTES + 2 * RECORD].fill(0);
        assert!(matches!(scan(&file, &HEADER).ending, Ending::Damaged(_)));
    }

    #[test]
    fn half_an_append_is_none() {
        let mut file = HEADER.encode();
        let mut bytes = Vec::new();
        for more in [2, 1, 0] {
            let frame = Frame { more, ..Frame::new(1, u64::from(more), Form::Plain, b"") };
            push(&mut bytes, &frame, b"");
        }
        stamp(&mut bytes, HEADER.seed(), 4096, HEADER.sequence);
        file.extend(&bytes);
        file.resize(8192, 0);
        assert_eq!(scan(&file, &HEADER).records, 3);
        file[HEADER_BYTES + 2 * FRAME_BYTES..].fill(0);
        let scan = scan(&file, &HEADER);
        assert_eq!((scan.records, scan.end, scan.ending), (0, HEADER_BYTES, Ending::Torn));
    }

    #[test]
    fn records_of_another_log_or_place_are_not_taken() {
        let file = segment(&[2]);
        let other = Header { log: [4; 16], ..HEADER };
        assert_eq!(scan(&file, &other).records, 0);
        let later = Header { sequence: 6, ..HEADER };
        assert_eq!(scan(&file, &later).records, 0);
        let mended = Header { mended: true, sequence: 3, ..HEADER };
        assert_eq!(scan(&file, &mended).records, 2, "a mended file may lack some");
    }
}
