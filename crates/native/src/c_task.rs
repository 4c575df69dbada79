//! What a C function is given: the specification's task, field by field.
//!
//! The comments are those of the generated header, so they speak to people who write C.
//!
//! Not here: what lies behind these fields while the function runs (`running.rs`).

#![allow(non_camel_case_types, reason = "these are the names of the C header")]

use std::ffi::c_void;

/// The handler has answered. Setting it changes nothing: a handler has answered when it returns.
pub const FLAG_COMPLETE: u32 = 1;
/// The task failed. A handler that sets this fails with ERR_HANDLER_ERROR; what `result` points to is taken for
/// the message.
pub const FLAG_ERROR: u32 = 2;

/// One attempt of one task, in the hands of its handler. It belongs to the pool and is good until the handler
/// returns.
#[repr(C)]
#[derive(Debug)]
pub struct task {
    /// The opcode that calls this handler; 0 if it has a name alone.
    pub opcode: u32,
    /// The arguments: a JSON object on one line, as a string that ends with NUL.
    pub args: *mut c_void,
    /// The worker that runs it, from 1.
    pub assigned_to: u32,
    /// FLAG_COMPLETE and FLAG_ERROR in the low 16 bits. Leave the others alone.
    pub flags: u32,
    /// The number of the task. The number that a request gave as `task_id`, if it gave one.
    pub task_id: u64,
    /// NULL. A handler may put a JSON text here that malloc() allocated; the pool frees it.
    /// threadpool_set_result does the same without malloc().
    pub result: *mut c_void,
    /// How many bytes that text has, without a NUL.
    pub result_size: u32,
}

/// One attempt of one task.
pub type task_t = task;

/// A function that runs tasks. It may be called by several threads at once, and must neither throw nor
/// longjmp() out.
pub type handler_fn = Option<unsafe extern "C" fn(task: *mut task_t)>;

/// A [`handler_fn`] that is there.
pub type NativeFunction = unsafe extern "C" fn(task: *mut task_t);
