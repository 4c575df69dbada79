//! What a child does until it is killed, and how it would notice that something is wrong.
//!
//! Every task has a number, a payload and an outcome that follow from it, and every step leaves a mark in the ledger.
//!
//! Not here: who kills it (`torture.rs`), whether the marks add up (`ledger.rs`).

use crate::ledger::{ACCEPTED, ATTEMPTED, CANCELLED, CANCELLING, FINISHED, FINISHING, REFUSED, STARTS};
use crate::{IDS, Mill, Random};
use millpond_queue::wpol::v2::{
    Cancel, DeathPolicy, Peer, Progress, Reaper, Running, StartError, Submission, SweepError, Ticket,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

pub(crate) struct Worker<'m> {
    pub(crate) mill: &'m Mill,
    pub(crate) peer: &'m Peer,
    pub(crate) index: usize,
    pub(crate) policy: DeathPolicy,
    pub(crate) random: Random,
    pub(crate) reaper: Reaper,
    pub(crate) tickets: VecDeque<(Ticket, u64)>,
}

impl Worker<'_> {
    /// Role 0 mostly submits, 1 mostly runs, 2 does both, until told to stop; then everybody runs what is left. Now
    /// and then somebody sweeps, and so is killed sweeping; now and then somebody leaves in good order.
    pub(crate) fn run(&mut self, role: u64) {
        let mut idle = 0;
        while idle < 3 || !self.tickets.is_empty() {
            let stopping = self.mill.page().stop.load(SeqCst) != 0;
            match self.random.below(4_096) {
                0 if !stopping => return,
                1..64 => self.sweep(),
                _ => {}
            }
            self.mill.page().steps[self.index].fetch_add(1, Relaxed);
            let submits = match role {
                0 => true,
                1 => false,
                _ => self.random.below(2) == 0,
            };
            let busy = if submits && !stopping { self.submit() } else { self.take() };
            self.look_after_tickets(stopping);
            idle = if stopping && !busy { idle + 1 } else { 0 };
            if !busy && !stopping {
                self.rest(submits);
            }
        }
    }

    fn sweep(&mut self) {
        let page = self.mill.page();
        let is_dead = |index: u32| page.dead.get(index as usize).is_some_and(|dead| dead.load(SeqCst) != 0);
        match self.reaper.sweep(self.peer, 0, self.policy, is_dead) {
            Ok(_) | Err(SweepError::AnotherReaper) => {}
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// Mostly looks again at once, since a kill during sleep proves little; but sleepers must be killed too.
    fn rest(&mut self, submits: bool) {
        match (self.random.below(8), submits) {
            (0, true) => drop(self.peer.wait_slot(Duration::from_micros(300))),
            (0, false) => drop(self.peer.wait_items(Duration::from_micros(300))),
            _ => std::thread::yield_now(),
        }
    }

    /// One task or a batch.
    fn submit(&mut self) -> bool {
        let count = if self.random.below(4) == 0 { 1 + self.random.below(6) } else { 1 };
        let first = self.mill.page().next_id.fetch_add(count, SeqCst) + 1;
        if first as usize + count as usize >= IDS {
            return false;
        }
        let ids: Vec<u64> = (first..first + count).collect();
        let mut bytes = vec![Vec::new(); ids.len()];
        ids.iter().zip(&mut bytes).for_each(|(id, bytes)| payload(*id, bytes));
        let lane = self.random.below(2) as u32;
        let batch: Vec<Submission<'_>> = ids
            .iter()
            .zip(&bytes)
            .map(|(id, payload)| Submission { lane, task: *id, payload, ..Submission::default() })
            .collect();
        for id in &ids {
            self.mill.mark(*id).fetch_or(ATTEMPTED, SeqCst);
        }
        let mut tickets = Vec::new();
        let done = match batch.len() {
            1 => self.peer.submit(batch[0]).map(|ticket| tickets.push(ticket)).map_or(0, |()| 1),
            _ if self.random.below(2) == 0 => self.peer.send_batch(&batch).unwrap_or(0),
            _ => self.peer.submit_batch(&batch, &mut tickets).unwrap_or(0),
        };
        for (at, id) in ids.iter().enumerate() {
            self.mill.mark(*id).fetch_or(if at < done { ACCEPTED } else { REFUSED }, SeqCst);
        }
        self.tickets.extend(tickets.into_iter().zip(ids));
        done > 0
    }

    /// Runs one task or a few.
    pub(crate) fn take(&mut self) -> bool {
        let count = if self.random.below(4) == 0 { 3 } else { 1 };
        let mut tasks = Vec::new();
        match self.peer.start_batch(0, count, &mut tasks) {
            Ok(_) => {}
            Err(StartError::Poisoned) => panic!("poisoned"),
            Err(_) => return false,
        }
        let (empty, others): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|running| outcome_of(running.task()) == (0, Vec::new()));
        for running in others {
            let id = running.task();
            self.run_task(&running);
            let (status, result) = outcome_of(id);
            if running.finish(status, &result).is_ok() {
                self.note_end(id);
            }
        }
        let ids: Vec<u64> = empty.iter().map(Running::task).collect();
        empty.iter().for_each(|running| self.run_task(running));
        // A live worker's task is not given away, so all of these end here.
        self.peer.finish_batch(empty);
        ids.into_iter().for_each(|id| self.note_end(id));
        true
    }

    /// Everything up to the task's end.
    fn run_task(&self, running: &Running<'_>) {
        let (page, id) = (self.mill.page(), running.task());
        let mark = self.mill.mark(id);
        let started = mark.fetch_add(1, SeqCst);
        // Every earlier start must have ended in a death that the reaper counted.
        if started & STARTS > u32::from(running.attempts()) {
            page.doubled.fetch_add(1, SeqCst);
        }
        let mut expected = Vec::new();
        payload(id, &mut expected);
        if running.payload() != expected {
            page.torn.fetch_add(1, SeqCst);
        }
        mark.fetch_or(FINISHING, SeqCst);
    }

    fn note_end(&self, id: u64) {
        let page = self.mill.page();
        if self.mill.mark(id).fetch_or(FINISHED, SeqCst) & FINISHED != 0 {
            page.doubled.fetch_add(1, SeqCst);
        }
        page.progress.fetch_add(1, Relaxed);
    }

    /// Fetches results; now and then cancels or gives up a ticket instead.
    fn look_after_tickets(&mut self, stopping: bool) {
        while let Some((ticket, id)) = self.tickets.pop_front() {
            match self.peer.poll(&ticket).expect("a ticket of a live peer stays valid") {
                Progress::Queued | Progress::Running => {
                    if let Some(ticket) = self.be_impatient(ticket, id) {
                        self.tickets.push_front((ticket, id));
                        if self.tickets.len() < 8 || stopping {
                            return;
                        }
                        // Too many open: now and then wait for the oldest.
                        if self.random.below(4) == 0 {
                            let _ = self.peer.wait(&self.tickets[0].0, Duration::from_micros(200));
                        }
                        return;
                    }
                    continue;
                }
                Progress::Done { status } => {
                    let whole = (status, self.peer.result(&ticket).unwrap()) == outcome_of(id);
                    self.mill.page().torn.fetch_add(u64::from(!whole), SeqCst);
                }
                _ => {}
            }
            self.peer.release(ticket).expect("a finished task of ours can be released");
        }
    }

    /// The ticket comes back if its task is to go on.
    fn be_impatient(&mut self, ticket: Ticket, id: u64) -> Option<Ticket> {
        match self.random.below(32) {
            0 => {
                self.mill.mark(id).fetch_or(CANCELLING, SeqCst);
                if self.peer.cancel(&ticket).unwrap() == Cancel::Cancelled {
                    self.mill.mark(id).fetch_or(CANCELLED, SeqCst);
                }
                Some(ticket)
            }
            1 => {
                self.peer.detach(ticket).unwrap();
                None
            }
            _ => Some(ticket),
        }
    }
}

fn payload(id: u64, bytes: &mut Vec<u8>) {
    let mut random = Random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    bytes.clear();
    bytes.extend(id.to_le_bytes());
    for _ in 0..random.below(12) {
        bytes.extend(random.next().to_le_bytes());
    }
    let sum = bytes.iter().fold(17_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    bytes.extend(&sum.to_le_bytes()[..5]);
}

/// What a task ends with; every third with nothing, so that nothing must be written over what a dead worker left.
fn outcome_of(id: u64) -> (u32, Vec<u8>) {
    match id % 3 {
        0 => (0, Vec::new()),
        _ => (id as u32, (id ^ 0x00FF_00FF_00FF_00FF).to_le_bytes().to_vec()),
    }
}
