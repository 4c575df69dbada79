//! libmillpond: the pool for C, and for whatever speaks C.
//!
//! ```text
//!   threadpool.h        threadpool.rs, handlers.rs, result.rs      ┐ exported: each call is a few lines,
//!   symbol_table.h      symbol_table.rs                            ├ behind a border that catches panics
//!   connection_queue.h  connection_queue.rs                        ┘ and keeps the last error (border.rs)
//!
//!   pools.rs      handles and what they stand for ─┬─ here.rs   a service in this process (setup.rs)
//!                                                  └─ there.rs  a daemon, by shared memory
//! ```
//!
//! Handles are numbers that look like pointers and are never given twice, so one that was closed, or was
//! never a handle, is recognised. Results are known by their address. Everything a caller may get wrong ends
//! in an error code and a sentence for this thread, never in a crash, as far as C lets us see it.
//!
//! The headers are made from these files by a test (`tests/it/headers.rs`) and checked in.
//!
//! Not here: how C functions are called (`millpond-native`), tasks themselves (`millpond-tasks`).

mod border;
mod callbacks;
mod connection_queue;
mod handlers;
mod here;
mod lent_memory;
mod numbers;
mod pools;
mod ready;
mod registered;
mod result;
mod setup;
mod stream;
mod symbol_table;
mod there;
mod threadpool;
