//! The thread of one attached program: takes its messages, answers what can be answered on the spot, hands the rest
//! to the pool.
//!
//! A *quick* handler takes less time than it takes to hand its task to another thread, so it is run right here, and
//! the answers of a batch go back together. Everything else has the whole life of a task. If the pool has no room, the
//! message is held and nothing more is taken: the channel fills, and the program is told so when it sends. That is how
//! back-pressure crosses the border.
//!
//! After work the thread looks around for a moment (`memory_door.linger`) before it sleeps: while tasks flow, neither
//! side makes a system call.

use super::Shared;
use super::answers::Bundle;
use super::member::{Member, words};
use crate::channel::{BATCH, Broken, Message, Receiver};
use crate::linger::Linger;
use crate::message::{CALL, CANCEL, HANDLERS_MAX, INTRODUCE, REQUEST, STREAMED, now_ns};
use millpond_queue::wpol::v2::NAP_MAX;
use millpond_tasks::request::read_args;
use millpond_tasks::{DoorName, ErrorCode, Refused, Request, TaskFailure};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

/// Beyond this many bytes of answers that wait, no more tasks are taken from a program.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// The longest name that a handler can have, in bytes.
const HANDLER_BYTES_MAX: usize = 64;
/// The first pause when there is no room for answers, or too many tasks are under way; doubled up to the last.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// The thread's own state.
pub(super) struct Intake {
    member: Arc<Member>,
    door: Arc<Shared>,
    /// Handlers as the program numbers them.
    introduced: Vec<Introduced>,
    /// Answers to the batch at hand.
    bundle: Bundle,
    /// Messages that the pool had no room for, and what came behind them: never more than a batch.
    held: VecDeque<Held>,
    /// When the first of them is tried again.
    due: Instant,
}

struct Introduced {
    name: Box<str>,
    /// The service's number, if there is such a handler.
    number: Option<u32>,
}

/// A message that waits for room in the pool.
struct Held {
    kind: u32,
    number: u64,
    word: u32,
    sent_ns: u64,
    body: Vec<u8>,
}

impl Intake {
    pub(super) fn new(member: Arc<Member>, door: Arc<Shared>) -> Self {
        Self {
            member,
            door,
            introduced: Vec::new(),
            bundle: Bundle::default(),
            held: VecDeque::new(),
            due: Instant::now(),
        }
    }

