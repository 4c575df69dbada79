//! Waiting for replies: one thread reads for all that wait, and passes that on when it leaves.
//!
//! A thread that waits looks at the table first. If what it wants is not there, it takes the way in, if nobody has it,
//! and leads: it reads, and looks at the table after everything it has read. If somebody leads already, it follows: it
//! sleeps until there is news. It tries the way in while it holds the table, and a leader lets go of the way in before
//! it tells of that under the same lock, so either the try succeeds or the news comes: nobody sleeps without a leader.
//!
//! A leader looks around for a moment before it sleeps, and asks the socket whether the daemon lives before each sleep.

use super::Shared;
use super::link::{Connected, WELCOME_TIME_IN_PASSING, deliver};
use super::table::Table;
use crate::channel::{BATCH, Broken, Receiver};
use crate::handshake::is_over;
use crate::linger::Linger;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest sleep, and so how often the connection is looked at.
const NAP: Duration = Duration::from_millis(100);
/// How often somebody who only polls asks whether the daemon lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// How long somebody waits who has something to send and no room.
const UNSENT_NAP: Duration = Duration::from_millis(1);
/// How long somebody waits who has no daemon to wait for, before a new one is looked for.
const ALONE_NAP: Duration = Duration::from_millis(5);

/// Where answers come in. Whoever holds its lock leads.
pub(super) struct WayIn {
    receiver: Receiver,
    socket: UnixStream,
    checked_at: Instant,
}

/// Why a leader stopped.
enum Led<T> {
    Found(T),
    TimeOver,
    /// Something of an earlier daemon's is still to be sent.
    Unsent,
    /// The daemon is gone.
    Lost,
    /// There is none.
    Alone,
}

