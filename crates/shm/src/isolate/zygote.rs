//! The zygote: a process that was copied before the daemon had a second thread, and makes the worker processes.
//!
//! A copy of a process that has threads is of little use (`fork.rs`), and the daemon has many. So it copies itself
//! when it begins, and that copy stays as it is: one thread, all handlers of the program, nothing running. It waits
//! for orders, and a worker process costs it one more copy. It is the parent of all of them: it takes away those
//! that have ended and tells the daemon how they did. When the daemon is gone, however it went, the socket between
//! the two says so, and the zygote ends with all its children.
//!
//! Not here: what a worker process does (`worker.rs`), the daemon's end of the socket (`link.rs`).

use super::fork::{self, Side};
use super::parcel::{self, Parcel};
use super::wire::{News, read_order};
use super::{Handlers, IsolationError, worker};
use crate::layout::Plan;
use millpond_tasks::config::Settings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal, setsid};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long the zygote may take to end.
const END_WAIT: Duration = Duration::from_secs(5);

/// The daemon's hold on the zygote. It ends when this is dropped.
#[derive(Debug)]
pub struct Zygote {
    pub(super) hold: Hold,
    pub(super) plan: Plan,
}

/// Ends the zygote when it is dropped, and waits until it has ended.
#[derive(Debug)]
pub(super) struct Hold {
    pid: Pid,
    pub(super) socket: Arc<OwnedFd>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = shutdown(&*self.socket, Shutdown::Both);
        // Somebody who waits for any child of this process may have been quicker; then there is nothing to do.
        let Ok(watch) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        let patience = Timespec::try_from(END_WAIT).ok();
        let is_over = poll(&mut [PollFd::new(&watch, PollFlags::IN)], patience.as_ref());
        // It has nothing to wait for. If it does not end, somebody has stopped it, or one of its children cannot be
        // taken away; those end with it in any case.
        if is_over != Ok(1) {
            let _ = pidfd_send_signal(&watch, Signal::KILL);
        }
        let _ = fork::reap(self.pid);
    }
}

/// Makes the handlers of the program, or says why not.
type Build = dyn Fn() -> Result<Handlers, String>;

/// What a worker process is made from.
pub(super) struct Spec {
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    pub(super) build: Box<Build>,
}

/// A worker process, as its parent knows it.
struct Child {
    order: u64,
    pid: Pid,
    /// Readable once it has ended.
    watch: OwnedFd,
}

impl Zygote {
    /// Copies this process, which must have no second thread yet. `build` makes the handlers of the program that are
    /// not built in; it is called in every worker process, so that threads and connections of handlers belong to one
    /// process each.
    pub fn start(
        settings: &Settings,
        build: impl Fn() -> Result<Handlers, String> + 'static,
    ) -> Result<Self, IsolationError> {
        let threads = fork::threads().map_err(IsolationError::NoZygote)?;
        if threads != 1 {
            return Err(IsolationError::Threads(threads));
        }
        let plan = super::plan(settings);
        let (ours, theirs) = parcel::pair().map_err(IsolationError::NoZygote)?;
        fork::flush();
        match fork::fork().map_err(IsolationError::NoZygote)? {
            Side::Parent(pid) => Ok(Self { hold: Hold { pid, socket: Arc::new(ours) }, plan }),
            Side::Child => {
                drop(ours);
                let spec = Spec { settings: settings.clone(), plan, build: Box::new(build) };
                // A panic must not run on into the code of whoever called: that is the daemon's.
                let serving = std::panic::AssertUnwindSafe(|| serve(&theirs, &spec));
                let _ = std::panic::catch_unwind(serving);
                fork::leave(101)
            }
        }
    }
}

/// The life of the zygote.
fn serve(socket: &OwnedFd, spec: &Spec) -> ! {
    // Ctrl-C is for the daemon, which ends its tasks first. So is what a service manager sends to all of a service.
    let _ = setsid();
    fork::default_signals();
    [Signal::INT, Signal::TERM, Signal::HUP].into_iter().for_each(fork::ignore_signal);
    set_name("millpond-zygote");
    let mut children: Vec<Child> = Vec::new();
    loop {
        let is_told = match wait(socket, &children) {
            Ok((is_told, ended)) => {
                ended.into_iter().rev().for_each(|at| take_away(socket, children.swap_remove(at)));
                is_told
            }
            Err(_) => end(children),
        };
        if is_told {
            match parcel::receive(socket) {
                Ok(Some(parcel)) => start_worker(socket, spec, parcel, &mut children),
                Ok(None) | Err(_) => end(children),
            }
        }
    }
}

/// Waits for an order or for the end of a child: whether there is an order, and who has ended, ascending.
fn wait(socket: &OwnedFd, children: &[Child]) -> io::Result<(bool, Vec<usize>)> {
    let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
    fds.extend(children.iter().map(|child| PollFd::new(&child.watch, PollFlags::IN)));
    loop {
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let ended = fds[1..].iter().enumerate().filter(|(_, fd)| ready(fd)).map(|(at, _)| at).collect();
    Ok((ready(&fds[0]), ended))
}

fn start_worker(socket: &OwnedFd, spec: &Spec, parcel: Parcel, children: &mut Vec<Child>) {
    let order = read_order(&parcel.bytes);
    let Ok([memory, line]) = <[OwnedFd; 2]>::try_from(parcel.descriptors) else {
        return tell(socket, order, News::Refused { errno: Errno::BADF.raw_os_error() }, &[]);
    };
    let refused = |error: &io::Error| News::Refused { errno: error.raw_os_error().unwrap_or(0) };
    match fork::fork() {
        Ok(Side::Child) => {
            // Nothing of its brothers and sisters is a worker's business.
            children.clear();
            worker::run(spec, memory, line)
        }
        Err(error) => tell(socket, order, refused(&error), &[]),
        // Nobody but this process takes it away, so its number is its own until then.
        Ok(Side::Parent(pid)) => match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(watch) => {
                tell(socket, order, News::Started { pid: pid.as_raw_nonzero().get() }, &[watch.as_fd()]);
                children.push(Child { order, pid, watch });
            }
            Err(error) => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = fork::reap(pid);
                tell(socket, order, refused(&error.into()), &[]);
            }
        },
    }
}

/// A child has ended: says how, after whatever it started itself was ended too.
fn take_away(socket: &OwnedFd, child: Child) {
    // It leads a group of its own, and until it is taken away nobody else can have the group's number.
    let _ = kill_process_group(child.pid, Signal::KILL);
    if let Ok(ended) = fork::reap(child.pid) {
        let news = News::Ended { status: ended.status, memory_max: ended.memory_max };
        tell(socket, child.order, news, &[]);
    }
}

/// If the daemon does not hear it, it is gone, and the next look at the socket will say so.
fn tell(socket: &OwnedFd, order: u64, news: News, descriptors: &[BorrowedFd<'_>]) {
    let _ = parcel::send(socket, &news.to_bytes(order), descriptors, SendFlags::empty());
}

/// The daemon is gone.
fn end(children: Vec<Child>) -> ! {
    for child in &children {
        let _ = kill_process_group(child.pid, Signal::KILL);
        let _ = rustix::process::kill_process(child.pid, Signal::KILL);
    }
    for child in &children {
        let _ = fork::reap(child.pid);
    }
    fork::leave(0)
}

/// What `ps` and `top` call this process; the rest of its line is the daemon's.
pub(super) fn set_name(name: &str) {
    let _ = fs::write("/proc/self/comm", name);
}
