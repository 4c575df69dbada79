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
//! An answer about the dead is old by the time it is used: the peer asked about may have left meanwhile and another
//! taken its record. So a record's word carries an epoch and the role's word a tag, each is read before the question
//! and changed by a CAS of the whole word after the answer. A *stopped* reaper keeps the role and holds up sweeping,
//! though nothing else, until it goes on or dies.
//!
//! Not here: finding out who is dead. The caller says so, and must be right: dead means that the peer will never
//! touch the memory again. A stopped process is not dead.

use super::error::SweepError;
use super::layout::v2_header as header;
use super::v2_peer::Peer;
use super::v2_record::{Claim, WPOL2_RECORD};
use super::v2_region::Shared;
use super::v2_slots::{State, WPOL2_FINISH, WPOL2_QUEUE, Word, lane_of, submitter_of};
use super::v2_wait::Side;
use crate::edge::{Edge, left_out};
use crate::sync::Ordering::Relaxed;
use alloc::vec::Vec;

/// From one sweep to the next: everything the last reaper did.
static WPOL2_REAPER: Edge = Edge::new("WPOL2_REAPER");

/// The half of the role's word that names its holder, attach index + 1. The other half counts the takes.
const HOLDER: u32 = 0xFFFF;

/// What becomes of a task whose worker died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeathPolicy {
    /// It fails: every task starts at most once.
    #[default]
    Fail,
    /// It is queued again, until more workers than this have died of it.
    Requeue {
        /// Deaths that are forgiven. At most 255 are, since a slot counts no further than 255.
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
        let others = (0..shared.geometry.config.attach_records).filter(|index| *index != peer.index);
        let dead: Vec<(u32, Claim)> = others
            .filter_map(|index| shared.mark_dead(index, &is_dead).map(|reaped| (index, reaped)))
            .collect();
        let is_dead = |owner: u16| {
            owner != 0 && dead.binary_search_by_key(&(u32::from(owner) - 1), |(index, _)| *index).is_ok()
        };
        for index in 0..shared.geometry.config.slots {
            shared.bring_back(index, policy, &is_dead, &mut sweep);
        }
        self.relist(shared, &mut sweep);
        for (index, reaped) in &dead {
            sweep.buried += u32::from(shared.free_record(*index, *reaped));
        }
        shared.forget_dead_waiters();
        shared.memory.u64_at(header::SWEPT).store(now, Relaxed);
        shared.drop_reaper_role(role);
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
    /// Only one live peer sweeps at a time, or a slow one could take a record's next owner for its last. The role
    /// is the word itself; the answer is what it was set to.
    pub(super) fn take_reaper_role(
        &self,
        me: u32,
        is_dead: &impl Fn(u32) -> bool,
    ) -> Result<u32, SweepError> {
        let word = self.memory.u32_at(header::REAPER);
        // WPOL2_REAPER, taker's end, and read before the question is asked: if the holder it is about has been
        // replaced meanwhile, the tag has changed and the swap below fails.
        let seen = word.load(WPOL2_REAPER.acquire());
        let holder = seen & HOLDER;
        // A number that names no record is nobody's, whoever wrote it.
        let known = holder != 0 && self.geometry.record(holder - 1).is_some();
        let taken = known && holder != me + 1 && !is_dead(holder - 1);
        let tag = if left_out("WPOL2_REAPER_TAG") { 0 } else { (seen & !HOLDER).wrapping_add(HOLDER + 1) };
        let mine = tag | (me + 1);
        if taken || word.compare_exchange(seen, mine, WPOL2_REAPER.acquire(), Relaxed).is_err() {
            return Err(SweepError::AnotherReaper);
        }
        Ok(mine)
    }

    /// The tag stays, so that the word never comes back to what it was.
    fn drop_reaper_role(&self, role: u32) {
        let word = self.memory.u32_at(header::REAPER);
        // WPOL2_REAPER, dropper's end: this sweep is over, and the next reaper sees all of it.
        let _ = word.compare_exchange(role, role & !HOLDER, WPOL2_REAPER.release(), Relaxed);
    }

    /// Marks the record of a dead peer as being reaped. `None` if it is free, or its peer lives.
    fn mark_dead(&self, index: u32, is_dead: &impl Fn(u32) -> bool) -> Option<Claim> {
        let base = self.geometry.record(index)?;
        // WPOL2_RECORD, reaper's end, and read before the question is asked, as the role's word is.
        let seen = self.claim(base, &WPOL2_RECORD)?;
        if seen.is_reaped() {
            // Left behind by a reaper that died, whose role is ours now. Nobody can have attached since.
            return Some(seen);
        }
        (seen.is_live() && is_dead(index)).then_some(())?;
        self.change_claim(base, seen, seen.reaped(), Relaxed)
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
        // A count that is full ends the task whatever the policy: it could not tell one more death from none.
        let attempts = match (policy, word.attempts.checked_add(1)) {
            (DeathPolicy::Requeue { attempts_max }, Some(attempts)) if attempts <= attempts_max => attempts,
            _ => {
                sweep.failed += u32::from(self.end(index, base, word, State::Failed));
                return;
            }
        };
        let queued = Word { attempts, ..word }.becomes(State::Queued, 0);
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
        // A lane number out of range means the first lane: the task must run somewhere.
        let lane = self.geometry.lane(lane_of(self.completion(base).load(Relaxed)));
        // A full lane is tried again by the next sweeps: the slot is still listed nowhere.
        if lane.unwrap_or(self.geometry.first_lane()).push(&self.memory, index).is_ok() {
            self.notify(&self.geometry.first_lane(), Side::Items, 1);
        }
    }

    /// What a peer that leaves in good order does for itself.
    pub(super) fn bury(&self, me: u32, live: Claim) {
        let base = self.geometry.record(me);
        // A peer that was taken for dead has lost its record: what the record's number holds is another's now.
        let is_ours = base.and_then(|base| self.claim(base, &WPOL2_RECORD)) == Some(live);
        if !is_ours || !self.is_sound() {
            return;
        }
        let mut sweep = Sweep::default();
        let is_me = |owner: u16| u32::from(owner) == me + 1;
        for index in 0..self.geometry.config.slots {
            self.bring_back(index, DeathPolicy::Fail, &is_me, &mut sweep);
        }
        // In case a sweep of its own was cut short by a panic in the caller's closure.
        let role = self.memory.u32_at(header::REAPER).load(Relaxed);
        if role & HOLDER == me + 1 {
            self.drop_reaper_role(role);
        }
        self.free_record(me, live);
    }
}
