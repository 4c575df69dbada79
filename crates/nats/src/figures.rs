//! What the door has done, in numbers: counted by the loop, read by whoever asks.
//!
//! All of them are single numbers that only grow or only tell the present, so they are read without a lock and may be
//! a moment apart from each other.
//!
//! Not here: how they look to users (`stats.rs` of the crate `millpond-tasks`, and the doors).

use millpond_tasks::NatsStats;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

/// The numbers. Written by the loop (and `connected` by the client's callback), read by anybody.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) connected: AtomicBool,
    pub(crate) slots: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) unsent: AtomicUsize,
    pub(crate) fetched: AtomicU64,
    pub(crate) redelivered: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) fenced: AtomicU64,
    pub(crate) acked: AtomicU64,
    pub(crate) nacked: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) results: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) lost_pulls: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) chunks_dropped: AtomicU64,
    /// Tasks that ended, and those of them that failed; for other daemons to see.
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    server_version: Mutex<String>,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Figures {
    pub(crate) fn set_server_version(&self, version: &str) {
        version.clone_into(&mut self.server_version.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn server_version(&self) -> String {
        self.server_version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn stats(&self, url: &str, queue: &str, daemon: &str) -> NatsStats {
        NatsStats {
            connected: self.connected.load(Relaxed),
            url: url.to_owned(),
            queue: queue.to_owned(),
            daemon: daemon.to_owned(),
            server_version: self.server_version(),
            slots: self.slots.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            fetched: self.fetched.load(Relaxed),
            redelivered: self.redelivered.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            fenced: self.fenced.load(Relaxed),
            acked: self.acked.load(Relaxed),
            nacked: self.nacked.load(Relaxed),
            dead: self.dead.load(Relaxed),
            retried: self.retried.load(Relaxed),
            results: self.results.load(Relaxed),
            renewals: self.renewals.load(Relaxed),
            lost_pulls: self.lost_pulls.load(Relaxed),
            reconnects: self.reconnects.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            moved: self.moved.load(Relaxed),
            chunks_dropped: self.chunks_dropped.load(Relaxed),
            unsent: self.unsent.load(Relaxed),
        }
    }
}
