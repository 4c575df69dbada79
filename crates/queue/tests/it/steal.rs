//! `StealQueue` in one thread: the same answers as a plain deque and as `crossbeam-deque`, at every size.
//!
//! One thread is where exact answers can be asked for: which item, how many, and what is left. What several threads do
//! to each other is in `steal_concurrent.rs`.

use crate::dice::{Dice, seed};
use millpond_queue::{STEAL_CAPACITY_MAX, Steal, StealQueue};
use std::collections::VecDeque;

fn filled(items: impl IntoIterator<Item = usize>) -> StealQueue<usize> {
    let queue = StealQueue::new();
    for item in items {
        assert_eq!(queue.push(item), Ok(()));
    }
    queue
}

fn oldest_first(queue: &StealQueue<usize>) -> Vec<usize> {
    std::iter::from_fn(|| queue.pop_oldest()).collect()
}

#[test]
fn the_owner_takes_the_newest_and_a_thief_the_oldest() {
    let queue = filled(1..=4);
    let thief = queue.stealer();
    assert_eq!((queue.pop(), thief.steal(), queue.pop_oldest()), (Some(4), Steal::Success(1), Some(2)));
    assert_eq!((queue.len(), thief.len()), (1, 1));
    assert_eq!((thief.steal(), thief.steal()), (Steal::Success(3), Steal::Empty));
    assert_eq!((queue.pop(), queue.pop_oldest()), (None, None));
    assert!(queue.is_empty() && thief.is_empty());
}

/// Random operations on our queue, on a plain deque and on crossbeam's, which must all agree.
fn compare(seed: u64, rounds: usize) {
    let mut dice = Dice::new(seed, 0);
    let (ours, mut plain) = (StealQueue::new(), VecDeque::new());
    let (theirs, thief) = (crossbeam_deque::Worker::new_lifo(), ours.stealer());
    let their_thief = theirs.stealer();
    let mut next = 0;
    // Now it mostly grows, now it mostly shrinks, so that buffers of several sizes come and go.
    for round in 0..rounds {
        let pushes_of_ten = if round / 5_000 % 2 == 0 { 7 } else { 2 };
        match dice.below(10) {
            roll if roll < pushes_of_ten => {
                assert_eq!(ours.push(next), Ok(()));
                plain.push_back(next);
                theirs.push(next);
                next += 1;
            }
            roll if roll % 3 == 0 => {
                let expected = plain.pop_back();
                assert_eq!((ours.pop(), theirs.pop()), (expected, expected));
            }
            roll if roll % 3 == 1 => {
                let expected = plain.pop_front();
                assert_eq!((ours.pop_oldest(), their_thief.steal().success()), (expected, expected));
            }
            _ => {
                let expected = plain.pop_front();
                assert_eq!((thief.steal().success(), their_thief.steal().success()), (expected, expected));
            }
        }
        assert_eq!((ours.len(), thief.len(), theirs.len()), (plain.len(), plain.len(), plain.len()));
        assert!(ours.capacity() >= plain.len());
    }
}

#[test]
fn random_operations_give_what_a_plain_deque_and_crossbeam_give() {
    let seed = seed("steal compare");
    compare(seed, 60_000);
}

#[test]
fn half_means_the_older_half_rounded_up_and_at_most_256() {
    for count in [0, 1, 2, 3, 7, 64, 65, 511, 512, 513, 2_000] {
        let (victim, own) = (filled(0..count), filled([7_777]));
        let expected = count.div_ceil(2).min(256);
        let answer = victim.stealer().steal_half(&own);
        assert_eq!(answer, if count == 0 { Steal::Empty } else { Steal::Success(expected) }, "of {count}");
        assert_eq!(own.pop_oldest(), Some(7_777), "what was there stays in front");
        assert_eq!(oldest_first(&own), (0..expected).collect::<Vec<_>>(), "of {count}");
        assert_eq!(oldest_first(&victim), (expected..count).collect::<Vec<_>>(), "of {count}");
    }
}

#[test]
fn a_batch_with_one_to_run_is_the_same_half_with_its_oldest_handed_over() {
    for count in [0, 1, 2, 3, 7, 64, 65, 511, 512, 513, 2_000] {
        let (victim, own) = (filled(0..count), filled([]));
        let answer = victim.stealer().steal_batch_and_pop(&own);
        assert_eq!(answer, if count == 0 { Steal::Empty } else { Steal::Success(0) }, "of {count}");
        let moved = oldest_first(&own);
        let left = oldest_first(&victim);
        assert_eq!(usize::from(count > 0) + moved.len(), count.div_ceil(2).min(257), "of {count}");
        let all = (0..count.min(1)).chain(moved).chain(left);
        assert!(all.eq(0..count), "of {count}: in order and complete");
    }
}

#[test]
fn a_thief_of_its_own_queue_moves_nothing_and_takes_one() {
    let queue = filled(0..10);
    let thief = queue.stealer();
    assert_eq!(thief.steal_half(&queue), Steal::Empty);
    assert_eq!(queue.len(), 10);
    assert_eq!(thief.steal_batch_and_pop(&queue), Steal::Success(0));
    assert_eq!(oldest_first(&queue), (1..10).collect::<Vec<_>>());
}

#[test]
fn the_limit_is_rounded_up_to_a_power_of_two_between_its_bounds() {
    for (asked, given) in
        [(0, 64), (1, 64), (64, 64), (65, 128), (1000, 1024), (usize::MAX, STEAL_CAPACITY_MAX)]
    {
        assert_eq!(StealQueue::<u8>::with_limit(asked).limit(), given);
    }
    assert_eq!(StealQueue::<u8>::new().limit(), STEAL_CAPACITY_MAX);
}

