//! What the queues cost in memory: little to hold a thousand tasks, nothing per operation, and a burst leaves nothing.
//!
//! Every allocation of this process goes through an allocator that counts, per thread. So each test sees its own
//! alone, whatever the others and the test runner do at the same time. The levels are printed, whether the test is
//! silenced or not, since they are meant to be quoted.
//!
//! Not here: what the queues do with the memory (`tests/it`).

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_queue::{Gate, GlobalQueue, LaneTurn, Ring, Steal, StealQueue};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::Write;
use std::thread;

/// The system's allocator, with a count of what each thread does.
struct Counting;

thread_local! {
    /// How often this thread has allocated. Needs neither memory nor a destructor, so an allocator may use it.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes this thread has allocated, less those it has freed.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(allocations: usize, bytes: isize) {
    ALLOCATIONS.with(|count| count.set(count.get() + allocations));
    BYTES.with(|level| level.set(level.get() + bytes));
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

fn allocations() -> usize {
    ALLOCATIONS.with(Cell::get)
}

fn bytes() -> isize {
    BYTES.with(Cell::get)
}

/// Says so even when the test runner keeps the output of a test that passes to itself.
fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "memory: {line}");
}

const TASKS: usize = 1_000;
const BYTES_MAX: isize = 500_000;

/// Makes and fills a queue, and checks what it costs.
fn assert_small<Q>(name: &str, filled: impl FnOnce() -> Q) {
    let before = bytes();
    let queue = filled();
    // What is on the heap, and the handle itself.
    let cost = bytes() - before + size_of::<Q>() as isize;
    report(&format!("{name}: {cost} bytes"));
    assert!(cost < BYTES_MAX, "{name}: {cost} bytes, expected less than {BYTES_MAX}");
    drop(queue);
    assert_eq!(bytes(), before, "{name}: dropping it gives everything back");
}

/// All four queues with a thousand tasks of one kind in each.
fn assert_all_small<T: Copy>(kind: &str, task: T) {
    assert_small(&format!("Ring of 1000 tasks of {kind}"), || {
        let ring = Ring::with_capacity(TASKS).unwrap();
        (0..TASKS).for_each(|_| assert!(ring.push(task).is_ok()));
        ring
    });
    assert_small(&format!("Gate of 1000 tasks of {kind}"), || {
        let gate = Gate::with_capacity(TASKS).unwrap();
        (0..TASKS).for_each(|_| assert!(gate.try_enqueue(task).is_ok()));
        gate
    });
    assert_small(&format!("StealQueue with 1000 tasks of {kind}"), || {
        let queue = StealQueue::new();
        (0..TASKS).for_each(|_| assert!(queue.push(task).is_ok()));
        queue
    });
    assert_small(&format!("GlobalQueue of 1000 tasks of {kind}"), || {
        let queue = GlobalQueue::with_capacity(TASKS).unwrap();
        (0..TASKS).for_each(|_| assert!(queue.push(0, task).is_ok()));
        queue
    });
}

#[test]
fn a_thousand_tasks_fit_into_half_a_megabyte() {
    assert_all_small("8 bytes", 7_u64);
    assert_all_small("64 bytes", [7_u64; 8]);
}

#[test]
fn a_ring_allocates_nothing_after_its_start() {
    let ring = Ring::with_capacity(64).unwrap();
    let (mut waiting, mut taken) = (VecDeque::with_capacity(64), Vec::with_capacity(64));
    let before = allocations();
    for item in 0..1_000_u64 {
        assert_eq!(ring.push(item), Ok(()));
        assert_eq!(ring.pop(), Some(item));
    }
    for _ in 0..20 {
        waiting.extend(0..50);
        assert_eq!(ring.push_batch(&mut waiting), 50);
        assert_eq!(ring.pop_batch(&mut taken, 50), 50);
        taken.clear();
    }
    while ring.push(0).is_ok() {}
    assert_eq!(ring.push(9), Err(9));
    assert_eq!(allocations() - before, 0);
}

