//! Is a normal client served while 2000 others send half a request each, byte by byte?
//!
//! `http-slow-heads`: each of the 2000 has sent half a head and adds a byte every second. Servers are told to
//! allow five seconds for a head. The figure is the share of the normal client's requests that were served;
//! beside it stands how many of the slow connections the server has closed in the end, and what memory each
//! took.

use super::contestants;
use super::probe::probe;
use crate::measure::{Better, Figures, Group, Pace};
use crate::peers::http::{Duty, Server};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const SLOW: usize = 2000;
const BETWEEN_BYTES: Duration = Duration::from_secs(1);
/// No less, or the normal client itself might be called slow on a busy machine.
const HEAD_TIMEOUT_MIN: Duration = Duration::from_secs(1);

pub(super) fn groups() -> Vec<Group> {
    vec![Group {
        name: "http-slow-heads",
        question: "a normal client beside 2000 half-sent heads",
        unit: "% served",
        better: Better::Higher,
        pace: Pace::Once,
        contestants: contestants(
            |duration| Duty::Plain { head_timeout: head_timeout(duration) },
            heads,
            true,
        ),
    }]
}

fn head_timeout(duration: Duration) -> Duration {
    duration.max(HEAD_TIMEOUT_MIN)
}

fn heads(server: &Server, duration: Duration) -> Result<Figures, String> {
    let before = server.memory_bytes()?;
    let slow: Vec<TcpStream> = (0..SLOW)
        .map(|_| begin_head(server).map_err(|error| format!("a slow client: {error}")))
        .collect::<Result<_, _>>()?;
    let memory = server.memory_bytes()?.saturating_sub(before);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let dripping = thread::spawn(move || drip(&slow, &over));
    // Two seconds beyond the timeout, in a full round: whoever is to be closed has been by then.
    let fare = probe(server, head_timeout(duration) * 7 / 5);
    is_over.store(true, Relaxed);
    dripping.thread().unpark();
    let closed = dripping.join().map_err(|_| "the slow clients panicked".to_owned())?;
    let fare = fare?;
    let beside = vec![
        ("p50_ms", fare.p50_ms),
        ("p99_ms", fare.p99_ms),
        ("closedpct", super::percent(closed as u64, SLOW as u64)),
        ("kB_each", memory as f64 / SLOW as f64 / 1024.0),
    ];
    Ok(Figures { main: fare.served_percent, beside })
}

fn begin_head(server: &Server) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.address)?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {}\r\nX-Slow: ", server.address)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Adds a byte to every head now and then, until it is over; gives how many connections were closed.
fn drip(slow: &[TcpStream], is_over: &AtomicBool) -> usize {
    while !is_over.load(Relaxed) {
        for mut stream in slow {
            // Whether it is closed is seen by reading.
            let _ = stream.write(b"x");
        }
        thread::park_timeout(BETWEEN_BYTES);
    }
    slow.iter().filter(|stream| is_closed(stream)).count()
}

fn is_closed(mut stream: &TcpStream) -> bool {
    let mut piece = [0; 4096];
    loop {
        // A server may say goodbye with a 408 before it closes.
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => (),
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
