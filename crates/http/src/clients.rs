//! Who is connected, what each is doing, and for how long: so that nobody holds on to a connection for ever.
//!
//! ```text
//!            first byte              head complete             answer written
//!   Idle ───────────────► Head ───────────────────► Busy ───────────────────► Idle
//!    │ idle_timeout        │ head_timeout             │ write_timeout while nobody reads
//!    ▼                     ▼                          ▼
//!   closed                408, closed                cut
//! ```
//!
//! Workers note the phase as it changes; the front looks at all of them a few times a second and tells
//! those that are overdue. So no request pays for a timer. When too many are connected, the one that has been
//! idle for longest makes room.
//!
//! Not here: what a worker does when it is told (`connection.rs`).

use crate::door::Pass;
use crate::figures::{Cut, Turned};
use crate::visit::Peer;
use slab::Slab;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No part of a request has come.
    Idle,
    /// A part of a head has.
    Head,
    /// A request is being answered.
    Busy,
}

/// For how long a client may do what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) idle: Duration,
    pub(crate) head: Duration,
    pub(crate) write: Duration,
}

/// Milliseconds since the door was opened, as the front last looked: a few times a second, which is exact
/// enough for limits of seconds and costs requests nothing.
#[derive(Debug)]
struct Clock {
    opened: Instant,
    millis: AtomicU64,
}

impl Clock {
    fn look(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.opened).as_millis();
        self.millis.store(u64::try_from(millis).unwrap_or(u64::MAX), Relaxed);
    }

    fn millis(&self) -> u64 {
        self.millis.load(Relaxed)
    }
}

/// One connection, as the rest of the door sees it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    clock: Arc<Clock>,
    /// The phase in the two lowest bits, above them since when, as the clock shows it. Written by the worker
    /// that serves it, read by the front.
    phase: AtomicU64,
    /// Since when an answer has been waiting to be read, plus 1; 0 if none is. Written by the worker.
    stalled: AtomicU64,
    /// 0, or 1 and the number of the `Cut`. Written by the front and by accept loops, taken by the worker.
    cut: AtomicU8,
    /// How the worker is told. Written by it, taken by whoever tells it.
    waker: Mutex<Option<Waker>>,
    /// Whether there is a waker, so that not every look takes the lock. Changed under it.
    has_waker: AtomicBool,
    /// What it came in with, until its first request takes it or does not come. Brought before the worker has it,
    /// then touched by the worker alone; the lock is never waited for.
    pass: Mutex<Option<Pass>>,
    has_pass: AtomicBool,
    /// How many requests it has made. Written by the worker.
    requests: AtomicU64,
    /// Whether the last of them had a body, which may not have been read to its end. Touched by the worker.
    has_body: AtomicBool,
    /// Whether the last answer is in hyper's hands and not all of it is written. Touched by the worker.
    is_handed_over: AtomicBool,
    /// Whether it was told to go when it is done, so that nobody counts on its going once more. Set for good.
    is_leaving: AtomicBool,
    /// Whether it was told that the present answer is the last. Touched by the worker.
    is_dismissed: AtomicBool,
}

const PHASE_BITS: u32 = 2;
/// How many are told at once that their time is over.
const CUT_AT_ONCE_MAX: usize = 64;

impl Client {
    fn new(peer: Peer, clock: Arc<Clock>) -> Self {
        let client = Self {
            peer,
            clock,
            phase: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            cut: AtomicU8::new(0),
            waker: Mutex::new(None),
            has_waker: AtomicBool::new(false),
            pass: Mutex::new(None),
            has_pass: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            has_body: AtomicBool::new(false),
            is_handed_over: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_dismissed: AtomicBool::new(false),
        };
        // It waits to be served or refused: nobody may expect a word from it, or send it away for its silence.
        client.set_phase(Phase::Busy);
        client
    }

    /// It comes in with this.
    pub(crate) fn bring(&self, pass: Pass) {
        *lock(&self.pass) = Some(pass);
        self.has_pass.store(true, Relaxed);
    }

    /// What it came in with, if it still has it.
    pub(crate) fn take_pass(&self) -> Option<Pass> {
        if !self.has_pass.load(Relaxed) {
            return None;
        }
        self.has_pass.store(false, Relaxed);
        lock(&self.pass).take()
    }

