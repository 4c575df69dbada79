//! What is wrong with a setting: its name, what is allowed, and what came.
//!
//! Every policy checks its settings as a whole before its first decision, so that no decision meets what cannot work.

use alloc::string::String;
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
