//! What an attached peer does: submits tasks, and takes them to run.
//!
//! Submitting writes the task into a free slot, sets the slot's state to QUEUED, and only then pushes its index:
//! an index may be lost with its pusher and found again by a sweep, but a task must never be announced before it
//! is whole. Taking pops an index and lets the state word decide whether it still means anything.
//!
//! Lanes are served by the ruler sequence. Of any 2^lanes - 1 tasks that one peer takes, lane n is asked first by
//! 2^(lanes - 1 - n), and the other lanes follow by number. So lane 0 goes first every other time, and even the
//! last lane is never kept waiting longer than 2^lanes - 1 takes of one peer per task before it.
//!
//! Not here: the running task (`v2_task.rs`), what the submitter does with its ticket (`v2_ticket.rs`).

use super::error::{StartError, SubmitError};
use super::layout::{v2_header as header, v2_record as record, v2_slot as slot};
use super::v2_record::Claim;
use super::v2_region::{Region, Shared};
use super::v2_ring::{Ring, RingError};
use super::v2_slots::{State, WPOL2_QUEUE, Word, route};
use super::v2_task::Running;
use super::v2_ticket::Ticket;
use super::v2_wait::Side;
use crate::edge::left_out;
use crate::sync::Ordering::Relaxed;
use alloc::sync::Arc;
use core::cell::Cell;

/// A task on its way in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Submission<'a> {
    /// Which lane; see [`lane_for`].
    pub lane: u32,
    /// Looked up by the worker in a table of its own.
    pub method: u32,
    /// Carried along, not interpreted.
    pub priority: u32,
    /// Latest start on the clock that is passed to `start`; 0 for none.
    pub deadline: u64,
    /// When it was submitted; carried along.
    pub enqueued: u64,
    /// Task id; 0 draws the next one from the region.
    pub task: u64,
    /// Carried along, not interpreted: where a payload lies that does not fit a slot, say. Zero is nothing.
    pub attachment: u64,
    /// Nobody will ask for the outcome: the slot is freed as soon as the task ends.
    pub detached: bool,
    /// Copied into the slot.
    pub payload: &'a [u8],
}

/// The lane for a priority in which higher is more important: equal ranges, the highest in lane 0.
pub fn lane_for(priority: u32, lanes: u32) -> u32 {
    ((u64::from(!priority) * u64::from(lanes)) >> 32) as u32
}

/// One party in a region: a thread of some process. Ends cleanly when dropped, by a sweep when killed.
#[derive(Debug)]
pub struct Peer {
    pub(super) shared: Arc<Shared>,
    pub(super) index: u32,
    /// The record's word while it is this peer's.
    live: Claim,
    /// Takes so far; which lane comes first is read off its bits.
    tick: Cell<u32>,
}

impl Peer {
    pub(super) fn new(shared: Arc<Shared>, index: u32, live: Claim) -> Self {
        Self { shared, index, live, tick: Cell::new(1) }
    }

    /// The number of the attach record.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The region.
    pub fn region(&self) -> Region {
        Region { shared: Arc::clone(&self.shared) }
    }

    /// Leaves a sign of life, on a clock of the caller's.
    pub fn heartbeat(&self, now: u64) {
        if let Some(base) = self.shared.geometry.record(self.index) {
            self.shared.memory.u64_at(base + record::HEARTBEAT).store(now, Relaxed);
        }
    }

    /// What slots call this peer.
    pub(super) fn owner(&self) -> u16 {
        (self.index + 1) as u16
    }

    /// Puts a task in.
    pub fn submit(&self, submission: Submission<'_>) -> Result<Ticket, SubmitError> {
        self.submit_with(submission, |_| ())
    }

    /// As `submit`; `filled` is called with the slot while it is this peer's alone, which is where models write
    /// what stands for the payload.
    pub(super) fn submit_with(
        &self,
        submission: Submission<'_>,
        filled: impl FnOnce(u32),
    ) -> Result<Ticket, SubmitError> {
        let shared = &*self.shared;
        let lane = shared.check(&submission)?;
        let (index, base, taken) = shared.allocate(self.owner())?;
        shared.fill(base, &submission, self.owner());
        filled(index);
        shared.announce(&lane, index, base, taken)
    }

