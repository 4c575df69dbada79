//! What a strategy remembers of each worker, in the order of the picture.
//!
//! With the notes in the same order as the columns, a strategy goes through both side by side and looks nothing up.
//! When the picture has changed, the notes are put in its order again, and a worker that is new finds a blank note.
//!
//! Notes need memory, and choosing may not allocate. So memory is taken when a worker is announced
//! ([`Roster::expect_one`]). A picture with more workers than were announced is no error: the last of them have no
//! notes, and the strategy does without.

use alloc::vec::Vec;

/// A note for each worker, in the order of the picture; perhaps none for the last of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster<T> {
    ids: Vec<u32>,
    notes: Vec<T>,
    /// So many workers were announced and have not gone.
    expected: usize,
}

impl<T: Copy> Roster<T> {
    pub(crate) const fn new() -> Self {
        Self { ids: Vec::new(), notes: Vec::new(), expected: 0 }
    }

    /// A worker has come: makes room for its note.
    pub(crate) fn expect_one(&mut self) {
        self.expected += 1;
        let more = self.expected.saturating_sub(self.ids.len());
        self.ids.reserve(more);
        self.notes.reserve(more);
    }

    /// A worker has gone: drops its note, and keeps the others in order.
    pub(crate) fn forget(&mut self, id: u32) {
        self.expected = self.expected.saturating_sub(1);
        if let Some(at) = self.ids.iter().position(|known| *known == id) {
            self.ids.remove(at);
            self.notes.remove(at);
        }
    }

    /// Drops all notes, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.notes.clear();
        self.expected = 0;
    }

    /// Brings the notes into the order of `ids`, with a blank one for each worker that is new. Says whether anything
    /// has changed. Quick if not; else every worker that stands elsewhere is looked for.
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

    fn room(&self) -> usize {
        self.ids.capacity().min(self.notes.capacity())
    }

    /// Puts the note of `id` at `at`; everybody before stands right already.
    fn bring(&mut self, id: u32, at: usize, blank: T) {
        let found = self.ids.iter().skip(at).position(|known| *known == id).map(|ahead| at + ahead);
        let from = match found {
            Some(from) => from,
            None if self.ids.len() < self.room() => {
                self.ids.push(id);
                self.notes.push(blank);
                self.ids.len() - 1
            }
            // There is no room for one more, so whoever stands here has gone, or will be new when its turn comes.
            None => {
                self.ids[at] = id;
                self.notes[at] = blank;
                at
            }
        };
        self.ids.swap(at, from);
        self.notes.swap(at, from);
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
