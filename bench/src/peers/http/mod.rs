//! HTTP servers as processes, each with one thread for HTTP: ours, nginx, haproxy, and hyper by itself.
//!
//! Every server has two duties. *Plain*: `GET /healthz` is answered at once, with as many bytes by everybody.
//! *Limited*: `POST /v1/exec` works for some milliseconds, 8 at a time, while 100 more may wait and whoever
//! comes then is refused. nginx and haproxy do no work; they hold the limits for a plain hyper server behind
//! them, which alone has no limits.
//!
//! Not here: who asks what (`groups/http/`).

pub(crate) mod haproxy;
pub(crate) mod hyper;
pub(crate) mod millpond;
pub(crate) mod nginx;

use crate::daemon::{Daemon, PrivateFolder};
use crate::usage;
use millpond_load::{Address, Arrivals, Plan, Request, run};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

/// How many requests are worked on at once.
pub(crate) const AT_ONCE: usize = 8;
/// How many more may wait.
pub(crate) const WAITING_MAX: usize = 100;
/// What a plain answer says, to the byte.
pub(crate) const HEALTHY: &str = "{\"status\":\"ok\"}";
/// Room for connections that do nothing.
const CONNECTIONS_MAX: usize = 8192;

/// What a server is started for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Duty {
    Plain {
        /// How long a request's head may take.
        head_timeout: Duration,
    },
    Limited,
}

impl Duty {
    /// Answers and nothing else.
    pub(crate) const PLAIN: Self = Self::Plain { head_timeout: Duration::from_secs(5) };

    fn head_timeout(self) -> Duration {
        match self {
            Self::Plain { head_timeout } => head_timeout,
            Self::Limited => Duration::from_secs(5),
        }
    }
}

/// A server that answers, until it is dropped; the one in front is the last.
pub(crate) struct Server {
    daemons: Vec<Daemon>,
    pub(crate) address: SocketAddr,
}

/// Starts a server for a duty.
pub(crate) type Start = fn(Duty) -> Result<Server, String>;

impl Server {
    /// Starts the command in its folder, behind those that are there already, and waits for an answer.
    fn start(
        behind: Vec<Daemon>,
        command: Command,
        folder: PrivateFolder,
        address: SocketAddr,
    ) -> Result<Self, String> {
        let mut daemon = Daemon::start(command, folder)?;
        daemon.connect(|| answers(address))?;
        let mut daemons = behind;
        daemons.push(daemon);
        Ok(Self { daemons, address })
    }

    fn processes(&self) -> Vec<u32> {
        self.daemons.iter().map(Daemon::id).collect()
    }

    /// Processor time of all its processes.
    pub(crate) fn processor_time(&self) -> Result<Duration, String> {
        usage::processor_time(&self.processes())
    }

    /// Memory of all its processes.
    pub(crate) fn memory_bytes(&self) -> Result<u64, String> {
        usage::memory_bytes(&self.processes())
    }
}

/// Whether it answers a plain request.
fn answers(address: SocketAddr) -> io::Result<()> {
    let request = Request { path: "/healthz".into(), host: address.to_string(), ..Request::default() };
    let arrivals = Arrivals::Closed { clients: 1 };
    let plan = Plan { request, arrivals, requests_max: Some(1), ..Plan::new(Address::Tcp(address)) };
    let measured = run(&plan, &mut |_| ControlFlow::Continue(())).map_err(io::Error::other)?;
    match measured.statuses.keys().next() {
        Some(200) => Ok(()),
        Some(status) => Err(io::Error::other(format!("expected the status 200, got {status}"))),
        None => Err(io::Error::other(measured.faults.first.unwrap_or_else(|| "no answer".to_owned()))),
    }
}

/// Writes a file of settings into the folder.
fn write_settings(folder: &PrivateFolder, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = folder.path().join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
