//! Counting events of a stream (SSE) out of bytes that come in pieces.
//!
//! An event is a run of lines with at least one field, ended by an empty line. A line that begins with a
//! colon is a comment, which servers send so that a silent stream is known to live.

/// Where a stream is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounter {
    pub(crate) events: u64,
    pub(crate) heartbeats: u64,
    line: Line,
    /// Whether a field has come since the last empty line.
    has_field: bool,
}

/// The line that has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    Comment,
    Field,
}

impl EventCounter {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match (byte, self.line) {
                (b'\n', Line::Empty) => self.events += u64::from(std::mem::take(&mut self.has_field)),
                (b'\n', Line::Comment) => {
                    self.heartbeats += 1;
                    self.line = Line::Empty;
                }
                (b'\n', Line::Field) => (self.line, self.has_field) = (Line::Empty, true),
                (b'\r', _) => (),
                (b':', Line::Empty) => self.line = Line::Comment,
                (_, Line::Empty) => self.line = Line::Field,
                _ => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_heartbeats_are_counted_however_they_are_cut() {
        let text = b": hi\n\nevent: tick\ndata: {\"a\": 1}\n\n\n:\n\r\nid: 7\r\ndata: x\r\n\r\ndata: half";
        for piece in 1..text.len() {
            let mut counter = EventCounter::default();
            text.chunks(piece).for_each(|bytes| counter.feed(bytes));
            assert_eq!((counter.events, counter.heartbeats), (2, 2), "pieces of {piece}");
        }
    }
}
