//! `StealQueue` among threads: an owner and three thieves, each of whom is robbed in turn, lose and double nothing.
//!
//! Every operation is in play at once, in random order, while the buffers grow and shrink. A second test uses only the
//! old end, where even the order can be checked.

use crate::dice::{Dice, seed};
use crate::eventually::Deadline;
use millpond_queue::{Steal, StealQueue, Stealer};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

const THIEVES: usize = 3;

/// An owner that pushes everything and takes some of it back.
fn own(seed: u64, queue: &StealQueue<usize>, items: usize, left: &AtomicUsize) -> Vec<usize> {
    let mut dice = Dice::new(seed, 0);
    let mut taken = Vec::new();
    let mut next = 0;
    let take = |taken: &mut Vec<usize>, item: Option<usize>| {
        left.fetch_sub(usize::from(item.is_some()), Relaxed);
        taken.extend(item);
    };
    while next < items {
        // Bursts of very different lengths, so that the buffer grows and the queue runs empty.
        let burst = 1 << dice.below(9);
        for item in next..(next + burst).min(items) {
            assert_eq!(queue.push(item), Ok(()));
        }
        next = (next + burst).min(items);
        for _ in 0..dice.below(2 * burst) {
            let item = if dice.below(4) == 0 { queue.pop_oldest() } else { queue.pop() };
            take(&mut taken, item);
        }
    }
    while let Some(item) = queue.pop() {
        take(&mut taken, Some(item));
    }
    taken
}

/// A thief that robs the others at random until nothing is left anywhere, and keeps what it runs.
fn rob(
    seed: u64,
    number: usize,
    own: &StealQueue<usize>,
    victims: &[Stealer<usize>],
    left: &AtomicUsize,
) -> Vec<usize> {
    let mut dice = Dice::new(seed, number);
    let deadline = Deadline::new("every item was taken");
    let mut taken = Vec::new();
    while left.load(Relaxed) > 0 {
        let victim = &victims[dice.below(victims.len())];
        let item = match dice.below(6) {
            0 => victim.steal().success(),
            1 => {
                let _ = victim.steal_half(own);
                None
            }
            2 => victim.steal_batch_and_pop(own).success(),
            3 => own.pop_oldest(),
            _ => own.pop(),
        };
        match item {
            Some(item) => {
                left.fetch_sub(1, Relaxed);
                taken.push(item);
            }
            None => deadline.idle(),
        }
    }
    taken
}

#[test]
fn every_item_goes_to_the_owner_or_to_one_of_three_thieves() {
    let seed = seed("steal stress");
    let items = 100_000;
    let left = AtomicUsize::new(items);
    let queue = StealQueue::new();
    let own_queues: Vec<StealQueue<usize>> = (0..THIEVES).map(|_| StealQueue::new()).collect();
    // Everybody may rob everybody, itself included.
    let victims: Vec<Stealer<usize>> = own_queues.iter().chain([&queue]).map(StealQueue::stealer).collect();
    let mut all: Vec<usize> = thread::scope(|scope| {
        let (left, victims) = (&left, &victims);
        let thieves: Vec<_> = own_queues
            .into_iter()
            .enumerate()
            .map(|(number, own)| scope.spawn(move || rob(seed, 1 + number, &own, victims, left)))
            .collect();
        let mut all = own(seed, &queue, items, left);
        for thief in thieves {
            all.extend(thief.join().unwrap());
        }
        all
    });
    all.sort_unstable();
    assert!(all.into_iter().eq(0..items), "lost or doubled");
    assert!(victims.iter().all(Stealer::is_empty));
}

#[test]
fn whoever_takes_the_oldest_sees_items_in_the_order_they_were_pushed() {
    let items = 50_000;
    let left = AtomicUsize::new(items);
    let queue = StealQueue::new();
    let taken: Vec<Vec<usize>> = thread::scope(|scope| {
        let thieves: Vec<_> = (0..THIEVES)
            .map(|_| {
                let (thief, left) = (queue.stealer(), &left);
                scope.spawn(move || {
                    let deadline = Deadline::new("every item was taken");
                    let mut taken = Vec::new();
                    while left.load(Relaxed) > 0 {
                        match thief.steal() {
                            Steal::Success(item) => {
                                left.fetch_sub(1, Relaxed);
                                taken.push(item);
                            }
                            Steal::Empty | Steal::Retry => deadline.idle(),
                        }
                    }
                    taken
                })
            })
            .collect();
        let mut mine = Vec::new();
        for item in 0..items {
            assert_eq!(queue.push(item), Ok(()));
            if item % 3 == 0 {
                mine.extend(queue.pop_oldest());
            }
        }
        mine.extend(std::iter::from_fn(|| queue.pop_oldest()));
        left.fetch_sub(mine.len(), Relaxed);
        thieves.into_iter().map(|thief| thief.join().unwrap()).chain([mine]).collect()
    });
    assert!(taken.iter().all(|items| items.is_sorted()), "taken out of order");
    assert_eq!(taken.iter().map(Vec::len).sum::<usize>(), items);
}

#[test]
fn items_of_many_words_arrive_whole() {
    let items = 20_000;
    let queue = StealQueue::<[usize; 8]>::new();
    let left = AtomicUsize::new(items);
    let sum = thread::scope(|scope| {
        let thieves: Vec<_> = (0..2)
            .map(|_| {
                let (thief, left) = (queue.stealer(), &left);
                scope.spawn(move || {
                    let deadline = Deadline::new("every item was taken");
                    let mut sum = 0;
                    while left.load(Relaxed) > 0 {
                        let Steal::Success(item) = thief.steal() else {
                            deadline.idle();
                            continue;
                        };
                        assert!(item.iter().all(|word| *word == item[0]), "torn: {item:?}");
                        left.fetch_sub(1, Relaxed);
                        sum += item[0];
                    }
                    sum
                })
            })
            .collect();
        let mut sum = 0;
        for item in 0..items {
            assert_eq!(queue.push([item; 8]), Ok(()));
            if let Some(item) = (item % 4 == 0).then(|| queue.pop()).flatten() {
                assert!(item.iter().all(|word| *word == item[0]), "torn: {item:?}");
                left.fetch_sub(1, Relaxed);
                sum += item[0];
            }
        }
        sum + thieves.into_iter().map(|thief| thief.join().unwrap()).sum::<usize>()
    });
    assert_eq!(sum, items * (items - 1) / 2);
}
