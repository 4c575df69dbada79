//! Every interleaving of an owner and one or two thieves on a deque whose buffer holds two items.
//!
//! What must hold: an item goes to the owner or to one thief and never to both; it arrives whole; a cell is
//! not written while a thief copies from it; a buffer is not freed while a thief may follow it; nothing is
//! left behind.

use crate::model::{Parcel, explore};
use crate::steal::StealQueue;
use crate::steal_thief::{Steal, Stealer};
use crate::sync::thread;
use alloc::vec::Vec;

fn push(queue: &StealQueue<Parcel>, number: u32) {
    assert!(queue.push(Parcel::new(number)).is_ok());
}

fn rest(queue: &StealQueue<Parcel>) -> Vec<u32> {
    core::iter::from_fn(|| queue.pop()).map(Parcel::open).collect()
}

/// Steals until something comes or there is nothing.
fn steal_one(thief: &Stealer<Parcel>) -> Vec<u32> {
    loop {
        match thief.steal() {
            Steal::Success(parcel) => return [parcel.open()].into(),
            Steal::Empty => return Vec::new(),
            Steal::Retry => crate::sync::spin_loop(),
        }
    }
}

fn assert_each_once(mut seen: Vec<u32>, expected: &[u32]) {
    seen.sort_unstable();
    assert_eq!(seen, expected, "lost or doubled");
}

#[test]
fn the_last_item_goes_to_owner_or_thief_and_never_to_both() {
    explore(4, || {
        let queue = StealQueue::new();
        let thief = queue.stealer();
        let robber = thread::spawn(move || steal_one(&thief));
        push(&queue, 1);
        let mut seen: Vec<u32> = queue.pop().map(Parcel::open).into_iter().collect();
        push(&queue, 2);
        seen.extend(queue.pop().map(Parcel::open));
        seen.extend(robber.join().unwrap());
        assert_each_once(seen, &[1, 2]);
    });
}

#[test]
fn two_thieves_and_the_owner_share_two_items() {
    explore(3, || {
        let queue = StealQueue::new();
        push(&queue, 1);
        push(&queue, 2);
        let robbers =
            [queue.stealer(), queue.stealer()].map(|thief| thread::spawn(move || steal_one(&thief)));
        let mut seen: Vec<u32> = queue.pop().map(Parcel::open).into_iter().collect();
        for robber in robbers {
            seen.extend(robber.join().unwrap());
        }
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2]);
    });
}

#[test]
fn a_cell_is_written_again_only_when_its_thief_has_left() {
    explore(3, || {
        let queue = StealQueue::new();
        push(&queue, 1);
        push(&queue, 2);
        let thief = queue.stealer();
        let robber = thread::spawn(move || {
            let mut seen = steal_one(&thief);
            seen.extend(steal_one(&thief));
            seen
        });
        // The buffer holds two: the third item needs the first one's cell, or a new buffer.
        push(&queue, 3);
        let mut seen: Vec<u32> = queue.pop_oldest().map(Parcel::open).into_iter().collect();
        push(&queue, 4);
        seen.extend(robber.join().unwrap());
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2, 3, 4]);
    });
}

#[test]
fn a_buffer_outgrown_lives_until_its_thief_has_left() {
    explore(3, || {
        let queue = StealQueue::new();
        push(&queue, 1);
        push(&queue, 2);
        let thief = queue.stealer();
        let robber = thread::spawn(move || steal_one(&thief));
        // Grows to four, and shrinks back to two when the queue runs empty.
        push(&queue, 3);
        let mut seen = rest(&queue);
        push(&queue, 4);
        seen.extend(robber.join().unwrap());
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2, 3, 4]);
    });
}

#[test]
fn two_new_buffers_do_not_bring_the_old_word_back() {
    explore(3, || {
        let queue = StealQueue::new();
        push(&queue, 1);
        push(&queue, 2);
        let thief = queue.stealer();
        let robber = thread::spawn(move || steal_one(&thief));
        // Grows to four and then to eight, so that the generation is again the one the thief may have seen.
        for number in 3..=5 {
            push(&queue, number);
        }
        let mut seen = robber.join().unwrap();
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2, 3, 4, 5]);
    });
}

#[test]
fn half_is_taken_with_one_claim_from_an_owner_who_pops() {
    explore(3, || {
        let queue = StealQueue::new();
        for number in 1..=3 {
            push(&queue, number);
        }
        let thief = queue.stealer();
        let robber = thread::spawn(move || {
            let own = StealQueue::new();
            let mut seen = Vec::new();
            match thief.steal_batch_and_pop(&own) {
                Steal::Success(parcel) => seen.push(parcel.open()),
                Steal::Empty | Steal::Retry => {}
            }
            while let Steal::Success(_) = thief.steal_half(&own) {}
            seen.extend(rest(&own));
            seen
        });
        let mut seen: Vec<u32> = queue.pop().map(Parcel::open).into_iter().collect();
        seen.extend(queue.pop().map(Parcel::open));
        seen.extend(robber.join().unwrap());
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2, 3]);
    });
}

#[test]
fn a_thief_sees_the_pushes_behind_every_claim() {
    explore(2, || {
        let queue = StealQueue::new();
        let robbers = [queue.stealer(), queue.stealer()].map(|thief| {
            thread::spawn(move || {
                let mut seen = steal_one(&thief);
                seen.extend(steal_one(&thief));
                seen
            })
        });
        push(&queue, 1);
        push(&queue, 2);
        let mut seen: Vec<u32> = queue.pop().map(Parcel::open).into_iter().collect();
        seen.extend(queue.pop().map(Parcel::open));
        for robber in robbers {
            seen.extend(robber.join().unwrap());
        }
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2]);
    });
}

#[test]
fn empty_is_never_said_while_an_item_waits() {
    explore(2, || {
        let queue = StealQueue::new();
        push(&queue, 1);
        push(&queue, 2);
        let robbers = [queue.stealer(), queue.stealer()].map(|thief| {
            thread::spawn(move || match thief.steal() {
                Steal::Success(parcel) => Some(parcel.open()),
                Steal::Retry => None,
                Steal::Empty => {
                    panic!("two items were there for two thieves, and one was told there was none")
                }
            })
        });
        // Needs a new buffer, unless the first item's thief has left.
        push(&queue, 3);
        let mut seen: Vec<u32> = robbers.into_iter().filter_map(|robber| robber.join().unwrap()).collect();
        seen.extend(rest(&queue));
        assert_each_once(seen, &[1, 2, 3]);
    });
}
