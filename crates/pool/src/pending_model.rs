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
        while !self.pending.is_over() {
            let lay_down = self.bed.lie_down();
            if !self.pending.is_over() {
                self.bed.wait(lay_down, None);
            }
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
        // SAFETY: the cell of this number is this task's until it is over.
        frame.done[number].with_mut(|done| unsafe { *done = true });
        // SAFETY: the frame is counted, and the model reports it if it was used too long.
        if unsafe { Pending::one_is_over(&raw const frame.pending) } {
            frame.bed.call();
        }
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
        frame.pending.body_is_over();
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
        frame.pending.body_is_over();
        frame.wait();
        assert!(frame.all_done());
        task.join().unwrap();
    });
}