impl Shared {
    /// Waits until `look` finds something on the table, at most so long.
    pub(super) fn wait_for<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(&mut Table) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now().checked_add(timeout);
        let left = || until.map_or(NAP, |until| until.saturating_duration_since(Instant::now()));
        let mut table = self.lock_table();
        loop {
            if let Some(found) = look(&mut table) {
                return Some(found);
            }
            let Some(way_in) = self.try_way_in() else {
                let nap = left().min(NAP);
                if nap.is_zero() {
                    return None;
                }
                table.followers += 1;
                let woken = self.news.wait_timeout(table, nap);
                table = woken.unwrap_or_else(PoisonError::into_inner).0;
                table.followers -= 1;
                continue;
            };
            drop(table);
            let led = self.lead(way_in, until, &mut look);
            self.tell_followers();
            match led {
                Led::Found(found) => return Some(found),
                Led::TimeOver => return None,
                Led::Unsent if self.send_unsent() => {}
                Led::Unsent => thread::sleep(left().min(UNSENT_NAP)),
                Led::Lost => self.lose(),
                Led::Alone if !self.revive() => {
                    let nap = left().min(ALONE_NAP);
                    if nap.is_zero() {
                        return look(&mut self.lock_table());
                    }
                    thread::sleep(nap);
                }
                Led::Alone => {}
            }
            table = self.lock_table();
        }
    }

    /// Reads for everybody until `look` finds something. Lets go of the way in before it returns.
    fn lead<T>(
        &self,
        mut way_in: MutexGuard<'_, Option<WayIn>>,
        until: Option<Instant>,
        look: &mut impl FnMut(&mut Table) -> Option<T>,
    ) -> Led<T> {
        let Some(way_in) = way_in.as_mut() else { return Led::Alone };
        let mut linger = Linger::default();
        loop {
            match self.read(&mut way_in.receiver, look) {
                Err(Broken) => return Led::Lost,
                Ok((_, Some(found))) => return Led::Found(found),
                Ok((0, None)) => {}
                Ok(_) => {
                    linger.reset();
                    continue;
                }
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Led::TimeOver;
            }
            if linger.pause(now, self.settings.linger) {
                continue;
            }
            if is_over(&way_in.socket) {
                return Led::Lost;
            }
            if self.has_unsent.load(Relaxed) {
                return Led::Unsent;
            }
            way_in.receiver.wait(until.map_or(NAP, |until| until.saturating_duration_since(now)).min(NAP));
        }
    }

    /// Puts what has come on the table, and looks at it. The table is left alone if nothing has.
    fn read<T>(
        &self,
        receiver: &mut Receiver,
        look: &mut impl FnMut(&mut Table) -> Option<T>,
    ) -> Result<(usize, Option<T>), Broken> {
        let mut table = None;
        let bytes_max = self.settings.stream_bytes_max;
        let count = receiver.receive(BATCH, |message| {
            deliver(message, table.get_or_insert_with(|| self.lock_table()), bytes_max);
        })?;
        let Some(mut table) = table else { return Ok((count, None)) };
        let found = look(&mut table);
        if table.followers > 0 {
            self.news.notify_all();
        }
        Ok((count, found))
    }

    /// Reads what is there, if nobody else does, and looks after the connection now and then. Never waits.
    pub(super) fn look_around(&self) {
        let Some(mut guard) = self.try_way_in() else { return };
        let Some(way_in) = guard.as_mut() else {
            drop(guard);
            self.revive();
            return;
        };
        let mut is_lost = self.read(&mut way_in.receiver, &mut |_| None::<()>).is_err();
        if way_in.checked_at.elapsed() >= CHECK_INTERVAL {
            way_in.checked_at = Instant::now();
            is_lost |= is_over(&way_in.socket);
        }
        drop(guard);
        self.tell_followers();
        if is_lost {
            self.lose();
        } else if self.has_unsent.load(Relaxed) {
            self.send_unsent();
        }
    }

    /// Sends what an earlier daemon left, as far as there is room. Says whether that is all.
    fn send_unsent(&self) -> bool {
        let mut link = self.lock_link();
        // Whatever is wrong will be noticed by whoever reads.
        let _ = link.send_unsent();
        self.has_unsent.store(link.has_unsent(), Relaxed);
        !link.has_unsent()
    }

    /// Looks whether the daemon is gone, and says so if it is. If somebody else reads, they will notice.
    pub(super) fn notice_death(&self) -> bool {
        let is_dead = self.try_way_in().is_some_and(|way_in| way_in.as_ref().is_some_and(WayIn::is_dead));
        if is_dead {
            self.lose();
        }
        is_dead
    }

    /// The daemon is gone: takes back what is left, unless somebody has done so already.
    fn lose(&self) {
        let mut link = self.lock_link();
        let mut way_in = self.way_in.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(WayIn { receiver, .. }) = way_in.take_if(|way_in| way_in.is_dead()) {
            link.lose(receiver, &mut self.lock_table());
            self.has_unsent.store(link.has_unsent(), Relaxed);
        }
        drop((way_in, link));
        self.tell_followers();
    }

    /// Looks for a daemon, if it is time to. Says whether there is one.
    fn revive(&self) -> bool {
        let mut link = self.lock_link();
        if link.is_due() && self.connect(&mut link, WELCOME_TIME_IN_PASSING).is_err() {
            link.give_up(&mut self.lock_table());
        }
        link.is_wired()
    }

    pub(super) fn set_way_in(&self, connected: Connected) {
        let Connected { receiver, socket } = connected;
        let way_in = WayIn { receiver, socket, checked_at: Instant::now() };
        *self.way_in.lock().unwrap_or_else(PoisonError::into_inner) = Some(way_in);
    }

    /// Nobody leads, or something was put on the table.
    fn tell_followers(&self) {
        if self.lock_table().followers > 0 {
            self.news.notify_all();
        }
    }

    fn try_way_in(&self) -> Option<MutexGuard<'_, Option<WayIn>>> {
        match self.way_in.try_lock() {
            Ok(way_in) => Some(way_in),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sees to it that a thread is there which calls callbacks, as long as there are any.
    pub(super) fn serve_callbacks(self: &Arc<Self>) {
        let mut table = self.lock_table();
        if table.is_served || table.callbacks == 0 {
            return;
        }
        let weak = Arc::downgrade(self);
        let serve = move || while weak.upgrade().is_some_and(|shared| shared.call_next()) {};
        // Without a thread they wait for the next submission, which tries again.
        table.is_served = thread::Builder::new().name("mp-callbacks".to_owned()).spawn(serve).is_ok();
    }

    /// Calls one callback that is due, or waits for one for a while. False if there is none left to wait for.
    fn call_next(&self) -> bool {
        let next = self.wait_for(NAP, |table| match table.due.pop_front() {
            Some(due) => Some(Some(due)),
            None if table.callbacks == 0 => {
                table.is_served = false;
                Some(None)
            }
            None => None,
        });
        match next {
            Some(Some((on_end, reply))) => {
                // A panic is the callback's own, and must not keep others from being called.
                let _ = catch_unwind(AssertUnwindSafe(|| on_end(reply)));
                self.lock_table().callbacks -= 1;
                true
            }
            Some(None) => false,
            None => true,
        }
    }
}

impl WayIn {
    fn is_dead(&self) -> bool {
        is_over(&self.socket) || self.receiver.is_broken()
    }
}
