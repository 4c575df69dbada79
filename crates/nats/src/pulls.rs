//! Which lane is asked for how many tasks, and what has become of the questions.
//!
//! A lane either has tasks, as far as is known, or is known to be empty. One that has some is asked for as many as
//! there is room for, and the server answers at once with what it has. An empty one has one question open that waits
//! for a single task to come. So a task on an idle queue needs one message, and a full queue is emptied in large
//! batches.
//!
//! The lanes are asked in their order; every [`FAIR_EVERY`]th time in the opposite order, for a part of the room:
//! however many urgent tasks there are, others get one part in 64 at least.
//!
//! A question that gets no answer is lost (the server was restarted, the connection was cut) and is forgotten after
//! its time and a bit; then the lane is asked anew.
//!
//! Not here: sending (`engine.rs`), how much room there is (`slots.rs`).

use crate::names::Lane;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a question waits for a task on an empty lane.
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// Beyond its own time, after which a question counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How many questions one lane may have open.
const OPEN_MAX: usize = 8;
/// Every so many rounds the last lane comes first.
const FAIR_EVERY: u32 = 8;
/// The lanes that tasks are run from, most urgent first.
const ORDER: [Lane; 3] = [Lane::High, Lane::Normal, Lane::Low];
/// How many tasks of `later` are looked at side by side.
const LATER_ROOM: usize = 256;

/// One question to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pull {
    /// Under which number its answers come.
    pub(crate) token: u64,
    pub(crate) lane: Lane,
    /// How many are wanted.
    pub(crate) batch: usize,
    /// How long it waits; none if it is answered at once.
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug)]
struct Open {
    pull: Pull,
    /// How many of the batch are still to come.
    left: usize,
    asked_at: Instant,
}

#[derive(Debug, Default)]
struct LaneState {
    open: VecDeque<Open>,
    /// A question was answered with: nothing more.
    is_empty: bool,
}

impl LaneState {
    fn wanted(&self) -> usize {
        self.open.iter().filter(|open| open.pull.wait.is_none()).map(|open| open.left).sum()
    }
}

/// All questions that are open.
#[derive(Debug)]
pub(crate) struct Pulls {
    lanes: [LaneState; 4],
    round: u32,
    next_token: u64,
    /// When the server was last heard of a question.
    pub(crate) healthy_at: Instant,
}

impl Pulls {
    pub(crate) fn new(now: Instant) -> Self {
        Self { lanes: Default::default(), round: 0, next_token: 0, healthy_at: now }
    }

