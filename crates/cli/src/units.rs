//! Times and numbers as people write and read them: `250us` in, `2.24 ms` and `200 000` out.
//!
//! Three digits are shown, since a simulation or a measurement seldom knows more. What is printed to be typed again is
//! exact.

use std::fmt::Write;
use std::time::Duration;

/// Units of time, the shortest first, with how many nanoseconds each has. `us` is how `µs` is typed.
const UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// What is shown of times below a nanosecond and above an hour stays in these units.
const SHOWN: &[(&str, f64)] =
    &[("h", 3600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)];

/// Reads `1ms`, `250us`, `1.5s`, `2m` or `1h`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let bad = || format!("expected a time such as 250us, 1ms, 1.5s, 2m or 1h, got {text:?}");
    let number_ends = text.find(|character: char| character.is_alphabetic()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(number_ends);
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
    let number: f64 = number.trim_end().parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * nanos / 1e9).map_err(|_| bad())
}

/// Three digits and a unit: `93.7 µs`.
pub(crate) fn time(nanos: f64) -> String {
    if nanos < 0.5 {
        return "0".to_owned();
    }
    let (unit, factor) = SHOWN.iter().find(|(_, factor)| nanos >= 0.9995 * factor).unwrap_or(&("ns", 1.0));
    let number = nanos / factor;
    let decimals = match number {
        _ if *unit == "ns" || number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$} {unit}")
}

/// A time as `parse_time` reads it, without loss.
pub(crate) fn time_argument(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1000),
    ];
    let whole = units.iter().find(|(_, factor)| nanos > 0 && nanos.is_multiple_of(*factor));
    whole.map_or(format!("{nanos}ns"), |(unit, factor)| format!("{}{unit}", nanos / factor))
}

/// A size in the unit that fits: `1.50 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut number, mut at) = (bytes as f64 / 1024.0, 0);
    while number >= 1023.5 && at + 1 < units.len() {
        (number, at) = (number / 1024.0, at + 1);
    }
    let decimals = match number {
        _ if number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$} {}", units[at])
}

/// A whole number in groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        // Writing to a `String` cannot fail.
        let _ = text.write_char(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_unit_and_refused_without_one() {
        for (text, nanos) in [
            ("5ns", 5),
            ("250us", 250_000),
            ("1ms", 1_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("3 µs", 3000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "5", "ms", "-1ms", "1 day", "1e400s", "NaNs", "infs"] {
            let error = parse_time(text).unwrap_err();
            assert!(error.starts_with("expected a time such as"), "{text}: {error}");
        }
    }

    #[test]
    fn a_time_that_is_printed_as_an_argument_is_read_back_the_same() {
        for nanos in [0, 1, 999, 1000, 1_500_000, 90_000_000_000, 7_200_000_000_000, 1_234_567_891] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(parse_time(&time_argument(time)), Ok(time));
        }
        assert_eq!(time_argument(Duration::from_millis(1500)), "1500ms");
    }

    #[test]
    fn times_are_shown_with_three_digits_in_the_unit_that_fits() {
        for (nanos, text) in [
            (0.0, "0"),
            (1.0, "1 ns"),
            (999.4, "999 ns"),
            (999.9, "1.00 µs"),
            (93_695.0, "93.7 µs"),
            (2_244_607.0, "2.24 ms"),
            (99_960_000.0, "100 ms"),
            (3.5e9, "3.50 s"),
            (90e9, "1.50 min"),
            (7.2e12, "2.00 h"),
            (7.2e15, "2000 h"),
        ] {
            assert_eq!(time(nanos), text);
        }
    }

    #[test]
    fn sizes_are_shown_with_three_digits_in_the_unit_that_fits() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536 << 10, "1.50 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (100 << 30, "100 GiB"),
            (5000 << 40, "5000 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn numbers_are_shown_in_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (10_000_000, "10 000 000")] {
            assert_eq!(grouped(number), text);
        }
    }
}
