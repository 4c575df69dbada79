//! Binding a thread, and whatever it starts, to one core.
//!
//! Only the cores this process may use count: a container often has fewer than the machine. A refusal leaves
//! the thread where it was, which costs steadiness and no more.
//!
//! Not here: who is bound (`team.rs`, `groups/http/`).

/// Binds this thread to the core with this number among those that it may use now, and so every process and
/// thread that it starts from now on.
#[cfg(target_os = "linux")]
pub(crate) fn bind(index: usize) {
    use rustix::thread::sched_getaffinity;
    if let Ok(allowed) = sched_getaffinity(None) {
        bind_among(&allowed, index);
    }
}

/// Binds what `start` starts to the first core, and this thread to the second.
#[cfg(target_os = "linux")]
pub(crate) fn apart<R>(start: impl FnOnce() -> R) -> R {
    use rustix::thread::sched_getaffinity;
    let allowed = sched_getaffinity(None);
    if let Ok(allowed) = &allowed {
        bind_among(allowed, 0);
    }
    let started = start();
    if let Ok(allowed) = &allowed {
        bind_among(allowed, 1);
    }
    started
}

#[cfg(target_os = "linux")]
fn bind_among(allowed: &rustix::thread::CpuSet, index: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let mut one = CpuSet::new();
    one.set(cores[index % cores.len()]);
    let _ = sched_setaffinity(None, &one);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_index: usize) {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn apart<R>(start: impl FnOnce() -> R) -> R {
    start()
}
