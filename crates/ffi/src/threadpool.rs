//! `threadpool.h`: pools, tasks and results.
//!
//! The comments are those of the generated header, so they speak to people who write C.
//!
//! Not here: what the calls do (`pools.rs` and below), handlers (`handlers.rs`).

#![allow(unreachable_pub, reason = "C reaches what Rust cannot")]
#![allow(non_camel_case_types, reason = "these are the names of the C header")]
#![allow(clippy::missing_safety_doc, reason = "the header says of every call what it may be given")]

use crate::border::{self, bytes, guarded, guarded_code, text_or_none, wrong};
use crate::callbacks::Callback;
use crate::here::{Here, Want};
use crate::pools::{self, Way};
use crate::result::{self, OwnedResult, result_callback_fn, result_t};
use crate::symbol_table::symbol_table_t;
use crate::there::There;
use millpond_tasks::TaskFailure;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// A pool. Every call may be made by any thread.
pub struct threadpool {
    _opaque: (),
}

/// A pool.
pub type threadpool_t = threadpool;

/// Starts a pool in this process. `config_path` is a file of key=value lines, or of TOML if its name ends in
/// .toml; NULL means the defaults. Variables of the environment (MILLPOND_WORKERS and the like) win over the
/// file. NULL if it could not be started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_create(config_path: *const c_char) -> *mut threadpool_t {
    guarded(ptr::null_mut(), || {
        // SAFETY: NULL, or a string, as the header asks for.
        let path = unsafe { text_or_none("config_path", config_path) }?;
        let number = pools::new_number();
        Ok(pools::open(number, Way::Here(Box::new(Here::start(path, number)?))))
    })
}

/// Attaches to the pool of a daemon (`millpond serve`) on this machine, by the name it was given. NULL or "" is
/// "millpond". NULL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_attach(name: *const c_char) -> *mut threadpool_t {
    guarded(ptr::null_mut(), || {
        // SAFETY: NULL, or a string, as the header asks for.
        let name = unsafe { text_or_none("name", name) }?.unwrap_or_default();
        let number = pools::new_number();
        Ok(pools::open(number, Way::There(There::attach(name, number)?)))
    })
}

/// Submits a task: {"opcode": 1, "args": {...}} or {"handler": "echo", "args": {...}}. Never waits. Returns
/// its number, or 0 if it was refused. Its result has to be fetched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_submit(pool: *mut threadpool_t, json: *const c_char) -> u64 {
    // SAFETY: NULL, or a string, as the header asks for.
    guarded(0, || submit(pool, unsafe { bytes("json", json) }?, Want::Result))
}

/// As threadpool_submit, but the result goes to `callback`, on a thread of the pool's own. It is called
/// exactly once for every task that was accepted, and never after threadpool_shutdown has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_submit_with_callback(
    pool: *mut threadpool_t,
    json: *const c_char,
    callback: result_callback_fn,
    user_data: *mut c_void,
) -> u64 {
    guarded(0, || {
        let function = callback.ok_or_else(|| wrong("callback: expected a function, got NULL"))?;
        // SAFETY: NULL, or a string, as the header asks for.
        let json = unsafe { bytes("json", json) }?;
        submit(pool, json, Want::Callback(Callback { function, user_data }))
    })
}

/// As threadpool_submit, for a task whose partial results are wanted too: threadpool_next_partial gives them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_submit_streaming(pool: *mut threadpool_t, json: *const c_char) -> u64 {
    // SAFETY: NULL, or a string, as the header asks for.
    guarded(0, || submit(pool, unsafe { bytes("json", json) }?, Want::Stream))
}

/// The result of a task that has ended. It is handed over once; free it. NULL if the task has not ended
/// (threadpool_last_error_code() is then ERR_NOT_ENDED), or there is no such result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_poll_result(pool: *mut threadpool_t, task_id: u64) -> *mut result_t {
    hand_out(|| match &*pools::find(pool)? {
        Way::Here(here) => here.poll(task_id).map(Some),
        Way::There(there) => there.poll(task_id).map(Some),
    })
}

/// As threadpool_poll_result, but waits for the end, at most so many milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_wait_result(
    pool: *mut threadpool_t,
    task_id: u64,
    timeout_ms: u32,
) -> *mut result_t {
    hand_out(|| match &*pools::find(pool)? {
        Way::Here(here) => here.wait(task_id, timeout_ms).map(Some),
        Way::There(there) => there.wait(task_id, timeout_ms).map(Some),
    })
}

