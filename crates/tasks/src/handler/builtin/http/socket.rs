//! The connection under a request: made to addresses that were judged, ended by one deadline, cut by a stop.
//!
//! The client of the crate `ureq` speaks HTTP and TLS over whatever it is given. It is given this, because
//! the time allowed is one for the whole request: however slowly a peer sends or takes its bytes, every
//! wait here is only for what is left. A stop shuts the socket, also one that is still connecting.
//!
//! Not here: which addresses (`hosts.rs`, `lookup.rs`).

use super::stopper::Stopper;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};
use ureq::{Error, Timeout};

const TIMED_OUT: Error = Error::Timeout(Timeout::Global);

/// Makes the connections of one request.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) deadline: Instant,
    pub(super) stopper: Arc<Stopper>,
}

impl Connector<()> for Dial {
    type Out = Socket;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Socket>, Error> {
        let mut answer = Err(Error::ConnectionFailed);
        for (index, address) in self.addresses.iter().enumerate() {
            let left = self.addresses.len() - index;
            // An address that does not answer must leave time for the others.
            let share = time_left(self.deadline)? / u32::try_from(left).unwrap_or(u32::MAX);
            answer =
                dial(*address, Instant::now() + share, &self.stopper).map_err(|error| match error.kind() {
                    ErrorKind::TimedOut => TIMED_OUT,
                    _ => Error::Io(error),
                });
            if answer.is_ok() || self.stopper.is_stopped() {
                break;
            }
        }
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        let stream = answer?;
        Ok(Some(Socket { stream, buffers: LazyBuffers::new(input, output), deadline: self.deadline }))
    }
}

/// Connects without waiting longer than until `deadline`, and not at all once it is stopped.
pub(super) fn dial(address: SocketAddr, deadline: Instant, stopper: &Stopper) -> io::Result<Arc<TcpStream>> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = Arc::new(TcpStream::from(socket_with(family, SocketType::STREAM, flags, None)?));
    let of_stop = Arc::clone(&stream);
    // A socket that is shut already has nothing to shut.
    let stop = move || drop(of_stop.shutdown(Shutdown::Both));
    stopper.begin_wait(stop).map_err(|_| ErrorKind::Interrupted)?;
    match connect(&stream, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            // A stop that came before the connection began has shut nothing. One that comes now does.
            if stopper.is_stopped() {
                return Err(ErrorKind::Interrupted.into());
            }
            wait_until_writable(&stream, deadline)?;
            socket_error(&stream)??;
        }
        Err(errno) => return Err(errno.into()),
    }
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn wait_until_writable(stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn time_left(deadline: Instant) -> Result<Duration, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(TIMED_OUT) } else { Ok(left) }
}

/// A connection that keeps to its deadline.
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
    deadline: Instant,
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let mut sent = 0;
        while sent < amount {
            self.stream.set_write_timeout(Some(time_left(self.deadline)?))?;
            match (&*self.stream).write(&self.buffers.output()[sent..amount]) {
                Ok(0) => return Err(Error::Io(ErrorKind::WriteZero.into())),
                Ok(count) => sent += count,
                Err(error) => pass_over(error)?,
            }
        }
        Ok(())
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        loop {
            self.stream.set_read_timeout(Some(time_left(self.deadline)?))?;
            match (&*self.stream).read(self.buffers.input_append_buf()) {
                Ok(count) => {
                    self.buffers.input_appended(count);
                    return Ok(count > 0);
                }
                Err(error) => pass_over(error)?,
            }
        }
    }

    /// Nobody asks again: a connection serves one request.
    fn is_open(&mut self) -> bool {
        false
    }
}

/// An error after which the loop looks at the clock and tries again, or one that ends it.
fn pass_over(error: io::Error) -> Result<(), Error> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
        _ => Err(Error::Io(error)),
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Socket").field("stream", &self.stream).finish()
    }
}

/// The one TLS set-up of all requests: reading the root certificates takes longer than many a request.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedTls(Arc<RustlsConnector>);

impl<In: Transport> Connector<In> for SharedTls {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, chained)
    }
}

/// The addresses are known before the client is asked, and it finds no others.
#[derive(Debug)]
pub(super) struct AlreadyFound;

impl Resolver for AlreadyFound {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}
