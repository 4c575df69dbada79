//! `Gate`: a bounded queue whose ends may sleep: the way in of a service, where overload must be refused and a
//! shutdown must lose nothing.
//!
//! ```text
//!   tail word   ┌────────┬───────────────────┬──────────────────┐
//!               │ closed │ consumers asleep  │ position to write│
//!               └────────┴───────────────────┴──────────────────┘
//!   head word   ┌────────┬───────────────────┬──────────────────┐
//!               │ closed │ producers asleep  │ position to read │
//!               └────────┴───────────────────┴──────────────────┘
//! ```
//!
//! The values travel through the same slots as a `Ring`'s. What makes it a gate is that each decision is one
//! swap of one word, so that no two of them can miss each other:
//!
//! - A consumer goes to sleep by adding itself to the *tail* word, which succeeds only while that word says
//!   that nothing has been written since it looked. A producer's claim is a swap of the same word, so it
//!   either comes first, and the consumer looks again, or it finds the sleeper there, takes it off and owes
//!   it one wake-up. Producers sleep in the *head* word in the same way. So there is no fence and no system
//!   call while nobody sleeps, and no lost wake-up.
//! - Closing sets a bit in the tail word. Every claim before it is an accepted value and will be read; none
//!   comes after. A consumer answers *closed* only when the bit is set and the positions are equal: when
//!   everything is drained.
//!
//! No order is promised among sleepers. A thread stopped between its claim and its last step holds up those
//! who come to the same slot; they nap rather than spin.
//!
//! Not here: what is measured (`gate_meter.rs`), how long a caller looks again (`gate_waiting.rs`), the sleeping itself
//! (`futex.rs`).

use crate::cursor::Cursor;
use crate::edge::{Edge, left_out};
use crate::futex::{self, Scope};
use crate::gate_claimed::Claimed;
use crate::gate_meter::{GateStats, Meter};
use crate::gate_refusal::{NoValue, Refusal};
use crate::gate_waiting::{Next, Until, Waiting, until};
use crate::slots::{CapacityError, Look, POSITION_BITS, Patience, Slots, drop_all};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;
use crossbeam_utils::CachePadded;
use std::time::Instant;

/// What the closer did before it closed is seen by whoever is told of it.
static GATE_CLOSE: Edge = Edge::new("GATE_CLOSE");

const POSITION: u64 = (1 << POSITION_BITS) - 1;
const ONE_SLEEPER: u64 = 1 << POSITION_BITS;
const SLEEPERS: u64 = ((1 << 16) - 1) << POSITION_BITS;
const CLOSED: u64 = 1 << 63;

/// How a [`Gate`] is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// How many values may wait: 1 to [`CAPACITY_MAX`](crate::CAPACITY_MAX). Default 100.
    pub capacity: usize,
    /// How often a waiting thread looks again before it sleeps, with about a microsecond between; 0 sleeps at once.
    /// Default 10.
    pub spins: u32,
    /// The wait is measured for one value in so many while nobody sleeps, and for every value while somebody does.
    /// Rounded up to a power of two. Default 128; 0 measures none.
    pub measure_every: u32,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self { capacity: 100, spins: 10, measure_every: 128 }
    }
}

/// A bounded queue that can wait on both ends and be closed without losing a value.
///
/// ```
/// use millpond_queue::{Gate, NoValue, Refusal};
/// let gate = Gate::with_capacity(1)?;
/// assert_eq!(gate.try_enqueue("first"), Ok(()));
/// assert_eq!(gate.try_enqueue("second"), Err(Refusal::Full("second")));
/// gate.close();
/// assert_eq!(gate.try_enqueue("third"), Err(Refusal::Closed("third")));
/// assert_eq!(gate.dequeue(), Some("first"), "what was accepted is still served");
/// assert_eq!(gate.try_dequeue(), Err(NoValue::Closed));
/// # Ok::<(), millpond_queue::CapacityError>(())
/// ```
pub struct Gate<T> {
    /// Swapped by producers, by consumers who go to sleep, and by the closer.
    tail: CachePadded<Cursor>,
    /// Swapped by consumers, by producers who go to sleep, and by the closer.
    head: CachePadded<Cursor>,
    /// Wake-ups owed to consumers who are off the tail word, and to producers who are off the head word.
    consumer_wakes: CachePadded<AtomicU32>,
    producer_wakes: CachePadded<AtomicU32>,
    slots: Slots<T>,
    meter: Meter,
    spins: u32,
}

