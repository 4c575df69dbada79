//! C functions as handlers: `void handler_resize(task_t* task)`, found in the program or in a library.
//!
//! The daemon and the C library both use this, so that a function means the same to both. `c_task.rs` is what
//! the function sees, `running.rs` what lies behind it while it runs, `handler.rs` how a pool calls it, and
//! `find.rs` and `libraries.rs` where it comes from. All that C may get wrong is met here: a task that is not
//! one, a result that is no JSON, a name that is not exported.
//!
//! A C function shares the process: one that crashes takes the process with it, unless the pool runs its
//! handlers in processes of their own.
//!
//! Not here: the exported calls themselves (`threadpool_set_result` and the rest are the crate `millpond-ffi`).

mod c_task;
mod find;
mod handler;
mod libraries;
mod running;

pub use c_task::{FLAG_COMPLETE, FLAG_ERROR, NativeFunction, handler_fn, task, task_t};
pub use find::{FindError, Library, exported, symbol_name};
pub use handler::NativeHandler;
pub use libraries::{LibraryError, NamedHandlers, add_libraries, library_handlers};
pub use running::{is_cancelled, partial, set_error, set_result};

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
