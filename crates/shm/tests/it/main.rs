//! What a program that attaches to a daemon is promised: every task it hands in is answered once, whoever is slow,
//! full, hostile or killed.
//!
//! `house.rs` is a daemon in this process. Those that must be killed are this very program, started once more
//! (`deaths.rs`).

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod attach;
mod deaths;
mod house;
mod limits;
mod strangers;
