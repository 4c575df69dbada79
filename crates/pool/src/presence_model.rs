//! Models of a worker that leaves while tasks are sent to it: the worker passes each on, or its sender wakes somebody.
//!
//! The inbox is a counter. What becomes of a task that is told of is the affair of `sleep_model.rs`.

use crate::model::explore;
use crate::presence::Presence;
use crate::sync::{Arc, AtomicU32, Ordering::Relaxed, thread};

#[test]
fn what_is_sent_to_a_worker_that_leaves_is_passed_on_or_told_of() {
    explore(3, || {
        let presence = Arc::new(Presence::new());
        let inbox = Arc::new(AtomicU32::new(0));
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let (presence, inbox) = (Arc::clone(&presence), Arc::clone(&inbox));
                thread::spawn(move || {
                    inbox.fetch_add(1, Relaxed);
                    presence.has_left()
                })
            })
            .collect();
        presence.leave();
        let passed_on = inbox.swap(0, Relaxed);
        let told_of =
            senders.into_iter().filter_map(|sender| sender.join().ok()).filter(|told| *told).count();
        let left = inbox.load(Relaxed);
        assert_eq!(passed_on + left, 2);
        assert!(left as usize <= told_of, "{left} wait in the empty seat, and {told_of} were told of");
    });
}
