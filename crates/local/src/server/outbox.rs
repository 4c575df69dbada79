//! What a connection has to send, and what it waits for: the place where workers and the reactor meet.
//!
//! A worker that ended a task writes the RESULT frame here itself, into bytes that the reactor later sends as
//! they are. So the encoding is done by many and the sending by one, and an answer is copied once. Two kinds
//! of news are left to the reactor: a stream that has something to read, and a result that does not fit now.
//!
//! ```text
//!  worker ── told ──► slot ──┬─ a result, and there is room ───► bytes ─┐
//!                            ├─ one that is large, or no room ─► late  ─┼─ take ──► reactor
//!                            └─ a stream has news ─────────────► ready ─┘
//! ```
//!
//! A slot stands for one exchange that is under way. A task knows its reader by the slot's number and *turn*.
//! The turn goes up when the exchange is over, for whatever reason: so a worker that comes late with news of
//! an exchange that was forgotten finds another turn and leaves.
//!
//! Not here: the frames that the reactor writes itself; they never pass through this lock.

use super::news::News;
use crate::frame::{Flags, Kind, append};
use millpond_tasks::{Task, Watch};
use mio::Token;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A result above this is encoded by the reactor: the lock must not be held for the time of a large copy.
const RESULT_BYTES_MAX: usize = 64 * 1024;

/// Shared by the reactor, which owns the connection, and by every task that the connection waits for.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Touched by any thread, for the time it takes to write one small frame.
    inner: Mutex<Inner>,
    news: Arc<News>,
    connection: Token,
    /// So much may wait here; what comes then is late.
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whole frames, one after the other.
    bytes: Vec<u8>,
    frames: u64,
    /// One for each exchange that was ever under way at once; bounded by `in_flight_max`.
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots whose last frame is in `bytes`.
    ended: Vec<u32>,
    /// Ended tasks whose result is still to be encoded.
    late: VecDeque<Late>,
    /// Slots of streams that have news.
    ready: Vec<u32>,
    /// Whether the reactor knows, or is just being told, that there is something here.
    is_listed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// How often it was used; part of what the task knows it by.
    turn: u32,
    /// The client's name for the exchange.
    tag: u64,
    is_stream: bool,
    /// Whether the exchange is under way: its result is neither in `bytes` nor in `late`.
    is_open: bool,
    /// Whether it is in `ready`, or in the reactor's own line: never twice in both together.
    is_ready: bool,
}

/// A result that the reactor has to encode. Its slot is not free yet.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) slot: u32,
    pub(super) tag: u64,
    pub(super) task: Arc<Task>,
}

/// What the reactor takes home, beside the bytes.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) frames: u64,
    /// Free already, so what the reactor keeps for them goes before it opens another.
    pub(super) ended: Vec<u32>,
    pub(super) late: VecDeque<Late>,
    pub(super) ready: VecDeque<u32>,
}

impl Outbox {
    pub(super) fn new(news: Arc<News>, connection: Token, bytes_max: usize) -> Self {
        Self { inner: Mutex::default(), news, connection, bytes_max }
    }

    /// Opens a slot. Says which, and what a task must call it.
    pub(super) fn open(&self, tag: u64, is_stream: bool) -> (u32, u64) {
        let mut inner = self.lock();
        let slot = inner.free.pop().unwrap_or_else(|| {
            inner.slots.push(Slot::default());
            u32::try_from(inner.slots.len() - 1).expect("in_flight_max is far below 2^32")
        });
        let place = &mut inner.slots[slot as usize];
        *place = Slot { turn: place.turn, tag, is_stream, is_open: true, is_ready: false };
        (slot, u64::from(place.turn) << 32 | u64::from(slot))
    }

    /// Ends an exchange that is under way, and frees its slot: nobody will be heard about it. False if its
    /// result was faster; then it is among what [`take`](Self::take) gives.
    pub(super) fn close(&self, slot: u32) -> bool {
        let mut inner = self.lock();
        let was_open = inner.slots[slot as usize].is_open;
        if was_open {
            inner.retire(slot);
            inner.free.push(slot);
        }
        was_open
    }

