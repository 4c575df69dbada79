//! What a program has asked for and not yet been told: one entry for each task, from its number to its reply.
//!
//! Whoever reads answers puts them here, and whoever waits for one takes it away; each is handed over once. A task
//! that was submitted with a callback, or that somebody waits for, is not given to those who take whatever ends.

use super::{ClientError, OnEnd, Reply};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers count up from 1: they need no hashing, only spreading over the upper bits that the map looks at.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }
}

type Numbered<T> = HashMap<u64, T, BuildHasherDefault<NumberHasher>>;

/// How many streams of tasks that have ended are kept for somebody to read them on.
const UNREAD_STREAMS_MAX: usize = 64;

/// Tasks that are outstanding, and replies that nobody has taken.
#[derive(Default)]
pub(super) struct Table {
    entries: Numbered<Entry>,
    /// Numbers with a reply in the order in which they came; some may have been taken since.
    ended: VecDeque<u64>,
    streams: Numbered<Stream>,
    /// Streams whose task has ended and that have not been read to their end, oldest first.
    unread: VecDeque<u64>,
    /// How many threads wait for somebody else to read answers.
    pub(super) followers: usize,
    /// How many callbacks have not been called yet.
    pub(super) callbacks: usize,
    /// Callbacks with their replies, for the thread that calls them.
    pub(super) due: VecDeque<(OnEnd, Reply)>,
    /// Whether a thread is there that reads answers for them.
    pub(super) is_served: bool,
}

#[derive(Default)]
struct Entry {
    reply: Option<Reply>,
    on_end: Option<OnEnd>,
    /// Somebody waits for this very task.
    waiters: usize,
}

/// What a task said and nobody has read.
#[derive(Default)]
struct Stream {
    events: VecDeque<Vec<u8>>,
    bytes: usize,
    /// How many events had to go because nobody read them.
    missed: u64,
    is_over: bool,
}

/// What there is to read of a stream.
pub(super) enum Next {
    Event(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    Over,
}

impl Table {
    /// A task was sent.
    pub(super) fn add(&mut self, number: u64, on_end: Option<OnEnd>, is_streamed: bool) {
        self.callbacks += usize::from(on_end.is_some());
        self.entries.insert(number, Entry { on_end, ..Entry::default() });
        if is_streamed {
            self.streams.insert(number, Stream::default());
        }
    }

    /// A task was not sent after all. Gives its callback back.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<OnEnd> {
        self.streams.remove(&number);
        let on_end = self.entries.remove(&number)?.on_end;
        self.callbacks -= usize::from(on_end.is_some());
        on_end
    }

    /// How many tasks have no reply, or one that nobody took.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A reply came.
    pub(super) fn end(&mut self, reply: Reply) {
        let number = reply.number;
        if let Some(stream) = self.streams.get_mut(&number).filter(|stream| !stream.is_over) {
            stream.is_over = true;
            self.unread.push_back(number);
            if self.unread.len() > UNREAD_STREAMS_MAX {
                self.unread.pop_front().map(|oldest| self.streams.remove(&oldest));
            }
        }
        // A number nobody knows: a daemon that answers twice must not confuse anybody.
        let entry = self.entries.get_mut(&number).filter(|entry| entry.reply.is_none());
        let Some(entry) = entry else { return };
        if let Some(on_end) = entry.on_end.take() {
            self.entries.remove(&number);
            self.due.push_back((on_end, reply));
            return;
        }
        entry.reply = Some(reply);
        self.ended.push_back(number);
        // Numbers that were taken by name are left behind here; now and then they are swept out.
        if self.ended.len() > 64 + 2 * self.entries.len() {
            let entries = &self.entries;
            self.ended.retain(|number| entries.get(number).is_some_and(|entry| entry.reply.is_some()));
        }
    }

    /// Takes the reply of this task, if it has come.
    pub(super) fn take(&mut self, number: u64) -> Result<Option<Reply>, ClientError> {
        let entry = self.entries.get_mut(&number).ok_or(ClientError::Unknown { number })?;
        if entry.reply.is_none() {
            return if entry.on_end.is_some() { Err(ClientError::Unknown { number }) } else { Ok(None) };
        }
        Ok(self.entries.remove(&number).and_then(|entry| entry.reply))
    }

