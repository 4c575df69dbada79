//! The page `docs/WPOL.md`.

use alloc::string::String;

/// The page.
pub fn markdown() -> String {
    String::new()
}
