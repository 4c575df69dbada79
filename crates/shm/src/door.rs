//! The door of shared memory: programs come in by a socket, and from then on their tasks by memory alone.
//!
//! ```text
//!  porter (one thread): the socket, who comes, who has gone       one thread for each program
//!    accept ► same user? ► hello and memory ► check ► welcome ──►  intake.rs ──► quick: answered here
//!    hang-up or end of the process ─────────► the member has left              └► the pool: answered by its worker
//! ```
//!
//! The porter never waits for anybody: a program that says nothing is sent away after a second. A program that dies
//! costs its own tasks nothing: what it had sent is still run, only nobody reads the answers.
//!
//! Not here: what the messages mean (`message.rs`), isolation (`isolate.rs`).

mod answers;
mod intake;
mod member;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod misfortunes;

use crate::channel::{Channel, ChannelError};
use crate::handshake::{Hello, Welcome, is_over, same_user};
use answers::Answers;
use intake::Intake;
use member::Member;
use millpond_tasks::config::MemoryDoorSettings;
use millpond_tasks::{Log, MemoryDoorStats, ServiceHandle, SocketFile};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a program may take for its hello.
const HELLO_TIME: Duration = Duration::from_secs(1);
/// How many may be on the doorstep at once.
const STRANGERS_MAX: usize = 16;
/// How long nobody is let in after the system refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the porter looks whether somebody's last task has ended, while somebody is leaving.
const SETTLE_INTERVAL: Duration = Duration::from_millis(10);

/// The door, open until [`close`](Self::close).
#[derive(Debug)]
pub struct MemoryDoor {
    shared: Arc<Shared>,
    porter: Option<JoinHandle<()>>,
    socket: SocketFile,
}

#[derive(Debug)]
struct Shared {
    settings: MemoryDoorSettings,
    service: ServiceHandle,
    log: Log,
    /// Wakes the porter.
    bell: OwnedFd,
    members: Mutex<Vec<Arc<Member>>>,
    /// Nobody else comes in, and no more tasks are taken.
    is_draining: AtomicBool,
    /// The porter ends.
    is_closing: AtomicBool,
    attached: AtomicU64,
    refused: AtomicU64,
}

