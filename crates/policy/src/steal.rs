//! Whom an idle worker robs, and of how much.
//!
//! The victim is the worker with the most tasks waiting; equals take turns, and every thief begins its round
//! behind its own place, so that two thieves with the same picture do not fall on the same victim. A thief
//! that has nothing to do is never sent away while a task waits anywhere: below the threshold, and while it
//! cools down from robbing the same victim, it gets one task instead of a batch. So the cooldown limits how
//! many tasks travel, and never keeps a task waiting behind a long one.
//!
//! Not here: the robbery itself. The pool takes the *oldest* tasks and keeps their order, takes fewer if the
//! victim has fewer by then, and counts in `queued` only what may be stolen: a task with a key belongs to its
//! worker until it has waited for a while (`affinity.steal_after`).

use crate::setting::unknown_name;
use crate::view::Views;
use crate::{BadSetting, Moment};
use alloc::format;
use alloc::string::ToString;
use core::fmt;
use core::time::Duration;

/// How many tasks a robbery takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StealSize {
    /// One.
    One,
    /// Half of what the victim has more than the thief, rounded up: the last task can be stolen too.
    #[default]
    Half,
    /// All the victim has, if the thief has nothing; else as [`Half`](Self::Half), or the two would only
    /// change places. `tasks_max` limits it like the others, since a queue that moves as a whole is soon
    /// stolen back.
    All,
}

impl StealSize {
    /// The names, as settings are written.
    pub const NAMES: &'static [&'static str] = &["one", "half", "all"];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Half => "half",
            Self::All => "all",
        }
    }

    /// The size of this name.
    pub fn by_name(name: &str) -> Result<Self, BadSetting> {
        match name {
            "one" => Ok(Self::One),
            "half" => Ok(Self::Half),
            "all" => Ok(Self::All),
            _ => Err(unknown_name("stealing.size", Self::NAMES, name)),
        }
    }
}

/// How workers rob each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StealSettings {
    /// Whether they do at all. Default: true.
    pub enabled: bool,
    /// How many tasks a robbery takes. Default: half.
    pub size: StealSize,
    /// The most tasks one robbery takes: 1 or more. Default 32: a thief that moves more keeps the
    /// first of them waiting, and one that moves fewer comes back more often.
    pub tasks_max: u32,
    /// How many more tasks than the thief the victim must have for more than one to be taken: 1 or more.
    /// Default 2.
    pub threshold: u32,
    /// For how long after a batch the thief takes only single tasks from the same victim. Default 10 ms.
    pub cooldown: Duration,
}

impl Default for StealSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            size: StealSize::Half,
            tasks_max: 32,
            threshold: 2,
            cooldown: Duration::from_millis(10),
        }
    }
}

impl StealSettings {
    /// Whether they can work.
    pub fn check(&self) -> Result<(), BadSetting> {
        let at_least_one = |setting, value: u32| match value {
            0 => Err(BadSetting { setting, expected: format!("1 to {}", u32::MAX), got: value.to_string() }),
            _ => Ok(()),
        };
        at_least_one("stealing.tasks_max", self.tasks_max)?;
        at_least_one("stealing.threshold", self.threshold)
    }
}

/// What a thief should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Robbery {
    /// Where the victim stands in the picture.
    pub at: usize,
    /// Its number.
    pub victim: u32,
    /// How many tasks to take; 1 or more.
    pub take: u32,
    /// Why this victim, and why so many.
    pub reason: Reason,
}

/// Why a robbery is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nobody has more tasks waiting.
    MostQueued {
        /// So many wait there.
        queued: u32,
    },
    /// Somebody has more, and was robbed a moment ago.
    MostQueuedOfOthers {
        /// So many wait here.
        queued: u32,
        /// The one that is spared.
        spared: u32,
    },
    /// It has few, but the thief has nothing: one task.
    ThiefIdle {
        /// So many wait there.
        queued: u32,
        /// From so many on it would have been a batch.
        threshold: u32,
    },
    /// It was robbed a moment ago: one task.
    JustRobbed {
        /// So many wait there.
        queued: u32,
        /// So long the thief takes no batch there.
        left: Duration,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MostQueued { queued } => write!(f, "it has the most tasks waiting: {queued}"),
            Self::MostQueuedOfOthers { queued, spared } => {
                write!(
                    f,
                    "it has the most tasks waiting but for worker {spared}, robbed a moment ago: {queued}"
                )
            }
            Self::ThiefIdle { queued, threshold } => {
                write!(
                    f,
                    "the thief has nothing to do: one of {queued} waiting, below the threshold of {threshold}"
                )
            }
            Self::JustRobbed { queued, left } => {
                write!(f, "it was robbed a moment ago: one of {queued} waiting, no batch for {left:?}")
            }
        }
    }
}

