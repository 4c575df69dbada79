//! Who may come in now, who waits, and who is refused: places for work at once, and a bounded line before them.
//!
//! A *place* is held from the moment a request may be worked on until its answer is made or it only waits for
//! something. A request that finds none waits in the line, first come first served, whether its connection is
//! new or was kept open. The line is a [`Gate`].
//!
//! A connection that is new has said nothing yet. Until it does, it holds a *seat*, so that no more are let in
//! than can be served or wait; a seat ends with the first read, which brings a request or shows that there is
//! none. So whoever connects and says nothing takes nothing from others. Requests on kept connections may still
//! take a place before those who sit.
//!
//! ```text
//!  sit ──► seat ──┬─ no request yet ─► stand
//!   │ full        ▼                  a place is free
//!   ▼           enter ─────────────────────────────► Entered::Now ◄───────────────┐
//!  refused        ├─ none, but room ──► Entered::Waits ── leave: the place goes ──┤
//!                 └─ none at all ─────► Entered::Full     to the first in line    └─ waited too long: refused
//! ```
//!
//! One lock makes "is there a place, or must it wait" one decision; it is held for some ten nanoseconds. So
//! nobody waits while a place is free, and a place that is given back is never lost.
//!
//! Not here: what happens to whoever got a place (`door.rs`).

use crate::figures::Waits;
use millpond_queue::{Gate, GateConfig, GateStats, Refusal};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long everybody must have waited too long before the line counts as standing.
const STANDING_AFTER: Duration = Duration::from_millis(100);

/// How the line is made.
#[derive(Clone, Debug)]
pub(crate) struct LineSettings {
    /// How many places there are.
    pub(crate) places: usize,
    /// How many may wait.
    pub(crate) capacity: usize,
    /// How long one may wait.
    pub(crate) timeout: Duration,
    /// From which wait on the line counts as standing; without, it may.
    pub(crate) target: Option<Duration>,
}

/// The line before the places. `T` is what waits.
pub(crate) struct Line<T> {
    settings: LineSettings,
    /// Whether somebody who waits has gone away.
    has_gone: fn(&T) -> bool,
    waiting: Gate<Waiting<T>>,
    state: Mutex<State>,
    waits: Waits,
}

struct Waiting<T> {
    since: Instant,
    who: T,
}

/// Guarded by the one lock.
struct State {
    /// Places that nobody holds. More than 0 only if nobody waits.
    free: usize,
    /// Connections that have not said anything yet.
    seated: usize,
    /// Since when everybody who came to their turn had waited longer than the target.
    standing_since: Option<Instant>,
    /// How many gave their place back since the start.
    left: u64,
    /// About how many of those in the line have gone away.
    gone: usize,
    /// Nobody may wait any more.
    is_closed: bool,
}

/// What came of entering.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered<T> {
    /// There is a place, and it is held now.
    Now(T),
    /// It waits, and will be told.
    Waits,
    /// There is no room, not even to wait.
    Full(T),
}

/// Who comes next when a place is given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Next<T> {
    /// Holds the place now; none if nobody waited.
    pub(crate) served: Option<T>,
    /// Waited too long, and is to be refused.
    pub(crate) refused: Vec<T>,
}

impl<T> Line<T> {
    pub(crate) fn new(settings: LineSettings, has_gone: fn(&T) -> bool) -> Self {
        let config = GateConfig { capacity: settings.capacity, spins: 0, measure_every: 0 };
        Self {
            state: Mutex::new(State {
                free: settings.places,
                seated: 0,
                standing_since: None,
                left: 0,
                gone: 0,
                is_closed: false,
            }),
            has_gone,
            waiting: Gate::start(config).expect("the capacity was checked with the settings"),
            waits: Waits::default(),
            settings,
        }
    }

    /// A new connection takes a seat; false if those inside could not all wait.
    pub(crate) fn sit(&self) -> bool {
        let mut state = self.lock();
        let has_room =
            |state: &State| state.seated + self.waiting.len() < self.settings.capacity + state.free;
        let may_sit = has_room(&state) || (self.forget_gone(&mut state) && has_room(&state));
        state.seated += usize::from(may_sit);
        may_sit
    }

    /// A seat is given up: there is no request yet, or it is about to enter.
    pub(crate) fn stand(&self) {
        self.lock().seated -= 1;
    }

    /// Takes a place if one is free.
    pub(crate) fn try_take(&self) -> bool {
        let mut state = self.lock();
        let is_free = state.free > 0;
        state.free -= usize::from(is_free);
        is_free
    }

