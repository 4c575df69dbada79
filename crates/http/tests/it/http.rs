//! A client that says exactly what a test wants to say, and reads what comes back byte by byte.
//!
//! It is written for the tests: a real client would repair or hide the very mistakes that are tried here.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing in these tests takes so long, unless it never happens.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header by its name in lower case; the first of several.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// The problem that it must be: with the status in both places, and fit for whoever asked.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{problem}");
        let code = problem["code"].as_str().expect("there is a code");
        assert_eq!(problem["type"], format!("urn:millpond:error:{code}"));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        problem
    }

    /// Status and code of the problem that it must be.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.problem()["code"].as_str().unwrap().to_owned())
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request: a line like `GET /healthz`, more header lines, and a body with its length.
    pub(crate) fn ask(&mut self, line: &str, headers: &[&str], body: Option<&str>) {
        let mut head = format!("{line} HTTP/1.1\r\n");
        if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
            head += "Host: localhost\r\n";
        }
        for header in headers {
            head += &format!("{header}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        self.send(head + "\r\n" + body.unwrap_or_default());
    }

    /// The head of the next answer.
    pub(crate) fn head(&mut self) -> Answer {
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a header has a colon");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Answer {
            status: status.unwrap_or_else(|| panic!("no status in {line:?}")),
            headers,
            body: Vec::new(),
        }
    }

    /// The next answer, whole. `line` is what was asked, since HEAD has no body to wait for.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        while answer.status == 100 {
            answer = self.head();
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut answer.body).unwrap();
        }
        answer
    }

    /// The next chunk of a body; none at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line(), 16).expect("a chunk begins with its length");
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// Whether some of an answer has come by now.
    pub(crate) fn has_answer(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).unwrap();
        let has_answer = self.stream.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.stream.get_ref().set_nonblocking(false).unwrap();
        has_answer
    }

    /// All that still comes, or an error.
    pub(crate) fn read_to_end(&mut self, into: &mut Vec<u8>) -> std::io::Result<usize> {
        self.stream.read_to_end(into)
    }

    /// Whether the other side has closed, with nothing more to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.fill_buf().is_ok_and(<[u8]>::is_empty)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the connection ended after {line:?}");
        line.trim_end().to_owned()
    }
}

/// The events of a stream, as they come.
pub(crate) struct Events {
    connection: Connection,
    text: String,
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl Events {
    /// Of a connection whose answer's head was read.
    pub(crate) fn of(connection: Connection) -> Self {
        Self { connection, text: String::new() }
    }

    /// The next block, which ends with a blank line; none at the end of the stream.
    pub(crate) fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let chunk = self.connection.chunk()?;
            self.text += std::str::from_utf8(&chunk).expect("events are text");
        }
    }

    /// The next event, signs of life passed over.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let block = std::iter::from_fn(|| self.block()).find(|block| !block.starts_with(':'))?;
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Some(Event {
            name: field("event").expect("an event has a name").to_owned(),
            id: field("id").map(|id| id.parse().unwrap()),
            data: serde_json::from_str(field("data").expect("an event has data")).expect("data is JSON"),
        })
    }

    /// All events until the stream ends.
    pub(crate) fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}
