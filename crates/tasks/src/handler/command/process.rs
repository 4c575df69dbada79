//! One child process: started, written to, listened to, signalled and waited for.
//!
//! None of its pipes ever blocks the thread that keeps it. Its end is seen through a file descriptor of its
//! own and not by the end of its output, because something it started may hold that open. A process that is
//! let go of is killed and waited for, together with its process group.
//!
//! Not here: what its words mean (`turn.rs`), when it has to go (`keeper.rs`).

use super::bell::{Bell, poll_until};
use super::last_words::LastWords;
use super::launch::{Launch, StartFailure};
use super::line_buffer::{CHUNK_BYTES, Filled, LineBuffer};
use rustix::event::{PollFd, PollFlags};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The process group of whatever runs now in one place, for threads that want to signal it.
#[derive(Debug, Default)]
pub(super) struct Group(Mutex<GroupState>);

#[derive(Debug, Default)]
struct GroupState {
    /// None once the process may have been waited for: its number may then be somebody else's.
    pid: Option<Pid>,
    /// Whatever comes is to be killed.
    is_doomed: bool,
}

impl Group {
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.lock().pid {
            // It fails if all of the group are gone, which is what was wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Kills the group, and any that comes later.
    pub(super) fn doom(&self) {
        self.lock().is_doomed = true;
        self.signal(Signal::KILL);
    }

    fn set(&self, pid: Pid) {
        let mut state = self.lock();
        state.pid = Some(pid);
        let is_doomed = state.is_doomed;
        drop(state);
        if is_doomed {
            self.signal(Signal::KILL);
        }
    }

    /// Kills what is left of the group and lets nobody signal it any more.
    fn clear(&self) {
        self.signal(Signal::KILL);
        self.lock().pid = None;
    }

    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a process is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// Another thread has news.
    pub(super) bell: bool,
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    /// It has ended.
    pub(super) end: bool,
}

/// One child process. Only the thread that keeps it touches it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    child: Child,
    group: Arc<Group>,
    /// Readable when it has ended.
    end: OwnedFd,
    stdin: Option<ChildStdin>,
    /// The task line, and how much of it has been written.
    line: Vec<u8>,
    written: usize,
    /// Whether stdin is to be closed when the line is written.
    input_ends: bool,
    stdout: Option<ChildStdout>,
    /// What it wrote and nobody has read yet.
    pub(super) answers: LineBuffer,
    stderr: Option<ChildStderr>,
    pub(super) words: LastWords,
    chunk: Box<[u8]>,
    /// How many tasks it has answered.
    pub(super) tasks: u64,
    status: Option<ExitStatus>,
}

impl Process {
    pub(super) fn start(launch: &Launch, group: &Arc<Group>) -> Result<Self, StartFailure> {
        let mut child = launch.spawn().map_err(|error| launch.failure(&error))?;
        let end = match prepare(&child, launch) {
            Ok(end) => end,
            Err(error) => {
                // It must not run without its limits, nor be left behind. It has ended already if this fails.
                let _ = child.kill();
                let _ = child.wait();
                return Err(launch.unready(&error));
            }
        };
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        group.set(Pid::from_child(&child));
        Ok(Self {
            pid: child.id(),
            child,
            group: Arc::clone(group),
            end,
            stdin,
            line: Vec::new(),
            written: 0,
            input_ends: false,
            stdout,
            answers: LineBuffer::new(launch.line_bytes_max),
            stderr,
            words: LastWords::new(Instant::now()),
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            tasks: 0,
            status: None,
        })
    }

