//! Whom an idle worker robs: one thief for each worker, made when it first asks.
//!
//! The settings are the same for all. There are at most as many thieves as there may be workers; one more takes the
//! place of the oldest, who loses only its memory of the last robbery.

use crate::brain::{self, has_room};
use crate::number::{duration, moment, worker};
use crate::workers::WORKERS_MAX;
use alloc::vec::Vec;
use millpond_policy::steal::{Reason, Robbery, StealSettings, StealSize, Thief};
use millpond_policy::{BadSetting, Moment};

/// The thieves, and the last robbery.
#[derive(Debug, Default)]
pub(crate) struct Thieves {
    settings: StealSettings,
    thieves: Vec<(u32, Thief)>,
    last: Option<Robbery>,
}

impl Thieves {
    fn set(&mut self, settings: StealSettings) -> Result<(), BadSetting> {
        settings.check()?;
        self.settings = settings;
        self.thieves.iter_mut().try_for_each(|(_, thief)| thief.set(settings))
    }

    /// The thief of this number; a new one if it has never asked.
    fn thief(&mut self, id: u32) -> Option<&mut Thief> {
        let known = self.thieves.iter().position(|(other, _)| *other == id);
        let at = match known {
            Some(at) => at,
            None => {
                // A row of thieves grows by doubling, and the old one is given back afterwards.
                let bytes = 4 * size_of::<(u32, Thief)>() * self.thieves.len().max(4);
                let thief = Thief::new(self.settings).ok().filter(|_| has_room(bytes))?;
                if self.thieves.len() >= WORKERS_MAX {
                    self.thieves.remove(0);
                }
                self.thieves.push((id, thief));
                self.thieves.len() - 1
            }
        };
        self.thieves.get_mut(at).map(|(_, thief)| thief)
    }

    /// Forgets a worker that goes.
    pub(crate) fn forget(&mut self, id: u32) {
        self.thieves.retain(|(other, _)| *other != id);
    }

    fn decide(&mut self, id: u32, workers: &millpond_policy::view::Views, now: Moment) -> Option<Robbery> {
        self.last = self.thief(id).and_then(|thief| thief.decide(id, workers, now));
        self.last
    }
}

/// How workers rob each other from now on, of a size of 0 one, 1 half, 2 all; 0 if that cannot work.
#[unsafe(no_mangle)]
pub extern "C" fn steal_configure(
    enabled: u32,
    size: u32,
    tasks_max: u32,
    threshold: u32,
    cooldown: f64,
) -> u32 {
    let size = match size {
        0 => StealSize::One,
        2 => StealSize::All,
        _ => StealSize::Half,
    };
    let cooldown = duration(cooldown);
    let settings = StealSettings { enabled: enabled != 0, size, tasks_max, threshold, cooldown };
    brain::with(|brain| brain.thieves.set(settings).is_ok().into())
}

/// The number of the worker that this one should rob, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn steal_decide(thief: u32, now: f64) -> i32 {
    brain::with(|brain| {
        let robbery = brain.thieves.decide(thief, &brain.workers, moment(now));
        worker(robbery.map(|robbery| robbery.victim))
    })
}

/// How many tasks the last robbery should take.
#[unsafe(no_mangle)]
pub extern "C" fn steal_take() -> u32 {
    brain::with(|brain| brain.thieves.last.map_or(0, |robbery| robbery.take))
}

/// Why the last robbery is as it is: the place of the reason among those of `millpond_policy::steal`, with its numbers
/// on the slate; -1 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn steal_reason() -> i32 {
    brain::with(|brain| {
        let Some(robbery) = brain.thieves.last else { return -1 };
        let (place, numbers) = match robbery.reason {
            Reason::MostQueued { queued } => (0, [queued.into(), 0]),
            Reason::MostQueuedOfOthers { queued, spared } => (1, [queued.into(), spared.into()]),
            Reason::ThiefIdle { queued, threshold } => (2, [queued.into(), threshold.into()]),
            Reason::JustRobbed { queued, left } => (3, [queued.into(), left.as_nanos() as u64]),
            _ => return -1,
        };
        brain.slate.put_all(numbers);
        place
    })
}

/// The last robbery of this thief brought nothing.
#[unsafe(no_mangle)]
pub extern "C" fn steal_came_back_empty(thief: u32) {
    brain::with(|brain| {
        if let Some(thief) = brain.thieves.thief(thief) {
            thief.came_back_empty();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slate::slate_at;
    use crate::workers::{workers_add, workers_load};

    fn reason() -> (i32, u64, u64) {
        let place = steal_reason();
        brain::with(|brain| (place, brain.slate.read(0), brain.slate.read(1)))
    }

    #[test]
    fn a_thief_robs_the_one_with_the_most_and_remembers_it() {
        assert_ne!(slate_at(0), 0);
        (0..2).for_each(|id| assert_eq!(workers_add(id, 2, 0, 0.0), 1));
        workers_load(1, 1, 8);
        assert_eq!((steal_decide(0, 0.0), steal_take()), (1, 4));
        assert_eq!(reason(), (0, 8, 0), "it has the most");
        assert_eq!((steal_decide(0, 1.0), steal_take()), (1, 1), "it was robbed a moment ago");
        assert_eq!(reason(), (3, 8, 9_999_999));
        steal_came_back_empty(0);
        assert_eq!((steal_decide(0, 2.0), steal_take()), (1, 4));
        assert_eq!((steal_decide(1, 2.0), steal_take(), steal_reason()), (-1, 0, -1), "nothing waits at 0");
    }

    #[test]
    fn settings_hold_for_thieves_that_are_there_and_those_to_come() {
        (0..2).for_each(|id| assert_eq!(workers_add(id, 2, 0, 0.0), 1));
        workers_load(1, 1, 8);
        assert_eq!(steal_decide(0, 0.0), 1);
        assert_eq!(steal_configure(0, 1, 1, 1, 0.0), 1);
        assert_eq!((steal_decide(0, 9e9), steal_decide(5, 9e9)), (-1, -1), "stealing is off");
        assert_eq!(steal_configure(1, 2, 100, 1, 0.0), 1);
        assert_eq!((steal_decide(5, 9e9), steal_take()), (1, 8), "all");
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        assert_eq!((steal_configure(1, 0, 0, 1, 0.0), steal_configure(1, 0, 1, 0, 0.0)), (0, 0));
    }

    #[test]
    fn thieves_are_never_more_than_workers_may_be() {
        for thief in 0..WORKERS_MAX as u32 + 10 {
            steal_came_back_empty(thief);
        }
        brain::with(|brain| {
            assert_eq!(brain.thieves.thieves.len(), WORKERS_MAX);
            brain.thieves.forget(50);
            assert_eq!(brain.thieves.thieves.len(), WORKERS_MAX - 1);
        });
    }
}