    /// Some bytes came.
    pub(crate) fn has_spoken(&self) {
        if self.phase() == Phase::Idle {
            self.set_phase(Phase::Head);
        }
    }

    /// A head is complete. Says how many there have been.
    pub(crate) fn has_asked(&self, has_body: bool) -> u64 {
        self.has_body.store(has_body, Relaxed);
        self.is_handed_over.store(false, Relaxed);
        self.set_phase(Phase::Busy);
        self.requests.fetch_add(1, Relaxed) + 1
    }

    /// hyper has all of the last answer, and has perhaps not written it.
    pub(crate) fn was_handed_over(&self) {
        self.is_handed_over.store(true, Relaxed);
    }

    /// Whether an answer is being written of which hyper has all.
    pub(crate) fn is_being_answered(&self) -> bool {
        self.is_handed_over.load(Relaxed)
    }

    /// All that hyper had is written.
    pub(crate) fn has_all(&self) {
        if self.is_handed_over.load(Relaxed) {
            self.is_handed_over.store(false, Relaxed);
            self.is_awaited();
        }
    }

    /// The last body was read to its end.
    pub(crate) fn was_heard(&self) {
        self.has_body.store(false, Relaxed);
    }

    /// It is told that the connection ends with the present answer.
    pub(crate) fn is_dismissed(&self) {
        self.is_dismissed.store(true, Relaxed);
    }

    /// A worker has it, or the last answer is written: the next word is the client's.
    pub(crate) fn is_awaited(&self) {
        self.set_phase(Phase::Idle);
    }

    /// An answer cannot be written on.
    pub(crate) fn stalls(&self) {
        if self.stalled.load(Relaxed) == 0 {
            self.stalled.store(self.clock.millis() + 1, Relaxed);
        }
    }

    /// Some of it could.
    pub(crate) fn flows(&self) {
        if self.stalled.load(Relaxed) != 0 {
            self.stalled.store(0, Relaxed);
        }
    }

    /// An answer that counted as written is not: its worker is told to go on with it when there is room.
    pub(crate) fn is_held_up(&self) {
        if self.phase() != Phase::Busy {
            self.is_handed_over.store(true, Relaxed);
            self.set_phase(Phase::Busy);
        }
        self.stalls();
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }

    /// Whether it may still be sending: the body of its last request, or more requests than we want.
    pub(crate) fn may_be_sending(&self) -> bool {
        self.has_body.load(Relaxed) || self.is_dismissed.load(Relaxed) || self.is_leaving.load(Relaxed)
    }

    /// Whether a cut is still due: what it was told for may be over by now.
    pub(crate) fn is_still_due(&self, why: Cut) -> bool {
        match why {
            Cut::SlowHead => self.phase() == Phase::Head,
            Cut::Stalled => self.stalled.load(Relaxed) != 0,
            _ => true,
        }
    }

    /// Whether a request is being answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.phase() == Phase::Busy
    }

    pub(crate) fn phase(&self) -> Phase {
        split(self.phase.load(Relaxed)).0
    }

    /// How the worker wants to be told; always the same way, since a connection is one task from end to end. Says
    /// what it has been told already.
    pub(crate) fn listen(&self, waker: &Waker) -> Option<Cut> {
        // One that is just being taken is woken too, and then looks again.
        if !self.has_waker.load(Relaxed) {
            let mut known = lock(&self.waker);
            *known = Some(waker.clone());
            self.has_waker.store(true, Relaxed);
        }
        if self.cut.load(Relaxed) == 0 {
            return None;
        }
        let number = self.cut.swap(0, Acquire);
        Cut::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    /// Tells the worker to end it.
    pub(crate) fn cut(&self, why: Cut) {
        if matches!(why, Cut::Idle | Cut::Evicted | Cut::Drain) {
            self.is_leaving.store(true, Relaxed);
        }
        self.cut.store(why as u8 + 1, Release);
        let mut known = lock(&self.waker);
        let waker = known.take();
        self.has_waker.store(false, Relaxed);
        drop(known);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(self.clock.millis() << PHASE_BITS | phase as u64, Relaxed);
    }

    /// Whether it has been at the same thing for too long.
    fn overdue(&self, patience: &Patience) -> Option<Cut> {
        if self.cut.load(Relaxed) != 0 {
            return None;
        }
        let now = self.clock.millis();
        let over = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) >= limit.as_millis();
        let stalled = self.stalled.load(Relaxed);
        if stalled > 0 && over(stalled - 1, patience.write) {
            return Some(Cut::Stalled);
        }
        match split(self.phase.load(Relaxed)) {
            (Phase::Idle, since) if over(since, patience.idle) && !self.is_leaving.load(Relaxed) => {
                Some(Cut::Idle)
            }
            (Phase::Head, since) if over(since, patience.head) => Some(Cut::SlowHead),
            _ => None,
        }
    }
}