    /// Asks for a place, for somebody who comes from a seat or from a connection that was kept open.
    pub(crate) fn enter(&self, who: T, is_seated: bool) -> Entered<T> {
        let mut state = self.lock();
        if state.free > 0 {
            state.free -= 1;
            return Entered::Now(who);
        }
        let is_full = |state: &State| state.seated + self.waiting.len() >= self.settings.capacity;
        if !is_seated && is_full(&state) {
            self.forget_gone(&mut state);
        }
        if state.is_closed || (!is_seated && is_full(&state)) {
            return Entered::Full(who);
        }
        match self.waiting.try_enqueue(Waiting { since: Instant::now(), who }) {
            Ok(()) => Entered::Waits,
            Err(Refusal::Full(back) | Refusal::TimedOut(back) | Refusal::Closed(back)) => {
                Entered::Full(back.who)
            }
        }
    }

    /// Gives a place back. It goes to the first who waits and has not gone away.
    pub(crate) fn leave(&self) -> Next<T> {
        let mut refused = Vec::new();
        let mut state = self.lock();
        state.left += 1;
        let served = loop {
            let Ok(Waiting { since, who }) = self.waiting.try_dequeue() else {
                state.free += 1;
                state.standing_since = None;
                break None;
            };
            if (self.has_gone)(&who) {
                state.gone = state.gone.saturating_sub(1);
                continue;
            }
            let now = Instant::now();
            let waited = now.saturating_duration_since(since);
            self.waits.record(waited);
            if self.is_too_long(&mut state, waited, now) {
                refused.push(who);
            } else {
                break Some(who);
            }
        };
        Next { served, refused }
    }

