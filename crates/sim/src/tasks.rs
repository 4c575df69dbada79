//! Where tasks wait: any number of queues over one slab, each in the order in which its tasks came.
//!
//! A queue is a chain of places in the slab, so moving a task from one queue to another, as a thief does, copies no
//! memory, and ten thousand empty queues cost next to nothing.

/// A task that has arrived and not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) arrived_ns: u64,
    /// How long it runs on a worker of speed 1.
    pub(crate) service_ns: u64,
}

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Place {
    task: Task,
    /// The next task in the queue; for a free place, the next free one.
    next: u32,
}

/// The memory of all queues.
#[derive(Debug)]
pub(crate) struct Slab {
    places: Vec<Place>,
    free: u32,
}

/// One queue. It must be used with the slab it was filled from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Queue {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The oldest task.
    pub(crate) fn oldest(&self, slab: &Slab) -> Option<Task> {
        (self.len > 0).then(|| slab.places[self.first as usize].task)
    }
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: NONE }
    }

    pub(crate) fn push(&mut self, queue: &mut Queue, task: Task) {
        let place = Place { task, next: NONE };
        let at = match self.free {
            NONE => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
            free => {
                self.free = self.places[free as usize].next;
                self.places[free as usize] = place;
                free
            }
        };
        match queue.last {
            NONE => queue.first = at,
            last => self.places[last as usize].next = at,
        }
        queue.last = at;
        queue.len += 1;
    }

    pub(crate) fn pop(&mut self, queue: &mut Queue) -> Option<Task> {
        if queue.len == 0 {
            return None;
        }
        let at = queue.first;
        let Place { task, next } = self.places[at as usize];
        self.places[at as usize].next = self.free;
        self.free = at;
        queue.first = next;
        if next == NONE {
            queue.last = NONE;
        }
        queue.len -= 1;
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u64) -> Task {
        Task { arrived_ns: number, service_ns: 1 }
    }

    #[test]
    fn queues_over_one_slab_keep_their_order_and_reuse_places() {
        let (mut slab, mut one, mut two) = (Slab::new(), Queue::default(), Queue::default());
        for round in 0..3 {
            for number in 0..10 {
                slab.push(if number % 2 == 0 { &mut one } else { &mut two }, task(round * 10 + number));
            }
            assert_eq!((one.len(), two.len()), (5, 5));
            assert_eq!(one.oldest(&slab), Some(task(round * 10)));
            for number in 0..5 {
                assert_eq!(slab.pop(&mut two), Some(task(round * 10 + 2 * number + 1)));
                assert_eq!(slab.pop(&mut one), Some(task(round * 10 + 2 * number)));
            }
            assert_eq!((slab.pop(&mut one), one.oldest(&slab)), (None, None));
        }
        assert_eq!(slab.places.len(), 10, "later rounds need no more memory than the first");
    }
}
