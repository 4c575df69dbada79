//! A connection that the selector knows: it reads and writes when it can, and keeps what could not be written.
//!
//! Small answers are not written one by one but handed to the `outbox.rs` of the worker, which writes those of a
//! turn together. What the socket then has no room for comes back here, and the connection's own task writes it
//! when there is room again; until then nothing else is written.

use crate::clients::Client;
use crate::socket::{self, Socket};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A connection that the selector knows. Only the thread of its worker touches it.
#[derive(Debug)]
pub(crate) struct Link {
    /// tokio waits for any descriptor and does not mind what kind of stream it is; bytes move without it.
    stream: TcpStream,
    is_unix: bool,
    client: Arc<Client>,
    /// Whether anything is in `rest`, so that the lock is not taken for nothing.
    has_rest: AtomicBool,
    rest: Mutex<Rest>,
}

/// What the outbox could not get rid of.
#[derive(Debug, Default)]
struct Rest {
    bytes: Vec<u8>,
    /// How many of them are written by now.
    written: usize,
    error: Option<io::Error>,
}

impl Link {
    pub(crate) fn new(socket: Socket, client: Arc<Client>) -> io::Result<Self> {
        let (descriptor, is_unix) = match socket {
            Socket::Tcp(stream) => {
                // Whoever stays is answered more than once, and small answers must not wait for each other.
                // It fails only if the other side has gone.
                let _ = stream.set_nodelay(true);
                (OwnedFd::from(stream), false)
            }
            Socket::Unix(stream) => (OwnedFd::from(stream), true),
        };
        let stream = TcpStream::from_std(descriptor.into())?;
        Ok(Self { stream, is_unix, client, has_rest: AtomicBool::new(false), rest: Mutex::default() })
    }

    /// The socket, away from tokio.
    pub(crate) fn into_socket(self) -> Option<Socket> {
        let descriptor = OwnedFd::from(self.stream.into_std().ok()?);
        Some(if self.is_unix { Socket::Unix(descriptor.into()) } else { Socket::Tcp(descriptor.into()) })
    }

    pub(crate) fn poll_read(&self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let read = || socket::read(&self.stream, into);
            match self.stream.try_io(Interest::READABLE, read) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) => {
                    if 0 < count && count < into.len() {
                        // That was all, so the next read need not ask the system.
                        self.forget(Interest::READABLE);
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes directly, after what is left from before.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_rest(context))?;
        loop {
            match self.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_write_ready(context))?;
                }
                done => return Poll::Ready(done),
            }
        }
    }

    /// Writes what the outbox left.
    pub(crate) fn poll_rest(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_rest() {
            return Poll::Ready(Ok(()));
        }
        let mut rest = self.lock();
        if let Some(error) = rest.error.take() {
            return Poll::Ready(Err(error));
        }
        while rest.written < rest.bytes.len() {
            match self.write(&rest.bytes[rest.written..]) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest.written += count;
                    self.client.flows();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.client.stalls();
                    ready!(self.stream.poll_write_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        *rest = Rest::default();
        self.has_rest.store(false, Relaxed);
        // A read may have been put off until the answer was written.
        context.waker().wake_by_ref();
        Poll::Ready(Ok(()))
    }

    /// Whether something is left to be written.
    pub(crate) fn has_rest(&self) -> bool {
        self.has_rest.load(Relaxed)
    }

    /// Writes an answer of the outbox. What there is no room for is kept, and the connection's task told.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut sent = 0;
        let mut failure = None;
        while sent < bytes.len() && !self.has_rest() {
            match self.write(&bytes[sent..]) {
                Ok(count) if count > 0 => sent += count,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    failure = Some(error);
                    break;
                }
                Ok(_) | Err(_) => break,
            }
        }
        if sent == bytes.len() {
            return;
        }
        let mut rest = self.lock();
        rest.bytes.extend_from_slice(&bytes[sent..]);
        rest.error = rest.error.take().or(failure);
        drop(rest);
        self.has_rest.store(true, Relaxed);
        self.client.is_held_up();
    }

    /// Writes without asking tokio, which mostly would say that there is room.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let done = socket::write(&self.stream, bytes);
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.forget(Interest::WRITABLE);
        }
        done
    }

    /// Has tokio forget that the socket was ready, by telling it that it was not. What happens later is a new event.
    fn forget(&self, interest: Interest) {
        let _ = self.stream.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }

    fn lock(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