    /// Takes a task to run. `now` is compared with deadlines; tasks that are too late end as expired.
    pub fn start(&self, now: u64) -> Result<Running<'_>, StartError> {
        let mut indices = [0; 1];
        let mut found = None;
        self.start_some(now, &mut indices, |running| found = Some(running))?;
        found.ok_or(StartError::Empty)
    }

    /// Fills `indices` from the first lane that has something, and passes on what can be started.
    pub(super) fn start_some<'p>(
        &'p self,
        now: u64,
        indices: &mut [u32],
        mut take: impl FnMut(Running<'p>),
    ) -> Result<(), StartError> {
        let shared = &*self.shared;
        if !shared.is_sound() {
            return Err(StartError::Poisoned);
        }
        let mut refusal = StartError::Empty;
        for lane in self.lane_order() {
            let Some(ring) = shared.geometry.lane(lane) else { continue };
            // One count of attempts for all of it, so that a lane full of stale hints costs one walk over it.
            let mut retry = ring.retry_over_stale(indices.len());
            loop {
                let count = match ring.pop_batch(&shared.memory, indices, &mut retry) {
                    Ok(count) => count,
                    Err(RingError::Corrupt) => return Err(shared.broken(StartError::Poisoned)),
                    Err(RingError::Contended) => {
                        refusal = StartError::Contended;
                        break;
                    }
                    Err(_) => break,
                };
                shared.notify(&ring, Side::Space, count as u32);
                indices[..count].iter().for_each(|index| shared.expect_slot(*index, 0));
                let mut started = 0;
                let mut left = Left { shared, ring: &ring, indices: &indices[..count] };
                while let Some(index) = left.next() {
                    let base = shared.geometry.slot(index);
                    let base = base.ok_or_else(|| shared.broken(StartError::Poisoned))?;
                    if let Some(word) = shared.take_queued(index, base, self.owner(), now) {
                        take(Running::new(self, index, base, word));
                        started += 1;
                    }
                }
                if started > 0 {
                    self.tick.set(self.tick.get().wrapping_add(1));
                    return Ok(());
                }
                if !shared.is_sound() {
                    return Err(StartError::Poisoned);
                }
            }
        }
        Err(refusal)
    }

    /// The lane whose turn it is, then the others by number.
    fn lane_order(&self) -> impl Iterator<Item = u32> + use<> {
        let lanes = self.shared.geometry.config.lanes;
        let turn = self.tick.get() % ((1 << lanes) - 1) + 1;
        let first = turn.trailing_zeros();
        core::iter::once(first).chain((0..lanes).filter(move |lane| *lane != first))
    }

    /// Whether some lane seems to have a task; one that was taken back may still look like one. Never misses a task
    /// whose `submit` had returned, for whoever knows that it had.
    pub fn has_task(&self) -> bool {
        let shared = &*self.shared;
        shared.geometry.rings()[1..].iter().any(|ring| ring.has_item(&shared.memory))
    }

    /// Whether the lane seems to have room. If this peer is the only one that submits, the next submit finds it.
    pub fn has_room(&self, lane: u32) -> bool {
        self.shared.geometry.lane(lane).is_some_and(|ring| ring.has_space(&self.shared.memory))
    }

    /// Sleeps until some lane may have a task, at most `timeout` and at most [`NAP_MAX`](super::v2::NAP_MAX). May
    /// return early; says whether there seems to be one.
    #[cfg(any(feature = "std", loom, shuttle))]
    pub fn wait_items(&self, timeout: core::time::Duration) -> bool {
        let shared = &*self.shared;
        let lanes = &shared.geometry.rings()[1..];
        let ready = || !shared.is_sound() || self.has_task();
        shared.nap(self.index, &lanes[0], Side::Items, timeout, ready)
    }

    /// Sleeps until there may be a free slot, as `wait_items` does: what to do about `NoSlot`.
    #[cfg(any(feature = "std", loom, shuttle))]
    pub fn wait_slot(&self, timeout: core::time::Duration) -> bool {
        let shared = &*self.shared;
        let ring = shared.geometry.free_ring();
        let ready = || !shared.is_open() || ring.has_item(&shared.memory);
        shared.nap(self.index, &ring, Side::Items, timeout, ready)
    }

    /// Sleeps until the lane may have room, as `wait_items` does: what to do about `LaneFull`.
    #[cfg(any(feature = "std", loom, shuttle))]
    pub fn wait_space(&self, lane: u32, timeout: core::time::Duration) -> bool {
        let shared = &*self.shared;
        let Some(ring) = shared.geometry.lane(lane) else { return true };
        let ready = || !shared.is_open() || ring.has_space(&shared.memory);
        shared.nap(self.index, &ring, Side::Space, timeout, ready)
    }
}

/// Hints taken out of a lane and not yet looked at. They go back if whoever takes the tasks panics.
struct Left<'a> {
    shared: &'a Shared,
    ring: &'a Ring,
    indices: &'a [u32],
}

impl Left<'_> {
    #[inline]
    fn next(&mut self) -> Option<u32> {
        let (first, rest) = self.indices.split_first()?;
        self.indices = rest;
        Some(*first)
    }
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        for index in self.indices {
            // One for which there is no room any more is found by a sweep.
            if self.ring.push(&self.shared.memory, *index).is_ok() {
                self.shared.notify(&self.shared.geometry.first_lane(), Side::Items, 1);
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.bury(self.index, self.live);
    }
}

impl Shared {
    /// Poisons the region and passes the answer on.
    pub(super) fn broken<E>(&self, refusal: E) -> E {
        self.poison();
        refusal
    }

