//! Is a normal client served while 500 others hold connections that they do not use?
//!
//! `http-slow-idle`: each of the 500 has asked once, has its answer, and stays. A server with a thread for
//! each connection has none left then. The figure is the share of the normal client's requests that were
//! served.

use super::probe::probe;
use super::{contestants, megabytes};
use crate::measure::{Better, Figures, Group, Pace};
use crate::peers::http::{Duty, HEALTHY, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const IDLERS: usize = 500;

pub(super) fn groups() -> Vec<Group> {
    vec![Group {
        name: "http-slow-idle",
        question: "a normal client beside 500 idle connections",
        unit: "% served",
        better: Better::Higher,
        pace: Pace::Once,
        contestants: contestants(|_| Duty::PLAIN, idle, true),
    }]
}

fn idle(server: &Server, duration: Duration) -> Result<Figures, String> {
    let idlers: Vec<TcpStream> = (0..IDLERS)
        .map(|_| ask_once(server).map_err(|error| format!("an idle client: {error}")))
        .collect::<Result<_, _>>()?;
    let fare = probe(server, duration)?;
    let beside =
        vec![("p50_ms", fare.p50_ms), ("p99_ms", fare.p99_ms), ("rss_mb", megabytes(server.memory_bytes()?))];
    drop(idlers);
    Ok(Figures { main: fare.served_percent, beside })
}

/// A connection on which one answer has come.
fn ask_once(server: &Server) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", server.address)?;
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while !answer.ends_with(HEALTHY.as_bytes()) {
        match stream.read(&mut piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            bytes => answer.extend_from_slice(&piece[..bytes]),
        }
    }
    Ok(stream)
}
