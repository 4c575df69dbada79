//! The program as its users meet it: the real binary, its output, its messages and its exit codes.
//!
//! A command line is an interface that scripts depend on. So what is checked here is what a script sees: standard
//! output, standard error and the exit code, each on its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod cluster;
mod configuration;
mod daemon;
mod dead;
mod dice;
mod disk_full;
mod durable;
mod isolation;
mod journal;
mod load;
mod memory;
mod nats;
mod program;
mod schedule;
mod sim;
mod submit;
mod tasks;
mod tutorial;
mod web;
