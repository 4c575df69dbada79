//! A socket as hyper wants it, which tokio hears of only if somebody has to wait.
//!
//! Many clients send one request and close. Their whole request is there when they are accepted and the
//! answer fits into the socket, so the selector need never know them: that saves two system calls and a
//! wake-up. So reads and writes are tried on the bare socket first, and it is handed to tokio when one would
//! block, or when hyper has nothing more to do in the first round.
//!
//! The wire also notes what the client does (`clients.rs`), since it is the first to see.
//!
//! Not here: a socket that tokio knows (`link.rs`), and when its small answers go out (`outbox.rs`).

use crate::clients::Client;
use crate::link::Link;
use crate::outbox;
use crate::socket::Socket;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

thread_local! {
    /// Where bytes lie between the socket and hyper's own buffer. One copy of a head costs less than to
    /// write where nothing was written before, which needs `unsafe`.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// What the first round of a connection has come to. Shared by the wire and whoever drives it.
#[derive(Debug, Default)]
pub(crate) struct FirstRound {
    /// It is over: from now on reads wait for the selector.
    is_over: AtomicBool,
    /// A read was put off because of it.
    put_off: AtomicBool,
}

impl FirstRound {
    /// Ends it. Says whether a read was put off, which must be tried again.
    pub(crate) fn end(&self) -> bool {
        self.is_over.store(true, Relaxed);
        self.put_off.swap(false, Relaxed)
    }
}

/// A socket as hyper wants it.
pub(crate) struct Wire {
    io: Io,
    client: Arc<Client>,
    round: Arc<FirstRound>,
}

enum Io {
    /// The selector does not know it. `is_drained`: the last read took all that was there.
    Bare { socket: Socket, is_drained: bool },
    /// The selector knows it. The outbox holds it too while an answer lies there.
    Known(Arc<Link>),
    /// While it is handed over, or after that failed.
    Lost,
}

impl Wire {
    pub(crate) fn new(socket: Socket, client: Arc<Client>, round: Arc<FirstRound>) -> Self {
        Self { io: Io::Bare { socket, is_drained: false }, client, round }
    }

    /// The socket, away from tokio.
    pub(crate) fn into_socket(self) -> Option<Socket> {
        match self.io {
            Io::Bare { socket, .. } => Some(socket),
            Io::Known(link) => {
                // The outbox may hold it too, and what is in there goes out first.
                outbox::send();
                Arc::into_inner(link)?.into_socket()
            }
            Io::Lost => None,
        }
    }

    /// Lets the selector know the socket.
    fn register(&mut self) -> io::Result<()> {
        if !matches!(self.io, Io::Bare { .. }) {
            return Ok(());
        }
        let Io::Bare { socket, .. } = std::mem::replace(&mut self.io, Io::Lost) else { return Ok(()) };
        self.io = Io::Known(Arc::new(Link::new(socket, Arc::clone(&self.client))?));
        Ok(())
    }

    fn read_bare(&mut self, scratch: &mut [u8]) -> io::Result<Option<usize>> {
        let Io::Bare { socket, is_drained } = &mut self.io else { return Ok(None) };
        if *is_drained {
            return Ok(None);
        }
        match socket.read(scratch) {
            Ok(count) => {
                *is_drained = 0 < count && count < scratch.len();
                Ok(Some(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *is_drained = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn poll_read_into(&mut self, context: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Some(count) = self.read_bare(scratch)? {
            return Poll::Ready(Ok(count));
        }
        // Nothing is there. If a request is under way, its answer may be the end of it all.
        let is_waited_for = !self.client.is_busy();
        if is_waited_for {
            // Its head is not complete, so it makes room for those who have sent all of theirs.
            drop(self.client.take_pass());
        }
        if matches!(self.io, Io::Bare { .. }) && !is_waited_for && !self.round.is_over.load(Relaxed) {
            self.round.put_off.store(true, Relaxed);
            return Poll::Pending;
        }
        self.register()?;
        match &self.io {
            Io::Known(link) => link.poll_read(context, scratch),
            Io::Bare { .. } | Io::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_write_from(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Io::Bare { socket, .. } = &self.io {
            match socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        self.register()?;
        match &self.io {
            Io::Known(link) if !link.has_rest() && outbox::put(link, bytes) => Poll::Ready(Ok(bytes.len())),
            Io::Known(link) => {
                // What was said before goes out before it.
                outbox::send();
                link.poll_write(context, bytes)
            }
            Io::Bare { .. } | Io::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let room = buffer.remaining().min(scratch.len());
            let count = ready!(self.poll_read_into(context, &mut scratch[..room]))?;
            if count > 0 {
                self.client.has_spoken();
            } else if self.client.is_being_answered() {
                // It will say nothing more, and still reads. hyper would drop the rest of the answer; it comes back
                // when that is written, and sees the end then.
                return Poll::Pending;
            }
            buffer.put_slice(&scratch[..count]);
            Poll::Ready(Ok(()))
        })
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = self.poll_write_from(context, bytes);
        if done.is_pending() {
            self.client.stalls();
        } else {
            self.client.flows();
        }
        done
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper asks for this when it has nothing left to write.
        if let Io::Known(link) = &self.io {
            ready!(link.poll_rest(context))?;
        }
        self.client.has_all();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whoever drives the connection decides how it ends; only what was said is written first.
        if let Io::Known(link) = &self.io {
            outbox::send();
            ready!(link.poll_rest(context))?;
        }
        Poll::Ready(Ok(()))
    }
}
