//! Opening listeners: one for each worker at the same port, and a Unix socket.
//!
//! The system spreads connections over listeners that share a port. It would also let another daemon of this
//! user share it, so whether the port is free is found out first, without sharing.

use crate::http_door::OpenError;
use millpond_tasks::config::WEB_ADDRESS;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// How many connections may wait at a listener to be accepted.
const BACKLOG: i32 = 1024;

/// Listeners where it was told to be, or at the usual place, or at any free port of this machine.
pub(crate) fn at_port(wanted: Option<SocketAddr>, count: usize) -> Result<Vec<TcpListener>, OpenError> {
    let usual: SocketAddr = WEB_ADDRESS.parse().expect("the usual address is one");
    let address = wanted.unwrap_or(usual);
    let opened = match share(address, count) {
        Err(error) if wanted.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
            share(SocketAddr::new(usual.ip(), 0), count)
        }
        done => done,
    };
    opened.map_err(|error| OpenError::Listen(address.to_string(), error))
}

/// So many listeners at one port.
fn share(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    if count == 1 {
        return Ok(vec![open(address, false)?]);
    }
    // Closed again at once; it only shows that nobody else is there, and finds a port if any will do.
    let address = open(address, false)?.local_addr()?;
    (0..count).map(|_| open(address, true)).collect()
}

fn open(address: SocketAddr, is_shared: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A daemon that starts again must not wait for the connections of the last one to be forgotten.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// A listener on a Unix socket. One that nobody listens on any more is replaced.
pub(crate) fn at_path(path: &Path) -> Result<UnixListener, OpenError> {
    let failed = |error| OpenError::Listen(path.display().to_string(), error);
    let is_socket = fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket());
    let is_dead = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(is_dead) {
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}
