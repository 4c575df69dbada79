//! From a name to its addresses, within a time and stoppable.
//!
//! The system's own lookup knows the files and services of this machine, but it cannot be interrupted. So it
//! runs on a thread of its own, which may be left behind; how many may run at once is bounded, so that a name
//! server that does not answer costs no more than these.
//!
//! A name is looked up once for each request or redirect. Its addresses are judged, and the connection is
//! made to these and never to the name: a second lookup could say something else.
//!
//! Not here: which addresses are allowed (`hosts.rs`).

use super::stopper::Stopper;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How many lookups may run at once.
const LOOKUPS_MAX: usize = 64;

/// Knows the addresses of names. It may take its time.
pub(super) type Names = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

pub(super) struct Lookups {
    names: Names,
    running: Arc<AtomicUsize>,
}

/// Why there are no addresses.
#[derive(Debug)]
pub(super) enum LookupError {
    Stopped,
    TimedOut,
    TooMany,
    Failed(io::Error),
}

impl Lookups {
    pub(super) fn new(names: Names) -> Self {
        Self { names, running: Arc::default() }
    }

    /// As this machine looks names up.
    pub(super) fn of_system() -> Self {
        Self::new(Arc::new(|name, port| (name, port).to_socket_addrs().map(Iterator::collect)))
    }

    /// The addresses of a name.
    pub(super) fn find(
        &self,
        name: &str,
        port: u16,
        deadline: Instant,
        stopper: &Stopper,
    ) -> Result<Vec<SocketAddr>, LookupError> {
        let Some(running) = Running::begin(&self.running) else { return Err(LookupError::TooMany) };
        let (sender, answer) = mpsc::channel();
        let of_stop = sender.clone();
        // The answer may be there already, or nobody may listen any more; both are fine.
        let stop = move || drop(of_stop.send(Err(LookupError::Stopped)));
        stopper.begin_wait(stop).map_err(|_| LookupError::Stopped)?;
        let (names, name) = (Arc::clone(&self.names), name.to_owned());
        let look = move || {
            let found = names(&name, port).map_err(LookupError::Failed);
            drop(running);
            drop(sender.send(found));
        };
        thread::Builder::new().name("millpond-lookup".to_owned()).spawn(look).map_err(LookupError::Failed)?;
        match answer
            .recv_timeout(deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
        {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => Err(LookupError::TimedOut),
            Err(RecvTimeoutError::Disconnected) => {
                Err(LookupError::Failed(io::Error::other("the lookup panicked")))
            }
        }
    }
}

/// One of the lookups that may run at once, until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn begin(running: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count| (count < LOOKUPS_MAX).then_some(count + 1);
        running.fetch_update(Relaxed, Relaxed, more).is_ok().then(|| Self(Arc::clone(running)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Lookups that answer only when the sender is dropped, and one message for each that has begun.
    fn stuck() -> (Lookups, mpsc::Sender<()>, mpsc::Receiver<()>) {
        let (release, held) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let (held, begun) = (Mutex::new(held), Mutex::new(begun));
        let names = move |_: &str, _| {
            begun.lock().unwrap().send(()).unwrap();
            let _ = held.lock().unwrap().recv();
            Ok(Vec::new())
        };
        (Lookups::new(Arc::new(names)), release, begins)
    }

    #[test]
    fn a_lookup_that_hangs_can_be_stopped_and_does_not_begin_afterwards() {
        let (lookups, release, begins) = stuck();
        let stopper = Arc::new(Stopper::default());
        let of_thread = Arc::clone(&stopper);
        let stopping = thread::spawn(move || {
            begins.recv().unwrap();
            of_thread.stop();
            begins
        });
        assert!(matches!(lookups.find("a", 80, later(), &stopper), Err(LookupError::Stopped)));
        let begins = stopping.join().unwrap();
        assert!(matches!(lookups.find("a", 80, later(), &stopper), Err(LookupError::Stopped)));
        drop((release, lookups));
        assert!(begins.recv().is_err(), "no second lookup began");
    }

    #[test]
    fn a_lookup_that_hangs_ends_with_its_time_and_too_many_are_refused() {
        let (lookups, release, begins) = stuck();
        for _ in 0..LOOKUPS_MAX {
            let found = lookups.find("a", 80, Instant::now(), &Stopper::default());
            assert!(matches!(found, Err(LookupError::TimedOut)), "{found:?}");
        }
        let refused = lookups.find("a", 80, later(), &Stopper::default());
        assert!(matches!(refused, Err(LookupError::TooMany)), "{refused:?}");
        drop(release);
        begins.iter().take(LOOKUPS_MAX).for_each(drop);
        // Those left behind end one after the other, and make room.
        let found = loop {
            match lookups.find("a", 80, later(), &Stopper::default()) {
                Err(LookupError::TooMany) => thread::yield_now(),
                found => break found,
            }
        };
        assert!(found.is_ok(), "{found:?}");
    }

    #[test]
    fn the_system_knows_this_machine() {
        let found = Lookups::of_system().find("localhost", 7, later(), &Stopper::default()).unwrap();
        assert!(
            !found.is_empty() && found.iter().all(|at| at.ip().is_loopback() && at.port() == 7),
            "{found:?}"
        );
    }
}
