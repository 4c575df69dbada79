//! Our client against servers that are not ours: of another version, from the future, or cut off.
//!
//! Each server is a thread that sends bytes it was told to send.

use crate::start::{Directory, PATIENCE};
use millpond_local::frame::append;
use millpond_local::{Client, Flags, Kind};
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

const HELLO: &str =
    r#"{"protocol":1,"version":"9.9","pid":1,"frame_bytes_max":10,"in_flight_max":2,"workers":3,"new":true}"#;

fn frame(kind: Kind, tag: u64, payload: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, kind, Flags::NONE, tag, |out| out.extend_from_slice(payload.as_bytes()));
    bytes
}

/// A server that sends `bytes` to whoever comes first, and closes.
struct Impostor {
    path: PathBuf,
    thread: JoinHandle<()>,
    _directory: Directory,
}

impl Impostor {
    fn saying(bytes: Vec<u8>) -> Self {
        let directory = Directory::new();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || listener.accept().unwrap().0.write_all(&bytes).unwrap());
        Self { path, thread, _directory: directory }
    }

    fn connect(self) -> io::Result<Client> {
        let client = Client::connect(&self.path);
        self.thread.join().unwrap();
        client
    }
}

#[test]
fn fields_and_kinds_of_a_later_server_are_passed_over() {
    let mut unknown = frame(Kind::Pong, 1, "what?");
    unknown[4] = 99;
    let bytes =
        [frame(Kind::Hello, 0, HELLO), unknown.clone(), frame(Kind::Pong, 2, "known"), unknown].concat();
    let mut client = Impostor::saying(bytes).connect().unwrap();
    assert_eq!((client.hello().workers, client.hello().in_flight_max), (3, 2));
    let answer = client.receive_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!((answer.kind, answer.tag, answer.payload), (Kind::Pong, 2, &b"known"[..]));
    assert_eq!(client.receive_buffered(), None);
    let error = client.receive().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::UnexpectedEof, "the server closed the connection")
    );
}

#[test]
fn another_protocol_is_refused_by_name() {
    let other = HELLO.replace("\"protocol\":1", "\"protocol\":2");
    let error = Impostor::saying(frame(Kind::Hello, 0, &other)).connect().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let text = error.to_string();
    assert!(
        text.ends_with("expected HELLO of protocol 1, got protocol 2; use programs of one release"),
        "{text}"
    );
    let error = Impostor::saying(frame(Kind::Ok, 0, "{}")).connect().unwrap_err();
    assert!(error.to_string().ends_with("expected HELLO of protocol 1, got OK"), "{error}");
}

#[test]
fn a_server_that_breaks_off_is_told_from_one_that_closes() {
    let mut bytes = [frame(Kind::Hello, 0, HELLO), frame(Kind::Pong, 2, "half of it")].concat();
    bytes.truncate(bytes.len() - 1);
    let mut client = Impostor::saying(bytes).connect().unwrap();
    let error = client.receive().unwrap_err();
    assert_eq!(error.to_string(), "the server closed the connection in the middle of a frame");
}

#[test]
fn nobody_at_the_socket_is_an_error_that_names_it() {
    let directory = Directory::new();
    let path = directory.path().join("control.sock");
    let error = Client::connect(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().starts_with(&format!("no millpond answers at {}: ", path.display())),
        "{error}"
    );
    drop(UnixListener::bind(&path).unwrap());
    assert_eq!(Client::connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