    /// Takes messages until the program has sent its last and everything is handed on.
    pub(super) fn run(mut self, receiver: Receiver) {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(receiver)));
        if worked.is_err() {
            // A mistake of ours. The program must not wait for ever, and others go on.
            self.door
                .log
                .error(&format!("memory: the thread of {} panicked; it is detached", self.member.name));
            self.member.has_left();
        }
        self.member.has_drained();
        self.door.ring();
    }

    fn work(&mut self, mut receiver: Receiver) {
        let mut linger = Linger::default();
        let mut pause = PAUSE_MIN;
        // How much may still come once the door is closed: a program cannot keep it open by sending on.
        let mut last = self.member.requests.config().slots as usize;
        loop {
            // Asked before the look: whatever was sent before the end is found by that look.
            let is_last = self.member.is_closing.load(Acquire);
            let clear = self.member.answers.flush() & self.member.resume_streams();
            let room = self.room();
            if room == 0 {
                thread::sleep(pause);
                pause = (2 * pause).min(PAUSE_MAX);
                continue;
            }
            match self.take(&mut receiver, room) {
                Err(Broken) => break,
                Ok(0) if is_last => break,
                Ok(0) => {}
                Ok(taken) => {
                    linger.reset();
                    pause = PAUSE_MIN;
                    last = if is_last { last.saturating_sub(taken) } else { last };
                    if last == 0 {
                        break;
                    }
                    continue;
                }
            }
            if !clear {
                thread::sleep(pause);
                pause = (2 * pause).min(PAUSE_MAX);
            } else if !linger.pause(Instant::now(), self.door.settings.linger) {
                // Nobody rings if an answer of a worker's finds no room meanwhile.
                let is_busy = self.member.under_way.load(Acquire) > 0;
                receiver.wait(if is_busy { PAUSE_MAX } else { NAP_MAX });
            }
        }
    }

    /// How many more tasks may be taken. What is held goes first.
    fn room(&mut self) -> usize {
        if !self.held.is_empty() {
            if Instant::now() >= self.due {
                self.try_held();
            }
            if !self.held.is_empty() {
                return 0;
            }
        }
        if self.member.answers.waiting_bytes() > WAITING_BYTES_MAX {
            return 0;
        }
        let busy = self.member.under_way.load(Acquire) + self.member.answers.waiting();
        self.door.settings.in_flight_max.saturating_sub(busy)
    }

    fn try_held(&mut self) {
        let now = now_ns();
        while let Some(held) = self.held.pop_front() {
            if !self.accept(&held.message(), now) {
                self.held.push_front(held);
                break;
            }
        }
        self.member.answers.send_bundle(&mut self.bundle);
    }

    /// Takes what has come. An error means that the memory cannot be used any more.
    fn take(&mut self, receiver: &mut Receiver, room: usize) -> Result<usize, Broken> {
        let mut now = 0;
        let taken = receiver.receive(room.min(BATCH), |message| {
            if now == 0 {
                now = now_ns();
            }
            if !self.held.is_empty() || !self.accept(&message, now) {
                self.held.push_back(Held::from(&message));
            }
        });
        self.member.answers.send_bundle(&mut self.bundle);
        taken.inspect_err(|_| {
            let name = &self.member.name;
            self.door
                .log
                .warn(&format!("memory: {name} wrote what nobody may write into its memory; it is detached"));
            self.member.has_left();
        })
    }

    /// Does what a message asks for; false if the pool has no room for it now.
    fn accept(&mut self, message: &Message<'_>, now: u64) -> bool {
        let waited = Duration::from_nanos(now.saturating_sub(message.sent_ns));
        match message.kind {
            REQUEST => return self.request(message, waited),
            CALL => return self.call(message, waited),
            CANCEL => self.member.cancel(message.number),
            INTRODUCE => self.introduce(message),
            kind => {
                let words = format!("messages of kind {kind} mean nothing here");
                self.refuse(message.number, &TaskFailure::new(ErrorCode::InvalidRequest, words));
            }
        }
        true
    }

    fn request(&mut self, message: &Message<'_>, waited: Duration) -> bool {
        let request = match Request::parse(message.body, self.member.service.limits()) {
            Ok(request) => request,
            Err(error) => {
                self.refuse(message.number, &Refused::from(error).failure);
                return true;
            }
        };
        if message.word != STREAMED
            && let Some(quick) = self.member.service.quick_number(&request)
        {
            let answered = self.answer(message.number, quick, &request.args, waited);
            debug_assert!(answered, "a handler stays quick");
            return true;
        }
        self.submit(message, request)
    }

    fn call(&mut self, message: &Message<'_>, waited: Duration) -> bool {
        let args = match read_args(message.body, self.member.service.limits()) {
            Ok(args) => args,
            Err(error) => {
                self.refuse(message.number, &Refused::from(error).failure);
                return true;
            }
        };
        let place = message.word as usize;
        let Some(handler) = self.introduced.get(place) else {
            let words = format!("handler {place} was not introduced");
            self.refuse(message.number, &TaskFailure::new(ErrorCode::UnknownHandler, words));
            return true;
        };
        if let Some(number) = handler.number
            && self.answer(message.number, number, args, waited)
        {
            return true;
        }
        // An unknown name is refused there, in the words that every door uses.
        let request = Request::for_handler(&self.introduced[place].name, args.to_owned());
        self.submit(message, request)
    }

    /// Runs a quick handler here and now. False if it is none.
    fn answer(
        &mut self,
        number: u64,
        quick: u32,
        args: &serde_json::value::RawValue,
        waited: Duration,
    ) -> bool {
        let service = &self.member.service;
        let mut is_quick = true;
        self.bundle.add(number, |out| {
            let start = out.len();
            match service.answer_quick(quick, args, DoorName::Memory, waited, out) {
                Some(Ok(())) => 0,
                Some(Err(failure)) => {
                    out.truncate(start);
                    out.extend_from_slice(words(&failure).as_bytes());
                    failure.code.number()
                }
                None => {
                    is_quick = false;
                    0
                }
            }
        });
        if !is_quick {
            self.bundle.take_back();
        }
        is_quick
    }

    /// Hands a request to the pool; false if that is full.
    fn submit(&mut self, message: &Message<'_>, request: Request) -> bool {
        if self.member.knows(message.number) {
            let words = format!("a task with the number {} is under way already", message.number);
            self.refuse(message.number, &TaskFailure::new(ErrorCode::DuplicateId, words));
            return true;
        }
        let is_streamed = message.kind == REQUEST && message.word == STREAMED;
        match self.member.submit(message.number, request, is_streamed) {
            Ok(()) => {}
            Err(refused) if refused.failure.code == ErrorCode::QueueFull => {
                let wait = refused.retry_after.unwrap_or(PAUSE_MAX).clamp(PAUSE_MIN, 5 * PAUSE_MAX);
                self.due = Instant::now() + wait;
                return false;
            }
            Err(refused) => self.refuse(message.number, &refused.failure),
        }
        true
    }

    fn introduce(&mut self, message: &Message<'_>) {
        let place = message.word as usize;
        // No handler has a name that is longer or no text: calls of such a one are answered with its beginning.
        let name = &message.body[..message.body.len().min(HANDLER_BYTES_MAX)];
        let name = &*String::from_utf8_lossy(name);
        if place == self.introduced.len() && place < HANDLERS_MAX {
            let number = self.member.service.handler_number(name);
            self.introduced.push(Introduced { name: name.into(), number });
        }
    }

    fn refuse(&mut self, number: u64, failure: &TaskFailure) {
        self.bundle.add(number, |out| {
            out.extend_from_slice(words(failure).as_bytes());
            failure.code.number()
        });
    }
}

impl Held {
    fn message(&self) -> Message<'_> {
        let Self { kind, number, word, sent_ns, ref body } = *self;
        Message { kind, number, word, sent_ns, body }
    }
}

impl From<&Message<'_>> for Held {
    fn from(message: &Message<'_>) -> Self {
        let Message { kind, number, word, sent_ns, body } = *message;
        Self { kind, number, word, sent_ns, body: body.to_vec() }
    }
}
