//! The side of those who ask: submit to a queue, wait, look, cancel, and tend to dead letters, without being a daemon.
//!
//! Every call waits for its answer on the thread that makes it; a thread of its own turns the wheels of the connection
//! meanwhile, so that it stays alive also while the caller does something else. A client makes nothing on the server: a
//! queue that no daemon has opened is told as such, and not made with limits that nobody chose.
//!
//! ```no_run
//! use millpond_nats::{Heard, NatsClient, Wants};
//! use millpond_tasks::{Limits, config::NatsSettings};
//! use std::time::Duration;
//!
//! let client = NatsClient::connect(&NatsSettings { queue: "jobs".into(), ..NatsSettings::default() })?;
//! let mut tasks = client.submission(Limits::default(), Wants::Results, true);
//! tasks.send(1, br#"{"handler": "echo", "args": {"hello": "world"}}"#)?;
//! while let Some(heard) = tasks.wait(Duration::from_secs(10))? {
//!     if let Heard::Ended { record, .. } = heard {
//!         println!("{}", record.outcome.map_or(String::new(), |json| json.get().to_owned()));
//!         break;
//!     }
//! }
//! # Ok::<(), millpond_nats::NatsError>(())
//! ```
//!
//! Not here: what daemons do (`door.rs`), command lines and printing (the program).

mod dead;
mod letters;
mod parcel;
mod status;
mod submission;

pub use dead::{LetterFilter, Retried};
pub use letters::Letter;
pub use status::{BucketStatus, LaneStatus, QueueStatus};
pub use submission::{Heard, Submission, Wants};

use crate::api::{Entry, get_entry, put_entry};
use crate::connect::connect;
use crate::error::NatsError;
use crate::layout::look;
use crate::names::{Queue, key_of};
use crate::record::Record;
use async_nats::jetstream::context::{ContextBuilder, PublishError, PublishErrorKind};
use async_nats::jetstream::{self, kv};
use async_nats::{Client, Event};
use millpond_tasks::config::{NatsSettings, without_password};
use millpond_tasks::{Limits, TaskId};
use std::error::Error as _;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How many messages may wait for their acknowledgement; far more than a caller's window.
const UNDER_WAY_MAX: usize = 1 << 17;
/// How often a cancel is tried against somebody who writes at the same time.
const CANCEL_TRIES: usize = 8;

/// One connection to one queue.
pub struct NatsClient {
    handle: Handle,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    connection: Connection,
    queue: Queue,
    /// The server, without a password.
    url: String,
    timeout: Duration,
    /// What the server complained of last, which it says to nobody in particular.
    complaint: Arc<Mutex<Option<String>>>,
}

struct Connection {
    client: Client,
    jetstream: jetstream::Context,
}

/// What became of a cancel.
#[derive(Debug)]
pub enum Cancelled {
    /// It will not run, or is told to stop.
    Yes,
    /// It had ended before, or an earlier one of its id had; in that case what came since is cancelled.
    HasEnded(Record),
}

