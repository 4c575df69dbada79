//! The tasks under way: what was sent and not yet answered, and what is to be sent again.
//!
//! While something is to be sent again nothing new goes out: the queue is as full for the one as for the
//! other, and tasks should not overtake each other more than they must.

use crate::answer::Id;
use crate::report::Left;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

/// When to come again if the daemon did not say.
const AGAIN_AFTER_MS: u64 = 50;
/// And at the latest.
const AGAIN_AFTER_MS_MAX: u64 = 10_000;

/// A task that was sent.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) line: u64,
    pub(super) text: Vec<u8>,
    /// Once the daemon has said it.
    pub(super) id: Option<Id>,
}

#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    /// By tag, which grows.
    pending: BTreeMap<u64, Pending>,
    /// What waits to be sent again, the earliest on top.
    again: BinaryHeap<Reverse<(Instant, u64)>>,
    tag_last: u64,
}

impl Window {
    pub(super) fn new(size: usize) -> Self {
        Self { size, pending: BTreeMap::new(), again: BinaryHeap::new(), tag_last: 0 }
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether something new may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.again.is_empty() && self.pending.len() < self.size
    }

    /// Takes in a task that is about to be sent, and names it.
    pub(super) fn add(&mut self, line: u64, text: Vec<u8>) -> u64 {
        self.tag_last += 1;
        self.pending.insert(self.tag_last, Pending { line, text, id: None });
        self.tag_last
    }

    pub(super) fn get(&mut self, tag: u64) -> Option<&mut Pending> {
        self.pending.get_mut(&tag)
    }

    /// The request of a task.
    pub(super) fn text(&self, tag: u64) -> &[u8] {
        self.pending.get(&tag).map_or(&[], |pending| &pending.text)
    }

    /// A task was answered for good.
    pub(super) fn remove(&mut self, tag: u64) -> Option<Pending> {
        self.pending.remove(&tag)
    }

    /// A task was refused and is to be sent again.
    pub(super) fn send_again(&mut self, tag: u64, after_ms: Option<u64>, now: Instant) {
        let after = after_ms.unwrap_or(AGAIN_AFTER_MS).min(AGAIN_AFTER_MS_MAX);
        self.again.push(Reverse((now + Duration::from_millis(after), tag)));
    }

    /// When the first of those is to go.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again.peek().map(|Reverse((at, _))| *at)
    }

    /// The next whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let Reverse((_, tag)) = *self.again.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.again.pop();
        Some(tag)
    }

    /// What is left of it all.
    pub(super) fn left(&self) -> Left<'_> {
        let ids = self.pending.values().filter_map(|pending| pending.id.as_ref()).collect();
        Left { ids, under_way: self.pending.len() - self.again.len(), refused: self.again.len(), nats: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_goes_before_what_is_new() {
        let mut window = Window::new(2);
        let one = window.add(1, b"one".to_vec());
        assert!(window.has_room());
        let two = window.add(2, b"two".to_vec());
        assert!(!window.has_room(), "as many as may be under way");
        let now = Instant::now();
        window.send_again(one, Some(20), now);
        window.send_again(two, Some(10), now);
        assert_eq!(window.again_at(), Some(now + Duration::from_millis(10)));
        assert_eq!(window.take_due(now), None);
        assert_eq!(window.take_due(now + Duration::from_millis(15)), Some(two));
        window.remove(two);
        assert!(!window.has_room(), "one is still to be sent again");
        assert_eq!((window.left().under_way, window.left().refused), (0, 1));
        assert_eq!(window.take_due(now + Duration::from_millis(25)), Some(one));
        assert_eq!(window.text(one), b"one");
        assert!(window.has_room() && !window.is_empty());
        window.remove(one);
        assert!(window.is_empty());
    }

    #[test]
    fn no_daemon_can_make_us_wait_for_ever() {
        let mut window = Window::new(1);
        let tag = window.add(1, Vec::new());
        let now = Instant::now();
        window.send_again(tag, Some(u64::MAX), now);
        assert_eq!(window.again_at(), Some(now + Duration::from_secs(10)));
    }
}