/// Dropped when a value that was to be made in a slot was not.
struct EndsProgram;

impl Drop for EndsProgram {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Why an attempt came to nothing.
enum Stuck {
    /// The other side has to act first. The position where it was seen.
    Blocked(u64),
    Closed,
    /// Another thread was stopped in the middle of its step for as long as the caller would wait.
    OutOfTime,
}

impl<T> Gate<T> {
    /// A gate for exactly `capacity` values, otherwise as [`GateConfig::default`].
    pub fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        Self::start(GateConfig { capacity, ..GateConfig::default() })
    }

    /// A gate as configured.
    pub fn start(config: GateConfig) -> Result<Self, CapacityError> {
        Ok(Self {
            tail: CachePadded::new(Cursor::new(0)),
            head: CachePadded::new(Cursor::new(0)),
            consumer_wakes: CachePadded::new(AtomicU32::new(0)),
            producer_wakes: CachePadded::new(AtomicU32::new(0)),
            slots: Slots::with_capacity(config.capacity)?,
            meter: Meter::new(config.capacity, config.measure_every)?,
            spins: config.spins,
        })
    }

    /// Adds a value, waiting for place as long as it takes. Fails only with [`Refusal::Closed`].
    #[inline(always)]
    pub fn enqueue(&self, value: T) -> Result<(), Refusal<T>> {
        match self.claim_end_at_once(&self.tail, Slots::look_free) {
            Some(word) => {
                self.fill(word, value);
                Ok(())
            }
            None => self.put_in(value, Until::Forever, || false),
        }
    }

    /// Adds a value, waiting for place at most `timeout`.
    pub fn enqueue_timeout(&self, value: T, timeout: Duration) -> Result<(), Refusal<T>> {
        self.put_in(value, until(timeout), || false)
    }

    /// Adds a value if there is place now. Should another thread be in the middle of its step at the same slot, it
    /// waits for that step. A refusal because of [`Refusal::Full`] is counted as rejected.
    #[inline(always)]
    pub fn try_enqueue(&self, value: T) -> Result<(), Refusal<T>> {
        if let Some(word) = self.claim_end_at_once(&self.tail, Slots::look_free) {
            self.fill(word, value);
            return Ok(());
        }
        let result = self.put_in(value, Until::Now, || false);
        if let Err(Refusal::Full(_)) = result {
            self.meter.rejected();
        }
        result
    }

    /// Takes the oldest value, waiting for one as long as it takes. `None`: the gate is closed and drained.
    #[inline(always)]
    pub fn dequeue(&self) -> Option<T> {
        match self.claim_end_at_once(&self.head, Slots::look_full) {
            Some(word) => Some(Claimed::new(self, word).take()),
            None => self.take_out(Until::Forever).ok(),
        }
    }

    /// Takes the oldest value, waiting for one at most `timeout`.
    pub fn dequeue_timeout(&self, timeout: Duration) -> Result<T, NoValue> {
        self.take_out(until(timeout))
    }

    /// Takes the oldest value if there is one now. Should another thread be in the middle of its step at the same
    /// slot, it waits for that step.
    #[inline(always)]
    pub fn try_dequeue(&self) -> Result<T, NoValue> {
        self.try_claim().map(Claimed::take)
    }

