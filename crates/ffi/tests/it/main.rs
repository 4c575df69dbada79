//! Tests of libmillpond as its users have it: the headers, and C programs that a real compiler builds against
//! them.
//!
//! The library is built by cargo when the first test wants it, since cargo builds none for tests of a package
//! whose library is not for Rust.

mod attach;
mod guide;
mod headers;
mod library;
mod programs;