    /// All questions are void: the connection is a new one.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.lanes = Default::default();
        self.healthy_at = now;
    }

    /// What to ask now, if `room` more tasks may be held out of `slots`, the first `workers` of which have a worker.
    pub(crate) fn ask(&mut self, room: usize, slots: usize, workers: usize, now: Instant) -> Vec<Pull> {
        let mut asked = Vec::new();
        let wanted: usize = ORDER.iter().map(|lane| self.lanes[*lane as usize].wanted()).sum();
        let mut room = room.saturating_sub(wanted);
        // Few large questions are cheaper than many small ones, but no worker waits for that.
        let idle = room.saturating_sub(slots.saturating_sub(workers));
        let enough = if idle > 0 { 1 } else { (slots.saturating_sub(workers) / 4).max(1) };
        if room >= enough {
            self.round = self.round.wrapping_add(1);
            let is_fair = self.round.is_multiple_of(FAIR_EVERY);
            let mut order = ORDER;
            if is_fair {
                order.reverse();
            }
            for lane in order {
                let state = &self.lanes[lane as usize];
                if room == 0 || state.is_empty || state.open.len() >= OPEN_MAX {
                    continue;
                }
                // The first that may have some gets all there is; what it does not have is asked of the next one.
                let batch = if is_fair && lane != Lane::High { room.min((slots / 8).max(1)) } else { room };
                asked.push(self.open(lane, batch, None, now));
                room -= batch;
                if !is_fair {
                    break;
                }
            }
        }
        if room > 0 {
            for lane in ORDER {
                self.wait_for_one(lane, now, &mut asked);
            }
        }
        asked
    }

    /// As [`ask`](Self::ask), of tasks that wait for their time. `held` of them are being looked at.
    pub(crate) fn ask_later(&mut self, held: usize, now: Instant, asked: &mut Vec<Pull>) {
        let state = &self.lanes[Lane::Later as usize];
        let room = LATER_ROOM.saturating_sub(held + state.wanted());
        if state.is_empty {
            self.wait_for_one(Lane::Later, now, asked);
        } else if room >= LATER_ROOM / 4 && state.open.len() < OPEN_MAX {
            asked.push(self.open(Lane::Later, room, None, now));
        }
    }

    fn wait_for_one(&mut self, lane: Lane, now: Instant, asked: &mut Vec<Pull>) {
        let state = &self.lanes[lane as usize];
        if state.is_empty && state.open.is_empty() {
            asked.push(self.open(lane, 1, Some(WAIT), now));
        }
    }

    fn open(&mut self, lane: Lane, batch: usize, wait: Option<Duration>, now: Instant) -> Pull {
        self.next_token += 1;
        let pull = Pull { token: self.next_token, lane, batch, wait };
        self.lanes[lane as usize].open.push_back(Open { pull, left: batch, asked_at: now });
        pull
    }

    /// A task has come by this lane. The server serves questions in their order.
    pub(crate) fn came(&mut self, lane: Lane, now: Instant) {
        let state = &mut self.lanes[lane as usize];
        self.healthy_at = now;
        if let Some(first) = state.open.front_mut() {
            first.left = first.left.saturating_sub(1);
            if first.pull.wait.is_some() {
                state.is_empty = false;
            }
            if first.left == 0 {
                state.open.pop_front();
            }
        }
    }

    /// The server says that a question is over. With `is_empty` because there are no more tasks.
    pub(crate) fn is_over(&mut self, token: u64, is_empty: bool, now: Instant) {
        for state in &mut self.lanes {
            if let Some(at) = state.open.iter().position(|open| open.pull.token == token) {
                state.open.remove(at);
                state.is_empty |= is_empty;
                self.healthy_at = now;
            }
        }
    }

    /// A question could not be sent.
    pub(crate) fn unsent(&mut self, token: u64) {
        for state in &mut self.lanes {
            state.open.retain(|open| open.pull.token != token);
        }
    }

    /// Forgets questions without an answer; says how many.
    pub(crate) fn forget_lost(&mut self, now: Instant) -> usize {
        let mut lost = 0;
        for state in &mut self.lanes {
            state.open.retain(|open| {
                let patience = open.pull.wait.unwrap_or_default() + PATIENCE;
                let is_lost = now.saturating_duration_since(open.asked_at) > patience;
                lost += usize::from(is_lost);
                !is_lost
            });
            if lost > 0 {
                state.is_empty = false;
            }
        }
        lost
    }

    /// How many questions are open.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(|state| state.open.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(pulls: &[Pull]) -> Vec<(Lane, usize, bool)> {
        pulls.iter().map(|pull| (pull.lane, pull.batch, pull.wait.is_some())).collect()
    }

    #[test]
    fn the_most_urgent_lane_that_may_have_some_is_asked_for_all() {
        let now = Instant::now();
        let mut pulls = Pulls::new(now);
        let asked = pulls.ask(10, 10, 0, now);
        assert_eq!(lanes(&asked), [(Lane::High, 10, false)]);
        assert_eq!(pulls.ask(10, 10, 0, now), [], "what was asked for is no room any more");
        pulls.is_over(asked[0].token, true, now);
        let asked = pulls.ask(10, 10, 0, now);
        assert_eq!(lanes(&asked), [(Lane::Normal, 10, false)]);
        pulls.is_over(asked[0].token, true, now);
        let asked = pulls.ask(10, 10, 0, now);
        assert_eq!(lanes(&asked), [(Lane::Low, 10, false)]);
        pulls.is_over(asked[0].token, true, now);
        let waits = [(Lane::High, 1, true), (Lane::Normal, 1, true), (Lane::Low, 1, true)];
        assert_eq!(lanes(&pulls.ask(10, 10, 0, now)), waits, "all are empty: one question each waits");
        assert_eq!(pulls.ask(10, 10, 0, now), []);
    }

    #[test]
    fn one_that_comes_wakes_its_lane() {
        let now = Instant::now();
        let mut pulls = Pulls::new(now);
        for _ in 0..3 {
            let asked = pulls.ask(4, 4, 0, now);
            pulls.is_over(asked[0].token, true, now);
        }
        pulls.ask(4, 4, 0, now);
        pulls.came(Lane::Normal, now);
        assert_eq!(lanes(&pulls.ask(3, 4, 0, now)), [(Lane::Normal, 3, false)]);
    }

    #[test]
    fn less_urgent_lanes_have_their_turn_however_many_urgent_tasks_there_are() {
        let now = Instant::now();
        let mut pulls = Pulls::new(now);
        let mut of_lane = [0_usize; 4];
        for _ in 0..800 {
            for pull in pulls.ask(64, 64, 0, now) {
                of_lane[pull.lane as usize] += pull.batch;
                // Every lane has all that it is asked for.
                (0..pull.batch).for_each(|_| pulls.came(pull.lane, now));
            }
        }
        assert_eq!(pulls.len(), 0);
        let all: usize = of_lane.iter().sum();
        assert!(of_lane[Lane::Low as usize] * 64 >= all, "{of_lane:?}");
        assert!(of_lane[Lane::Normal as usize] * 64 >= all, "{of_lane:?}");
        assert!(of_lane[Lane::High as usize] * 4 >= all * 3, "{of_lane:?}");
    }

    #[test]
    fn without_room_nothing_is_asked() {
        let now = Instant::now();
        let mut pulls = Pulls::new(now);
        assert_eq!(pulls.ask(0, 8, 0, now), []);
        assert_eq!(pulls.ask(1, 12, 4, now), [], "a quarter at least, or every task would be a question");
        assert_eq!(pulls.ask(2, 12, 4, now).len(), 1);
    }

    #[test]
    fn a_worker_without_a_task_is_reason_enough_to_ask() {
        let now = Instant::now();
        let mut pulls = Pulls::new(now);
        assert_eq!(lanes(&pulls.ask(1, 64, 64, now)), [(Lane::High, 1, false)], "63 are busy, one is not");
        let mut pulls = Pulls::new(now);
        assert_eq!(lanes(&pulls.ask(61, 64, 4, now)), [(Lane::High, 61, false)]);
    }

    #[test]
    fn a_question_without_an_answer_is_asked_anew() {
        let now = Instant::now();
        let mut pulls = Pulls::new(now);
        assert_eq!(pulls.ask(4, 4, 0, now).len(), 1);
        assert_eq!(pulls.forget_lost(now + PATIENCE), 0);
        assert_eq!(pulls.forget_lost(now + PATIENCE + Duration::from_millis(1)), 1);
        assert_eq!(lanes(&pulls.ask(4, 4, 0, now)), [(Lane::High, 4, false)]);
        pulls.reset(now);
        assert_eq!(pulls.len(), 0);
    }

    #[test]
    fn tasks_that_wait_for_their_time_have_a_room_of_their_own() {
        let now = Instant::now();
        let (mut pulls, mut asked) = (Pulls::new(now), Vec::new());
        pulls.ask_later(0, now, &mut asked);
        pulls.ask_later(0, now, &mut asked);
        assert_eq!(lanes(&asked), [(Lane::Later, LATER_ROOM, false)]);
        pulls.is_over(asked[0].token, true, now);
        asked.clear();
        pulls.ask_later(LATER_ROOM, now, &mut asked);
        assert_eq!(lanes(&asked), [(Lane::Later, 1, true)]);
    }
}
