//! The accept loop of a worker: takes in connections, or hands them to the front to be refused.
//!
//! Every worker has a listener of its own and the system spreads connections over them, so a connection is
//! served where it was accepted and no thread wakes another for it. Nothing here waits for a client, and
//! refusing is the front's work, so a loop that is busy refusing still accepts.
//!
//! Not here: serving (`connection.rs`), refusing (`front.rs`).

use crate::api::Api;
use crate::door::{Arrival, Errand, Pass};
use crate::figures::Turned;
use crate::refuse;
use crate::socket::Socket;
use crate::visit::Peer;
use crate::worker;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How many connections are accepted before those that came are served.
const ACCEPTED_PER_TURN: usize = 64;
/// How long nothing is accepted after the system would not let us.
const PAUSE: Duration = Duration::from_millis(20);

/// Where connections come in.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A listener that can be waited for.
struct Ear {
    /// tokio waits for a stream without `unsafe` and hands over its readiness, which it does for no listener;
    /// it does not mind that this socket listens.
    listener: TcpStream,
    is_unix: bool,
}

impl Ear {
    fn new(listener: Listener) -> io::Result<Self> {
        let (descriptor, is_unix) = match listener {
            Listener::Tcp(listener) => (OwnedFd::from(listener), false),
            Listener::Unix(listener) => (OwnedFd::from(listener), true),
        };
        Ok(Self { listener: TcpStream::from_std(descriptor.into())?, is_unix })
    }

    /// Takes the next connection that waits; an error of the kind `WouldBlock` if none does.
    fn accept(&self) -> io::Result<(Socket, Peer)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (descriptor, address) = acceptfrom_with(&self.listener, flags)?;
        Ok(match self.is_unix {
            false => (Socket::Tcp(descriptor.into()), peer(address)),
            true => (Socket::Unix(descriptor.into()), Peer::Unix),
        })
    }
}

/// What one loop works with.
struct Acceptor {
    api: Arc<Api>,
    /// The number of the worker.
    worker: usize,
    /// How many are accepted at once: never so many that those just accepted keep out the rest.
    turn: usize,
    /// Given up for a moment when there are no more descriptors, so that a client can be told.
    spare: Option<File>,
}

/// Accepts until the door closes; then what waits is refused, and the listener is closed.
pub(crate) async fn run(api: Arc<Api>, worker: usize, listener: Listener) -> io::Result<()> {
    let door = Arc::clone(&api.door);
    let inside_max = door.settings.in_flight_max + door.settings.queue_capacity;
    let turn = ACCEPTED_PER_TURN.min(inside_max.div_ceil(2));
    let mut acceptor = Acceptor { api, worker, turn, spare: spare() };
    let ear = Ear::new(listener)?;
    tokio::select! {
        biased;
        () = door.closes() => {}
        never = acceptor.accept(&ear) => match never {},
    }
    // From now on the system turns newcomers away by itself. If it will not, some may come too late to be told.
    let _ = rustix::net::listen(&ear.listener, 0);
    while let Ok((socket, _)) = ear.accept() {
        door.figures.accepted.fetch_add(1, Relaxed);
        acceptor.refuse(Errand::TurnAway(socket, Turned::Draining));
    }
    Ok(())
}

impl Acceptor {
    async fn accept(&mut self, ear: &Ear) -> Infallible {
        loop {
            match self.accept_some(ear) {
                Some(Pause::UntilMoreCome) => {
                    if ear.listener.readable().await.is_err() {
                        // The runtime is about to end.
                        std::future::pending::<()>().await;
                    }
                }
                Some(Pause::ForDescriptors) => tokio::time::sleep(PAUSE).await,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Accepts a bounded number.
    fn accept_some(&mut self, ear: &Ear) -> Option<Pause> {
        for _ in 0..self.turn {
            match ear.listener.try_io(Interest::READABLE, || ear.accept()) {
                Ok((socket, peer)) => self.take_in(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(Pause::UntilMoreCome),
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        self.tell_one(ear);
                        return Some(Pause::ForDescriptors);
                    }
                    // The client gave up before it was accepted, or the network has trouble: the next may do
                    // better.
                    _ => {
                        self.api.door.log.debug(&format!("http: a connection could not be accepted: {error}"))
                    }
                },
            }
        }
        None
    }

    fn take_in(&self, socket: Socket, peer: Peer) {
        let door = &self.api.door;
        door.figures.accepted.fetch_add(1, Relaxed);
        if peer == Peer::Unix && !is_ours(&socket) {
            return self.refuse(Errand::TurnAway(socket, Turned::Stranger));
        }
        // The seat first: nobody idle goes for a newcomer that is then refused.
        let seat = door.sit();
        let entry = match door.clients.open(peer, seat.is_some()) {
            Ok(entry) => entry,
            Err(why) => return self.refuse(Errand::TurnAway(socket, why)),
        };
        let arrival = Arrival { socket, entry, worker: self.worker };
        match seat {
            Some(seat) => {
                arrival.entry.client().bring(Pass::Seat(seat));
                worker::serve(&self.api, arrival);
            }
            None => self.refuse(Errand::Refuse(arrival, Turned::QueueFull)),
        }
    }

    /// Has the front refuse somebody. If that has too much to do already, this tells them and closes.
    fn refuse(&self, errand: Errand) {
        let door = &self.api.door;
        match door.front.send(errand) {
            Err(Errand::Refuse(Arrival { socket, .. }, why) | Errand::TurnAway(socket, why)) => {
                door.turn_away(why);
                // A client that takes no answer gets none.
                let _ = socket.write(&refuse::answer(why, door.retry_after()));
            }
            Err(Errand::Linger(_) | Errand::End) | Ok(()) => {}
        }
    }

    /// There are no more descriptors: gives up the spare one, to tell a client.
    fn tell_one(&mut self, ear: &Ear) {
        if self.spare.take().is_some()
            && let Ok((socket, _)) = ear.accept()
        {
            self.api.door.figures.accepted.fetch_add(1, Relaxed);
            self.refuse(Errand::TurnAway(socket, Turned::NoDescriptors));
        }
        self.spare = spare();
    }
}

/// Why nothing is accepted for a moment.
enum Pause {
    UntilMoreCome,
    ForDescriptors,
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn peer(address: Option<SocketAddrAny>) -> Peer {
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    let ip = match address.map(|address| address.ip()) {
        Some(IpAddr::V6(v6)) => v6.to_canonical(),
        Some(v4) => v4,
        // Whose address is not known is not taken for a program of this machine.
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    if ip.is_loopback() { Peer::Loopback } else { Peer::Remote(ip) }
}

/// Whether a program of this user, or of root, is at the other end.
fn is_ours(socket: &Socket) -> bool {
    let credentials = rustix::net::sockopt::socket_peercred(socket);
    credentials.is_ok_and(|other| other.uid == rustix::process::geteuid() || other.uid.is_root())
}
