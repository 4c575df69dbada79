//! What a pool says when there is no memory for a queue: which one, and what to lower.
//!
//! Queues are the only things here whose size the user chooses, so they are what may be too large; the rest is small,
//! and without memory for that a process ends. A test says how large a block its thread may have.
//!
//! Not here: what is allocated when (`memory.rs`).

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond::{Pool, PoolConfig, Priority, Refused, StartError, SubmitError, TaskOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::time::Duration;

thread_local! {
    /// The largest block that the thread may have.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The system's allocator, which has no large blocks for threads that may not have them.
struct Refusing;

// SAFETY: what is not refused is handed to the system's allocator with its arguments unchanged. The thread-local is
// a plain word, so to look at it neither allocates nor panics.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST.get() {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promises about the layout are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` above, hence from `System`, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

const LARGE: usize = 20_000;

/// Runs `work` on this thread while there are no blocks of a megabyte. It only does and checks nothing: a failure
/// is told by code that may need more than that.
fn without_memory<R>(work: impl FnOnce() -> R) -> R {
    LARGEST.set((1 << 20) - 1);
    let result = work();
    LARGEST.set(usize::MAX);
    result
}

fn plain() -> PoolConfig {
    PoolConfig { workers: 1, ..PoolConfig::default() }
}

#[test]
fn a_lane_without_memory_refuses_at_once_and_says_so_whatever_the_verb() {
    let pool = Pool::start(PoolConfig { queue_capacity: LARGE, ..plain() }).unwrap();
    for priority in [Priority::High, Priority::Low] {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        let with = pool.with(&options);
        let told = without_memory(|| {
            [
                with.submit(|| 7).err().map(|refused| (refused.to_string(), refused.reason())),
                with.try_submit(|| 7).err().map(|refused| (refused.to_string(), refused.reason())),
                with.submit_timeout(|| 7, Duration::MAX)
                    .err()
                    .map(|refused| (refused.to_string(), refused.reason())),
                with.spawn(|| ()).err().map(|refused| (refused.to_string(), refused.reason())),
                with.spawn_async(async {}).err().map(|refused| (refused.to_string(), refused.reason())),
            ]
        });
        let words =
            "no memory for the lane of this priority; lower queue_capacity or submit with normal priority";
        assert!(told.iter().all(|told| *told == Some((words.to_owned(), Refused::OutOfMemory))), "{told:?}");
        let back = without_memory(|| with.submit(|| 7)).unwrap_err();
        assert!(matches!(&back, SubmitError::OutOfMemory(_)), "{back:?}");
        assert_eq!(back.into_inner()(), 7);
        let normal = without_memory(|| pool.submit(|| 1));
        assert_eq!(normal.unwrap().wait().unwrap(), 1, "the normal lane is there");
        assert_eq!(with.submit(|| 2).unwrap().wait().unwrap(), 2, "there is memory again");
    }
    let metrics = pool.metrics();
    assert_eq!((metrics.pressure.refused, metrics.pressure.timed_out), (0, 0), "it was not full");
}

#[test]
fn a_pool_without_memory_for_a_queue_does_not_start_and_names_the_setting() {
    let cases = [
        (PoolConfig { queue_capacity: LARGE, ..plain() }, "queue_capacity"),
        (PoolConfig { inbox_capacity: LARGE, ..plain() }, "inbox_capacity"),
    ];
    for (config, field) in cases {
        let error = without_memory(|| Pool::start(config)).unwrap_err();
        assert!(matches!(error, StartError::OutOfMemory(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("no memory for the queues: {field}: {LARGE} places; lower it"));
    }
}

#[test]
fn a_pool_without_memory_for_another_inbox_keeps_its_size_and_names_the_setting() {
    let pool = Pool::start(PoolConfig { inbox_capacity: LARGE, ..plain() }).unwrap();
    let error = without_memory(|| pool.resize(2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no memory for the queues: inbox_capacity: {LARGE} places; lower it")
    );
    assert_eq!(pool.metrics().workers_wanted, 1);
    pool.resize(2).unwrap();
}
