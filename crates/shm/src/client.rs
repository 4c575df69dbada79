//! A program's side: attach to a daemon, hand in tasks, take the replies.
//!
//! All threads of a program share one client. Whoever sends has the link for a moment. Whoever waits for a reply reads
//! for everybody: the first of those who wait *leads*, reads what comes and puts it on the table; the others follow,
//! and one of them leads when the leader has what it wanted. So a single waiting thread gets its reply straight from
//! the memory, with no other thread in between, and while both sides are busy without a system call.
//!
//! Not here: what is outstanding (`table.rs`), daemons that come and go (`link.rs`).

mod error;
mod link;
mod sending;
mod table;
mod waiting;

pub use error::{AttachError, ClientError};

use crate::layout::Plan;
use crate::message::HANDLERS_MAX;
use link::{Link, WELCOME_TIME};
use millpond_tasks::RuntimeDir;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use table::{Next, Table};
use waiting::WayIn;

/// How a program attaches.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The size of the memory.
    pub plan: Plan,
    /// How many tasks may be outstanding, replies that nobody took included.
    pub in_flight_max: usize,
    /// How long a thread that waits looks around before it sleeps. None on a machine with one processor.
    pub linger: Duration,
    /// How long tasks that a dead daemon had not taken wait for the next one.
    pub reconnect_timeout: Duration,
    /// How many bytes of a stream are kept for its reader; then the oldest events go.
    pub stream_bytes_max: usize,
}

impl Default for ClientSettings {
    /// 4096 tasks, 50 µs, 5 s, 1 MiB.
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            in_flight_max: 4096,
            linger: Duration::from_micros(50),
            reconnect_timeout: Duration::from_secs(5),
            stream_bytes_max: 1 << 20,
        }
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which task.
    pub number: u64,
    /// 0, or the number of the error ([`ErrorCode`](millpond_tasks::ErrorCode)).
    pub status: i32,
    /// The result in JSON, or what went wrong in words.
    pub body: Vec<u8>,
}

/// A handler that [`Client::handler`] named. Good for that client alone, whatever daemon it is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerNumber(u32);

/// What is called with a reply.
type OnEnd = Box<dyn FnOnce(Reply) + Send>;

/// A program's connection to a daemon. A cheap clone; it ends with the last of them.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// Locks are taken in this order: link, way in, table.
struct Shared {
    settings: ClientSettings,
    link: Mutex<Link>,
    way_in: Mutex<Option<WayIn>>,
    table: Mutex<Table>,
    /// For those who follow: something was put on the table, or nobody leads.
    news: Condvar,
    /// What a dead daemon left is not all sent yet: whoever waits sends it when there is room.
    has_unsent: AtomicBool,
}

impl Shared {
    fn lock_link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Attaches to the daemon of this name; `millpond` is the one that `millpond serve` starts.
    pub fn attach(name: &str) -> Result<Self, AttachError> {
        Self::attach_with(name, ClientSettings::default())
    }

    /// As [`attach`](Self::attach), with settings of one's own.
    pub fn attach_with(name: &str, mut settings: ClientSettings) -> Result<Self, AttachError> {
        let directory = RuntimeDir::path_for(name).map_err(AttachError::BadName)?;
        if thread::available_parallelism().is_ok_and(|processors| processors.get() == 1) {
            settings.linger = Duration::ZERO;
        }
        let shared = Shared {
            link: Mutex::new(Link::new(directory, settings.clone())),
            way_in: Mutex::default(),
            table: Mutex::default(),
            news: Condvar::new(),
            has_unsent: AtomicBool::new(false),
            settings,
        };
        let client = Self { shared: Arc::new(shared) };
        client.reconnect()?;
        Ok(client)
    }

    /// Whether a daemon is there, as far as anybody has noticed.
    pub fn is_connected(&self) -> bool {
        self.shared.lock_link().is_wired()
    }

    /// Looks for a daemon now, if none is there.
    pub fn reconnect(&self) -> Result<(), AttachError> {
        let mut link = self.shared.lock_link();
        if link.is_wired() {
            return Ok(());
        }
        self.shared.connect(&mut link, WELCOME_TIME)
    }

    /// Names a handler once, so that calls need not. Whether there is such a handler is said by the reply of a call.
    pub fn handler(&self, name: &str) -> Result<HandlerNumber, ClientError> {
        let mut link = self.shared.lock_link();
        if name.is_empty() || name.len() > 64 {
            return Err(ClientError::BadHandler(format!(
                "expected a handler's name of 1 to 64 characters, got {}",
                name.len()
            )));
        }
        if link.handlers() >= HANDLERS_MAX && !link.knows(name) {
            return Err(ClientError::BadHandler(format!("{HANDLERS_MAX} handlers have been named already")));
        }
        Ok(HandlerNumber(link.handler(name)))
    }

