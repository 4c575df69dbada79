//! What the clock asks for: each schedule is due at the times of its cron expression, and becomes a task then.
//!
//! Times are those of the clock on the wall, so a schedule never sleeps long: it looks again every so often, and a
//! clock that was set is noticed. A time that comes while the task of the last one has not ended is left out unless
//! the schedule allows both. Of the times that passed while no daemon ran, which only a journal knows, one is made up
//! for.
//!
//! Not here: what an expression may say (`config/schedule.rs`).

use crate::config::{ScheduleSettings, read_cron, read_zone};
use crate::door::DoorName;
use crate::request::{Request, TaskId};
use crate::service::{ServiceHandle, Shared};
use crate::submit::Submit;
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A schedule looks at the clock at least so often.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How many of the next times are told.
const NEXT_TOLD: usize = 5;

/// One schedule, for whoever asks.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduleInfo {
    /// What it is called.
    pub name: String,
    /// Its expression.
    pub cron: String,
    /// The zone in which that is meant.
    pub time_zone: String,
    /// Who does it.
    pub handler: String,
    /// The next times, in Unix time.
    pub next_ms: Vec<u64>,
    /// The last time, in Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ms: Option<u64>,
    /// The task of the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_task: Option<TaskId>,
    /// Why the last time became no task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// How many times became a task since the start.
    pub fired: u64,
    /// How many were left out, because the task of the time before had not ended.
    pub skipped: u64,
    /// How many were refused.
    pub refused: u64,
}

pub(crate) struct Schedules {
    by_name: BTreeMap<String, Arc<Schedule>>,
}

struct Schedule {
    name: String,
    settings: ScheduleSettings,
    cron: Cron,
    zone: TimeZone,
    args: Box<RawValue>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_ms: Option<u64>,
    last_task: Option<TaskId>,
    last_refusal: Option<String>,
    fired: u64,
    skipped: u64,
    refused: u64,
}

impl Schedules {
    /// Those that can be read; the configuration lets no others through.
    pub(crate) fn new(settings: &BTreeMap<String, ScheduleSettings>) -> Self {
        let schedule = |(name, settings): (&String, &ScheduleSettings)| {
            let schedule = Schedule {
                name: name.clone(),
                cron: read_cron(&settings.cron)?,
                zone: read_zone(&settings.time_zone)?,
                args: RawValue::from_string(settings.args.clone()).ok()?,
                settings: settings.clone(),
                state: Mutex::default(),
            };
            Some((name.clone(), Arc::new(schedule)))
        };
        Self { by_name: settings.iter().filter_map(schedule).collect() }
    }

    /// When a schedule was due the last time, as a journal remembers it.
    pub(crate) fn restore(&self, name: &str, last_ms: u64) {
        if let Some(schedule) = self.by_name.get(name) {
            let mut state = schedule.lock();
            state.last_ms = Some(last_ms.max(state.last_ms.unwrap_or(0)));
        }
    }

    /// The last time of each that had one.
    pub(crate) fn last_times(&self) -> Vec<(&str, u64)> {
        let last = |schedule: &'_ Arc<Schedule>| schedule.lock().last_ms;
        let times = self.by_name.iter().map(|(name, schedule)| (name.as_str(), last(schedule)));
        times.filter_map(|(name, time)| Some((name, time?))).collect()
    }

    pub(crate) fn infos(&self, now_ms: u64) -> Vec<ScheduleInfo> {
        self.by_name.values().map(|schedule| schedule.info(now_ms)).collect()
    }
}

