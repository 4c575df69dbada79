//! What a task says while it runs: partial results, progress, lines of its log; numbered, in order, bounded.
//!
//! What was read is kept while there is room, so that a reader who lost its connection can go on from an
//! offset. When there is no room, what every reader has read goes first. If the oldest is still to be read,
//! a partial result has to wait, and its handler with it: that is the back-pressure. Progress and log lines
//! never wait; they give way.
//!
//! Nobody waits for readers who do not come: after `reader_wait` the oldest goes unread, and whoever comes
//! later is told how much was missed.
//!
//! Not here: locks and wake-ups (`task.rs`), who reads (`watch.rs`).

use crate::config::StreamSettings;
use crate::outcome::{write_number, write_string};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;

/// One thing that a task said.
#[derive(Clone, Debug)]
pub struct StreamEvent {
    /// Its number in the stream, from 0.
    pub offset: u64,
    /// Which attempt said it, from 1. What an earlier attempt said is void once a later one speaks.
    pub attempt: u32,
    /// What it said.
    pub what: Said,
}

/// What a task said.
#[derive(Clone, Debug)]
pub enum Said {
    /// A partial result.
    Partial(Arc<RawValue>),
    /// How much is done, 0 to 1.
    Progress(f64),
    /// A line for the log.
    Log(Arc<str>),
    /// So many events before this offset are gone, unread.
    Missed(u64),
}

impl StreamEvent {
    /// Appends one line of JSON without a line break: `{"offset":3,"attempt":1,"partial":…}`, with
    /// `progress`, `log` or `missed` in place of `partial`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"offset\":");
        write_number(self.offset, out);
        out.extend_from_slice(b",\"attempt\":");
        write_number(self.attempt.into(), out);
        match &self.what {
            Said::Partial(value) => {
                out.extend_from_slice(b",\"partial\":");
                out.extend_from_slice(value.get().as_bytes());
            }
            Said::Progress(fraction) => {
                let _ = write!(out, ",\"progress\":{fraction}");
            }
            Said::Log(line) => {
                out.extend_from_slice(b",\"log\":");
                write_string(line, out);
            }
            Said::Missed(count) => {
                out.extend_from_slice(b",\"missed\":");
                write_number(*count, out);
            }
        }
        out.push(b'}');
    }

    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let words = match &self.what {
            Said::Partial(value) => value.get().len(),
            Said::Log(line) => line.len(),
            Said::Progress(_) | Said::Missed(_) => 0,
        };
        size_of::<Self>() + words
    }
}

/// The events of one task. Guarded by the task's lock.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    events: VecDeque<StreamEvent>,
    bytes: usize,
    /// The offset of the next event.
    next: u64,
}

/// How far readers have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// What lies before may make room: every reader that is waited for has read it.
    pub(crate) read_to: u64,
    /// What lies before was seen by some reader.
    pub(crate) seen_to: u64,
}

/// What came of saying something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// It is in the stream.
    Taken,
    /// There is no room that may be taken from readers.
    Full,
}

impl Stream {
    /// The offset of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The offset of the oldest event that is still there.
    pub(crate) fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    /// Adds an event if there is room, or if what lies before `read_to` makes room. Progress that nobody has
    /// seen, at `seen_to` or later, is replaced.
    pub(crate) fn push(&mut self, attempt: u32, what: &Said, reach: Reach, limits: &StreamSettings) -> Push {
        let Reach { read_to, seen_to } = reach;
        if let (Said::Progress(fraction), Some(last)) = (what, self.events.back_mut())
            && let Said::Progress(old) = &mut last.what
            && last.offset >= seen_to
            && last.attempt == attempt
        {
            *old = *fraction;
            return Push::Taken;
        }
        let event = StreamEvent { offset: self.next, attempt, what: what.clone() };
        let bytes = event.bytes();
        // One event always fits, whatever its size; that of a partial result was checked.
        while !self.events.is_empty()
            && (self.events.len() >= limits.chunks_max || self.bytes + bytes > limits.bytes_max)
        {
            if self.events[0].offset >= read_to {
                return Push::Full;
            }
            self.drop_oldest();
        }
        self.bytes += bytes;
        self.next += 1;
        self.events.push_back(event);
        Push::Taken
    }

    fn drop_oldest(&mut self) {
        if let Some(gone) = self.events.pop_front() {
            self.bytes -= gone.bytes();
        }
    }

