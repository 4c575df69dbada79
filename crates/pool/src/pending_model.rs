//! Models of the end of a scope: its thread sleeps until the last task is over, and then sees what all of them did.
//!
//! The frame is watched cells, as that of a scope is not: a scope that goes on too early is reported as a race.

use crate::model::explore;
use crate::pending::{Bed, Pending};
use crate::sync::{Arc, UnsafeCell, thread};

/// The numbers of the threads.
const BODY: u64 = 1;
const OTHER: u64 = 2;

struct Frame {
    pending: Pending,
    bed: Bed,
    done: [UnsafeCell<bool>; 2],
}

// SAFETY: each cell is its task's until that is over, and then the scope's; the checkers see whether that is so.
unsafe impl Sync for Frame {}

impl Frame {
    fn new() -> Arc<Self> {
        let done = [UnsafeCell::new(false), UnsafeCell::new(false)];
        Arc::new(Self { pending: Pending::new(BODY), bed: Bed::new(), done })
    }

    /// As the thread of a scope waits.
    fn wait(&self) {
        while !self.pending.settle() {
            let lay_down = self.bed.lie_down();
            if !self.pending.is_over() {
                self.bed.wait(lay_down, None);
            }
        }
    }

    /// As the task of this number runs on the thread of that one.
    fn run(&self, number: usize, thread: u64) {
        // SAFETY: the cell of this number is this task's until it is over.
        self.done[number].with_mut(|done| unsafe { *done = true });
        // SAFETY: the frame is counted, and the model reports it if it was used too long.
        if unsafe { Pending::one_is_over(&raw const self.pending, thread) } {
            self.bed.call();
        }
    }

    fn all_done(&self) -> bool {
        // SAFETY: the scope is over, so that no task touches its cell any more.
        self.done.iter().all(|done| done.with(|done| unsafe { *done }))
    }
}

/// Runs the task of this number on a thread of its own, as `scope.rs` does, and another from inside of it, if any.
fn spawn(frame: &Arc<Frame>, number: usize, another: Option<usize>) -> thread::JoinHandle<()> {
    let frame = Arc::clone(frame);
    thread::spawn(move || {
        let another = another.map(|another| {
            frame.pending.one_more(OTHER);
            spawn(&frame, another, None)
        });
        frame.run(number, OTHER);
        another.into_iter().for_each(|another| another.join().unwrap());
    })
}

#[test]
fn a_scope_ends_after_its_tasks_and_sees_what_they_did() {
    explore(3, || {
        let frame = Frame::new();
        let tasks: Vec<_> = (0..2)
            .map(|number| {
                frame.pending.one_more(BODY);
                spawn(&frame, number, None)
            })
            .collect();
        frame.wait();
        assert!(frame.all_done());
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn what_a_task_spawns_is_waited_for_too() {
    explore(2, || {
        let frame = Frame::new();
        frame.pending.one_more(BODY);
        let task = spawn(&frame, 0, Some(1));
        frame.wait();
        assert!(frame.all_done());
        task.join().unwrap();
    });
}

#[test]
fn a_scope_whose_thread_runs_tasks_itself_ends_with_the_others() {
    // The thread looks whether all are over before it finds one to run, and after, or after only.
    for looks_before in [false, true] {
        explore(3, move || {
            let frame = Frame::new();
            frame.pending.one_more(BODY);
            let task = spawn(&frame, 0, None);
            frame.pending.one_more(BODY);
            assert!(!looks_before || !frame.pending.settle(), "a task that nobody has begun is over");
            frame.run(1, BODY);
            frame.wait();
            assert!(frame.all_done());
            task.join().unwrap();
        });
    }
}

#[test]
fn what_the_thread_of_a_scope_spawns_late_is_waited_for_too() {
    explore(3, || {
        let frame = Frame::new();
        frame.pending.one_more(BODY);
        frame.pending.one_more(BODY);
        assert!(!frame.pending.settle(), "tasks that nobody has begun are over");
        // One of them spawns the other anew before it is over, on the thread of the scope.
        frame.pending.one_more(BODY);
        let task = spawn(&frame, 0, None);
        frame.run(1, BODY);
        // SAFETY: the frame is counted; the task does nothing.
        assert!(
            !unsafe { Pending::one_is_over(&raw const frame.pending, BODY) },
            "who runs it need not be called"
        );
        frame.wait();
        assert!(frame.all_done());
        task.join().unwrap();
    });
}
