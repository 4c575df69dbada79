//! Models of a worker that leaves, or stands still, while a task is sent to it: somebody else is told of the task.
//!
//! The inbox is a counter. What becomes of a task that is told of is the affair of `sleep_model.rs`.

use crate::model::explore;
use crate::presence::Presence;
use crate::sleep::Sleep;
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

#[test]
fn what_is_sent_to_a_worker_that_begins_to_stand_still_is_taken_by_another() {
    struct Seats {
        sleep: Sleep,
        /// Of the worker that stands still, in seat 0.
        presence: Presence,
        inbox: AtomicU32,
    }
    impl Seats {
        fn may_take(&self) -> bool {
            self.presence.is_open() && self.inbox.load(Relaxed) > 0
        }
    }
    explore(3, || {
        let seats =
            Arc::new(Seats { sleep: Sleep::new(2), presence: Presence::new(), inbox: AtomicU32::new(0) });
        let (sender_sees, other_sees) = (Arc::clone(&seats), Arc::clone(&seats));
        let sender = thread::spawn(move || {
            sender_sees.inbox.fetch_add(1, Relaxed);
            sender_sees.sleep.work_came_for(0);
        });
        // As `worker/park.rs` does it: it takes nothing from a worker that may come back to it soon.
        let other = thread::spawn(move || {
            let mut searches = false;
            while !other_sees.may_take() {
                other_sees.sleep.park(1, searches, || other_sees.may_take(), || None);
                searches = true;
            }
            other_sees.inbox.fetch_sub(1, Relaxed);
        });
        seats.presence.set_standing(true);
        if seats.inbox.load(Relaxed) > 0 {
            seats.sleep.work_came();
        }
        sender.join().unwrap();
        other.join().unwrap();
        assert_eq!(seats.inbox.load(Relaxed), 0);
    });
}
