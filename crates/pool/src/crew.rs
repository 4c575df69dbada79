//! How many workers there are: starting, retiring, standing in for those that wait, pausing, and leaving.
//!
//! ```text
//!                 recruit                    may_retire                     keep-alive over
//!   free seat ───────────────► running ───────────────────► spare thread ───────────────────► free seat
//!                               │    ▲                          │  recruit
//!              stand_still      ▼    │ go on                    └──────────► running
//!                             standing still
//! ```
//!
//! The crew keeps as many workers *running* as are wanted. A worker that is about to wait for something other than
//! work stands still: it does not count as running, so another is recruited for the time. When it goes on there may
//! be one too many, and the one in the highest seat retires when it next looks up. A retired thread stays near as a
//! spare for a while, since waits come in bursts and threads are dear.
//!
//! Not here: what happens to tasks when the pool ends (`life.rs`).

use crate::seat::Seat;
use crate::shared::{Shared, attention};
use crate::stack;
use crate::state::Verdict;
use crate::worker::{Leave, Worker};
use millpond_policy::view::WorkerState;
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So long a retired thread waits to be recruited again.
const SPARE_KEPT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Crew {
    roll: Mutex<Roll>,
    /// Told when workers come, go, pause or sleep; see who waits for it below.
    changed: Condvar,
    /// As `Roll::wanted`, to be read without the lock.
    wanted: AtomicUsize,
    /// How often a start or stop hook panicked.
    hook_panics: AtomicU64,
    /// How often a worker stood still with nobody to stand in for it.
    unrelieved: AtomicU64,
    /// How many do so now, and have found nothing to run meanwhile.
    standing: AtomicUsize,
}

/// Who is where.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) wanted: usize,
    pub(crate) running: usize,
    pub(crate) standing_still: usize,
    /// Retired ones that still pass on what waits at them.
    pub(crate) leaving: usize,
    /// Running ones that wait for the end of a pause.
    pausing: usize,
    /// Those that wait for their own pool to run dry or to end, and do nothing else.
    pub(crate) enders: Enders,
    /// How often the pool was seen to have run dry. Changed under the lock, by who has seen it.
    pub(crate) dried: Cell<u64>,
    /// Workers that run their start hook.
    starting: usize,
    /// Threads that have not ended.
    pub(crate) alive: usize,
    /// Seats whose thread waits to be recruited again, or is about to.
    spare: Vec<usize>,
    /// The thread of each seat, if there is one; as long as the most there ever were.
    threads: Vec<Option<JoinHandle<()>>>,
    pub(crate) paused: bool,
    pub(crate) stopping: bool,
}

/// Those that wait for their own pool to run dry or to end: a pool does not wait for them in turn.
#[derive(Debug, Default)]
pub(crate) struct Enders {
    /// How many threads wait: in a task, in the stop hook of a worker that retires, in that of one that is dismissed.
    at_work: usize,
    retired: usize,
    dismissed: usize,
    /// How many calls of each future, or of its parts, do so, by its address. Such a future lives until its call
    /// returns, also while its worker does something else meanwhile.
    futures: HashMap<usize, usize>,
}

impl Enders {
    fn of(&mut self, leaves: Option<Leave>) -> &mut usize {
        match leaves {
            None => &mut self.at_work,
            Some(Leave::Retired) => &mut self.retired,
            Some(Leave::Dismissed) => &mut self.dismissed,
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.at_work + self.retired + self.dismissed
    }

    pub(crate) fn futures(&self) -> usize {
        self.futures.len()
    }
}

impl Roll {
    /// Whether so many that sleep are all that are left, but for those that wait for just that.
    pub(crate) fn all_rest(&self, asleep: usize) -> bool {
        asleep + self.enders.at_work == self.running + self.standing_still
            && self.leaving == self.enders.retired
    }

    /// Whether the running worker of `seat` is one too many. Those in the highest seats go first, so that the first
    /// seats are always taken and keys stay with their workers.
    fn is_surplus(&self, seat: usize) -> bool {
        self.running > self.wanted && seat >= self.wanted
    }
}

impl Crew {
    pub(crate) fn new(wanted: usize) -> Self {
        let roll = Roll {
            wanted,
            running: 0,
            standing_still: 0,
            leaving: 0,
            pausing: 0,
            enders: Enders::default(),
            dried: Cell::new(0),
            starting: 0,
            alive: 0,
            spare: Vec::new(),
            threads: Vec::new(),
            paused: false,
            stopping: false,
        };
        Self {
            roll: Mutex::new(roll),
            changed: Condvar::new(),
            wanted: AtomicUsize::new(wanted),
            hook_panics: AtomicU64::new(0),
            unrelieved: AtomicU64::new(0),
            standing: AtomicUsize::new(0),
        }
    }

