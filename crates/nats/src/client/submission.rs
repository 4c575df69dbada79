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
//! Not here: which entry is about which task (`hearing.rs`), what is sent (`parcel.rs`), how many are under way at once
//! (the caller's window).

mod hearing;

use super::parcel::{Parcel, Wish, pack};
use super::{NatsClient, now_ms};
use crate::api::{get_entry, stream_info};
use crate::error::NatsError;
use crate::message::given_id;
use crate::names::{bucket_stream, key_of};
use crate::record::Record;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv;
use async_nats::jetstream::publish::PublishAck;
use async_nats::{Message, Subscriber};
use futures_util::future::BoxFuture;
use futures_util::stream::{AbortHandle, BoxStream, FuturesUnordered, SelectAll};
use futures_util::{FutureExt, StreamExt};
use millpond_tasks::ErrorCode;
use millpond_tasks::{Limits, Refused, Request, TaskFailure, TaskId};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How often a message is published whose acknowledgement does not come.
const TRIES: u32 = 4;
/// When it is worth coming again to a full queue.
const FULL_AGAIN: Duration = Duration::from_millis(200);
/// How often those that have waited as long are looked up, in case that a watch missed them.
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);

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
    /// The last revision of the bucket of results that was seen.
    revision: u64,
    /// Whether the first revision was seen.
    is_begun: bool,
}

/// One task under way.
struct Pending {
    /// None for a task that somebody else has sent.
    parcel: Option<Parcel>,
    key: String,
    tries: u32,
    begun: Instant,
    /// The last revision of the bucket that is known to be older than the task.
    floor: u64,
    /// Its place in the stream, once acknowledged.
    sequence: Option<u64>,
    /// Whether the server had it before, so that its entry may be older than this.
    is_duplicate: bool,
    /// How many failures were told.
    failures: u32,
    /// What the bucket said before the acknowledgement came, with the revisions.
    early: Vec<(Record, u64)>,
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
            revision: 0,
            is_begun: false,
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
            floor: self.revision,
            sequence: None,
            is_duplicate: false,
            failures: 0,
            early: Vec::new(),
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
            let bucket = bucket_stream(&self.client.queue.results());
            let info = self.client.block_on(stream_info(&self.client.connection.client, &bucket));
            let info = info.map_err(|error| self.client.with_complaint(error))?;
            // What was there before the first task is about none of them.
            if !self.is_begun {
                self.is_begun = true;
                self.revision = info["state"]["last_seq"].as_u64().unwrap_or_default();
                self.tasks.values_mut().for_each(|task| task.floor = self.revision);
            }
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
        task.is_duplicate = ack.duplicate;
        let Some(parcel) = &task.parcel else { return Ok(()) };
        let (id, early) = (parcel.id.clone(), std::mem::take(&mut task.early));
        if ack.duplicate && parcel.is_doubly_named {
            let key = task.key.clone();
            if let Some(message) = self.whose_key(&id, &key, ack.sequence)? {
                self.give_up(tag, ErrorCode::KeyReused, message);
                return Ok(());
            }
        }
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
        for (record, revision) in early {
            self.record(tag, record, revision);
        }
        // It may have ended before anybody listened.
        if ack.duplicate { self.look_up(&[tag]) } else { Ok(()) }
    }

    /// An idempotency key was used before. None if that was for the same id, else what to tell.
    fn whose_key(&self, id: &TaskId, key: &str, sequence: u64) -> Result<Option<String>, NatsError> {
        let client = self.client;
        let earlier = client.block_on(async {
            let stream = client.connection.jetstream.get_stream_no_info(client.queue.stream()).await.ok()?;
            stream.get_raw_message(sequence).await.ok()
        });
        // While it waits or runs the message itself says so, later its result does.
        if let Some(earlier) = earlier {
            let earlier = Request::parse(&earlier.payload, &self.limits).ok().and_then(|request| request.id);
            let earlier = earlier.unwrap_or_else(|| given_id(sequence));
            let differs = || format!("idempotency_key: it belongs to task {earlier}; ask for that one");
            return Ok((earlier != *id).then(differs));
        }
        let entry = client.block_on(get_entry(&client.connection.client, &client.queue.results(), key))?;
        let origin = entry.and_then(|entry| Record::read(&entry.value)).map(|record| record.origin);
        let unknown = || {
            format!(
                "idempotency_key: it was used before, and task {id} has no result of that; keep to one id for it"
            )
        };
        Ok((origin != Some(sequence)).then(unknown))
    }

    /// Nothing more will be heard of a task.
    fn give_up(&mut self, tag: u64, code: ErrorCode, message: String) {
        let id = self.remove(tag).and_then(|task| Some(task.parcel?.id));
        let refused = Refused { failure: TaskFailure::new(code, message), id, retry_after: None };
        self.heard.push_back(Heard::Refused { tag, refused });
    }

    fn not_acknowledged(&mut self, tag: u64, error: &PublishError) -> Result<(), NatsError> {
        let kind = error.kind();
        let may_try =
            self.tasks.get(&tag).is_some_and(|task| task.tries < TRIES) && !self.client.has_complaint();
        if matches!(kind, PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe) && may_try {
            return self.publish(tag);
        }
        let failure = self.client.publish_failed(error);
        match &failure {
            NatsError::Full(_) => {
                // It may be sent again, and that is not one of the tries.
                let Some(task) = self.tasks.get_mut(&tag) else { return Ok(()) };
                task.tries = 0;
                let id = task.parcel.as_ref().map(|parcel| parcel.id.clone());
                let failure = TaskFailure::new(ErrorCode::QueueFull, failure.to_string());
                let refused = Refused { failure, id, retry_after: Some(FULL_AGAIN) };
                self.heard.push_back(Heard::Refused { tag, refused });
            }
            NatsError::TooLarge(message) => self.give_up(tag, ErrorCode::TooLarge, message.clone()),
            // Nothing else will be taken either.
            _ => return Err(failure),
        }
        Ok(())
    }
}