#[test]
fn a_queue_at_its_limit_hands_the_item_back_until_one_is_taken() {
    let queue = StealQueue::with_limit(100);
    for item in 0..128 {
        assert_eq!(queue.push(item), Ok(()));
    }
    assert_eq!(queue.push(128), Err(128));
    assert_eq!((queue.len(), queue.capacity()), (128, 128));
    for item in 128..1_000 {
        let taken = match item % 3 {
            0 => queue.pop_oldest(),
            1 => queue.stealer().steal().success(),
            _ => queue.pop(),
        };
        assert!(taken.is_some());
        assert_eq!(queue.push(item), Ok(()), "there is room for one again");
        assert_eq!(queue.push(usize::MAX), Err(usize::MAX));
    }
}

#[test]
fn the_buffer_grows_with_the_load_and_shrinks_after_it() {
    let queue = filled([]);
    let smallest = queue.capacity();
    for lap in 0..3 {
        for item in 0..10_000 {
            assert_eq!(queue.push(item), Ok(()));
        }
        assert!(queue.capacity() >= 10_000, "{} in lap {lap}", queue.capacity());
        for item in (0..10_000).rev() {
            assert_eq!(queue.pop(), Some(item));
        }
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.capacity(), 1024, "in lap {lap}");
    }
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), smallest);
    for item in 0..10_000 {
        assert_eq!(queue.push(item), Ok(()));
    }
    let thief = queue.stealer();
    for item in 0..10_000 {
        assert_eq!(thief.steal(), Steal::Success(item));
    }
    assert_eq!(queue.pop_oldest(), None);
    assert_eq!(queue.capacity(), 1024, "the owner's next look finds that thieves took it all");
}

#[test]
fn the_buffer_of_a_burst_is_kept_for_the_next_until_the_owner_rests() {
    let queue = filled(0..300);
    let capacity = queue.capacity();
    for _ in 0..3 {
        assert_eq!(oldest_first(&queue).len(), 300);
        assert_eq!((queue.pop_oldest(), queue.capacity()), (None, capacity));
        (0..300).for_each(|item| assert_eq!(queue.push(item), Ok(())));
    }
    for _ in 0..200 {
        assert!(queue.pop_oldest().is_some());
    }
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 128, "what waits has room");
    assert_eq!(oldest_first(&queue), (200..300).collect::<Vec<_>>());
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 64);
}

#[test]
fn an_owner_knows_that_its_queue_is_empty_and_finds_out_what_thieves_took() {
    let queue = filled([]);
    assert!(queue.is_known_empty());
    assert_eq!(queue.push(1), Ok(()));
    assert!(!queue.is_known_empty());
    assert_eq!(queue.stealer().steal(), Steal::Success(1));
    assert!(queue.is_empty());
    assert_eq!(queue.pop_oldest(), None);
    assert!(queue.is_known_empty());
}

#[test]
fn reserved_room_is_there() {
    let queue = filled(0..10);
    assert_eq!(queue.reserve(1_000), 1_000);
    let capacity = queue.capacity();
    for item in 10..1_010 {
        assert_eq!(queue.push(item), Ok(()));
    }
    assert_eq!(queue.capacity(), capacity, "pushing into reserved room needs no new buffer");
    assert_eq!(oldest_first(&queue), (0..1_010).collect::<Vec<_>>());
}

#[test]
fn a_reservation_beyond_the_limit_gives_all_the_room_there_is() {
    let queue = StealQueue::with_limit(128);
    for item in 0..64 {
        assert_eq!(queue.push(item), Ok(()));
    }
    assert_eq!(queue.reserve(1_000), 64, "64 of 128 are free");
}

#[test]
fn half_goes_to_a_queue_near_its_limit_as_far_as_there_is_room() {
    let victim = filled(0..256);
    let own = StealQueue::with_limit(128);
    for item in 1_000..1_064 {
        assert_eq!(own.push(item), Ok(()));
    }
    assert_eq!(victim.stealer().steal_half(&own), Steal::Success(64), "64 of 128 are free");
    assert_eq!((victim.len(), own.len()), (192, 128));
}

#[test]
fn a_full_queue_of_a_thief_takes_no_half_but_one_to_run() {
    let victim = filled(0..256);
    let own = StealQueue::with_limit(64);
    for item in 1_000..1_064 {
        assert_eq!(own.push(item), Ok(()));
    }
    assert_eq!(victim.stealer().steal_half(&own), Steal::Empty, "there is nowhere to put it");
    assert_eq!(victim.stealer().steal_batch_and_pop(&own), Steal::Success(0));
    assert_eq!((victim.len(), own.len()), (255, 64));
}

#[test]
fn thieves_take_the_rest_when_the_owner_is_gone() {
    let queue = filled(0..100);
    let (thief, other) = (queue.stealer(), queue.stealer());
    drop(queue);
    assert_eq!(thief.steal(), Steal::Success(0));
    drop(thief);
    let own = filled([]);
    assert_eq!(other.clone().steal_half(&own), Steal::Success(50));
    let rest: Vec<_> = std::iter::from_fn(|| other.steal().success()).collect();
    assert_eq!(rest, (51..100).collect::<Vec<_>>());
}

#[test]
fn items_of_no_size_are_counted() {
    let queue = StealQueue::new();
    for _ in 0..1_000 {
        assert_eq!(queue.push(()), Ok(()));
    }
    let thief = queue.stealer();
    let taken = std::iter::from_fn(|| thief.steal().success()).take(400).count();
    assert_eq!((taken, queue.len()), (400, 600));
    assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 600);
}
