//! How sizes and durations are written: `64 KiB`, `1m30s`. Read and printed here and nowhere else.
//!
//! A size is a number of bytes, or one followed by `B`, `KiB`, `MiB`, `GiB` or `TiB`. Decimal units are
//! refused: nobody agrees what `KB` is. A duration is one or more numbers, each with its unit (`ns`, `us` or
//! `µs`, `ms`, `s`, `m`, `h`, `d`), the longest first; only `0` needs none. Spaces may stand between numbers
//! and units. Whatever is printed can be read again.
//!
//! Not here: how large either may be (`table.rs`).

use std::time::Duration;

const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Longest first, in nanoseconds. `µs` is read as `us`.
const TIMES: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// What to write instead of a size that cannot be read.
pub(super) const SIZE_FORMS: &str = "write it like 4096, \"64 KiB\" or \"1 MiB\"";
/// What to write instead of a duration that cannot be read.
pub(super) const DURATION_FORMS: &str = "write it like \"20us\", \"5 s\" or \"1m30s\"";

/// So many bytes, or none if it is no size.
pub(super) fn read_bytes(text: &str) -> Option<u64> {
    let (number, rest) = number_before(text.trim())?;
    let unit = rest.trim_start();
    let (_, factor) = SIZES.into_iter().find(|(name, _)| *name == unit || unit.is_empty() && *name == "B")?;
    number.checked_mul(factor)
}

/// The shortest exact form: in the largest unit of which it is a whole number.
pub(super) fn print_bytes(bytes: u64) -> String {
    let whole = SIZES.into_iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match whole {
        Some((unit, factor)) if factor > 1 => format!("{} {unit}", bytes / factor),
        _ => bytes.to_string(),
    }
}

/// So long, or none if it is no duration or longer than 584 years.
pub(super) fn read_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = 0_u64;
    let mut unit_before = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = number_before(rest)?;
        let after = after.trim_start();
        let unit_len = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
        let unit = after[..unit_len].replace(['µ', 'μ'], "u");
        let (_, nanoseconds) = TIMES.into_iter().find(|(name, _)| *name == unit)?;
        if nanoseconds >= unit_before {
            return None;
        }
        unit_before = nanoseconds;
        total = total.checked_add(number.checked_mul(nanoseconds)?)?;
        rest = after[unit_len..].trim_start();
    }
    (unit_before < u64::MAX).then(|| Duration::from_nanos(total))
}

/// Number by number, longest unit first: `1m30s`. Durations beyond 584 years do not come from here.
pub(super) fn print_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (unit, nanoseconds) in TIMES {
        if rest >= nanoseconds {
            text += &format!("{}{unit}", rest / nanoseconds);
            rest %= nanoseconds;
        }
    }
    text
}

/// The digits at the start, as a number, and what follows them.
fn number_before(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_the_forms_the_page_names() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("7 B", 7),
            ("64 KiB", 65_536),
            ("64KiB", 65_536),
            (" 1  MiB ", 1 << 20),
        ];
        for (text, bytes) in good {
            assert_eq!(read_bytes(text), Some(bytes), "{text}");
        }
        assert_eq!(read_bytes("18446744073709551615"), Some(u64::MAX));
        for text in
            ["", "KiB", "-1", "1.5 MiB", "64 KB", "64 kib", "64 K", "1 2", "16777216 TiB", "1 MiB 2", "٣"]
        {
            assert_eq!(read_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_in_the_forms_the_page_names() {
        let second = 1_000_000_000;
        let good = [
            ("0", 0),
            ("0s", 0),
            ("20us", 20_000),
            ("20µs", 20_000),
            ("20 μs", 20_000),
            ("5 s", 5 * second),
            ("1m30s", 90 * second),
            (" 1 h 30 m ", 5400 * second),
            ("1d", 86_400 * second),
            ("3ns", 3),
        ];
        for (text, nanoseconds) in good {
            assert_eq!(read_duration(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for text in
            ["", "5", "s", "-5s", "1.5s", "30s1m", "1s1s", "5 sec", "5s 3", "300000d", "1M", "5S", "1,5s"]
        {
            assert_eq!(read_duration(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back_exactly() {
        let numbers = (0..64)
            .flat_map(|shift| [1_u64 << shift, (1 << shift) + 1, (1 << shift) - 1, 1000 << (shift % 50)]);
        for number in numbers {
            assert_eq!(read_bytes(&print_bytes(number)), Some(number));
            let duration = Duration::from_nanos(number);
            assert_eq!(read_duration(&print_duration(duration)), Some(duration));
        }
        assert_eq!(print_bytes(65_536), "64 KiB");
        assert_eq!(print_bytes(1000), "1000");
        assert_eq!(print_duration(Duration::from_millis(90_500)), "1m30s500ms");
    }
}
