//! Who a span is: the trace it belongs to, its own number, and whether anybody wants to see it.
//!
//! Written and read as W3C's `traceparent`, for example
//! `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. A header of a later version is read as far as
//! this one goes, as W3C asks. Whoever sends something else has no trace.

use std::fmt;

/// A span, as others refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// Not 0.
    pub(crate) trace: u128,
    /// Not 0.
    pub(crate) span: u64,
    pub(crate) is_sampled: bool,
}

impl Context {
    /// Reads a `traceparent`; none if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = hexadecimal(parts.next()?, 2)?;
        let trace = hexadecimal(parts.next()?, 32)?;
        let span = hexadecimal(parts.next()?, 16)?;
        let flags = hexadecimal(parts.next()?, 2)?;
        let is_whole = parts.next().is_none();
        // Version 255 is forbidden, and version 0 has nothing more to say.
        let is_known = version != 0xff && (version != 0 || is_whole);
        let is_right = is_known && trace != 0 && span != 0;
        is_right.then_some(Self { trace, span: span as u64, is_sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// So many digits, in lower case.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_written_is_read_again() {
        let context = Context::parse(WHOLE).unwrap();
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span, context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), WHOLE);
        let unsampled = Context::parse(&WHOLE.replace("-01", "-02")).unwrap();
        assert!(!unsampled.is_sampled, "the other flags do not matter");
        assert_eq!(unsampled.to_string(), WHOLE.replace("-01", "-00"));
    }

    #[test]
    fn a_later_version_may_say_more_and_this_one_may_not() {
        let later = format!("{}-more", WHOLE.replacen("00", "01", 1));
        assert!(Context::parse(&later).is_some());
        assert_eq!(Context::parse(&format!("{WHOLE}-more")), None);
        assert_eq!(Context::parse(&WHOLE.replacen("00", "ff", 1)), None);
    }

    #[test]
    fn whatever_else_is_no_trace() {
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-+0f067aa0ba902b7-01",
            &format!("00-{no_trace}-00f067aa0ba902b7-01"),
            &format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{no_span}-01"),
        ] {
            assert_eq!(Context::parse(text), None, "{text:?}");
        }
    }
}
