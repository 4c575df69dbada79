//! What happens to a task when the queue is full: the next step as a number.
//!
//! Policies: 0 reject, 1 drop the newest, 2 drop the oldest, 3 block, 4 the caller runs it. Steps: 0 take, 1 refuse, 2
//! drop this, 3 drop the oldest and ask again, 4 wait, 5 run here; in the bits from 8 on stands why it is refused, or
//! run here.

use crate::brain;
use crate::number::{duration, optional};
use millpond_policy::admit::{Door, Policy, Refused, RunHere, Step, decide};

/// The policy from now on, for `block` with a limit (below 0: none); 0 if there is none of this number.
#[unsafe(no_mangle)]
pub extern "C" fn admit_configure(policy: u32, timeout: f64) -> u32 {
    let policy = match policy {
        0 => Policy::Reject,
        1 => Policy::DropNewest,
        2 => Policy::DropOldest,
        3 => Policy::Block { timeout: optional(timeout) },
        4 => Policy::CallerRuns,
        _ => return 0,
    };
    brain::with(|brain| brain.policy = policy);
    1
}

/// The next step for a task. `flags`: 1 the queue is full, 2 the pool is closed, 4 the submitter is a worker; a
/// `depth_max` below 0 is not said.
#[unsafe(no_mangle)]
pub extern "C" fn admit_decide(flags: u32, depth: u32, depth_max: i32, drops: u32, waited: f64) -> u32 {
    let door = Door {
        is_full: flags & 1 != 0,
        is_closed: flags & 2 != 0,
        is_worker: flags & 4 != 0,
        depth,
        depth_max: u32::try_from(depth_max).ok(),
        drops,
        waited: duration(waited),
    };
    brain::with(|brain| {
        brain.wait = None;
        match decide(brain.policy, &door) {
            Step::Take => 0,
            Step::Refuse(refused) => {
                1 | match refused {
                    Refused::Full => 0,
                    Refused::Closed => 1 << 8,
                    Refused::NothingToDrop { .. } => 2 << 8,
                    Refused::TooDeep { .. } => 3 << 8,
                    Refused::TimedOut { .. } => 4 << 8,
                }
            }
            Step::DropThis => 2,
            Step::DropOldestThenRetry => 3,
            Step::Wait(left) => {
                brain.wait = left;
                4
            }
            Step::RunHere(RunHere::CallerRuns) => 5,
            Step::RunHere(RunHere::InsteadOfWaiting) => 5 | 1 << 8,
        }
    })
}

/// For how long the last step says to wait, in nanoseconds; -1: without a limit, or it was another step.
#[unsafe(no_mangle)]
pub extern "C" fn admit_wait() -> f64 {
    brain::with(|brain| brain.wait.map_or(-1.0, |left| left.as_nanos() as u64 as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u32 = 1;

    #[test]
    fn every_policy_has_its_own_step_at_a_full_queue() {
        for policy in 0..5 {
            assert_eq!(admit_configure(policy, -1.0), 1);
            assert_eq!(admit_decide(FULL, 0, -1, 0, 0.0), policy + 1);
            assert_eq!(admit_decide(0, 0, -1, 0, 0.0), 0, "there is room");
            assert_eq!(admit_decide(2, 0, -1, 0, 0.0), 1 | 1 << 8, "closed");
        }
    }

    #[test]
    fn policies_have_the_places_of_their_names() {
        let names = [Policy::Reject, Policy::DropNewest, Policy::DropOldest, Policy::Block { timeout: None }];
        for (place, policy) in names.into_iter().chain([Policy::CallerRuns]).enumerate() {
            assert_eq!(Policy::NAMES[place], policy.name());
            assert_eq!(admit_configure(place as u32, -1.0), 1);
            assert_eq!(brain::with(|brain| brain.policy), policy);
        }
        assert_eq!(admit_configure(5, -1.0), 0);
    }

    #[test]
    fn waiting_ends_when_its_time_is_over() {
        assert_eq!(admit_configure(3, 50.0), 1);
        assert_eq!((admit_decide(FULL, 0, -1, 0, 20.0), admit_wait()), (4, 30.0));
        assert_eq!((admit_decide(FULL, 0, -1, 0, 50.0), admit_wait()), (1 | 4 << 8, -1.0));
        assert_eq!(admit_configure(3, -1.0), 1);
        assert_eq!((admit_decide(FULL, 0, -1, 0, 1e18), admit_wait()), (4, -1.0));
        assert_eq!(admit_decide(FULL | 4, 0, -1, 0, 0.0), 5 | 1 << 8, "a worker runs it instead");
        assert_eq!(admit_decide(FULL | 4, 1, 1, 0, 0.0), 1 | 3 << 8, "unless it is deep enough already");
    }

    #[test]
    fn dropping_old_tasks_is_tried_a_few_times() {
        assert_eq!(admit_configure(2, -1.0), 1);
        assert_eq!((admit_decide(FULL, 0, -1, 7, 0.0), admit_decide(FULL, 0, -1, 8, 0.0)), (3, 1 | 2 << 8));
    }
}