    /// Whether somebody who comes to their turn after such a wait is refused. As in folly's CoDel: once every
    /// wait of an interval was over the target, waits over twice the target are not worth serving.
    fn is_too_long(&self, state: &mut State, waited: Duration, now: Instant) -> bool {
        if waited > self.settings.timeout {
            return true;
        }
        let Some(target) = self.settings.target else { return false };
        if waited <= target {
            state.standing_since = None;
            return false;
        }
        let since = *state.standing_since.get_or_insert(now);
        now.saturating_duration_since(since) >= STANDING_AFTER && waited > 2 * target
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Somebody who waited went away.
    pub(crate) fn has_left(&self) {
        self.lock().gone += 1;
    }

    /// Takes out those who have gone; false if nobody has.
    fn forget_gone(&self, state: &mut State) -> bool {
        if state.gone == 0 {
            return false;
        }
        state.gone = 0;
        self.sift(|waiting| !(self.has_gone)(&waiting.who));
        true
    }

    /// Takes out everybody who has waited for too long, to be refused, and those who have gone.
    pub(crate) fn expire(&self, now: Instant) -> Vec<T> {
        let mut state = self.lock();
        state.gone = 0;
        let timeout = self.settings.timeout;
        self.sift(|waiting| {
            !(self.has_gone)(&waiting.who) && now.saturating_duration_since(waiting.since) <= timeout
        })
    }

    /// Takes out everybody of whom this is not true. Under the lock, so nobody else comes or goes.
    fn sift(&self, stays: impl Fn(&Waiting<T>) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for _ in 0..self.waiting.len() {
            let Ok(waiting) = self.waiting.try_dequeue() else { break };
            if !stays(&waiting) {
                out.push(waiting.who);
            } else if let Err(Refusal::Full(back) | Refusal::TimedOut(back) | Refusal::Closed(back)) =
                self.waiting.try_enqueue(waiting)
            {
                out.push(back.who);
            }
        }
        out
    }

    /// Takes out everybody who waits, to be refused; nobody may wait any more.
    pub(crate) fn close(&self) -> Vec<T> {
        self.lock().is_closed = true;
        let mut all = Vec::new();
        while let Ok(waiting) = self.waiting.try_dequeue() {
            all.push(waiting.who);
        }
        all
    }

    /// Places that are held.
    pub(crate) fn in_flight(&self) -> usize {
        self.settings.places - self.lock().free
    }

    /// How many places were given back since the start.
    pub(crate) fn left(&self) -> u64 {
        self.lock().left
    }

    /// How full the line is and was.
    pub(crate) fn stats(&self) -> GateStats {
        self.waiting.stats()
    }

    /// How long those waited who came to their turn.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever has such a number has gone.
    const GONE: u32 = 100;

    fn line(places: usize, capacity: usize) -> Line<u32> {
        let timeout = Duration::from_secs(3600);
        Line::new(LineSettings { places, capacity, timeout, target: None }, |who| *who >= GONE)
    }

    #[test]
    fn places_first_then_the_line_then_nobody() {
        let line = line(1, 2);
        assert_eq!(line.enter(1, false), Entered::Now(1));
        assert_eq!(line.enter(2, false), Entered::Waits);
        assert_eq!(line.enter(3, false), Entered::Waits);
        assert_eq!((line.len(), line.in_flight()), (2, 1), "a full line is not an empty one");
        assert_eq!(line.enter(4, false), Entered::Full(4));
        assert_eq!(line.leave(), Next { served: Some(2), refused: vec![] }, "first come, first served");
        assert_eq!(line.enter(5, false), Entered::Waits);
        assert_eq!(line.in_flight(), 1, "the place went from hand to hand");
    }

    #[test]
    fn no_more_sit_than_can_be_served_or_wait() {
        let line = line(1, 2);
        assert_eq!([(); 4].map(|()| line.sit()), [true, true, true, false]);
        line.stand();
        assert!(line.sit(), "whoever stands up makes room");
        for who in 1..=3 {
            let entered = line.enter(who, true);
            line.stand();
            assert_ne!(entered, Entered::Full(who), "there is room for whoever had a seat");
        }
        assert!(!line.sit());
        assert_eq!(line.leave().served, Some(2));
        assert!(line.sit());
    }

    #[test]
    fn a_kept_connection_does_not_take_the_room_of_one_that_sits() {
        let line = line(1, 1);
        assert_eq!(line.enter(1, false), Entered::Now(1));
        assert!(line.sit());
        assert_eq!(line.enter(2, false), Entered::Full(2));
        assert_eq!(line.enter(3, true), Entered::Waits);
        line.stand();
    }

    #[test]
    fn a_place_is_free_again_when_nobody_waits() {
        let line = line(2, 1);
        assert!(line.try_take());
        assert_eq!(line.leave(), Next { served: None, refused: vec![] });
        assert_eq!(line.in_flight(), 0);
        assert_eq!((line.enter(2, false), line.try_take()), (Entered::Now(2), true));
        assert!(!line.try_take());
        assert_eq!(line.enter(4, false), Entered::Waits);
    }

    #[test]
    fn whoever_went_away_is_passed_over() {
        let line = line(1, 4);
        for who in [1, 102, 103, 4] {
            line.enter(who, false);
        }
        assert_eq!(line.leave(), Next { served: Some(4), refused: vec![] });
        assert_eq!(line.leave(), Next { served: None, refused: vec![] });
    }

    #[test]
    fn whoever_went_away_takes_no_room() {
        let line = line(1, 2);
        for who in [1, 102, 103] {
            line.enter(who, false);
        }
        assert_eq!(
            (line.enter(4, false), line.sit()),
            (Entered::Full(4), false),
            "nobody has said that they went"
        );
        line.has_left();
        assert!(line.sit());
        assert_eq!(line.len(), 0);
        assert_eq!(line.enter(5, false), Entered::Waits);
    }

    #[test]
    fn whoever_waits_too_long_is_found_although_no_place_is_given_back() {
        let line = line(1, 4);
        for who in [1, 2, 103, 4] {
            line.enter(who, false);
        }
        assert_eq!(line.expire(Instant::now()), [103], "only the one who has gone");
        assert_eq!(line.len(), 2);
        assert_eq!(line.expire(Instant::now() + Duration::from_secs(4000)), [2, 4]);
        assert_eq!(line.enter(5, false), Entered::Waits);
    }

    #[test]
    fn a_closed_line_lets_nobody_wait_and_still_gives_places() {
        let line = line(1, 2);
        assert_eq!((line.enter(1, false), line.enter(2, false)), (Entered::Now(1), Entered::Waits));
        assert_eq!(line.close(), [2]);
        assert_eq!(line.enter(3, false), Entered::Full(3));
        line.leave();
        assert_eq!(line.enter(4, false), Entered::Now(4));
    }

    #[test]
    fn whoever_waited_too_long_is_refused_and_the_next_is_served_or_nobody() {
        let settings = LineSettings { places: 1, capacity: 4, timeout: Duration::ZERO, target: None };
        let line = Line::new(settings, |_| false);
        for who in 1..=3 {
            line.enter(who, false);
        }
        assert_eq!(line.leave(), Next { served: None, refused: vec![2, 3] });
        assert_eq!(line.enter(4, false), Entered::Now(4), "the place is free again");
    }

    #[test]
    fn a_standing_line_is_shortened_and_a_short_wait_ends_that() {
        let second = Duration::from_secs(1);
        let settings = LineSettings { places: 1, capacity: 4, timeout: 100 * second, target: Some(second) };
        let line: Line<u32> = Line::new(settings, |_| false);
        let mut state = line.lock();
        let start = Instant::now();
        assert!(!line.is_too_long(&mut state, 3 * second, start), "it has only begun");
        assert!(!line.is_too_long(&mut state, 3 * second, start + STANDING_AFTER / 2));
        assert!(line.is_too_long(&mut state, 3 * second, start + STANDING_AFTER));
        assert!(!line.is_too_long(&mut state, 2 * second, start + STANDING_AFTER), "not twice as long");
        assert!(!line.is_too_long(&mut state, second, start + STANDING_AFTER), "short enough");
        assert!(!line.is_too_long(&mut state, 3 * second, start + STANDING_AFTER), "begins anew");
    }
}