    pub(crate) fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many workers there should be.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted.load(Relaxed)
    }

    pub(crate) fn hook_panics(&self) -> u64 {
        self.hook_panics.load(Relaxed)
    }

    pub(crate) fn unrelieved(&self) -> u64 {
        self.unrelieved.load(Relaxed)
    }

    /// Counts a running worker that waits with nothing to run, for as long as it does.
    pub(crate) fn as_standing<R>(&self, wait: impl FnOnce() -> R) -> R {
        /// Also when the wait unwinds.
        struct Standing<'a>(&'a AtomicUsize);
        impl Drop for Standing<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        self.standing.fetch_add(1, Relaxed);
        let _standing = Standing(&self.standing);
        wait()
    }

    /// Whether all running workers but the caller wait with nothing to run. It may be stale.
    pub(crate) fn all_others_stand(&self) -> bool {
        self.standing.load(Relaxed) + 1 >= self.roll().running
    }

    pub(crate) fn hook_panicked(&self) {
        self.hook_panics.fetch_add(1, Relaxed);
    }

    /// Changes how many workers there should be, and starts those that are missing.
    pub(crate) fn resize(&self, shared: &Arc<Shared>, wanted: usize) -> io::Result<()> {
        let mut roll = self.roll();
        self.want(&mut roll, shared, wanted);
        let filled = self.fill(&mut roll, shared);
        if filled.is_err() {
            // As many as could be started are what there should be, until somebody asks again.
            let started = (roll.running + roll.standing_still).clamp(1, wanted);
            self.want(&mut roll, shared, started);
        }
        self.note_surplus(&roll, shared);
        // Where there is no seat for one more, workers stand still in them, and will go on.
        filled.map(drop)
    }

    fn want(&self, roll: &mut Roll, shared: &Shared, wanted: usize) {
        roll.wanted = wanted;
        self.wanted.store(wanted, Relaxed);
        shared.affinity.resize(wanted, shared.now());
        shared.sleep.set_workers(wanted);
    }

    /// Recruits until as many run as are wanted; `false` if there are not enough seats.
    fn fill(&self, roll: &mut Roll, shared: &Arc<Shared>) -> io::Result<bool> {
        while roll.running < roll.wanted {
            if roll.stopping || !self.recruit(roll, shared)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One more worker; `false` if there is no seat for it.
    fn recruit(&self, roll: &mut Roll, shared: &Arc<Shared>) -> io::Result<bool> {
        // The lowest first: see `is_surplus`.
        let lowest = roll.spare.iter().enumerate().min_by_key(|(_, seat)| **seat).map(|(place, _)| place);
        if let Some(seat) = lowest.map(|place| roll.spare.swap_remove(place)) {
            roll.running += 1;
            if let Some(thread) = &roll.threads[seat] {
                thread.thread().unpark();
            }
            return Ok(true);
        }
        let seat = roll.threads.iter().position(Option::is_none).unwrap_or(roll.threads.len());
        if seat >= shared.config.workers_max {
            return Ok(false);
        }
        shared.furnish(seat).map_err(io::Error::other)?;
        let builder = thread::Builder::new()
            .name(format!("{}-{seat}", shared.config.name))
            .stack_size(stack::bytes_of(shared.config.stack_bytes));
        let crew_of = Arc::clone(shared);
        let thread = builder.spawn(move || serve(&crew_of, seat)).inspect_err(|_| {
            // Nobody sits there: what is sent to it meanwhile is for the others.
            shared.seat(seat).presence.set(WorkerState::Terminated);
        })?;
        if seat == roll.threads.len() {
            roll.threads.push(Some(thread));
        } else {
            roll.threads[seat] = Some(thread);
        }
        roll.running += 1;
        roll.alive += 1;
        Ok(true)
    }

    fn note_surplus(&self, roll: &Roll, shared: &Shared) {
        if roll.running > roll.wanted {
            shared.attention.fetch_or(attention::SURPLUS, Relaxed);
            // The one to retire may be asleep, or wait for the end of a pause.
            shared.sleep.wake_from(roll.wanted);
            self.changed.notify_all();
        } else {
            shared.attention.fetch_and(!attention::SURPLUS, Relaxed);
        }
    }

    /// Whether the worker of `seat` is one too many; if so it no longer counts as running, and is a spare.
    pub(crate) fn may_retire(&self, shared: &Shared, seat: usize) -> bool {
        let mut roll = self.roll();
        let surplus = roll.is_surplus(seat);
        if surplus {
            roll.running -= 1;
            roll.leaving += 1;
            // At once, or nobody could be recruited until the thread is there.
            roll.spare.push(seat);
        }
        self.note_surplus(&roll, shared);
        surplus
    }

    /// The calling worker leaves because everybody does.
    pub(crate) fn leave(&self) {
        self.roll().running -= 1;
    }

    /// The calling worker stands still until the returned value is dropped, and another stands in for it, if there
    /// may be one more. `unrelieved`: whether it does so also if not.
    pub(crate) fn stand_still<'a>(
        &'a self,
        shared: &'a Arc<Shared>,
        unrelieved: bool,
    ) -> Option<StandingStill<'a>> {
        let mut roll = self.roll();
        roll.standing_still += 1;
        roll.running -= 1;
        let standing =
            StandingStill { crew: self, shared, relieved: matches!(self.fill(&mut roll, shared), Ok(true)) };
        drop(roll);
        if !standing.relieved {
            self.unrelieved.fetch_add(1, Relaxed);
        }
        (standing.relieved || unrelieved).then_some(standing)
    }

    /// Counts a thread that waits for its own pool to run dry or to end, for as long as it does nothing else. It is
    /// that of a worker, which perhaps leaves.
    pub(crate) fn as_ender<R>(&self, leaves: Option<Leave>, wait: impl FnOnce() -> R) -> R {
        *self.roll().enders.of(leaves) += 1;
        // Another may have waited for this one to wait.
        self.changed.notify_all();
        let waited = wait();
        *self.roll().enders.of(leaves) -= 1;
        waited
    }

    /// Counts a future that waits for its own pool to run dry or to end, until that call returns.
    pub(crate) fn with_future_as_ender<R>(&self, future: Option<usize>, call: impl FnOnce() -> R) -> R {
        let Some(future) = future else { return call() };
        *self.roll().enders.futures.entry(future).or_default() += 1;
        let called = call();
        if let Entry::Occupied(mut calls) = self.roll().enders.futures.entry(future) {
            *calls.get_mut() -= 1;
            if *calls.get() == 0 {
                calls.remove();
            }
        }
        called
    }

    /// Runs a worker's start hook. A pause does not wait for that: no task can begin there.
    pub(crate) fn as_starting(&self, hook: impl FnOnce()) {
        self.roll().starting += 1;
        hook();
        self.roll().starting -= 1;
    }

    /// Sees to it that no worker begins a task, or lets them go on. When it returns, whoever was about to begin one
    /// has begun it, but for one whose last word about its task before is still on its way (no fence is paid for that).
    pub(crate) fn set_paused(&self, shared: &Shared, paused: bool) {
        let mut roll = self.roll();
        // A drain ends pauses, and whoever is about to end the pool is not held up by one.
        let paused = paused && shared.attention() & (attention::DRAINING | attention::STOPPING) == 0;
        roll.paused = paused;
        if paused {
            shared.attention.fetch_or(attention::PAUSED, Relaxed);
        } else {
            shared.attention.fetch_and(!attention::PAUSED, Relaxed);
        }
        drop(roll);
        self.changed.notify_all();
        shared.sleep.wake_all();
        while paused && !self.has_noticed_the_pause(shared) {
            thread::yield_now();
        }
    }

    fn has_noticed_the_pause(&self, shared: &Shared) -> bool {
        let roll = self.roll();
        let settled = roll.starting + roll.pausing + shared.busy() + shared.sleep.asleep();
        !roll.paused || roll.stopping || settled >= roll.running + roll.standing_still
    }

    pub(crate) fn wait_while_paused(&self, seat: usize) {
        let mut roll = self.roll();
        roll.pausing += 1;
        while roll.paused && !roll.stopping && !roll.is_surplus(seat) {
            roll = self.changed.wait(roll).unwrap_or_else(PoisonError::into_inner);
        }
        roll.pausing -= 1;
    }

    /// A worker has passed on what waited at it.
    fn has_left(&self, leave: Leave) {
        if leave == Leave::Retired {
            self.roll().leaving -= 1;
        }
        self.tell_drainers();
    }

    /// Wakes those who wait in `wait_until`, if anybody does.
    pub(crate) fn tell_drainers(&self) {
        // Taking the lock makes sure that whoever checks its condition now is told after it began to wait.
        drop(self.roll());
        self.changed.notify_all();
    }

    /// Waits until `met` says so, looking whenever something changes; `false` if the deadline came first.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>, met: impl Fn(&Roll) -> bool) -> bool {
        let mut roll = self.roll();
        loop {
            if met(&roll) {
                return true;
            }
            roll = match deadline {
                None => self.changed.wait(roll).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.changed.wait_timeout(roll, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Lets everybody go after the present task. Returns the threads, to be joined.
    pub(crate) fn dismiss(&self, shared: &Shared) -> Vec<JoinHandle<()>> {
        let mut roll = self.roll();
        roll.stopping = true;
        shared.attention.fetch_or(attention::STOPPING, Relaxed);
        let threads: Vec<_> = roll.threads.iter_mut().filter_map(Option::take).collect();
        drop(roll);
        self.changed.notify_all();
        shared.sleep.wake_all();
        for thread in &threads {
            thread.thread().unpark();
        }
        threads
    }

    /// A retired thread waits here. `true`: it has been recruited again.
    fn wait_as_spare(&self, seat: usize) -> bool {
        let until = Instant::now() + SPARE_KEPT;
        loop {
            let mut roll = self.roll();
            let Some(place) = roll.spare.iter().position(|&spare| spare == seat) else { return true };
            if roll.stopping {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                roll.spare.remove(place);
                // The handle goes with the thread: nobody will join it.
                roll.threads[seat] = None;
                return false;
            }
            drop(roll);
            thread::park_timeout(left);
        }
    }
}

/// A worker that waits for something other than work. Dropping it goes on.
pub(crate) struct StandingStill<'a> {
    crew: &'a Crew,
    shared: &'a Shared,
    /// Whether another worker stands in.
    pub(crate) relieved: bool,
}

impl Drop for StandingStill<'_> {
    fn drop(&mut self) {
        let mut roll = self.crew.roll();
        roll.standing_still -= 1;
        roll.running += 1;
        self.crew.note_surplus(&roll, self.shared);
    }
}

