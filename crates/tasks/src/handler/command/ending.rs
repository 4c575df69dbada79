//! How a process ended, in words: with a status, or by a signal with its name.
//!
//! Where the words can say more than the number they do: which limit it ran into, or that somebody else
//! killed it.

use super::limits::ProcessLimits;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// What programs in several languages say when they get no more memory.
const OUT_OF_MEMORY: [&str; 6] = [
    "MemoryError",
    "std::bad_alloc",
    "memory allocation of",
    "Cannot allocate memory",
    "OutOfMemoryError",
    "heap out of memory",
];

/// What a process did at its end, and why if that can be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// `was killed by signal 11 (SIGSEGV)`, `exited with status 3`.
    pub(super) did: String,
    pub(super) why: Option<String>,
}

pub(super) fn ending(status: ExitStatus, last_words: Option<&str>, limits: ProcessLimits) -> Ending {
    let did = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by {}", signal_words(signal)),
        (None, None) => format!("ended ({status})"),
    };
    let killed_by = |signal: Signal| status.signal() == Some(signal.as_raw());
    let is_out_of_memory = !status.success()
        && last_words.is_some_and(|words| OUT_OF_MEMORY.iter().any(|known| words.contains(known)));
    let why = match limits {
        ProcessLimits { cpu_seconds_max: Some(seconds), .. } if killed_by(Signal::XCPU) => {
            Some(format!("it used up its processor time (cpu_seconds_max = {seconds})"))
        }
        ProcessLimits { memory_bytes_max: Some(bytes), .. } if is_out_of_memory => {
            Some(format!("it ran out of memory (memory_bytes_max = {bytes})"))
        }
        _ if is_out_of_memory => Some("it ran out of memory".to_owned()),
        // We say so ourselves when it was us.
        _ if killed_by(Signal::KILL) => {
            Some("perhaps by the kernel, for want of memory or processor time".to_owned())
        }
        _ => None,
    };
    Ending { did, why }
}

fn signal_words(number: i32) -> String {
    const NAMES: [(Signal, &str); 19] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::VTALARM, "SIGVTALRM"),
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

    const NONE: ProcessLimits = ProcessLimits { memory_bytes_max: None, cpu_seconds_max: None };
    const BOTH: ProcessLimits = ProcessLimits { memory_bytes_max: Some(1 << 20), cpu_seconds_max: Some(7) };

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    fn killed(signal: Signal) -> ExitStatus {
        ExitStatus::from_raw(signal.as_raw())
    }

    fn did(status: ExitStatus) -> String {
        ending(status, None, NONE).did
    }

    fn why(status: ExitStatus, last_words: Option<&str>, limits: ProcessLimits) -> String {
        ending(status, last_words, limits).why.unwrap_or_default()
    }

    #[test]
    fn statuses_and_signals_are_named() {
        assert_eq!(did(exited(0)), "exited with status 0");
        assert_eq!(did(exited(3)), "exited with status 3");
        assert_eq!(did(killed(Signal::SEGV)), "was killed by signal 11 (SIGSEGV)");
        assert_eq!(did(ExitStatus::from_raw(35)), "was killed by signal 35");
        assert_eq!(why(exited(3), Some("bye"), BOTH), "");
    }

    #[test]
    fn limits_are_named_where_they_can_be_told() {
        let used_up = "it used up its processor time (cpu_seconds_max = 7)";
        assert_eq!(why(killed(Signal::XCPU), None, BOTH), used_up);
        assert_eq!(why(killed(Signal::XCPU), None, NONE), "");
        let memory = Some("Traceback | MemoryError");
        assert_eq!(why(exited(1), memory, BOTH), "it ran out of memory (memory_bytes_max = 1048576)");
        assert_eq!(why(exited(1), memory, NONE), "it ran out of memory");
        assert_eq!(why(exited(0), memory, BOTH), "", "it got over it");
        assert!(why(killed(Signal::KILL), None, BOTH).starts_with("perhaps by the kernel"));
    }
}