    /// Whether the task is known and has no reply yet.
    pub(super) fn is_pending(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.reply.is_none())
    }

    /// Somebody begins or ends to wait for this very task.
    pub(super) fn wait_begins(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.waiters += 1;
        }
    }

    /// As above.
    pub(super) fn wait_ends(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.waiters -= 1;
        }
    }

    /// Takes whichever reply came first and nobody waits for.
    pub(super) fn take_any(&mut self) -> Option<Reply> {
        for _ in 0..self.ended.len() {
            let number = self.ended.pop_front()?;
            let Some(entry) = self.entries.get(&number) else { continue };
            if entry.waiters > 0 {
                self.ended.push_back(number);
            } else if entry.reply.is_some() {
                return self.entries.remove(&number)?.reply;
            }
        }
        None
    }

    /// A task said something. What nobody reads goes, the oldest first.
    pub(super) fn say(&mut self, number: u64, event: Vec<u8>, bytes_max: usize) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.bytes += event.len();
        stream.events.push_back(event);
        while stream.bytes > bytes_max && stream.events.len() > 1 {
            stream.bytes -= stream.events.pop_front().map_or(0, |event| event.len());
            stream.missed += 1;
        }
    }

    /// Takes the next event of a stream.
    pub(super) fn next_event(&mut self, number: u64) -> Result<Next, ClientError> {
        let stream = self.streams.get_mut(&number).ok_or(ClientError::Unknown { number })?;
        if stream.missed > 0 {
            let missed = std::mem::take(&mut stream.missed);
            return Ok(Next::Event(format!("{{\"missed\":{missed}}}").into_bytes()));
        }
        if let Some(event) = stream.events.pop_front() {
            stream.bytes -= event.len();
            return Ok(Next::Event(event));
        }
        if stream.is_over {
            self.streams.remove(&number);
            self.unread.retain(|unread| *unread != number);
            return Ok(Next::Over);
        }
        Ok(Next::Nothing)
    }

    /// Numbers of all tasks without a reply, but for these.
    pub(super) fn pending_but(&self, kept: &HashSet<u64>) -> Vec<u64> {
        let pending = self.entries.iter().filter(|(_, entry)| entry.reply.is_none());
        let mut numbers: Vec<u64> =
            pending.map(|(number, _)| *number).filter(|number| !kept.contains(number)).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(number: u64) -> Reply {
        Reply { number, status: 0, body: number.to_string().into_bytes() }
    }

    fn table(numbers: impl IntoIterator<Item = u64>) -> Table {
        let mut table = Table::default();
        numbers.into_iter().for_each(|number| table.add(number, None, false));
        table
    }

    #[test]
    fn each_reply_is_handed_over_once() {
        let mut table = table([1, 2]);
        assert_eq!(table.take(1), Ok(None));
        table.end(reply(1));
        table.end(reply(1));
        assert_eq!(table.take(1), Ok(Some(reply(1))));
        assert_eq!(table.take(1), Err(ClientError::Unknown { number: 1 }));
        assert_eq!(table.take_any(), None);
        table.end(reply(2));
        assert_eq!((table.take_any(), table.take_any()), (Some(reply(2)), None));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn what_somebody_waits_for_is_not_given_to_those_who_take_anything() {
        let mut table = table([1, 2]);
        table.wait_begins(1);
        table.end(reply(1));
        table.end(reply(2));
        assert_eq!((table.take_any(), table.take_any()), (Some(reply(2)), None));
        table.wait_ends(1);
        assert_eq!(table.take_any(), Some(reply(1)));
    }

    #[test]
    fn a_callback_takes_its_reply_and_nobody_else_does() {
        let mut table = Table::default();
        table.add(1, Some(Box::new(|_| ())), false);
        assert_eq!((table.callbacks, table.take(1)), (1, Err(ClientError::Unknown { number: 1 })));
        table.end(reply(1));
        assert_eq!((table.due.len(), table.len(), table.take_any()), (1, 0, None));
    }

    #[test]
    fn replies_taken_by_number_leave_nothing_behind() {
        let mut table = Table::default();
        for number in 1..=10_000 {
            table.add(number, None, false);
            table.end(reply(number));
            assert!(table.take(number).unwrap().is_some());
        }
        assert!(table.ended.len() <= 65, "{}", table.ended.len());
    }

    #[test]
    fn streams_nobody_reads_to_their_end_are_forgotten_in_the_end() {
        let mut table = Table::default();
        for number in 1..=200 {
            table.add(number, None, true);
            table.say(number, b"{}".to_vec(), 100);
            table.end(reply(number));
            assert!(table.take(number).unwrap().is_some());
        }
        assert_eq!((table.streams.len(), table.unread.len()), (UNREAD_STREAMS_MAX, UNREAD_STREAMS_MAX));
        assert!(table.next_event(1).is_err() && table.next_event(200).is_ok());
    }

    #[test]
    fn a_stream_nobody_reads_loses_its_oldest_events_and_says_so() {
        let mut table = Table::default();
        table.add(1, None, true);
        for event in 0..10_u8 {
            table.say(1, vec![event; 10], 35);
        }
        table.end(reply(1));
        assert!(table.take(1).unwrap().is_some(), "the end may be taken before the stream is read");
        let mut seen = Vec::new();
        while let Next::Event(event) = table.next_event(1).unwrap() {
            seen.push(event);
        }
        assert_eq!(seen, [b"{\"missed\":7}".to_vec(), vec![7; 10], vec![8; 10], vec![9; 10]]);
        assert!(matches!(table.next_event(1), Err(ClientError::Unknown { .. })));
    }
}
