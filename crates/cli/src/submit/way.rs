//! The way that requests take: to a daemon on this machine, or to a queue on a NATS server.
//!
//! Both are answered by frames, so nothing else of `submit` knows which way it is. Over NATS nobody judges a
//! request before a daemon has it, so the client does; a full queue is told there as here.

use crate::daemon::{Answer, Daemon, STEP, Waited};
use crate::failure::Failure;
use crate::interrupt;
use crate::nats::{answer_of, failure};
use millpond_local::{Flags, Kind};
use millpond_nats::Submission;
use std::time::Instant;

/// Where requests go and answers come from.
pub(super) enum Way<'a> {
    /// The control socket, and what the daemon is asked to answer.
    Daemon(Box<Daemon>, Flags),
    /// A queue.
    Nats(Box<Submission<'a>>),
}

impl Way<'_> {
    /// Sends a request, at the latest when somebody waits for an answer.
    pub(super) fn send(&mut self, tag: u64, request: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Daemon(daemon, flags) => daemon.send(Kind::Submit, *flags, tag, request),
            Self::Nats(tasks) => tasks.send(tag, request).map_err(|error| failure(&error)),
        }
    }

    /// The next answer, until a moment.
    pub(super) fn wait(&mut self, until: Instant) -> Result<Waited, Failure> {
        let tasks = match self {
            Self::Daemon(daemon, _) => return daemon.wait(Some(until)),
            Self::Nats(tasks) => tasks,
        };
        loop {
            if interrupt::is_pressed() {
                return Ok(Waited::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            if let Some(heard) = tasks.wait(left.min(STEP)).map_err(|error| failure(&error))? {
                return Ok(Waited::Answer(answer_of(heard)));
            }
            if left.is_zero() {
                return Ok(Waited::TimeOver);
            }
        }
    }

    /// An answer that has come already.
    pub(super) fn buffered(&mut self) -> Option<Answer> {
        match self {
            Self::Daemon(daemon, _) => daemon.buffered(),
            Self::Nats(tasks) => tasks.buffered().map(answer_of),
        }
    }
}
