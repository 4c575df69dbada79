//! One worker process, as the daemon holds it: its channel, its socket, and the descriptor by which it is killed.
//!
//! Not here: its life (`keeper.rs`), what happens inside (`worker.rs`).

use super::link::{Link, Told};
use super::parcel;
use super::wire::{kind, order_bytes};
use crate::channel::{Channel, Message, Receiver, SendError, Sender};
use millpond_queue::wpol::v2::Region;
use rustix::net::{SendFlags, Shutdown, shutdown};
use rustix::process::{Signal, pidfd_send_signal};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the zygote may take to answer an order.
const ORDER_WAIT: Duration = Duration::from_secs(10);

/// What everybody in the daemon may do with a process.
pub(super) struct Process {
    pub(super) pid: i32,
    pidfd: OwnedFd,
    line: OwnedFd,
    /// Whoever gives it a task. It has one at a time, so nobody waits here.
    sender: Mutex<Sender>,
    answers: Region,
}

/// What only its keeper has.
pub(super) struct Held {
    pub(super) receiver: Receiver,
    pub(super) told: mpsc::Receiver<Told>,
}

impl Process {
    /// Has one made. It is not ready yet.
    pub(super) fn order(link: &Link) -> Result<(Self, Held), String> {
        let (channel, memory) = Channel::make(link.plan()).map_err(|error| error.to_string())?;
        let Channel { sender, receiver } = channel;
        let refused = |error: io::Error| format!("a worker process could not be started: {error}");
        let (ours, theirs) = parcel::pair().map_err(refused)?;
        let answers = receiver.region();
        let told = link.order(memory.as_fd(), theirs.as_fd(), answers.clone()).map_err(refused)?;
        match told.recv_timeout(ORDER_WAIT) {
            Ok(Told::Started { pid, pidfd }) => {
                let process = Self { pid, pidfd, line: ours, sender: Mutex::new(sender), answers };
                Ok((process, Held { receiver, told }))
            }
            Ok(Told::Refused(error)) => Err(refused(error)),
            Ok(Told::Ended(_) | Told::Lost) => Err(refused(io::Error::other("its parent has ended"))),
            Err(_) => Err(refused(io::Error::other("its parent does not answer"))),
        }
    }

    /// The right to give it something, until it is dropped.
    pub(super) fn sender(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the handler to stop. Never waits.
    pub(super) fn ask_to_stop(&self, number: u64) {
        // If there is no room for that, it has been asked often enough.
        let _ = parcel::send(&self.line, &order_bytes(number), &[], SendFlags::DONTWAIT);
    }

    /// Tells it that nothing more will come. It ends by itself.
    pub(super) fn hang_up(&self) {
        let _ = shutdown(&self.line, Shutdown::Both);
    }

    pub(super) fn kill(&self) {
        // It may have ended before; the descriptor is of this process and never of another.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// How much memory it uses that is its own, in bytes. None if it has ended.
    pub(super) fn memory(&self) -> Option<u64> {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.pid)).ok()?;
        let mut pages = pages.split(' ').map(|field| field.parse::<u64>());
        let (_, resident, shared) = (pages.next()?, pages.next()?.ok()?, pages.next()?.ok()?);
        Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
    }

    /// Wakes its keeper for good.
    pub(super) fn wake_keeper(&self) {
        self.answers.close();
    }
}

/// Gives a task to a process that has none.
pub(super) fn give(mut sender: MutexGuard<'_, Sender>, number: u64, body: &[u8]) -> Result<(), SendError> {
    sender.send(&Message { kind: kind::TASK, number, word: 0, sent_ns: 0, body })
}
