//! The daemon's end of the socket to the zygote: orders go out, news of each process come back.
//!
//! News come for the process that was ordered under a number, never for a process id: those are given out again. One
//! thread hears them all and passes each on to the keeper of that process, which may sleep in the channel and is
//! woken there.
//!
//! Not here: what the zygote does with an order (`zygote.rs`), what a keeper does with the news (`keeper.rs`).

use super::fork::Reaped;
use super::parcel;
use super::wire::{News, order_bytes};
use super::zygote::{Hold, Zygote};
use crate::layout::Plan;
use millpond_queue::wpol::v2::Region;
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// What a keeper is told of its process.
#[derive(Debug)]
pub(super) enum Told {
    /// It lives.
    Started { pid: i32, pidfd: OwnedFd },
    /// It could not be started.
    Refused(io::Error),
    /// It has ended.
    Ended(Reaped),
    /// The zygote is gone, and all processes with it.
    Lost,
}

/// Orders processes of the zygote.
pub(super) struct Link {
    socket: Arc<OwnedFd>,
    orders: Arc<Mutex<Orders>>,
    plan: Plan,
    zygote: Mutex<Option<Hold>>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Orders {
    number: u64,
    /// Processes that live or are about to.
    open: HashMap<u64, Entry>,
    /// The zygote has ended.
    is_gone: bool,
}

struct Entry {
    tell: Sender<Told>,
    /// Where the keeper sleeps.
    answers: Region,
}

impl Link {
    pub(super) fn new(zygote: Zygote) -> io::Result<Self> {
        let Zygote { hold, plan } = zygote;
        let (socket, orders) = (Arc::clone(&hold.socket), Arc::new(Mutex::new(Orders::default())));
        let (heard, of_listener) = (Arc::clone(&socket), Arc::clone(&orders));
        let listener = thread::Builder::new().name("millpond-zygote".to_owned());
        let listener = listener.spawn(move || listen(&heard, &of_listener))?;
        Ok(Self {
            socket,
            orders,
            plan,
            zygote: Mutex::new(Some(hold)),
            listener: Mutex::new(Some(listener)),
        })
    }

    /// How the memory of a process is laid out.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Orders a process with this memory and this socket. What becomes of it is told; `answers` is closed when it has
    /// ended.
    pub(super) fn order(
        &self,
        memory: BorrowedFd<'_>,
        line: BorrowedFd<'_>,
        answers: Region,
    ) -> io::Result<Receiver<Told>> {
        let (tell, told) = channel();
        let number = {
            let mut orders = lock(&self.orders);
            if orders.is_gone {
                return Err(io::Error::other("the process that starts the others has ended"));
            }
            orders.number += 1;
            let number = orders.number;
            orders.open.insert(number, Entry { tell, answers });
            number
        };
        let sent = parcel::send(&*self.socket, &order_bytes(number), &[memory, line], SendFlags::empty());
        if let Err(error) = sent {
            lock(&self.orders).open.remove(&number);
            return Err(error);
        }
        Ok(told)
    }

    /// Whether no process can be had any more.
    pub(super) fn is_gone(&self) -> bool {
        lock(&self.orders).is_gone
    }

    /// Ends the zygote, and whatever processes are left.
    pub(super) fn close(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            let _ = shutdown(&*self.socket, Shutdown::Both);
            let _ = listener.join();
            drop(self.zygote.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(socket: &OwnedFd, orders: &Mutex<Orders>) {
    while let Ok(Some(parcel)) = parcel::receive(socket) {
        let Some((number, news)) = News::from_bytes(&parcel.bytes) else { continue };
        let mut orders = lock(orders);
        let told = match news {
            News::Started { pid } => match parcel.descriptors.into_iter().next() {
                Some(pidfd) => Told::Started { pid, pidfd },
                None => Told::Refused(io::Error::other("no descriptor came for the process")),
            },
            News::Refused { errno } => Told::Refused(io::Error::from_raw_os_error(errno)),
            News::Ended { status, memory_max } => Told::Ended(Reaped { status, memory_max }),
        };
        let is_last = !matches!(told, Told::Started { .. });
        if let Some(entry) = orders.open.get(&number) {
            // A keeper that no longer listens has no use for it.
            let _ = entry.tell.send(told);
            if is_last {
                entry.answers.close();
                orders.open.remove(&number);
            }
        }
    }
    let mut orders = lock(orders);
    orders.is_gone = true;
    for (_, entry) in orders.open.drain() {
        let _ = entry.tell.send(Told::Lost);
        entry.answers.close();
    }
}

fn lock(orders: &Mutex<Orders>) -> MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}
