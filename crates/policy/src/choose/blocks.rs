//! The smallest key of every block of workers, remembered from one choice to the next.
//!
//! Between two choices a few workers change, and thousands do not. So a strategy that compares all of them
//! looks only at the blocks that have changed, and then at one key for each block. With ten thousand
//! workers that is some hundreds of looks. It finds whom a look at all would find: among equals too the
//! first from where the search begins.
//!
//! A key may hang on more than the picture shows, on notes or on a usual run time. That is its *basis*, and
//! with another one everything is looked at again. So a strategy cannot forget to say that its keys have
//! changed: it says each time what they are made of.
//!
//! Choosing may not allocate, so memory is taken when a worker is announced. A small picture, and one with
//! more workers than were announced, is searched from end to end.

use super::scan::{Key, Smallest};
use crate::view::{BLOCK, CHANGES_ARE_NOTED, Seen, Views, places_of};
use alloc::vec::Vec;
use core::ops::Range;

/// What is remembered of each block. `B` is what keys are made of besides the picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks<K, B> {
    least: Vec<Least<K>>,
    /// The sums of all blocks together.
    sum: u64,
    basis: Option<B>,
    seen: Seen,
    /// So many workers were announced and have not gone.
    expected: usize,
}

/// Whom a search in one block found.
#[derive(Clone, Copy, Debug)]
struct Least<K> {
    at: Option<usize>,
    /// The highest there is, if nobody was found.
    key: K,
    sum: u64,
}

/// Whom a search found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<K> {
    pub(super) at: usize,
    pub(super) key: K,
    /// The sum of what was to be added up ([`Smallest::look_and_add`]). Not all of it, if the key is the
    /// lowest there is, since the search ends there.
    pub(super) sum: u64,
}

impl<K: Key, B: PartialEq> Blocks<K, B> {
    pub(super) const fn new() -> Self {
        Self { least: Vec::new(), sum: 0, basis: None, seen: Seen::NOTHING, expected: 0 }
    }

    /// A worker has come: makes room for its block.
    pub(super) fn expect_one(&mut self) {
        self.expected += 1;
        if !CHANGES_ARE_NOTED {
            return;
        }
        self.least.reserve(self.expected.div_ceil(BLOCK).saturating_sub(self.least.len()));
    }

    /// A worker has gone.
    pub(super) fn forget_one(&mut self) {
        self.expected = self.expected.saturating_sub(1);
    }

    /// Forgets everything, and keeps the room.
    pub(super) fn clear(&mut self) {
        self.least.clear();
        (self.sum, self.basis, self.seen, self.expected) = (0, None, Seen::NOTHING, 0);
    }

