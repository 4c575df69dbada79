//! The exchanges of one connection that are under way: who waits for which task, and what is to be sent next.
//!
//! Everything here belongs to the reactor. Frames are put together in `answers`, in the order in which they
//! are sent: what the reactor says itself at once, what workers encoded when it is taken over from the
//! outbox. Since that happens after the frame that caused it was answered, ACCEPTED comes before RESULT.
//!
//! A stream is read only while there is room. One that has more than fits goes to the end of the line, so
//! that streams of one connection share it; and one that is not read holds back its own task and nothing
//! else.
//!
//! Not here: what is done about a client's frame (`answer.rs`), reading and writing bytes (`connection.rs`).

use super::Context;
use super::outbox::{Late, Outbox, Taken};
use super::stats::{add, subtract};
use crate::frame::{Flags, Kind, append};
use millpond_tasks::{Refused, StreamEvent, TaskFailure, TaskId, Watching};
use std::sync::Arc;

/// So much of one stream is read before the next has its turn.
const STREAM_BYTES: usize = 64 * 1024;

/// One exchange that waits for its task.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) tag: u64,
    /// Dropped, it takes the reader away from the task. None if no task is read.
    watching: Option<Watching>,
}

#[derive(Debug)]
pub(super) struct Exchanges {
    pub(super) outbox: Arc<Outbox>,
    /// By slot.
    under_way: Vec<Option<Exchange>>,
    in_flight: usize,
    /// What was taken from the outbox and is still to be seen to.
    taken: Taken,
    /// Whole frames that are to be sent.
    pub(super) answers: Vec<u8>,
    /// Frames that were put into `answers` since somebody counted.
    frames: u64,
    /// Events on their way from a stream into frames.
    events: Vec<StreamEvent>,
}

impl Exchanges {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self {
            outbox: Arc::new(outbox),
            under_way: Vec::new(),
            in_flight: 0,
            taken: Taken::default(),
            answers: Vec::new(),
            frames: 0,
            events: Vec::new(),
        }
    }

    /// How many answers are still to come.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether something waits for room in `answers`.
    pub(super) fn is_held_back(&self) -> bool {
        !self.taken.late.is_empty() || !self.taken.ready.is_empty()
    }

    /// Whether nothing is under way. What was encoded may still have to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Adds a frame; `write` says the payload.
    pub(super) fn say(&mut self, kind: Kind, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.frames += 1;
        append(&mut self.answers, kind, Flags::NONE, tag, write);
    }

    /// Adds an ERROR.
    pub(super) fn refuse(&mut self, context: &Context, tag: u64, refused: &Refused) {
        add(&context.counters.errors, 1);
        self.say(Kind::Error, tag, |out| refused.write_json(out));
    }

    /// Adds an ERROR about a task, or about none.
    pub(super) fn fail(&mut self, context: &Context, tag: u64, id: Option<TaskId>, failure: TaskFailure) {
        self.refuse(context, tag, &Refused { failure, id, retry_after: None });
    }

    /// An exchange has begun in this slot.
    pub(super) fn begin(&mut self, context: &Context, slot: u32, tag: u64, watching: Option<Watching>) {
        let slot = slot as usize;
        if slot >= self.under_way.len() {
            self.under_way.resize_with(slot + 1, || None);
        }
        self.under_way[slot] = Some(Exchange { tag, watching });
        self.in_flight += 1;
        add(&context.counters.in_flight, 1);
    }

    /// Slots of the exchanges that the client calls `tag`.
    pub(super) fn called(&self, tag: u64) -> Vec<u32> {
        let is_called = |exchange: &Option<Exchange>| exchange.as_ref().is_some_and(|it| it.tag == tag);
        let slots = (0..).zip(&self.under_way);
        slots.filter(|(_, exchange)| is_called(exchange)).map(|(slot, _)| slot).collect()
    }

    /// Ends an exchange without a further frame. False if its result was faster and is among the answers.
    pub(super) fn forget(&mut self, context: &Context, slot: u32) -> bool {
        if self.outbox.close(slot) {
            self.taken.ready.retain(|ready| *ready != slot);
            self.end(context, slot);
            return true;
        }
        self.take_over(context);
        let Some(at) = self.taken.late.iter().position(|late| late.slot == slot) else { return false };
        self.taken.late.remove(at);
        self.outbox.free(slot);
        self.end(context, slot);
        true
    }

    /// Takes over what workers have done: their frames come after all that was said before.
    pub(super) fn take_over(&mut self, context: &Context) {
        self.outbox.take(&mut self.answers, &mut self.taken);
        self.frames += std::mem::take(&mut self.taken.frames);
        let mut ended = std::mem::take(&mut self.taken.ended);
        for slot in ended.drain(..) {
            self.end(context, slot);
        }
        self.taken.ended = ended;
    }

    /// Encodes late results and reads streams, until `answers` has `bytes_max`.
    pub(super) fn fill_up(&mut self, context: &Context, bytes_max: usize) {
        while self.answers.len() < bytes_max {
            if let Some(Late { slot, tag, task }) = self.taken.late.pop_front() {
                self.say(Kind::Result, tag, |out| {
                    task.write_outcome(out);
                });
                self.outbox.free(slot);
                self.end(context, slot);
            } else if let Some(slot) = self.taken.ready.pop_front() {
                self.read_stream(context, slot);
            } else {
                break;
            }
        }
    }

    /// Sends what one stream has, and its result if it is at its end.
    fn read_stream(&mut self, context: &Context, slot: u32) {
        let Some(Exchange { tag, watching: Some(watching) }) = &mut self.under_way[slot as usize] else {
            return;
        };
        let tag = *tag;
        let task = Arc::clone(watching.task());
        self.outbox.is_being_read(slot);
        // Looked at first: after its end a task says nothing, so what is read then is all there is.
        let is_ended = task.is_ended();
        let has_more = watching.read(STREAM_BYTES, &mut self.events);
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.say(Kind::Event, tag, |out| event.write_json(out));
        }
        self.events = events;
        if has_more {
            if self.outbox.has_more(slot) {
                self.taken.ready.push_back(slot);
            }
        } else if is_ended && self.outbox.close(slot) {
            self.say(Kind::Result, tag, |out| {
                task.write_outcome(out);
            });
            self.end(context, slot);
        }
    }

    /// The client has gone: its readers go too, and what ends from now on is kept for whoever asks.
    pub(super) fn abandon(&mut self, context: &Context) {
        subtract(&context.counters.in_flight, self.in_flight as u64);
        self.in_flight = 0;
        self.under_way.clear();
        self.taken = Taken::default();
        self.answers = Vec::new();
    }

    /// How many frames were added since the last call.
    pub(super) fn count_frames(&mut self) -> u64 {
        std::mem::take(&mut self.frames)
    }

    fn end(&mut self, context: &Context, slot: u32) {
        if self.under_way[slot as usize].take().is_some() {
            self.in_flight -= 1;
            subtract(&context.counters.in_flight, 1);
        }
    }
}