    /// Waits until there is something to do, at most until then.
    pub(super) fn wait(&self, bell: &Bell, until: Option<Instant>) -> io::Result<Ready> {
        let is_writing = self.written < self.line.len();
        // What is not waited for is replaced by the bell with no event, which is never ready.
        let on = |fd: Option<_>, events| match fd {
            Some(fd) => PollFd::from_borrowed_fd(fd, events),
            None => PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::empty()),
        };
        let mut fds = [
            on(Some(bell.as_fd()), PollFlags::IN),
            on(self.stdin.as_ref().filter(|_| is_writing).map(AsFd::as_fd), PollFlags::OUT),
            on(self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
            on(self.stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
            on(Some(self.end.as_fd()), PollFlags::IN),
        ];
        poll_until(&mut fds, until)?;
        let [bell, stdin, stdout, stderr, end] = fds.map(|fd| !fd.revents().is_empty());
        Ok(Ready { bell, stdin, stdout, stderr, end })
    }

    /// Begins to write a task line.
    pub(super) fn ask(&mut self, line: Vec<u8>) {
        self.line = line;
        self.written = 0;
        self.send();
    }

    /// Writes as much of the task line as the pipe takes.
    pub(super) fn send(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            while self.written < self.line.len() {
                match stdin.write(&self.line[self.written..]) {
                    Ok(count) => self.written += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                    // It reads no more. It may have read enough to answer; if not, its end or its time tells.
                    Err(_) => self.line.truncate(self.written),
                }
            }
        }
        if self.input_ends {
            self.stdin = None;
        }
    }

    /// Lets it see the end of its input, once the task line is written.
    pub(super) fn end_input(&mut self) {
        self.input_ends = true;
        self.send();
    }

    /// Takes away its input at once, and what was still to be written.
    pub(super) fn cut_input(&mut self) {
        (self.line, self.written) = (Vec::new(), 0);
        self.stdin = None;
    }

    /// Whether all that was written of the task line still lies in the pipe, so that nobody can have begun
    /// with the task.
    pub(super) fn has_read_nothing(&self) -> bool {
        self.unread().is_some_and(|unread| unread >= self.written)
    }

    /// Whether it has the whole task line, so that it can have answered it. Who reads JSON and not lines may
    /// leave the line break for later.
    pub(super) fn has_read_its_task(&self) -> bool {
        self.written == self.line.len() && self.unread().is_none_or(|unread| unread <= 1)
    }

    /// How much lies in the pipe to its stdin, if that can still be told.
    fn unread(&self) -> Option<usize> {
        let unread = ioctl_fionread(self.stdin.as_ref()?).ok()?;
        usize::try_from(unread).ok()
    }

    /// Reads once from its stdout.
    pub(super) fn read_answers(&mut self) -> Filled {
        let Some(stdout) = &mut self.stdout else { return Filled::End };
        // A pipe that cannot be read has nothing more to say.
        let filled = self.answers.fill(stdout, &mut self.chunk).unwrap_or(Filled::End);
        if filled == Filled::End {
            self.stdout = None;
        }
        filled
    }

    pub(super) fn has_closed_stdout(&self) -> bool {
        self.stdout.is_none()
    }

    /// Throws away what it writes to stdout; false if there was nothing.
    pub(super) fn skip_answers(&mut self) -> bool {
        self.answers = LineBuffer::new(0);
        self.read_answers() == Filled::Some
    }

    /// Reads once from its stderr and passes lines on; false if there was nothing.
    pub(super) fn hear(&mut self, say: impl FnMut(&str)) -> bool {
        let Some(stderr) = &mut self.stderr else { return false };
        match stderr.read(&mut self.chunk) {
            Ok(count) if count > 0 => {
                self.words.hear(&self.chunk[..count], Instant::now(), say);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => false,
            _ => {
                self.stderr = None;
                false
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Kills whatever is left of it and waits for its end. Its status afterwards.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        self.group.clear();
        let status = self.child.wait()?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody can be told, and all that fails here is the wait for a process that is gone.
        let _ = self.reap();
    }
}

/// What has to be done before it gets its first task.
fn prepare(child: &Child, launch: &Launch) -> io::Result<OwnedFd> {
    let pid = Pid::from_child(child);
    launch.limits.set(pid)?;
    // Only our ends: the process has its own, and programs do not expect pipes that do not wait.
    for fd in [
        child.stdin.as_ref().map(AsFd::as_fd),
        child.stdout.as_ref().map(AsFd::as_fd),
        child.stderr.as_ref().map(AsFd::as_fd),
    ] {
        ioctl_fionbio(fd.expect("all three were asked for"), true)?;
    }
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}