    /// As [`try_dequeue`](Self::try_dequeue), but leaves the value in its slot until it is wanted: for values so large
    /// that handing them on costs more than taking them. Others wait for the slot meanwhile.
    #[inline(always)]
    pub fn try_claim(&self) -> Result<Claimed<'_, T>, NoValue> {
        let word = match self.claim_end_at_once(&self.head, Slots::look_full) {
            Some(word) => word,
            None => self.claim_oldest(Until::Now)?,
        };
        Ok(Claimed::new(self, word))
    }

    /// As [`try_claim`](Self::try_claim), if a value can be had with one step. `None` says nothing about the gate:
    /// another may just have come between.
    #[inline(always)]
    pub fn claim_at_once(&self) -> Option<Claimed<'_, T>> {
        self.claim_end_at_once(&self.head, Slots::look_full).map(|word| Claimed::new(self, word))
    }

    /// Adds a value, waiting for place at most `timeout`, or as long as it takes; but it is handed back as
    /// [`Refusal::Full`] when `otherwise` says that the caller can help itself. That is asked before the caller sleeps,
    /// when it is already known to wait, and after each [`nudge`](Self::nudge).
    #[inline(always)]
    pub fn enqueue_unless(
        &self,
        value: T,
        timeout: Option<Duration>,
        otherwise: impl Fn() -> bool,
    ) -> Result<(), Refusal<T>> {
        if let Some(word) = self.claim_end_at_once(&self.tail, Slots::look_free) {
            self.fill(word, value);
            return Ok(());
        }
        self.put_in(value, timeout.map_or(Until::Forever, until), otherwise)
    }

    /// Makes a value in its slot, if there is place at once, and hands `seed` back otherwise: for values so large that
    /// handing them down costs more than adding them. A refusal says nothing about the gate, since another may just
    /// have come between. Should `make` panic, the program ends: its slot can be neither filled nor given back.
    #[inline(always)]
    pub fn enqueue_at_once<S>(&self, seed: S, make: impl FnOnce(S) -> T) -> Result<(), S> {
        let Some(word) = self.claim_end_at_once(&self.tail, Slots::look_free) else { return Err(seed) };
        let ends_program = EndsProgram;
        self.fill_with(word, || make(seed));
        mem::forget(ends_program);
        Ok(())
    }

    /// Wakes one producer that waits for room, though there may be none.
    pub fn nudge(&self) {
        let waits = self.head.word.load(Relaxed) & SLEEPERS != 0 && rise(&self.head);
        if waits && !left_out("GATE_NUDGE_WAKES") {
            wake(&self.producer_wakes, 1);
        }
    }

    /// Ends intake and wakes everyone who waits on either side. What was accepted can still be taken.
    /// Closing again does nothing.
    pub fn close(&self) {
        // Everyone asleep at the time is taken off the word by the very swap that closes it, so nobody can
        // lie down unseen.
        let consumers = close_word(&self.tail);
        let producers = close_word(&self.head);
        wake(&self.consumer_wakes, consumers);
        if !left_out("GATE_CLOSE_WAKES_PRODUCERS") {
            wake(&self.producer_wakes, producers);
        }
    }

    /// Closes, and hands back what no consumer has taken, oldest first.
    pub fn close_and_drain(&self) -> Vec<T> {
        self.close();
        let mut left = Vec::new();
        while let Ok(value) = self.try_dequeue() {
            left.push(value);
        }
        left
    }

    /// Whether the gate is closed. There may still be values to take.
    pub fn is_closed(&self) -> bool {
        self.tail.word.load(GATE_CLOSE.acquire()) & CLOSED != 0
    }

    /// How many values wait; `capacity` when full. Others may be at work, so it may be stale.
    pub fn len(&self) -> usize {
        let head = self.head.word.load(Relaxed) & POSITION;
        self.slots.distance(head, self.tail.word.load(Relaxed) & POSITION)
    }

    /// Whether a take would probably come to nothing. Cheaper than [`is_empty`](Self::is_empty) while producers are at
    /// work, since it looks at one slot and not at their end; it may be stale.
    #[inline(always)]
    pub fn seems_empty(&self) -> bool {
        // A guess that is too old finds a slot that is further on: then there may be something.
        self.slots.is_free(self.head.guess() & POSITION)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no place.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// How many values may wait: what was asked for, exactly.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// How full the gate is and was, and how long values waited.
    pub fn stats(&self) -> GateStats {
        let dequeued = self.slots.count(self.head.word.load(Relaxed) & POSITION);
        let enqueued = self.slots.count(self.tail.word.load(Relaxed) & POSITION);
        self.meter.stats(self.len(), self.capacity(), enqueued, dequeued)
    }

    fn free(&self) -> usize {
        self.capacity() - self.len()
    }

    #[inline(never)]
    fn put_in(&self, value: T, until: Until, otherwise: impl Fn() -> bool) -> Result<(), Refusal<T>> {
        let mut waiting = Waiting::for_room(self.spins, until);
        // One slot is not worth the wait: whoever takes each as it is left keeps its consumer company from slot to
        // slot, and both crawl.
        let position = self.tail.word.load(Relaxed) & POSITION;
        // A model has no time to linger in.
        if !cfg!(any(loom, shuttle)) && self.slots.look_free(position) == Look::Behind {
            waiting.linger(&self.tail, position, || self.free());
        }
        loop {
            match self.claim_slowly(&self.tail, until, Slots::look_free) {
                Ok(word) => {
                    self.fill(word, value);
                    return Ok(());
                }
                Err(Stuck::Closed) => return Err(Refusal::Closed(value)),
                Err(Stuck::OutOfTime) => return Err(Refusal::TimedOut(value)),
                Err(Stuck::Blocked(position)) => match waiting.next(&self.tail, position, || self.free()) {
                    Next::LookAgain => {}
                    Next::GiveUp if matches!(until, Until::Now) => return Err(Refusal::Full(value)),
                    // Its time is over, but it may have been nudged: the place is not for it alone.
                    Next::GiveUp if otherwise() => return Err(Refusal::Full(value)),
                    Next::GiveUp => return Err(Refusal::TimedOut(value)),
                    Next::Sleep(_) if otherwise() => return Err(Refusal::Full(value)),
                    Next::Sleep(limit) => {
                        // Blocked at `position` means that the head is one lap behind it.
                        let full = |head| self.slots.next_lap(head) == position;
                        waiting.slept(self.sleep(&self.head, full, &self.producer_wakes, limit, &otherwise));
                    }
                },
            }
        }
    }

    fn take_out(&self, until: Until) -> Result<T, NoValue> {
        self.claim_oldest(until).map(|word| Claimed::new(self, word).take())
    }

    /// Claims the oldest value, waiting for one if need be. Returns the head's word as it was.
    #[inline(never)]
    fn claim_oldest(&self, until: Until) -> Result<u64, NoValue> {
        let mut waiting = Waiting::for_value(self.spins, until);
        loop {
            match self.claim_slowly(&self.head, until, Slots::look_full) {
                Ok(word) => return Ok(word),
                Err(Stuck::Closed) => return Err(NoValue::Closed),
                Err(Stuck::OutOfTime) => return Err(NoValue::TimedOut),
                Err(Stuck::Blocked(position)) => match waiting.next(&self.head, position, || self.len()) {
                    Next::LookAgain => {}
                    Next::GiveUp if matches!(until, Until::Now) => return Err(NoValue::Empty),
                    Next::GiveUp => return Err(NoValue::TimedOut),
                    Next::Sleep(limit) => {
                        let empty = |tail| tail == position;
                        waiting.slept(self.sleep(&self.tail, empty, &self.consumer_wakes, limit, || false));
                    }
                },
            }
        }
    }

    /// Puts the value into the claimed slot, and pays the wake-up owed to a sleeping consumer.
    #[inline(always)]
    fn fill(&self, word: u64, value: T) {
        self.fill_with(word, || value);
    }

    #[inline(always)]
    fn fill_with(&self, word: u64, make: impl FnOnce() -> T) {
        let position = word & POSITION;
        let owed = word & SLEEPERS != 0;
        let measured = self.meter.arrives(self.slots.index(position), position, owed);
        self.slots.expect_after(position);
        // SAFETY: `claim` saw `look_free` say Ready and moved the tail past this position.
        unsafe { self.slots.put_with(position, make, measured) };
        if self.meter.may_be_record(position) {
            let head = self.head.word.load(Relaxed) & POSITION;
            let len = self.slots.distance(head, self.slots.next(position));
            self.meter.record(len, |len_max| self.slots.advance(head, len_max));
        }
        if owed && !left_out("GATE_PUSH_PAYS_ITS_WAKE_UP") {
            wake(&self.consumer_wakes, 1);
        }
    }

    /// Moves the claimed value out of its slot.
    ///
    /// # Safety
    /// The caller has claimed the slot with this word, and moves its value out once.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, word: u64) -> T {
        // SAFETY: `claim` saw `look_full` say Ready and moved the head past this position; once, by the caller's word.
        unsafe { self.slots.read(word & POSITION) }
    }

    /// Where the claimed value lies.
    #[inline(always)]
    pub(crate) fn value(&self, word: u64) -> *mut T {
        self.slots.value(word & POSITION)
    }

    /// Gives back the claimed slot, whose value counts as gone, and pays the wake-up owed to a sleeping producer.
    ///
    /// # Safety
    /// The caller has claimed the slot with this word, and calls this once.
    #[inline(always)]
    pub(crate) unsafe fn leave(&self, word: u64) {
        let position = word & POSITION;
        if self.slots.is_marked(position) {
            self.meter.leaves(self.slots.index(position));
        }
        self.slots.expect_after(position);
        // SAFETY: `claim` saw `look_full` say Ready and moved the head past this position; once, by the caller's word.
        unsafe { self.slots.leave(position) };
        if word & SLEEPERS != 0 && !left_out("GATE_POP_PAYS_ITS_WAKE_UP") {
            wake(&self.producer_wakes, 1);
        }
    }

    /// Claims the next position of one end, if it is ready, nobody sleeps in the word and nobody else comes between:
    /// the way of nearly every value, short enough to be part of the caller.
    #[inline(always)]
    fn claim_end_at_once(&self, end: &Cursor, look: impl Fn(&Slots<T>, u64) -> Look) -> Option<u64> {
        let word = end.guess();
        // Nobody asleep, not closed: the word is the position.
        let claimed = word <= POSITION
            && look(&self.slots, word) == Look::Ready
            && end.advance(word, self.slots.next(word));
        claimed.then_some(word)
    }

    /// Claims the oldest value at once, and with the same step up to `more` of those right after it, as far as they are
    /// there. Returns the first position and the one after the last.
    #[inline(always)]
    pub(crate) fn claim_some_at_once(&self, more: usize) -> Option<(u64, u64)> {
        let word = self.head.guess();
        if word > POSITION || self.slots.look_full(word) != Look::Ready {
            return None;
        }
        let mut end = self.slots.next(word);
        for _ in 0..more.min(self.capacity() - 1) {
            if !self.slots.is_full(end) {
                break;
            }
            end = self.slots.next(end);
        }
        // Nobody can have emptied one of them if the head is still where it was.
        self.head.advance(word, end).then_some((word, end))
    }

    /// Receives what is in a slot that a glance saw full, now that its position is claimed. Returns the position after
    /// it.
    #[inline(always)]
    pub(crate) fn receive(&self, position: u64) -> u64 {
        if !left_out("GATE_CLAIM_SOME_RECEIVES") {
            let look = self.slots.look_full(position);
            debug_assert_eq!(look, Look::Ready, "only who has claimed it changes it");
        }
        self.slots.next(position)
    }

    /// Claims the next position of one end and takes one sleeper, if any, off its word. Returns the word as it was.
    #[inline(never)]
    fn claim_slowly(
        &self,
        end: &Cursor,
        until: Until,
        look: impl Fn(&Slots<T>, u64) -> Look,
    ) -> Result<u64, Stuck> {
        let writing = core::ptr::eq(end, &*self.tail);
        let mut word = end.word.load(Relaxed);
        let mut patience = Patience::new();
        loop {
            let position = word & POSITION;
            if writing && word & CLOSED != 0 {
                // Receives GATE_CLOSE, so that a refused producer too sees what the closer did before.
                let _ = self.is_closed();
                return Err(Stuck::Closed);
            }
            match look(&self.slots, position) {
                Look::Ready => {
                    let one_less = if word & SLEEPERS == 0 { 0 } else { ONE_SLEEPER };
                    let next = ((word & !POSITION) - one_less) | self.slots.next(position);
                    if end.advance(word, next) {
                        return Ok(word);
                    }
                    patience.retry();
                    word = end.word.load(Relaxed);
                }
                Look::Ahead => word = end.word.load(Relaxed),
                Look::Behind => {
                    if let Some(stuck) = self.stuck(writing, position) {
                        return Err(stuck);
                    }
                    if matches!(until, Until::Deadline(deadline) if Instant::now() >= deadline) {
                        return Err(Stuck::OutOfTime);
                    }
                    patience.wait();
                    word = end.word.load(Relaxed);
                }
            }
        }
    }

    /// Why the slot at `position` is not ready. `None`: another thread is between its claim and its last
    /// step there.
    #[cold]
    fn stuck(&self, writing: bool, position: u64) -> Option<Stuck> {
        if writing {
            let full = self.slots.next_lap(self.head.word.load(Relaxed) & POSITION) == position;
            return full.then_some(Stuck::Blocked(position));
        }
        // GATE_CLOSE, consumer's end (Acquire): what the closer did before is seen by who is told "closed".
        let tail = self.tail.word.load(GATE_CLOSE.acquire());
        if tail & POSITION != position && !left_out("GATE_DRAINS_BEFORE_CLOSED") {
            None
        } else if tail & CLOSED != 0 {
            Some(Stuck::Closed)
        } else {
            Some(Stuck::Blocked(position))
        }
    }

    /// As `dequeue_timeout`, but its time runs out as soon as it lies down: a model has no clock to wait for.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(crate) fn dequeue_out_of_time(&self) -> Result<T, NoValue> {
        match self.claim_slowly(&self.head, Until::Forever, Slots::look_full) {
            Ok(word) => Ok(Claimed::new(self, word).take()),
            Err(Stuck::Blocked(position)) => {
                let empty = |tail| tail == position;
                if self.sleep(&self.tail, empty, &self.consumer_wakes, Some(Instant::now()), || false) {
                    return self.try_dequeue();
                }
                Err(NoValue::TimedOut)
            }
            Err(_) => Err(NoValue::Closed),
        }
    }

    /// Sleeps in `end`'s word if that word still says `blocked`, until a wake-up comes, unless `otherwise` when it is
    /// in the word. `false`: time ran out first.
    #[cold]
    fn sleep(
        &self,
        end: &Cursor,
        blocked: impl Fn(u64) -> bool,
        wakes: &AtomicU32,
        limit: Option<Instant>,
        otherwise: impl Fn() -> bool,
    ) -> bool {
        // GATE_CLOSE, sleeper's end (Acquire): the head's closed bit was set after the tail's, which is
        // looked at next.
        let mut word = end.word.load(GATE_CLOSE.acquire());
        loop {
            let moved = !blocked(word & POSITION) && !left_out("GATE_SLEEP_ONLY_WHILE_BLOCKED");
            if moved || word & CLOSED != 0 {
                crate::sync::spin_loop();
                return true;
            }
            if word & SLEEPERS == SLEEPERS {
                // Sixty-five thousand are asleep here: this one looks again by itself.
                crate::sync::yield_now();
                return true;
            }
            match end.word.compare_exchange_weak(word, word + ONE_SLEEPER, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if !left_out("GATE_WAITING_ASKS_AGAIN") && otherwise() && rise(end) {
            return true;
        }
        loop {
            if take_wake(wakes) {
                return true;
            }
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) && rise(end) {
                return false;
            }
            // Off the word already, but the wake-up is still on its way: it comes for certain, so wait for it.
            let left = left.filter(|left| *left != Duration::ZERO);
            futex::wait(wakes, 0, left, Scope::Private);
        }
    }
}

