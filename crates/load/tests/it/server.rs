//! A small server for the tests: one thread for each connection, and a function that says what to do.
//!
//! It counts connections and requests by itself, so that a test can hold what the generator says against what
//! the server saw.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

/// What the server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) requests: AtomicUsize,
}

/// A request as the server read it.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Counted from 0 over all connections.
    pub(crate) number: usize,
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// What to do after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Close,
}

/// Answers on every connection by `answer`, until the test ends.
pub(crate) fn serve<A>(answer: A) -> (SocketAddr, Arc<Seen>)
where
    A: Fn(&Asked, &mut TcpStream) -> io::Result<Then> + Send + Sync + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, answer) = (Arc::new(Seen::default()), Arc::new(answer));
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, seen, answer) = (stream.unwrap(), Arc::clone(&noted), Arc::clone(&answer));
            seen.connections.fetch_add(1, SeqCst);
            // A client that goes away in the middle is part of many tests.
            thread::spawn(move || drop(converse(stream, &seen, &*answer)));
        }
    });
    (address, seen)
}

fn converse(
    mut stream: TcpStream,
    seen: &Seen,
    answer: &dyn Fn(&Asked, &mut TcpStream) -> io::Result<Then>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut field = String::new();
            reader.read_line(&mut field)?;
            if let Some(digits) = field.strip_prefix("Content-Length: ") {
                length = digits.trim().parse().unwrap();
            }
            if field.trim().is_empty() {
                break;
            }
            head.push_str(&field);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let number = seen.requests.fetch_add(1, SeqCst);
        let asked = Asked { number, line: line.trim_end().to_owned(), head, body };
        if answer(&asked, &mut stream)? == Then::Close {
            return Ok(());
        }
    }
}

/// An answer of this status with this body.
pub(crate) fn answer(stream: &mut TcpStream, status: u16, body: &str) -> io::Result<Then> {
    let text = format!("HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).map(|()| Then::Keep)
}
