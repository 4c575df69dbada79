//! How a worker process ended, in words for whoever waits for its task.
//!
//! The number is what the kernel says; the reason is a guess where there is one worth telling: a process that is
//! killed by nobody here was killed for want of memory, mostly, and one that aborts close to its limit ran into it.

use super::fork::Reaped;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// `was killed by signal 11 (SIGSEGV)`, `exited with status 3`; with a reason if there is one.
pub(super) fn words(ended: Reaped, memory_bytes_max: Option<u64>) -> String {
    let status = ExitStatus::from_raw(ended.status);
    let did = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(number)) => format!("was killed by {}", signal_words(number)),
        (None, None) => format!("ended ({status})"),
    };
    match reason(status, ended.memory_max, memory_bytes_max) {
        Some(reason) => format!("{did}: {reason}"),
        None => did,
    }
}

fn reason(status: ExitStatus, memory_max: u64, memory_bytes_max: Option<u64>) -> Option<String> {
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    match memory_bytes_max {
        // A program that gets no more memory gives up in one of these ways. It asked for more than it was given,
        // perhaps for much more.
        Some(limit) if memory_max >= limit / 2 && !status.success() && !is(Signal::KILL) => Some(format!(
            "it had taken {} MiB of memory and probably got no more (isolation_memory_max = {limit})",
            memory_max >> 20
        )),
        _ if is(Signal::KILL) => Some("perhaps by the kernel, for want of memory".to_owned()),
        Some(limit) if is(Signal::ABORT) => {
            Some(format!("perhaps for want of memory (isolation_memory_max = {limit})"))
        }
        _ => None,
    }
}

fn signal_words(number: i32) -> String {
    const NAMES: [(Signal, &str); 14] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::SYS, "SIGSYS"),
    ];
    match NAMES.iter().find(|(signal, _)| signal.as_raw() == number) {
        Some((_, name)) => format!("signal {number} ({name})"),
        None => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<u64> = Some(64 << 20);

    fn killed(signal: Signal, mebibytes: u64) -> Reaped {
        Reaped { status: signal.as_raw(), memory_max: mebibytes << 20 }
    }

    #[test]
    fn endings_are_named() {
        assert_eq!(words(Reaped { status: 3 << 8, memory_max: 0 }, None), "exited with status 3");
        assert_eq!(words(killed(Signal::SEGV, 5), LIMIT), "was killed by signal 11 (SIGSEGV)");
        assert_eq!(words(Reaped { status: 35, memory_max: 0 }, None), "was killed by signal 35");
        assert!(words(killed(Signal::KILL, 5), None).ends_with("perhaps by the kernel, for want of memory"));
    }

    #[test]
    fn a_limit_is_named_where_it_was_near() {
        let near = words(killed(Signal::SEGV, 60), LIMIT);
        assert!(near.ends_with(
            "it had taken 60 MiB of memory and probably got no more (isolation_memory_max = 67108864)"
        ));
        assert!(words(killed(Signal::ABORT, 5), LIMIT).contains("perhaps for want of memory"));
        assert_eq!(words(killed(Signal::ABORT, 500), None), "was killed by signal 6 (SIGABRT)");
        assert_eq!(words(Reaped { status: 0, memory_max: 60 << 20 }, LIMIT), "exited with status 0");
    }
}
