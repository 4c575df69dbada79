//! The program `millpond`.
//! To be written.
fn main() {}
