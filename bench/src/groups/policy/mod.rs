//! The groups about policy: what a decision costs by itself, without a pool around it.
//!
//! Policy is plain code on one thread, so every round is rehearsed: it is done once without a clock, and the
//! timed one must come to the same checksum. What the rehearsal came to is itself looked at, since a strategy
//! that always names the first worker is very fast. It never waits either, so the clock is the thread's own
//! processor time: on a busy machine it stands still while others run. No threads are started, so `--pin`
//! changes nothing.
//!
//! Not here: what a strategy costs a real pool (`pool/strategies.rs`).

mod affinity;
mod choose;
mod histogram;

use crate::measure::Group;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

pub(crate) fn groups() -> Vec<Group> {
    [choose::groups(), affinity::groups(), histogram::groups()].into_iter().flatten().collect()
}

/// Tells how much processor time this thread has used since it was started.
struct Stopwatch(Duration);

impl Stopwatch {
    fn start() -> Self {
        Self(processor_time())
    }

    fn elapsed(&self) -> Duration {
        processor_time().saturating_sub(self.0)
    }
}

/// What this thread has used so far.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Fails if a worker got so much more than an even share that nobody can have spread anything. Chance alone
/// does not come near: with small shares the second term leaves it room, with large ones the first.
fn check_spread(given: &[u64]) -> Result<(), String> {
    let total: u64 = given.iter().sum();
    let most_allowed = 2 * total / given.len().max(1) as u64 + 64;
    match given.iter().enumerate().max_by_key(|(_, given)| **given) {
        Some((worker, most)) if *most > most_allowed => Err(format!(
            "worker {worker} got {most} of {total}: expected at most {most_allowed} for each of {}",
            given.len()
        )),
        _ => Ok(()),
    }
}

/// Fails unless the timed round came to what the rehearsal did.
fn check_repeated(rehearsed: u64, timed: u64) -> Result<(), String> {
    if rehearsed == timed {
        return Ok(());
    }
    Err(format!("the timed round came to the checksum {timed}, its rehearsal to {rehearsed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_everything_to_one_worker_is_found_and_chance_is_not() {
        check_spread(&[1000, 900, 1100, 1000]).unwrap();
        check_spread(&[0, 9, 0, 1]).unwrap();
        let message = check_spread(&[0, 4000, 0, 0]).unwrap_err();
        assert_eq!(message, "worker 1 got 4000 of 4000: expected at most 2064 for each of 4");
    }

    #[test]
    fn a_round_unlike_its_rehearsal_is_found() {
        check_repeated(7, 7).unwrap();
        assert_eq!(
            check_repeated(7, 8).unwrap_err(),
            "the timed round came to the checksum 8, its rehearsal to 7"
        );
    }
}
