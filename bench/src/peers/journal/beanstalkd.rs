//! beanstalkd with its log synced after every job (`-b DIR -f0`): a connection for each submitter.
//!
//! It has one thread and no group commit, so each put has a sync of its own. With its default (`-f50`) it answers
//! before anything is on the disk, and so answers another question.
//!
//! Not here: where the program comes from, and its other uses (`peers/tasks/beanstalkd.rs`).

use super::Store;
use crate::daemon::{Daemon, PrivateFolder, free_address};
use crate::peers::tasks::beanstalkd::program;
use crate::wire::Wire;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub(crate) struct Beanstalkd {
    daemon: Daemon,
    wires: Vec<Mutex<Wire>>,
}

fn serve(folder: &Path) -> Result<(Daemon, std::net::SocketAddr), String> {
    let address = free_address()?;
    let log = folder.join("beanstalkd");
    std::fs::create_dir_all(&log).map_err(|error| format!("{}: cannot be made: {error}", log.display()))?;
    let mut command = program()?.command();
    command.arg("-l").arg(address.ip().to_string()).arg("-p").arg(address.port().to_string());
    command.arg("-b").arg(&log).arg("-f0");
    Ok((Daemon::start(command, PrivateFolder::new()?)?, address))
}

impl Store for Beanstalkd {
    fn start(folder: &Path, submitters: usize) -> Result<Self, String> {
        let (mut daemon, address) = serve(folder)?;
        let wires: Result<_, String> =
            (0..submitters).map(|_| daemon.connect(|| Wire::tcp(address)).map(Mutex::new)).collect();
        Ok(Self { wires: wires?, daemon })
    }

    fn submit(&self, submitter: usize, payload: &[u8]) -> Result<(), String> {
        let mut wire = self.wires[submitter].lock().unwrap_or_else(PoisonError::into_inner);
        put(&mut wire, payload).map_err(|error| format!("beanstalkd: {error}"))
    }

    fn count(self, folder: &Path) -> Result<u64, String> {
        // Killed, as on every drop; what was answered is in its log.
        drop(self.daemon);
        let (mut daemon, address) = serve(folder)?;
        let mut wire = daemon.connect(|| Wire::tcp(address))?;
        ready(&mut wire).map_err(|error| format!("beanstalkd: {error}"))
    }
}

fn put(wire: &mut Wire, payload: &[u8]) -> io::Result<()> {
    write!(wire.outgoing(), "put 0 0 60 {}\r\n", payload.len())?;
    wire.outgoing().extend_from_slice(payload);
    wire.outgoing().extend_from_slice(b"\r\n");
    let line = ask(wire)?;
    if line.starts_with("INSERTED") { Ok(()) } else { Err(io::Error::other(line)) }
}

/// How many jobs wait, of which the server says so in a line of a longer answer.
fn ready(wire: &mut Wire) -> io::Result<u64> {
    wire.outgoing().extend_from_slice(b"stats\r\n");
    let mut line = ask(wire)?;
    loop {
        if let Some(count) = line.strip_prefix("current-jobs-ready: ") {
            return count.parse().map_err(io::Error::other);
        }
        line = read_line(wire)?;
    }
}

fn ask(wire: &mut Wire) -> io::Result<String> {
    wire.flush()?;
    read_line(wire)
}

fn read_line(wire: &mut Wire) -> io::Result<String> {
    loop {
        let incoming = wire.incoming();
        if let Some(end) = incoming.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(incoming[..end].trim_ascii_end()).into_owned();
            wire.consume(end + 1);
            return Ok(line);
        }
        wire.fill()?;
    }
}
