//! `connection_queue.h`: a bounded queue of file descriptors between threads.
//!
//! The structure is the caller's and as large as the specification's; it holds a mark and a number, and the
//! queue itself is a [`Gate`] that calls keep alive while they are inside. So destroying a queue while others
//! wait in it lets them go, and a queue that was destroyed or never made is recognised, as far as its memory
//! says so.
//!
//! The comments are those of the generated header, so they speak to people who write C.

#![allow(unreachable_pub, reason = "C reaches what Rust cannot")]
#![allow(non_camel_case_types, reason = "these are the names of the C header")]
#![allow(clippy::missing_safety_doc, reason = "the header says of every call what it may be given")]

use crate::border::{guarded, wrong};
use millpond_queue::{Gate, Refusal};
use millpond_tasks::{ErrorCode, TaskFailure};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// How many connections a queue holds.
pub const QUEUE_SIZE: usize = 100;
/// In the first word of a queue that can be used.
const MARK: u64 = u64::from_le_bytes(*b"connqueu");
/// In the first word of one that was destroyed.
const DESTROYED: u64 = u64::from_le_bytes(*b"destroyd");
/// Words of the structure: 512 bytes, as the specification's has.
const WORDS: usize = 64;

/// A queue of file descriptors. Its memory is yours; what is in it is not.
#[repr(C)]
pub struct connection_queue {
    /// Not to be touched.
    pub opaque: [u64; 64],
}

/// A queue of file descriptors.
pub type connection_queue_t = connection_queue;

static QUEUES: LazyLock<RwLock<HashMap<u64, Arc<Gate<c_int>>>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Makes a queue for QUEUE_SIZE connections. Returns 0, or -1 if there is no memory or `queue` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_init(queue: *mut connection_queue_t) -> c_int {
    guarded(-1, || {
        // SAFETY: NULL, or memory for a queue, as the header asks for.
        let words = unsafe { words(queue) }?;
        let gate = Gate::with_capacity(QUEUE_SIZE).map_err(|error| wrong(error.to_string()))?;
        let number = NEXT.fetch_add(1, Relaxed);
        QUEUES.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(gate));
        words[1].store(number, Relaxed);
        words[0].store(MARK, Release);
        Ok(0)
    })
}

/// Adds a connection, waiting for place. Returns 0, or -1 if the queue is shut down, the descriptor is
/// negative, or the queue is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_enqueue(queue: *mut connection_queue_t, client_fd: c_int) -> c_int {
    guarded(-1, || {
        // SAFETY: NULL, or a queue, as the header asks for.
        let gate = unsafe { find(queue) }?;
        let client_fd = checked(client_fd)?;
        millpond::blocking(|| gate.enqueue(client_fd)).map(|()| 0).map_err(refused)
    })
}

/// As connection_queue_enqueue, but returns -1 at once if the queue is full; threadpool_last_error_code() is
/// then ERR_QUEUE_FULL, and ERR_DRAINING if it is shut down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_try_enqueue(
    queue: *mut connection_queue_t,
    client_fd: c_int,
) -> c_int {
    guarded(-1, || {
        // SAFETY: NULL, or a queue, as the header asks for.
        let gate = unsafe { find(queue) }?;
        gate.try_enqueue(checked(client_fd)?).map(|()| 0).map_err(refused)
    })
}

/// Takes the oldest connection, waiting for one. Returns -1 if the queue is shut down and everything in it
/// was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_dequeue(queue: *mut connection_queue_t) -> c_int {
    guarded(-1, || {
        // SAFETY: NULL, or a queue, as the header asks for.
        let gate = unsafe { find(queue) }?;
        millpond::blocking(|| gate.dequeue()).ok_or_else(|| refused(Refusal::Closed(-1)))
    })
}

/// How many connections wait, which may have changed by the time it is read. -1 if the queue is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_size(queue: *mut connection_queue_t) -> c_int {
    // SAFETY: NULL, or a queue, as the header asks for.
    guarded(-1, || Ok(unsafe { find(queue) }?.len() as c_int))
}

/// Takes no more connections and wakes everybody who waits. What is in the queue can still be taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_shutdown(queue: *mut connection_queue_t) {
    guarded((), || {
        // SAFETY: NULL, or a queue, as the header asks for.
        unsafe { find(queue) }?.close();
        Ok(())
    });
}

/// Frees a queue. It is shut down first; connections that are still in it are forgotten, not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connection_queue_destroy(queue: *mut connection_queue_t) {
    guarded((), || {
        // SAFETY: NULL, or a queue, as the header asks for.
        let gate = unsafe { find(queue) }?;
        // SAFETY: as above, and it is not NULL, as was just seen.
        let words = unsafe { words(queue) }?;
        words[0].store(DESTROYED, Release);
        QUEUES.write().unwrap_or_else(PoisonError::into_inner).remove(&words[1].load(Relaxed));
        gate.close();
        Ok(())
    });
}

/// The structure as words that several threads may look at.
///
/// # Safety
/// The pointer is NULL, or points to a structure that can be read and written while the call lasts.
unsafe fn words<'a>(queue: *mut connection_queue_t) -> Result<&'a [AtomicU64; WORDS], TaskFailure> {
    if queue.is_null() || !queue.is_aligned() {
        return Err(wrong("queue: expected a connection_queue_t, got NULL or what cannot be one"));
    }
    // SAFETY: it is not NULL, aligned, and by the caller's promise a structure of so many words, which this
    // crate alone touches, and never other than through atomics.
    Ok(unsafe { &*queue.cast::<[AtomicU64; WORDS]>() })
}

/// # Safety
/// As [`words`].
unsafe fn find(queue: *mut connection_queue_t) -> Result<Arc<Gate<c_int>>, TaskFailure> {
    // SAFETY: the caller makes the same promise to this function as it asks for.
    let words = unsafe { words(queue) }?;
    let mark = words[0].load(Acquire);
    let gate = (mark == MARK).then(|| {
        let queues = QUEUES.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(&words[1].load(Relaxed)).cloned()
    });
    gate.flatten().ok_or_else(|| {
        let got = if mark == DESTROYED { "one that was destroyed" } else { "memory that is no queue" };
        wrong(format!("queue: expected one that connection_queue_init made, got {got}"))
    })
}

fn checked(client_fd: c_int) -> Result<c_int, TaskFailure> {
    if client_fd < 0 {
        return Err(wrong(format!("client_fd: expected a descriptor, got {client_fd}; did accept() fail?")));
    }
    Ok(client_fd)
}

fn refused(refusal: Refusal<c_int>) -> TaskFailure {
    match refusal {
        Refusal::Full(_) | Refusal::TimedOut(_) => TaskFailure::new(
            ErrorCode::QueueFull,
            format!("the queue is full: {QUEUE_SIZE} connections wait"),
        ),
        Refusal::Closed(_) => TaskFailure::new(ErrorCode::Draining, "the queue is shut down"),
    }
}