/// The result of whichever task ended first and was not fetched, waiting for one at most so many
/// milliseconds. Tasks with a callback are not among them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_next_result(pool: *mut threadpool_t, timeout_ms: u32) -> *mut result_t {
    hand_out(|| match &*pools::find(pool)? {
        Way::Here(here) => here.next(timeout_ms).map(Some),
        Way::There(there) => there.next(timeout_ms).map(Some),
    })
}

/// What a task of threadpool_submit_streaming says next, waiting for it at most so many milliseconds. The
/// data is one of {"offset":0,"attempt":1,"partial":...}, with "progress", "log" or "missed" in place of
/// "partial". Free it. NULL with ERR_NOT_ENDED if there is nothing yet; NULL with ERR_SUCCESS if the task has
/// ended and said no more. Its result is then still to be fetched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_next_partial(
    pool: *mut threadpool_t,
    task_id: u64,
    timeout_ms: u32,
) -> *mut result_t {
    hand_out(|| match &*pools::find(pool)? {
        Way::Here(here) => here.next_partial(task_id, timeout_ms),
        Way::There(there) => there.next_partial(task_id, timeout_ms),
    })
}

/// Cancels a task: it ends with ERR_CANCELLED, at once for everybody who waits. A handler that runs is told by
/// threadpool_is_cancelled. Returns 0 or an error code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_cancel(pool: *mut threadpool_t, task_id: u64) -> c_int {
    guarded_code(|| match &*pools::find(pool)? {
        Way::Here(here) => here.cancel(task_id),
        Way::There(there) => there.cancel(task_id),
    })
}

/// Frees a result. NULL is fine; one that was freed is noticed and left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_result_free(result: *mut result_t) {
    guarded((), || if result.is_null() { Ok(()) } else { result::free(result) });
}

/// Takes no more tasks, finishes those that were accepted (for as long as the setting drain_timeout says;
/// then they are cancelled), ends all threads and frees the pool. When it returns no handler and no callback
/// runs. A pool of threadpool_attach is only left; the daemon goes on. NULL is fine. Not from a handler or a
/// callback of the same pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_shutdown(pool: *mut threadpool_t) {
    guarded((), || {
        if pool.is_null() {
            return Ok(());
        }
        let is_on_own_thread = match &*pools::find(pool)? {
            Way::Here(here) => here.is_on_own_thread(),
            Way::There(there) => there.is_on_own_thread(),
        };
        if is_on_own_thread {
            return Err(wrong(
                "pool: a handler or a callback cannot shut its own pool down; do it elsewhere",
            ));
        }
        match &*pools::close(pool)? {
            Way::Here(here) => here.shut_down(),
            Way::There(there) => there.shut_down(),
        }
        Ok(())
    });
}

/// The table of named memory of a pool of threadpool_create, for symbol_register() and its kin. It lives as
/// long as the pool. NULL for a pool of threadpool_attach.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_symbols(pool: *mut threadpool_t) -> *mut symbol_table_t {
    guarded(ptr::null_mut(), || match &*pools::find(pool)? {
        Way::Here(_) => Ok(pools::symbols_of(pool)),
        Way::There(_) => {
            Err(wrong("pool: one that was attached to has its memory in the daemon; name regions there"))
        }
    })
}

/// What the last call that failed on this thread had to say; "" if none has. Good until the next one fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_last_error() -> *const c_char {
    border::last_message()
}

/// The error code of the last call that failed on this thread; 0 if none has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_last_error_code() -> i32 {
    border::last_code()
}

/// The version of the library, for example "0.1.0".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn threadpool_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

fn submit(pool: *mut threadpool_t, json: &[u8], want: Want) -> Result<u64, TaskFailure> {
    match &*pools::find(pool)? {
        Way::Here(here) => here.submit(json, want),
        Way::There(there) => there.submit(json, want),
    }
}

fn hand_out(find: impl FnOnce() -> Result<Option<OwnedResult>, TaskFailure>) -> *mut result_t {
    guarded(ptr::null_mut(), || Ok(find()?.map_or(ptr::null_mut(), OwnedResult::hand_out)))
}
