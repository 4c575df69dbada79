//! Who gets which task: the calls that wait, the places that processes run in, and who has to be woken.
//!
//! ```text
//!             rung                 take                answered, nothing waits
//!   Idle ────────────► Called ────────────► Busy ────────────────────────► Idle
//!    ▲                   │                    │ crashed, stopped, retired
//!    │   pause is over   ▼ could not start    ▼
//!    └──────────────── Away ◄─────────────────┘
//! ```
//! A call stays here until a process that lives is ready for it, in the order of arrival. So a process that
//! dies while it idles, or a program that does not start, costs no call its turn. For every call that waits
//! there is a place that was called on, as long as places are idle or unused: whoever changes that calls
//! [`State::call_places`] under the same lock, so no wake-up is lost.
//!
//! Calls are finished and dropped outside the lock: that runs code of others, which may ask for
//! [`Desk::stats`].
//!
//! Not here: the processes (`keeper.rs`).

use super::bell::Bell;
use super::process::Group;
use super::turn::Orders;
use crate::call::Call;
use crate::request::TaskId;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call and what has become of it so far.
pub(super) struct Job {
    pub(super) call: Call,
    /// Its place in the order of arrival.
    pub(super) number: u64,
    /// Whether it was given to a process that ended without looking at it.
    pub(super) came_back: bool,
}

/// What the desk and a keeper share about one place.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) bell: Arc<Bell>,
    pub(super) group: Arc<Group>,
}

/// What a keeper with a process does next.
pub(super) enum Next {
    /// This call.
    Work(Job),
    /// Nothing, until the bell rings.
    Wait,
    /// End.
    Close,
}

/// What a keeper without a process does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStart {
    /// Start one: somebody waits.
    Start,
    /// Nothing, until the bell rings.
    Wait,
    /// End.
    Close,
}

/// What becomes of a call that comes in.
pub(super) enum Taken {
    /// It waits, or it was stopped meanwhile.
    Queued,
    /// It waits, and this place needs a keeper.
    Keep(Place),
    /// It cannot be served.
    Refused(Box<Call>, Refusal),
}

/// Why a call cannot be served.
pub(super) enum Refusal {
    /// The handler has closed.
    Closed,
    /// The program cannot be started; with why and for how long nobody tries.
    Broken(String, Duration),
    /// The machine lets us start no keeper.
    NoKeeper(io::Error),
}

/// Where calls wait for processes.
pub(super) struct Desk {
    state: Mutex<State>,
    /// Told when a keeper has ended.
    ended: Condvar,
    /// How many calls have come.
    number: AtomicU64,
}

struct State {
    /// In the order of arrival.
    waiting: BTreeMap<u64, Job>,
    places: Vec<Seat>,
    concurrency: usize,
    is_closing: bool,
    /// Why the program cannot be started, and until when nobody tries.
    broken: Option<(String, Instant)>,
    counts: Counts,
}

struct Seat {
    place: Place,
    phase: Phase,
    has_process: bool,
}

/// Where a place stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its keeper waits for the bell.
    Idle,
    /// It was woken for a call, or a keeper for it is being made.
    Called,
    /// Its process works on this call.
    Busy { number: u64, stop: bool },
    /// A process ends or the program rests until then.
    Away { until: Option<Instant> },
    /// It has no keeper.
    Unkept,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Processes that were started.
    pub(super) starts: u64,
    /// Those that took the place of an earlier one.
    pub(super) restarts: u64,
    /// Processes that ended or were killed because of what they did.
    pub(super) crashes: u64,
    /// Processes that were stopped because their task was no longer wanted or took too long.
    pub(super) stops: u64,
    /// Tasks that a process answered.
    pub(super) answered: u64,
}

/// How it stands now.
#[derive(Clone, Debug)]
pub(super) struct DeskStats {
    pub(super) waiting: usize,
    pub(super) processes: usize,
    pub(super) busy: usize,
    /// Places that rest after a crash.
    pub(super) resting: usize,
    /// How long until the first of them is back.
    pub(super) rest: Option<Duration>,
    pub(super) broken: Option<String>,
    pub(super) counts: Counts,
}

impl Desk {
    pub(super) fn new(concurrency: usize) -> Self {
        let state = State {
            waiting: BTreeMap::new(),
            places: Vec::new(),
            concurrency: concurrency.max(1),
            is_closing: false,
            broken: None,
            counts: Counts::default(),
        };
        Self { state: Mutex::new(state), ended: Condvar::new(), number: AtomicU64::new(0) }
    }