impl MemoryDoor {
    /// Listens at this path, in a private directory of its own.
    pub fn open(
        path: &Path,
        settings: MemoryDoorSettings,
        service: ServiceHandle,
        log: Log,
    ) -> io::Result<Self> {
        let (socket, listener) = SocketFile::listen(path)?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            settings,
            service,
            log,
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            members: Mutex::default(),
            is_draining: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            attached: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&shared);
        shared.service.show_memory_door(move || weak.upgrade().map(|shared| shared.stats()));
        let porter = Porter {
            shared: Arc::clone(&shared),
            listener,
            strangers: Vec::new(),
            guests: Vec::new(),
            closed_until: None,
        };
        let porter = thread::Builder::new().name("mp-porter".to_owned()).spawn(move || porter.run())?;
        Ok(Self { shared, porter: Some(porter), socket })
    }

    /// Where it listens.
    pub fn path(&self) -> PathBuf {
        self.socket.path().to_owned()
    }

    /// How it stands.
    pub fn stats(&self) -> MemoryDoorStats {
        self.shared.stats()
    }

    /// Takes no more tasks. What was sent before is handed to the service, which must still take requests; waits for
    /// that, at most so long.
    pub fn drain(&self, within: Duration) {
        self.shared.is_draining.store(true, Relaxed);
        let until = Instant::now() + within;
        let members = self.shared.lock().clone();
        members.iter().for_each(|member| member.close());
        while members.iter().any(|member| !member.is_drained.load(Acquire)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets everybody read their last answers, at most so long, and closes. Says how many answers nobody read.
    pub fn close(mut self, within: Duration) -> usize {
        self.drain(within);
        let until = Instant::now() + within;
        let members = self.shared.lock().clone();
        let unread = || members.iter().map(|member| member.answers.waiting()).sum::<usize>();
        while unread() > 0 && Instant::now() < until {
            for member in &members {
                member.answers.flush();
            }
            thread::sleep(Duration::from_millis(1));
        }
        let left = unread();
        self.end();
        left
    }

    fn end(&mut self) {
        self.shared.is_closing.store(true, Relaxed);
        self.shared.ring();
        if let Some(porter) = self.porter.take() {
            // A porter that panicked has said so.
            let _ = porter.join();
        }
    }
}

impl Drop for MemoryDoor {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn stats(&self) -> MemoryDoorStats {
        let members = self.lock();
        MemoryDoorStats {
            clients: members.len(),
            attached: self.attached.load(Relaxed),
            refused: self.refused.load(Relaxed),
            under_way: members.iter().map(|member| member.under_way.load(Acquire)).sum(),
            answers_waiting: members.iter().map(|member| member.answers.waiting()).sum(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // A full counter is a bell that rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// Who stands at the socket.
struct Porter {
    shared: Arc<Shared>,
    listener: UnixListener,
    /// Connected, and silent so far.
    strangers: Vec<(UnixStream, Instant)>,
    guests: Vec<Guest>,
    /// Nobody is let in before: the system had no descriptor for one more.
    closed_until: Option<Instant>,
}

/// An attached program, as the porter knows it.
struct Guest {
    member: Arc<Member>,
    socket: UnixStream,
    /// Its process: a child that it forked may hold the socket open after its end.
    process: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    is_gone: bool,
}

impl Porter {
    fn run(mut self) {
        while !self.shared.is_closing.load(Relaxed) {
            self.wait();
            self.let_in();
            self.hear_strangers();
            self.see_off();
        }
        for guest in &mut self.guests {
            guest.member.has_left();
        }
        for guest in &mut self.guests {
            if let Some(thread) = guest.thread.take() {
                let _ = thread.join();
            }
        }
    }

    /// Sleeps until something may have happened.
    fn wait(&self) {
        let hears = |descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN);
        let mut watched = vec![hears(self.shared.bell.as_fd())];
        // Whoever cannot be let in must not be heard either, or the porter would never sleep.
        watched.extend(self.can_let_in().then(|| hears(self.listener.as_fd())));
        watched.extend(self.strangers.iter().map(|(socket, _)| hears(socket.as_fd())));
        for guest in self.guests.iter().filter(|guest| !guest.is_gone) {
            watched.push(hears(guest.socket.as_fd()));
            watched.extend(guest.process.as_ref().map(|process| hears(process.as_fd())));
        }
        let first = self.strangers.iter().map(|(_, since)| HELLO_TIME.saturating_sub(since.elapsed())).min();
        let leaving = self.guests.iter().any(|guest| guest.is_gone).then_some(SETTLE_INTERVAL);
        let reopens = self.closed_until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = first
            .into_iter()
            .chain(leaving)
            .chain(reopens)
            .min()
            .and_then(|time| Timespec::try_from(time).ok());
        // Whatever came of it, everything is looked at.
        let _ = poll(&mut watched, timeout.as_ref());
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
    }

    fn let_in(&mut self) {
        while self.can_let_in() {
            self.closed_until = None;
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.shared.log.warn(&format!("memory: a program could not be let in: {error}"));
                    self.closed_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            };
            match process_of(&socket).and_then(|_| self.has_place()) {
                Ok(()) => self.strangers.push((socket, Instant::now())),
                Err(words) => self.send_away(&socket, words),
            }
        }
    }

    fn can_let_in(&self) -> bool {
        let is_closed = self.closed_until.is_some_and(|until| Instant::now() < until);
        self.strangers.len() < STRANGERS_MAX && !is_closed
    }

    fn has_place(&self) -> Result<(), String> {
        let clients_max = self.shared.settings.clients_max;
        if self.shared.is_draining.load(Relaxed) {
            return Err("the daemon is shutting down".to_owned());
        }
        if self.guests.len() + self.strangers.len() >= clients_max {
            return Err(format!(
                "{clients_max} programs are attached; come again, or raise memory_door.clients_max"
            ));
        }
        Ok(())
    }

    fn hear_strangers(&mut self) {
        for (socket, since) in std::mem::take(&mut self.strangers) {
            match Hello::receive(&socket) {
                Ok(Some((hello, memory))) => {
                    if let Err(words) = self.welcome(&socket, &hello, memory) {
                        self.send_away(&socket, words);
                    }
                }
                Ok(None) if since.elapsed() < HELLO_TIME => self.strangers.push((socket, since)),
                Ok(None) => self.send_away(&socket, "expected a hello within a second".to_owned()),
                Err(words) => self.send_away(&socket, words),
            }
        }
    }

    fn welcome(&mut self, socket: &UnixStream, hello: &Hello, memory: OwnedFd) -> Result<(), String> {
        let settings = &self.shared.settings;
        let broken = |error: ChannelError| error.to_string();
        let channel = Channel::open(memory, &hello.plan, settings.region_bytes_max).map_err(broken)?;
        let pid = process_of(socket)?;
        let name = format!("{} (pid {})", hello.program, pid.as_raw_nonzero());
        let requests = channel.receiver.region();
        let answers = Answers::new(channel.sender);
        let member = Arc::new(Member::new(name, self.shared.service.clone(), answers, requests));
        let intake = Intake::new(Arc::clone(&member), Arc::clone(&self.shared));
        let system = |error: io::Error| format!("no place for this program: {error}");
        let socket = socket.try_clone().map_err(system)?;
        // First: if the program is gone already, nothing has been started for it.
        Welcome::yes().send(&socket).map_err(system)?;
        let thread = thread::Builder::new()
            .name("mp-memory".to_owned())
            .spawn(move || intake.run(channel.receiver))
            .map_err(system)?;
        // If it has died since, the socket says so.
        let process = pidfd_open(pid, PidfdFlags::empty()).ok();
        self.shared.attached.fetch_add(1, Relaxed);
        self.shared.log.debug(&format!("memory: {} is attached", member.name));
        self.shared.lock().push(Arc::clone(&member));
        self.guests.push(Guest { member, socket, process, thread: Some(thread), is_gone: false });
        Ok(())
    }

    fn send_away(&self, socket: &UnixStream, words: String) {
        self.shared.refused.fetch_add(1, Relaxed);
        self.shared.log.warn(&format!("memory: a program was sent away: {words}"));
        // It may be gone already.
        let _ = Welcome::no(words).send(socket);
    }

    /// Notices who has gone, and forgets whose last task has ended.
    fn see_off(&mut self) {
        for guest in self.guests.iter_mut().filter(|guest| !guest.is_gone) {
            let was_detached = guest.member.is_gone.load(Acquire);
            if was_detached || is_over(&guest.socket) || guest.has_exited() {
                guest.is_gone = true;
                guest.member.has_left();
                // If it lives, it learns of it by this.
                let _ = guest.socket.shutdown(Shutdown::Both);
                self.shared.log.debug(&format!("memory: {} has gone", guest.member.name));
            }
        }
        let settled = |guest: &mut Guest| guest.is_gone && guest.member.is_settled();
        for mut guest in self.guests.extract_if(.., settled) {
            self.shared.lock().retain(|member| !Arc::ptr_eq(member, &guest.member));
            if let Some(thread) = guest.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

impl Guest {
    fn has_exited(&self) -> bool {
        let Some(process) = &self.process else { return false };
        let mut watched = [PollFd::new(process, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// The process at the other end, if it may come in.
fn process_of(socket: &UnixStream) -> Result<Pid, String> {
    let peer = same_user(socket).map_err(|error| format!("who is there? {error}"))?;
    peer.map_err(|user| {
        format!("user {user} may not attach to a daemon of user {}", rustix::process::geteuid().as_raw())
    })
}
