//! What the tests stand on: a service with a few handlers, the door before it, and a raw client on the other side.
//!
//! The client uses the public parts of the crate that any program could use, so that what is tested is what is on the
//! server, and not what the door says of itself.

use crate::server::NatsServer;
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use millpond_nats::{Lane, NatsDoor, Queue, Record, connect, entry_subject, get_entry, key_of, publish};
use millpond_tasks::config::NatsSettings;
use millpond_tasks::{
    Call, ErrorCode, Handler, Level, Log, Registry, Service, ServiceConfig, Symbols, TaskFailure, TaskId,
    function, quick,
};
use serde_json::value::RawValue;
use std::future::Future;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Settings for a test: a short lease, quick presence.
pub(crate) fn settings(server: &NatsServer) -> NatsSettings {
    NatsSettings {
        url: server.url(),
        queue: "jobs".to_owned(),
        lease: Duration::from_secs(2),
        presence: Duration::from_secs(1),
        ..NatsSettings::default()
    }
}

/// What handlers of a test note down.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) runs: AtomicU64,
    pub(crate) open: AtomicBool,
    pub(crate) attempts: Mutex<Vec<(u32, Option<String>)>>,
}

/// A service and its door.
pub(crate) struct Daemon {
    pub(crate) service: Service,
    pub(crate) door: Option<NatsDoor>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    pub(crate) fn start(settings: NatsSettings) -> Self {
        Self::start_with(settings, Arc::default(), ServiceConfig::default())
    }

    pub(crate) fn start_with(settings: NatsSettings, notes: Arc<Notes>, config: ServiceConfig) -> Self {
        let service =
            Service::start(config, registry(&notes), Symbols::default()).expect("the service starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |level: Level, line: &str| {
            if level <= Level::Warn && std::env::var_os("SHOW").is_some() {
                eprintln!("{level} {line}");
            }
            kept.lock().expect("it is right").push(format!("{level} {line}"));
        });
        let door = NatsDoor::open(settings, service.handle(), log).expect("the door opens");
        Self { service, door: Some(door), notes, lines }
    }

    pub(crate) fn stats(&self) -> millpond_tasks::NatsStats {
        self.door.as_ref().expect("it is open").stats()
    }

    pub(crate) fn runs(&self) -> u64 {
        self.notes.runs.load(SeqCst)
    }

    /// As a daemon ends.
    pub(crate) fn stop(mut self, drain: Duration) -> millpond_nats::Closed {
        let door = self.door.take().expect("it is open");
        door.drain();
        self.service.drain(drain);
        door.give_back();
        self.service.stop(Duration::from_secs(5));
        door.close(Duration::from_secs(10))
    }
}

fn registry(notes: &Arc<Notes>) -> Registry {
    let mut registry = Registry::new();
    let with = |act: fn(&Notes, &Call) -> Result<Box<RawValue>, TaskFailure>| {
        let notes = Arc::clone(notes);
        let handler: Box<dyn Handler> = Box::new(function(move |call: &Call| {
            notes.runs.fetch_add(1, SeqCst);
            act(&notes, call)
        }));
        handler
    };
    let mut add =
        |name: &str, handler: Box<dyn Handler>| registry.add_boxed(name, handler).expect("it is new");
    add("once", with(|_, call| Ok(call.args().to_owned())));
    add("fail", with(|_, _| Err(TaskFailure::new(ErrorCode::HandlerError, "as asked for"))));
    add("bad", with(|_, _| Err(TaskFailure::new(ErrorCode::BadArguments, "never"))));
    add(
        "gate",
        with(|notes, call| {
            while !notes.open.load(SeqCst) && !call.is_cancelled() {
                thread::sleep(Duration::from_millis(2));
            }
            Ok(call.args().to_owned())
        }),
    );
    add(
        "third",
        with(|notes, call| {
            let left = call.last_checkpoint().map(|left| left.get().to_owned());
            notes.attempts.lock().expect("it is right").push((call.attempt(), left));
            let _ = call.checkpoint(RawValue::from_string(call.attempt().to_string()).expect("it is right"));
            if call.attempt() < 3 {
                return Err(TaskFailure::new(ErrorCode::HandlerError, "not yet"));
            }
            Ok(call.args().to_owned())
        }),
    );
    add(
        "talk",
        with(|_, call| {
            for number in 0..5 {
                let _ = call.partial(RawValue::from_string(number.to_string()).expect("it is right"));
            }
            Ok(RawValue::from_string("\"said\"".to_owned()).expect("it is right"))
        }),
    );
    let counted = Arc::clone(notes);
    registry
        .add(
            "quick",
            quick(move |args: &RawValue, out: &mut Vec<u8>| {
                counted.runs.fetch_add(1, SeqCst);
                out.extend_from_slice(args.get().as_bytes());
                Ok(())
            }),
        )
        .expect("it is new");
    registry
}

