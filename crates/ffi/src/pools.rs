//! Handles: what C holds in its hands, and which pool each stands for.
//!
//! A handle is a number that was never given before, shown to C as a pointer to something it cannot look
//! into. A call finds the pool and keeps it alive while it lasts, so closing a pool in one thread while
//! another waits in it is safe. The table of symbols of a pool is the handle after its own.
//!
//! Not here: what pools do (`here.rs`, `there.rs`).

use crate::border::wrong;
use crate::here::Here;
use crate::symbol_table::symbol_table;
use crate::there::There;
use crate::threadpool::threadpool;
use millpond_tasks::TaskFailure;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// How far handles lie apart, so that each looks like an aligned pointer.
const STEP: usize = 32;
/// From a pool to its table of symbols.
const TO_SYMBOLS: usize = 16;

/// Where the tasks of a pool run.
pub(crate) enum Way {
    /// In this process.
    Here(Box<Here>),
    /// In a daemon.
    There(There),
}

static POOLS: LazyLock<RwLock<HashMap<usize, Arc<Way>>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicUsize = AtomicUsize::new(STEP);

/// A number for a new pool.
pub(crate) fn new_number() -> usize {
    NEXT.fetch_add(STEP, Relaxed)
}

/// Gives a pool to C.
pub(crate) fn open(number: usize, way: Way) -> *mut threadpool {
    POOLS.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(way));
    ptr::without_provenance_mut(number)
}

/// The pool of a handle.
pub(crate) fn find(pool: *const threadpool) -> Result<Arc<Way>, TaskFailure> {
    find_number(pool.addr()).ok_or_else(|| not_a_handle("pool", pool.is_null()))
}

/// The pool to which a table of symbols belongs.
pub(crate) fn find_by_symbols(symbols: *const symbol_table) -> Result<Arc<Way>, TaskFailure> {
    find_number(symbols.addr().wrapping_sub(TO_SYMBOLS))
        .ok_or_else(|| not_a_handle("symbol table", symbols.is_null()))
}

/// The table of symbols of a pool that is open.
pub(crate) fn symbols_of(pool: *const threadpool) -> *mut symbol_table {
    ptr::without_provenance_mut(pool.addr() + TO_SYMBOLS)
}

/// Takes a pool away from C. Calls that are inside keep it alive.
pub(crate) fn close(pool: *const threadpool) -> Result<Arc<Way>, TaskFailure> {
    let gone = POOLS.write().unwrap_or_else(PoisonError::into_inner).remove(&pool.addr());
    gone.ok_or_else(|| not_a_handle("pool", pool.is_null()))
}

fn find_number(number: usize) -> Option<Arc<Way>> {
    POOLS.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
}

fn not_a_handle(what: &str, is_null: bool) -> TaskFailure {
    let got = if is_null { "NULL" } else { "one that was shut down, or something else" };
    wrong(format!("{what}: expected an open one, got {got}"))
}
