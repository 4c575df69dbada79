//! Bringing back what the dead held: one peer at a time sweeps the region.
//!
//! A sweep has three parts, in this order:
//! 1. For each dead peer: what it was filling becomes free; what it was running is queued again or failed, as the
//!    policy says; tasks it submitted lose their submitter and are freed when they end.
//! 2. A queued slot that no lane lists, or a free slot that the free ring does not list, lost its hint with
//!    somebody who had it in hand. The hint is pushed again, but only if the state word is the same as in the last
//!    sweep: most such slots are just between two steps of somebody alive.
//! 3. Only now the dead peer's record is free for another.
//!
//! Everything is done by the same CAS as in ordinary work, so a sweep may be killed anywhere and another one goes
//! on. A task may *start* twice only if its first worker died: at most once with `Fail`, at least once with
//! `Requeue`. Exactly once, across crashes, does not exist.
//!
//! Not here: finding out who is dead. The caller says so, and must be right: dead means that the peer will never
//! touch the memory again. A stopped process is not dead.

use super::error::SweepError;
use super::layout::{v2_header as header, v2_record as record};
use super::v2_peer::Peer;
use super::v2_region::Shared;
use super::v2_slots::{State, WPOL2_FINISH, WPOL2_QUEUE, Word, lane_of, submitter_of};
use super::v2_wait::Side;
use crate::sync::Ordering::Relaxed;
use alloc::vec::Vec;

const RECORD_FREE: u32 = 0;
const RECORD_LIVE: u32 = 1;
const RECORD_REAPED: u32 = 2;

/// What becomes of a task whose worker died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeathPolicy {
    /// It fails: every task starts at most once.
    #[default]
    Fail,
    /// It is queued again, until this many workers have died of it.
    Requeue {
        /// Deaths after which the task fails all the same.
        attempts_max: u8,
    },
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Peers found dead, and their records freed.
    pub buried: u32,
    /// Slots that were being filled, freed.
    pub freed: u32,
    /// Tasks queued again.
    pub requeued: u32,
    /// Tasks failed.
    pub failed: u32,
    /// Tasks that lost their submitter.
    pub orphaned: u32,
    /// Lost hints pushed again.
    pub relisted: u32,
}

/// The memory of a peer that sweeps: what it saw the last time.
#[derive(Debug, Default)]
pub struct Reaper {
    /// State word of every slot that was listed nowhere in the last sweep, or `None`.
    unlisted: Vec<Option<u64>>,
}

impl Reaper {
    /// Sweeps once. `is_dead` is asked about each attach record in use; a few milliseconds should lie between two
    /// sweeps, and two of them bring back everything.
    pub fn sweep(
        &mut self,
        peer: &Peer,
        now: u64,
        policy: DeathPolicy,
        is_dead: impl Fn(u32) -> bool,
    ) -> Result<Sweep, SweepError> {
        let shared = &*peer.shared;
        if !shared.is_sound() {
            return Err(SweepError::Poisoned);
        }
        let role = shared.take_reaper_role(peer.index, &is_dead)?;
        let mut sweep = Sweep::default();
        let records = 0..shared.geometry.config.attach_records;
        let dead: Vec<u32> =
            records.filter(|index| *index != peer.index && shared.mark_dead(*index, &is_dead)).collect();
        let is_dead = |owner: u16| owner != 0 && dead.binary_search(&(u32::from(owner) - 1)).is_ok();
        for index in 0..shared.geometry.config.slots {
            shared.bring_back(index, policy, &is_dead, &mut sweep);
        }
        self.relist(shared, &mut sweep);
        for index in &dead {
            shared.free_record(*index);
            sweep.buried += 1;
        }
        shared.forget_dead_waiters();
        shared.memory.u64_at(header::SWEPT).store(now, Relaxed);
        let _ = shared.memory.u32_at(header::REAPER).compare_exchange(role, 0, Relaxed, Relaxed);
        if shared.is_sound() { Ok(sweep) } else { Err(SweepError::Poisoned) }
    }

    /// Part 2: lost hints.
    fn relist(&mut self, shared: &Shared, sweep: &mut Sweep) {
        let slots = shared.geometry.config.slots as usize;
        self.unlisted.resize(slots, None);
        let states: Vec<Option<Word>> = (0..slots as u32)
            .map(|index| shared.geometry.slot(index).and_then(|base| shared.look(base, &WPOL2_FINISH)))
            .collect();
        let (mut free, mut queued) = (alloc::vec![false; slots], alloc::vec![false; slots]);
        for (number, ring) in shared.geometry.rings().iter().enumerate() {
            let listed = if number == 0 { &mut free } else { &mut queued };
            ring.scan(&shared.memory, |index| {
                if let Some(listed) = listed.get_mut(index as usize) {
                    *listed = true;
                }
            });
        }
        for index in 0..slots {
            let lost = states[index].filter(|word| match word.state {
                State::Free => !free[index],
                State::Queued => !queued[index],
                _ => false,
            });
            let before = core::mem::replace(&mut self.unlisted[index], lost.map(Word::pack));
            if let Some(word) = lost.filter(|word| before == Some(word.pack())) {
                shared.list_again(index as u32, word);
                self.unlisted[index] = None;
                sweep.relisted += 1;
            }
        }
    }
}

