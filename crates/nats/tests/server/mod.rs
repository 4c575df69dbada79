//! A real nats-server for a test: on a free port of this machine, with a directory of its own, gone when it is
//! dropped.
//!
//! Included by path from the tests of other crates, so it needs nothing but the standard library. It can be killed
//! and started again on the same port and directory, as a server is by its operator. A machine without the program is
//! a failed test and not a skipped one: the package is called `nats-server`.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server.
#[derive(Debug)]
pub(crate) struct NatsServer {
    port: u16,
    directory: PathBuf,
    has_jetstream: bool,
    extra: Vec<String>,
    child: Option<Child>,
}

impl NatsServer {
    /// With JetStream.
    pub(crate) fn start() -> Self {
        Self::with(true, &[])
    }

    /// With or without JetStream, and with more arguments.
    pub(crate) fn with(has_jetstream: bool, extra: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("millpond-nats-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).expect("the directory can be made");
        let extra = extra.iter().map(|&argument| argument.to_owned()).collect();
        let mut server = Self { port: free_port(), directory, has_jetstream, extra, child: None };
        server.start_again();
        server
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port of clients.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where it keeps what it keeps.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Starts it after it was ended, on the same port and directory.
    pub(crate) fn start_again(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let log = self.directory.join("log");
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-p", &self.port.to_string()]);
        command.arg("-l").arg(&log).args(&self.extra);
        if self.has_jetstream {
            command.arg("-js").arg("-sd").arg(self.directory.join("store"));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                panic!("there is no nats-server on this machine; install the package nats-server")
            }
            _ => panic!("nats-server cannot be started: {error}"),
        }));
        let until = Instant::now() + PATIENCE;
        while !self.says_hello() {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                let said = fs::read_to_string(&log).unwrap_or_default();
                panic!("nats-server ended with {status}: {said}");
            }
            assert!(Instant::now() < until, "nats-server says nothing");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it greets whoever connects.
    fn says_hello(&self) -> bool {
        let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with("INFO ")
    }

    /// Ends it as an operator does.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        self.wait_for_end();
    }

    /// Ends it as a power cut does, but for what the operating system has.
    pub(crate) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
        }
        self.wait_for_end();
    }

    /// Sends it a signal by its name, for instance `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let Some(child) = &self.child else { return };
        let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal {name} cannot be sent");
    }

    fn wait_for_end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let until = Instant::now() + PATIENCE;
        while child.try_wait().expect("it is ours").is_none() {
            if Instant::now() > until {
                let _ = child.kill();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A port that nobody had a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("this machine has ports");
    listener.local_addr().expect("it is bound").port()
}
