//! Tasks under way: sent and acknowledged, followed while they run, and told when they end.
//!
//! ```text
//!  send ──► published ──acknowledged──► Accepted ──► Said, Retrying ──► Ended
//!               │ no answer: sent again with the same id, which the server takes once
//!               └ full, too large, no such queue ──► Refused; after "full" the same parcel may be sent again
//! ```
//!
//! Results are watched from before the first message goes out, so none can come unseen; one watch serves all tasks.
//! A watch may be made anew after a lost connection, so whoever has waited long is looked up besides. An entry
//! counts only if it is of the same origin: an older task of the same id may have left one.
//!
//! Not here: what is sent (`parcel.rs`), how many are under way at once (the caller's window).

use super::parcel::{Parcel, Wish, pack};
use super::{NatsClient, now_ms};
use crate::error::NatsError;
use crate::names::key_of;
use crate::record::{Record, RecordState};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv::{self, Operation};
use async_nats::jetstream::publish::PublishAck;
use async_nats::{Message, Subscriber};
use futures_util::future::BoxFuture;
use futures_util::stream::{AbortHandle, BoxStream, FuturesUnordered, SelectAll};
use futures_util::{FutureExt, StreamExt};
use millpond_tasks::ErrorCode;
use millpond_tasks::{Limits, Refused, TaskFailure, TaskId};
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How often a message is published whose acknowledgement does not come.
const TRIES: u32 = 4;
/// When it is worth coming again to a full queue.
const FULL_AGAIN: Duration = Duration::from_millis(200);
/// How often those that have waited as long are looked up, in case that a watch missed them.
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);
/// How many of them at once.
const LOOK_UP_MAX: usize = 256;
/// How long chunks may come behind the result of their task.
const CHUNKS_GRACE: Duration = Duration::from_secs(2);

/// What is wanted of the tasks that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To know that the server has them.
    Acceptance,
    /// Their results.
    Results,
    /// What they say, and then their results.
    Streams,
}

/// What was heard of a task. The tag is what the caller calls it.
#[derive(Debug)]
pub enum Heard {
    /// The server has it.
    Accepted {
        /// Which task.
        tag: u64,
        /// What it is called.
        id: TaskId,
        /// Its place in the stream.
        sequence: u64,
        /// Whether the server had it already.
        is_duplicate: bool,
    },
    /// It was not taken.
    Refused {
        /// Which task.
        tag: u64,
        /// Why, and when to come again.
        refused: Refused,
    },
    /// It said something: an event as JSON, as every door tells it.
    Said {
        /// Which task.
        tag: u64,
        /// What.
        event: Vec<u8>,
    },
    /// An attempt failed, and another one follows.
    Retrying {
        /// Which task.
        tag: u64,
        /// Its entry.
        record: Record,
    },
    /// It has ended.
    Ended {
        /// Which task.
        tag: u64,
        /// Its entry.
        record: Record,
    },
}

/// Tasks under way; see [`NatsClient::submission`].
pub struct Submission<'a> {
    client: &'a NatsClient,
    limits: Limits,
    wants: Wants,
    is_one: bool,
    results: Option<kv::Store>,
    watch: Option<kv::Watch>,
    tasks: HashMap<u64, Pending>,
    /// Tags by key. Somebody may send the same id twice.
    tags: HashMap<String, Vec<u64>>,
    acks: FuturesUnordered<BoxFuture<'static, (u64, Result<PublishAck, PublishError>)>>,
    chunks: SelectAll<BoxStream<'static, (u64, Option<Message>)>>,
    heard: VecDeque<Heard>,
    look_up_at: Instant,
}

/// One task under way.
struct Pending {
    /// None for a task that somebody else has sent.
    parcel: Option<Parcel>,
    key: String,
    tries: u32,
    begun: Instant,
    sent_ms: u64,
    /// Its place in the stream, once acknowledged.
    sequence: Option<u64>,
    /// How many failures were told.
    failures: u32,
    /// What the bucket said before the acknowledgement came.
    early: Option<Record>,
    /// Its end, while chunks are waited for; and until when they are.
    end: Option<(Record, Instant)>,
    /// Whether all that it said has come.
    is_silent: bool,
    /// Ends the subscription to what it says.
    ear: Option<AbortHandle>,
}

/// What listens on the connection can only be let go where the connection lives.
impl Drop for Submission<'_> {
    fn drop(&mut self) {
        let _entered = self.client.handle.enter();
        self.watch = None;
        self.acks = FuturesUnordered::new();
        self.chunks = SelectAll::new();
    }
}