    /// Adds a frame of an exchange that goes on. From any thread.
    pub(super) fn put(&self, number: u64, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) {
        self.put_frame(number, kind, false, write);
    }

    /// Adds the last frame of an exchange. From any thread.
    pub(super) fn put_last(&self, number: u64, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) {
        self.put_frame(number, kind, true, write);
    }

    fn put_frame(&self, number: u64, kind: Kind, is_last: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let (slot, turn) = (number as u32, (number >> 32) as u32);
        let mut inner = self.lock();
        let Slot { turn: present, tag, .. } = inner.slots[slot as usize];
        if present != turn {
            return;
        }
        append(&mut inner.bytes, kind, Flags::NONE, tag, write);
        inner.frames += 1;
        if is_last {
            inner.retire(slot);
            inner.ended.push(slot);
        }
        let was_listed = mem::replace(&mut inner.is_listed, true);
        drop(inner);
        if !was_listed {
            self.news.tell(self.connection);
        }
    }

    /// Frees the slot of a late result.
    pub(super) fn free(&self, slot: u32) {
        self.lock().free.push(slot);
    }

    /// Moves everything to the reactor: frames to the end of `bytes`, the rest to `taken`.
    pub(super) fn take(&self, bytes: &mut Vec<u8>, taken: &mut Taken) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        inner.is_listed = false;
        if bytes.is_empty() {
            // Both sides keep their memory.
            mem::swap(bytes, &mut inner.bytes);
        } else {
            bytes.append(&mut inner.bytes);
        }
        taken.frames += mem::take(&mut inner.frames);
        taken.late.append(&mut inner.late);
        inner.free.extend_from_slice(&inner.ended);
        taken.ended.append(&mut inner.ended);
        taken.ready.extend(inner.ready.drain(..));
    }

    /// The reactor is about to read this stream: what it says from now on is news.
    pub(super) fn is_being_read(&self, slot: u32) {
        self.lock().slots[slot as usize].is_ready = false;
    }

    /// The reactor has not read all of this stream. Whether it is to be put in line; if not, it is there
    /// already.
    pub(super) fn has_more(&self, slot: u32) -> bool {
        !mem::replace(&mut self.lock().slots[slot as usize].is_ready, true)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Outbox {
    fn told(&self, number: u64, task: &Arc<Task>) {
        let (slot, turn) = (number as u32, (number >> 32) as u32);
        let mut inner = self.lock();
        let place = inner.slots[slot as usize];
        if place.turn != turn || place.is_ready {
            return;
        }
        if place.is_stream {
            inner.slots[slot as usize].is_ready = true;
            inner.ready.push(slot);
        } else {
            inner.put_result(slot, place.tag, task, self.bytes_max);
        }
        let was_listed = mem::replace(&mut inner.is_listed, true);
        drop(inner);
        if !was_listed {
            self.news.tell(self.connection);
        }
    }
}

impl Inner {
    /// The end of an exchange: its result is encoded, or left to the reactor.
    fn put_result(&mut self, slot: u32, tag: u64, task: &Arc<Task>, bytes_max: usize) {
        let Some(outcome) = task.outcome() else { return };
        self.retire(slot);
        let bytes = outcome.bytes();
        if bytes > RESULT_BYTES_MAX || self.bytes.len() + bytes > bytes_max {
            self.late.push_back(Late { slot, tag, task: Arc::clone(task) });
            return;
        }
        append(&mut self.bytes, Kind::Result, Flags::NONE, tag, |out| outcome.write_json(task.id(), out));
        self.frames += 1;
        self.ended.push(slot);
    }

    /// Nobody will be heard under the slot's present turn any more.
    fn retire(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        place.turn = place.turn.wrapping_add(1);
        place.is_open = false;
        if mem::take(&mut place.is_ready) {
            self.ready.retain(|ready| *ready != slot);
        }
    }
}
