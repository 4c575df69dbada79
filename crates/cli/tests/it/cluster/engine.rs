//! A real nats-server of one test: on a port of its own, with a store of its own, killed and started again at will.
//!
//! A machine without the program fails these tests and says how to get it; a test that passed because its server was
//! missing would be worse than none.
//!
//! Not here: what is said to it (`wire.rs`), what stands between it and a daemon (`link.rs`).

use super::until;
use super::wire::Wire;
use crate::daemon::signal;
use serde_json::Value;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server, and where everything of it lies.
pub(super) struct Engine {
    child: Option<Child>,
    address: SocketAddr,
    place: PathBuf,
}

impl Engine {
    /// Starts one that listens at this address of the machine and keeps everything below `place`.
    pub(super) fn start(host: Ipv4Addr, place: &Path) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut engine = Self { child: None, address, place: place.to_owned() };
        engine.start_again();
        engine
    }

    /// On the same port, with what the last one has left.
    pub(super) fn start_again(&mut self) {
        assert!(self.child.is_none(), "one server at a time");
        let log = File::options().create(true).append(true).open(self.place.join("nats.log")).unwrap();
        let mut command = Command::new("nats-server");
        command.arg("--addr").arg(self.address.ip().to_string());
        command.arg("--port").arg(self.address.port().to_string()).arg("--jetstream");
        command.arg("--store_dir").arg(self.place.join("store"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("nats-server; get it with: apt-get install nats-server");
        self.child = Some(child);
        until("the server answers", || {
            Wire::connect(self.address).is_ok_and(|mut wire| wire.ask("INFO", &Value::Null).is_ok())
        });
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// As in a crash: it cannot say or write anything any more.
    pub(super) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// As an operator stops it.
    pub(super) fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        signal("TERM", child.id());
        child.wait().unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