fn split(word: u64) -> (Phase, u64) {
    let phase = match word & ((1 << PHASE_BITS) - 1) {
        0 => Phase::Idle,
        1 => Phase::Head,
        _ => Phase::Busy,
    };
    (phase, word >> PHASE_BITS)
}

/// How many clients do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) idle: usize,
    pub(crate) head: usize,
    pub(crate) busy: usize,
}

/// All who are connected.
#[derive(Debug)]
pub(crate) struct Clients {
    max: usize,
    per_peer_max: usize,
    clock: Arc<Clock>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    all: Slab<Arc<Client>>,
    /// How many each other machine has.
    remote: HashMap<IpAddr, usize>,
}

/// A connection's entry; gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    client: Arc<Client>,
    clients: Arc<Clients>,
    key: usize,
}

impl Clients {
    pub(crate) fn new(max: usize, per_peer_max: usize) -> Arc<Self> {
        let clock = Arc::new(Clock { opened: Instant::now(), millis: AtomicU64::new(0) });
        Arc::new(Self { max, per_peer_max, clock, known: Mutex::default() })
    }

    /// Takes in a client, if there is room. Somebody idle may have to go for it, if `may_evict`.
    pub(crate) fn open(self: &Arc<Self>, peer: Peer, may_evict: bool) -> Result<Entry, Turned> {
        let client = Arc::new(Client::new(peer, Arc::clone(&self.clock)));
        let mut known = self.lock();
        if let Peer::Remote(address) = peer
            && known.remote.get(&address).is_some_and(|count| *count >= self.per_peer_max)
        {
            return Err(Turned::PeerTooMany);
        }
        if known.all.len() >= self.max && !(may_evict && evict(&known.all)) {
            return Err(Turned::TooMany);
        }
        if let Peer::Remote(address) = peer {
            *known.remote.entry(address).or_default() += 1;
        }
        let key = known.all.insert(Arc::clone(&client));
        drop(known);
        Ok(Entry { client, clients: Arc::clone(self), key })
    }

    /// How many are connected.
    pub(crate) fn len(&self) -> usize {
        self.lock().all.len()
    }

    pub(crate) fn census(&self) -> Census {
        let mut census = Census::default();
        for (_, client) in &self.lock().all {
            match client.phase() {
                Phase::Idle => census.idle += 1,
                Phase::Head => census.head += 1,
                Phase::Busy => census.busy += 1,
            }
        }
        census
    }

    /// Tells those who have been at the same thing for too long, a bounded number at once, so that a crowd of them
    /// does not keep their workers from others. Says whether there are more.
    pub(crate) fn sweep(&self, patience: &Patience, now: Instant) -> bool {
        self.clock.look(now);
        // Told after the lock is released: the worker may end the connection at once.
        let overdue: Vec<_> = {
            let known = self.lock();
            let overdue = |client: &Arc<Client>| client.overdue(patience);
            let overdue =
                known.all.iter().filter_map(|(_, client)| Some((Arc::clone(client), overdue(client)?)));
            overdue.take(CUT_AT_ONCE_MAX).collect()
        };
        let more = overdue.len() == CUT_AT_ONCE_MAX;
        for (client, why) in overdue {
            client.cut(why);
        }
        more
    }

