//! What does waiting cost when nothing comes?
//!
//! Two consumers wait at an empty queue for a quarter of a second, until it is closed. Each reads the processor time of
//! its own thread before and after. What is left is the price of waiting: looking again for a while, falling asleep and
//! waking up once. A peer that goes on spinning would use 250,000 µs. Baseline: zero.
//!
//! Not here: what waiting costs while items flow (`gate.rs`).

use super::{CAPACITY, measured};
use crate::measure::{Contestant, Group};
use crate::peers::queues::{LockedQueue, shared};
use crate::peers::{WaitPop, WaitPush, millpond};
use rustix::time::{ClockId, clock_gettime};
use std::thread;
use std::time::Duration;

const WAIT: Duration = Duration::from_millis(250);

pub(crate) fn groups() -> Vec<Group> {
    let contestants = vec![
        contestant("millpond", || shared(millpond::gate(CAPACITY))),
        contestant("crossbeam-channel", || crossbeam_channel::bounded(CAPACITY)),
        contestant("crossfire", || crossfire::mpmc::bounded_blocking(CAPACITY)),
        contestant("kanal", || kanal::bounded(CAPACITY)),
        contestant("std Mutex+Condvar", || shared(LockedQueue::with_capacity(CAPACITY))),
    ];
    let question = "processor time of a consumer who waits a quarter of a second in vain";
    vec![measured("gate-idle", question, "µs/wait", contestants)]
}

fn contestant<P, C>(peer: &'static str, open: impl Fn() -> (P, C) + 'static) -> Contestant
where
    P: WaitPush,
    C: WaitPop + Clone,
{
    Contestant::new(peer, move |_| {
        let (mut producer, consumer) = open();
        let sleepers = [consumer.clone(), consumer].map(|mut consumer| {
            thread::spawn(move || {
                let before = processor_time();
                (consumer.pop(), processor_time() - before)
            })
        });
        thread::sleep(WAIT);
        producer.close();
        drop(producer);
        let mut used = 0.0;
        for sleeper in sleepers {
            match sleeper.join() {
                Ok((None, busy)) => used += busy.as_secs_f64() * 1e6 / 2.0,
                Ok((Some(item), _)) => return Err(format!("item {item} came out of an empty queue")),
                Err(_) => return Err("a waiting consumer panicked".to_string()),
            }
        }
        Ok(used)
    })
}

/// What this thread has used so far.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
