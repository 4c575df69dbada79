//! One attached program, as the daemon sees it: its tasks under way, its answers, its end.
//!
//! The program's own thread (`intake.rs`) takes messages. Whoever ends a task, some worker of the pool, sends the
//! answer. A task that streams is read by its events: as many as there is room for, the rest when there is room again;
//! its handler waits meanwhile, as for any slow reader.
//!
//! Not here: who comes in (`door.rs`), what a message asks for (`intake.rs`).

use super::answers::Answers;
use millpond_queue::wpol::v2::Region;
use millpond_tasks::{
    DoorName, Outcome, Reader, Refused, Request, ServiceHandle, StreamEvent, Submit, Task, TaskFailure,
    Wants, Watch, Watching,
};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much of a stream is read at once, in bytes.
const STREAM_BYTES: usize = 16 << 10;

/// One attached program.
#[derive(Debug)]
pub(super) struct Member {
    /// What it calls itself, with its process id.
    pub(super) name: String,
    pub(super) service: ServiceHandle,
    pub(super) answers: Answers,
    /// The region that its requests come by: closed to make it stop, and to wake its thread.
    pub(super) requests: Region,
    /// Tasks under way by their numbers, to cancel them or to read them. A quick one is never among them.
    exchanges: Mutex<HashMap<u64, Exchange>>,
    /// How many tasks were taken and have not been answered, quick ones left out.
    pub(super) under_way: AtomicUsize,
    /// Streams that could not be read on for lack of room.
    stalled: Mutex<Vec<u64>>,
    /// The program is gone: its process ended, or it closed the connection.
    pub(super) is_gone: AtomicBool,
    /// No more messages are waited for. The region says so too, but there the program could write something else.
    pub(super) is_closing: AtomicBool,
    /// Its thread has taken everything that was sent, and nothing more can come.
    pub(super) is_drained: AtomicBool,
}

#[derive(Debug)]
enum Exchange {
    Plain(Arc<Task>),
    Streamed(Arc<Streamed>),
}

/// A task whose events are wanted.
#[derive(Debug)]
struct Streamed {
    task: Arc<Task>,
    /// None once the answer was sent. Locked while events are sent, so that they keep their order.
    watching: Mutex<Option<Watching>>,
}

impl Member {
    pub(super) fn new(name: String, service: ServiceHandle, answers: Answers, requests: Region) -> Self {
        Self {
            name,
            service,
            answers,
            requests,
            exchanges: Mutex::default(),
            under_way: AtomicUsize::new(0),
            stalled: Mutex::default(),
            is_gone: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_drained: AtomicBool::new(false),
        }
    }

    /// Whether a task with this number is under way.
    pub(super) fn knows(&self, number: u64) -> bool {
        self.lock().contains_key(&number)
    }

    /// Hands a request in. Its answer is sent when it ends; a refusal is the caller's to tell.
    pub(super) fn submit(
        self: &Arc<Self>,
        number: u64,
        request: Request,
        is_streamed: bool,
    ) -> Result<(), Refused> {
        self.under_way.fetch_add(1, AcqRel);
        let reader = is_streamed.then(|| Reader {
            who: Arc::clone(self) as Arc<dyn Watch>,
            tag: number,
            wants: Wants::Stream { from: 0 },
        });
        let submit = Submit { reader, keep: false, door: DoorName::Memory, earlier: None };
        let accepted = self.service.submit_request(request, submit).inspect_err(|_| {
            self.under_way.fetch_sub(1, AcqRel);
        })?;
        match accepted.watching {
            Some(watching) => self.follow(number, accepted.task, watching),
            None => self.await_end(number, &accepted.task),
        }
        Ok(())
    }

    fn await_end(self: &Arc<Self>, number: u64, task: &Arc<Task>) {
        self.lock().insert(number, Exchange::Plain(Arc::clone(task)));
        let member = Arc::clone(self);
        // Called at once if it has ended already.
        task.on_end(move |_, outcome| {
            member.lock().remove(&number);
            member.tell(number, outcome);
        });
    }

    fn follow(&self, number: u64, task: Arc<Task>, watching: Watching) {
        let streamed = Streamed { task, watching: Mutex::new(Some(watching)) };
        self.lock().insert(number, Exchange::Streamed(Arc::new(streamed)));
        // Whatever was told before it could be found.
        self.read_stream(number);
    }

