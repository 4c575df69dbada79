//! Results as C has them, and who owns them: this crate, until `threadpool_result_free`.
//!
//! Every result that was handed out is known by its address, together with the memory it needs. So freeing
//! one twice, or something that is no result, is noticed; and a caller who writes into a result cannot
//! mislead the freeing of it.
//!
//! Not here: which task a result belongs to (`here.rs`, `there.rs`).

#![allow(unreachable_pub, reason = "C reaches what Rust cannot")]
#![allow(non_camel_case_types, reason = "these are the names of the C header")]

use crate::border::wrong;
use millpond_tasks::{Outcome, TaskFailure};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// How many bytes of an error's message a result has room for, the NUL among them.
const ERROR_MSG_BYTES: usize = 256;
/// The table of results is cut into so many parts, so that threads seldom meet.
const PARTS: usize = 16;

/// How a task ended. It belongs to whoever was given it, until threadpool_result_free().
#[repr(C)]
pub struct result {
    /// The number that submitting gave.
    pub task_id: u64,
    /// 0, or one of the error codes.
    pub status: i32,
    /// What the handler answered: a JSON text that ends with NUL. NULL if the task failed.
    pub data: *mut c_void,
    /// How many bytes the text has; the NUL is not counted.
    pub data_size: u32,
    /// Why the task failed, cut to fit; empty if it did not.
    pub error_msg: [c_char; 256],
}

/// How a task ended.
pub type result_t = result;

/// Is told how a task ended. The result is freed when this returns, unless it was freed before. It runs on a
/// thread of the pool's own, one at a time, and must not throw.
pub type result_callback_fn = Option<unsafe extern "C" fn(result: *mut result_t, user_data: *mut c_void)>;

/// A result with its memory, before C has it and after it gave it back.
pub(crate) struct OwnedResult {
    /// Never given twice, unlike an address.
    serial: u64,
    /// From a `Box`, and this value's own: C has the same address, so it is not kept as one.
    block: NonNull<result>,
    /// What `data` points to, in the same way. It is not touched while C has the result.
    data: NonNull<[u8]>,
}

// SAFETY: the pointers in the block point into `data`, which travels with it; nothing else is shared.
unsafe impl Send for OwnedResult {}

static SERIAL: AtomicU64 = AtomicU64::new(0);
static LIVE: LazyLock<[Mutex<HashMap<usize, OwnedResult>>; PARTS]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::default()));

impl OwnedResult {
    /// The result of a task that succeeded: its JSON.
    pub(crate) fn success(task_id: u64, json: &[u8]) -> Self {
        let mut data = Vec::with_capacity(json.len() + 1);
        data.extend_from_slice(json);
        data.push(0);
        let data = NonNull::from(Box::leak(data.into_boxed_slice()));
        // What does not fit cannot come: results are bounded, and far below.
        let data_size = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let block = result {
            task_id,
            status: 0,
            data: data.as_ptr().cast(),
            data_size,
            error_msg: [0; ERROR_MSG_BYTES],
        };
        Self::new(block, data)
    }

    /// The result of a task that failed.
    pub(crate) fn failure(task_id: u64, status: i32, message: &str) -> Self {
        let block = result { task_id, status, data: ptr::null_mut(), data_size: 0, error_msg: cut(message) };
        Self::new(block, NonNull::from(Box::leak(Box::default())))
    }

    pub(crate) fn of(task_id: u64, outcome: &Outcome) -> Self {
        match outcome.result() {
            Ok(json) => Self::success(task_id, json.get().as_bytes()),
            Err(failure) => Self::failure(task_id, failure.code.number(), &words(failure)),
        }
    }

    /// `data` was leaked, and belongs to the result from now on.
    fn new(block: result, data: NonNull<[u8]>) -> Self {
        let block = NonNull::from(Box::leak(Box::new(block)));
        Self { serial: SERIAL.fetch_add(1, Relaxed), block, data }
    }

    /// How much memory it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + size_of::<result>() + self.data.len()) as u64
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Hands it to C.
    pub(crate) fn hand_out(self) -> *mut result_t {
        let address = self.block.as_ptr();
        part(address.addr()).insert(address.addr(), self);
        address
    }
}

impl Drop for OwnedResult {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this very box, nobody else frees it, and whoever had the address in C has given it
        // back or was told that it is gone.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
        // SAFETY: leaked by whoever made the result, for this value alone, and freed nowhere else.
        drop(unsafe { Box::from_raw(self.data.as_ptr()) });
    }
}

/// Takes a result back and frees it; refused if it is none, or was freed.
pub(crate) fn free(result: *const result_t) -> Result<(), TaskFailure> {
    let owned = part(result.addr()).remove(&result.addr());
    owned.map(drop).ok_or_else(|| wrong("result: expected one that was not freed, got something else"))
}

/// Frees a result unless somebody has done so, even if another one lies at its address by now.
pub(crate) fn free_unless_freed(result: *const result_t, serial: u64) {
    let mut part = part(result.addr());
    if part.get(&result.addr()).is_some_and(|owned| owned.serial == serial) {
        part.remove(&result.addr());
    }
}

/// A failure in one line.
fn words(failure: &TaskFailure) -> String {
    match failure.at {
        Some(at) => format!("{} ({at})", failure.message),
        None => failure.message.clone(),
    }
}

/// As much of a message as there is room for, in whole characters.
fn cut(message: &str) -> [c_char; ERROR_MSG_BYTES] {
    let mut end = message.len().min(ERROR_MSG_BYTES - 1);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let mut into = [0; ERROR_MSG_BYTES];
    for (place, byte) in into.iter_mut().zip(message[..end].bytes().filter(|byte| *byte != 0)) {
        *place = byte as c_char;
    }
    into
}

fn part(address: usize) -> MutexGuard<'static, HashMap<usize, OwnedResult>> {
    // Blocks lie a few hundred bytes apart; the bits in the middle tell neighbours from each other.
    let part = &LIVE[(address >> 6) % PARTS];
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_freed_once() {
        let result = OwnedResult::success(7, b"{}").hand_out();
        assert!(free(result).is_ok());
        assert!(free(result).is_err());
        let mut foreign = 0_u64;
        assert!(free((&raw mut foreign).cast()).is_err());
        assert!(free(ptr::null()).is_err());
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = "ü".repeat(200);
        let kept = cut(&message);
        let bytes: Vec<u8> = kept.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        assert_eq!(String::from_utf8(bytes).expect("whole characters"), "ü".repeat(127));
        assert_eq!(kept[ERROR_MSG_BYTES - 1], 0);
    }
}
