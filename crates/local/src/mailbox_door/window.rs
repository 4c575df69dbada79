//! Lines that were read and have not all ended, and from that: where a restart must begin.
//!
//! Tasks end in any order. A file is done with up to the first line that has not ended; lines behind it that
//! have are remembered by number, so that a restart passes over them. How many lines stand here is bounded by
//! whoever reads.
//!
//! Not here: the file in which this is kept over a restart (`bookmark.rs`).

use std::collections::VecDeque;

/// Where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Bytes before it.
    pub(super) offset: u64,
    /// Its number, from 1.
    pub(super) line: u64,
}

impl Place {
    /// The start of a file.
    pub(super) const START: Self = Self { offset: 0, line: 1 };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    /// It will not be run by this process.
    Unrun,
    Ended,
}

/// The lines of one file from the first that has not ended to the last that was read. Blank ones are not
/// here.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// In the order of the file; the first has not ended.
    lines: VecDeque<(Place, Fate)>,
    under_way: usize,
}

impl Window {
    /// A line was read and is to be run.
    pub(super) fn begin(&mut self, place: Place) {
        self.lines.push_back((place, Fate::UnderWay));
        self.under_way += 1;
    }

    /// A line was read that had ended before.
    pub(super) fn pass_over(&mut self, place: Place) {
        if !self.lines.is_empty() {
            self.lines.push_back((place, Fate::Ended));
        }
    }

    /// A line has ended, and its answer is written.
    pub(super) fn end(&mut self, line: u64) {
        self.set(line, Fate::Ended);
        while self.lines.front().is_some_and(|(_, fate)| *fate == Fate::Ended) {
            self.lines.pop_front();
        }
    }

    /// A line will not be run any more; the next process will.
    pub(super) fn leave(&mut self, line: u64) {
        self.set(line, Fate::Unrun);
    }

    fn set(&mut self, line: u64, to: Fate) {
        let Ok(index) = self.lines.binary_search_by_key(&line, |(place, _)| place.line) else { return };
        let fate = &mut self.lines[index].1;
        if *fate == Fate::UnderWay {
            self.under_way -= 1;
            *fate = to;
        }
    }

    /// How many lines stand here.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// How many of them may still end.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Where a restart must begin, if it is before what was read.
    pub(super) fn restart(&self) -> Option<Place> {
        self.lines.front().map(|(place, _)| *place)
    }

    /// The lines behind that place that have ended: first and last numbers, with blank lines between them.
    pub(super) fn ended_behind(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut runs_on = false;
        for (place, fate) in &self.lines {
            let ended = *fate == Fate::Ended;
            match ranges.last_mut() {
                Some(last) if ended && runs_on => last.1 = place.line,
                _ if ended => ranges.push((place.line, place.line)),
                _ => (),
            }
            runs_on = ended;
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64) -> Place {
        Place { offset: line * 10, line }
    }

    #[test]
    fn a_restart_begins_at_the_first_line_that_has_not_ended() {
        let mut window = Window::default();
        assert_eq!(window.restart(), None);
        for line in [1, 2, 4, 5, 6, 7] {
            window.begin(place(line));
        }
        window.end(2);
        window.end(4);
        window.end(6);
        assert_eq!(window.restart(), Some(place(1)));
        assert_eq!(window.ended_behind(), [(2, 4), (6, 6)]);
        assert_eq!((window.len(), window.under_way()), (6, 3));
        window.end(1);
        assert_eq!(window.restart(), Some(place(5)));
        assert_eq!(window.ended_behind(), [(6, 6)]);
        window.leave(7);
        window.end(5);
        assert_eq!((window.restart(), window.under_way()), (Some(place(7)), 0));
        assert!(window.ended_behind().is_empty());
    }

    #[test]
    fn a_line_ends_once() {
        let mut window = Window::default();
        window.begin(place(1));
        window.begin(place(2));
        window.end(2);
        window.end(2);
        window.leave(2);
        window.end(9);
        assert_eq!((window.len(), window.under_way()), (2, 1));
    }

    #[test]
    fn lines_that_had_ended_before_are_remembered_only_behind_one_that_has_not() {
        let mut window = Window::default();
        window.pass_over(place(1));
        assert_eq!(window.len(), 0);
        window.begin(place(2));
        window.pass_over(place(3));
        assert_eq!(window.ended_behind(), [(3, 3)]);
        window.end(2);
        assert_eq!(window.len(), 0);
    }
}
