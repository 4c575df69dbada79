//! A NATS client of the tests' own: a socket, the few words of the protocol that are needed, and nothing else.
//!
//! What daemons did is judged by what lies on the server, so it is read by other code than theirs. It is also proof
//! that any client can submit: a task is a message with a request as its payload, and no header at all.
//!
//! Not here: what is asked for (`books.rs`), the server's process (`engine.rs`).

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the server may take for an answer, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);
/// Publications that wait for their acknowledgement at once.
const WINDOW: u64 = 512;

/// A connection.
pub(super) struct Wire {
    input: BufReader<TcpStream>,
    output: TcpStream,
    /// The number of the last subscription; the number of a subject of ours is never used again.
    subscription: u64,
}

/// A message to one of our subscriptions.
struct Message {
    subscription: u64,
    subject: String,
    payload: Vec<u8>,
}

/// What the server said.
enum Said {
    Message(Message),
    Line(String),
}

impl Wire {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let output = TcpStream::connect(address)?;
        output.set_read_timeout(Some(PATIENCE))?;
        output.set_nodelay(true)?;
        let input = BufReader::with_capacity(1 << 16, output.try_clone()?);
        let mut wire = Self { input, output, subscription: 0 };
        let options = json!({ "verbose": false, "headers": true, "no_responders": true });
        write!(wire.output, "CONNECT {options}\r\nPING\r\n")?;
        while !matches!(wire.hear()?, Said::Line(line) if line == "PONG") {}
        Ok(wire)
    }

    /// Publishes every payload, many at a time, and comes back once the server has taken all of them.
    pub(super) fn publish(&mut self, subject: &str, payloads: &[String]) -> io::Result<()> {
        let inbox = self.subscribe()?;
        let mut waiting = payloads.iter();
        let (mut sent, mut taken) = (0_u64, 0);
        while taken < payloads.len() as u64 {
            let mut bytes = Vec::new();
            while sent - taken < WINDOW
                && let Some(payload) = waiting.next()
            {
                write!(bytes, "PUB {subject} {inbox} {}\r\n{payload}\r\n", payload.len())?;
                sent += 1;
            }
            self.output.write_all(&bytes)?;
            let answer = self.message()?.json(subject)?;
            if answer["seq"].as_u64().is_none_or(|sequence| sequence == 0) {
                return Err(io::Error::other(format!("{subject}: {answer}")));
            }
            taken += 1;
        }
        self.unsubscribe(self.subscription)
    }

    /// Asks the server's API.
    pub(super) fn ask(&mut self, what: &str, question: &Value) -> io::Result<Value> {
        let inbox = self.subscribe()?;
        self.request(what, &inbox, question)?;
        let answer = self.message()?.json(what)?;
        self.unsubscribe(self.subscription)?;
        Ok(answer)
    }

    /// Everything that a stream holds now: subjects and payloads.
    pub(super) fn read_all(&mut self, stream: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        let inbox = self.subscribe()?;
        let deliveries = self.subscription;
        let answers = self.subscribe()?;
        let config = json!({ "deliver_subject": inbox, "deliver_policy": "all", "ack_policy": "none" });
        let what = format!("CONSUMER.CREATE.{stream}");
        self.request(&what, &answers, &json!({ "stream_name": stream, "config": config }))?;
        let mut expected = None;
        let mut found = Vec::new();
        while expected.is_none_or(|expected| (found.len() as u64) < expected) {
            let message = self.message()?;
            if message.subscription == deliveries {
                found.push((message.subject, message.payload));
                continue;
            }
            let answer = message.json(&what)?;
            let delivered = answer["delivered"]["consumer_seq"].as_u64().unwrap_or(0);
            let pending = answer["num_pending"].as_u64();
            expected = Some(pending.ok_or_else(|| io::Error::other(answer.to_string()))? + delivered);
        }
        self.unsubscribe(deliveries)?;
        self.unsubscribe(self.subscription)?;
        Ok(found)
    }

    fn request(&mut self, what: &str, inbox: &str, question: &Value) -> io::Result<()> {
        let text = if question.is_null() { String::new() } else { question.to_string() };
        self.output.write_all(format!("PUB $JS.API.{what} {inbox} {}\r\n{text}\r\n", text.len()).as_bytes())
    }

    /// A subject that only this connection listens to.
    fn subscribe(&mut self) -> io::Result<String> {
        self.subscription += 1;
        let inbox = format!("_INBOX.it-{}-{}", self.output.local_addr()?.port(), self.subscription);
        write!(self.output, "SUB {inbox} {}\r\n", self.subscription)?;
        Ok(inbox)
    }

    fn unsubscribe(&mut self, subscription: u64) -> io::Result<()> {
        write!(self.output, "UNSUB {subscription}\r\nPING\r\n")?;
        // What was on its way comes before the answer, and is nothing to anybody.
        while !matches!(self.hear()?, Said::Line(line) if line == "PONG") {}
        Ok(())
    }

    fn message(&mut self) -> io::Result<Message> {
        loop {
            if let Said::Message(message) = self.hear()? {
                return Ok(message);
            }
        }
    }

    fn hear(&mut self) -> io::Result<Said> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |word: Option<&&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        match words[..] {
            ["MSG" | "HMSG", subject, subscription, ..] => {
                let size = number(words.last());
                let mut payload = vec![0; size + 2];
                self.input.read_exact(&mut payload)?;
                payload.truncate(size);
                if words[0] == "HMSG" {
                    payload.drain(..number(words.get(words.len() - 2)));
                }
                let subscription = number(Some(&subscription)) as u64;
                Ok(Said::Message(Message { subscription, subject: subject.to_owned(), payload }))
            }
            ["PING"] => {
                self.output.write_all(b"PONG\r\n")?;
                Ok(Said::Line(line))
            }
            ["-ERR", ..] => Err(io::Error::other(line)),
            _ => Ok(Said::Line(line.trim_end().to_owned())),
        }
    }
}

impl Message {
    fn json(&self, what: &str) -> io::Result<Value> {
        let answer: Value = serde_json::from_slice(&self.payload)
            .map_err(|_| io::Error::other(format!("{what}: nobody answers")))?;
        match &answer["error"] {
            Value::Null => Ok(answer),
            error => Err(io::Error::other(format!("{what}: {error}"))),
        }
    }
}
