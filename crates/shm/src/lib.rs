//! Tasks between processes, by shared memory.
//!
//! A program attaches to a daemon and hands in tasks without a system call while both sides are busy. It makes the
//! memory, and hands it over by a socket in the daemon's private directory; nothing has a name, so nothing is left
//! behind by whoever is killed. The same channel feeds handlers that run in processes of their own.
//!
//! To follow one task: `client.rs` hands it in (`client/sending.rs`), `channel.rs` carries it, `door.rs` has let the
//! program in and `door/intake.rs` takes the message, `door/member.rs` hands it to the pool, `door/answers.rs` sends
//! the answer, `client/waiting.rs` reads it, `client/table.rs` has it until somebody takes it.
//!
//! Below: `memory_file.rs` is the memory, `layout.rs` where everything lies in it, `arena.rs` where large messages go,
//! `message.rs` what they mean, `handshake.rs` how two processes come together.

mod arena;
mod channel;
mod client;
mod door;
mod handshake;
pub mod isolate;
mod layout;
mod linger;
mod memory_file;
mod message;

pub use client::{AttachError, Client, ClientError, ClientSettings, HandlerNumber, Reply};
pub use door::MemoryDoor;
pub use handshake::MEMORY_SOCKET_NAME;
pub use layout::{Plan, PlanError};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