impl NatsClient {
    /// Connects, and sees that the queue is there.
    pub fn connect(settings: &NatsSettings) -> Result<Self, NatsError> {
        let queue = Queue::new(&settings.queue)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot_begin)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let wheels = move || {
            // Told to stop, or nobody is left to tell.
            let _ = runtime.block_on(stopped);
        };
        let thread =
            thread::Builder::new().name("nats-client".to_owned()).spawn(wheels).map_err(cannot_begin)?;
        let complaint = Arc::new(Mutex::new(None));
        let told = Arc::clone(&complaint);
        let listen = move |event: &Event| {
            if let Event::ServerError(error) = event {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        };
        let name = format!("millpond client {}", std::process::id());
        // Whoever comes too early for a thread that has not begun waits for it.
        let connection = handle.block_on(async {
            let client = connect(settings, &name, listen).await?;
            let jetstream = ContextBuilder::new()
                .timeout(settings.connect_timeout)
                .max_ack_inflight(UNDER_WAY_MAX)
                .build(client.clone());
            Ok::<_, NatsError>(Connection { client, jetstream })
        })?;
        let this = Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
            connection,
            queue,
            url: without_password(&settings.url),
            timeout: settings.connect_timeout,
            complaint,
        };
        this.block_on(look(&this.connection.client, &this.queue))
            .map_err(|error| this.with_complaint(error))?;
        Ok(this)
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        self.queue.name()
    }

    /// The server, without a password.
    pub fn server(&self) -> &str {
        &self.url
    }

    /// Begins to send tasks. `is_one` says that there will be but one, so that nothing is heard of others.
    pub fn submission(&self, limits: Limits, wants: Wants, is_one: bool) -> Submission<'_> {
        Submission::new(self, limits, wants, is_one)
    }

    /// What is known of a task: nothing while it waits or runs for the first time, or once its result was let go.
    pub fn get(&self, id: &TaskId) -> Result<Option<Record>, NatsError> {
        Ok(self.entry(id)?.and_then(|entry| Record::read(&entry.value)))
    }

    /// Cancels a task, whether it waits, runs or has not even come. If the entry of its id is final, that may be of an
    /// earlier task; one that came since is cancelled all the same.
    pub fn cancel(&self, id: &TaskId) -> Result<Cancelled, NatsError> {
        let (key, who) = (key_of(id), format!("client-{}", std::process::id()));
        let client = &self.connection.client;
        for _ in 0..CANCEL_TRIES {
            let entry = self.entry(id)?;
            let (revision, present) =
                entry.map_or((0, None), |entry| (entry.revision, Record::read(&entry.value)));
            let origin = present.as_ref().map_or(0, |present| present.origin);
            let record = Record::cancelled(id, origin, &who, now_ms());
            if present.as_ref().is_none_or(|present| !present.state.is_final()) {
                let results = self.queue.results();
                match put_entry(client, &results, &key, record.write().into(), Some(revision)).await_on(self)
                {
                    Ok(_) => {}
                    Err(NatsError::Conflict(_)) => continue,
                    Err(error) => return Err(self.with_complaint(error)),
                }
            }
            let marked =
                put_entry(client, &self.queue.cancelled(), &key, record.write().into(), None).await_on(self);
            marked.map_err(|error| self.with_complaint(error))?;
            let ended = present.filter(|present| present.state.is_final());
            return Ok(ended.map_or(Cancelled::Yes, Cancelled::HasEnded));
        }
        Err(NatsError::Conflict(format!("task {id}: others write its result at the same time; try again")))
    }

    fn entry(&self, id: &TaskId) -> Result<Option<Entry>, NatsError> {
        let entry = get_entry(&self.connection.client, &self.queue.results(), &key_of(id)).await_on(self);
        entry.map_err(|error| self.with_complaint(error))
    }

    /// Waits for something on this thread.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    fn bucket(&self, name: &str) -> Result<kv::Store, NatsError> {
        let bucket = self.block_on(self.connection.jetstream.get_key_value(name));
        bucket.map_err(|error| self.failed(&format!("bucket {name}"), &error))
    }

    /// Something else failed. The server says to nobody in particular that somebody may not do something.
    fn failed(&self, what: &str, error: &impl Display) -> NatsError {
        self.with_complaint(NatsError::Failed(format!("{what}: {error}")))
    }

    /// Whether the server complained of something, so that waiting for it will not help.
    fn has_complaint(&self) -> bool {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// With what the server complained of, if that may be the reason.
    fn with_complaint(&self, error: NatsError) -> NatsError {
        let complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (&error, complaint) {
            (NatsError::TimedOut(_) | NatsError::Failed(_), Some(complaint)) => {
                NatsError::Unauthorized(format!(
                    "{}: the server said {complaint:?}; allow this user the subjects of the queue: docs/nats.md",
                    self.url
                ))
            }
            _ => error,
        }
    }

    /// Why a message was not taken.
    fn publish_failed(&self, error: &PublishError) -> NatsError {
        let queue = self.queue.name();
        match error.kind() {
            PublishErrorKind::StreamNotFound => NatsError::Missing(format!(
                "no stream {}: start a daemon with --nats {} --queue {queue} first",
                self.queue.stream(),
                self.url
            )),
            PublishErrorKind::MaxPayloadExceeded => NatsError::TooLarge(format!(
                "queue {queue}: expected a message that the server takes (max_payload {}), got a larger one",
                self.connection.client.server_info().max_payload
            )),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
                self.with_complaint(NatsError::TimedOut(format!(
                    "{}: the server did not confirm within {} ms; it may have the task or not: send it again under the \
                     same id",
                    self.url,
                    self.timeout.as_millis()
                )))
            }
            _ => match error.source().and_then(|source| source.downcast_ref::<jetstream::Error>()) {
                Some(answer) => {
                    let told = serde_json::to_value(answer).unwrap_or_default();
                    let words = told["description"].as_str().unwrap_or_default();
                    NatsError::of_answer(&format!("queue {queue}"), answer.error_code().0, words)
                }
                None => self.failed(&format!("queue {queue}"), error),
            },
        }
    }
}

/// Lets what is asked of the server read from left to right.
trait AwaitOn: Future + Sized {
    fn await_on(self, client: &NatsClient) -> Self::Output {
        client.block_on(self)
    }
}

impl<F: Future> AwaitOn for F {}

impl Drop for NatsClient {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

fn cannot_begin(error: std::io::Error) -> NatsError {
    NatsError::Failed(format!("a thread for the connection cannot be made: {error}"))
}

/// The time of this machine.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
