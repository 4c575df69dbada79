//! Handlers that C registers: those for every pool that is created later, and how a pool has them.
//!
//! A handler runs with a note on its thread which pool it runs for, so that one that tries to end its own
//! pool is told so instead of waiting for itself.
//!
//! Not here: the names that the configuration gives (`setup.rs`).

use millpond_native::{NativeFunction, NativeHandler};
use millpond_tasks::{Call, Handler, TaskFailure};
use serde_json::value::RawValue;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// For which pool this thread runs a handler; 0 for none.
    static POOL: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread runs a handler of a pool.
pub(crate) fn is_thread_of(pool: usize) -> bool {
    POOL.try_with(Cell::get).is_ok_and(|number| number == pool)
}

/// A handler by its function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) function: NativeFunction,
    pub(crate) is_quick: bool,
}

static REGISTERED: Mutex<BTreeMap<String, Function>> = Mutex::new(BTreeMap::new());

/// Those for every pool that is created later. A name that is given again gets the new function.
pub(crate) fn for_later() -> MutexGuard<'static, BTreeMap<String, Function>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A C function as a handler of one pool.
#[derive(Debug)]
pub(crate) struct PoolHandler {
    pub(crate) native: NativeHandler,
    /// The number of the pool.
    pub(crate) pool: usize,
}

impl PoolHandler {
    /// The handler of a pool. The caller of `threadpool_register_handler`, or whoever exported the function,
    /// keeps to what the header asks of one.
    pub(crate) fn new(function: Function, opcode: u32, pool: usize) -> Self {
        let Function { function, is_quick } = function;
        // SAFETY: this is what the header asks of everybody who registers a function or exports one under the
        // name of a handler; nothing unloads it.
        let native = unsafe { NativeHandler::new(function) };
        let native = native.with_opcode(opcode);
        Self { native: if is_quick { native.quick() } else { native }, pool }
    }
}

impl Handler for PoolHandler {
    fn start(&self, call: Call) {
        let _noted = Noted::new(self.pool);
        self.native.start(call);
    }

    fn answer(&self, args: &RawValue, out: &mut Vec<u8>) -> Option<Result<(), TaskFailure>> {
        let _noted = Noted::new(self.pool);
        self.native.answer(args, out)
    }

    fn is_quick(&self) -> bool {
        self.native.is_quick()
    }
}

/// The note, while a handler runs. A worker that waits may run another task meanwhile, so the note before is
/// put back.
struct Noted(usize);

impl Noted {
    fn new(pool: usize) -> Self {
        Self(POOL.replace(pool))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        POOL.set(self.0);
    }
}