    /// The number under which a call will come in, for its stop hook.
    pub(super) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Relaxed)
    }

    /// Takes a call in.
    pub(super) fn hand_in(&self, call: Call, number: u64) -> Taken {
        let mut state = self.lock();
        if state.is_closing {
            return Taken::Refused(Box::new(call), Refusal::Closed);
        }
        if let Some((why, rest)) = state.is_broken(Instant::now()) {
            return Taken::Refused(Box::new(call), Refusal::Broken(why, rest));
        }
        // Its hook looks here after the call was stopped. If that was before now, this sees it; if it is
        // later, the hook finds the call.
        if call.is_cancelled() {
            drop(state);
            return Taken::Queued;
        }
        state.waiting.insert(number, Job { call, number, came_back: false });
        match state.call_places() {
            Ok(Some(place)) => Taken::Keep(place),
            Ok(None) => Taken::Queued,
            Err(error) => state.no_keeper(number, error),
        }
    }

    /// A call is no longer wanted: it leaves the queue, or the process that has it is told.
    pub(super) fn stop(&self, wanted: u64) {
        let mut state = self.lock();
        let job = state.waiting.remove(&wanted);
        for seat in &mut state.places {
            if let Phase::Busy { number, stop } = &mut seat.phase
                && *number == wanted
            {
                *stop = true;
                seat.place.bell.ring();
            }
        }
        drop(state);
        drop(job);
    }

    /// What the keeper of a process that is ready is to do.
    pub(super) fn next(&self, place: &Place) -> Next {
        let mut state = self.lock();
        if let Some((number, job)) = state.waiting.pop_first() {
            state.places[place.index].phase = Phase::Busy { number, stop: false };
            return Next::Work(job);
        }
        if state.is_closing {
            return Next::Close;
        }
        state.places[place.index].phase = Phase::Idle;
        Next::Wait
    }

    /// What a keeper that may start a process is to do.
    pub(super) fn next_start(&self, place: &Place) -> NextStart {
        let mut state = self.lock();
        let some_wait = !state.waiting.is_empty();
        let is_closing = state.is_closing;
        let phase = &mut state.places[place.index].phase;
        match (is_closing, some_wait) {
            (true, _) => NextStart::Close,
            (false, true) => {
                *phase = Phase::Called;
                NextStart::Start
            }
            (false, false) => {
                *phase = Phase::Idle;
                NextStart::Wait
            }
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// What others want of a process that works.
    pub(super) fn orders(&self, place: &Place) -> Orders {
        let state = self.lock();
        let stop = matches!(state.places[place.index].phase, Phase::Busy { stop: true, .. });
        Orders { stop, end_input: state.is_closing }
    }

    /// A process runs in this place.
    pub(super) fn started(&self, place: &Place, is_first: bool) {
        let mut state = self.lock();
        state.counts.starts += 1;
        state.counts.restarts += u64::from(!is_first);
        state.broken = None;
        state.places[place.index].has_process = true;
    }

    /// A process has answered, and will look for the next call itself. It is counted before the task ends, so
    /// that whoever sees the end sees the count.
    pub(super) fn answered(&self, place: &Place) {
        let mut state = self.lock();
        state.counts.answered += 1;
        state.places[place.index].phase = Phase::Called;
    }

    /// Nothing can be done in this place until then, or until its keeper says otherwise. Others are to do its
    /// work; a place may need a keeper for that.
    pub(super) fn rest(&self, place: &Place, until: Option<Instant>) -> Option<Place> {
        let mut state = self.lock();
        state.places[place.index].phase = Phase::Away { until };
        // If no keeper can be made, this one will be back.
        state.call_places().unwrap_or(None)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// The process in this place is gone.
    pub(super) fn process_ended(&self, place: &Place) {
        self.lock().places[place.index].has_process = false;
    }

    /// A call was not begun after all. It is the first again, unless nobody can take it or wants it any more.
    pub(super) fn give_back(&self, job: Job) -> Result<Option<Place>, Job> {
        let mut state = self.lock();
        if state.is_closing || job.call.is_cancelled() {
            return Err(job);
        }
        state.waiting.insert(job.number, Job { came_back: true, ..job });
        Ok(state.call_places().unwrap_or(None))
    }

    /// The program cannot be started. If nothing of it runs, nobody can serve those who wait: here they are.
    pub(super) fn set_broken(&self, why: &str, until: Instant) -> Vec<Job> {
        let mut state = self.lock();
        if state.places.iter().any(|seat| seat.has_process) {
            return Vec::new();
        }
        state.broken = Some((why.to_owned(), until));
        mem::take(&mut state.waiting).into_values().collect()
    }

    /// The keeper of this place is gone. If it was the last, those who wait come back.
    pub(super) fn unkept(&self, place: &Place) -> Vec<Job> {
        let mut state = self.lock();
        let seat = &mut state.places[place.index];
        (seat.phase, seat.has_process) = (Phase::Unkept, false);
        let nobody = state.places.iter().all(|seat| seat.phase == Phase::Unkept);
        let jobs = if nobody { mem::take(&mut state.waiting) } else { BTreeMap::new() };
        drop(state);
        self.ended.notify_all();
        jobs.into_values().collect()
    }

    /// Takes no more calls, and wakes everybody. Those who wait come back.
    pub(super) fn close(&self) -> Vec<Job> {
        let mut state = self.lock();
        state.is_closing = true;
        for seat in &state.places {
            seat.place.bell.ring();
        }
        mem::take(&mut state.waiting).into_values().collect()
    }

    /// Waits until all keepers have ended, at most until then. Whether they have.
    pub(super) fn wait_ended(&self, until: Instant) -> bool {
        let running = |state: &mut State| state.places.iter().any(|seat| seat.phase != Phase::Unkept);
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(self.lock(), left, running);
        let (_state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        !result.timed_out()
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        for group in self.groups() {
            group.signal(signal);
        }
    }

    /// Kills every process, and those that are just being started.
    pub(super) fn doom_all(&self) {
        for group in self.groups() {
            group.doom();
        }
    }

    /// How many calls wait that came before the one of this task; none if that does not wait here.
    pub(super) fn waiting_before(&self, task: &TaskId) -> Option<usize> {
        self.lock().waiting.values().position(|job| job.call.task_id() == task)
    }

    pub(super) fn stats(&self) -> DeskStats {
        let now = Instant::now();
        let state = self.lock();
        let count = |is: &dyn Fn(&Seat) -> bool| state.places.iter().filter(|seat| is(seat)).count();
        let rests = state.places.iter().filter_map(|seat| match seat.phase {
            Phase::Away { until } => until.filter(|until| *until > now),
            _ => None,
        });
        DeskStats {
            waiting: state.waiting.len(),
            processes: count(&|seat| seat.has_process),
            busy: count(&|seat| matches!(seat.phase, Phase::Busy { .. })),
            resting: rests.clone().count(),
            rest: rests.min().map(|until| until - now),
            broken: state.broken.as_ref().filter(|(_, until)| *until > now).map(|(why, _)| why.clone()),
            counts: state.counts,
        }
    }

    fn groups(&self) -> Vec<Arc<Group>> {
        self.lock().places.iter().map(|seat| Arc::clone(&seat.place.group)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Wakes a place for each call that waits: those with a process first. If there are too few, here is one
    /// that needs a keeper.
    fn call_places(&mut self) -> io::Result<Option<Place>> {
        let called = self.places.iter().filter(|seat| seat.phase == Phase::Called).count();
        let mut wanted = self.waiting.len().saturating_sub(called);
        for has_process in [true, false] {
            let is_idle = |seat: &&mut Seat| seat.phase == Phase::Idle && seat.has_process == has_process;
            for seat in self.places.iter_mut().filter(is_idle).take(wanted) {
                seat.phase = Phase::Called;
                seat.place.bell.ring();
                wanted -= 1;
            }
        }
        if wanted == 0 || self.is_closing { Ok(None) } else { self.new_place() }
    }

    fn new_place(&mut self) -> io::Result<Option<Place>> {
        if let Some(seat) = self.places.iter_mut().find(|seat| seat.phase == Phase::Unkept) {
            seat.phase = Phase::Called;
            return Ok(Some(seat.place.clone()));
        }
        if self.places.len() >= self.concurrency {
            return Ok(None);
        }
        let (bell, group) = (Arc::new(Bell::new()?), Arc::new(Group::default()));
        let place = Place { index: self.places.len(), bell, group };
        self.places.push(Seat { place: place.clone(), phase: Phase::Called, has_process: false });
        Ok(Some(place))
    }

    /// The call has to be refused only if there is nobody else to take it.
    fn no_keeper(&mut self, number: u64, error: io::Error) -> Taken {
        if self.places.iter().any(|seat| seat.phase != Phase::Unkept) {
            return Taken::Queued;
        }
        match self.waiting.remove(&number) {
            Some(job) => Taken::Refused(Box::new(job.call), Refusal::NoKeeper(error)),
            None => Taken::Queued,
        }
    }

    fn is_broken(&self, now: Instant) -> Option<(String, Duration)> {
        let (why, until) = self.broken.as_ref()?;
        let has_process = self.places.iter().any(|seat| seat.has_process);
        (*until > now && !has_process).then(|| (why.clone(), *until - now))
    }
}
