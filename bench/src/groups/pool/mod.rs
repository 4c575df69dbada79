//! The groups about pools: what all of them have in common.
//!
//! Every pool has two workers. One with a limit on what waits gets room for as many tasks as the queues of
//! the other groups; one without is used as it is, and who spawns keeps an eye on how many tasks are on their
//! way, so that memory stays bounded and a round does not measure the page faults of a queue that holds all
//! of it. A pool is started and warmed up before the clock runs, and the clock stops when the last task has
//! signed the ledger. Workers are the peers' own threads, so `--pin` does not reach them.
//!
//! Not here: what a group does (its own file), how the pools are called (`peers/`).

mod idle;
mod join;
mod memory;
mod metrics;
mod rally;
mod roundtrip;
mod spawn;
mod strategies;
mod submit;
mod yields;

use super::CAPACITY;
use crate::ledger::Ledger;
use crate::measure::Group;
use crate::peers::pools::{Size, Spawn};

const WORKERS: usize = 2;
const SIZE: Size = Size { workers: WORKERS, capacity: CAPACITY };

pub(crate) fn groups() -> Vec<Group> {
    let groups = [
        spawn::groups(),
        submit::groups(),
        strategies::groups(),
        join::groups(),
        roundtrip::groups(),
        yields::groups(),
        rally::groups(),
        memory::groups(),
        metrics::groups(),
        idle::groups(),
    ];
    groups.into_iter().flatten().collect()
}

/// Lets the pool run as many small tasks as wake all of its workers and bring its queues to their size.
fn warm_up(handle: &impl Spawn) -> Result<(), String> {
    const TASKS: u64 = 2000;
    let ledger = Ledger::open();
    for item in 1..=TASKS {
        handle.spawn(move || ledger.sign(item));
    }
    ledger.wait_for_end(TASKS)?;
    ledger.tally().check(TASKS)
}
