//! How much of its stack a worker has used, and what it may still begin there.
//!
//! A worker that waits inside a task and that nobody can stand in for runs others meanwhile, each on top of the last.
//! How many fit is not told by their number: a frame is ten times as large in a debug build, and stacks have any size.
//! So the stack itself is measured. The less a task can be done without, the deeper it may begin.
//!
//! Not here: which tasks there are to run (`worker/park.rs`).

use std::cell::Cell;
use std::ptr;

/// What std gives a thread that asks for nothing.
const BYTES: usize = 2 << 20;

/// What is to begin on top of a task that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTop {
    /// Any task: there may be room elsewhere for it, or later.
    Any,
    /// A part of something that has begun, which others may wait for.
    Part,
    /// What the task below waits for itself.
    Awaited,
}

/// The stack of one worker's thread.
#[derive(Debug)]
pub(crate) struct Stack {
    bytes: usize,
    /// The address at which the worker's work began; 0 before.
    top: Cell<usize>,
}

impl Stack {
    pub(crate) fn of(bytes: Option<usize>) -> Self {
        Self { bytes: bytes_of(bytes), top: Cell::new(0) }
    }

    /// To be called where the worker's work begins.
    pub(crate) fn begins_here(&self) {
        self.top.set(here());
    }

    /// Whether there is still room for that.
    pub(crate) fn has_room(&self, task: OnTop) -> bool {
        let part = match task {
            OnTop::Any => self.bytes / 4,
            OnTop::Part => self.bytes / 2,
            OnTop::Awaited => self.bytes / 4 * 3,
        };
        self.top.get().abs_diff(here()) < part
    }
}

/// How large the stack of a thread is that asks for so much, or for nothing.
pub(crate) fn bytes_of(asked: Option<usize>) -> usize {
    let by_environment = || std::env::var("RUST_MIN_STACK").ok()?.parse().ok();
    asked.or_else(by_environment).unwrap_or(BYTES)
}

fn here() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn on_top_of(top: usize, bytes: usize, look: &mut dyn FnMut()) {
        let frame = black_box([0_u8; 256]);
        if top.abs_diff(here()) < bytes {
            on_top_of(top, bytes, look)
        } else {
            look()
        }
        black_box(&frame);
    }

    #[test]
    fn the_less_it_can_be_done_without_the_deeper_it_may_begin() {
        let stack = Stack::of(Some(1 << 20));
        stack.begins_here();
        let kinds = [OnTop::Any, OnTop::Part, OnTop::Awaited];
        let room_at = |bytes| {
            let mut room = [false; 3];
            on_top_of(here(), bytes, &mut || room = kinds.map(|kind| stack.has_room(kind)));
            room
        };
        assert_eq!(room_at(0), [true, true, true]);
        assert_eq!(room_at(257 << 10), [false, true, true]);
        assert_eq!(room_at(513 << 10), [false, false, true]);
        assert_eq!(room_at(769 << 10), [false, false, false]);
    }
}
