//! The control door: the server's side of the control socket.
//!
//! Clients of the same user, or root, submit tasks and ask about them over a socket in the runtime directory.
//! `docs/PROTOCOL.md` describes what they say. One thread serves all of them; it never waits for a task, and
//! no client can make it wait for another.
//!
//! ```text
//!  clients ═══ socket ═══ reactor ── submit ──► service ► pool ► worker
//!                            ▲                                     │ encodes the result
//!                            └── wakes, if it sleeps ◄── outbox ◄──┘
//! ```
//!
//! Not here: the client (`client.rs`), the frames of both (`frame.rs`).

mod answer;
mod connection;
mod exchanges;
mod manage;
mod news;
mod outbox;
mod reactor;
mod stats;

pub use stats::ControlStats;

use crate::client::Hello;
use crate::frame::{Kind, PROTOCOL};
use exchanges::Exchanges;
use millpond_tasks::{Log, RuntimeDir, ServiceHandle, SocketFile, Stats};
use mio::net::UnixListener;
use mio::{Poll, Waker};
use news::News;
use reactor::{Reactor, WAKER};
use serde::Serialize;
use stats::Counters;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the socket in the runtime directory.
pub const SOCKET_NAME: &str = "control.sock";

/// How a control door is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Where the socket is. The directory around it is the runtime directory: private, and made if it is
    /// missing. Default: `control.sock` in [`RuntimeDir::default_path`].
    pub path: PathBuf,
    /// How many clients may be connected. Default 256.
    pub connections_max: usize,
    /// How many answers may be outstanding on one connection; at that number it is not read. Default 4096.
    pub in_flight_max: usize,
    /// How much may wait to be sent on one connection; at that number it is not read, and its streams wait.
    /// One frame may come on top. Default 8 MiB.
    pub outbox_bytes_max: usize,
}

impl Default for ControlSettings {
    fn default() -> Self {
        Self {
            path: RuntimeDir::default_path().join(SOCKET_NAME),
            connections_max: 256,
            in_flight_max: 4096,
            outbox_bytes_max: 8 << 20,
        }
    }
}

/// A control socket that is being served.
#[derive(Debug)]
pub struct ControlDoor {
    path: PathBuf,
    context: Arc<Context>,
    /// Taken by the end.
    thread: Option<JoinHandle<()>>,
}

impl ControlDoor {
    /// Takes the runtime directory and listens. A socket that nobody answers is replaced; where somebody
    /// answers, this fails and says who.
    pub fn open(mut settings: ControlSettings, service: ServiceHandle, log: Log) -> io::Result<Self> {
        // With less, nothing would ever be read.
        settings.in_flight_max = settings.in_flight_max.max(1);
        settings.outbox_bytes_max = settings.outbox_bytes_max.max(2);
        let (file, listener) = SocketFile::listen(&settings.path)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener);
        let path = file.path().to_owned();
        let poll = Poll::new()?;
        let news = Arc::new(News::new(Waker::new(poll.registry(), WAKER)?));
        let counters = Counters::default();
        let context =
            Arc::new(Context { settings, service, log, news, counters, closes_at: OnceLock::new() });
        let reactor = Reactor::new(poll, Arc::clone(&context), listener, file)?;
        let thread =
            thread::Builder::new().name("millpond-control".to_owned()).spawn(move || reactor.run())?;
        Ok(Self { path, context, thread: Some(thread) })
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it has done and has to do.
    pub fn stats(&self) -> ControlStats {
        self.context.stats()
    }

    /// Takes no more connections and reads no more. Waits at most so long for tasks that clients wait for,
    /// sends what has ended, and closes. What has not ended by then goes on, and its outcome is kept.
    pub fn close(mut self, within: Duration) {
        self.end(within);
    }

    fn end(&mut self, within: Duration) {
        let Some(thread) = self.thread.take() else { return };
        let now = Instant::now();
        // A time that the clock cannot say is far away.
        let closes_at = now.checked_add(within).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
        self.context.closes_at.get_or_init(|| closes_at);
        self.context.news.ring();
        // A panic was logged where it happened.
        let _ = thread.join();
    }
}

impl Drop for ControlDoor {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// What the reactor and everything in it needs to know.
#[derive(Debug)]
struct Context {
    settings: ControlSettings,
    service: ServiceHandle,
    log: Log,
    news: Arc<News>,
    counters: Counters,
    /// Set once, when the door begins to close: when it must be closed.
    closes_at: OnceLock<Instant>,
}

/// The payload of the server's STATS.
#[derive(Serialize)]
struct AllStats {
    #[serde(flatten)]
    service: Stats,
    control: ControlStats,
}

impl Context {
    fn stats(&self) -> ControlStats {
        self.counters.stats(self.settings.connections_max, self.news.wakes())
    }

    fn all_stats(&self) -> AllStats {
        AllStats { service: self.service.stats(), control: self.stats() }
    }

    /// The largest payload a client may send: that of the largest request.
    fn payload_bytes_max(&self) -> usize {
        usize::try_from(self.service.limits().request_bytes_max).unwrap_or(usize::MAX)
    }

    /// The server's first words.
    fn greet(&self, exchanges: &mut Exchanges) {
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            frame_bytes_max: self.payload_bytes_max() as u64,
            in_flight_max: self.settings.in_flight_max as u64,
            workers: self.service.config().pool.workers as u64,
        };
        exchanges.say(Kind::Hello, 0, |out| {
            serde_json::to_writer(out, &hello).expect("names are strings, and a vector takes all");
        });
    }
}
