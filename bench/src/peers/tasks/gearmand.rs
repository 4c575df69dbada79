//! gearmand, a server that hands jobs to workers and their results back to whoever submitted them.
//!
//! Spoken to in its binary protocol. The producer submits any number of jobs before it reads an answer. A
//! worker grabs several at once, and sends its results and the next grabs by one write; when nothing was
//! there it says that it goes to sleep and waits to be woken, as the protocol asks. gearmand knows TCP only,
//! so this is the loopback device.
//!
//! Not here: where the program comes from (`debian.rs`).

use super::{Appetite, Crew, Producer, Started, WORKERS, unexpected};
use crate::daemon::{Daemon, PrivateFolder, free_address};
use crate::debian::{self, Program};
use crate::wire::Wire;
use std::io;
use std::sync::OnceLock;

const FUNCTION: &[u8] = b"echo";
const HEADER_BYTES: usize = 12;
const REQUEST: [u8; 4] = *b"\0REQ";
const RESPONSE: [u8; 4] = *b"\0RES";

/// What a packet is about, with the number that the protocol gives it.
mod kind {
    pub(super) const CAN_DO: u32 = 1;
    pub(super) const PRE_SLEEP: u32 = 4;
    pub(super) const NOOP: u32 = 6;
    pub(super) const SUBMIT_JOB: u32 = 7;
    pub(super) const JOB_CREATED: u32 = 8;
    pub(super) const GRAB_JOB: u32 = 9;
    pub(super) const NO_JOB: u32 = 10;
    pub(super) const JOB_ASSIGN: u32 = 11;
    pub(super) const WORK_COMPLETE: u32 = 13;
}

/// Submits jobs in the foreground, so that results come back by themselves.
pub(crate) struct Submitter {
    wire: Wire,
}

/// The program, if it can be had.
pub(crate) fn program() -> Result<Program, String> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    PROGRAM.get_or_init(|| debian::program("gearmand", "--version", "gearman-job-server")).clone()
}

/// Workers that grab as many jobs at once as the server has.
pub(crate) fn start() -> Result<Started<Submitter>, String> {
    start_with(Appetite::new)
}

/// Workers that grab one job at a time, which is all that the usual client libraries can.
pub(crate) fn start_one_a_grab() -> Result<Started<Submitter>, String> {
    start_with(Appetite::modest)
}

fn start_with(appetite: fn() -> Appetite) -> Result<Started<Submitter>, String> {
    let address = free_address()?;
    let mut command = program()?.command();
    command.arg(format!("--listen={}", address.ip())).arg(format!("--port={}", address.port()));
    command.args(["--log-file=stderr", "--verbose=ERROR"]);
    let mut daemon = Daemon::start(command, PrivateFolder::new()?)?;
    let wire = daemon.connect(|| Wire::tcp(address))?;
    let workers: Vec<_> =
        (0..WORKERS).map(|_| daemon.connect(|| Wire::tcp(address))).collect::<Result<_, _>>()?;
    let mut crew = Crew::new(Some(daemon));
    for worker in workers {
        crew.add(worker, move |wire| work(wire, appetite())).map_err(|error| error.to_string())?;
    }
    Ok(Started { producer: Submitter { wire }, crew })
}

impl Producer for Submitter {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        // Without a name of its own, so that no two jobs are taken for one.
        packet(self.wire.outgoing(), kind::SUBMIT_JOB, &[FUNCTION, b"\0\0", task]);
        Ok(())
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.wire.flush()?;
        let mut came = false;
        while !came {
            self.wire.fill()?;
            while let Some((kind, body)) = first(self.wire.incoming())? {
                match kind {
                    kind::JOB_CREATED => {}
                    kind::WORK_COMPLETE => {
                        let [_handle, result] = parts(body)?;
                        landed(result)?;
                        came = true;
                    }
                    _ => return Err(unexpected("JOB_CREATED or WORK_COMPLETE", body)),
                }
                let bytes = HEADER_BYTES + body.len();
                self.wire.consume(bytes);
            }
        }
        Ok(())
    }
}

