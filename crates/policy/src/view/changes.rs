//! Which rows of a picture have changed since somebody last looked, told in blocks of 64 workers.
//!
//! A strategy that compares all workers remembers what it saw in each block, and looks again only at those
//! that have changed ([`Views::changed_since`](super::Views::changed_since)). A change that went unnoticed
//! would be a wrong decision long after, so it cannot happen: a [`Column`] is written only at a [`Place`],
//! and whoever asks [`Changes`] for one has noted the change by that. What was seen of one picture says
//! nothing of another: a picture has an identity, which moves with it and which no copy of it shares.
//!
//! Small pictures note nothing. To look at all of one costs about as much as to find out what has changed,
//! and the pools that fill one anew for every task are small.
//!
//! Not here: what is remembered of a block (`choose/blocks.rs`, `choose/roster.rs`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

/// So many workers share one note.
pub(crate) const BLOCK: usize = 64;

/// Whether any picture notes its changes. Not in WebAssembly: nobody has hundreds of workers there, and what is made of
/// the notes would be a tenth of the module. Decisions are the same, and with thousands of workers they take longer.
pub(crate) const CHANGES_ARE_NOTED: bool = !cfg!(target_family = "wasm");

/// A picture of up to so many workers notes nothing.
const SMALL_MAX: usize = if CHANGES_ARE_NOTED { 4 * BLOCK } else { usize::MAX };

/// At least so many changes are noted: each task that comes or ends makes some.
const LATEST_MIN: usize = 32;

/// The places of a block in a picture of `workers`.
pub(crate) fn places_of(block: usize, workers: usize) -> Range<usize> {
    block * BLOCK..workers.min((block + 1) * BLOCK)
}

/// The latest changes of a picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    identity: Identity,
    /// How many changes there were. It only ever grows, so a number stands for one moment in the picture's
    /// life.
    count: u64,
    /// What `count` was when a worker last came or went.
    crew: u64,
    /// The block of each of the latest changes; that of the n-th stands at n, modulo the length. There are
    /// about as many as blocks: whoever has missed more may as well look at all. The length is a power of
    /// two, or 0 for a small picture.
    latest: Vec<usize>,
}

/// Where a row stands that is about to change, which is noted by now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

impl Changes {
    /// The row at `at` is about to change.
    #[inline]
    pub(super) fn row(&mut self, at: usize) -> Place {
        if self.are_noted() {
            self.count += 1;
            let entry = self.entry(self.count);
            self.latest[entry] = at / BLOCK;
        }
        Place(at)
    }

    /// A row is about to be put at `end`, behind all others.
    pub(super) fn new_row(&mut self, end: usize) -> Place {
        self.crew_changes(end + 1);
        Place(end)
    }

    /// The rows from `end` on are about to go.
    pub(super) fn no_rows_from(&mut self, end: usize) -> Place {
        self.crew_changes(end);
        Place(end)
    }

    /// Makes room for notes on so many workers.
    pub(super) fn reserve(&mut self, workers: usize) {
        if workers > SMALL_MAX {
            self.identity.establish();
            self.latest.reserve(latest_of(workers).saturating_sub(self.latest.len()));
        }
    }

    /// There are about to be so many workers. What was noted of the others says nothing any more.
    fn crew_changes(&mut self, workers: usize) {
        self.count += 1;
        self.crew = self.count;
        if self.latest.len() != latest_of(workers) {
            self.identity.establish();
            self.latest.resize(latest_of(workers), 0);
        }
    }

    /// Where the n-th change stands.
    #[inline]
    fn entry(&self, n: u64) -> usize {
        n as usize & self.latest.len().wrapping_sub(1)
    }

    /// Whether changes are noted.
    #[inline]
    pub(super) fn are_noted(&self) -> bool {
        CHANGES_ARE_NOTED && !self.latest.is_empty()
    }

