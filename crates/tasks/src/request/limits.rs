//! How much a request may ask for: the bounds on its size, its shape and its numbers.
//!
//! A door checks its limits once, when it starts, and then hands them to every parse. All of them are
//! settings, because a daemon on a small board and one behind a trusted socket want different ones.
//!
//! Not here: limits on queues and results, which belong to whoever holds those.

use std::error::Error;
use std::fmt;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The bounds of one request, and of one batch of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The whole request: 64 bytes to 64 MiB.
    pub request_bytes_max: u64,
    /// Objects and arrays inside each other, the request itself counted: 2 to 100.
    pub depth_max: u64,
    /// One string or key, as written between its quotes: 1 byte to 64 MiB.
    pub string_bytes_max: u64,
    /// The value of `args`, as written: 2 bytes to 64 MiB.
    pub args_bytes_max: u64,
    /// The longest `timeout_ms`: 1 ms to a year.
    pub timeout_ms_max: u64,
    /// The longest `delay_ms`, and how far away `run_at` may be: 0 to a year.
    pub delay_ms_max: u64,
    /// The longest `expires_ms`: 1 ms to a year.
    pub expires_ms_max: u64,
    /// The most `retries`: 0 to 1000.
    pub retries_max: u64,
    /// The lines that ask for something in one stream: 1 or more.
    pub batch_lines_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes_max: MIB,
            depth_max: 32,
            string_bytes_max: 256 * KIB,
            args_bytes_max: MIB,
            timeout_ms_max: DAY_MS,
            delay_ms_max: 30 * DAY_MS,
            expires_ms_max: 30 * DAY_MS,
            retries_max: 100,
            batch_lines_max: 1_000_000,
        }
    }
}

impl Limits {
    /// Whether every limit is one this crate can keep.
    pub fn check(&self) -> Result<(), LimitsError> {
        let year = 365 * DAY_MS;
        let bounds = [
            ("request_bytes_max", self.request_bytes_max, 64, 64 * MIB),
            // The parser behind this crate stops at 128, with a message that says less.
            ("depth_max", self.depth_max, 2, 100),
            ("string_bytes_max", self.string_bytes_max, 1, 64 * MIB),
            ("args_bytes_max", self.args_bytes_max, 2, 64 * MIB),
            ("timeout_ms_max", self.timeout_ms_max, 1, year),
            ("delay_ms_max", self.delay_ms_max, 0, year),
            ("expires_ms_max", self.expires_ms_max, 1, year),
            ("retries_max", self.retries_max, 0, 1000),
            ("batch_lines_max", self.batch_lines_max, 1, u64::MAX),
        ];
        match bounds.into_iter().find(|(_, got, min, max)| !(min..=max).contains(&got)) {
            Some((name, got, min, max)) => Err(LimitsError { name, got, min, max }),
            None => Ok(()),
        }
    }
}

/// A limit that is itself out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsError {
    /// Which field of [`Limits`].
    pub name: &'static str,
    /// What it says.
    pub got: u64,
    /// The least it may say.
    pub min: u64,
    /// The most it may say.
    pub max: u64,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, got, min, max } = self;
        write!(formatter, "{name}: expected {min} to {max}, got {got}")
    }
}

impl Error for LimitsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_own_bounds() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn a_limit_out_of_bounds_is_named() {
        let message = |limits: Limits| limits.check().unwrap_err().to_string();
        let deep = Limits { depth_max: 101, ..Limits::default() };
        assert_eq!(message(deep), "depth_max: expected 2 to 100, got 101");
        let small = Limits { request_bytes_max: 63, ..Limits::default() };
        assert_eq!(message(small), "request_bytes_max: expected 64 to 67108864, got 63");
        let empty = Limits { batch_lines_max: 0, ..Limits::default() };
        assert_eq!(message(empty), "batch_lines_max: expected 1 to 18446744073709551615, got 0");
    }
}