impl<'a> Submission<'a> {
    pub(super) fn new(client: &'a NatsClient, limits: Limits, wants: Wants, is_one: bool) -> Self {
        Self {
            client,
            limits,
            wants,
            is_one,
            results: None,
            watch: None,
            tasks: HashMap::new(),
            tags: HashMap::new(),
            acks: FuturesUnordered::new(),
            chunks: SelectAll::new(),
            heard: VecDeque::new(),
            look_up_at: Instant::now() + LOOK_UP_EVERY,
        }
    }

    /// Sends a request. The answer is heard later, also if it is no request at all. With the tag of one that was
    /// refused because the queue is full, the same message goes out again.
    pub fn send(&mut self, tag: u64, request: &[u8]) -> Result<(), NatsError> {
        if !self.tasks.contains_key(&tag) {
            let wish = Wish { result: self.wants != Wants::Acceptance, stream: self.wants == Wants::Streams };
            let fresh = || self.client.connection.client.new_inbox().trim_start_matches("_INBOX.").to_owned();
            match pack(request, &self.client.queue, &self.limits, wish, now_ms(), fresh) {
                Ok(parcel) => self.add(tag, parcel.key.clone(), Some(parcel)),
                Err(error) => {
                    self.heard.push_back(Heard::Refused { tag, refused: error.into() });
                    return Ok(());
                }
            }
            self.prepare(tag)?;
        }
        self.publish(tag)
    }

    /// Waits for a task that somebody else has sent.
    pub fn follow(&mut self, tag: u64, id: &TaskId) -> Result<(), NatsError> {
        self.add(tag, key_of(id), None);
        self.prepare(tag)?;
        // It may have ended before.
        self.look_up(&[tag])
    }