    /// Whether it is known that nobody has come or gone since.
    #[inline]
    pub(super) fn is_crew_of(&self, seen: &Seen) -> bool {
        self.are_noted() && self.identity.is(seen) && self.crew <= seen.count
    }

    /// The blocks of all changes since, if nobody has come or gone and not too many have changed; `None` if
    /// that is not known. One that has changed often may come several times.
    #[inline]
    pub(super) fn since<'a>(&'a self, seen: &Seen) -> Option<impl Iterator<Item = usize> + use<'a>> {
        if !self.is_crew_of(seen) {
            return None;
        }
        let missed = seen.count..self.count;
        if missed.end - missed.start > self.latest.len() as u64 {
            return None;
        }
        let blocks = missed.map(|before| self.latest[self.entry(before + 1)]);
        let mut last = None;
        // A task that ends changes several columns of one row, one after the other.
        Some(blocks.filter(move |block| last.replace(*block) != Some(*block)))
    }

    /// Everything has been seen as it is now.
    #[inline]
    pub(super) fn see(&self, seen: &mut Seen) {
        if !self.are_noted() {
            // Nobody will be told of a change since then, so it need not be remembered.
            return;
        }
        if !self.identity.is(seen) {
            seen.picture.clone_from(&self.identity.0);
        }
        seen.count = self.count;
    }

    /// Notes nothing any more.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.latest = Vec::new();
    }
}

/// How many changes are noted of so many workers.
fn latest_of(workers: usize) -> usize {
    if workers > SMALL_MAX { workers.div_ceil(BLOCK).next_power_of_two().max(LATEST_MIN) } else { 0 }
}

/// Which picture somebody has seen, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    picture: Option<Arc<()>>,
    count: u64,
}

impl Seen {
    /// None has been seen.
    pub(crate) const NOTHING: Self = Self { picture: None, count: 0 };
}

/// What tells a picture from all others: an allocation, whose address no other can have while anybody
/// remembers it. A small picture needs none.
#[derive(Debug, Default)]
struct Identity(Option<Arc<()>>);

impl Identity {
    fn establish(&mut self) {
        self.0.get_or_insert_with(|| Arc::new(()));
    }

    fn is(&self, seen: &Seen) -> bool {
        match (&self.0, &seen.picture) {
            (Some(own), Some(picture)) => Arc::ptr_eq(own, picture),
            _ => false,
        }
    }
}

impl Clone for Identity {
    /// A copy goes its own way, and so has an identity of its own.
    fn clone(&self) -> Self {
        Self(self.0.as_ref().map(|_| Arc::new(())))
    }
}

/// One fact about every worker. Everybody may read it, and only who has a [`Place`] may write.
#[derive(Clone, Debug)]
pub(super) struct Column<T>(Vec<T>);

impl<T> Column<T> {
    pub(super) fn reserve(&mut self, more: usize) {
        self.0.reserve(more);
    }

    #[inline]
    pub(super) fn set(&mut self, place: Place, fact: T) {
        self.0[place.0] = fact;
    }

    pub(super) fn push(&mut self, _end: Place, fact: T) {
        self.0.push(fact);
    }

    pub(super) fn remove(&mut self, _end: Place, at: usize) {
        self.0.remove(at);
    }