#[test]
fn a_gate_allocates_nothing_after_its_start() {
    let gate = Gate::with_capacity(4).unwrap();
    let passed = 10_000_u64;
    let pass = |act: &dyn Fn(u64)| {
        // The first call of a thread may set up the thread itself.
        act(0);
        let before = allocations();
        (1..passed).for_each(act);
        allocations() - before
    };
    let (putting, taking) = thread::scope(|scope| {
        let producer = scope.spawn(|| pass(&|item| assert_eq!(gate.enqueue(item), Ok(()))));
        let consumer = scope.spawn(|| pass(&|item| assert_eq!(gate.dequeue(), Some(item))));
        (producer.join().unwrap(), consumer.join().unwrap())
    });
    assert_eq!((putting, taking), (0, 0), "enqueue and dequeue, waiting included");
    let before = allocations();
    while gate.try_enqueue(1).is_ok() {}
    assert!(gate.enqueue_timeout(2, std::time::Duration::from_micros(1)).is_err());
    while gate.try_dequeue().is_ok() {}
    assert!(gate.dequeue_timeout(std::time::Duration::from_micros(1)).is_err());
    assert_eq!(allocations() - before, 0, "refusals and time-outs");
}

#[test]
fn a_steal_queue_at_a_steady_level_allocates_nothing() {
    let queue = StealQueue::new();
    let thief = queue.stealer();
    (0..32_u64).for_each(|item| assert_eq!(queue.push(item), Ok(())));
    let before = allocations();
    for item in 0..10_000 {
        assert_eq!(queue.push(item), Ok(()));
        match item % 3 {
            0 => assert!(queue.pop().is_some()),
            1 => assert!(queue.pop_oldest().is_some()),
            _ => assert!(thief.steal().success().is_some()),
        }
    }
    assert_eq!(allocations() - before, 0);
}

#[test]
fn a_global_queue_allocates_nothing_after_its_start() {
    let (queue, own) = (GlobalQueue::with_capacity(64).unwrap(), StealQueue::new());
    let mut turn = LaneTurn::default();
    let before = allocations();
    for item in 0..1_000_u64 {
        assert_eq!(queue.push(0, item), Ok(()));
        assert_eq!(queue.push(0, item), Ok(()));
        assert_eq!(queue.pop_batch(&mut turn, &own, 2), Some(item));
        assert_eq!(own.pop(), Some(item));
    }
    assert_eq!(allocations() - before, 0);
}

const BURST: u64 = 10_000_000;
/// A queue that has been larger keeps room for so many bytes.
const KEPT: isize = 1024 * 8;

/// A queue in its steady state: a few hundred items come and go.
fn steady(queue: &StealQueue<u64>) {
    for item in 0..200 {
        assert_eq!(queue.push(item), Ok(()));
    }
    while queue.pop().is_some() {}
}

fn assert_burst_passes(name: &str, take_all: impl FnOnce(&StealQueue<u64>)) {
    let before = bytes();
    let queue = StealQueue::new();
    steady(&queue);
    let level = bytes() - before;
    for item in 0..BURST {
        assert_eq!(queue.push(item), Ok(()));
    }
    let peak = bytes() - before;
    take_all(&queue);
    let after = bytes() - before;
    report(&format!("{BURST} items, {name}: {level} bytes before, {peak} at the peak, {after} after"));
    assert!(peak >= 8 * BURST as isize, "the burst was really there");
    assert!(after <= level + KEPT, "{name}: {after} bytes after the burst, {level} before it");
    steady(&queue);
    assert!(bytes() - before <= level + KEPT, "{name}: and it stays so");
    queue.shrink_to_fit();
    assert!(bytes() - before <= level, "{name}: and all of it is given back when the owner rests");
}

#[test]
fn a_burst_popped_by_the_owner_leaves_no_memory_behind() {
    assert_burst_passes("popped by the owner", |queue| {
        for item in (0..BURST).rev() {
            assert_eq!(queue.pop(), Some(item));
        }
        assert_eq!(queue.pop(), None);
    });
}

#[test]
fn a_burst_taken_by_a_thief_leaves_no_memory_behind_once_the_owner_looks() {
    assert_burst_passes("stolen by a thief", |queue| {
        let thief = queue.stealer();
        for item in 0..BURST {
            assert_eq!(thief.steal(), Steal::Success(item));
        }
        assert_eq!(queue.pop(), None);
    });
}
