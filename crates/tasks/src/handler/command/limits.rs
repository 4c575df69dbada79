//! What a process may take from the machine: memory and processor time, held by the kernel.
//!
//! The limits are set from outside, as soon as the program runs and before it is given its first task. What
//! it took before that stays; from then on it gets no more than allowed. Children of the process have the
//! same limits, each for itself.

use crate::config::HandlerSettings;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::io;

/// Limits of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessLimits {
    /// The most address space, in bytes.
    pub(super) memory_bytes_max: Option<u64>,
    /// The most processor time, in seconds.
    pub(super) cpu_seconds_max: Option<u64>,
}

impl ProcessLimits {
    pub(super) fn of(settings: &HandlerSettings) -> Self {
        Self { memory_bytes_max: settings.memory_bytes_max, cpu_seconds_max: settings.cpu_seconds_max }
    }

    pub(super) fn set(self, pid: Pid) -> io::Result<()> {
        if let Some(bytes) = self.memory_bytes_max {
            set(pid, Resource::As, bytes, bytes)?;
        }
        if let Some(seconds) = self.cpu_seconds_max {
            // SIGXCPU says what happened. One who ignores it gets SIGKILL a second later.
            set(pid, Resource::Cpu, seconds, seconds + 1)?;
        }
        Ok(())
    }
}

/// Nobody may give a process more than the daemon itself may have, so that is what it gets then.
fn set(pid: Pid, resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(current.min(most)), maximum: Some(maximum.min(most)) };
    prlimit(Some(pid), resource, limit)?;
    Ok(())
}
