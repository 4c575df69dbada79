//! What a strategy remembers of each worker, in the order of the picture.
//!
//! With the notes in the same order as the columns, a strategy goes through both side by side and looks
//! nothing up. When the picture has changed, the notes are put in its order again, and a worker that is new
//! finds a blank note. The roster also knows who belongs to the crew, that is, takes tasks: one that joins
//! may have to be made level with it.
//!
//! Notes need memory, and choosing may not allocate. So memory is taken when a worker is announced
//! ([`Roster::expect_one`]). A picture with more workers than were announced is no error: the last of them
//! have no notes, and the strategy does without.
//!
//! Of a large picture it is known what has changed; while nobody has come or gone the notes stand right,
//! and only those that may have changed are asked whether they belong to the crew.

use crate::view::{Seen, Views, WorkerState, places_of};
use alloc::vec::Vec;
use core::ops::Range;

/// A note for each worker, in the order of the picture; perhaps none for the last of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster<T> {
    ids: Vec<u32>,
    notes: Vec<T>,
    /// Whether each took tasks when [`Roster::settle`] was last called.
    in_crew: Vec<bool>,
    /// So many workers were announced and have not gone.
    expected: usize,
    /// Grows whenever a note may have changed or moved.
    revision: u64,
    /// The picture in whose order the notes stand.
    aligned: Seen,
    /// The picture of which `in_crew` is true.
    settled: Seen,
}

impl<T: Copy> Roster<T> {
    pub(crate) const fn new() -> Self {
        Self {
            ids: Vec::new(),
            notes: Vec::new(),
            in_crew: Vec::new(),
            expected: 0,
            revision: 0,
            aligned: Seen::NOTHING,
            settled: Seen::NOTHING,
        }
    }

    /// A worker has come: makes room for its note.
    pub(crate) fn expect_one(&mut self) {
        self.changes();
        self.expected += 1;
        let more = self.expected.saturating_sub(self.ids.len());
        self.ids.reserve(more);
        self.notes.reserve(more);
        self.in_crew.reserve(more);
    }

    /// A worker has gone: drops its note, and keeps the others in order.
    pub(crate) fn forget(&mut self, id: u32) {
        self.changes();
        self.expected = self.expected.saturating_sub(1);
        if let Some(at) = self.ids.iter().position(|known| *known == id) {
            self.ids.remove(at);
            self.notes.remove(at);
            self.in_crew.remove(at);
        }
    }

