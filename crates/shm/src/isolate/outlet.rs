//! How the words of a handler get out of its process: in order, and each as soon as it is said.
//!
//! Partial results, progress and log lines are events in the stream of the task. Whoever says one tells the outlet,
//! on its own thread, and the outlet passes on what is new. If the channel is full it waits there, so a handler that
//! says more than the daemon takes is held back, as it would be in the daemon.
//!
//! Not here: what becomes of them in the daemon (`keeper.rs`).

use super::wire::{kind, level_word, write_failure};
use super::{NAP, fork};
use crate::channel::{Message, SendError, Sender};
use millpond_tasks::{
    About, Call, ErrorCode, Handler, Level, Reader, Said, ServiceHandle, StreamEvent, Task, TaskFailure,
    TaskId, Wants, Watch, Watching,
};
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How much is taken out of a stream at once.
const READ_BYTES: usize = 1 << 20;
/// How long a sender waits if there is room for a message but none for its payload.
const ARENA_PAUSE: Duration = Duration::from_micros(200);

/// The way out of a worker process. Any thread may use it.
pub(super) struct Outlet {
    sender: Mutex<Sender>,
    /// The task that runs. Locked before `sender`, so that what is read first is sent first.
    current: Mutex<Option<Current>>,
    /// The service of this process, once it has one.
    handle: OnceLock<ServiceHandle>,
}

struct Current {
    number: u64,
    id: TaskId,
    /// Its stream.
    watching: Option<Watching>,
    /// A word that could not be sent: the task fails at its end.
    spoilt: Option<TaskFailure>,
}

