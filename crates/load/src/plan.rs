//! What a run is told: whom to ask, what, how often, for how long, and when to give up.
//!
//! A plan is checked as a whole before the first connection is opened, so that a mistake costs nothing.

use crate::request::Request;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// More connections than this have no ports left to come from.
pub(crate) const CONNECTIONS_MAX: usize = 65_536;
const PER_SECOND_MAX: f64 = 1e6;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// So many clients, each of which asks again as soon as it has its answer.
    Closed {
        /// How many.
        clients: usize,
    },
    /// By the clock, whatever the answers do.
    Open {
        /// How many requests are due in a second.
        per_second: f64,
        /// How many connections there may be. A request that finds none waits, and its time runs.
        connections_max: usize,
    },
    /// So many clients at once, each of which asks once.
    Burst {
        /// How many.
        clients: usize,
    },
}

/// Connections that listen to a stream of events (SSE) while the load runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readers {
    /// How many.
    pub count: usize,
    /// What each of them asks for.
    pub request: Request,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server listens.
    pub address: Address,
    /// What is asked.
    pub request: Request,
    /// When.
    pub arrivals: Arrivals,
    /// Whether a connection is used again.
    pub keep_alive: bool,
    /// For how long requests are begun. Those under way after that are waited for.
    pub duration: Duration,
    /// After so many requests no further one is begun.
    pub requests_max: Option<u64>,
    /// When a client gives up, counted from when its request was due.
    pub timeout: Duration,
    /// Whether a client reads while it still sends. One that does not is refused an upload the hard way: it
    /// sends all of it first.
    pub reads_early: bool,
    /// Who listens to events meanwhile.
    pub readers: Option<Readers>,
}

impl Plan {
    /// Ten clients in a closed loop for ten seconds, which ask for `/`.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            request: Request::default(),
            arrivals: Arrivals::Closed { clients: 10 },
            keep_alive: true,
            duration: Duration::from_secs(10),
            requests_max: None,
            timeout: Duration::from_secs(5),
            reads_early: true,
            readers: None,
        }
    }

    /// How many connections make requests at most.
    pub(crate) fn connections_max(&self) -> usize {
        match self.arrivals {
            Arrivals::Closed { clients } | Arrivals::Burst { clients } => clients,
            Arrivals::Open { connections_max, .. } => connections_max,
        }
    }

    /// How many requests are begun at most.
    pub(crate) fn requests_max(&self) -> u64 {
        let burst = match self.arrivals {
            Arrivals::Burst { clients } => clients as u64,
            Arrivals::Closed { .. } | Arrivals::Open { .. } => u64::MAX,
        };
        burst.min(self.requests_max.unwrap_or(u64::MAX))
    }

    pub(crate) fn readers_count(&self) -> usize {
        self.readers.as_ref().map_or(0, |readers| readers.count)
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let wrong = |message: String| Err(LoadError::BadPlan(message));
        let connections = self.connections_max().saturating_add(self.readers_count());
        if self.connections_max() == 0 || connections > CONNECTIONS_MAX {
            return wrong(format!("connections: expected 1 to {CONNECTIONS_MAX}, got {connections}"));
        }
        if let Arrivals::Open { per_second, .. } = self.arrivals
            && !(per_second > 0.0 && per_second <= PER_SECOND_MAX)
        {
            return wrong(format!(
                "rate: expected more than 0 and at most {PER_SECOND_MAX}, got {per_second}"
            ));
        }
        if self.timeout.is_zero() {
            return wrong(
                "timeout: expected more than nothing, got 0; a client must have time to read".into(),
            );
        }
        let requests = [Some(&self.request), self.readers.as_ref().map(|readers| &readers.request)];
        match requests.into_iter().flatten().find_map(Request::mistake) {
            Some(mistake) => wrong(mistake),
            None => Ok(()),
        }
    }
}

/// Why a run could not be made. What servers do wrong is counted and is no error.
#[derive(Debug)]
pub enum LoadError {
    /// The plan asks for what cannot be.
    BadPlan(String),
    /// This machine does not let us.
    Machine {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl LoadError {
    pub(crate) fn machine(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Machine { what, error }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPlan(message) => f.write_str(message),
            Self::Machine { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arrivals: Arrivals) -> Plan {
        Plan { arrivals, ..Plan::new(Address::Tcp(([127, 0, 0, 1], 1).into())) }
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_opened() {
        let message = |plan: &Plan| plan.check().unwrap_err().to_string();
        assert!(plan(Arrivals::Closed { clients: 1 }).check().is_ok());
        assert!(
            message(&plan(Arrivals::Closed { clients: 0 })).starts_with("connections: expected 1 to 65536")
        );
        assert!(message(&plan(Arrivals::Burst { clients: 70_000 })).ends_with("got 70000"));
        let open = |per_second| plan(Arrivals::Open { per_second, connections_max: 10 });
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(message(&open(rate)).starts_with("rate: expected more than 0"), "{rate}");
        }
        let hasty = Plan { timeout: Duration::ZERO, ..open(1.0) };
        assert!(message(&hasty).starts_with("timeout: "));
        let request = Request { path: "no slash".into(), ..Request::default() };
        assert!(message(&Plan { request, ..open(1.0) }).starts_with("path: "));
    }

    #[test]
    fn a_burst_asks_once_a_client() {
        assert_eq!(plan(Arrivals::Burst { clients: 7 }).requests_max(), 7);
        let few = Plan { requests_max: Some(3), ..plan(Arrivals::Burst { clients: 7 }) };
        assert_eq!(few.requests_max(), 3);
        assert_eq!(plan(Arrivals::Closed { clients: 7 }).requests_max(), u64::MAX);
    }
}