/// The life of a worker's thread.
fn serve(shared: &Arc<Shared>, number: usize) {
    if shared.config.pin {
        crate::pin::to_processor(number);
    }
    loop {
        let seat: &Seat = shared.seat(number);
        let Some(own) = seat.sit_down() else { unreachable!("a seat is given to one thread at a time") };
        seat.presence.set(WorkerState::Warming);
        let worker = Worker::new(Arc::clone(shared), number, own);
        // No task's panic comes this far, nor a hook's; but should ours, the count of workers must stay true.
        let Ok((own, leave)) = catch_unwind(AssertUnwindSafe(|| worker.work())) else {
            std::process::abort();
        };
        shared.worker_left(number);
        seat.presence.leave();
        // What it leaves behind is for the others, if there will be any.
        let keyed = || {
            let task = seat.inbox.try_dequeue().ok()?;
            shared.affinity.counts.moved.fetch_add(u64::from(leave == Leave::Retired), Relaxed);
            Some(task)
        };
        while let Some(task) = own.pop_oldest().or_else(keyed).or_else(|| seat.take_mail()) {
            match leave {
                Leave::Retired => shared.overflow.push(task),
                Leave::Dismissed => shared.discard(task, Verdict::Cancelled),
            }
        }
        own.shrink_to_fit();
        seat.get_up(own);
        seat.presence.set(WorkerState::Terminated);
        shared.sleep.work_came();
        shared.crew.has_left(leave);
        if leave == Leave::Dismissed || !shared.crew.wait_as_spare(number) {
            break;
        }
    }
    let mut roll = shared.crew.roll();
    roll.alive -= 1;
    drop(roll);
    shared.crew.changed.notify_all();
}
