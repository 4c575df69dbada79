//! The wpol queues over a shared WebAssembly memory: what JavaScript calls.
//!
//! One memory, one instance for each end of each link. Numbers are all that passes: addresses in the memory, slot
//! indices, generations; a negative number is a refusal ([`end::Refusal`]). JavaScript sets the stack pointer of an
//! instance before its first call and never shares an instance between threads; that is what every `SAFETY` below
//! leans on, together with `end` being an address that `ring_create` or `ring_open` of the same instance answered.
//!
//! On the host this is an ordinary library, so that tests, clippy and tidy see it; only the build for WebAssembly goes
//! without the standard library.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod end;
#[cfg(target_arch = "wasm32")]
mod ground;

use alloc::boxed::Box;
use core::sync::atomic::AtomicU32;
use end::{End, Refusal, SLOT_STRIDE};
use millpond_queue::wpol::Memory;
use millpond_queue::wpol::v2::Progress;

/// The protocol that this module speaks, so that JavaScript can refuse a module of another release.
#[unsafe(no_mangle)]
pub extern "C" fn ring_version() -> u32 {
    2
}

/// Bytes of the block that each instance needs for itself, which is also what it must be aligned to.
#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
pub extern "C" fn ring_block_bytes() -> u32 {
    ground::BLOCK_BYTES as u32
}

/// Bytes from one slot's envelope to the next.
#[unsafe(no_mangle)]
pub extern "C" fn ring_stride() -> u32 {
    SLOT_STRIDE
}

/// Bytes of a region for so many tasks, 0 if there cannot be one.
#[unsafe(no_mangle)]
pub extern "C" fn ring_region_bytes(slots: u32) -> u32 {
    end::config(slots).bytes().ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
}

/// Builds a region in zeroed bytes and opens the pool's end of it: the end, or 0.
///
/// # Safety
/// `region` and `bell` are addresses of the memory, eight-aligned, and JavaScript keeps `bytes` and four bytes there
/// for this link alone, for as long as an instance of it lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_create(region: *mut u8, bytes: usize, slots: u32, bell: *mut u32) -> *mut End {
    // SAFETY: JavaScript set these bytes aside for the link, and touches none of wpol's words itself.
    let Ok(memory) = (unsafe { Memory::from_raw(region, bytes) }) else { return core::ptr::null_mut() };
    // SAFETY: as promised by the caller; the word is touched by atomics only.
    let bell = unsafe { AtomicU32::from_ptr(bell) };
    keep(End::create(memory, slots, bell))
}

/// Opens the worker's end of a region that the pool has built: the end, or 0.
///
/// # Safety
/// As for `ring_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_open(region: *mut u8, bytes: usize, bell: *mut u32) -> *mut End {
    // SAFETY: JavaScript set these bytes aside for the link, and touches none of wpol's words itself.
    let Ok(memory) = (unsafe { Memory::from_raw(region, bytes) }) else { return core::ptr::null_mut() };
    // SAFETY: as promised by the caller; the word is touched by atomics only.
    let bell = unsafe { AtomicU32::from_ptr(bell) };
    keep(End::open(memory, bell))
}

fn keep(end: Result<End, Refusal>) -> *mut End {
    end.map_or(core::ptr::null_mut(), |end| Box::into_raw(Box::new(end)))
}

/// Where the envelope of slot 0 lies, in bytes from the region's start.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_envelopes(end: *mut End) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &*end };
    end.envelopes_at().map_or_else(refused, |at| at as i32)
}

/// Takes a slot to be filled: its index.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_reserve(end: *mut End) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &mut *end };
    end.reserve().map_or_else(refused, |slot| slot as i32)
}

/// Publishes the reserved slot: the ticket's generation, which may be any number of 32 bits, or below 0. Does not ring.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_publish(end: *mut End, task: u32) -> f64 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &mut *end };
    match end.publish(task) {
        Ok(generation) => f64::from(generation),
        Err(refusal) => f64::from(refusal as i32),
    }
}

/// How far a task is: 0 queued, 1 running, 2 done, 3 failed, 4 cancelled, 5 expired.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_poll(end: *mut End, slot: u32, generation: u32) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &*end };
    match end.poll(slot, generation) {
        Ok(Progress::Queued) => 0,
        Ok(Progress::Running) => 1,
        Ok(Progress::Done { .. }) => 2,
        Ok(Progress::Failed) => 3,
        Ok(Progress::Cancelled) => 4,
        Ok(_) => 5,
        Err(refusal) => refused(refusal),
    }
}

/// Takes a task back and frees its slot: 1, or 0 if the worker was faster.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_revoke(end: *mut End, slot: u32, generation: u32) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &*end };
    end.revoke(slot, generation).map_or_else(refused, i32::from)
}

/// Gives the slot of a finished task back: 0.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_release(end: *mut End, slot: u32, generation: u32) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &*end };
    end.release(slot, generation).map_or_else(refused, |()| 0)
}

/// Starts the oldest task: its slot.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_start(end: *mut End) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &mut *end };
    end.start().map_or_else(refused, |slot| slot as i32)
}

/// Whether there is nothing to start: 1 or 0.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_is_dry(end: *mut End) -> u32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &*end };
    u32::from(end.is_dry())
}

/// Ends the task that runs: the way to wake the pool.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_finish(end: *mut End) -> i32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &mut *end };
    end.finish().map_or_else(refused, |way| way as i32)
}

/// Something was published: the way to wake the sleeper, 0 for nobody. The sleeper itself stores the way and looks
/// again with JavaScript's own atomics, which are stronger than a bell's store and fence.
///
/// # Safety
/// `end` is an end of this instance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ring_ring(end: *mut End) -> u32 {
    // SAFETY: an end of this instance, whose one thread is in this call and in no other.
    let end = unsafe { &*end };
    end.ring()
}

fn refused(refusal: Refusal) -> i32 {
    refusal as i32
}