impl Shared {
    /// Only one live peer sweeps at a time, or a slow one could take a record's next owner for its last.
    fn take_reaper_role(&self, me: u32, is_dead: &impl Fn(u32) -> bool) -> Result<u32, SweepError> {
        let word = self.memory.u32_at(header::REAPER);
        let holder = word.load(Relaxed);
        // A number that names no record is nobody's, whoever wrote it.
        let known = holder != 0 && self.geometry.record(holder - 1).is_some();
        let taken = known && holder != me + 1 && !is_dead(holder - 1);
        // The role is the word itself; every slot change is a CAS of its own.
        if taken || word.compare_exchange(holder, me + 1, Relaxed, Relaxed).is_err() {
            return Err(SweepError::AnotherReaper);
        }
        Ok(me + 1)
    }

    /// Whether the record belongs to a dead peer; if so it is marked as being reaped.
    fn mark_dead(&self, index: u32, is_dead: &impl Fn(u32) -> bool) -> bool {
        let Some(base) = self.geometry.record(index) else { return false };
        let state = self.memory.u32_at(base + record::STATE);
        match state.load(Relaxed) {
            RECORD_LIVE => {
                is_dead(index) && state.compare_exchange(RECORD_LIVE, RECORD_REAPED, Relaxed, Relaxed).is_ok()
            }
            // Left behind by a reaper that died, whose role is ours now.
            RECORD_REAPED => true,
            _ => false,
        }
    }

    /// Part 1 for one slot.
    fn bring_back(&self, index: u32, policy: DeathPolicy, is_dead: &impl Fn(u16) -> bool, sweep: &mut Sweep) {
        let Some(base) = self.geometry.slot(index) else { return };
        let Some(word) = self.look(base, &WPOL2_FINISH) else { return };
        let submitter = submitter_of(self.completion(base).load(Relaxed));
        if word.state == State::Alloc && is_dead(word.owner) {
            sweep.freed += u32::from(self.give_free(index, base, word));
            return;
        }
        if word.state == State::Running && is_dead(word.owner) {
            self.take_from_dead(index, base, word, policy, sweep);
        }
        if is_dead(submitter) && !matches!(word.state, State::Free | State::Alloc) {
            sweep.orphaned += 1;
            self.forget_submitter(index, base, submitter);
        } else {
            self.free_if_alone(index, base);
        }
    }

    /// A task whose worker died.
    fn take_from_dead(&self, index: u32, base: usize, word: Word, policy: DeathPolicy, sweep: &mut Sweep) {
        let attempts = word.attempts.saturating_add(1);
        let again = matches!(policy, DeathPolicy::Requeue { attempts_max } if attempts <= attempts_max);
        let word_after = Word { attempts, ..word };
        if !again {
            sweep.failed += u32::from(self.end(index, base, word, State::Failed));
            return;
        }
        let queued = word_after.becomes(State::Queued, 0);
        // WPOL2_QUEUE, the reaper's copy of the submitter's end: the task travels on to its next worker.
        if self.change(base, word, queued, &WPOL2_QUEUE) {
            sweep.requeued += 1;
            self.list_again(index, queued);
        }
    }

    /// Pushes a slot's hint to where its state says it belongs.
    fn list_again(&self, index: u32, word: Word) {
        if word.state == State::Free {
            return self.list_free(index);
        }
        let Some(base) = self.geometry.slot(index) else { return };
        // A lane number out of range means the last lane: the task must run somewhere.
        let lane = lane_of(self.completion(base).load(Relaxed)).min(self.geometry.config.lanes - 1);
        if let (Some(ring), Some(first)) = (self.geometry.lane(lane), self.geometry.lane(0)) {
            // A full lane is tried again by the next sweeps: the slot is still listed nowhere.
            if ring.push(&self.memory, index).is_ok() {
                self.notify(&first, Side::Items, 1);
            }
        }
    }

    /// Part 3.
    fn free_record(&self, index: u32) {
        if let Some(base) = self.geometry.record(index) {
            self.memory.u32_at(base + record::WAITING).store(0, Relaxed);
            self.memory.u32_at(base + record::STATE).store(RECORD_FREE, Relaxed);
        }
    }

    /// What a peer that leaves in good order does for itself.
    pub(super) fn bury(&self, me: u32) {
        if !self.is_sound() {
            return;
        }
        let mut sweep = Sweep::default();
        let is_me = |owner: u16| u32::from(owner) == me + 1;
        for index in 0..self.geometry.config.slots {
            self.bring_back(index, DeathPolicy::Fail, &is_me, &mut sweep);
        }
        // In case a sweep of its own was cut short by a panic in the caller's closure.
        let _ = self.memory.u32_at(header::REAPER).compare_exchange(me + 1, 0, Relaxed, Relaxed);
        self.free_record(me);
    }
}