    /// Sends what a stream has, as far as there is room, and the answer behind its last event.
    fn read_stream(&self, number: u64) {
        let Some(Exchange::Streamed(streamed)) = self.lock().get(&number).map(Exchange::share) else {
            return;
        };
        let mut watching = streamed.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events: Vec<StreamEvent> = Vec::new();
        let mut line = Vec::new();
        while let Some(reader) = watching.as_mut() {
            // Asked before the look: what is said before the end is found by that look.
            let has_ended = streamed.task.is_ended();
            if !self.answers.has_room() {
                self.stalled.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                return;
            }
            events.clear();
            let more = reader.read(STREAM_BYTES, &mut events);
            for event in &events {
                line.clear();
                event.write_json(&mut line);
                // What finds no room waits with the answers: it is no more than one look's worth.
                self.answers.event(number, &line);
            }
            if has_ended && !more {
                *watching = None;
                self.lock().remove(&number);
                if let Some(outcome) = streamed.task.outcome() {
                    self.tell(number, outcome);
                }
            } else if events.is_empty() && !more {
                return;
            }
        }
    }

    /// Reads on where there was no room. Says whether all could be read.
    pub(super) fn resume_streams(&self) -> bool {
        let stalled = std::mem::take(&mut *self.stalled.lock().unwrap_or_else(PoisonError::into_inner));
        for number in stalled {
            self.read_stream(number);
        }
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn tell(&self, number: u64, outcome: &Outcome) {
        match outcome.result() {
            Ok(value) => self.answers.answer(number, 0, value.get().as_bytes()),
            Err(failure) => self.answers.answer(number, failure.code.number(), words(failure).as_bytes()),
        }
        self.under_way.fetch_sub(1, AcqRel);
    }

    /// A task is no longer wanted. One that has ended, or was quick, has its answer already.
    pub(super) fn cancel(&self, number: u64) {
        let task = match self.lock().get(&number) {
            Some(Exchange::Plain(task)) => Arc::clone(task),
            Some(Exchange::Streamed(streamed)) => Arc::clone(&streamed.task),
            None => return,
        };
        // It may end by itself at this very moment.
        let _ = self.service.cancel(task.id());
    }

    /// The program is gone: nobody reads answers any more, and nothing else will be sent.
    pub(super) fn has_left(&self) {
        if !self.is_gone.swap(true, AcqRel) {
            self.close();
            self.answers.end();
            // Streams nobody reads would hold up their handlers.
            let exchanges: Vec<u64> = self.lock().keys().copied().collect();
            for number in exchanges {
                self.stop_reading(number);
            }
        }
    }

    /// Takes no more messages, but for those that are there already.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Release);
        self.requests.close();
    }

    fn stop_reading(&self, number: u64) {
        let streamed = match self.lock().get(&number).map(Exchange::share) {
            Some(Exchange::Streamed(streamed)) => streamed,
            _ => return,
        };
        let reader = streamed.watching.lock().unwrap_or_else(PoisonError::into_inner).take();
        if reader.is_some() {
            self.lock().remove(&number);
            self.under_way.fetch_sub(1, AcqRel);
        }
    }

    /// Whether nothing is left to be done for it.
    pub(super) fn is_settled(&self) -> bool {
        self.is_drained.load(Acquire)
            && self.under_way.load(Acquire) == 0
            && (self.is_gone.load(Acquire) || self.answers.waiting() == 0)
    }

    pub(super) fn has_drained(&self) {
        self.is_drained.store(true, Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Exchange>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    fn share(&self) -> Self {
        match self {
            Self::Plain(task) => Self::Plain(Arc::clone(task)),
            Self::Streamed(streamed) => Self::Streamed(Arc::clone(streamed)),
        }
    }
}

impl Watch for Member {
    fn told(&self, number: u64, _task: &Arc<Task>) {
        self.read_stream(number);
    }
}

/// A failure as one sentence, with its place if it has one. Its code travels beside it.
pub(super) fn words(failure: &TaskFailure) -> String {
    let mut words = failure.message.clone();
    if let Some(at) = failure.at {
        // Writing to a `String` cannot fail.
        let _ = write!(words, " ({at})");
    }
    words
}
