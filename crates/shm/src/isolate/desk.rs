//! Who gets which task: the calls that wait, the processes that are free, and what a process is to be told.
//!
//! ```text
//!              hand_in, next                 answered, nothing waits
//!   Idle ─────────────────────► Busy ────────────────────────────────► Idle
//!    ▲                            │ died, killed
//!    └────────── ready ── Away ◄──┘
//! ```
//! Whoever hands in a call while a process is free gives it to that process himself: nobody has to be woken but the
//! process. Otherwise the call waits, in the order of arrival, for the keeper of the process that is free first. The
//! one that was free last is taken first, since it may not sleep yet.
//!
//! How many calls may wait is for the service to say: each is a task under way, of which there are `tasks_max`.
//!
//! Calls are finished and dropped outside the lock: that runs code of others, which may ask for [`Desk::stats`].

use super::GRACE;
use super::process::{Process, give};
use super::wire::write_call;
use crate::channel::SendError;
use millpond_tasks::{Call, StopCause, TaskId};
use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call and what has become of it so far.
pub(super) struct Job {
    pub(super) call: Call,
    /// Its place in the order of arrival, from 1.
    pub(super) number: u64,
}

/// What becomes of a call that comes in.
pub(super) enum Taken {
    /// It waits, a process has it, or it was stopped meanwhile.
    Yes,
    /// It cannot be served.
    Refused(Box<Call>, Refusal),
}

/// Why a call cannot be served.
#[derive(Debug)]
pub(super) enum Refusal {
    /// No more calls are taken.
    Closed,
    /// It is larger than a process can be given.
    TooLarge { bytes: usize, bytes_max: usize },
    /// Processes cannot be started; with why, and for how long nobody tries.
    Broken(String, Duration),
}

/// What a keeper whose process is free does next.
pub(super) enum Next {
    /// This call.
    Work(Job),
    /// Nothing, until somebody gives the process a call.
    Wait,
    /// Nothing at all: its process was killed.
    Nothing,
    /// End.
    Close,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Processes that were started and got ready.
    pub(super) starts: u64,
    /// Processes that ended because of what they did.
    pub(super) crashes: u64,
    /// Processes that were killed because their task was no longer wanted or took too long.
    pub(super) stops: u64,
    /// Tasks that a process answered.
    pub(super) answered: u64,
}

/// How it stands now.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeskStats {
    pub(super) waiting: usize,
    pub(super) processes: usize,
    pub(super) busy: usize,
    pub(super) counts: Counts,
}

/// Where calls wait for processes.
pub(super) struct Desk {
    state: Mutex<State>,
    /// Told when a process got ready, could not be started, or a keeper has ended.
    changed: Condvar,
    /// How many calls have come.
    number: AtomicU64,
}

struct State {
    /// In the order of arrival.
    waiting: BTreeMap<u64, Job>,
    seats: Vec<Seat>,
    /// Seats whose process is free, the latest last.
    idle: Vec<usize>,
    is_closing: bool,
    /// Why processes cannot be started, and until when nobody tries.
    broken: Option<(String, Instant)>,
    counts: Counts,
    keepers: usize,
}

#[derive(Default)]
struct Seat {
    process: Option<Arc<Process>>,
    /// The number of the call that its process has.
    busy: Option<u64>,
    /// The call itself, until the keeper takes it.
    job: Option<Job>,
    /// The task is no longer wanted: when the process is killed if it has not answered by then.
    kill_at: Option<Instant>,
    /// It was killed, and must not be given anything more.
    is_doomed: bool,
}

