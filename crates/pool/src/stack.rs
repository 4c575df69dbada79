//! How much of its stack a worker has used, and what it may still begin there.
//!
//! A worker that waits inside a task and that nobody can stand in for runs others meanwhile, each on top of the last.
//! How many fit is not told by their number: a frame is ten times as large in a debug build, and stacks have any size.
//! So the stack itself is measured, and what the tasks on top of the first have used of it. The less a task can be
//! done without, the deeper it may begin.
//!
//! Not here: which tasks there are to run (`worker/park.rs`).

use std::cell::Cell;
use std::ptr;
use std::sync::LazyLock;

/// What std gives a thread that asks for nothing.
static BYTES: LazyLock<usize> = LazyLock::new(|| {
    std::env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(2 << 20)
});

/// So many tasks may be on top of each other on a stack that is not the thread's own, as some libraries make them: how
/// large that is cannot be told.
const DEPTH_UNMEASURED_MAX: u32 = 64;

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
    /// The address at which the worker's work began.
    top: Cell<usize>,
    /// How many tasks are on top of others, and the address at which the first of those began.
    depth: Cell<u32>,
    nested: Cell<usize>,
}

impl Stack {
    pub(crate) fn of(bytes: Option<usize>) -> Self {
        Self { bytes: bytes_of(bytes), top: Cell::new(0), depth: Cell::new(0), nested: Cell::new(0) }
    }

    /// To be called where the worker's work begins.
    pub(crate) fn begins_here(&self) {
        self.top.set(here());
    }

    /// How many tasks are on top of others.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.get()
    }

    /// Runs tasks on top of another.
    #[inline(always)]
    pub(crate) fn on_top<R>(&self, run: impl FnOnce() -> R) -> R {
        let depth = self.depth.get();
        if depth == 0 {
            self.nested.set(here());
        }
        self.depth.set(depth + 1);
        let ran = run();
        self.depth.set(depth);
        ran
    }

    /// Whether there is still room for that.
    pub(crate) fn has_room(&self, task: OnTop) -> bool {
        let Some(used) = self.top.get().checked_sub(here()).filter(|&used| used <= self.bytes) else {
            return self.depth.get() < DEPTH_UNMEASURED_MAX;
        };
        let (of_nested, to_be_left) = match task {
            OnTop::Any => (self.bytes / 4, self.bytes / 8),
            OnTop::Part => (self.bytes / 2, self.bytes / 8),
            OnTop::Awaited => (self.bytes, self.bytes / 16),
        };
        let nested = if self.depth.get() > 0 { self.nested.get().saturating_sub(here()) } else { 0 };
        nested < of_nested && self.bytes - used > to_be_left
    }
}

/// How large the stack of a thread is that asks for so much, or for nothing.
pub(crate) fn bytes_of(asked: Option<usize>) -> usize {
    asked.unwrap_or(*BYTES)
}

fn here() -> usize {
    let here = 0_u8;
    ptr::from_ref(&here).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::thread;

    const SIZE: usize = 1 << 20;

    #[inline(never)]
    fn deeper<R>(bytes: usize, top: usize, look: &mut dyn FnMut() -> R) -> R {
        let frame = black_box([0_u8; 256]);
        let seen = if top.abs_diff(here()) < bytes { deeper(bytes, top, look) } else { look() };
        black_box(&frame);
        seen
    }

    fn room(stack: &Stack) -> [bool; 3] {
        [OnTop::Any, OnTop::Part, OnTop::Awaited].map(|task| stack.has_room(task))
    }

    /// Looks, on a thread with a stack of its own, with so much used by the first task and by those on top of it.
    fn room_with(first: usize, on_top: usize) -> [bool; 3] {
        let looks = move || {
            let stack = Stack::of(Some(SIZE));
            stack.begins_here();
            deeper(first, here(), &mut || {
                if on_top == 0 {
                    return room(&stack);
                }
                stack.on_top(|| deeper(on_top, here(), &mut || room(&stack)))
            })
        };
        thread::Builder::new().stack_size(2 * SIZE).spawn(looks).unwrap().join().unwrap()
    }

    #[test]
    fn the_less_it_can_be_done_without_the_deeper_it_may_begin() {
        assert_eq!(room_with(0, 0), [true, true, true]);
        assert_eq!(room_with(0, SIZE / 4), [false, true, true]);
        assert_eq!(room_with(0, SIZE / 2), [false, false, true]);
        assert_eq!(room_with(0, SIZE - SIZE / 17), [false, false, false]);
    }

    #[test]
    fn what_the_first_task_uses_itself_leaves_room_for_others_until_little_is_left() {
        assert_eq!(room_with(SIZE / 4 * 3, 0), [true, true, true]);
        assert_eq!(room_with(SIZE - SIZE / 9, 0), [false, false, true]);
    }

    #[test]
    fn on_a_stack_that_is_not_the_workers_tasks_are_counted() {
        let stack = Stack::of(Some(SIZE));
        stack.begins_here();
        let elsewhere = |stack: &Stack| stack.top.replace(stack.top.get().wrapping_add(10 * SIZE));
        elsewhere(&stack);
        assert_eq!(room(&stack), [true, true, true]);
        stack.depth.set(DEPTH_UNMEASURED_MAX);
        assert_eq!(room(&stack), [false, false, false]);
    }
}
