//! What does a work-stealing queue cost its owner, and what does it cost a thief?
//!
//! Owner alone: `deque-owner` pushes 64 items and pops them, `deque-owner-1` one. Thief alone: the owner fills the
//! queue and stands back, and only the stealing is timed, by the thief; filling and growing are not. Both at once:
//! `deque-mixed` is timed as a whole. Baselines: crossbeam-deque and st3. The limit is `VecDeque`, shared with nobody.
//!
//! st3 does not grow, so that it is made as large as a batch needs.
//!
//! Not here: the queue that outside submissions go through (`global.rs`).

use super::per_item;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::deques::Crossbeam;
use crate::peers::millpond::OldestFirst;
use crate::peers::{Owner, Theft, Thief};
use crate::tally::{Tally, share};
use crate::team::{self, Work};
use crossbeam_utils::Backoff;
use millpond_queue::StealQueue;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many items the owner leaves for the thief at once.
const BATCH: u64 = 10_000;
/// Room for a batch, in queues that do not grow.
const ROOM: usize = 16_384;
/// How many items an owner pushes before it pops them, in the mixed group.
const BURST: u64 = 256;

pub(crate) fn groups() -> Vec<Group> {
    let owners = |scene: Scene| {
        let mut contestants = lifo_contestants(scene);
        contestants.push(scene.contestant("~VecDeque", || VecDeque::with_capacity(ROOM)));
        contestants
    };
    let thieves = |scene: Scene| {
        let mut contestants = lifo_contestants(scene);
        contestants.push(scene.contestant("millpond FIFO", OldestFirst::new));
        contestants.push(scene.contestant("crossbeam-deque FIFO", Crossbeam::fifo));
        contestants.push(scene.contestant("st3 FIFO", || st3::fifo::Worker::new(ROOM)));
        contestants
    };
    vec![
        per_item("deque-owner", "the owner pushes 64 and pops the newest 64", owners(Scene::OwnerPops64)),
        per_item("deque-owner-1", "the owner pushes one and pops it", owners(Scene::OwnerPops1)),
        per_item("deque-steal", "a thief steals 10000 items, one by one", thieves(Scene::StealOne)),
        per_item("deque-steal-half", "a thief steals 10000 items, half by half", thieves(Scene::StealHalf)),
        per_item("deque-mixed", "an owner pushes and pops while a thief steals half", thieves(Scene::Mixed)),
    ]
}

/// The peers in the flavour that gives the owner its newest item.
fn lifo_contestants(scene: Scene) -> Vec<Contestant> {
    vec![
        scene.contestant("millpond", StealQueue::new),
        scene.contestant("crossbeam-deque", Crossbeam::lifo),
        scene.contestant("st3", || st3::lifo::Worker::new(ROOM)),
    ]
}

/// Who uses the queue, and how.
#[derive(Clone, Copy)]
enum Scene {
    OwnerPops64,
    OwnerPops1,
    StealOne,
    StealHalf,
    Mixed,
}

impl Scene {
    fn contestant<Q: Owner>(self, peer: &'static str, open: impl Fn() -> Q + 'static) -> Contestant {
        Contestant::new(peer, move |round| match self {
            Self::OwnerPops64 => owner_alone::<Q, 64>(open(), round),
            Self::OwnerPops1 => owner_alone::<Q, 1>(open(), round),
            Self::StealOne => thief_alone(open(), round, steal_one_by_one),
            Self::StealHalf => thief_alone(open(), round, steal_half_by_half),
            Self::Mixed => owner_and_thief(open(), round),
        })
    }
}

#[inline(never)]
fn owner_alone<Q: Owner, const COUNT: u64>(mut owner: Q, round: &Round) -> Result<f64, String> {
    let items = round.items / COUNT * COUNT;
    let mut tally = Tally::default();
    let mut refused = 0u64;
    let start = Instant::now();
    let mut next = 1;
    while next <= items {
        for item in next..next + COUNT {
            refused += u64::from(!owner.push(item));
        }
        for _ in 0..COUNT {
            if let Some(item) = owner.pop() {
                tally.add(item);
            }
        }
        next += COUNT;
    }
    let elapsed = start.elapsed();
    if refused > 0 {
        return Err(format!("refused {refused} items although there was room"));
    }
    tally.check(items)?;
    Ok(ns_per_item(elapsed, items))
}