impl Desk {
    pub(super) fn new(seats: usize) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            seats: (0..seats).map(|_| Seat::default()).collect(),
            idle: Vec::with_capacity(seats),
            is_closing: false,
            broken: None,
            counts: Counts::default(),
            keepers: seats,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), number: AtomicU64::new(1) }
    }

    /// The number under which a call will come in, for its stop hook.
    pub(super) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Relaxed)
    }

    /// Takes a call in, and gives it to a process if one is free.
    pub(super) fn hand_in(&self, call: Call, number: u64) -> Taken {
        let mut body = Vec::with_capacity(128);
        write_call(&call, &mut body);
        let state = self.lock();
        if state.is_closing {
            return Taken::Refused(Box::new(call), Refusal::Closed);
        }
        if let Some((why, rest)) = state.is_broken(Instant::now()) {
            return Taken::Refused(Box::new(call), Refusal::Broken(why, rest));
        }
        // Its hook looks here after the call was stopped. If that was before now, this sees it; if it is later, the
        // hook finds the call.
        if call.is_cancelled() {
            drop(state);
            return Taken::Yes;
        }
        self.put(state, Job { call, number }, &body)
    }

    /// Gives a call to a process that is free, or lets it wait for one.
    fn put(&self, mut state: MutexGuard<'_, State>, job: Job, body: &[u8]) -> Taken {
        let number = job.number;
        let free = state.idle.pop().and_then(|seat| Some((seat, state.seats[seat].process.clone()?)));
        let Some((seat, process)) = free else {
            state.waiting.insert(number, job);
            return Taken::Yes;
        };
        job.call.begins();
        state.seats[seat].busy = Some(number);
        state.seats[seat].job = Some(job);
        // Before the desk is unlocked: if the process dies, its keeper comes here first and then for the sender, and
        // must find the message there.
        let sender = process.sender();
        drop(state);
        match give(sender, number, body) {
            Ok(()) => Taken::Yes,
            Err(error) => self.not_given(seat, &process, number, body.len(), error),
        }
    }

    /// A process did not take the call that its seat has.
    fn not_given(
        &self,
        seat: usize,
        process: &Process,
        number: u64,
        bytes: usize,
        error: SendError,
    ) -> Taken {
        let mut state = self.lock();
        let job = state.seats[seat].job.take_if(|job| job.number == number);
        // Its keeper may have seen its end already, and dealt with the call.
        let Some(job) = job else { return Taken::Yes };
        match error {
            SendError::TooLarge { bytes_max } => {
                state.seats[seat].busy = None;
                state.idle.push(seat);
                Taken::Refused(Box::new(job.call), Refusal::TooLarge { bytes, bytes_max })
            }
            _ => {
                state.seats[seat].job = Some(job);
                drop(state);
                // It is dead, or as good as that. Its keeper takes the call back.
                process.kill();
                Taken::Yes
            }
        }
    }

    /// A call is no longer wanted: it leaves the queue, or the process that has it is stopped.
    pub(super) fn stop(&self, number: u64, cause: StopCause) {
        let mut state = self.lock();
        let job = state.waiting.remove(&number);
        if let Some(seat) = state.seats.iter_mut().find(|seat| seat.busy == Some(number))
            && let Some(process) = &seat.process
        {
            if cause == StopCause::TimedOut {
                // It had its time.
                seat.is_doomed = true;
                process.kill();
            } else {
                seat.kill_at = Some(Instant::now() + GRACE);
                process.ask_to_stop(number);
            }
        }
        drop(state);
        drop(job);
    }

    /// A process is ready in this seat.
    pub(super) fn ready(&self, seat: usize, process: &Arc<Process>) {
        let mut state = self.lock();
        state.counts.starts += 1;
        state.broken = None;
        state.seats[seat] = Seat { process: Some(Arc::clone(process)), ..Seat::default() };
        self.changed.notify_all();
    }

    /// What the keeper of a process that is free is to do.
    pub(super) fn next(&self, seat: usize) -> Next {
        let mut state = self.lock();
        state.next(seat)
    }

    /// The process of this seat has answered this call: the call, unless the keeper has it, and what is next.
    pub(super) fn answered(&self, seat: usize, number: u64) -> (Option<Job>, Next) {
        let mut state = self.lock();
        state.counts.answered += 1;
        let job = state.seats[seat].job.take_if(|job| job.number == number);
        let next = state.next(seat);
        (job, next)
    }

    /// The call that a process has, for its keeper.
    pub(super) fn take_job(&self, seat: usize) -> Option<Job> {
        self.lock().seats[seat].job.take()
    }

    /// Kills the process of this seat if its time has come; otherwise says when that will be, if ever.
    pub(super) fn kill_if_due(&self, seat: usize, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let seat = &mut state.seats[seat];
        let at = seat.kill_at?;
        if at > now || seat.is_doomed {
            return Some(at);
        }
        seat.is_doomed = true;
        if let Some(process) = &seat.process {
            process.kill();
        }
        None
    }

    /// The process of this seat did what it may not. It is given nothing more, and killed.
    pub(super) fn doom(&self, seat: usize) {
        let mut state = self.lock();
        state.idle.retain(|idle| *idle != seat);
        let seat = &mut state.seats[seat];
        seat.is_doomed = true;
        if let Some(process) = &seat.process {
            process.kill();
        }
    }

    /// The process of this seat has ended. The call that it had, if the keeper has not got it, and whether it was
    /// killed from here.
    pub(super) fn ended(&self, seat: usize) -> (Option<Job>, bool) {
        let mut state = self.lock();
        state.idle.retain(|idle| *idle != seat);
        let seat = mem::take(&mut state.seats[seat]);
        (seat.job, seat.is_doomed)
    }

    /// A call was not begun after all. It is the first again, unless nobody can take it or wants it any more.
    pub(super) fn give_back(&self, job: Job) -> Option<Job> {
        let mut body = Vec::new();
        write_call(&job.call, &mut body);
        let state = self.lock();
        if state.is_closing || job.call.is_cancelled() {
            return Some(job);
        }
        match self.put(state, job, &body) {
            Taken::Yes => None,
            // It was not too large for the process that had it.
            Taken::Refused(call, _) => {
                drop(call);
                None
            }
        }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// Processes cannot be started. If there is none, nobody can serve those who wait: here they are.
    pub(super) fn set_broken(&self, why: &str, until: Instant) -> Vec<Job> {
        let mut state = self.lock();
        if state.seats.iter().any(|seat| seat.process.is_some()) {
            return Vec::new();
        }
        state.broken = Some((why.to_owned(), until));
        self.changed.notify_all();
        mem::take(&mut state.waiting).into_values().collect()
    }

    /// Whether processes could be started once.
    pub(super) fn has_ever_started(&self) -> bool {
        self.lock().counts.starts > 0
    }

    /// Waits until the first process is ready; why not, if none can be.
    pub(super) fn wait_ready(&self, within: Duration) -> Result<(), String> {
        let is_pending = |state: &mut State| state.broken.is_none() && state.counts.starts == 0;
        let waited = self.changed.wait_timeout_while(self.lock(), within, is_pending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.broken {
            Some((why, _)) => Err(why.clone()),
            None if state.counts.starts == 0 => Err(format!("no process was ready within {within:?}")),
            None => Ok(()),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Whether no more calls are taken, and the process of this seat has none.
    pub(super) fn is_idle_and_closing(&self, seat: usize) -> bool {
        let state = self.lock();
        state.is_closing && state.seats[seat].busy.is_none()
    }

    /// Takes no more calls, and wakes the keepers of processes that are free. Those who wait come back.
    pub(super) fn close(&self) -> Vec<Job> {
        let mut state = self.lock();
        state.is_closing = true;
        for seat in &state.idle {
            if let Some(process) = &state.seats[*seat].process {
                process.wake_keeper();
            }
        }
        self.changed.notify_all();
        mem::take(&mut state.waiting).into_values().collect()
    }

    /// Sleeps until then, or until the desk closes.
    pub(super) fn rest(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), left, |state| !state.is_closing);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// A keeper has ended.
    pub(super) fn keeper_ended(&self) {
        self.lock().keepers -= 1;
        self.changed.notify_all();
    }

    /// Waits until all keepers have ended, at most until then. Whether they have.
    pub(super) fn wait_ended(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), left, |state| state.keepers > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.keepers == 0
    }

    pub(super) fn kill_all(&self) {
        self.lock().seats.iter().filter_map(|seat| seat.process.as_ref()).for_each(|process| process.kill());
    }

    /// How many calls wait that came before the one of this task; none if that does not wait here.
    pub(super) fn waiting_before(&self, task: &TaskId) -> Option<usize> {
        self.lock().waiting.values().position(|job| job.call.task_id() == task)
    }

    pub(super) fn stats(&self) -> DeskStats {
        let state = self.lock();
        DeskStats {
            waiting: state.waiting.len(),
            processes: state.seats.iter().filter(|seat| seat.process.is_some()).count(),
            busy: state.seats.iter().filter(|seat| seat.busy.is_some()).count(),
            counts: state.counts,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self, seat: usize) -> Next {
        let place = &mut self.seats[seat];
        (place.busy, place.kill_at) = (None, None);
        if place.is_doomed {
            return Next::Nothing;
        }
        if let Some((number, job)) = self.waiting.pop_first() {
            place.busy = Some(number);
            return Next::Work(job);
        }
        if self.is_closing {
            return Next::Close;
        }
        self.idle.push(seat);
        Next::Wait
    }

    fn is_broken(&self, now: Instant) -> Option<(String, Duration)> {
        let (why, until) = self.broken.as_ref()?;
        let has_process = self.seats.iter().any(|seat| seat.process.is_some());
        (*until > now && !has_process).then(|| (why.clone(), *until - now))
    }
}
