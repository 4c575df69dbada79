//! The doors of a daemon on its own machine: the control socket, with its client, and the file mailboxes.
//!
//! Both live in one private directory ([`RuntimeDir`](millpond_tasks::RuntimeDir)), so that whoever may use them
//! is decided by the file system. The control socket speaks frames ([`frame`]); `docs/PROTOCOL.md` says enough to
//! write a client in any language, and [`Client`] is ours.
//!
//! Not here: what a task is and what becomes of it (the crate `millpond-tasks`), and the program around it
//! all.

#![forbid(unsafe_code)]

pub mod client;
pub mod frame;
pub mod mailbox_door;
pub mod server;

pub use client::{Client, Hello, Receiver, Sender};
pub use frame::{Flags, Frame, Kind};
pub use mailbox_door::{MailboxDoor, MailboxDoorSettings, MailboxDoorStats};
pub use server::{ControlDoor, ControlSettings, ControlStats, SOCKET_NAME};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
