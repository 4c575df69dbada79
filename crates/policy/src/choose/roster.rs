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

use crate::view::WorkerState;
use alloc::vec::Vec;

/// A note for each worker, in the order of the picture; perhaps none for the last of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster<T> {
    ids: Vec<u32>,
    notes: Vec<T>,
    /// Whether each took tasks when [`Roster::settle`] was last called.
    in_crew: Vec<bool>,
    /// So many workers were announced and have not gone.
    expected: usize,
}

impl<T: Copy> Roster<T> {
    pub(crate) const fn new() -> Self {
        Self { ids: Vec::new(), notes: Vec::new(), in_crew: Vec::new(), expected: 0 }
    }

    /// A worker has come: makes room for its note.
    pub(crate) fn expect_one(&mut self) {
        self.expected += 1;
        let more = self.expected.saturating_sub(self.ids.len());
        self.ids.reserve(more);
        self.notes.reserve(more);
        self.in_crew.reserve(more);
    }

    /// A worker has gone: drops its note, and keeps the others in order.
    pub(crate) fn forget(&mut self, id: u32) {
        self.expected = self.expected.saturating_sub(1);
        if let Some(at) = self.ids.iter().position(|known| *known == id) {
            self.ids.remove(at);
            self.notes.remove(at);
            self.in_crew.remove(at);
        }
    }

    /// Drops all notes, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.notes.clear();
        self.in_crew.clear();
        self.expected = 0;
    }

    /// Brings the notes into the order of `ids`, with a blank one for each worker that is new. Says whether
    /// anything has changed. Quick if not; else every worker that stands elsewhere is looked for.
    pub(crate) fn align(&mut self, ids: &[u32], blank: T) -> bool {
        // More workers than there is room for: those that have notes are the first ones.
        let with_notes = ids.len().min(self.room());
        if self.ids == ids[..with_notes] {
            return false;
        }
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
        &mut self.notes
    }

    /// The note for a worker, if it stands where it is expected.
    pub(crate) fn note(&self, at: usize, id: u32) -> Option<&T> {
        if *self.ids.get(at)? == id { self.notes.get(at) } else { None }
    }

    /// Whether those that take tasks now, and nobody else, did so when the crew was last settled.
    pub(crate) fn is_settled(&self, states: &[WorkerState]) -> bool {
        let differ = |(was, state): (&bool, &WorkerState)| *was != state.takes_tasks();
        !self.in_crew.iter().zip(states).fold(false, |any, pair| any | differ(pair))
    }

    /// The places and notes of those that took tasks when the crew was last settled, and still do.
    pub(crate) fn crew<'a>(&'a self, states: &'a [WorkerState]) -> impl Iterator<Item = (usize, &'a T)> {
        let all = self.notes.iter().zip(&self.in_crew).zip(states).enumerate();
        all.filter(|(_, ((_, was), state))| **was && state.takes_tasks())
            .map(|(at, ((note, _), _))| (at, note))
    }

    /// Makes those that take tasks the crew, and writes the note of each that joins it.
    pub(crate) fn settle(&mut self, states: &[WorkerState], mut join: impl FnMut(usize) -> T) {
        for (at, state) in states.iter().enumerate().take(self.notes.len()) {
            if state.takes_tasks() && !self.in_crew[at] {
                self.notes[at] = join(at);
            }
            self.in_crew[at] = state.takes_tasks();
        }
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

    fn announced(workers: usize) -> Roster<u32> {
        let mut roster = Roster::new();
        (0..workers).for_each(|_| roster.expect_one());
        roster
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
        assert!(roster.align(&[1, 2, 3, 4], 0));
        write(&mut roster, &[1, 2, 3, 4]);
        assert!(!roster.align(&[1, 2, 3, 4], 0), "nothing has changed");
        assert!(roster.align(&[2, 3, 4], 0), "the first has gone, and nobody said so");
        assert_eq!(roster.notes(), [20, 30, 40]);
        assert!(roster.align(&[4, 5, 2], 0), "another order, one gone and one new");
        assert_eq!(roster.notes(), [40, 0, 20]);
        roster.forget(4);
        assert!(!roster.align(&[5, 2], 0), "the one that was reported gone left the others in order");
        assert_eq!(roster.note(1, 2), Some(&20));
        assert_eq!(roster.note(1, 5), None);
    }

    #[test]
    fn whoever_begins_to_take_tasks_joins_the_crew_and_nobody_else() {
        use WorkerState::{Busy, Cold, Ready, Terminating};
        let mut roster = announced(3);
        roster.align(&[1, 2, 3], 0);
        roster.settle(&[Ready, Cold, Busy], |at| at as u32 + 10);
        assert_eq!(roster.notes(), [10, 0, 12], "a cold worker is no part of the crew yet");
        assert!(roster.is_settled(&[Busy, Cold, Ready]), "to be busy or not makes no difference");
        let now = [Terminating, Ready, Busy];
        assert!(!roster.is_settled(&now));
        assert!(roster.crew(&now).eq([(2, &12)]), "one has left, one has not joined yet");
        roster.settle(&now, |at| at as u32 + 20);
        assert_eq!(roster.notes(), [10, 21, 12]);
        roster.align(&[2, 4, 3], 0);
        assert!(roster.crew(&[Ready; 3]).eq([(0, &21), (2, &12)]), "a newcomer has not joined either");
    }

    #[test]
    fn workers_that_were_not_announced_get_no_memory() {
        let mut roster = announced(2);
        let room = roster.room();
        let many: Vec<u32> = (0..room as u32 + 7).collect();
        roster.align(&many, 0);
        write(&mut roster, &many);
        assert_eq!((roster.notes().len(), roster.room()), (room, room));
        let moved: Vec<u32> = many.iter().rev().copied().collect();
        roster.align(&moved, 1);
        assert_eq!((roster.notes().len(), roster.room()), (room, room));
        assert_eq!(roster.note(room - 1, moved[room - 1]), Some(&roster.notes()[room - 1]));
    }
}
