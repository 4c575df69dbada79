//! What a pool allocates: nothing for a small closure, one block for a task with a ticket, which is used again, and a
//! burst leaves nothing.
//!
//! Every allocation of this process goes through an allocator that counts. The counts are of the whole process,
//! since a task is made on one thread and freed on another; so there is one test here, and its steps come one after
//! the other.
//!
//! Not here: what the queues themselves cost (`tests/memory.rs` of millpond-queue).

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond::{MetricsConfig, Pool, PoolConfig, yield_now};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The system's allocator, with a count of what is done.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicIsize = AtomicIsize::new(0);

fn count(allocations: usize, bytes: isize) {
    ALLOCATIONS.fetch_add(allocations, Relaxed);
    BYTES.fetch_add(bytes, Relaxed);
}

// SAFETY: every call is handed to the system's allocator with its arguments unchanged, and counting neither
// allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller's promises about the layout are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller's promises about the layout are those that `System` asks for.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: the block came from one of the calls here, hence from `System`, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as isize - layout.size() as isize);
        // SAFETY: the block came from one of the calls here, hence from `System`, with this layout.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TASKS: usize = 1000;
/// Words of a closure whose block is not used again.
const LARGE: usize = 70;
/// As many blocks of a size as two threads keep, and may keep from each other.
const KEPT: usize = 130;

/// How often `work` allocates, on all threads, until the pool has come to rest.
fn allocations_of(pool: &Pool, work: impl FnOnce()) -> usize {
    until_at_rest(pool);
    let before = ALLOCATIONS.load(Relaxed);
    work();
    wait_without_allocating(pool);
    ALLOCATIONS.load(Relaxed) - before
}

/// The metrics are a list and so allocate; here they are asked for only when the count has been taken, or before.
fn until_at_rest(pool: &Pool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while pool.metrics().workers_asleep < pool.metrics().workers_wanted || pool.metrics().tasks_waiting > 0 {
        assert!(Instant::now() < deadline, "the pool does not come to rest");
        std::thread::yield_now();
    }
}