/// Somebody on the other side of the server.
pub(crate) struct Other {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) client: Client,
    pub(crate) queue: Queue,
}

impl Other {
    pub(crate) fn new(settings: &NatsSettings) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it is right");
        let client = runtime.block_on(connect(settings, "test", |_| ())).expect("the server is there");
        Self { runtime, client, queue: Queue::new(&settings.queue).expect("it is right") }
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("it takes too long") })
    }

    /// Publishes a request; says its sequence.
    pub(crate) fn submit(&self, lane: Lane, json: &str) -> u64 {
        self.submit_with(lane, json, &[])
    }

    pub(crate) fn submit_with(&self, lane: Lane, json: &str, headers: &[(&str, &str)]) -> u64 {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| map.insert(*name, *value));
        let subject = self.queue.subject(lane);
        // The connection may just have been lost.
        let answer = until("the queue takes it", || {
            let sent = publish(&self.client, &subject, map.clone(), Bytes::from(json.to_owned()));
            self.wait(sent).ok()
        });
        answer["seq"].as_u64().expect("it has a sequence")
    }

    /// The entry of a task.
    pub(crate) fn record(&self, id: &TaskId) -> Option<Record> {
        let bucket = self.queue.results();
        let entry =
            until("the bucket is there", || self.wait(get_entry(&self.client, &bucket, &key_of(id))).ok());
        Record::read(&entry?.value)
    }

    /// The entry of a task, once it is final.
    pub(crate) fn ended(&self, id: &TaskId) -> Record {
        until("the task ends", || self.record(id).filter(|record| record.state.is_final()))
    }

    /// Cancels as clients do.
    pub(crate) fn cancel(&self, id: &TaskId) {
        let key = key_of(id);
        let record = Record::cancelled(id, 0, "test", 1);
        let results = self.queue.results();
        let written =
            self.wait(millpond_nats::put_entry(&self.client, &results, &key, record.write().into(), Some(0)));
        written.expect("nobody was first");
        let mark = entry_subject(&self.queue.cancelled(), &key);
        self.wait(publish(&self.client, &mark, HeaderMap::new(), Bytes::from_static(b"{}"))).expect("marked");
    }

    /// How many messages a stream has.
    pub(crate) fn messages(&self, stream: &str) -> u64 {
        let info =
            until("the stream is there", || self.wait(millpond_nats::stream_info(&self.client, stream)).ok());
        info["state"]["messages"].as_u64().expect("it is a number")
    }

    /// Waits until the queue is empty.
    pub(crate) fn empty(&self) {
        let stream = self.queue.stream();
        until("the queue is empty", || (self.messages(&stream) == 0).then_some(()));
    }
}

/// Waits for a condition.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn name(id: &str) -> TaskId {
    TaskId::Name(id.into())
}

pub(crate) fn value(record: &Record) -> serde_json::Value {
    serde_json::from_str(record.outcome.as_ref().expect("it has an outcome").get()).expect("it is JSON")
}
