//! The door as a program has it: opened with everything checked, drained, closed with nothing lost.
//!
//! Opening waits until the server has answered and everything on it is as it must be; whatever is wrong is an error
//! then and not a line in a log later. The end has three steps, so that the service can be drained between them: no
//! more tasks are asked for; what the stop cuts short is given back; everything that is still to be told is told, and
//! the rest comes again after its lease.
//!
//! Not here: the loop (`engine.rs`).

use crate::engine::{Engine, make_connection};
use crate::error::NatsError;
use crate::figures::count;
use crate::layout;
use crate::link::Health;
use crate::names::Queue;
use crate::presence::host;
use crate::shared::{Shared, now_ms};
use crate::watchdog;
use async_nats::Client;
use futures_util::FutureExt as _;
use millpond_tasks::config::NatsSettings;
use millpond_tasks::{Log, NatsStats, ServiceHandle};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Beyond the time for connecting: how long everything may take that has to be made.
const LAYOUT_TIME: Duration = Duration::from_secs(60);
/// How long after a panic the loop begins anew.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// A queue of a NATS server, from which this daemon takes tasks until [`close`](Self::close).
#[derive(Debug)]
pub struct NatsDoor {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What was left when the door was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Tasks that were given back, since the start.
    pub given_back: u64,
    /// Tasks whose end the server has not heard of; they come again after their lease.
    pub unsent: usize,
}

impl NatsDoor {
    /// Connects, makes or compares everything that must be on the server, and begins to take tasks.
    pub fn open(settings: NatsSettings, service: ServiceHandle, log: Log) -> Result<Self, NatsError> {
        let queue = Queue::new(&settings.queue)?;
        let daemon = settings.name.clone().unwrap_or_else(made_name);
        let patience = settings.connect_timeout.saturating_mul(16).saturating_add(LAYOUT_TIME);
        let shared = Arc::new(Shared::new(settings, queue, service, log, daemon));
        let (opened, answer) = sync_channel(1);
        let of_loop = Arc::clone(&shared);
        let failed = |error: std::io::Error| {
            NatsError::Failed(format!("the thread of the NATS door cannot be started: {error}"))
        };
        let looping = thread::Builder::new()
            .name("mp-nats".to_owned())
            .spawn(move || run(&of_loop, &opened))
            .map_err(failed)?;
        let opened = match answer.recv_timeout(patience) {
            Ok(opened) => opened,
            Err(RecvTimeoutError::Timeout) => {
                Err(NatsError::TimedOut(format!("{}: the server did not answer in time", shared.url)))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(NatsError::Failed("the thread of the NATS door ended at once".to_owned()))
            }
        };
        if let Err(error) = opened {
            shared.set(&shared.is_over);
            return Err(error);
        }
        let of_watchdog = Arc::clone(&shared);
        let watching = thread::Builder::new()
            .name("mp-nats-watch".to_owned())
            .spawn(move || watchdog::watch(&of_watchdog))
            .map_err(failed)?;
        let weak = Arc::downgrade(&shared);
        shared.service.show_nats(move || weak.upgrade().map(|shared| stats(&shared)));
        Ok(Self { shared, threads: vec![looping, watching] })
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        self.shared.queue.name()
    }

    /// The server and its version, for people.
    pub fn server(&self) -> String {
        format!("{} (nats-server {})", self.shared.url, self.shared.figures.server_version())
    }

    /// What this daemon is called among those of the queue.
    pub fn daemon(&self) -> &str {
        &self.shared.daemon
    }

    /// How it stands.
    pub fn stats(&self) -> NatsStats {
        stats(&self.shared)
    }

    /// Asks for no more tasks. What still comes is given back; what is here goes on.
    pub fn drain(&self) {
        self.shared.set(&self.shared.is_draining);
    }

    /// From now on tasks end because the daemon does: they are given back and count as never run. Before the service
    /// is stopped.
    pub fn give_back(&self) {
        self.drain();
        self.shared.set(&self.shared.is_stopping);
    }

    /// Tells the server everything it has to know, at most so long, and closes. After the service was stopped.
    pub fn close(mut self, within: Duration) -> Closed {
        self.end(within)
    }

    fn end(&mut self, within: Duration) -> Closed {
        let shared = &self.shared;
        shared.set(&shared.is_draining);
        shared.set(&shared.is_stopping);
        shared.set(&shared.is_closing);
        let until = Instant::now() + within;
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        let looping = threads.next();
        let is_running = || looping.as_ref().is_some_and(|looping| !looping.is_finished());
        while is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        shared.set(&shared.is_over);
        shared.restart.notify_one();
        let at_most = Instant::now() + Duration::from_secs(3);
        while is_running() && Instant::now() < at_most {
            thread::sleep(Duration::from_millis(2));
        }
        let figures = &shared.figures;
        Closed { given_back: figures.nacked.load(Relaxed), unsent: figures.in_flight.load(Relaxed) }
    }
}

impl Drop for NatsDoor {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end(Duration::from_secs(1));
        }
    }
}

fn stats(shared: &Shared) -> NatsStats {
    shared.figures.stats(&shared.url, shared.queue.name(), &shared.daemon)
}

/// The thread of the loop.
fn run(shared: &Arc<Shared>, opened: &SyncSender<Result<(), NatsError>>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = opened.send(Err(NatsError::Failed(format!("no event loop for the NATS door: {error}"))));
            return;
        }
    };
    runtime.block_on(async {
        let connected = match make_connection(shared).await {
            Ok((client, health)) => {
                layout::open(&client, &shared.queue, &shared.settings).await.map(|warnings| {
                    warnings.iter().for_each(|warning| shared.log.warn(&format!("nats: {warning}")));
                    (client, health)
                })
            }
            Err(error) => Err(error),
        };
        match connected {
            Ok(connection) => {
                let _ = opened.send(Ok(()));
                work(shared, connection).await;
                shared.is_over.store(true, Release);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        }
    });
}

/// Works until the door is closed. A panic is a mistake of ours; what was held comes again after its lease, and the
/// door stays open.
async fn work(shared: &Arc<Shared>, mut connection: (Client, Arc<Health>)) {
    loop {
        let (client, health) = connection;
        health.take_new();
        shared.has_turned(Instant::now());
        let mut engine = Engine::new(Arc::clone(shared), client, health);
        let ended = AssertUnwindSafe(engine.run()).catch_unwind().await;
        shared.figures.in_flight.store(engine.held.len(), Relaxed);
        if ended.is_ok() {
            return;
        }
        drop(engine);
        count(&shared.figures.restarts);
        shared
            .log
            .error("nats: the loop panicked; it begins anew, and what it held comes again after its lease");
        connection = loop {
            tokio::time::sleep(PANIC_PAUSE).await;
            if shared.is_over.load(Acquire) {
                return;
            }
            match make_connection(shared).await {
                Ok(connection) => break connection,
                Err(error) => shared.log.warn(&format!("nats: {error}")),
            }
        };
    }
}

/// A name that no other daemon has.
fn made_name() -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(now_ms()) & 0xFFFF_FFFF;
    format!("{}-{}-{random:08x}", host(), std::process::id())
}
