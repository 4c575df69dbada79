//! A small web server for the tests, so that every answer can be as wrong as it needs to be.
//!
//! Each path has its own answer, written byte by byte; what was asked is kept, to see what really went over
//! the wire.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// One request as it came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

/// Writes the answer to one request; the connection is closed after that.
pub(super) type Answer = Box<dyn Fn(&Asked, &mut TcpStream) + Send + Sync>;

/// A server on this machine. Its threads end with the test process.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers each path as told, and all others with 404.
    pub(super) fn start(answers: Vec<(&'static str, Answer)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let answers: Arc<HashMap<_, _>> = Arc::new(answers.into_iter().collect());
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answers, kept) = (Arc::clone(&answers), Arc::clone(&kept));
                thread::spawn(move || serve(stream.unwrap(), &answers, &kept));
            }
        });
        Self { address, asked }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answers: &HashMap<&'static str, Answer>, kept: &Mutex<Vec<Asked>>) {
    let Some(asked) = read(&stream) else { return };
    kept.lock().unwrap().push(asked.clone());
    let path = asked.line.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    match answers.get(path) {
        Some(answer) => answer(&asked, &mut stream),
        None => write(&mut stream, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).unwrap() })
}

/// Sends text; the other side may have gone.
pub(super) fn write(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

/// An answer that is always the same.
pub(super) fn says(text: impl Into<String>) -> Answer {
    let text = text.into();
    Box::new(move |_, stream| write(stream, &text))
}

/// A whole answer with status 200.
pub(super) fn page(body: &str) -> Answer {
    says(format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\ncontent-type: text/plain\r\n\r\n{body}",
        body.len()
    ))
}

/// Looks elsewhere.
pub(super) fn redirect(status: u16, location: impl Into<String>) -> Answer {
    let location = location.into();
    says(format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
}
