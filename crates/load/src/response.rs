//! One HTTP/1.1 answer out of bytes that come in pieces: its status, its length, and where it ends.
//!
//! ```text
//! head ──► length known ──────────────► done
//!   │ └──► chunks: size, data, …, 0, trailers ──► done
//!   │ └──► neither: until the connection ends ──► done by `end`
//!   └ 1xx: head again          no body (HEAD, 204, 304): done
//! ```
//!
//! Four fields are looked at and no byte of a body is kept. What HTTP forbids is an error, since a server
//! under load that answers rubbish must not be counted as one that answers.
//!
//! Not here: what the answer means (`measured.rs`).

use std::fmt;

/// A head longer than this is no head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// Whether the connection may be used again.
    pub(crate) keeps: bool,
}

/// Bytes that are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadAnswer(&'static str);

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected an HTTP/1.1 answer, got {}", self.0)
    }
}

#[derive(Debug)]
pub(crate) struct ResponseReader {
    stage: Stage,
    /// The part of a head that has come so far.
    head: Vec<u8>,
    response: Response,
    /// Whether it answers `HEAD`.
    is_bodiless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    /// So many bytes are still to come.
    Length(u64),
    ChunkSize {
        size: u64,
        digits: u8,
    },
    /// Whatever a server says behind the size, up to the end of the line.
    ChunkExtension(u64),
    ChunkData(u64),
    /// The end of the line behind the data.
    ChunkEnd,
    /// Lines behind the last chunk; an empty one is the end.
    Trailer {
        is_empty: bool,
    },
    UntilClose,
    Done,
}

impl ResponseReader {
    pub(crate) fn new(is_bodiless: bool) -> Self {
        let response = Response { status: 0, body_bytes: 0, keeps: true };
        Self { stage: Stage::Head, head: Vec::new(), response, is_bodiless }
    }

    /// Begins with the next answer.
    pub(crate) fn reset(&mut self) {
        self.head.clear();
        self.stage = Stage::Head;
        self.response = Response { status: 0, body_bytes: 0, keeps: true };
    }

    /// The status, once the head is there.
    pub(crate) fn status(&self) -> Option<u16> {
        (self.stage != Stage::Head).then_some(self.response.status)
    }

    /// Takes what has come, shows the body to `body`, and gives the answer if that was all of it.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut body: impl FnMut(&[u8]),
    ) -> Result<Option<Response>, BadAnswer> {
        while !bytes.is_empty() && self.stage != Stage::Done {
            let taken = match self.stage {
                Stage::Head => self.feed_head(bytes)?,
                Stage::Length(left) => {
                    let taken = self.feed_body(bytes, left, &mut body);
                    let left = left - taken as u64;
                    self.stage = if left == 0 { Stage::Done } else { Stage::Length(left) };
                    taken
                }
                Stage::ChunkData(left) => {
                    let taken = self.feed_body(bytes, left, &mut body);
                    let left = left - taken as u64;
                    self.stage = if left == 0 { Stage::ChunkEnd } else { Stage::ChunkData(left) };
                    taken
                }
                Stage::UntilClose => self.feed_body(bytes, u64::MAX, &mut body),
                Stage::ChunkSize { .. }
                | Stage::ChunkExtension(_)
                | Stage::ChunkEnd
                | Stage::Trailer { .. } => {
                    self.stage = between_chunks(self.stage, bytes[0])?;
                    1
                }
                Stage::Done => 0,
            };
            bytes = &bytes[taken..];
        }
        match self.stage {
            Stage::Done if bytes.is_empty() => Ok(Some(self.response)),
            Stage::Done => Err(BadAnswer("more bytes than the answer has")),
            _ => Ok(None),
        }
    }

    /// The connection has ended. That is how some answers end; for the others there is none.
    pub(crate) fn end(&self) -> Option<Response> {
        (self.stage == Stage::UntilClose).then_some(self.response)
    }

    fn feed_body(&mut self, bytes: &[u8], left: u64, body: &mut impl FnMut(&[u8])) -> usize {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.response.body_bytes += taken as u64;
        body(&bytes[..taken]);
        taken
    }

    /// Takes bytes up to the end of the head, and says how many those were.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize, BadAnswer> {
        const END: &[u8] = b"\r\n\r\n";
        let before = self.head.len();
        // The end may lie across two pieces, so the last bytes of the earlier one are looked at again.
        let found = if before == 0 {
            position(bytes, END).map(|at| at + END.len())
        } else {
            self.head.extend_from_slice(bytes);
            let from = before.saturating_sub(END.len() - 1);
            position(&self.head[from..], END).map(|at| from + at + END.len())
        };
        let Some(end) = found else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            return match self.head.len() {
                ..=HEAD_BYTES_MAX => Ok(bytes.len()),
                _ => Err(BadAnswer("a head without an end")),
            };
        };
        let fields = Fields::read(if before == 0 { &bytes[..end] } else { &self.head[..end] })?;
        self.head.clear();
        self.begin_body(&fields);
        Ok(end - before)
    }

    fn begin_body(&mut self, fields: &Fields) {
        // A 100 or 103 comes before the answer. A 101 would be another protocol, which nobody has asked for.
        if fields.status < 200 {
            return;
        }
        self.response.status = fields.status;
        let is_bodiless = self.is_bodiless || matches!(fields.status, 204 | 304);
        self.stage = match fields.length {
            _ if is_bodiless => Stage::Done,
            _ if fields.is_chunked => Stage::ChunkSize { size: 0, digits: 0 },
            Some(0) => Stage::Done,
            Some(length) => Stage::Length(length),
            None => Stage::UntilClose,
        };
        self.response.keeps = fields.keeps && self.stage != Stage::UntilClose;
    }
}

