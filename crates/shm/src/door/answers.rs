//! What goes back to one program: sent by whoever has it, kept in order when there is no room.
//!
//! The worker that ends a task sends its answer itself. If the channel is full, because the program does not read,
//! the answer waits here, and so do all that come later; the member's own thread sends them when there is room. There
//! is never more than one answer for each task under way, and no more tasks are taken from a program that has too
//! many under way, so what waits here is bounded.

use crate::channel::{BATCH, Message, SendError, Sender};
use crate::message::{ANSWER, EVENT};
use millpond_tasks::{ErrorCode, TaskFailure};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The way back to one program.
#[derive(Debug)]
pub(super) struct Answers {
    outgoing: Mutex<Outgoing>,
}

#[derive(Debug)]
struct Outgoing {
    sender: Sender,
    /// What found no room, oldest first.
    waiting: VecDeque<Letter>,
    /// How many bytes their bodies have.
    waiting_bytes: usize,
    /// The channel is broken, or its program is gone: whatever comes is thrown away.
    is_over: bool,
}

#[derive(Debug)]
struct Letter {
    kind: u32,
    number: u64,
    word: u32,
    body: Vec<u8>,
}

impl Letter {
    fn message(&self) -> Message<'_> {
        Message { kind: self.kind, number: self.number, word: self.word, sent_ns: 0, body: &self.body }
    }
}

/// Answers that are sent at once, when a batch of messages has been worked off.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    bodies: Vec<u8>,
    parts: Vec<(u64, i32, Range<usize>)>,
}

impl Bundle {
    /// Adds one; `write` appends its body and says its status.
    pub(super) fn add(&mut self, number: u64, write: impl FnOnce(&mut Vec<u8>) -> i32) {
        let start = self.bodies.len();
        let status = write(&mut self.bodies);
        self.parts.push((number, status, start..self.bodies.len()));
    }

    /// Forgets the last one.
    pub(super) fn take_back(&mut self) {
        if let Some((_, _, range)) = self.parts.pop() {
            self.bodies.truncate(range.start);
        }
    }
}

impl Answers {
    pub(super) fn new(sender: Sender) -> Self {
        Self {
            outgoing: Mutex::new(Outgoing {
                sender,
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                is_over: false,
            }),
        }
    }

    /// How a task ended.
    pub(super) fn answer(&self, number: u64, status: i32, body: &[u8]) {
        let message = Message { kind: ANSWER, number, word: status as u32, sent_ns: 0, body };
        self.lock().send(&message);
    }

    /// What a task said. It waits if it finds no room, so nothing should be said without [`has_room`](Self::has_room).
    pub(super) fn event(&self, number: u64, body: &[u8]) {
        self.lock().send(&Message { kind: EVENT, number, word: 0, sent_ns: 0, body });
    }

    /// Whether nothing waits.
    pub(super) fn has_room(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Sends a bundle and empties it.
    pub(super) fn send_bundle(&self, bundle: &mut Bundle) {
        if bundle.parts.is_empty() {
            return;
        }
        let message = |(number, status, range): &(u64, i32, Range<usize>)| Message {
            kind: ANSWER,
            number: *number,
            word: *status as u32,
            sent_ns: 0,
            body: &bundle.bodies[range.clone()],
        };
        let mut outgoing = self.lock();
        for parts in bundle.parts.chunks(BATCH) {
            let mut messages = [Message::default(); BATCH];
            for (place, part) in messages.iter_mut().zip(parts) {
                *place = message(part);
            }
            let messages = &messages[..parts.len()];
            let is_clear = outgoing.waiting.is_empty() && !outgoing.is_over;
            let sent = if is_clear { outgoing.sender.send_batch(messages).0 } else { 0 };
            for message in &messages[sent..] {
                outgoing.send(message);
            }
        }
        drop(outgoing);
        bundle.bodies.clear();
        bundle.parts.clear();
    }

    /// Sends what waits, as far as there is room. Says whether nothing is left.
    pub(super) fn flush(&self) -> bool {
        let mut outgoing = self.lock();
        while let Some(letter) = outgoing.waiting.pop_front() {
            if !outgoing.try_send(&letter.message()) {
                outgoing.waiting.push_front(letter);
                return false;
            }
            outgoing.waiting_bytes -= letter.body.len();
        }
        true
    }

    /// How many wait for room.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// How many bytes those have.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.lock().waiting_bytes
    }

    /// Nobody reads any more: what waits and what comes is thrown away.
    pub(super) fn end(&self) {
        let mut outgoing = self.lock();
        outgoing.is_over = true;
        outgoing.waiting.clear();
        outgoing.waiting_bytes = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    /// Sends one, or keeps it until there is room.
    fn send(&mut self, message: &Message<'_>) {
        if self.is_over || (self.waiting.is_empty() && self.try_send(message)) {
            return;
        }
        let Message { kind, number, word, body, .. } = *message;
        self.waiting_bytes += body.len();
        self.waiting.push_back(Letter { kind, number, word, body: body.to_vec() });
    }

    /// Sends one; false if there is no room now. What will never fit is told in its place.
    fn try_send(&mut self, message: &Message<'_>) -> bool {
        let sent = match self.sender.send(message) {
            Err(SendError::TooLarge { bytes_max }) if message.kind == ANSWER => {
                let failure = too_large(message.body.len(), bytes_max);
                let word = failure.code.number() as u32;
                self.sender.send(&Message { word, body: failure.message.as_bytes(), ..*message })
            }
            Err(SendError::TooLarge { .. }) => {
                self.sender.send(&Message { body: b"{\"missed\":1}", ..*message })
            }
            sent => sent,
        };
        // Nobody can read it in a channel that is closed or broken.
        self.is_over |= matches!(sent, Err(SendError::Closed | SendError::Broken));
        sent != Err(SendError::Full)
    }
}

fn too_large(bytes: usize, bytes_max: usize) -> TaskFailure {
    let message = format!(
        "the result has {bytes} bytes and the memory of this program takes {bytes_max}; attach with a larger \
         arena_bytes, or ask by HTTP"
    );
    TaskFailure::new(ErrorCode::TooLarge, message)
}