/// One more small closure behind the others, on the only worker: when it has run, all have.
fn wait_without_allocating(pool: &Pool) {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    let before = RAN.load(Relaxed);
    pool.spawn(|| drop_number(RAN.fetch_add(1, Relaxed))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while RAN.load(Relaxed) == before {
        assert!(Instant::now() < deadline, "the last closure does not run");
        std::thread::yield_now();
    }
}

fn drop_number(_: usize) {}

fn spawn_with<const WORDS: usize>(pool: &Pool) -> usize {
    allocations_of(pool, || spawn_all::<WORDS>(pool))
}

fn spawn_all<const WORDS: usize>(pool: &Pool) {
    let words = [1_u64; WORDS];
    for _ in 0..TASKS {
        pool.spawn(move || drop_number(black_box(words).len())).unwrap();
    }
}

/// As `allocations_of`, but nothing that `work` spawns is run before all of it waits.
fn paused(pool: &Pool, work: impl FnOnce()) -> usize {
    allocations_of(pool, || {
        pool.pause();
        work();
        pool.resume();
    })
}

/// How often tasks allocate whose result is waited for, one after the other.
fn tickets_with<const WORDS: usize>(pool: &Pool) -> usize {
    let words = [1_u64; WORDS];
    allocations_of(pool, || {
        for _ in 0..TASKS {
            assert_eq!(pool.submit(move || black_box(words).len()).unwrap().wait().unwrap(), WORDS);
        }
    })
}

/// As `tickets_with`, for futures that give way once.
fn futures_with<const WORDS: usize>(pool: &Pool) -> usize {
    let words = [1_u64; WORDS];
    allocations_of(pool, || {
        for _ in 0..TASKS {
            let future = async move {
                yield_now().await;
                black_box(words).len()
            };
            assert_eq!(pool.spawn_async(future).unwrap().wait().unwrap(), WORDS);
        }
    })
}

#[test]
fn a_pool_allocates_only_what_it_must() {
    timing_allocates_little();
    an_inbox_takes_64_bytes_for_each_place_and_every_worker_has_one();
    let untimed = MetricsConfig { sample_every: 0, ..MetricsConfig::default() };
    let pool = Pool::start(PoolConfig { workers: 1, metrics: untimed, ..PoolConfig::default() }).unwrap();
    // What is made on first use is made.
    spawn_with::<1>(&pool);
    from_inside(&pool);
    pool.submit(|| ()).unwrap().wait().unwrap();

    assert_eq!(spawn_with::<0>(&pool), 0, "a closure without captures");
    assert_eq!(spawn_with::<6>(&pool), 0, "a closure of 48 bytes");
    assert_eq!(spawn_with::<LARGE>(&pool), TASKS, "a larger one is one block");
    let at_first = paused(&pool, || spawn_all::<7>(&pool));
    // Some blocks may be there from earlier tasks, and the depot of that size is made too.
    let about_all = TASKS - KEPT..TASKS + 3;
    assert!(about_all.contains(&at_first), "a usual one is too, while more live than ever: {at_first}");
    let later = paused(&pool, || spawn_all::<7>(&pool));
    assert!(later < KEPT, "blocks of usual sizes are used again: {later} were not");
    assert!(from_inside(&pool) < 20, "from inside a task only the worker's own queue grows, by doubling");

    assert_eq!(tickets_with::<LARGE>(&pool), TASKS, "a task and its ticket are one block");
    assert!(tickets_with::<1>(&pool) < KEPT, "which is used again");
    let futures = futures_with::<LARGE>(&pool);
    // The list of those that live grows now and then, once for each of its parts.
    assert!(
        (TASKS..TASKS + 20).contains(&futures),
        "a future, its wakers and its ticket are one block: {futures}"
    );
    assert!(futures_with::<1>(&pool) < KEPT, "which is used again");
    a_burst_leaves_nothing(&pool);
    a_place_that_is_given_on_costs_nothing(&pool);
    what_is_kept_is_told_and_bounded(&pool);
}

/// With the defaults, one task in 128 is timed: if there is no room beside it for the time, it is boxed.
fn timing_allocates_little() {
    let pool = Pool::start(PoolConfig { workers: 1, ..PoolConfig::default() }).unwrap();
    let (small, large) = (spawn_with::<3>(&pool), spawn_with::<6>(&pool));
    // The histograms grow as times of other lengths are seen.
    assert!(small < 60, "{small} allocations for {TASKS} closures of 24 bytes");
    assert!(large < 60 + TASKS / 128 + 1, "{large} allocations for {TASKS} closures of 48 bytes");
}

/// As the settings say: it is made when the worker first starts.
fn an_inbox_takes_64_bytes_for_each_place_and_every_worker_has_one() {
    let bytes_of = |workers, inbox_capacity| {
        let before = BYTES.load(Relaxed);
        let config = PoolConfig { workers, workers_max: 2, inbox_capacity, ..PoolConfig::default() };
        let pool = Pool::start(config).unwrap();
        until_at_rest(&pool);
        let bytes = BYTES.load(Relaxed) - before;
        drop(pool);
        bytes
    };
    for workers in [1, 2] {
        let places = bytes_of(workers, 100_000) - bytes_of(workers, 1);
        let expected = 64 * 100_000 * workers as isize;
        assert!((places - expected).abs() < expected / 20, "{places} bytes for {workers} inboxes");
    }
}

/// How often small closures allocate that a task spawns.
fn from_inside(pool: &Pool) -> usize {
    let handle = pool.handle();
    allocations_of(pool, || {
        let spawns = move || {
            for number in 0..TASKS {
                handle.spawn(move || drop_number(black_box(number))).unwrap();
            }
        };
        pool.spawn(spawns).unwrap();
    })
}

/// Fills the pool with every kind of task and lets it run empty; then as many bytes are held as before.
fn a_burst_leaves_nothing(pool: &Pool) {
    let burst = || {
        let held = Arc::new([0_u8; 1000]);
        let tickets: Vec<_> = (0..500)
            .map(|_| {
                let held = Arc::clone(&held);
                pool.submit(move || held.len()).unwrap()
            })
            .collect();
        tickets.iter().step_by(2).for_each(|ticket| drop_answer(ticket.cancel()));
        let futures: Vec<_> = (0..500).map(|_| pool.spawn_async(yield_now()).unwrap()).collect();
        futures.into_iter().for_each(|future| future.wait().unwrap());
        drop(tickets);
        wait_without_allocating(pool);
        until_at_rest(pool);
        BYTES.load(Relaxed)
    };
    // Lists that have grown stay so, and may grow once more; but a thousand tasks would be far more than that.
    let (_, after_first, after_second) = (burst(), burst(), burst());
    let grown = after_second - after_first;
    assert!(grown < 10_000, "{grown} bytes more are held after another burst of a thousand tasks");
}

/// Cancels what waits and submits anew, in a full queue whose worker is busy: each takes the place of the one before.
fn a_place_that_is_given_on_costs_nothing(pool: &Pool) {
    let (go_on, told) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let busy = pool.submit(move || {
        begun.send(()).unwrap();
        let _ = told.recv();
    });
    begins.recv().unwrap();
    let mut waiting = Vec::new();
    while let Ok(ticket) = pool.try_submit(|| ()) {
        waiting.push(ticket);
    }
    let last = waiting.len() - 1;
    let mut give_on = |times: usize| {
        for _ in 0..times {
            drop_answer(waiting[last].cancel());
            waiting[last] = pool.try_submit(|| ()).unwrap();
        }
        BYTES.load(Relaxed)
    };
    let (after_some, after_many) = (give_on(100), give_on(10_000));
    assert!(
        after_many < after_some + 100_000,
        "{after_some} bytes after a hundred, {after_many} after ten thousand"
    );
    drop(go_on);
    busy.unwrap().wait().unwrap();
    waiting.pop().unwrap().wait().unwrap();
    until_at_rest(pool);
}

/// Memory that is kept from ended tasks is counted, and goes back to the allocator as far as there is too much of it.
fn what_is_kept_is_told_and_bounded(pool: &Pool) {
    paused(pool, || spawn_all::<7>(pool));
    let kept = pool.metrics().kept_bytes;
    assert!(kept > 0 && kept == millpond::kept_bytes(), "{kept} bytes are kept");
    assert!(kept <= millpond::kept_bytes_max());
    let before = BYTES.load(Relaxed);
    assert_eq!(millpond::set_kept_bytes_max(0), 0);
    assert_eq!(millpond::kept_bytes(), 0);
    let given_back = (before - BYTES.load(Relaxed)) as usize;
    assert!(given_back >= kept, "{given_back} of {kept} bytes were given back");
    paused(pool, || spawn_all::<7>(pool));
    assert_eq!(millpond::kept_bytes(), 0, "nothing is kept for other threads any more");
    assert_eq!(millpond::set_kept_bytes_max(usize::MAX), 2 << 20, "there is a most");
    paused(pool, || spawn_all::<7>(pool));
    assert!(millpond::kept_bytes() > 0, "it is kept again");
}

fn drop_answer(_: millpond::CancelAnswer) {}