impl Outlet {
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender: Mutex::new(sender), current: Mutex::new(None), handle: OnceLock::new() }
    }

    pub(super) fn set_handle(self: &Arc<Self>, handle: ServiceHandle) {
        let to_daemon = Arc::clone(self);
        handle.on_checkpoint(move |task, value| to_daemon.checkpoint(task.id(), value));
        // It is set once, before the first task.
        let _ = self.handle.set(handle);
    }

    /// A task begins.
    pub(super) fn begin(&self, number: u64, id: TaskId) {
        *self.current() = Some(Current { number, id, watching: None, spoilt: None });
    }

    /// The id of the task, if it is the one that runs.
    pub(super) fn task_of(&self, number: u64) -> Option<TaskId> {
        self.current().as_ref().filter(|current| current.number == number).map(|current| current.id.clone())
    }

    /// The task leaves something for its next attempt.
    fn checkpoint(&self, id: &TaskId, value: &RawValue) {
        let mut current = self.current();
        let Some(current) = current.as_mut().filter(|current| current.id == *id) else { return };
        if let Some(failure) = self.say(kind::CHECKPOINT, current.number, 0, value.get().as_bytes()) {
            current.spoilt.get_or_insert(failure);
        }
    }

    /// The task has ended. What it said before goes out before that.
    pub(super) fn end(&self, number: u64, outcome: Result<&RawValue, &TaskFailure>) {
        let mut current = self.current();
        let spoilt = current.as_mut().and_then(|current| {
            self.pass_on(current);
            current.spoilt.take()
        });
        let ended = current.take();
        let sent = match (&spoilt, outcome) {
            (Some(failure), _) | (None, Err(failure)) => return self.fail(number, failure),
            (None, Ok(value)) => self.say(kind::RESULT, number, 0, value.get().as_bytes()),
        };
        drop(current);
        if let Some(failure) = sent {
            self.fail(number, &failure);
        }
        // Letting go of the stream takes a moment that nobody has to wait for.
        drop(ended);
    }

    fn fail(&self, number: u64, failure: &TaskFailure) {
        let mut body = Vec::new();
        write_failure(failure, &mut body);
        if let Some(too_large) = self.say(kind::ERROR, number, failure.code.number() as u32, &body) {
            body.clear();
            write_failure(&too_large, &mut body);
            self.say(kind::ERROR, number, too_large.code.number() as u32, &body);
        }
    }

    /// A line of this process's own log. Never waits: a log that is in the way is not worth it.
    pub(super) fn log(&self, level: Level, line: &str) {
        let message = message(kind::SAID, 0, level_word(level), line.as_bytes());
        let _ = self.sender().send(&message);
    }

    /// Sends a message, and waits for room if need be. What there will never be room for comes back as a failure.
    pub(super) fn say(&self, kind: u32, number: u64, word: u32, body: &[u8]) -> Option<TaskFailure> {
        let message = message(kind, number, word, body);
        loop {
            let sender = self.sender();
            match sender_send(sender, &message) {
                Ok(()) => return None,
                Err(SendError::Full) => thread::sleep(ARENA_PAUSE),
                Err(SendError::TooLarge { bytes_max }) => {
                    let message = format!(
                        "expected an answer of at most {bytes_max} bytes, got {}; a process cannot send more at once",
                        body.len()
                    );
                    return Some(TaskFailure::new(ErrorCode::TooLarge, message));
                }
                // Nobody listens any more.
                Err(SendError::Closed) => fork::leave(0),
                Err(SendError::Broken) => fork::leave(103),
            }
        }
    }

    /// Sends what the task said since the last time.
    fn pass_on(&self, current: &mut Current) {
        let Some(watching) = &mut current.watching else { return };
        let mut events = Vec::new();
        loop {
            let more = watching.read(READ_BYTES, &mut events);
            for event in events.drain(..) {
                if let Some(failure) = self.event(current.number, &event) {
                    current.spoilt.get_or_insert(failure);
                }
            }
            if !more {
                return;
            }
        }
    }

    fn event(&self, number: u64, event: &StreamEvent) -> Option<TaskFailure> {
        match &event.what {
            Said::Partial(value) => self.say(kind::PARTIAL, number, 0, value.get().as_bytes()),
            Said::Progress(fraction) => self.say(kind::PROGRESS, number, 0, &fraction.to_le_bytes()),
            Said::Log(line) => self.say(kind::LOG, number, 0, line.as_bytes()),
            // The stream waits for this reader, and this reader only waits for the daemon.
            Said::Missed(count) => {
                let line = format!("{count} things that the task said were lost");
                self.say(kind::LOG, number, 0, line.as_bytes())
            }
        }
    }

    /// From now on it hears what the task of this call says.
    fn listen(self: &Arc<Self>, call: &Call) {
        let task = self.handle.get().and_then(|handle| handle.get(call.task_id()).ok());
        let Some((task, number)) = task.zip(self.current().as_ref().map(|current| current.number)) else {
            return;
        };
        let who: Arc<dyn Watch> = Arc::clone(self) as _;
        let watching = task.watch(Reader { who, tag: number, wants: Wants::Stream { from: 0 } }).ok();
        if let Some(current) = self.current().as_mut() {
            current.watching = watching;
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sender(&self) -> MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends; if there is no room, waits a while for some.
fn sender_send(mut sender: MutexGuard<'_, Sender>, message: &Message<'_>) -> Result<(), SendError> {
    let sent = sender.send(message);
    if sent == Err(SendError::Full) {
        sender.wait_room(NAP);
        return sender.send(message);
    }
    sent
}

fn message(kind: u32, number: u64, word: u32, body: &[u8]) -> Message<'_> {
    Message { kind, number: number.max(1), word, sent_ns: 0, body }
}

impl Watch for Outlet {
    fn told(&self, tag: u64, _: &Arc<Task>) {
        let mut current = self.current();
        if let Some(current) = current.as_mut().filter(|current| current.number == tag) {
            self.pass_on(current);
        }
    }
}

/// A handler whose words are heard outside.
pub(super) struct Spoken {
    handler: Box<dyn Handler>,
    outlet: Arc<Outlet>,
}

impl Spoken {
    pub(super) fn new(handler: Box<dyn Handler>, outlet: Arc<Outlet>) -> Self {
        Self { handler, outlet }
    }
}

impl Handler for Spoken {
    fn start(&self, call: Call) {
        self.outlet.listen(&call);
        self.handler.start(call);
    }

    // `timeout` says nothing: the daemon watches the time, and ends the process.

    fn close(&self, within: Duration) {
        self.handler.close(within);
    }

    fn about(&self) -> About {
        self.handler.about()
    }
}