    /// The worker with the smallest key of all that take tasks, the first of equals from `start` once round.
    /// `look` lets a search look at the workers of some places.
    pub(super) fn find(
        &mut self,
        workers: &Views,
        start: usize,
        basis: B,
        look: impl Fn(&mut Smallest<'_, K>, Range<usize>),
    ) -> Option<Found<K>> {
        let has_room = self.least.capacity() >= workers.len().div_ceil(BLOCK);
        if workers.notes_changes() && has_room {
            return self.find_by_block(workers, start, basis, look);
        }
        let mut search = Smallest::among(workers.states());
        for places in [start..workers.len(), 0..start] {
            look(&mut search, places);
        }
        let sum = search.sum();
        search.found(start).map(|(at, key)| Found { at, key, sum })
    }

    /// Kept apart, so that the search in a small picture stays as short as it was.
    #[inline(never)]
    fn find_by_block(
        &mut self,
        workers: &Views,
        start: usize,
        basis: B,
        look: impl Fn(&mut Smallest<'_, K>, Range<usize>),
    ) -> Option<Found<K>> {
        let mut search = Smallest::among(workers.states());
        // The block in which the search begins has some of its workers at the beginning of the round, and the
        // others at its end.
        let first = start / BLOCK;
        look(&mut search, start..places_of(first, workers.len()).end);
        if !search.is_over() {
            self.refresh(workers, basis, look);
            for least in self.least[first + 1..].iter().chain(&self.least[..=first]) {
                search.meet(least.at, least.key);
            }
        }
        search.found(start).map(|(at, key)| Found { at, key, sum: self.sum })
    }

    /// Looks again at whatever has changed.
    fn refresh(&mut self, workers: &Views, basis: B, look: impl Fn(&mut Smallest<'_, K>, Range<usize>)) {
        let look_at = |block| {
            let mut search = Smallest::among(workers.states());
            look(&mut search, places_of(block, workers.len()));
            let sum = search.sum();
            let (at, key) = search.so_far();
            Least { at, key, sum }
        };
        let basis = Some(basis);
        match workers.changed_since(&self.seen) {
            Some(changed) if self.basis == basis => {
                for block in changed {
                    let least = look_at(block);
                    let before = core::mem::replace(&mut self.least[block], least);
                    self.sum = self.sum.wrapping_sub(before.sum).wrapping_add(least.sum);
                }
            }
            _ => {
                self.least.clear();
                self.least.extend((0..workers.len().div_ceil(BLOCK)).map(look_at));
                self.sum = self.least.iter().fold(0, |sum, least| sum.wrapping_add(least.sum));
                self.basis = basis;
            }
        }
        workers.see(&mut self.seen);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::{Choose, FairShare, LeastBusy, LeastUsed, LeastUtilised};
    use super::*;
    use crate::Moment;
    use crate::view::{TaskView, WorkerState, WorkerView};
    use core::cell::Cell;
    use core::time::Duration;
    use std::time::{SystemTime, UNIX_EPOCH};

    /// From a few workers more than a small picture has, to a dozen blocks; sometimes fewer.
    const WORKERS: Range<u64> = 150..800;

    /// Numbers for the test; the constants are Knuth's.
    struct Chance(u64);

    impl Chance {
        /// From `MILLPOND_SEED`, or new for every run; printed, so that a failure can be repeated.
        fn seeded() -> Self {
            let clock =
                || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
            let given = std::env::var("MILLPOND_SEED").ok();
            let seed =
                given.map_or_else(clock, |seed| seed.parse().expect("MILLPOND_SEED: expected a number"));
            std::println!("MILLPOND_SEED={seed}");
            Self(seed)
        }

        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }

        fn one_in(&mut self, times: u64) -> bool {
            self.below(times) == 0
        }

        /// Mostly one of a few numbers, so that there are equals. Nothing comes seldom, since a search ends
        /// there.
        fn figure(&mut self) -> u64 {
            match self.below(2_000) {
                0 => 0,
                1..8 => u64::MAX,
                8..16 => self.below(1 << 31),
                _ => 1 + self.below(4),
            }
        }

        fn state(&mut self) -> WorkerState {
            use WorkerState::{Busy, Cold, Ready, Terminated, Terminating, Warming};
            [Ready, Busy, Busy, Ready, Busy, Cold, Warming, Terminating, Terminated][self.below(9) as usize]
        }

        fn worker(&mut self, id: u32) -> WorkerView {
            WorkerView {
                id,
                state: self.state(),
                running: self.figure() as u32,
                queued: self.figure() as u32,
                completed: self.figure(),
                run_total_ns: self.figure().wrapping_mul(1_000),
                run_mean_ns: self.figure() / 2,
                utilisation: self.figure() as u16,
                weight: 0,
                idle_since: Moment::ZERO,
            }
        }
    }

    /// A strategy twice, with the same past: one is shown pictures that note their changes, the other the
    /// same pictures without, and so has to look at everybody.
    struct Twins<S> {
        make: fn() -> S,
        noting: S,
        plain: S,
        /// The picture that is shown, and another that may be shown in its place.
        workers: Views,
        others: Views,
        next_id: u32,
        now: Moment,
    }

    impl<S: Choose + Clone> Twins<S> {
        fn new(make: fn() -> S, chance: &mut Chance) -> Self {
            let (workers, others) = (Views::default(), Views::default());
            let (noting, plain) = (make(), make());
            let mut twins = Self { make, noting, plain, workers, others, next_id: 0, now: Moment::ZERO };
            for _ in 0..chance.below(WORKERS.end) {
                twins.add(chance);
            }
            twins.others = twins.workers.clone();
            twins
        }

        fn tell(&mut self, tell: impl Fn(&mut S)) {
            tell(&mut self.noting);
            tell(&mut self.plain);
        }

        fn add(&mut self, chance: &mut Chance) {
            let (worker, now) = (chance.worker(self.next_id), self.now);
            self.next_id += 1;
            self.workers.push(worker);
            if !chance.one_in(50) {
                self.tell(|strategy| strategy.worker_added(&worker, now));
            }
        }

        /// Everybody in the picture is announced to strategies that know nobody.
        fn begin_anew(&mut self) {
            (self.noting, self.plain) = ((self.make)(), (self.make)());
            for worker in self.workers.rows().collect::<Vec<_>>() {
                self.tell(|strategy| strategy.worker_added(&worker, Moment::ZERO));
            }
        }

        /// A row changes in one way or another.
        fn change_row(&mut self, chance: &mut Chance) {
            let at = chance.below(self.workers.len().max(1) as u64) as usize;
            if at >= self.workers.len() {
                return;
            }
            let (row, workers) = (chance.worker(0), &mut self.workers);
            match chance.below(6) {
                0 => workers.set_load(at, row.running, row.queued),
                1 => workers.set_completed(at, row.completed),
                2 => workers.set_run_time(at, row.run_total_ns, row.run_mean_ns),
                3 => workers.set_utilisation(at, row.utilisation),
                4 => workers.set_weight(at, row.queued),
                _ if chance.one_in(20) => workers.set_state(at, row.state),
                _ => workers.set_idle_since(at, self.now),
            }
        }

        fn change_all(&mut self, change: fn(&mut Views, usize)) {
            (0..self.workers.len()).for_each(|at| change(&mut self.workers, at));
        }

        /// Something happens that is not the change of a row.
        fn upset(&mut self, chance: &mut Chance) {
            match chance.below(12) {
                0 | 1 => (0..chance.below(5)).for_each(|_| self.add(chance)),
                2 => {
                    let Some(gone) = self.workers.pop() else { return };
                    self.tell(|strategy| strategy.worker_removed(gone.id));
                }
                3 if chance.one_in(10) => self.workers.truncate(chance.below(WORKERS.end) as usize),
                // Somebody is reported gone who is still there, and is new therefore.
                3 if !self.workers.is_empty() => {
                    let id = self.workers.ids()[chance.below(self.workers.len() as u64) as usize];
                    self.tell(|strategy| strategy.worker_removed(id));
                }
                4 => core::mem::swap(&mut self.workers, &mut self.others),
                5 => self.others = self.workers.clone(),
                6 => self.workers = self.workers.clone(),
                7 if chance.one_in(10) => self.tell(|strategy| strategy.reset()),
                7 if chance.one_in(3) => self.begin_anew(),
                7 => (self.noting, self.plain) = (self.noting.clone(), self.plain.clone()),
                8 => self.now = self.now + Duration::from_nanos(chance.below(40_000_000)),
                9 => (0..chance.below(700)).for_each(|_| self.change_row(chance)),
                10 if chance.one_in(20) => {
                    self.change_all(|workers, at| workers.set_state(at, WorkerState::Cold))
                }
                10 if chance.one_in(20) => self.change_all(|workers, at| workers.set_load(at, u32::MAX, 0)),
                10 if chance.one_in(5) => self.change_all(|workers, at| workers.set_load(at, 1, 0)),
                _ if self.workers.len() < WORKERS.start as usize => {
                    (0..WORKERS.end).for_each(|_| self.add(chance));
                }
                _ => {}
            }
        }

        /// Both choose, and must agree. Gives whether somebody was chosen out of a picture that notes
        /// changes.
        fn choose(&mut self, chance: &mut Chance) -> bool {
            let task = TaskView { expected_ns: chance.below(3), ..TaskView::default() };
            self.now = self.now + Duration::from_nanos(chance.below(20));
            let expected = self.plain.choose(&self.workers.unnoted(), &task, self.now);
            let choice = self.noting.choose(&self.workers, &task, self.now);
            assert_eq!(choice, expected, "{} of {}", self.noting.name(), self.workers.len());
            let Some(choice) = choice else { return false };
            if !chance.one_in(3) {
                self.workers.set_load(choice.at, 1, self.workers.load()[choice.at]);
            }
            self.workers.notes_changes()
        }
    }

    fn compare<S: Choose + Clone>(make: fn() -> S) {
        let mut chance = Chance::seeded();
        let mut chosen = 0;
        for _ in 0..20 {
            let mut twins = Twins::new(make, &mut chance);
            for _ in 0..1_000 {
                if chance.one_in(8) {
                    twins.upset(&mut chance);
                }
                (0..chance.below(12)).for_each(|_| twins.change_row(&mut chance));
                chosen += u32::from(twins.choose(&mut chance));
            }
        }
        assert!(chosen > 10_000, "only {chosen} of 20 000 choices were out of a picture that notes changes");
    }

    /// The place and load of the least loaded worker from `start` on, found by [`Blocks`] and by looking at
    /// all; and how many workers were looked at.
    fn least_loaded(
        blocks: &mut Blocks<u32, ()>,
        workers: &Views,
        start: usize,
    ) -> (Option<(usize, u32)>, usize) {
        let looks = Cell::new(0);
        let found = blocks.find(workers, start, (), |search, places| {
            looks.set(looks.get() + places.len());
            search.look(places.clone(), workers.load()[places].iter().copied());
        });
        let round = (start..workers.len()).chain(0..start).filter(|at| workers.takes_tasks(*at));
        let expected = round.map(|at| (at, workers.load()[at])).min_by_key(|(_, load)| *load);
        assert_eq!(found.map(|found| (found.at, found.key)), expected, "from {start}");
        (expected, looks.get())
    }

    fn crew(chance: &mut Chance, workers: usize) -> (Blocks<u32, ()>, Views) {
        let (mut blocks, mut views) = (Blocks::new(), Views::default());
        for id in 0..workers as u32 {
            views.push(WorkerView { state: WorkerState::Ready, ..chance.worker(id) });
            blocks.expect_one();
        }
        (blocks, views)
    }

    #[test]
    fn what_changed_while_an_idle_worker_ended_every_search_is_found_later() {
        let mut chance = Chance::seeded();
        let (mut blocks, mut workers) = crew(&mut chance, 500);
        for step in 0..2_000 {
            let idle = chance.below(500) as usize;
            for _ in 0..chance.below(4) {
                workers.set_load(idle, 0, 0);
                workers.set_load(chance.below(500) as usize, chance.below(3) as u32, 1);
                let start = idle.saturating_sub(chance.below(4) as usize);
                least_loaded(&mut blocks, &workers, start);
            }
            workers.set_load(idle, 1, chance.below(3) as u32);
            least_loaded(&mut blocks, &workers, step % 500);
        }
    }

    #[test]
    fn only_what_has_changed_is_looked_at_again() {
        let (mut blocks, mut workers) = crew(&mut Chance(1), 10_000);
        (0..10_000).for_each(|at| workers.set_load(at, 1, 1));
        let (_, looks) = least_loaded(&mut blocks, &workers, 0);
        assert_eq!(looks, BLOCK + 10_000, "nothing is known yet");
        for at in [70, 7_000, 9_999] {
            workers.set_load(at, 1, 2);
            let (_, looks) = least_loaded(&mut blocks, &workers, BLOCK);
            let changed = places_of(at / BLOCK, 10_000).len();
            assert_eq!(looks, BLOCK + changed, "the block it begins in, and the one that changed");
        }
        assert_eq!(least_loaded(&mut blocks, &workers, BLOCK).1, BLOCK, "nothing has changed");
    }

    #[test]
    fn least_used_chooses_as_if_it_looked_at_everybody() {
        compare(LeastUsed::new);
    }

    #[test]
    fn least_busy_chooses_as_if_it_looked_at_everybody() {
        compare(LeastBusy::new);
    }

    #[test]
    fn least_utilised_chooses_as_if_it_looked_at_everybody() {
        compare(LeastUtilised::new);
    }

    #[test]
    fn fair_share_chooses_as_if_it_looked_at_everybody() {
        compare(FairShare::new);
        compare(|| FairShare::with_half_life(Duration::from_millis(1)).expect("within bounds"));
    }
}