    /// What was heard next; none if nothing was within this time.
    pub fn wait(&mut self, within: Duration) -> Result<Option<Heard>, NatsError> {
        let until = Instant::now() + within;
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(Some(heard));
            }
            let now = Instant::now();
            self.end_silent(now);
            if self.look_up_at <= now {
                self.look_up_at = now + LOOK_UP_EVERY;
                self.look_up_the_old(now)?;
            }
            if !self.heard.is_empty() {
                continue;
            }
            if until <= now {
                return Ok(None);
            }
            let alarm = self.tasks.values().filter_map(|task| Some(task.end.as_ref()?.1)).min();
            let next =
                [Some(until), Some(self.look_up_at), alarm].into_iter().flatten().min().unwrap_or(until);
            self.turn(next)?;
        }
    }

    /// What was heard already. Never waits.
    pub fn buffered(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    fn add(&mut self, tag: u64, key: String, parcel: Option<Parcel>) {
        self.tags.entry(key.clone()).or_default().push(tag);
        let is_silent = self.wants != Wants::Streams;
        let pending = Pending {
            parcel,
            key,
            tries: 0,
            begun: Instant::now(),
            sent_ms: now_ms(),
            sequence: None,
            failures: 0,
            early: None,
            end: None,
            is_silent,
            ear: None,
        };
        self.tasks.insert(tag, pending);
    }

    fn remove(&mut self, tag: u64) -> Option<Pending> {
        let pending = self.tasks.remove(&tag)?;
        if let Some(ear) = &pending.ear {
            ear.abort();
        }
        if let Some(tags) = self.tags.get_mut(&pending.key) {
            tags.retain(|other| *other != tag);
            if tags.is_empty() {
                self.tags.remove(&pending.key);
            }
        }
        Some(pending)
    }

    /// Listens for the task before anybody can have begun it.
    fn prepare(&mut self, tag: u64) -> Result<(), NatsError> {
        let Some(task) = self.tasks.get(&tag) else { return Ok(()) };
        let key = task.key.clone();
        if self.wants == Wants::Acceptance {
            return Ok(());
        }
        if self.results.is_none() {
            self.results = Some(self.client.bucket(&self.client.queue.results())?);
        }
        if let (None, Some(results)) = (&self.watch, &self.results) {
            let watch = self.client.block_on(async {
                if self.is_one { results.watch(&key).await } else { results.watch_all().await }
            });
            self.watch =
                Some(watch.map_err(|error| self.client.failed("results cannot be watched", &error))?);
        }
        if self.wants == Wants::Streams {
            let subject = format!("mill.{}.out.{key}", self.client.queue.name());
            let connection = &self.client.connection.client;
            let subscribed = self.client.block_on(async {
                let subscriber = connection.subscribe(subject).await.map_err(|error| error.to_string())?;
                // The server has it before what is published next.
                connection.flush().await.map_err(|error| error.to_string())?;
                Ok::<Subscriber, String>(subscriber)
            });
            let chunks = subscribed
                .map_err(|error| self.client.failed("what the task says cannot be heard", &error))?;
            let chunks = chunks.map(Some).chain(futures_util::stream::iter([None]));
            let (chunks, ear) = futures_util::stream::abortable(chunks);
            self.chunks.push(chunks.map(move |message| (tag, message)).boxed());
            if let Some(task) = self.tasks.get_mut(&tag) {
                task.ear = Some(ear);
            }
        }
        Ok(())
    }

    fn publish(&mut self, tag: u64) -> Result<(), NatsError> {
        let Some(task) = self.tasks.get_mut(&tag) else { return Ok(()) };
        let Some(parcel) = task.parcel.clone() else { return Ok(()) };
        task.tries += 1;
        let context = self.client.connection.jetstream.clone();
        let sent = self.client.block_on(async move {
            context.publish_with_headers(parcel.subject, parcel.headers, parcel.payload).await
        });
        match sent {
            Ok(ack) => self.acks.push(ack.into_future().map(move |ack| (tag, ack)).boxed()),
            Err(error) => self.not_acknowledged(tag, &error)?,
        }
        Ok(())
    }

    /// Lets whatever comes first come, until a moment.
    fn turn(&mut self, until: Instant) -> Result<(), NatsError> {
        enum Came {
            Ack(u64, Result<PublishAck, PublishError>),
            Entry(Option<Result<kv::Entry, kv::WatcherError>>),
            Chunk(u64, Option<Message>),
            Nothing,
        }
        let Self { client, acks, watch, chunks, .. } = self;
        let came = client.block_on(async {
            let has_watch = watch.is_some();
            let entry = async {
                match watch {
                    Some(watch) => watch.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((tag, ack)) = acks.next(), if !acks.is_empty() => Came::Ack(tag, ack),
                entry = entry, if has_watch => Came::Entry(entry),
                Some((tag, message)) = chunks.next(), if !chunks.is_empty() => Came::Chunk(tag, message),
                () = tokio::time::sleep_until(until.into()) => Came::Nothing,
            }
        });
        match came {
            Came::Ack(tag, Ok(ack)) => self.acknowledged(tag, &ack),
            Came::Ack(tag, Err(error)) => self.not_acknowledged(tag, &error),
            Came::Entry(Some(Ok(entry))) => {
                self.entry(&entry);
                Ok(())
            }
            // It is made anew. The old one is let go before the guard is: the first of a pair goes first.
            Came::Entry(_) => {
                drop((self.watch.take(), self.client.handle.enter()));
                self.watch_again()
            }
            Came::Chunk(tag, message) => {
                self.chunk(tag, message);
                Ok(())
            }
            Came::Nothing => Ok(()),
        }
    }

    fn watch_again(&mut self) -> Result<(), NatsError> {
        let Some(tag) = self.tasks.keys().next().copied() else { return Ok(()) };
        std::thread::sleep(Duration::from_millis(50));
        let wants = std::mem::replace(&mut self.wants, Wants::Results);
        let prepared = self.prepare(tag);
        self.wants = wants;
        self.look_up_at = Instant::now();
        prepared
    }

    fn acknowledged(&mut self, tag: u64, ack: &PublishAck) -> Result<(), NatsError> {
        let Some(task) = self.tasks.get_mut(&tag) else { return Ok(()) };
        task.sequence = Some(ack.sequence);
        let Some(parcel) = &task.parcel else { return Ok(()) };
        let (id, early) = (parcel.id.clone(), task.early.take());
        self.heard.push_back(Heard::Accepted {
            tag,
            id,
            sequence: ack.sequence,
            is_duplicate: ack.duplicate,
        });
        if self.wants == Wants::Acceptance {
            self.remove(tag);
            return Ok(());
        }
        if let Some(record) = early {
            self.record(tag, record);
        }
        // It may have ended before anybody listened.
        if ack.duplicate { self.look_up(&[tag]) } else { Ok(()) }
    }

    fn not_acknowledged(&mut self, tag: u64, error: &PublishError) -> Result<(), NatsError> {
        let kind = error.kind();
        let may_try =
            self.tasks.get(&tag).is_some_and(|task| task.tries < TRIES) && !self.client.has_complaint();
        if matches!(kind, PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe) && may_try {
            return self.publish(tag);
        }
        let refused = |code, message: String, id| Refused {
            failure: TaskFailure::new(code, message),
            id,
            retry_after: (code == ErrorCode::QueueFull).then_some(FULL_AGAIN),
        };
        let id = self.tasks.get(&tag).and_then(|task| Some(task.parcel.as_ref()?.id.clone()));
        let failure = self.client.publish_failed(error);
        let code = match &failure {
            NatsError::Full(_) => ErrorCode::QueueFull,
            NatsError::TooLarge(_) => ErrorCode::TooLarge,
            // Nothing else will be taken either.
            _ => return Err(failure),
        };
        if code == ErrorCode::QueueFull {
            // It may be sent again, and that is not one of the tries.
            if let Some(task) = self.tasks.get_mut(&tag) {
                task.tries = 0;
            }
        } else {
            self.remove(tag);
        }
        self.heard.push_back(Heard::Refused { tag, refused: refused(code, failure.to_string(), id) });
        Ok(())
    }

    /// Something was written about a task, perhaps one of ours.
    fn entry(&mut self, entry: &kv::Entry) {
        let Some(tags) = self.tags.get(&entry.key).cloned() else { return };
        if entry.operation != Operation::Put {
            return;
        }
        let Some(record) = Record::read(&entry.value) else { return };
        for tag in tags {
            self.record(tag, record.clone());
        }
    }

    fn record(&mut self, tag: u64, record: Record) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        let is_ours = match (&task.parcel, task.sequence) {
            // Whatever is there is what was asked for.
            (None, _) => true,
            (Some(_), None) => {
                task.early = Some(record);
                return;
            }
            // A cancel is for all that were there when it was written.
            (Some(_), Some(_)) if record.origin == 0 => record.at_ms >= task.sent_ms,
            (Some(_), Some(sequence)) => record.origin >= sequence,
        };
        if !is_ours || task.end.is_some() {
            return;
        }
        if record.state == RecordState::Retrying {
            if record.failures > task.failures {
                task.failures = record.failures;
                self.heard.push_back(Heard::Retrying { tag, record });
            }
            return;
        }
        if task.is_silent {
            self.remove(tag);
            self.heard.push_back(Heard::Ended { tag, record });
        } else {
            task.end = Some((record, Instant::now() + CHUNKS_GRACE));
        }
    }

    fn chunk(&mut self, tag: u64, message: Option<Message>) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        match message {
            Some(message) if !is_end(&message.payload) => {
                self.heard.push_back(Heard::Said { tag, event: message.payload.to_vec() });
            }
            _ => {
                task.is_silent = true;
                self.end_silent(Instant::now());
            }
        }
    }

    /// Tells the ends of those that have nothing more to say, or have had the time to.
    fn end_silent(&mut self, now: Instant) {
        let is_over =
            |task: &Pending| task.end.as_ref().is_some_and(|(_, until)| task.is_silent || *until <= now);
        let over: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| is_over(task)).map(|(tag, _)| *tag).collect();
        for tag in over {
            if let Some((record, _)) = self.remove(tag).and_then(|task| task.end) {
                self.heard.push_back(Heard::Ended { tag, record });
            }
        }
    }

    fn look_up_the_old(&mut self, now: Instant) -> Result<(), NatsError> {
        let is_old = |task: &Pending| {
            let was_sent = task.parcel.is_none() || task.sequence.is_some();
            was_sent && task.end.is_none() && now.duration_since(task.begun) >= LOOK_UP_EVERY
        };
        let mut old: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| is_old(task)).map(|(tag, _)| *tag).collect();
        old.truncate(LOOK_UP_MAX);
        self.look_up(&old)
    }

    fn look_up(&mut self, tags: &[u64]) -> Result<(), NatsError> {
        let Some(results) = self.results.clone().filter(|_| !tags.is_empty()) else { return Ok(()) };
        let keys: Vec<(u64, String)> =
            tags.iter().filter_map(|tag| Some((*tag, self.tasks.get(tag)?.key.clone()))).collect();
        let found = self.client.block_on(async {
            let look_ups = keys.into_iter().map(|(tag, key)| {
                let results = results.clone();
                async move { (tag, results.get(key).await) }
            });
            futures_util::future::join_all(look_ups).await
        });
        for (tag, value) in found {
            // One that cannot be read now is looked up again.
            if let Ok(Some(value)) = value
                && let Some(record) = Record::read(&value)
            {
                self.record(tag, record);
            }
        }
        Ok(())
    }
}

/// Whether nothing more is said.
fn is_end(payload: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Last {
        end: Option<Box<RawValue>>,
    }
    serde_json::from_slice::<Last>(payload).is_ok_and(|last| last.end.is_some())
}
