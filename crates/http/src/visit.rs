//! One request on its way through the door: where it comes from, since when, and the place it holds.
//!
//! The place is what bounds the work at once. A request that only waits, for a task or for events, gives it
//! back first (`park`), so that those who wait do not keep out those who work.

use crate::door::Place;
use std::net::IpAddr;
use std::time::Instant;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A program of this machine, over TCP.
    Loopback,
    /// Another machine.
    Remote(IpAddr),
    /// A program of this user, over the Unix socket.
    Unix,
}

/// One request on its way through the door.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) peer: Peer,
    /// None once it is parked, and for the few requests that are served without one.
    pub(crate) place: Option<Place>,
    /// When its head was complete.
    pub(crate) began: Instant,
}

impl Visit {
    /// From here on the request only waits.
    pub(crate) fn park(&mut self) {
        self.place = None;
    }
}