/// Grabs jobs and gives each back as it came, until the connection ends.
fn work(mut wire: Wire, mut appetite: Appetite) -> io::Result<()> {
    packet(wire.outgoing(), kind::CAN_DO, &[FUNCTION]);
    let mut results = Vec::new();
    loop {
        wire.outgoing().append(&mut results);
        (0..appetite.jobs()).for_each(|_| packet(wire.outgoing(), kind::GRAB_JOB, &[]));
        wire.flush()?;
        let (mut answers, mut came) = (appetite.jobs(), 0);
        while answers > 0 {
            next(&mut wire, |kind, body| {
                match kind {
                    kind::NO_JOB => answers -= 1,
                    // Sent for an earlier sleep; there is a job, and it is being grabbed.
                    kind::NOOP => {}
                    kind::JOB_ASSIGN => {
                        let [handle, _function, task] = parts(body)?;
                        packet(&mut results, kind::WORK_COMPLETE, &[handle, b"\0", task]);
                        (answers, came) = (answers - 1, came + 1);
                    }
                    _ => return Err(unexpected("JOB_ASSIGN or NO_JOB", body)),
                }
                Ok(())
            })?;
        }
        appetite.learn(came);
        if came == 0 {
            sleep(&mut wire)?;
        }
    }
}

/// Says that it sleeps, and waits to be woken; the server wakes at once whoever has a job waiting.
fn sleep(wire: &mut Wire) -> io::Result<()> {
    packet(wire.outgoing(), kind::PRE_SLEEP, &[]);
    wire.flush()?;
    next(wire, |kind, body| match kind {
        kind::NOOP => Ok(()),
        _ => Err(unexpected("NOOP", body)),
    })
}

fn packet(outgoing: &mut Vec<u8>, kind: u32, body: &[&[u8]]) {
    let length: usize = body.iter().map(|part| part.len()).sum();
    outgoing.extend_from_slice(&REQUEST);
    outgoing.extend_from_slice(&kind.to_be_bytes());
    // Tasks are a few dozen bytes long.
    outgoing.extend_from_slice(&(length as u32).to_be_bytes());
    body.iter().for_each(|part| outgoing.extend_from_slice(part));
}

/// Waits for the next packet, and lets `use_it` have it.
fn next(wire: &mut Wire, use_it: impl FnOnce(u32, &[u8]) -> io::Result<()>) -> io::Result<()> {
    loop {
        if let Some((kind, body)) = first(wire.incoming())? {
            use_it(kind, body)?;
            let bytes = HEADER_BYTES + body.len();
            wire.consume(bytes);
            return Ok(());
        }
        wire.fill()?;
    }
}

/// Kind and body of the first packet, if it is there as a whole.
fn first(bytes: &[u8]) -> io::Result<Option<(u32, &[u8])>> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [m0, m1, m2, m3, k0, k1, k2, k3, l0, l1, l2, l3] = *header;
    if [m0, m1, m2, m3] != RESPONSE {
        return Err(unexpected("a packet of the server", header));
    }
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    Ok(rest.get(..length).map(|body| (u32::from_be_bytes([k0, k1, k2, k3]), body)))
}

/// The parts of a body: zeros stand between them, and the last may hold any.
fn parts<const N: usize>(body: &[u8]) -> io::Result<[&[u8]; N]> {
    let mut found = body.splitn(N, |byte| *byte == 0);
    let parts = [(); N].map(|()| found.next());
    if parts.contains(&None) {
        return Err(unexpected("more parts in a packet", body));
    }
    Ok(parts.map(Option::unwrap_or_default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_once_it_is_whole() {
        let mut bytes = Vec::new();
        packet(&mut bytes, kind::JOB_ASSIGN, &[b"H:1", b"\0echo\0", b"{\0}"]);
        bytes[..4].copy_from_slice(&RESPONSE);
        for end in 0..bytes.len() {
            assert_eq!(first(&bytes[..end]).unwrap(), None);
        }
        let (kind, body) = first(&bytes).unwrap().unwrap();
        assert_eq!(kind, kind::JOB_ASSIGN);
        assert_eq!(parts(body).unwrap(), [&b"H:1"[..], b"echo", b"{\0}"]);
    }

    #[test]
    fn what_is_no_packet_of_the_server_is_refused() {
        let mut request = Vec::new();
        packet(&mut request, kind::GRAB_JOB, &[]);
        assert!(first(&request).unwrap_err().to_string().starts_with("expected a packet of the server, got"));
        assert!(parts::<2>(b"no zero").is_err());
    }
}
