//! What a `Gate` answers when it takes nothing in, or has nothing to give.
//!
//! A refusal hands the value back, so nothing is lost by trying.

use core::fmt;

/// Why a value was not taken in. It comes back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<T> {
    /// The gate is full, and the caller would not wait.
    Full(T),
    /// The gate was full for as long as the caller would wait.
    TimedOut(T),
    /// The gate is closed and will never take another value.
    Closed(T),
}

impl<T> Refusal<T> {
    /// The value that was refused.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::TimedOut(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> fmt::Display for Refusal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "gate is full; try again later or raise its capacity",
            Self::TimedOut(_) => "gate stayed full for the whole wait; try again later or raise its capacity",
            Self::Closed(_) => "gate is closed; it takes nothing more",
        })
    }
}

impl<T: fmt::Debug> core::error::Error for Refusal<T> {}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// The gate is empty, and the caller would not wait.
    Empty,
    /// The gate was empty for as long as the caller would wait.
    TimedOut,
    /// The gate is closed and drained: there will never be another value.
    Closed,
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "gate is empty",
            Self::TimedOut => "gate stayed empty for the whole wait",
            Self::Closed => "gate is closed and drained",
        })
    }
}

impl core::error::Error for NoValue {}
