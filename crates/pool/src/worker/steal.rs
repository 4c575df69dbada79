//! How a worker that has nothing to do takes tasks from others.
//!
//! Whom to rob, and of how much, is decided by `millpond_policy::steal` from a picture of all seats; here the picture
//! is taken and the robbery done. The oldest tasks go, and keep their order. Tasks with an affinity key are left to
//! their worker: only when this one, having nothing to do, has seen one wait for
//! [`steal_after`](millpond_policy::affinity::AffinitySettings) does it take it. What waits at a worker that stands
//! still or has left is for everybody, even if stealing is off: nobody else would come to it.
//!
//! A busy worker takes a single task of another now and then, in case it waits behind a worker that stands still.

use super::Worker;
use crate::counters::bump;
use crate::events::EventKind;
use crate::seat::Seat;
use crate::task::Task;
use millpond_policy::Moment;
use millpond_policy::steal::Thief;
use millpond_policy::view::{Views, WorkerView};
use millpond_queue::Steal;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A worker's picture of the others, and what it remembers of its robberies.
pub(super) struct Thieving {
    thief: Thief,
    seats: Views,
}

/// A task with a key that waits for another worker.
#[derive(Clone, Copy)]
pub(super) struct MailSeen {
    at: usize,
    /// How many had left that inbox.
    dequeued: u64,
    since: Moment,
}

impl Thieving {
    pub(super) fn new(thief: Thief) -> Self {
        Self { thief, seats: Views::default() }
    }

    /// Takes a new picture; `false` if nothing waits anywhere.
    fn look(&mut self, worker: &Worker) -> bool {
        let mut anything = false;
        for (at, seat) in worker.shared.seats().enumerate() {
            if at == self.seats.len() {
                self.seats.push(WorkerView { id: at as u32, ..WorkerView::default() });
            }
            let queued = if at == worker.number { 0 } else { seat.stealable() };
            anything |= queued > 0;
            // Whoever asks has nothing to do, even if it does so in the middle of a task that waits.
            self.seats.set_load(at, 0, queued as u32);
        }
        anything
    }
}

impl Worker {
    /// A half of a join that somebody offers, or else as much as the policy says of what waits at another worker: one
    /// to run, the rest into this worker's own queue.
    pub(super) fn rob(&self) -> Option<Task> {
        if let Some(fork) = self.shared.forks.pop() {
            return Some(fork);
        }
        let steals = self.shared.config.stealing.enabled;
        let robbed = if steals { self.rob_as_planned() } else { None };
        robbed
            .or_else(|| self.rob_mail(|seat| seat.presence.is_open()))
            .or_else(|| if steals && self.mail_is_ripe.get() { self.rob_mail(|_| true) } else { None })
    }

    /// For how long this worker may sleep until a task with a key, which waits for another, has waited long enough.
    /// Whether it is the same task is told by how many have left that inbox.
    pub(super) fn wait_for_mail(&self) -> Option<Duration> {
        let shared = &self.shared;
        let still_waits = |seen: &MailSeen| {
            let inbox = &shared.seat(seen.at).inbox;
            !inbox.is_empty() && inbox.stats().dequeued == seen.dequeued
        };
        let seen = self.mail_seen.get().filter(still_waits).or_else(|| {
            let (at, seat) = shared.mail_elsewhere(self.number)?;
            Some(MailSeen { at, dequeued: seat.inbox.stats().dequeued, since: shared.now() })
        });
        self.mail_seen.set(seen);
        Some(shared.config.affinity.steal_after.saturating_sub(shared.now().since(seen?.since)))
    }

    fn rob_as_planned(&self) -> Option<Task> {
        let mut thieving = self.thieving.borrow_mut();
        // Each time round somebody was faster, so somebody works.
        while thieving.look(self) {
            let Thieving { thief, seats } = &mut *thieving;
            let robbery = thief.decide(self.number as u32, seats, self.shared.now())?;
            if let Some((task, taken)) = self.rob_seat(robbery.at, robbery.take) {
                bump(&self.counters().stolen, u64::from(taken));
                bump(&self.counters().robberies, 1);
                self.shared.events.tell(|| EventKind::Stole {
                    thief: self.number,
                    victim: robbery.at,
                    tasks: taken,
                    reason: robbery.reason,
                });
                return Some(task);
            }
            thief.came_back_empty();
            bump(&self.counters().robberies_in_vain, 1);
        }
        None
    }

    /// The oldest task that waits at `victim`; up to `take` are taken, and the others put into this worker's own queue.
    fn rob_seat(&self, victim: usize, take: u32) -> Option<(Task, u32)> {
        let seat = self.shared.seat(victim);
        while !seat.stealer.is_empty() {
            let before = self.own.len();
            match seat.stealer.steal_some_and_pop(&self.own, take) {
                Steal::Success(task) => {
                    let more = self.own.len().saturating_sub(before) as u32;
                    // While they were in this worker's hands, one that parked saw them nowhere.
                    self.shared.sleep.work_came();
                    return Some((task, 1 + more));
                }
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => break,
            }
        }
        let assigned = seat.assigned()?;
        let task = assigned.try_dequeue().ok()?;
        let mut taken = 1;
        while taken < take
            && let Ok(another) = assigned.try_dequeue()
        {
            self.push_own(another);
            taken += 1;
        }
        Some((task, taken))
    }

    /// Any task of another worker of those that may be robbed, also one with a key.
    pub(super) fn rob_mail(&self, may_be_robbed: impl Fn(&Seat) -> bool) -> Option<Task> {
        let seats = self.shared.seats_used();
        let first = self.next_random() as usize % seats.max(1);
        let others = (first..seats).chain(0..first).filter(|&victim| victim != self.number);
        let mut victims = others.map(|victim| self.shared.seat(victim));
        let robbed = victims.find(|seat| may_be_robbed(seat) && !seat.is_empty())?;
        self.take_from(robbed)
    }

    fn take_from(&self, seat: &Seat) -> Option<Task> {
        let task = seat.take_stealable().or_else(|| {
            let keyed = seat.inbox.try_dequeue().ok()?;
            self.shared.affinity.counts.moved.fetch_add(1, Relaxed);
            Some(keyed)
        })?;
        bump(&self.counters().stolen, 1);
        Some(task)
    }

    /// One task of another worker, which may stand still: more would only be carried to and fro between the busy.
    pub(super) fn rob_one(&self) -> Option<Task> {
        let victim = self.next_random() as usize % self.shared.seats_used().max(1);
        if victim == self.number {
            return None;
        }
        let seat = self.shared.seat(victim);
        if seat.presence.is_open() {
            return self.take_from(seat);
        }
        let task = if self.shared.config.stealing.enabled { seat.take_stealable() } else { None }?;
        bump(&self.counters().stolen, 1);
        Some(task)
    }
}
