//! CRC-32C (Castagnoli): whether the fixed part of a header is as its creator wrote it.
//!
//! Bit by bit, because it guards 56 bytes once per attach: a table would be dearer than the loop.
//!
//! Not here: what is guarded (`v2_geometry.rs`).

/// Feeds `bytes` into the checksum; start with 0, pass the answer on to continue.
pub(super) fn crc32c(checksum: u32, bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    !bytes.iter().fold(!checksum, |register, byte| {
        (0..8).fold(register ^ u32::from(*byte), |bits, _| (bits >> 1) ^ (POLYNOMIAL * (bits & 1)))
    })
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::crc32c;

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xE306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
    }
}
