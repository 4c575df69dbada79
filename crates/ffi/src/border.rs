//! The border between C and Rust: panics stop here, pointers are looked at, the last error is kept.
//!
//! The last error belongs to the thread, as `errno` does, and only a call that fails changes it. A message
//! lives until the next failure on the same thread.
//!
//! Not here: handles (`pools.rs`), results (`result.rs`).

use millpond_tasks::{ErrorCode, TaskFailure};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CODE: Cell<i32> = const { Cell::new(0) };
    static MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs what a call does. If that fails or panics, the error is kept for this thread and `otherwise` is
/// answered.
pub(crate) fn guarded<T>(otherwise: T, act: impl FnOnce() -> Result<T, TaskFailure>) -> T {
    // What a panic leaves half done stays behind locks that are not poisoned for others, or is dropped.
    let outcome = catch_unwind(AssertUnwindSafe(act));
    match outcome.unwrap_or_else(|payload| Err(panicked(payload.as_ref()))) {
        Ok(answer) => answer,
        Err(failure) => {
            keep(&failure);
            otherwise
        }
    }
}

/// As [`guarded`], for calls that answer 0 or a negative code.
pub(crate) fn guarded_code(act: impl FnOnce() -> Result<(), TaskFailure>) -> i32 {
    let fallback = ErrorCode::Internal.number();
    guarded(None, || act().map(|()| Some(0))).unwrap_or_else(|| match last_code() {
        0 => fallback,
        code => code,
    })
}

/// There is nothing to report, and the caller asked for something that may well not be there.
pub(crate) fn nothing_to_report() {
    let _ = CODE.try_with(|code| code.set(0));
}

/// Keeps an error for this thread.
pub(crate) fn keep(failure: &TaskFailure) {
    // A thread that is ending has nowhere to keep it, and nobody who would ask.
    let _ = CODE.try_with(|code| code.set(failure.code.number()));
    let mut words = failure.message.clone();
    if let Some(at) = failure.at {
        words.push_str(&format!(" ({at})"));
    }
    words.retain(|character| character != '\0');
    let words = CString::new(words).expect("every NUL was taken out");
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = words);
}

/// The code of this thread's last error.
pub(crate) fn last_code() -> i32 {
    CODE.try_with(Cell::get).unwrap_or_default()
}

/// The words of this thread's last error; good until its next.
pub(crate) fn last_message() -> *const c_char {
    if last_code() == 0 {
        return c"".as_ptr();
    }
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Something the caller got wrong.
pub(crate) fn wrong(message: impl Into<String>) -> TaskFailure {
    TaskFailure::new(ErrorCode::BadArguments, message)
}

/// The bytes of a string that ends with NUL, which messages call `name`.
///
/// # Safety
/// The pointer is NULL, or points to such a string, which nobody changes while the call lasts.
pub(crate) unsafe fn bytes<'a>(name: &str, pointer: *const c_char) -> Result<&'a [u8], TaskFailure> {
    if pointer.is_null() {
        return Err(wrong(format!("{name}: expected a string, got NULL")));
    }
    // SAFETY: it is not NULL, so by the caller's promise it is a string that ends with NUL and stays as it is.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// As [`bytes`], if it is UTF-8.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(name: &str, pointer: *const c_char) -> Result<&'a str, TaskFailure> {
    // SAFETY: the caller makes the same promise to this function as it asks for.
    let bytes = unsafe { bytes(name, pointer) }?;
    str::from_utf8(bytes).map_err(|error| wrong(format!("{name}: expected UTF-8, got {error}")))
}

/// As [`text`], if it is not NULL.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text_or_none<'a>(
    name: &str,
    pointer: *const c_char,
) -> Result<Option<&'a str>, TaskFailure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller makes the same promise to this function as it asks for.
    unsafe { text(name, pointer) }.map(Some)
}

fn panicked(payload: &(dyn Any + Send)) -> TaskFailure {
    let words = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    TaskFailure::new(ErrorCode::Internal, format!("millpond panicked: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> String {
        // SAFETY: the message is a string that ends with NUL, and no call on this thread fails meanwhile.
        unsafe { CStr::from_ptr(last_message()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_ends_at_the_border_with_a_code_and_its_words() {
        assert_eq!(guarded(7, || -> Result<i32, TaskFailure> { panic!("by accident") }), 7);
        assert_eq!((last_code(), message()), (-199, "millpond panicked: by accident".to_owned()));
    }

    #[test]
    fn only_a_failure_changes_the_last_error() {
        assert_eq!(guarded_code(|| Err(wrong("a \0 in it"))), -108);
        assert_eq!(guarded_code(|| Ok(())), 0);
        assert_eq!((last_code(), message()), (-108, "a  in it".to_owned()));
        nothing_to_report();
        assert_eq!((last_code(), message()), (0, String::new()));
    }

    #[test]
    fn null_and_what_is_not_utf_8_are_refused_by_name() {
        // SAFETY: NULL is one of the two things that it may be given.
        let refused = unsafe { text("json", std::ptr::null()) }.unwrap_err();
        assert_eq!(refused.message, "json: expected a string, got NULL");
        // SAFETY: a string that ends with NUL and lives as long as the program.
        let refused = unsafe { text("name", c"\xFF".as_ptr()) }.unwrap_err();
        assert!(refused.message.starts_with("name: expected UTF-8, got"), "{}", refused.message);
    }
}