/// Owner and thief take turns: `turn` is even while the owner fills, odd while the thief empties.
fn thief_alone<Q: Owner>(
    owner: Q,
    round: &Round,
    steal: fn(&mut Q::Thief, &mut Tally),
) -> Result<f64, String> {
    // The first batch lets the thief's own queue grow, and is not timed.
    let batches = 1 + round.items.div_ceil(BATCH);
    let thief = owner.thief();
    let turn = Arc::new(AtomicU64::new(0));
    let thiefs_turn = Arc::clone(&turn);
    let works: Vec<Work<(Tally, Duration)>> = vec![
        Box::new(move || {
            fill_by_turns(owner, batches, &turn);
            (Tally::default(), Duration::ZERO)
        }),
        Box::new(move || steal_by_turns(thief, batches, &thiefs_turn, steal)),
    ];
    let (_, outcomes) = team::run(works, round.pinned)?;
    let stealing: Duration = outcomes.iter().map(|(_, duration)| *duration).sum();
    Tally::total(outcomes.into_iter().map(|(tally, _)| tally)).check(batches * BATCH)?;
    Ok(ns_per_item(stealing, (batches - 1) * BATCH))
}

fn fill_by_turns<Q: Owner>(mut owner: Q, batches: u64, turn: &AtomicU64) {
    for batch in 0..batches {
        wait_for_turn(turn, 2 * batch);
        for item in share(batches * BATCH, batch as usize, batches as usize) {
            // A refused item is missing from the tally, which says so.
            owner.push(item);
        }
        turn.store(2 * batch + 1, Ordering::Release);
    }
}

fn steal_by_turns<T>(
    mut thief: T,
    batches: u64,
    turn: &AtomicU64,
    steal: fn(&mut T, &mut Tally),
) -> (Tally, Duration) {
    let mut tally = Tally::default();
    let mut stealing = Duration::ZERO;
    for batch in 0..batches {
        wait_for_turn(turn, 2 * batch + 1);
        let start = Instant::now();
        steal(&mut thief, &mut tally);
        if batch > 0 {
            stealing += start.elapsed();
        }
        turn.store(2 * batch + 2, Ordering::Release);
    }
    (tally, stealing)
}

/// Spinning keeps both threads on a core of their own, as two busy workers are.
fn wait_for_turn(turn: &AtomicU64, awaited: u64) {
    let backoff = Backoff::new();
    while turn.load(Ordering::Acquire) != awaited {
        backoff.snooze();
    }
}

#[inline(never)]
fn steal_one_by_one(thief: &mut impl Thief, tally: &mut Tally) {
    loop {
        match thief.steal_one() {
            Theft::Success(item) => tally.add(item),
            Theft::Retry => {}
            Theft::Empty => return,
        }
    }
}

#[inline(never)]
fn steal_half_by_half(thief: &mut impl Thief, tally: &mut Tally) {
    loop {
        match thief.steal_half() {
            Theft::Success(()) => {
                while let Some(item) = thief.pop_own() {
                    tally.add(item);
                }
            }
            Theft::Retry => {}
            Theft::Empty => return,
        }
    }
}

fn owner_and_thief<Q: Owner>(owner: Q, round: &Round) -> Result<f64, String> {
    let thief = owner.thief();
    let items = share(round.items, 0, 1);
    let working = Arc::new(AtomicBool::new(true));
    let still_working = Arc::clone(&working);
    let works: Vec<Work<Tally>> = vec![
        Box::new(move || push_and_pop(owner, items, &working)),
        Box::new(move || steal_meanwhile(thief, &still_working)),
    ];
    let (elapsed, tallies) = team::run(works, round.pinned)?;
    Tally::total(tallies).check(round.items)?;
    Ok(ns_per_item(elapsed, round.items))
}

#[inline(never)]
fn push_and_pop(mut owner: impl Owner, items: Range<u64>, working: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    let mut next = items.start;
    while next < items.end {
        for item in next..items.end.min(next + BURST) {
            // A queue that does not grow is full for as long as a thief stands still in the middle of a theft.
            let backoff = Backoff::new();
            while !owner.push(item) {
                match owner.pop() {
                    Some(item) => tally.add(item),
                    None => backoff.snooze(),
                }
            }
        }
        next += BURST;
        while let Some(item) = owner.pop() {
            tally.add(item);
        }
    }
    working.store(false, Ordering::Release);
    tally
}

#[inline(never)]
fn steal_meanwhile(mut thief: impl Thief, working: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    loop {
        // Asked before the last theft: what is not there after the owner stopped will never come.
        let finished = !working.load(Ordering::Acquire);
        steal_half_by_half(&mut thief, &mut tally);
        if finished {
            return tally;
        }
    }
}
