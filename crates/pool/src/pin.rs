//! Keeping a worker on one processor, where the system allows it.
//!
//! The processors counted are those this process may use, so that a pool in a container pins to its own share.

/// Keeps this thread on the `number`-th processor of this process, counted round. Does nothing where it cannot.
#[cfg(target_os = "linux")]
pub(crate) fn to_processor(number: usize) {
    // SAFETY: a `cpu_set_t` is an array of bits, for which zero is the empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is writable and of the size given; 0 means this thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) } != 0 {
        return;
    }
    let bits = 8 * size_of::<libc::cpu_set_t>();
    // SAFETY: every number asked for is below the number of bits in the set.
    let processors: Vec<usize> = (0..bits).filter(|&bit| unsafe { libc::CPU_ISSET(bit, &allowed) }).collect();
    let Some(&processor) = processors.get(number % processors.len().max(1)) else { return };
    // SAFETY: as above, zero bits are the empty set of processors.
    let mut chosen: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number came out of a set of the same size.
    unsafe { libc::CPU_SET(processor, &mut chosen) };
    // SAFETY: the set is readable and of the size given. A refusal leaves the thread where it was, which is allowed.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const chosen) };
}

/// Elsewhere the system decides.
#[cfg(not(target_os = "linux"))]
pub(crate) fn to_processor(_number: usize) {}
