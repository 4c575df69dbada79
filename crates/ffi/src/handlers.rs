//! `threadpool.h`, its second half: handlers in C, and what they may call while they run.
//!
//! The comments are those of the generated header, so they speak to people who write C.
//!
//! Not here: what lies behind a task (`millpond_native`).

#![allow(unreachable_pub, reason = "C reaches what Rust cannot")]
#![allow(clippy::missing_safety_doc, reason = "the header says of every call what it may be given")]

use crate::border::{bytes, guarded_code, keep, text, wrong};
use crate::pools::{self, Way};
use crate::registered::{Function, for_later};
use crate::threadpool::threadpool_t;
use millpond_native::{handler_fn, task_t};
use millpond_tasks::handler::builtin::BUILTIN_NAMES;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// The handler takes microseconds and neither waits nor streams, so that whoever submits a task may run it.
pub const THREADPOOL_QUICK: u32 = 1;

/// Makes a function a handler that requests may name: {"handler": "resize", ...}, and that a configuration
/// file may give an opcode: 7=handler_resize. With NULL for the pool it is for all pools that are created
/// later. Names are 1 to 64 of a-z, 0-9, _, . and -. `flags` is 0 or THREADPOOL_QUICK. Returns 0 or an error
/// code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_register_handler(
    pool: *mut threadpool_t,
    name: *const c_char,
    handler: handler_fn,
    flags: u32,
) -> c_int {
    guarded_code(|| {
        // SAFETY: NULL, or a string, as the header asks for.
        let name = unsafe { text("name", name) }?;
        let function = handler.ok_or_else(|| wrong("handler: expected a function, got NULL"))?;
        if flags & !THREADPOOL_QUICK != 0 {
            return Err(wrong(format!("flags: expected 0 or THREADPOOL_QUICK (1), got {flags}")));
        }
        if BUILTIN_NAMES.contains(&name) {
            return Err(wrong(format!(
                "handler {name:?}: expected a name of its own, got a built-in one; choose another"
            )));
        }
        let function = Function { function, is_quick: flags & THREADPOOL_QUICK != 0 };
        if pool.is_null() {
            check_name(name)?;
            for_later().insert(name.to_owned(), function);
            return Ok(());
        }
        match &*pools::find(pool)? {
            Way::Here(here) => here.add_handler(name, function),
            Way::There(_) => Err(wrong(
                "pool: one that was attached to has its handlers in the daemon; configure them there",
            )),
        }
    })
}

/// Answers a task with a JSON text of `size` bytes, which is copied. The last answer counts; a handler that
/// gives none answers null. Returns 0 or an error code: the text is no JSON, or the task is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_set_result(task: *mut task_t, json: *const c_void, size: u32) -> c_int {
    guarded_code(|| {
        if json.is_null() && size > 0 {
            return Err(wrong("json: expected a text, got NULL"));
        }
        let json: &[u8] = match size {
            0 => &[],
            // SAFETY: it is not NULL, and the header asks for so many bytes that can be read.
            _ => unsafe { slice::from_raw_parts(json.cast(), size as usize) },
        };
        // SAFETY: NULL or a task that can be read, as the header asks for.
        unsafe { millpond_native::set_result(task, json) }
    })
}

/// Fails a task with one of the error codes (another number becomes ERR_HANDLER_ERROR) and a message, which
/// may be NULL. Returns 0 or an error code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_set_error(task: *mut task_t, code: i32, message: *const c_char) -> c_int {
    guarded_code(|| {
        // SAFETY: NULL, or a string, as the header asks for.
        let message = if message.is_null() { &[][..] } else { unsafe { bytes("message", message) }? };
        // SAFETY: NULL or a task that can be read, as the header asks for.
        unsafe { millpond_native::set_error(task, code, &String::from_utf8_lossy(message)) }
    })
}

/// Adds a partial result, a JSON text, to the stream of a task. Waits while the stream is full and somebody
/// reads it. Returns 0 or an error code; ERR_CANCELLED if nobody wants more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_partial(task: *mut task_t, json: *const c_char) -> c_int {
    guarded_code(|| {
        // SAFETY: NULL, or a string, as the header asks for.
        let json = unsafe { bytes("json", json) }?;
        // SAFETY: NULL or a task that can be read, as the header asks for.
        unsafe { millpond_native::partial(task, json) }
    })
}

/// Whether the answer of a task is no longer wanted: it was cancelled, its time is over, or the pool ends. 1
/// or 0; a pointer that is no task is 1, so that a loop that asks will end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_is_cancelled(task: *const task_t) -> c_int {
    // SAFETY: NULL or a task that can be read, as the header asks for.
    let is_cancelled = unsafe { millpond_native::is_cancelled(task) };
    is_cancelled.map_or_else(
        |failure| {
            keep(&failure);
            1
        },
        c_int::from,
    )
}

/// The registry of a pool checks names when it is made, and that would be late.
fn check_name(name: &str) -> Result<(), millpond_tasks::TaskFailure> {
    struct Nothing;
    impl millpond_tasks::Handler for Nothing {
        fn start(&self, _: millpond_tasks::Call) {}
    }
    millpond_tasks::Registry::new().add(name, Nothing).map_err(|error| wrong(error.to_string()))
}
