//! What is wrong with a setting: its name, what is allowed, and what came.
//!
//! Every policy checks its settings as a whole before its first decision, so that no decision meets what cannot work.

use alloc::fmt;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// The setting, as it is written: `scaling.workers_min`.
    pub setting: &'static str,
    /// What is allowed, in words: `1 to workers_max (8)`, or a list of names.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.setting, self.expected, self.got)
    }
}

impl core::error::Error for BadSetting {}

/// What a check answers with when a setting cannot work: words, or only that it cannot.
///
/// Words take code to make, above all those of numbers with a point: a third of the module for JavaScript, which has
/// its own words. A check that answers with `()` makes none, and nothing of it is left in the program.
pub(crate) trait Complaint {
    fn about(setting: &'static str, expected: fmt::Arguments<'_>, got: fmt::Arguments<'_>) -> Self;
}

impl Complaint for BadSetting {
    #[cold]
    fn about(setting: &'static str, expected: fmt::Arguments<'_>, got: fmt::Arguments<'_>) -> Self {
        Self { setting, expected: fmt::format(expected), got: fmt::format(got) }
    }
}

impl Complaint for () {
    #[inline]
    fn about(_: &'static str, _: fmt::Arguments<'_>, _: fmt::Arguments<'_>) -> Self {}
}

/// How many letters of an unknown name an error shows.
const NAME_SHOWN_MAX: usize = 64;

/// A name that is none of `names`: the error lists them, and the one that was probably meant.
pub(crate) fn unknown_name(setting: &'static str, names: &[&str], got: &str) -> BadSetting {
    // A name of any length may come from outside, and the message should stay readable.
    let shown: String = got.chars().take(NAME_SHOWN_MAX).collect();
    // Whoever gets more than a third of a name wrong meant something else.
    let near =
        names.iter().map(|name| (edits(name, &shown), name)).filter(|(edits, name)| edits * 3 <= name.len());
    let hint = near.min().map_or(String::new(), |(_, name)| format!("; did you mean {name:?}?"));
    BadSetting { setting, expected: format!("one of {}", names.join(", ")), got: format!("{shown:?}{hint}") }
}

/// How many letters must be put in, taken out or changed to make one of the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (down, letter) in one.chars().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], down + 1);
        for (right, other_letter) in other.chars().enumerate() {
            let changed = diagonal + usize::from(letter != other_letter);
            diagonal = row[right + 1];
            row[right + 1] = changed.min(diagonal + 1).min(row[right] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_without_words_refuses_what_a_check_with_words_does() {
        use crate::affinity::{Affinity, AffinitySettings, Sticky};
        use crate::scale::{ScaleSettings, Scaler};
        use core::time::Duration;
        let [good, bad] = [3, 0].map(|workers_max| ScaleSettings { workers_max, ..ScaleSettings::default() });
        let mut scaler = Scaler::new_silently(good).expect("they can work");
        assert!(Scaler::new(bad).is_err() && Scaler::new_silently(bad).is_none());
        assert!(!scaler.set_silently(bad) && scaler.settings() == &good, "what was set stays");
        assert!(scaler.set_silently(ScaleSettings::default()));
        let bad = AffinitySettings { probes: 0, ..AffinitySettings::default() };
        assert!(Affinity::new(&bad).is_err() && Affinity::new_silently(&bad).is_none());
        assert!(Affinity::new_silently(&AffinitySettings::default()).is_some());
        assert!(
            Sticky::new_silently(0, Duration::MAX).is_none()
                && Sticky::new_silently(1, Duration::MAX).is_some()
        );
    }

    #[test]
    fn names_are_as_far_apart_as_letters_must_be_changed() {
        assert_eq!((edits("", "abc"), edits("abc", "abc"), edits("kitten", "sitting")), (3, 0, 3));
    }
}