    /// Tells everybody.
    pub(crate) fn cut_all(&self, why: Cut) {
        let all: Vec<_> = self.lock().all.iter().map(|(_, client)| Arc::clone(client)).collect();
        for client in all {
            client.cut(why);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

/// Lets go of whoever has been idle for longest; false if nobody is.
fn evict(all: &Slab<Arc<Client>>) -> bool {
    let idle = all.iter().filter_map(|(_, client)| {
        let (phase, since) = split(client.phase.load(Relaxed));
        (phase == Phase::Idle && !client.is_leaving.load(Relaxed)).then_some((since, client))
    });
    let Some((_, longest)) = idle.min_by_key(|(since, _)| *since) else { return false };
    longest.cut(Cut::Evicted);
    true
}

impl Entry {
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut known = self.clients.lock();
        known.all.remove(self.key);
        if let Peer::Remote(address) = self.client.peer
            && let Some(count) = known.remote.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                known.remote.remove(&address);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(60),
        head: Duration::from_secs(5),
        write: Duration::from_secs(30),
    };

    fn told(client: &Client) -> Option<Cut> {
        client.listen(Waker::noop())
    }

    #[test]
    fn each_phase_has_its_own_patience() {
        let clients = Clients::new(10, 10);
        let entry = clients.open(Peer::Loopback, true).unwrap();
        let client = entry.client();
        client.is_awaited();
        let overdue = |seconds: u64| {
            let before = clients.clock.millis();
            clients.clock.millis.store(before + seconds * 1000, Relaxed);
            let told = client.overdue(&PATIENCE);
            clients.clock.millis.store(before, Relaxed);
            told
        };
        assert_eq!((overdue(59), overdue(61)), (None, Some(Cut::Idle)));
        client.has_spoken();
        assert_eq!((overdue(4), overdue(6)), (None, Some(Cut::SlowHead)));
        assert_eq!(client.has_asked(false), 1);
        assert_eq!(overdue(1000), None, "a request may take as long as whoever answers it lets it");
        client.stalls();
        assert_eq!((overdue(29), overdue(31)), (None, Some(Cut::Stalled)));
        client.flows();
        assert_eq!(overdue(31), None);
        client.is_awaited();
        assert_eq!((overdue(59), overdue(61)), (None, Some(Cut::Idle)));
    }

    #[test]
    fn the_first_byte_starts_the_clock_of_a_head_and_later_ones_do_not_start_it_again() {
        let clients = Clients::new(10, 10);
        let entry = clients.open(Peer::Loopback, true).unwrap();
        entry.client().set_phase(Phase::Head);
        let before = entry.client().phase.load(Relaxed);
        clients.clock.look(Instant::now() + Duration::from_secs(3));
        entry.client().has_spoken();
        assert_eq!(entry.client().phase.load(Relaxed), before);
    }

    #[test]
    fn the_longest_idle_makes_room_and_whoever_works_does_not() {
        let clients = Clients::new(2, 10);
        let (busy, idle) =
            (clients.open(Peer::Loopback, true).unwrap(), clients.open(Peer::Loopback, true).unwrap());
        busy.client().has_asked(false);
        idle.client().is_awaited();
        let third = clients.open(Peer::Loopback, true).unwrap();
        assert_eq!((told(busy.client()), told(idle.client())), (None, Some(Cut::Evicted)));
        third.client().has_asked(false);
        idle.client().has_asked(false);
        assert_eq!(clients.open(Peer::Loopback, true).unwrap_err(), Turned::TooMany);
        drop(third);
        drop(idle);
        assert!(clients.open(Peer::Loopback, true).is_ok());
    }

    #[test]
    fn one_address_may_have_so_many_and_this_machine_as_many_as_it_likes() {
        let clients = Clients::new(10, 1);
        let remote = Peer::Remote(Ipv4Addr::new(192, 0, 2, 1).into());
        let first = clients.open(remote, true).unwrap();
        assert_eq!(clients.open(remote, true).unwrap_err(), Turned::PeerTooMany);
        let _here =
            [clients.open(Peer::Loopback, true).unwrap(), clients.open(Peer::Loopback, true).unwrap()];
        drop(first);
        assert!(clients.open(remote, true).is_ok());
        assert_eq!(clients.len(), 2, "entries go with their connections");
    }

    #[test]
    fn whoever_is_told_hears_it_once() {
        let clients = Clients::new(10, 1);
        let entry = clients.open(Peer::Loopback, true).unwrap();
        clients.cut_all(Cut::Drain);
        assert_eq!((told(entry.client()), told(entry.client())), (Some(Cut::Drain), None));
        assert_eq!(clients.census(), Census { idle: 0, head: 0, busy: 1 });
    }
}
