//! `symbol_table.h`: memory of the program's that tasks reach by name.
//!
//! The comments are those of the generated header, so they speak to people who write C.
//!
//! Not here: how memory is lent and given back (`here.rs`, `lent_memory.rs`).

#![allow(unreachable_pub, reason = "C reaches what Rust cannot")]
#![allow(non_camel_case_types, reason = "these are the names of the C header")]
#![allow(clippy::missing_safety_doc, reason = "the header says of every call what it may be given")]

use crate::border::{guarded, text, wrong};
use crate::pools::{self, Way};
use millpond_tasks::TaskFailure;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

/// Names for memory. threadpool_symbols() gives the table of a pool.
pub struct symbol_table {
    _opaque: (),
}

/// Names for memory.
pub type symbol_table_t = symbol_table;

/// Lends memory to tasks under a name of 1 to 64 bytes: {"handler": "write_memory", "args": {"write_to":
/// "response", ...}}. It must stay until symbol_unregister() has returned or the pool was shut down. Tasks
/// see each other's writes whole; while tasks that name it are under way, reading or writing it yourself is a
/// race. A failure is told by threadpool_last_error_code().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn symbol_register(
    st: *mut symbol_table_t,
    name: *const c_char,
    ptr: *mut c_void,
    size: u32,
) {
    guarded((), || {
        // SAFETY: NULL, or a string, as the header asks for.
        let name = unsafe { text("name", name) }?;
        if ptr.is_null() {
            return Err(wrong(format!("region {name:?}: expected memory, got NULL")));
        }
        // SAFETY: the header asks for so many bytes that stay until the name is taken away.
        with_table(st, |here| unsafe { here.register(name, ptr.cast(), size) })
    });
}

/// The memory that was registered under a name, and its size unless `out_size` is NULL. NULL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn symbol_resolve(
    st: *mut symbol_table_t,
    name: *const c_char,
    out_size: *mut u32,
) -> *mut c_void {
    guarded(ptr::null_mut(), || {
        // SAFETY: NULL, or a string, as the header asks for.
        let name = unsafe { text("name", name) }?;
        let (start, size) = with_table(st, |here| here.resolve(name))?;
        if !out_size.is_null() {
            // SAFETY: it is not NULL, so it points to a number that may be written, as the header asks for.
            unsafe { out_size.write(size) };
        }
        Ok(start.cast())
    })
}

/// Takes a name away. New tasks can no longer name the memory; this waits until those that did have ended, so
/// that the memory is the program's again when it returns. Not from a handler that was given the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn symbol_unregister(st: *mut symbol_table_t, name: *const c_char) {
    guarded((), || {
        // SAFETY: NULL, or a string, as the header asks for.
        let name = unsafe { text("name", name) }?;
        with_table(st, |here| here.unregister(name))
    });
}

fn with_table<T>(
    st: *mut symbol_table_t,
    act: impl FnOnce(&crate::here::Here) -> Result<T, TaskFailure>,
) -> Result<T, TaskFailure> {
    let way: Arc<Way> = pools::find_by_symbols(st)?;
    match &*way {
        Way::Here(here) => act(here),
        Way::There(_) => Err(wrong("symbol table: a pool that was attached to has none")),
    }
}
