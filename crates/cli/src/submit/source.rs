//! Where requests come from: the command line itself, a file, or standard input.
//!
//! Lines are read by a thread of their own, so that results are shown while more lines are still to come, as
//! behind `tail -f`. It hands over what one read brought, and is at most a few reads ahead, so a file of any
//! length takes little memory. A file that is one request over several lines is taken as that.
//!
//! Not here: whether a line is a request; the daemon says so.

use crate::failure::Failure;
use serde::de::IgnoredAny;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;
/// How many reads the reader may be ahead.
const AHEAD: usize = 4;

/// One request, and the line where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) line: u64,
    pub(super) text: Vec<u8>,
}

/// What the source has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Request(Request),
    /// A line that cannot be sent at all.
    Wrong {
        line: u64,
        message: String,
    },
    /// More may come.
    NothingYet,
    End,
}

/// What the reader hands over.
type Batch = Result<Vec<Taken>, String>;

#[derive(Debug)]
pub(super) struct Source {
    ready: VecDeque<Taken>,
    /// None once all has come.
    more: Option<Receiver<Batch>>,
    is_one: bool,
    bytes: Option<u64>,
}

impl Source {
    /// Opens what was named. No line may be longer than `line_bytes_max`.
    pub(super) fn open(input: &str, line_bytes_max: u64) -> Result<Self, Failure> {
        if input.trim_start().starts_with('{') {
            let request = Request { line: 1, text: input.as_bytes().to_vec() };
            let ready = VecDeque::from([Taken::Request(request)]);
            return Ok(Self { ready, more: None, is_one: true, bytes: None });
        }
        if input == "-" {
            return Ok(Self::read(io::stdin(), line_bytes_max, None));
        }
        let cannot = |error: io::Error| {
            Failure::Usage(format!(
                "{input:?}: expected a request that begins with {{, a file that can be read, or -; {error}"
            ))
        };
        let file = File::open(input).map_err(cannot)?;
        let about = file.metadata().map_err(cannot)?;
        if about.is_dir() {
            return Err(Failure::Usage(format!("{input:?}: expected a file, got a directory")));
        }
        Ok(Self::read(file, line_bytes_max, about.is_file().then_some(about.len())))
    }

    fn read(input: impl Read + Send + 'static, line_bytes_max: u64, bytes: Option<u64>) -> Self {
        let (sender, receiver) = sync_channel(AHEAD);
        thread::spawn(move || {
            let last = read_lines(BufReader::with_capacity(READ_BYTES, input), line_bytes_max, &sender);
            if let Err(error) = last {
                // Nobody listens once the program ends.
                let _ = sender.send(Err(error.to_string()));
            }
        });
        Self { ready: VecDeque::new(), more: Some(receiver), is_one: false, bytes }
    }

    /// Whether it is the one request of the command line.
    pub(super) fn is_one(&self) -> bool {
        self.is_one
    }

    /// How long the file is.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Whether nothing will come any more.
    pub(super) fn is_over(&self) -> bool {
        self.ready.is_empty() && self.more.is_none()
    }

    /// Takes no more from it.
    pub(super) fn stop(&mut self) {
        self.ready.clear();
        self.more = None;
    }

    /// The next request. Never waits.
    pub(super) fn take(&mut self) -> Result<Taken, Failure> {
        while self.ready.is_empty() {
            let Some(more) = &self.more else { return Ok(Taken::End) };
            match more.try_recv() {
                Ok(batch) => self.add(batch)?,
                Err(TryRecvError::Empty) => return Ok(Taken::NothingYet),
                Err(TryRecvError::Disconnected) => self.more = None,
            }
        }
        Ok(self.ready.pop_front().unwrap_or(Taken::NothingYet))
    }

    /// Waits until there is something to take, at most so long.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        let Some(more) = self.more.as_ref().filter(|_| self.ready.is_empty()) else { return Ok(()) };
        match more.recv_timeout(timeout) {
            Ok(batch) => self.add(batch),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                self.more = None;
                Ok(())
            }
        }
    }

    fn add(&mut self, batch: Batch) -> Result<(), Failure> {
        let batch =
            batch.map_err(|error| Failure::Failed(format!("the requests cannot be read: {error}")))?;
        self.ready.extend(batch);
        Ok(())
    }
}