/// One thief, and what it remembers. Every worker has its own.
#[derive(Clone, Debug)]
pub struct Thief {
    settings: StealSettings,
    /// Whom it took a batch from last, and when.
    last_batch: Option<(u32, Moment)>,
    /// Where its next look round begins; before the first robbery behind its own place.
    turn: Option<usize>,
}

/// The best victim so far.
#[derive(Clone, Copy, Default)]
struct Best {
    at: usize,
    queued: u32,
}

impl Best {
    fn improve(&mut self, at: usize, queued: u32) {
        if queued > self.queued {
            *self = Self { at, queued };
        }
    }
}

impl Thief {
    /// A thief that has robbed nobody yet.
    pub fn new(settings: StealSettings) -> Result<Self, BadSetting> {
        settings.check()?;
        Ok(Self { settings, last_batch: None, turn: None })
    }

    /// Changes the settings and keeps what it remembers.
    pub fn set(&mut self, settings: StealSettings) -> Result<(), BadSetting> {
        settings.check()?;
        self.settings = settings;
        Ok(())
    }

    /// Its settings.
    pub const fn settings(&self) -> &StealSettings {
        &self.settings
    }

    /// Whom the worker with the number `thief` should rob. Looks at every worker once and allocates nothing.
    ///
    /// Nobody, if stealing is off or no task waits at another worker; and for a thief that has work itself,
    /// if nobody has at least `threshold` tasks more than it. A thief that is not in the picture has nothing
    /// to do. The state of a victim does not matter: what waits at a worker that is to go must move all the
    /// same.
    pub fn decide(&mut self, thief: u32, workers: &Views, now: Moment) -> Option<Robbery> {
        if !self.settings.enabled || workers.is_empty() {
            return None;
        }
        let own = workers.ids().iter().position(|&id| id == thief);
        let is_idle = own.is_none_or(|own| workers.load()[own] == 0);
        let own_queued = own.map_or(0, |own| workers.queued()[own]);
        let spared = self.last_batch.filter(|&(_, at)| now.since(at) < self.settings.cooldown);
        let (best, other) = self.look_round(own, workers, spared.map(|(victim, _)| victim));

        let is_batch = |best: Best| best.queued.saturating_sub(own_queued) >= self.settings.threshold;
        let (chosen, take, reason) = match spared {
            _ if best.queued == 0 => return None,
            Some((victim, _)) if is_batch(other) && other.at != best.at => {
                let reason = Reason::MostQueuedOfOthers { queued: other.queued, spared: victim };
                (other, self.batch(other.queued, own_queued, is_idle), reason)
            }
            Some((victim, at)) if is_batch(best) && workers.ids()[best.at] == victim => {
                let left = self.settings.cooldown - now.since(at);
                (best, 1, Reason::JustRobbed { queued: best.queued, left })
            }
            _ if is_batch(best) => {
                let reason = Reason::MostQueued { queued: best.queued };
                (best, self.batch(best.queued, own_queued, is_idle), reason)
            }
            _ if is_idle => {
                let threshold = self.settings.threshold;
                (best, 1, Reason::ThiefIdle { queued: best.queued, threshold })
            }
            _ => return None,
        };
        let victim = workers.ids()[chosen.at];
        self.turn = Some(chosen.at + 1);
        if take > 1 {
            self.last_batch = Some((victim, now));
        }
        Some(Robbery { at: chosen.at, victim, take, reason })
    }

    /// The last robbery brought nothing: the victim had been faster. No cooldown follows from it.
    pub fn came_back_empty(&mut self) {
        self.last_batch = None;
    }

    /// Who has the most tasks waiting, and who of those that are not spared.
    fn look_round(&self, own: Option<usize>, workers: &Views, spared: Option<u32>) -> (Best, Best) {
        let (ids, queued) = (workers.ids(), workers.queued());
        let begin = self.turn.or_else(|| own.map(|own| own + 1)).unwrap_or(0) % ids.len();
        let (mut best, mut other) = (Best::default(), Best::default());
        for places in [begin..ids.len(), 0..begin] {
            for at in places.filter(|&at| Some(at) != own) {
                best.improve(at, queued[at]);
                if Some(ids[at]) != spared {
                    other.improve(at, queued[at]);
                }
            }
        }
        (best, other)
    }

    /// How many to take from one that has at least `threshold` more than the thief.
    fn batch(&self, queued: u32, own_queued: u32, is_idle: bool) -> u32 {
        let more = queued - own_queued;
        let wanted = match self.settings.size {
            StealSize::One => 1,
            StealSize::All if is_idle => queued,
            StealSize::Half | StealSize::All => more - more / 2,
        };
        wanted.min(self.settings.tasks_max)
    }
}
