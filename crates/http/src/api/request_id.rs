//! What a request is called in logs: by the client if it has a name for it, else by us.
//!
//! Our own names are a counter, stirred so that those of two daemons are not alike. They are unlike each
//! other because stirring loses nothing.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The header, both ways.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name that a client may give.
const BYTES_MAX: usize = 128;

/// Makes names.
#[derive(Debug)]
pub(super) struct RequestIds(AtomicU64);

impl RequestIds {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one("the first request")))
    }

    /// The client's name for the request if it is fit for a log, else a new one.
    pub(super) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(given) if is_fit(given.as_bytes()) => given.clone(),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let stirred = stir(self.0.fetch_add(1, Relaxed));
        let mut digits = [0; 16];
        for (at, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(stirred >> (60 - 4 * at)) as usize & 15];
        }
        HeaderValue::from_bytes(&digits).expect("hexadecimal digits are visible")
    }
}

/// The name as text.
pub(super) fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

fn is_fit(id: &[u8]) -> bool {
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// The last step of splitmix64: a one-to-one map in which every bit changes every other.
fn stir(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_fit_name_is_kept_and_others_get_one_of_ours() {
        let ids = RequestIds::new();
        let asked = |name: &[u8]| {
            let headers = HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(name).unwrap())]);
            text(&ids.of(&headers)).to_owned()
        };
        assert_eq!(asked(b"abc-1"), "abc-1");
        let longest = "x".repeat(BYTES_MAX);
        assert_eq!(asked(longest.as_bytes()), longest);
        for unfit in [&b""[..], b"a b", "ü".as_bytes(), "x".repeat(BYTES_MAX + 1).as_bytes()] {
            let made = asked(unfit);
            assert_eq!(made.len(), 16, "{made}");
            assert!(made.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
    }

    #[test]
    fn no_name_comes_twice() {
        let ids = RequestIds::new();
        let names: HashSet<_> = (0..10_000).map(|_| text(&ids.make()).to_owned()).collect();
        assert_eq!(names.len(), 10_000);
    }
}