/// The stage after one byte that belongs to no chunk's data.
fn between_chunks(stage: Stage, byte: u8) -> Result<Stage, BadAnswer> {
    const BAD_SIZE: BadAnswer = BadAnswer("a chunk without a size");
    Ok(match (stage, byte) {
        (Stage::ChunkSize { size, digits }, byte) if byte.is_ascii_hexdigit() && digits < 16 => {
            let digit = char::from(byte).to_digit(16).ok_or(BAD_SIZE)?;
            Stage::ChunkSize { size: (size << 4) | u64::from(digit), digits: digits + 1 }
        }
        (Stage::ChunkSize { digits: 0, .. }, _) => return Err(BAD_SIZE),
        (Stage::ChunkSize { size, .. }, b'\r' | b';' | b' ' | b'\t') => Stage::ChunkExtension(size),
        (Stage::ChunkSize { .. }, _) => return Err(BAD_SIZE),
        (Stage::ChunkExtension(0), b'\n') => Stage::Trailer { is_empty: true },
        (Stage::ChunkExtension(size), b'\n') => Stage::ChunkData(size),
        (Stage::ChunkExtension(size), _) => Stage::ChunkExtension(size),
        (Stage::ChunkEnd, b'\r') => Stage::ChunkEnd,
        (Stage::ChunkEnd, b'\n') => Stage::ChunkSize { size: 0, digits: 0 },
        (Stage::ChunkEnd, _) => return Err(BadAnswer("a chunk longer than its size")),
        (Stage::Trailer { is_empty: true }, b'\n') => Stage::Done,
        (Stage::Trailer { .. }, b'\n') => Stage::Trailer { is_empty: true },
        (Stage::Trailer { is_empty }, b'\r') => Stage::Trailer { is_empty },
        (Stage::Trailer { .. }, _) => Stage::Trailer { is_empty: false },
        (stage, _) => stage,
    })
}

/// What counts of a head.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    keeps: bool,
}

impl Fields {
    fn read(head: &[u8]) -> Result<Self, BadAnswer> {
        let mut lines =
            head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first = lines.next().unwrap_or_default();
        let (is_newer, rest) = match (first.strip_prefix(b"HTTP/1.1 "), first.strip_prefix(b"HTTP/1.0 ")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(BadAnswer("another first line")),
        };
        let status = number(rest.get(..3).unwrap_or_default()).filter(|status| (100..=599).contains(status));
        let status = status.ok_or(BadAnswer("no status"))? as u16;
        let mut fields = Self { status, length: None, is_chunked: false, keeps: is_newer };
        for line in lines.filter(|line| !line.is_empty()) {
            let colon =
                line.iter().position(|byte| *byte == b':').ok_or(BadAnswer("a field without a colon"))?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                let length = number(value).ok_or(BadAnswer("a length that is no number"))?;
                if fields.length.replace(length).is_some_and(|before| before != length) {
                    return Err(BadAnswer("two lengths"));
                }
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                fields.is_chunked = value.to_ascii_lowercase().ends_with(b"chunked");
            } else if name.eq_ignore_ascii_case(b"connection") {
                let value = value.to_ascii_lowercase();
                fields.keeps = match fields.keeps {
                    true => position(&value, b"close").is_none(),
                    false => position(&value, b"keep-alive").is_some(),
                };
            }
        }
        Ok(fields)
    }
}

