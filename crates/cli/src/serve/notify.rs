//! What the service manager is told: that the daemon is ready, that it drains, and how much longer that may take.
//!
//! systemd hands a service the address of a socket (`NOTIFY_SOCKET`), and one datagram says it all; so there is no
//! library for it here. `Type=notify` then means that `systemctl start` returns once the doors are open, with the
//! journal read. A drain may take as long as `drain_timeout` says: the manager is told, or a limit in the unit that
//! somebody forgot to raise would kill a daemon which does what it was asked to.
//!
//! Nobody need listen. Without the variable, or if the datagram cannot be sent, the daemon goes on: it does not depend
//! on who started it.

use millpond_tasks::Log;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// What closing takes beside the drain, with room to spare: every door and every handler has a limit of its own.
const CLOSING: Duration = Duration::from_secs(60);

/// Whoever started the daemon and wants to hear how it goes.
#[derive(Debug)]
pub(super) struct Manager {
    address: Option<OsString>,
    log: Log,
}

impl Manager {
    /// The one that the environment names, if there is one.
    pub(super) fn from_environment(log: &Log) -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty());
        Self { address, log: log.clone() }
    }

    /// The doors are open.
    pub(super) fn ready(&self, workers: usize) {
        self.tell(&format!("READY=1\nSTATUS=running with {workers} workers\n"));
    }

    /// The daemon was asked to end, and may take so long for what it has.
    pub(super) fn stopping(&self, drain: Duration) {
        let most = drain.saturating_add(CLOSING).as_micros();
        self.tell(&format!("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={most}\n"));
    }

    fn tell(&self, text: &str) {
        let Some(address) = &self.address else { return };
        if let Err(error) = send(address, text.as_bytes()) {
            let address = address.to_string_lossy();
            self.log.warn(&format!("NOTIFY_SOCKET {address}: the service manager cannot be told: {error}"));
        }
    }
}

/// A path, or behind an `@` a name that lies in no directory.
fn send(address: &OsStr, text: &[u8]) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up the daemon.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn manager(address: Option<&OsStr>) -> (Manager, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |_, line| kept.lock().expect("no test panics").push(line.to_owned()));
        (Manager { address: address.map(OsStr::to_owned), log }, lines)
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut text = [0; 512];
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has a time limit");
        let length = socket.recv(&mut text).expect("nothing was told");
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    #[test]
    fn a_manager_with_an_abstract_address_hears_of_the_start_and_of_the_longest_end() {
        let name = format!("millpond-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("the name is short");
        let socket = UnixDatagram::bind_addr(&address).expect("nobody else has this name");
        let (manager, lines) = manager(Some(OsStr::new(&format!("@{name}"))));
        manager.ready(4);
        assert_eq!(heard(&socket), "READY=1\nSTATUS=running with 4 workers\n");
        manager.stopping(Duration::from_secs(30));
        assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=90000000\n");
        assert!(lines.lock().expect("no test panics").is_empty());
    }

    #[test]
    fn a_manager_that_is_gone_costs_a_line_in_the_log_and_none_costs_nothing() {
        let (gone, lines) = manager(Some(OsStr::new("/nowhere/millpond-notify")));
        gone.ready(1);
        let said = lines.lock().expect("no test panics").join("\n");
        assert!(said.starts_with("NOTIFY_SOCKET /nowhere/millpond-notify: the service manager"), "{said}");
        let (none, lines) = manager(None);
        none.stopping(Duration::MAX);
        assert!(lines.lock().expect("no test panics").is_empty());
    }
}
