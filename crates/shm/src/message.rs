//! What the messages between a program and a daemon mean.
//!
//! | from the program | number | word | body |
//! |---|---|---|---|
//! | `REQUEST` | of the task | 1 if its stream is wanted, else 0 | a request in JSON |
//! | `CALL` | of the task | of the handler, as introduced | arguments in JSON |
//! | `INTRODUCE` | 0 | what the program will call it | the handler's name |
//! | `CANCEL` | of the task | 0 | nothing |
//!
//! | from the daemon | number | word | body |
//! |---|---|---|---|
//! | `ANSWER` | of the task | its status, 0 or a negative code | the result in JSON, or what went wrong |
//! | `EVENT` | of the task | 0 | an event of its stream in JSON |
//!
//! Numbers are the program's own, from 1, and never used twice; a task has exactly one answer.

/// A request in JSON.
pub(crate) const REQUEST: u32 = 1;
/// A call of a handler that was introduced.
pub(crate) const CALL: u32 = 2;
/// A handler's name gets a number.
pub(crate) const INTRODUCE: u32 = 3;
/// A task is no longer wanted.
pub(crate) const CANCEL: u32 = 4;
/// A request's word: its stream is wanted.
pub(crate) const STREAMED: u32 = 1;

/// How a task ended.
pub(crate) const ANSWER: u32 = 1;
/// What a task said.
pub(crate) const EVENT: u32 = 2;

/// How many handlers a program may introduce.
pub(crate) const HANDLERS_MAX: usize = 1024;

/// The clock that all processes of a machine share, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