/// Reads to the end, or until nobody wants more.
fn read_lines(mut input: impl BufRead, line_bytes_max: u64, sender: &SyncSender<Batch>) -> io::Result<()> {
    let begin = begin(&mut input, line_bytes_max)?;
    if is_one_json(&begin) {
        let _ = sender.send(Ok(vec![Taken::Request(Request { line: 1, text: begin })]));
        return Ok(());
    }
    let mut input = BufReader::with_capacity(READ_BYTES, Cursor::new(begin).chain(input));
    let (mut line, mut batch, mut batch_bytes) = (0, Vec::new(), 0);
    loop {
        let mut text = Vec::new();
        let bytes = (&mut input).take(line_bytes_max + 2).read_until(b'\n', &mut text)?;
        line += 1;
        batch_bytes += bytes;
        if text.len() as u64 > line_bytes_max + 1 && text.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
            let message = format!("expected a line of {line_bytes_max} bytes at most, got a longer one");
            batch.push(Taken::Wrong { line, message });
        } else if !text.trim_ascii().is_empty() {
            batch.push(Taken::Request(Request { line, text: text.trim_ascii().to_vec() }));
        }
        // The next read may take its time, and what is there should not wait for it.
        let may_wait = !input.buffer().contains(&b'\n');
        if bytes == 0 || batch_bytes >= READ_BYTES || (may_wait && !batch.is_empty()) {
            batch_bytes = 0;
            if sender.send(Ok(std::mem::take(&mut batch))).is_err() || bytes == 0 {
                return Ok(());
            }
        }
    }
}

/// The first line; and if a request begins there that does not end there, all the rest, as far as one may go.
fn begin(input: &mut impl BufRead, line_bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    while text.trim_ascii().is_empty() {
        if input.take(line_bytes_max).read_until(b'\n', &mut text)? == 0 {
            return Ok(text);
        }
    }
    let ends_early = serde_json::from_slice::<IgnoredAny>(&text).is_err_and(|error| error.is_eof());
    if ends_early && text.trim_ascii().starts_with(b"{") {
        input.take(line_bytes_max).read_to_end(&mut text)?;
    }
    Ok(text)
}

/// Whether it is one JSON value over several lines.
fn is_one_json(text: &[u8]) -> bool {
    text.trim_ascii().contains(&b'\n') && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a source has, waited for.
    fn all(text: &str, line_bytes_max: u64) -> Vec<Taken> {
        let mut source = Source::read(Cursor::new(text.as_bytes().to_vec()), line_bytes_max, None);
        let mut all = Vec::new();
        loop {
            match source.take().unwrap() {
                Taken::End => return all,
                Taken::NothingYet => source.wait(Duration::from_secs(60)).unwrap(),
                taken => all.push(taken),
            }
        }
    }

    fn request(line: u64, text: &str) -> Taken {
        Taken::Request(Request { line, text: text.as_bytes().to_vec() })
    }

    #[test]
    fn lines_are_requests_and_empty_ones_are_not() {
        assert_eq!(all("", 100), []);
        assert_eq!(all("\n  \n", 100), []);
        let taken = all("{\"a\":1}\r\n\n  no request \n{\"b\":2}", 100);
        assert_eq!(taken, [request(1, "{\"a\":1}"), request(3, "no request"), request(4, "{\"b\":2}")]);
    }

    #[test]
    fn a_request_over_several_lines_is_one() {
        assert_eq!(all("\n{\n \"a\": 1\n}\n", 100), [request(1, "\n{\n \"a\": 1\n}\n")]);
        let broken = all("{\"a\":\n{\"b\":1}\n", 100);
        assert_eq!(
            broken,
            [request(1, "{\"a\":"), request(2, "{\"b\":1}")],
            "two lines, of which one is broken"
        );
    }

    #[test]
    fn a_line_that_is_too_long_costs_itself_alone() {
        let text = format!("{{\"a\":1}}\n{}\n{{\"b\":2}}\n", "x".repeat(100_000));
        let message = "expected a line of 50 bytes at most, got a longer one".to_owned();
        let expected = [request(1, "{\"a\":1}"), Taken::Wrong { line: 2, message }, request(3, "{\"b\":2}")];
        assert_eq!(all(&text, 50), expected);
        assert_eq!(all(&format!("{}\n", "x".repeat(50)), 50).len(), 1, "just as long as it may be");
    }

    #[test]
    fn many_lines_come_in_their_order() {
        let text: String = (0..50_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
        let taken = all(&text, 1000);
        assert_eq!(taken.len(), 50_000);
        for (index, taken) in taken.iter().enumerate() {
            assert_eq!(*taken, request(index as u64 + 1, &format!("{{\"n\":{index}}}")));
        }
    }
}
