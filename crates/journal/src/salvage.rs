//! What can be saved of a damaged file: every append that is whole, wherever it stands.
//!
//! Records begin at multiples of eight and carry a checksum that only this log's records have, so that one is found
//! again behind any damage. Sequence numbers tell how many are missing in between.
//!
//! Not here: which files need it, and what becomes of them (`repair.rs`).

use crate::frame::{ALIGNMENT, FRAME_BYTES, Form, Frame};
use crate::header::HEADER_BYTES;
use crate::record::SpillRef;
use crate::repair::Lost;
use crate::scan::is_zero;

/// Lost pieces are named one by one up to this many, and only summed beyond.
const LOST_LISTED_MAX: usize = 100;

/// What was saved of one file.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    /// Sound records and where they lie in the damaged file.
    pub(crate) kept: Vec<(Frame, usize)>,
    /// Bytes that are no sound record, and no zeros.
    pub(crate) lost: Vec<Lost>,
    pub(crate) lost_bytes: u64,
    /// Sequence numbers between the kept ones that nobody has.
    pub(crate) records_lost: u64,
}

impl Salvage {
    /// The first and the next sequence number, if anything was saved.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.kept.first()?, self.kept.last()?);
        Some((first.0.sequence, last.0.sequence + 1))
    }

    fn lose(&mut self, bytes: &[u8], from: usize, to: usize, what: &'static str) {
        let piece = &bytes[from..to];
        if piece.is_empty() || is_zero(piece) {
            return;
        }
        self.lost_bytes += piece.len() as u64;
        if self.lost.len() < LOST_LISTED_MAX {
            self.lost.push(Lost { offset: from as u64, bytes: piece.len() as u64, what });
        }
    }
}

/// Finds every sound append. `is_there` says whether a large payload is.
pub(crate) fn salvage(bytes: &[u8], seed: u32, is_there: &dyn Fn(&SpillRef) -> bool) -> Salvage {
    let mut salvage = Salvage::default();
    let mut append = Append::default();
    let (mut at, mut lost_from) = (HEADER_BYTES.min(bytes.len()), HEADER_BYTES.min(bytes.len()));
    let mut sequence = None;
    while at + FRAME_BYTES <= bytes.len() {
        let Some((frame, length, is_sound)) = frame_at(&bytes[at..], seed) else {
            at += ALIGNMENT;
            continue;
        };
        let fits = sequence.is_none_or(|last| frame.sequence > last);
        if !is_sound || !fits {
            // The head tells where the next record begins, unless it is no head at its place.
            at += if is_sound { ALIGNMENT } else { length };
            continue;
        }
        if lost_from < at {
            append.give_up(&mut salvage, bytes);
            salvage.lose(bytes, lost_from, at, "no sound record");
        }
        sequence = Some(frame.sequence);
        let payload = &bytes[at + FRAME_BYTES..at + FRAME_BYTES + frame.payload_bytes as usize];
        let has_payload =
            frame.form != Form::Spilled || SpillRef::decode(payload).is_some_and(|spill| is_there(&spill));
        append.add(&mut salvage, bytes, frame, at, has_payload);
        at += length;
        lost_from = at;
    }
    append.give_up(&mut salvage, bytes);
    salvage.lose(bytes, lost_from, bytes.len(), "no sound record");
    let numbers = salvage.kept.iter().map(|(frame, _)| frame.sequence);
    let gaps = numbers.clone().zip(numbers.skip(1)).map(|(one, next)| next - one - 1);
    salvage.records_lost = gaps.sum();
    salvage
}

/// A head with its length, and whether its payload is sound too.
fn frame_at(bytes: &[u8], seed: u32) -> Option<(Frame, usize, bool)> {
    if is_zero(&bytes[..ALIGNMENT]) {
        return None;
    }
    let frame = Frame::decode(bytes, seed)?;
    let length = frame.bytes();
    (length <= bytes.len()).then(|| (frame, length, frame.payload(bytes).is_some()))
}

/// The records of one append, until its last has been seen.
#[derive(Default)]
struct Append {
    records: Vec<(Frame, usize)>,
    lacks_payload: bool,
}

impl Append {
    fn add(&mut self, salvage: &mut Salvage, bytes: &[u8], frame: Frame, at: usize, has_payload: bool) {
        let follows = self.records.last().is_none_or(|(last, _)| {
            last.more > 0 && frame.more == last.more - 1 && frame.sequence == last.sequence + 1
        });
        if !follows {
            self.give_up(salvage, bytes);
        }
        self.records.push((frame, at));
        self.lacks_payload |= !has_payload;
        if frame.more > 0 {
            return;
        }
        if self.lacks_payload {
            self.lose(salvage, bytes, "its large payload is missing or damaged");
        } else {
            salvage.kept.append(&mut self.records);
        }
        self.lacks_payload = false;
    }

    fn give_up(&mut self, salvage: &mut Salvage, bytes: &[u8]) {
        self.lose(salvage, bytes, "an append of which a part is missing");
        self.lacks_payload = false;
    }

    fn lose(&mut self, salvage: &mut Salvage, bytes: &[u8], what: &'static str) {
        for (frame, at) in self.records.drain(..) {
            salvage.lose(bytes, at, at + frame.bytes(), what);
        }
    }
}
