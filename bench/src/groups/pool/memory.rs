//! How much of the heap does a task use while it waits, and a worker while it has nothing to do?
//!
//! `pool-memory`: the workers are held, and 100,000 closures that carry two words are queued. From what is
//! then in use is taken what a pool uses that has no room and holds nothing, so that slots which were there
//! from the start count as well. `pool-memory-worker`: what 32 workers more use, for one of them, without the
//! stack, which the system maps. Counted are the bytes that were asked for. Baseline: the channel pools, where a
//! closure is a box of two words and a slot of three.
//!
//! Not here: how bytes are counted (`heap.rs`).

use super::{SIZE, WORKERS, warm_up};
use crate::heap;
use crate::ledger::Ledger;
use crate::measure::{Better, Contestant, Group, Pace, Round};
use crate::peers::channel_pools::{CrossbeamPool, CrossfirePool};
use crate::peers::executors::{AsyncExecutor, FuturesPool, Tokio, TokioBlocking};
use crate::peers::pools::{Pool, Size, Spawn};
use crate::peers::thread_pools::{PlainThreadPool, Rayon, RustyPool};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const QUEUED: u64 = 100_000;
/// As little room as the two tasks that hold the workers need, and a pool may ask for.
const CAPACITY_MIN: usize = 64;
const WORKERS_MORE: usize = 32;
const BEGINNING: Duration = Duration::from_millis(50);

pub(super) fn groups() -> Vec<Group> {
    let tasks = vec![
        Contestant::new("millpond", bytes_per_task::<millpond::Pool>),
        Contestant::new("rayon", bytes_per_task::<Rayon>),
        Contestant::new("tokio", bytes_per_task::<Tokio>),
        Contestant::new("tokio spawn_blocking", bytes_per_task::<TokioBlocking>),
        Contestant::new("async-executor", bytes_per_task::<AsyncExecutor>),
        Contestant::new("futures ThreadPool", bytes_per_task::<FuturesPool>),
        Contestant::new("threadpool", bytes_per_task::<PlainThreadPool>),
        Contestant::new("rusty_pool", bytes_per_task::<RustyPool>),
        Contestant::new("crossbeam-channel pool", bytes_per_task::<CrossbeamPool>),
        Contestant::new("crossfire pool", bytes_per_task::<CrossfirePool>),
    ];
    let workers = vec![
        Contestant::new("millpond", bytes_per_worker::<millpond::Pool>),
        Contestant::new("rayon", bytes_per_worker::<Rayon>),
        Contestant::new("tokio", bytes_per_worker::<Tokio>),
        Contestant::new("async-executor", bytes_per_worker::<AsyncExecutor>),
        Contestant::new("futures ThreadPool", bytes_per_worker::<FuturesPool>),
        Contestant::new("threadpool", bytes_per_worker::<PlainThreadPool>),
        Contestant::new("crossbeam-channel pool", bytes_per_worker::<CrossbeamPool>),
        Contestant::new("crossfire pool", bytes_per_worker::<CrossfirePool>),
    ];
    vec![
        group("pool-memory", "heap in use by one of 100,000 small closures that wait", "B/task", tasks),
        group("pool-memory-worker", "heap in use by a worker that has nothing to do", "B/worker", workers),
    ]
}

fn group(
    name: &'static str,
    question: &'static str,
    unit: &'static str,
    contestants: Vec<Contestant>,
) -> Group {
    Group { name, question, unit, better: Better::Lower, pace: Pace::Once, contestants }
}

fn bytes_per_task<P: Pool<Handle: Spawn>>(_: &Round) -> Result<f64, String> {
    heap::counting(|| {
        let empty = bytes_while_held::<P>(CAPACITY_MIN, 0)?;
        let full = bytes_while_held::<P>(QUEUED as usize, QUEUED)?;
        Ok((full - empty) as f64 / QUEUED as f64)
    })
}

/// What a pool of such a capacity uses while its workers are held and so many closures wait.
fn bytes_while_held<P: Pool<Handle: Spawn>>(capacity: usize, queued: u64) -> Result<i64, String> {
    let (ledger, hold) = (Ledger::open(), Arc::new(Hold::default()));
    let before = heap::live_bytes();
    let pool = P::start(Size { workers: WORKERS, capacity });
    let handle = pool.handle();
    for _ in 0..WORKERS {
        let hold = Arc::clone(&hold);
        handle.spawn(move || hold.stay());
    }
    hold.wait_for(WORKERS);
    for item in 1..=queued {
        handle.spawn(move || ledger.sign(item));
    }
    let used = heap::live_bytes() - before;
    hold.release();
    ledger.wait_for_end(queued)?;
    ledger.tally().check(queued)?;
    Ok(used)
}

fn bytes_per_worker<P: Pool<Handle: Spawn>>(_: &Round) -> Result<f64, String> {
    heap::counting(|| {
        // Once for nothing: what is made once in a process is no worker's.
        bytes_while_idle::<P>(WORKERS)?;
        let few = bytes_while_idle::<P>(WORKERS)?;
        let many = bytes_while_idle::<P>(WORKERS + WORKERS_MORE)?;
        Ok((many - few) as f64 / WORKERS_MORE as f64)
    })
}

fn bytes_while_idle<P: Pool<Handle: Spawn>>(workers: usize) -> Result<i64, String> {
    let before = heap::live_bytes();
    let pool = P::start(Size { workers, ..SIZE });
    warm_up(&pool.handle())?;
    // A few workers do all the tasks; the others need the time to begin, and make what a thread makes for
    // itself.
    thread::sleep(BEGINNING);
    Ok(heap::live_bytes() - before)
}

/// Where tasks stay until they are let go.
#[derive(Default)]
struct Hold {
    state: Mutex<HoldState>,
    changed: Condvar,
}

#[derive(Default)]
struct HoldState {
    staying: usize,
    released: bool,
}

impl Hold {
    fn stay(&self) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        state.staying += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.released));
    }

    fn wait_for(&self, staying: usize) {
        let state = self.state.lock().expect("nothing panics under this lock");
        drop(self.changed.wait_while(state, |state| state.staying < staying));
    }

    fn release(&self) {
        self.state.lock().expect("nothing panics under this lock").released = true;
        self.changed.notify_all();
    }
}
