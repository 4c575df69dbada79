//! What the groups about tasks ask of a task server: take a small task in, let it be run, give its result
//! back.
//!
//! A server runs as a process of its own. Where it runs no tasks itself, two workers stand beside it, each a
//! thread of the bench with a connection of its own, that take tasks and send them back as they are. One
//! producer puts tasks and gets results. Every client here speaks the server's own protocol, puts as many
//! requests into one write as the protocol allows, and parses nothing that it need not.
//!
//! Not here: how many tasks are under way, and what is measured (`groups/tasks/`).

pub(crate) mod beanstalkd;
pub(crate) mod gearmand;
pub(crate) mod millpond_daemon;
pub(crate) mod millpond_service;
pub(crate) mod redis;

use crate::daemon::Daemon;
use crate::wire::{HangUp, Wire};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// How many run the tasks.
pub(crate) const WORKERS: usize = 2;

/// Who brings the tasks and wants their results.
pub(crate) trait Producer {
    /// Lays a task, a JSON object, beside the others that leave with the next exchange.
    fn put(&mut self, task: &[u8]) -> io::Result<()>;

    /// Sends what was put, waits until there is a result, and hands on all that are there, in any order.
    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;
}

/// A producer, and the server and the workers that are there for it.
pub(crate) struct Started<P> {
    pub(crate) producer: P,
    pub(crate) crew: Crew,
}

/// Starts a peer; done once for every round.
pub(crate) type Start<P> = fn() -> Result<Started<P>, String>;

/// The workers, and the server behind them.
pub(crate) struct Crew {
    /// Whether the workers were sent home: a connection that ends then is no trouble.
    dismissed: Arc<AtomicBool>,
    hang_ups: Vec<HangUp>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    /// Dropped last: it ends the server. None if everything is in this process.
    _daemon: Option<Daemon>,
}

impl Crew {
    pub(crate) fn new(daemon: Option<Daemon>) -> Self {
        Self { dismissed: Arc::default(), hang_ups: Vec::new(), workers: Vec::new(), _daemon: daemon }
    }

    /// Lets `work` go on, on a thread of its own, until its connection is ended.
    pub(crate) fn add<F>(&mut self, wire: Wire, work: F) -> io::Result<()>
    where
        F: FnOnce(Wire) -> io::Result<()> + Send + 'static,
    {
        self.hang_ups.push(wire.hang_up()?);
        let dismissed = Arc::clone(&self.dismissed);
        self.workers.push(thread::spawn(move || {
            let end = work(wire);
            if dismissed.load(Ordering::Acquire) { Ok(()) } else { end }
        }));
        Ok(())
    }

    /// Sends the workers home, and says if one of them had met with trouble of its own.
    pub(crate) fn dismiss(&mut self) -> Result<(), String> {
        self.dismissed.store(true, Ordering::Release);
        self.hang_ups.clear();
        let ends = self.workers.drain(..).map(JoinHandle::join);
        let troubles = ends.map(|end| match end {
            Ok(end) => end.err().map(|error| error.to_string()),
            Err(_) => Some("it panicked; its message stands above".to_owned()),
        });
        troubles.flatten().next().map_or(Ok(()), |trouble| Err(format!("a worker: {trouble}")))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Whoever wanted to know of trouble has asked before.
        let _ = self.dismiss();
    }
}

/// How many jobs a worker asks for at once, where one request brings one job.
///
/// The first request waits until there is one, the others only look. A look that finds nothing costs the
/// server almost as much as one that finds something, so there is one more of them than jobs that came the
/// last time.
pub(crate) struct Appetite {
    jobs: usize,
    jobs_max: usize,
}

impl Appetite {
    /// For a worker that takes as many as half of what can be under way.
    pub(crate) fn new() -> Self {
        Self { jobs: 1, jobs_max: 32 }
    }

    /// For a worker that takes one job at a time.
    pub(crate) fn modest() -> Self {
        Self { jobs: 1, jobs_max: 1 }
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs
    }

    pub(crate) fn learn(&mut self, came: usize) {
        self.jobs = (came + 1).min(self.jobs_max);
    }
}

/// The server said what it should not have.
fn unexpected(expected: &str, came: &[u8]) -> io::Error {
    let shown = String::from_utf8_lossy(&came[..came.len().min(80)]).into_owned();
    io::Error::new(io::ErrorKind::InvalidData, format!("expected {expected}, got {shown:?}"))
}
