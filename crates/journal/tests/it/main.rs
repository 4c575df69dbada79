//! What the owner of a state is promised: an acknowledged record is there after any crash, in order, and nothing else.
//!
//! `house.rs` is a directory of its own for each test. `sim_disk.rs` is a disk that fails on purpose, or forgets what
//! was not synced. `kills.rs` kills real processes on the real disk.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod damage;
mod faults;
mod house;
mod kills;
mod limits;
mod power;
mod repairs;
mod round_trip;
mod sim_disk;
mod snapshots;
mod spills;
mod story;
mod strangers;
mod telling;