/// A whole number of up to 18 digits.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer and its body, fed in pieces of this size.
    fn read(text: &str, piece: usize) -> Result<Option<(Response, String)>, BadAnswer> {
        let mut reader = ResponseReader::new(false);
        let mut body = Vec::new();
        let mut done = None;
        for bytes in text.as_bytes().chunks(piece) {
            assert_eq!(done, None, "{text:?} was done too early");
            done = reader.feed(bytes, |part| body.extend_from_slice(part))?;
        }
        let done = done.or_else(|| reader.end());
        Ok(done.map(|response| (response, String::from_utf8(body).unwrap())))
    }

    /// The answer, whatever the pieces.
    fn whole(text: &str) -> (u16, String, bool) {
        let mut answers = (1..=text.len()).map(|piece| read(text, piece).unwrap().unwrap());
        let (response, body) = answers.next().unwrap();
        assert!(answers.all(|answer| answer == (response, body.clone())), "{text:?}");
        assert_eq!(response.body_bytes, body.len() as u64);
        (response.status, body, response.keeps)
    }

    #[test]
    fn an_answer_ends_after_its_length_however_it_is_cut() {
        let text = "HTTP/1.1 200 OK\r\ncontent-LENGTH:  5 \r\nX: y\r\n\r\nhello";
        assert_eq!(whole(text), (200, "hello".into(), true));
        let refusal = "HTTP/1.1 503 Busy\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(whole(refusal), (503, String::new(), false));
    }

    #[test]
    fn chunks_are_put_together_and_trailers_passed_over() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    5\r\nhello\r\n00C;name=\"v\"\r\n, wide world\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n";
        assert_eq!(whole(text), (200, "hello, wide world".into(), true));
        assert_eq!(whole(&text.replace("X-Sum: 1\r\nY: 2\r\n", "")), (200, "hello, wide world".into(), true));
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_is_the_end() {
        assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\nhello"), (200, "hello".into(), false));
        assert_eq!(whole("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"), (200, "ok".into(), false));
    }

    #[test]
    fn an_answer_before_the_answer_is_passed_over() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(whole(text), (200, "ok".into(), true));
    }

    #[test]
    fn answers_without_a_body_end_with_their_head() {
        assert_eq!(whole("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n").0, 204);
        let mut reader = ResponseReader::new(true);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert!(reader.feed(head, |_| ()).unwrap().is_some());
    }

    #[test]
    fn a_cut_answer_is_none() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        ] {
            assert_eq!(read(text, 7).unwrap(), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let head = "HTTP/1.1 200 OK\r\n";
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        for (text, fault) in [
            ("SSH-2.0-x\r\n\r\n".to_owned(), "another first line"),
            ("HTTP/1.1 2x0 OK\r\n\r\n".to_owned(), "no status"),
            (format!("{head}nonsense\r\n\r\n"), "a field without a colon"),
            (format!("{head}Content-Length: -1\r\n\r\n"), "a length that is no number"),
            (format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"), "two lengths"),
            (format!("{head}Content-Length: 1\r\n\r\nab"), "more bytes than the answer has"),
            (format!("{chunked}\r\n"), "a chunk without a size"),
            (format!("{chunked}1g\r\n"), "a chunk without a size"),
            (format!("{chunked}11112222333344445\r\n"), "a chunk without a size"),
            (format!("{chunked}1\r\nab"), "a chunk longer than its size"),
            (format!("{head}X: {}", "x".repeat(HEAD_BYTES_MAX)), "a head without an end"),
        ] {
            assert_eq!(read(&text, 1000).unwrap_err(), BadAnswer(fault));
        }
    }

    #[test]
    fn the_next_answer_knows_nothing_of_the_last() {
        let mut reader = ResponseReader::new(false);
        let close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
        assert!(!reader.feed(close, |_| ()).unwrap().unwrap().keeps);
        assert_eq!(reader.status(), Some(200));
        reader.reset();
        assert_eq!(reader.status(), None);
        let next = reader.feed(b"HTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx", |_| ()).unwrap().unwrap();
        assert_eq!(next, Response { status: 404, body_bytes: 1, keeps: true });
    }
}
