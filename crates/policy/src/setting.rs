//! What is wrong with a setting: its name, what is allowed, and what came.
//!
//! Every policy checks its settings as a whole before its first decision, so that no decision meets what cannot work.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

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
    fn names_are_as_far_apart_as_letters_must_be_changed() {
        assert_eq!((edits("", "abc"), edits("abc", "abc"), edits("kitten", "sitting")), (3, 0, 3));
    }
}
