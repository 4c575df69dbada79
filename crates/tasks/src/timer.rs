//! What happens later: delays, pauses before another attempt, time limits, naps. One thread for all of them.
//!
//! An act that is no longer wanted is taken out again, so the timer holds no more than what is still to
//! happen: a day's time limit on tasks that take a millisecond must not pile up for a day. Acts run on the
//! timer's own thread, one after the other, and must be short.
//!
//! Not here: the pool's own deadlines, which belong to closures and tickets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

type Act = Box<dyn FnOnce() + Send>;

/// The longest wait: later than this is the same as never.
const WAIT_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Names one act, to take it out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerKey {
    at: Instant,
    number: u64,
}

impl TimerKey {
    /// When it is to happen.
    pub(crate) fn at(self) -> Instant {
        self.at
    }
}

/// Lets acts happen later. A cheap clone; the thread ends when [`stop`](Self::stop) is called or the last
/// clone goes.
#[derive(Clone)]
pub struct Timer {
    inner: Arc<Inner>,
    /// Ends the thread with the last clone; the thread itself only has `inner`.
    _owner: Arc<Owner>,
}

struct Inner {
    plan: Mutex<Plan>,
    changed: Condvar,
}

struct Plan {
    acts: BTreeMap<TimerKey, Act>,
    number: u64,
    is_over: bool,
}

struct Owner {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Timer {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let plan = Plan { acts: BTreeMap::new(), number: 0, is_over: false };
        let inner = Arc::new(Inner { plan: Mutex::new(plan), changed: Condvar::new() });
        let of_thread = Arc::clone(&inner);
        let thread =
            thread::Builder::new().name("millpond-timer".to_owned()).spawn(move || of_thread.run())?;
        let owner = Arc::new(Owner { inner: Arc::clone(&inner), thread: Mutex::new(Some(thread)) });
        Ok(Self { inner, _owner: owner })
    }

    /// Calls `act` when `wait` is over, unless it is cancelled first. After [`stop`](Self::stop) nothing
    /// happens any more.
    pub fn after(&self, wait: Duration, act: impl FnOnce() + Send + 'static) -> TimerKey {
        let at = Instant::now() + wait.min(WAIT_MAX);
        let mut plan = self.inner.lock();
        plan.number += 1;
        let key = TimerKey { at, number: plan.number };
        let is_first = plan.acts.first_key_value().is_none_or(|(first, _)| key < *first);
        if !plan.is_over {
            plan.acts.insert(key, Box::new(act));
        }
        drop(plan);
        if is_first {
            self.inner.changed.notify_one();
        }
        key
    }

    /// Takes an act out again; false if it has happened or is happening.
    pub fn cancel(&self, key: TimerKey) -> bool {
        // The act is dropped after the lock, because it may own anything.
        let act = self.inner.lock().acts.remove(&key);
        act.is_some()
    }

    /// How many acts are still to happen.
    pub fn len(&self) -> usize {
        self.inner.lock().acts.len()
    }

    /// Whether nothing is still to happen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all acts and ends the thread.
    pub fn stop(&self) {
        self._owner.stop();
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Timer").field("acts", &self.len()).finish()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut plan = self.lock();
        while !plan.is_over {
            let now = Instant::now();
            plan = match plan.acts.first_entry() {
                None => self.changed.wait(plan).unwrap_or_else(PoisonError::into_inner),
                Some(first) if first.key().at <= now => {
                    let act = first.remove();
                    drop(plan);
                    // An act that panics is our own mistake; the others still have to happen.
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
                    self.lock()
                }
                Some(first) => {
                    let wait = first.key().at - now;
                    self.changed.wait_timeout(plan, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Owner {
    fn stop(&self) {
        let acts = {
            let mut plan = self.inner.lock();
            plan.is_over = true;
            std::mem::take(&mut plan.acts)
        };
        drop(acts);
        self.inner.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // An act may hold the last clone; the timer's thread cannot wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn acts_happen_in_the_order_of_their_times() {
        let timer = Timer::start().unwrap();
        let (said, heard) = mpsc::channel();
        for wait_ms in [30, 10, 20] {
            let said = said.clone();
            timer.after(Duration::from_millis(wait_ms), move || said.send(wait_ms).unwrap());
        }
        let order: Vec<u64> = heard.iter().take(3).collect();
        assert_eq!(order, [10, 20, 30]);
        assert!(timer.is_empty());
    }

    #[test]
    fn a_cancelled_act_never_happens_and_takes_no_room() {
        let timer = Timer::start().unwrap();
        let (said, heard) = mpsc::channel();
        let unwanted = said.clone();
        let key = timer.after(Duration::from_millis(20), move || unwanted.send("cancelled").unwrap());
        assert!(timer.cancel(key));
        assert!(!timer.cancel(key), "it is gone");
        assert_eq!(timer.len(), 0);
        timer.after(Duration::from_millis(40), move || said.send("wanted").unwrap());
        assert_eq!(heard.recv().unwrap(), "wanted");
    }

    #[test]
    fn an_act_that_panics_does_not_end_the_timer() {
        let timer = Timer::start().unwrap();
        let (said, heard) = mpsc::channel();
        timer.after(Duration::ZERO, || panic!("on purpose"));
        timer.after(Duration::from_millis(1), move || said.send(()).unwrap());
        heard.recv().unwrap();
    }

    #[test]
    fn after_the_end_nothing_happens() {
        let timer = Timer::start().unwrap();
        let (said, heard) = mpsc::channel::<()>();
        let late = said.clone();
        timer.after(Duration::from_secs(3600), move || said.send(()).unwrap());
        timer.stop();
        timer.after(Duration::ZERO, move || late.send(()).unwrap());
        assert!(heard.recv().is_err(), "both acts were dropped");
    }
}
