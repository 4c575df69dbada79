//! How many were answered and how many refused in the last minute, from counters that only ever grow.
//!
//! Once a second somebody writes down where the counters stand, and a minute is the difference to the latest
//! note that is at least so old. The front does it while it looks around, so nothing on the way of a request
//! pays for it. Before the first minute is over, all there was counts.
//!
//! Not here: who is worth an alert (`stats.rs`).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How far back the window goes.
const WINDOW: Duration = Duration::from_secs(60);
/// How often the counters are written down.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// Where the counters stood at some time, or how much they grew since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Requests that were answered.
    pub(crate) answered: u64,
    /// Connections and requests that were not.
    pub(crate) refused: u64,
}

impl Counted {
    /// Which share of all was refused: 0 to 1.
    pub(crate) fn refused_share(self) -> f64 {
        let all = self.answered + self.refused;
        if all == 0 { 0.0 } else { self.refused as f64 / all as f64 }
    }
}

/// Notes of the last minute, oldest first. About 60 of them.
#[derive(Debug, Default)]
pub(crate) struct Minute {
    /// When, since the start of the door, and where the counters stood.
    notes: Mutex<VecDeque<(Duration, Counted)>>,
}

impl Minute {
    /// Writes down where the counters stand, unless that was done within the last second.
    pub(crate) fn note(&self, now: Duration, stand: Counted) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.back().is_some_and(|(at, _)| now < *at + NOTE_INTERVAL) {
            return;
        }
        notes.push_back((now, stand));
        // The first note is the one that counts; it goes when the second is old enough.
        while notes.get(1).is_some_and(|(at, _)| *at + WINDOW <= now) {
            notes.pop_front();
        }
    }

    /// How much the counters, which stand here now, grew in the last minute.
    pub(crate) fn last(&self, now: Duration, stand: Counted) -> Counted {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = notes.iter().rev().find(|(at, _)| *at + WINDOW <= now);
        let before = before.map_or_else(Counted::default, |(_, stand)| *stand);
        Counted {
            answered: stand.answered.saturating_sub(before.answered),
            refused: stand.refused.saturating_sub(before.refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn counted(answered: u64, refused: u64) -> Counted {
        Counted { answered, refused }
    }

    #[test]
    fn what_is_older_than_a_minute_no_longer_counts() {
        let minute = Minute::default();
        minute.note(at(10.0), counted(100, 50));
        assert_eq!(minute.last(at(69.0), counted(300, 60)), counted(300, 60), "the first minute is not over");
        assert_eq!(minute.last(at(70.0), counted(300, 60)), counted(200, 10));
        minute.note(at(20.0), counted(150, 60));
        assert_eq!(minute.last(at(80.0), counted(300, 60)), counted(150, 0));
    }

    #[test]
    fn notes_are_a_second_apart_and_never_more_than_a_minute_of_them() {
        let minute = Minute::default();
        for quarter in 0..4000_u32 {
            minute.note(at(f64::from(quarter) / 4.0), counted(quarter.into(), 0));
        }
        let notes = minute.notes.lock().unwrap();
        assert_eq!(notes.len(), 61);
        assert_eq!((notes[0].0, notes[60].0), (at(939.0), at(999.0)));
        drop(notes);
        assert_eq!(minute.last(at(999.0), counted(3996, 0)), counted(240, 0));
    }

    #[test]
    fn a_pause_in_the_notes_makes_the_window_longer_and_never_empty() {
        let minute = Minute::default();
        minute.note(at(0.0), counted(0, 0));
        minute.note(at(100.0), counted(10, 10));
        assert_eq!(minute.last(at(100.0), counted(10, 10)), counted(10, 10));
        minute.note(at(400.0), counted(11, 30));
        assert_eq!(minute.last(at(400.0), counted(12, 40)), counted(2, 30));
    }

    #[test]
    fn a_share_is_of_all_who_asked_and_nobody_is_none() {
        assert_eq!(counted(3, 1).refused_share(), 0.25);
        assert_eq!(counted(0, 7).refused_share(), 1.0);
        assert_eq!(counted(0, 0).refused_share(), 0.0);
    }
}