/// Takes one sleeper off the word, whose time ran out. `false`: somebody owes a wake-up to every sleeper already.
fn rise(end: &Cursor) -> bool {
    let mut word = end.word.load(Relaxed);
    loop {
        if word & SLEEPERS == 0 {
            return false;
        }
        match end.word.compare_exchange_weak(word, word - ONE_SLEEPER, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(now) => word = now,
        }
    }
}

/// Sets the closed bit and takes all sleepers off the word. Returns how many wake-ups that owes.
fn close_word(end: &Cursor) -> u32 {
    let mut word = end.word.load(Relaxed);
    loop {
        let closed = (word & POSITION) | CLOSED;
        // GATE_CLOSE, closer's end (Release): what was done before closing is seen by who is told "closed".
        match end.word.compare_exchange_weak(word, closed, GATE_CLOSE.release(), Relaxed) {
            Ok(_) => return ((word & SLEEPERS) >> POSITION_BITS) as u32,
            Err(now) => word = now,
        }
    }
}

/// Pays `count` wake-ups.
#[cold]
fn wake(wakes: &AtomicU32, count: u32) {
    if count > 0 {
        wakes.fetch_add(count, Relaxed);
        futex::wake(wakes, count, Scope::Private);
    }
}

/// Takes one wake-up, if one has been paid.
fn take_wake(wakes: &AtomicU32) -> bool {
    let mut paid = wakes.load(Relaxed);
    while paid > 0 {
        match wakes.compare_exchange_weak(paid, paid - 1, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(now) => paid = now,
        }
    }
    false
}

impl<T> Drop for Gate<T> {
    fn drop(&mut self) {
        // Everything accepted and not taken is dropped here, once.
        drop_all(|| self.try_dequeue().ok());
    }
}

// A panic of a user's code cannot leave a gate half changed: none runs between two of its steps.
impl<T> UnwindSafe for Gate<T> {}
impl<T> RefUnwindSafe for Gate<T> {}

impl<T> fmt::Debug for Gate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("closed", &self.is_closed())
            .finish()
    }
}