    /// Whether the task could be taken at all, and the ring of its lane.
    pub(super) fn check(&self, submission: &Submission<'_>) -> Result<Ring, SubmitError> {
        if !self.is_open() {
            return Err(if self.is_sound() { SubmitError::Closed } else { SubmitError::Poisoned });
        }
        if submission.payload.len() > self.geometry.payload_bytes_max() {
            return Err(SubmitError::TooLong);
        }
        self.geometry.lane(submission.lane).ok_or(SubmitError::BadLane)
    }

    /// Queues a filled slot and pushes its index, or gives it back.
    #[inline]
    pub(super) fn announce(
        &self,
        lane: &Ring,
        index: u32,
        base: usize,
        taken: Word,
    ) -> Result<Ticket, SubmitError> {
        if left_out("WPOL2_QUEUE_FIRST") {
            let _ = lane.push(&self.memory, index);
        }
        let queued = taken.becomes(State::Queued, 0);
        // WPOL2_QUEUE, submitter's end: the task travels with the state.
        if !self.change(base, taken, queued, &WPOL2_QUEUE) {
            // Only a reaper that takes this peer for dead changes its slots.
            return Err(SubmitError::Contended);
        }
        if !left_out("WPOL2_QUEUE_FIRST")
            && let Err(why) = lane.push(&self.memory, index)
        {
            let refusal = self.refusal(why);
            // If it cannot be taken back, a sweep has announced it meanwhile, and it is out.
            if self.give_free(index, base, queued) {
                return Err(refusal);
            }
        }
        self.notify(&self.geometry.first_lane(), Side::Items, 1);
        self.expect_next_free();
        Ok(Ticket { slot: index, generation: queued.generation })
    }

    /// A free slot, taken: (index, offset, state word).
    pub(super) fn allocate(&self, me: u16) -> Result<(u32, usize, Word), SubmitError> {
        let ring = self.geometry.free_ring();
        let mut retry = ring.retry_over_stale(1);
        loop {
            let index = match ring.pop_within(&self.memory, &mut retry) {
                Ok(index) => index,
                Err(RingError::Corrupt) => return Err(self.broken(SubmitError::Poisoned)),
                Err(RingError::Contended) => return Err(SubmitError::Contended),
                Err(_) => return Err(SubmitError::NoSlot),
            };
            let base = self.geometry.slot(index).ok_or_else(|| self.broken(SubmitError::Poisoned))?;
            self.expect_slot(index, 1);
            if let Some(taken) = self.take_free(base, me) {
                return Ok((index, base, taken));
            }
            if !self.is_sound() {
                return Err(SubmitError::Poisoned);
            }
        }
    }

    /// Writes a task into a slot of the caller's.
    pub(super) fn fill(&self, base: usize, submission: &Submission<'_>, me: u16) {
        let task = match submission.task {
            0 => self.memory.u64_at(header::NEXT_TASK).fetch_add(1, Relaxed).wrapping_add(1),
            task => task,
        };
        let submitter = if submission.detached { 0 } else { me };
        let set = |field, value| self.memory.u32_at(base + field).store(value, Relaxed);
        let set_double = |field, value| self.memory.u64_at(base + field).store(value, Relaxed);
        set_double(slot::TASK, task);
        set(slot::PRIORITY, submission.priority);
        set(slot::METHOD, submission.method);
        set_double(slot::ENQUEUED, submission.enqueued);
        set_double(slot::DEADLINE, submission.deadline);
        set(slot::RESULT_BYTES, 0);
        set(slot::PAYLOAD_BYTES, submission.payload.len() as u32);
        set(slot::STATUS, 0);
        set(slot::COMPLETION, route(submission.lane, submitter));
        set_double(slot::ATTACHMENT, submission.attachment);
        self.memory.copy_in(base + slot::BYTES, submission.payload);
    }

    /// What a ring's refusal to take an index means to a submitter.
    pub(super) fn refusal(&self, why: RingError) -> SubmitError {
        match why {
            RingError::Corrupt => self.broken(SubmitError::Poisoned),
            RingError::Contended => SubmitError::Contended,
            RingError::Full | RingError::Empty => SubmitError::LaneFull,
        }
    }

    /// QUEUED -> RUNNING. `None` means a stale hint, a cancelled task, or one that came too late and is expired.
    fn take_queued(&self, index: u32, base: usize, me: u16, now: u64) -> Option<Word> {
        // WPOL2_QUEUE, starter's end: the task in the slot is seen whole.
        let queued = self.look(base, &WPOL2_QUEUE).filter(|word| word.state == State::Queued)?;
        let deadline = self.memory.u64_at(base + slot::DEADLINE).load(Relaxed);
        if deadline != 0 && now > deadline {
            let expired = queued.becomes(State::Expired, 0);
            if self.change_bare(base, queued, expired) {
                self.complete(index, base, expired);
            }
            return None;
        }
        let running = queued.becomes(State::Running, me);
        self.change_bare(base, queued, running).then_some(running)
    }
}