    /// Hands in a request in JSON. Never waits. The number is the client's own, from 1.
    pub fn try_submit(&self, request: &[u8]) -> Result<u64, ClientError> {
        self.shared.with_daemon(|shared| shared.submit(request, false, &mut None))
    }

    /// As [`try_submit`](Self::try_submit), but waits for room.
    pub fn submit_timeout(&self, request: &[u8], timeout: Duration) -> Result<u64, ClientError> {
        self.shared.with_patience(timeout, |shared| shared.submit(request, false, &mut None))
    }

    /// Hands in a request whose partial results are wanted: [`next_partial`](Self::next_partial) has them.
    pub fn submit_streaming(&self, request: &[u8], timeout: Duration) -> Result<u64, ClientError> {
        self.shared.with_patience(timeout, |shared| shared.submit(request, true, &mut None))
    }

    /// Hands in a request and has `on_end` called with the reply, on a thread of the client's.
    pub fn submit_with(
        &self,
        request: &[u8],
        timeout: Duration,
        on_end: impl FnOnce(Reply) + Send + 'static,
    ) -> Result<u64, ClientError> {
        let mut on_end: Option<OnEnd> = Some(Box::new(on_end));
        let number =
            self.shared.with_patience(timeout, |shared| shared.submit(request, false, &mut on_end))?;
        self.shared.serve_callbacks();
        Ok(number)
    }

    /// Calls a handler with arguments in JSON, and waits for room at most so long.
    pub fn call(&self, handler: HandlerNumber, args: &[u8], timeout: Duration) -> Result<u64, ClientError> {
        self.shared.with_patience(timeout, |shared| {
            let mut sent = 0;
            shared.call_some(handler.0, &[args], |number| sent = number).map(|_| sent)
        })
    }

    /// Calls a handler many times, in order. Says how many calls went out, whose numbers are added; waits for room at
    /// most so long, and refuses only if none went out.
    pub fn call_batch(
        &self,
        handler: HandlerNumber,
        args: &[&[u8]],
        numbers: &mut Vec<u64>,
        timeout: Duration,
    ) -> Result<usize, ClientError> {
        let until = Instant::now().checked_add(timeout);
        let mut done = 0;
        while done < args.len() {
            let left = until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
            let sent = self.shared.with_patience(left, |shared| {
                shared.call_some(handler.0, &args[done..], |number| numbers.push(number))
            });
            match sent {
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Takes the reply of a task, if it has come. It is handed over once.
    pub fn poll(&self, number: u64) -> Result<Option<Reply>, ClientError> {
        let reply = self.shared.lock_table().take(number)?;
        if reply.is_some() {
            return Ok(reply);
        }
        self.shared.look_around();
        self.shared.lock_table().take(number)
    }

    /// Waits for the reply of a task at most so long, and takes it.
    pub fn wait(&self, number: u64, timeout: Duration) -> Result<Option<Reply>, ClientError> {
        self.shared.lock_table().wait_begins(number);
        let reply = self.shared.wait_for(timeout, |table| table.take(number).transpose());
        self.shared.lock_table().wait_ends(number);
        reply.transpose()
    }

    /// Waits for whichever reply comes next, at most so long, and takes it. Replies that somebody waits for by number,
    /// or that have a callback, are theirs.
    pub fn next_ended(&self, timeout: Duration) -> Option<Reply> {
        self.shared.wait_for(timeout, Table::take_any)
    }

    /// As [`next_ended`](Self::next_ended), but takes all that are there, up to `max`. Says how many.
    pub fn next_ended_batch(&self, replies: &mut Vec<Reply>, max: usize, timeout: Duration) -> usize {
        let before = replies.len();
        self.shared.wait_for(timeout, |table| {
            while replies.len() - before < max {
                let Some(reply) = table.take_any() else { break };
                replies.push(reply);
            }
            (replies.len() > before || max == 0).then_some(())
        });
        replies.len() - before
    }

    /// Waits for the next event of a task that streams: a line of JSON, as every door has it. None if none came in
    /// time. An error once all have been read.
    pub fn next_partial(&self, number: u64, timeout: Duration) -> Result<Option<Vec<u8>>, ClientError> {
        let next = self.shared.wait_for(timeout, |table| match table.next_event(number) {
            Ok(Next::Event(event)) => Some(Ok(event)),
            Ok(Next::Nothing) => None,
            Ok(Next::Over) => Some(Err(ClientError::StreamOver { number })),
            Err(error) => Some(Err(error)),
        });
        next.transpose()
    }

    /// Says that a task is no longer wanted. Its reply says what came of that.
    pub fn cancel(&self, number: u64) -> Result<(), ClientError> {
        self.shared.with_daemon(|shared| shared.cancel(number))
    }

    /// How many tasks are outstanding, replies that nobody took included.
    pub fn in_flight(&self) -> usize {
        self.shared.lock_table().len()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
