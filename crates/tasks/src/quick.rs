//! Answers on the spot: a quick handler runs on the thread that asks, and is counted as the task it might have
//! been.
//!
//! Such an answer costs less than a lock, so counting it must cost less still. A success is one addition, to
//! a counter of the handler, the door and this thread's shard; accepted, ended and succeeded are all read from
//! it. One in [`TIMED_EVERY`] is timed and stands for all of them in the histograms. Everything else (a
//! failure, a refusal) is rare and counted where tasks are.
//!
//! Not here: which requests may be answered so (`submit.rs` takes all others), what a quick handler is
//! (`handler/quick.rs`).

use crate::door::DoorName;
use crate::error::{ErrorCode, TaskFailure};
use crate::handler::{Handler, panicked};
use crate::registry::{Registered, RegistryError};
use crate::request::Request;
use crate::service::{ServiceHandle, Shared};
use crate::submit::draining;
use millpond::policy::histogram::Histogram;
use serde_json::value::RawValue;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// One answer in so many is timed, and counts as so many in the histograms.
pub(crate) const TIMED_EVERY: u64 = 16;
/// How many threads may count without getting in each other's way.
const SHARDS: usize = 8;

/// How many answers of one handler succeeded, by door. A shard is written by the threads it belongs to, seldom
/// more than one, and read by whoever asks for figures.
#[derive(Debug, Default)]
pub(crate) struct QuickCounts {
    shards: [Shard; SHARDS],
}

/// Two cache lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; DoorName::ALL.len()]);

impl QuickCounts {
    fn of_this_thread(&self, door: DoorName) -> &AtomicU64 {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static SHARD: usize = THREADS.fetch_add(1, Relaxed) as usize % SHARDS;
        }
        &self.shards[SHARD.with(|shard| *shard)].0[door as usize]
    }

    /// By this door.
    pub(crate) fn by(&self, door: DoorName) -> u64 {
        self.shards.iter().map(|shard| shard.0[door as usize].load(Relaxed)).sum()
    }

    /// By all doors together.
    pub(crate) fn sum(&self) -> u64 {
        DoorName::ALL.into_iter().map(|door| self.by(door)).sum()
    }
}

impl ServiceHandle {
    /// The number of a handler, for doors that name handlers so. Numbers begin with 0, have no gaps, and stay as
    /// long as the service lives.
    pub fn handler_number(&self, name: &str) -> Option<u32> {
        self.shared.registry.named(name).map(|registered| registered.number)
    }

    /// The name of the handler with this number.
    pub fn handler_name(&self, number: u32) -> Option<&str> {
        self.shared.registry.numbered(number).map(|registered| &*registered.name)
    }

    /// Adds a handler while the service runs. It can be named by requests from now on, and has the next number.
    pub fn add_handler(&self, name: &str, handler: Box<dyn Handler>) -> Result<(), RegistryError> {
        if self.is_draining() {
            return Err(RegistryError::Ending(name.to_owned()));
        }
        self.shared.registry.add_later(name, handler)
    }

    /// The number of the quick handler that a request names, if it asks for nothing but the answer: no id,
    /// delay, retries, key, time limit or affinity, and no tracer wants to hear of it. Then a door may
    /// [answer](Self::answer_quick) it on the spot.
    pub fn quick_number(&self, request: &Request) -> Option<u32> {
        let wants_a_task = request.id.is_some()
            || !request.delay.is_zero()
            || request.run_at_ms.is_some()
            || request.expires.is_some()
            || request.unique_key.is_some()
            || request.retries > 0
            || request.idempotency_key.is_some()
            || request.timeout.is_some()
            || request.affinity.is_some()
            || self.shared.tracer.get().is_some();
        if wants_a_task {
            return None;
        }
        let registered = self.shared.registry.look_up(&request.target)?;
        registered.quick.is_some().then_some(registered.number)
    }

    /// Runs a quick handler here and now, and appends the JSON of its result to `out`. It counts as a task of
    /// this door that has waited so long; no list shows it, and no event tells of it. None if there is no such
    /// handler or it is not quick: then the request must be submitted. Refused while the service ends.
    ///
    /// After an error `out` is as long as before.
    pub fn answer_quick(
        &self,
        number: u32,
        args: &RawValue,
        door: DoorName,
        waited: Duration,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), TaskFailure>> {
        let shared = &*self.shared;
        let registered = shared.registry.numbered(number)?;
        let succeeded = registered.quick.as_ref()?.of_this_thread(door);
        if shared.is_draining.load(Acquire) {
            shared.counts.was_refused(ErrorCode::Draining);
            return Some(Err(draining()));
        }
        let begun = (succeeded.load(Relaxed) % TIMED_EVERY == TIMED_EVERY - 1).then(Instant::now);
        let length_before = out.len();
        // After a panic nothing of what it wrote is used; what else it left half done is the handler's own.
        let answered = catch_unwind(AssertUnwindSafe(|| registered.handler.answer(args, out)));
        let answered = answered.unwrap_or_else(|payload| Some(Err(panicked(payload.as_ref()))));
        let result = answered
            .map(|result| result.and_then(|()| shared.check_size(out.len().saturating_sub(length_before))));
        match &result {
            Some(Ok(())) => {
                succeeded.fetch_add(1, Relaxed);
                if let Some(begun) = begun {
                    stand_for_many(&registered.ran, begun.elapsed());
                    stand_for_many(&registered.waited, waited);
                }
            }
            Some(Err(failure)) => {
                out.truncate(length_before);
                shared.quick_failed(registered, door, failure.code);
            }
            None => out.truncate(length_before),
        }
        result
    }
}

impl Shared {
    /// How many tasks have ended, with those answered on the spot.
    pub(crate) fn ended(&self) -> u64 {
        self.counts.ended() + self.registry.quick_counts().map(QuickCounts::sum).sum::<u64>()
    }

    #[cold]
    fn quick_failed(&self, registered: &Registered, door: DoorName, code: ErrorCode) {
        self.counts.accepted.count(door);
        self.counts.count_end(code);
        registered.accepted.fetch_add(1, Relaxed);
        registered.failed.fetch_add(1, Relaxed);
    }
}

/// Records a time for all the answers that were not timed. Whoever finds the histogram busy leaves it: a thread
/// that answers on the spot waits for nobody.
fn stand_for_many(histogram: &Mutex<Histogram>, time: Duration) {
    if let Ok(mut histogram) = histogram.try_lock() {
        histogram.record_n(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), TIMED_EVERY);
    }
}