    /// Copies events from `from` on until they take `bytes_max`, but at least one; says what comes next.
    pub(crate) fn read(&self, from: u64, bytes_max: usize, out: &mut Vec<StreamEvent>) -> u64 {
        let first = self.first();
        let mut next = from.min(self.next);
        if next < first {
            let attempt = self.events.front().map_or(0, |event| event.attempt);
            out.push(StreamEvent { offset: first, attempt, what: Said::Missed(first - next) });
            next = first;
        }
        let mut bytes = 0;
        for event in self.events.range((next - first) as usize..) {
            bytes += event.bytes();
            if bytes > bytes_max && next > from {
                break;
            }
            out.push(event.clone());
            next = event.offset + 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limits() -> StreamSettings {
        StreamSettings {
            chunk_bytes_max: 100,
            chunks_max: 3,
            bytes_max: 100_000,
            reader_wait: Duration::ZERO,
            readers_max: 1,
        }
    }

    /// One reader, that has read so far.
    fn to(offset: u64) -> Reach {
        Reach { read_to: offset, seen_to: offset }
    }

    fn partial(number: u32) -> Said {
        Said::Partial(RawValue::from_string(number.to_string()).unwrap().into())
    }

    fn texts(stream: &Stream, from: u64) -> Vec<String> {
        let mut events = Vec::new();
        stream.read(from, usize::MAX, &mut events);
        let json = |event: &StreamEvent| {
            let mut out = Vec::new();
            event.write_json(&mut out);
            String::from_utf8(out).unwrap()
        };
        events.iter().map(json).collect()
    }

    #[test]
    fn a_full_stream_takes_room_from_what_was_read_and_only_from_that() {
        let mut stream = Stream::default();
        for number in 0..3 {
            assert_eq!(stream.push(1, &partial(number), to(0), &limits()), Push::Taken);
        }
        assert_eq!(stream.push(1, &partial(3), to(0), &limits()), Push::Full);
        assert_eq!(stream.push(1, &partial(3), to(1), &limits()), Push::Taken);
        assert_eq!(
            texts(&stream, 2),
            [r#"{"offset":2,"attempt":1,"partial":2}"#, r#"{"offset":3,"attempt":1,"partial":3}"#]
        );
        assert_eq!(
            texts(&stream, 0)[0],
            r#"{"offset":1,"attempt":1,"missed":1}"#,
            "a reader that comes late is told"
        );
    }

    #[test]
    fn progress_that_nobody_saw_is_replaced() {
        let mut stream = Stream::default();
        stream.push(1, &Said::Progress(0.25), to(0), &limits());
        stream.push(1, &Said::Progress(0.5), to(0), &limits());
        assert_eq!(texts(&stream, 0), [r#"{"offset":0,"attempt":1,"progress":0.5}"#]);
        stream.push(1, &Said::Progress(0.75), to(1), &limits());
        assert_eq!(stream.next(), 2, "what was seen stays as it was seen");
        stream.push(2, &Said::Progress(0.1), to(1), &limits());
        assert_eq!(stream.next(), 3, "another attempt speaks for itself");
        let unread = Reach { read_to: u64::MAX, seen_to: 2 };
        stream.push(2, &Said::Progress(0.2), unread, &limits());
        assert_eq!(stream.next(), 3, "nobody reads, so nobody saw it");
        let fast_and_slow = Reach { read_to: 0, seen_to: 3 };
        stream.push(2, &Said::Progress(0.3), fast_and_slow, &limits());
        assert_eq!(stream.next(), 3, "there is no room, and progress does not wait");
        stream.push(2, &Said::Progress(0.4), Reach { read_to: 1, seen_to: 3 }, &limits());
        assert_eq!(stream.next(), 4, "the fast reader saw the last one");
    }

    #[test]
    fn bytes_are_bounded_too_and_reading_goes_on_where_it_stopped() {
        let mut stream = Stream::default();
        let size = StreamEvent { offset: 0, attempt: 1, what: partial(1) }.bytes();
        let tight = StreamSettings { bytes_max: 2 * size, ..limits() };
        assert_eq!(stream.push(1, &partial(1), to(0), &tight), Push::Taken);
        assert_eq!(stream.push(1, &partial(2), to(0), &tight), Push::Taken);
        assert_eq!(stream.push(1, &partial(3), to(0), &tight), Push::Full);
        assert_eq!(stream.bytes(), 2 * size);
        let mut events = Vec::new();
        assert_eq!(stream.read(0, 1, &mut events), 1, "one at least");
        assert_eq!(stream.read(1, 1, &mut events), 2);
        assert_eq!(stream.read(2, 1, &mut events), 2, "nothing more");
        assert_eq!(stream.read(99, 1, &mut events), 2, "an offset from the future waits for the next");
        assert_eq!(events.len(), 2);
    }
}
