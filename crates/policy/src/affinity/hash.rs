//! The hash of a key's bytes, and the mixing step under everything in this folder.
//!
//! The step is the finaliser of splitmix64 (Stafford's variant 13): two multiplications, after which every
//! bit of the input has moved every bit of the output. A text is taken eight bytes at a time, each word mixed
//! into the last result. It is written out here and not taken from a crate because the number is a promise:
//! JavaScript must find the same one, today and after any update, and `tests/vectors/affinity-hash.json`
//! holds both to it. Bytes, not characters: a text means its UTF-8.
//!
//! It has no secret. Whoever chooses keys can choose them to share a worker, and gains a slow worker.

/// 2^64 divided by the golden ratio: far from every small number and its multiples.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes the bits of a number so that close numbers give unlike ones. No two numbers give the same.
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Two numbers as one, which depends on their order.
pub(super) const fn mix_two(first: u64, second: u64) -> u64 {
    mix(mix(first.wrapping_add(GOLDEN)) ^ second)
}

/// The key of a text or of other bytes.
///
/// ```
/// # use millpond_policy::affinity::hash_bytes;
/// assert_eq!(hash_bytes("user:42".as_bytes()), hash_bytes(b"user:42"));
/// assert_ne!(hash_bytes(b""), hash_bytes(b"\0"), "the length counts");
/// ```
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    // The length comes first, so that the zeros which fill up the last word cannot be mistaken for bytes.
    let mut hash = mix((bytes.len() as u64).wrapping_add(GOLDEN));
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}