    pub(super) fn truncate(&mut self, end: Place) {
        self.0.truncate(end.0);
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for Column<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;
    use crate::view::{Views, WorkerState, WorkerView};
    use alloc::vec;

    const MANY: usize = 20 * BLOCK + 1;

    fn crew(workers: usize) -> Views {
        let mut views = Views::default();
        (0..workers).for_each(|_| views.push(WorkerView::default()));
        views
    }

    fn seen(workers: &Views) -> Seen {
        let mut seen = Seen::NOTHING;
        workers.see(&mut seen);
        seen
    }

    fn changed(workers: &Views, seen: &Seen) -> Option<Vec<usize>> {
        workers.changed_since(seen).map(Iterator::collect)
    }

    #[test]
    fn every_way_to_change_a_row_is_noticed() {
        let ways: [fn(&mut Views, usize); 7] = [
            |workers, at| workers.set_state(at, WorkerState::Busy),
            |workers, at| workers.set_load(at, 1, 2),
            |workers, at| workers.set_completed(at, 3),
            |workers, at| workers.set_run_time(at, 4, 5),
            |workers, at| workers.set_utilisation(at, 6),
            |workers, at| workers.set_weight(at, 7),
            |workers, at| workers.set_idle_since(at, Moment::from_nanos(8)),
        ];
        let mut workers = crew(MANY);
        for (way, change) in ways.into_iter().enumerate() {
            for at in [0, BLOCK - 1, BLOCK, MANY - 1] {
                let before = seen(&workers);
                assert_eq!(changed(&workers, &before), Some(vec![]));
                change(&mut workers, at);
                assert_eq!(changed(&workers, &before), Some(vec![at / BLOCK]), "way {way}");
                change(&mut workers, at);
                assert_eq!(changed(&workers, &before), Some(vec![at / BLOCK]), "twice in the same block");
            }
        }
    }

    #[test]
    fn whoever_has_missed_too_many_changes_is_told_so_and_no_sooner() {
        let mut workers = crew(MANY);
        let before = seen(&workers);
        for missed in 1..=LATEST_MIN {
            workers.set_completed((missed % 2) * BLOCK, missed as u64);
            let blocks = changed(&workers, &before).expect("they are still known");
            assert_eq!(blocks.len(), missed);
            assert!(blocks.iter().zip(1..).all(|(block, n)| *block == n % 2), "{blocks:?}");
        }
        workers.set_completed(0, 0);
        assert_eq!(changed(&workers, &before), None);
        assert!(workers.is_crew_of(&before), "though nobody has come or gone");
    }

    #[test]
    fn who_comes_or_goes_makes_everything_new() {
        let mut workers = crew(MANY);
        let ways: [fn(&mut Views); 5] = [
            |workers| workers.push(WorkerView::default()),
            |workers| assert!(workers.pop().is_some()),
            |workers| workers.remove(7),
            |workers| workers.truncate(MANY - 9),
            |workers| {
                // Small for a while, and as large as before in the end.
                let len = workers.len();
                workers.truncate(3);
                workers.set_load(0, 1, 1);
                (3..len).for_each(|_| workers.push(WorkerView::default()));
            },
        ];
        for change in ways {
            let before = seen(&workers);
            change(&mut workers);
            assert!(workers.notes_changes());
            assert!(!workers.is_crew_of(&before));
            assert_eq!(changed(&workers, &before), None);
            assert_eq!(changed(&workers, &seen(&workers)), Some(vec![]));
        }
    }

    #[test]
    fn a_picture_is_not_taken_for_its_copy_nor_for_one_in_its_place() {
        let mut workers = crew(MANY);
        let before = seen(&workers);
        let mut copy = workers.clone();
        assert_eq!(changed(&copy, &before), None);
        core::mem::swap(&mut workers, &mut copy);
        assert_eq!(changed(&workers, &before), None, "the copy stands where it stood");
        assert_eq!(changed(&copy, &before), Some(vec![]), "and it is known wherever it stands");
        copy.clone_from(&workers);
        assert_eq!(changed(&copy, &before), None, "what was written over is gone");
        workers = crew(MANY);
        assert_eq!(changed(&workers, &before), None);
        assert_eq!(changed(&workers, &Seen::NOTHING), None);
    }

    #[test]
    fn a_small_picture_is_never_known() {
        for mut workers in [crew(0), crew(1), crew(SMALL_MAX), Views::with_capacity(MANY)] {
            let before = seen(&workers);
            assert!(!workers.notes_changes() && !workers.is_crew_of(&before));
            assert_eq!(changed(&workers, &before), None);
            workers.truncate(usize::MAX);
            assert_eq!(changed(&workers, &seen(&workers)), None);
        }
        assert!(crew(SMALL_MAX + 1).notes_changes());
    }
}