    /// Drops all notes, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.changes();
        self.ids.clear();
        self.notes.clear();
        self.in_crew.clear();
        self.expected = 0;
    }

    /// Brings the notes into the order of the picture, with a blank one for each worker that is new. Says
    /// whether anything has changed. Quick if not; else every worker that stands elsewhere is looked for.
    pub(crate) fn align(&mut self, workers: &Views, blank: T) -> bool {
        if workers.is_crew_of(&self.aligned) {
            return false;
        }
        let has_changed = self.align_to(workers.ids(), blank);
        workers.see(&mut self.aligned);
        has_changed
    }

    fn align_to(&mut self, ids: &[u32], blank: T) -> bool {
        // More workers than there is room for: those that have notes are the first ones.
        let with_notes = ids.len().min(self.room());
        if self.ids == ids[..with_notes] {
            return false;
        }
        self.changes();
        for (at, id) in ids[..with_notes].iter().enumerate() {
            self.bring(*id, at, blank);
        }
        self.ids.truncate(with_notes);
        self.notes.truncate(with_notes);
        self.in_crew.truncate(with_notes);
        true
    }

    /// The notes. There may be fewer than workers.
    pub(crate) fn notes(&self) -> &[T] {
        &self.notes
    }

    /// The same, to be changed.
    pub(crate) fn notes_mut(&mut self) -> &mut [T] {
        self.changes();
        &mut self.notes
    }

    /// As long as this is the same, so are the notes.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The note for a worker, if it stands where it is expected.
    pub(crate) fn note(&self, at: usize, id: u32) -> Option<&T> {
        if *self.ids.get(at)? == id { self.notes.get(at) } else { None }
    }

    /// Whether those that take tasks now, and nobody else, did so when the crew was last settled.
    pub(crate) fn is_settled(&mut self, workers: &Views) -> bool {
        let states = workers.states();
        let is_settled = match workers.changed_since(&self.settled) {
            Some(mut changed) => {
                changed.all(|block| self.is_settled_at(places_of(block, states.len()), states))
            }
            None => self.is_settled_at(0..states.len(), states),
        };
        if is_settled {
            workers.see(&mut self.settled);
        }
        is_settled
    }

    fn is_settled_at(&self, places: Range<usize>, states: &[WorkerState]) -> bool {
        let noted = places.start.min(self.in_crew.len())..places.end.min(self.in_crew.len());
        let differ = |(was, state): (&bool, &WorkerState)| *was != state.takes_tasks();
        !self.in_crew[noted].iter().zip(&states[places]).fold(false, |any, pair| any | differ(pair))
    }

    /// The places and notes of those that took tasks when the crew was last settled, and still do.
    pub(crate) fn crew<'a>(&'a self, states: &'a [WorkerState]) -> impl Iterator<Item = (usize, &'a T)> {
        let all = self.notes.iter().zip(&self.in_crew).zip(states).enumerate();
        all.filter(|(_, ((_, was), state))| **was && state.takes_tasks())
            .map(|(at, ((note, _), _))| (at, note))
    }

    /// Makes those that take tasks the crew, and writes the note of each that joins it.
    pub(crate) fn settle(&mut self, workers: &Views, mut join: impl FnMut(usize) -> T) {
        self.changes();
        for (at, state) in workers.states().iter().enumerate().take(self.notes.len()) {
            if state.takes_tasks() && !self.in_crew[at] {
                self.notes[at] = join(at);
            }
            self.in_crew[at] = state.takes_tasks();
        }
    }

    /// Told before anything above is written to: what was known of the notes is no longer.
    fn changes(&mut self) {
        self.revision += 1;
        self.aligned = Seen::NOTHING;
        self.settled = Seen::NOTHING;
    }

    fn room(&self) -> usize {
        self.ids.capacity().min(self.notes.capacity()).min(self.in_crew.capacity())
    }

    /// Puts the note of `id` at `at`; everybody before stands right already.
    fn bring(&mut self, id: u32, at: usize, blank: T) {
        let found = self.ids.iter().skip(at).position(|known| *known == id).map(|ahead| at + ahead);
        let from = match found {
            Some(from) => from,
            None if self.ids.len() < self.room() => {
                self.ids.push(id);
                self.notes.push(blank);
                self.in_crew.push(false);
                self.ids.len() - 1
            }
            // There is no room for one more, so whoever stands here has gone, or will be new when its turn
            // comes.
            None => {
                self.ids[at] = id;
                self.notes[at] = blank;
                self.in_crew[at] = false;
                at
            }
        };
        self.ids.swap(at, from);
        self.notes.swap(at, from);
        self.in_crew.swap(at, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::WorkerView;

    fn announced(workers: usize) -> Roster<u32> {
        let mut roster = Roster::new();
        (0..workers).for_each(|_| roster.expect_one());
        roster
    }

    fn picture(workers: impl IntoIterator<Item = (u32, WorkerState)>) -> Views {
        let mut views = Views::default();
        for (id, state) in workers {
            views.push(WorkerView { id, state, ..WorkerView::default() });
        }
        views
    }

    fn ready(ids: &[u32]) -> Views {
        picture(ids.iter().map(|id| (*id, WorkerState::Ready)))
    }

    /// Workers 1, 2 and 3.
    fn three(states: [WorkerState; 3]) -> Views {
        picture((1..).zip(states))
    }

    /// Writes ten times its number into the note of each.
    fn write(roster: &mut Roster<u32>, ids: &[u32]) {
        for (note, id) in roster.notes_mut().iter_mut().zip(ids) {
            *note = id * 10;
        }
    }

    #[test]
    fn notes_follow_their_workers_when_the_picture_changes() {
        let mut roster = announced(4);
        assert!(roster.align(&ready(&[1, 2, 3, 4]), 0));
        write(&mut roster, &[1, 2, 3, 4]);
        assert!(!roster.align(&ready(&[1, 2, 3, 4]), 0), "nothing has changed");
        assert!(roster.align(&ready(&[2, 3, 4]), 0), "the first has gone, and nobody said so");
        assert_eq!(roster.notes(), [20, 30, 40]);
        assert!(roster.align(&ready(&[4, 5, 2]), 0), "another order, one gone and one new");
        assert_eq!(roster.notes(), [40, 0, 20]);
        roster.forget(4);
        assert!(!roster.align(&ready(&[5, 2]), 0), "the one that was reported gone left the others in order");
        assert_eq!(roster.note(1, 2), Some(&20));
        assert_eq!(roster.note(1, 5), None);
    }

    #[test]
    fn whoever_begins_to_take_tasks_joins_the_crew_and_nobody_else() {
        use WorkerState::{Busy, Cold, Ready, Terminating};
        let mut roster = announced(3);
        roster.align(&three([Ready; 3]), 0);
        roster.settle(&three([Ready, Cold, Busy]), |at| at as u32 + 10);
        assert_eq!(roster.notes(), [10, 0, 12], "a cold worker is no part of the crew yet");
        assert!(roster.is_settled(&three([Busy, Cold, Ready])), "to be busy or not makes no difference");
        let now = three([Terminating, Ready, Busy]);
        assert!(!roster.is_settled(&now));
        assert!(roster.crew(now.states()).eq([(2, &12)]), "one has left, one has not joined yet");
        roster.settle(&now, |at| at as u32 + 20);
        assert_eq!(roster.notes(), [10, 21, 12]);
        roster.align(&ready(&[2, 4, 3]), 0);
        assert!(roster.crew(&[Ready; 3]).eq([(0, &21), (2, &12)]), "a newcomer has not joined either");
    }

    #[test]
    fn in_a_large_crew_too_one_who_leaves_or_joins_is_noticed() {
        let ids: Vec<u32> = (0..1_000).collect();
        let mut roster = announced(1_000);
        let mut workers = ready(&ids);
        roster.align(&workers, 0);
        roster.settle(&workers, |_| 1);
        assert!(roster.is_settled(&workers));
        for at in [0, 500, 999] {
            workers.set_load(at, 1, 1);
            assert!(roster.is_settled(&workers), "to have tasks makes no difference");
            workers.set_state(at, WorkerState::Terminating);
            assert!(!roster.is_settled(&workers), "worker {at} has left");
            assert!(!roster.is_settled(&workers), "and is still away");
            roster.settle(&workers, |_| 2);
            assert!(roster.is_settled(&workers));
        }
    }

    #[test]
    fn the_revision_grows_with_whatever_may_change_a_note() {
        type Act<'a> = &'a dyn Fn(&mut Roster<u32>);
        let workers = ready(&[1, 2, 3]);
        let mut roster = announced(3);
        let acts: [(&str, Act<'_>); 6] = [
            ("align", &|roster| assert!(roster.align(&workers, 0))),
            ("settle", &|roster| roster.settle(&workers, |_| 1)),
            ("notes_mut", &|roster| roster.notes_mut()[0] = 2),
            ("forget", &|roster| roster.forget(3)),
            ("expect_one", &|roster| roster.expect_one()),
            ("clear", &|roster| roster.clear()),
        ];
        for (name, act) in acts {
            let before = roster.revision();
            act(&mut roster);
            assert!(roster.revision() > before, "{name}");
        }
    }

    #[test]
    fn workers_that_were_not_announced_get_no_memory() {
        let mut roster = announced(2);
        let room = roster.room();
        let many: Vec<u32> = (0..room as u32 + 7).collect();
        roster.align(&ready(&many), 0);
        write(&mut roster, &many);
        assert_eq!((roster.notes().len(), roster.room()), (room, room));
        let moved: Vec<u32> = many.iter().rev().copied().collect();
        roster.align(&ready(&moved), 1);
        assert_eq!((roster.notes().len(), roster.room()), (room, room));
        assert_eq!(roster.note(room - 1, moved[room - 1]), Some(&roster.notes()[room - 1]));
    }
}