impl Schedule {
    /// The first time after a moment.
    fn next_after(&self, unix_ms: u64) -> Option<u64> {
        let moment = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        let after = Zoned::new(moment, self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok()
    }

    fn info(&self, now_ms: u64) -> ScheduleInfo {
        let next = std::iter::successors(self.next_after(now_ms), |time| self.next_after(*time));
        let state = self.lock();
        ScheduleInfo {
            name: self.name.clone(),
            cron: self.settings.cron.clone(),
            time_zone: self.settings.time_zone.clone(),
            handler: self.settings.handler.clone(),
            next_ms: next.take(NEXT_TOLD).collect(),
            last_ms: state.last_ms,
            last_task: state.last_task.clone(),
            last_refusal: state.last_refusal.clone(),
            fired: state.fired,
            skipped: state.skipped,
            refused: state.refused,
        }
    }

    fn request(&self) -> Request {
        let settings = &self.settings;
        let unique_key = format!("schedule:{}", self.name).into_boxed_str();
        Request {
            priority: settings.priority,
            retries: settings.retries,
            timeout: settings.timeout,
            unique_key: (!settings.may_overlap).then_some(unique_key),
            ..Request::for_handler(&settings.handler, self.args.clone())
        }
    }

    /// Its time has come, or a time that was missed is made up for.
    fn fire(&self, service: &ServiceHandle, at_ms: u64) {
        self.lock().last_ms = Some(at_ms);
        let how = Submit { door: DoorName::Schedule, ..Submit::default() };
        let accepted = service.submit_scheduled(self.request(), how, &self.name, at_ms);
        let mut state = self.lock();
        match accepted {
            Ok(accepted) => {
                state.last_refusal = None;
                if accepted.is_new {
                    state.fired += 1;
                    state.last_task = Some(accepted.task.id().clone());
                } else {
                    state.skipped += 1;
                }
            }
            Err(refused) => {
                state.refused += 1;
                state.last_refusal = Some(refused.failure.to_string());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// The Unix time, in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.wall.unix_ns(Instant::now()) / 1_000_000
    }

    /// Lets the clock ask from now on.
    pub(crate) fn start_schedules(self: &Arc<Self>) {
        let now = self.now_ms();
        for schedule in self.schedules.by_name.values() {
            let last = schedule.lock().last_ms;
            let missed = last.and_then(|last| schedule.next_after(last)).is_some_and(|due| due <= now);
            // One task stands for all the times that were missed.
            let next =
                if missed && schedule.settings.catches_up { Some(now) } else { schedule.next_after(now) };
            if let Some(next) = next {
                look_later(self, schedule, next);
            }
        }
    }
}

/// Looks at the clock when the time has come, or before that if it is far away.
fn look_later(shared: &Arc<Shared>, schedule: &Arc<Schedule>, due_ms: u64) {
    let weak: Weak<Shared> = Arc::downgrade(shared);
    let wait = Duration::from_millis(due_ms.saturating_sub(shared.now_ms())).min(LOOK_EVERY);
    let schedule = Arc::clone(schedule);
    shared.timer.after(wait, move || {
        let Some(shared) = weak.upgrade().filter(|shared| !shared.is_draining.load(Acquire)) else { return };
        let now = shared.now_ms();
        let mut next = due_ms;
        if now >= due_ms {
            schedule.fire(&ServiceHandle { shared: Arc::clone(&shared) }, due_ms);
            // Of times that passed meanwhile, since the clock was set or the machine slept, none is made up for.
            let Some(after) = schedule.next_after(now) else { return };
            next = after;
        } else if let Some(earlier) = schedule.next_after(now) {
            next = earlier.min(due_ms);
        }
        look_later(&shared, &schedule, next);
    });
}

impl ServiceHandle {
    /// What the clock asks for, by name, with the next times.
    pub fn schedules(&self) -> Vec<ScheduleInfo> {
        self.shared.schedules.infos(self.shared.now_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::Priority;

    fn schedule(cron: &str, zone: &str) -> Arc<Schedule> {
        let settings = ScheduleSettings {
            cron: cron.to_owned(),
            handler: "echo".to_owned(),
            args: "{}".to_owned(),
            priority: Priority::Normal,
            time_zone: zone.to_owned(),
            retries: 0,
            timeout: None,
            catches_up: true,
            may_overlap: false,
        };
        let all = Schedules::new(&BTreeMap::from([("a".to_owned(), settings)]));
        Arc::clone(&all.by_name["a"])
    }

    /// 2026-01-01T00:00:00Z
    const NEW_YEAR: u64 = 1_767_225_600_000;

    #[test]
    fn the_next_time_is_after_the_moment_and_never_at_it() {
        let every_five = schedule("*/5 * * * *", "UTC");
        assert_eq!(every_five.next_after(NEW_YEAR), Some(NEW_YEAR + 300_000));
        assert_eq!(every_five.next_after(NEW_YEAR + 1), Some(NEW_YEAR + 300_000));
        assert_eq!(every_five.next_after(NEW_YEAR - 1), Some(NEW_YEAR));
        assert_eq!(schedule("30 * * * * *", "UTC").next_after(NEW_YEAR), Some(NEW_YEAR + 30_000));
    }

    #[test]
    fn times_are_those_of_the_zone() {
        if read_zone("Europe/Berlin").is_none() {
            assert!(read_zone("UTC").is_some(), "a machine without zones has this one");
            return;
        }
        // Three o'clock in the morning there is two o'clock in winter, and one in summer.
        let nightly = schedule("0 3 * * *", "Europe/Berlin");
        assert_eq!(nightly.next_after(NEW_YEAR), Some(NEW_YEAR + 2 * 3_600_000));
        let first_of_july = NEW_YEAR + 181 * 86_400_000;
        assert_eq!(nightly.next_after(first_of_july), Some(first_of_july + 3_600_000));
    }

    #[test]
    fn the_next_times_are_told_in_order() {
        let info = schedule("0 * * * *", "UTC").info(NEW_YEAR);
        let hours: Vec<_> = (1..=5).map(|hour| NEW_YEAR + hour * 3_600_000).collect();
        assert_eq!(info.next_ms, hours);
    }
}
