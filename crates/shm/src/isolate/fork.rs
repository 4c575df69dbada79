//! The calls that only a process with a single thread may make, and those that `std` has no word for.
//!
//! A fork copies one thread. Whatever lock another thread holds at that moment stays locked in the copy for ever,
//! so a process is copied here only while it has no other thread; the kernel is asked, nobody is believed. The
//! copy may then do all that a program may do, which is what lets handlers run in it.
//!
//! Not here: what the copies do (`zygote.rs`, `worker.rs`).

use rustix::process::{Pid, Signal};
use std::fs;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread that was joined may still be seen.
const JOINED_TIME: Duration = Duration::from_millis(200);
/// The last signal that a program can have an own way with; those after it are the C library's.
const SIGNALS: i32 = 31;

/// Which of the two this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The copy.
    Child,
    /// The one that was copied; with the process id of the copy.
    Parent(Pid),
}

/// How a process ended, as the kernel says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reaped {
    /// The wait status: how it ended.
    pub(super) status: i32,
    /// The most memory it had at any time, in bytes.
    pub(super) memory_max: u64,
}

/// How many threads this process has. One that was joined is seen there for a moment longer, so if there are several,
/// it is looked again for a while.
pub(super) fn threads() -> io::Result<usize> {
    let until = Instant::now() + JOINED_TIME;
    loop {
        let threads = fs::read_dir("/proc/self/task")?.count();
        if threads == 1 || Instant::now() >= until {
            return Ok(threads);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Copies this process. Refused if it has more than one thread.
pub(super) fn fork() -> io::Result<Side> {
    let threads = threads()?;
    if threads != 1 {
        return Err(io::Error::other(format!(
            "a process with {threads} threads cannot be copied; isolation has to begin before any thread does"
        )));
    }
    // SAFETY: this thread is the only one, as was just seen, and only it could start another. So no lock is held
    // by a thread that the copy would lack, and the copy may do whatever this process may.
    match unsafe { libc::fork() } {
        0 => Ok(Side::Child),
        pid => match Pid::from_raw(pid).filter(|_| pid > 0) {
            Some(pid) => Ok(Side::Parent(pid)),
            None => Err(io::Error::last_os_error()),
        },
    }
}

/// Takes a child that has ended out of the list of processes, and says how it ended. Waits until it has.
pub(super) fn reap(pid: Pid) -> io::Result<Reaped> {
    let (mut status, mut usage) = (0, MaybeUninit::zeroed());
    loop {
        // SAFETY: both places are this function's own, and as large as the kernel's answer.
        let answer = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &mut status, 0, usage.as_mut_ptr()) };
        if answer >= 0 {
            // SAFETY: it holds numbers alone, for which zeros are as good as what the kernel wrote over them.
            let usage: libc::rusage = unsafe { usage.assume_init() };
            return Ok(Reaped { status, memory_max: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024 });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Gives up whatever the program wanted to happen at signals, and lets all of them come. A program that does not
/// want to end when a pipe is closed at its other end keeps that wish, because its handlers count on it.
pub(super) fn default_signals() {
    for number in (1..=SIGNALS).filter(|number| *number != Signal::PIPE.as_raw()) {
        // SAFETY: the default is no function of this program. The two signals whose ways cannot be changed are
        // refused, and nothing happens.
        let _ = unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: it fills in the set, which is this function's own.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was filled in above, and nobody wants to know the one before.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut()) };
}

/// Writes out what the program has printed so far. Before a copy is made, so that the copy has nothing of it to print
/// again; and at the end of a copy, which does nothing else of what a program does at its end.
pub(super) fn flush() {
    let _ = io::stdout().flush();
    // SAFETY: no stream means all of them; those of a C program belong to its library, which locks each.
    let _ = unsafe { libc::fflush(null_mut()) };
}

/// Does not let a signal do anything.
pub(super) fn ignore_signal(signal: Signal) {
    // SAFETY: to ignore is no function of this program either.
    let _ = unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}

/// Ends this process here and now. Nothing that the program left for its end is done: a copy must not do that a
/// second time, and what lies in its buffers was written by somebody else.
pub(super) fn leave(status: i32) -> ! {
    // SAFETY: the kernel takes the process away, with all its threads; no code of it runs after this.
    unsafe { libc::_exit(status) }
}
