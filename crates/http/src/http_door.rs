//! Opening and closing the door: listeners, threads, and an end in which everybody gets an answer.
//!
//! The end has three parts. While tasks drain, the door still answers: it is not ready, takes no tasks, and
//! tells results (`drain`). Then nobody new comes in, and whoever only waits is answered (`stop_accepting`).
//! When the last tasks have ended, so have the calls that wait for them; what is left at the deadline is cut
//! (`close`).

use crate::accept::Listener;
use crate::api::Api;
use crate::door::{Door, Errand};
use crate::figures::Cut;
use crate::front::{Front, MAIL};
use crate::listen;
use crate::mail::Mail;
use crate::worker;
use millpond_tasks::config::WebSettings;
use millpond_tasks::{Log, ServiceHandle};
use mio::{Poll, Waker};
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most workers if nobody says how many: one serves more than a hundred thousand requests a second, and
/// processors have tasks to run.
const WORKERS_AUTO_MAX: usize = 4;
/// How often the end looks whether all is done.
const PAUSE: Duration = Duration::from_millis(2);

/// The open door. Closes when it is dropped, without waiting for anybody.
pub struct HttpDoor {
    api: Arc<Api>,
    address: Option<SocketAddr>,
    socket: Option<PathBuf>,
    front: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

/// Why the door could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The address cannot be listened on.
    Listen(String, io::Error),
    /// Other machines could come in without a token.
    TokenNeeded(SocketAddr),
    /// A token cannot be read, or is too short to be one.
    Token(String),
    /// The system would not give what the door needs.
    System(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(place, error) => {
                write!(formatter, "cannot listen on {place}: {error}; choose another with --listen")
            }
            Self::TokenNeeded(address) => write!(
                formatter,
                "other machines reach {address}, so a token is needed: write one into a file and name it with \
                 --web-token-file, set MILLPOND_TOKEN, or listen on 127.0.0.1"
            ),
            Self::Token(words) => formatter.write_str(words),
            Self::System(error) => error.fmt(formatter),
        }
    }
}

impl Error for OpenError {}

/// How the door ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseReport {
    /// Connections that had not ended when the time was over.
    pub cut: usize,
}

impl HttpDoor {
    /// Opens the door.
    pub fn open(settings: WebSettings, service: ServiceHandle, log: Log) -> Result<Self, OpenError> {
        let settings = Arc::new(settings);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let workers = settings.workers.unwrap_or((processors / 2).clamp(1, WORKERS_AUTO_MAX));
        let mut listeners = listen::at_port(settings.listen, workers)?;
        let address = listeners[0].local_addr().ok();
        let mut listeners: Vec<Vec<_>> =
            listeners.drain(..).map(|listener| vec![Listener::Tcp(listener)]).collect();
        if let Some(path) = &settings.socket {
            listeners[0].push(Listener::Unix(listen::at_path(path)?));
        }
        let poll = Poll::new().map_err(OpenError::System)?;
        let bell = Waker::new(poll.registry(), MAIL).map_err(OpenError::System)?;
        let door = Door::new(Arc::clone(&settings), Mail::new(bell, settings.refused_max), workers, log);
        let api = Arc::new(Api::new(service, Arc::clone(&settings), Arc::clone(&door), address)?);
        let front = Front::new(Arc::clone(&door), poll);
        let mut opened =
            Self { api, address, socket: settings.socket.clone(), front: None, workers: Vec::new() };
        // The front first: whoever is accepted and must be refused needs it, and an end without it ends nobody.
        let spawned = thread::Builder::new().name("millpond-front".to_owned()).spawn(move || front.run());
        opened.front = Some(spawned.map_err(OpenError::System)?);
        for (number, listeners) in listeners.into_iter().enumerate() {
            door.listening.fetch_add(listeners.len(), Relaxed);
            let worker =
                worker::start(Arc::clone(&opened.api), number, listeners).map_err(OpenError::System)?;
            opened.workers.push(worker);
        }
        Ok(opened)
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The Unix socket on which it listens too.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// From now on it says that it is not ready. It still answers.
    pub fn drain(&self) {
        self.api.door.drain();
    }

    /// Closes the listeners; what waits at them is refused, streams end, waits are answered, and every
    /// connection ends with its present request. Returns when nobody can come in any more, or the time is over.
    pub fn stop_accepting(&self, within: Duration) {
        let door = &self.api.door;
        door.drain();
        if let Some(path) = self.socket.as_ref().filter(|_| !door.is_closing()) {
            // While the listener is still open, or it might be the next daemon's.
            let _ = fs::remove_file(path);
        }
        door.close();
        let until = Instant::now().checked_add(within);
        while door.listening.load(Acquire) > 0 && until.is_none_or(|until| Instant::now() < until) {
            thread::sleep(PAUSE);
        }
        door.refuse_all();
        door.clients.cut_all(Cut::Drain);
    }

    /// Ends it: everybody who asked gets an answer, within this time.
    pub fn close(mut self, within: Duration) -> CloseReport {
        let cut = self.end(within);
        CloseReport { cut }
    }

    fn end(&mut self, within: Duration) -> usize {
        let Some(front) = self.front.take() else { return 0 };
        let until = Instant::now().checked_add(within);
        self.stop_accepting(within);
        let door = Arc::clone(&self.api.door);
        while door.clients.len() > 0 && until.is_none_or(|until| Instant::now() < until) {
            thread::sleep(PAUSE);
        }
        let left = door.clients.len();
        door.clients.cut_all(Cut::Abort);
        for inbox in &door.inboxes {
            inbox.close();
        }
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so.
            let _ = worker.join();
        }
        door.front.send_in_any_case(Errand::End);
        let _ = front.join();
        left
    }
}

impl Drop for HttpDoor {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl fmt::Debug for HttpDoor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpDoor").field("address", &self.address).finish_non_exhaustive()
    }
}
