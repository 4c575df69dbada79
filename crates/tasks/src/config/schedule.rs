//! The settings of what is asked for by the clock: one table `[schedule.NAME]` for each, with a cron expression.
//!
//! Expressions have five fields, or six with seconds before them, as cron writes them, and are read in a time zone:
//! that of the table, or UTC. What cannot be read is found when the configuration is, not when its time has come.
//!
//! Not here: when one is due, and what happens then (`schedule.rs` of the crate).

use super::load::{Loaded, LoadedTable};
use super::settings::RetrySettings;
use super::table::{DAY, Setting, setting};
use super::typed::{number, span, text};
use super::value::Kind::{Count, Cron as CronKind, JsonObject, Name, OneOf, Span, Zone};
use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use millpond::Priority;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest expression.
const CRON_BYTES_MAX: usize = 200;

/// The settings of one schedule, in its own table `[schedule.NAME]`.
pub const SCHEDULE_SETTINGS: &[Setting] = &[
    setting(
        "cron",
        CronKind,
        "",
        "schedules",
        "When: minute, hour, day, month and weekday, as cron writes them.",
    ),
    setting("handler", Name, "echo", "schedules", "Who does it."),
    setting("args", JsonObject, "none", "schedules", "Its arguments, as JSON.").or("none", "`{}`"),
    setting(
        "priority",
        OneOf(|| vec!["high", "normal", "low"]),
        "normal",
        "schedules",
        "How urgent its tasks are.",
    ),
    setting("time_zone", Zone, "UTC", "schedules", "In which zone the expression is meant."),
    setting("retries", Count(0, 1000), "0", "schedules", "How many more attempts a failure allows."),
    setting(
        "timeout",
        Span(Duration::from_millis(1), DAY),
        "none",
        "schedules",
        "How long one attempt may take.",
    )
    .or("none", "as long as the handler allows"),
    setting(
        "missed",
        OneOf(|| vec!["once", "skip"]),
        "once",
        "schedules",
        "What becomes of times that passed while no daemon ran: one task for all of them, or none. Needs a journal.",
    ),
    setting(
        "overlap",
        OneOf(|| vec!["skip", "allow"]),
        "skip",
        "schedules",
        "What becomes of a time that comes while the task of the last one has not ended.",
    ),
];

/// What is asked for by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSettings {
    /// When.
    pub cron: String,
    /// Who does it.
    pub handler: String,
    /// A JSON object.
    pub args: String,
    /// How urgent it is.
    pub priority: Priority,
    /// In which zone the expression is meant.
    pub time_zone: String,
    /// How many more attempts a failure allows.
    pub retries: u32,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Whether times that passed while no daemon ran are made up for, by one task.
    pub catches_up: bool,
    /// Whether a task may run beside the last one.
    pub may_overlap: bool,
}

/// Reads an expression.
pub(crate) fn read_cron(expression: &str) -> Option<Cron> {
    let is_short = expression.len() <= CRON_BYTES_MAX;
    is_short.then(|| CronParser::builder().seconds(Seconds::Optional).build().parse(expression).ok())?
}

/// Finds a zone by its name.
pub(crate) fn read_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" { Some(TimeZone::UTC) } else { TimeZone::get(name).ok() }
}

/// A moment as RFC 3339 writes it in UTC, in seconds.
pub fn print_moment(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| unix_ms.to_string(), |moment| moment.to_string())
}

impl Loaded {
    pub(super) fn schedules(&self) -> BTreeMap<String, ScheduleSettings> {
        self.schedules.iter().map(|(name, table)| (name.clone(), table.schedule())).collect()
    }

    /// Of those handlers that say something about it; what one leaves out is as for all.
    pub(super) fn handler_retries(&self) -> BTreeMap<String, RetrySettings> {
        let retry = |(name, table): (&String, &LoadedTable)| {
            let [least, most] = ["retry_backoff_min", "retry_backoff_max"].map(|key| span(&table.get(key).0));
            (least.is_some() || most.is_some()).then_some(())?;
            let backoff_min = least.unwrap_or_else(|| self.duration("retry.backoff_min"));
            let backoff_max = most.unwrap_or_else(|| self.duration("retry.backoff_max")).max(backoff_min);
            Some((name.clone(), RetrySettings { backoff_min, backoff_max }))
        };
        self.handlers.iter().filter_map(retry).collect()
    }
}

impl LoadedTable {
    fn schedule(&self) -> ScheduleSettings {
        let word = |name| text(&self.get(name).0).unwrap_or_default();
        ScheduleSettings {
            cron: word("cron").to_owned(),
            handler: word("handler").to_owned(),
            args: text(&self.get("args").0).unwrap_or("{}").to_owned(),
            priority: match word("priority") {
                "high" => Priority::High,
                "low" => Priority::Low,
                _ => Priority::Normal,
            },
            time_zone: word("time_zone").to_owned(),
            retries: number(&self.get("retries").0).and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            timeout: span(&self.get("timeout").0),
            catches_up: word("missed") == "once",
            may_overlap: word("overlap") == "allow",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, ConfigSources, load};
    use super::*;

    fn found(toml: &str) -> Vec<String> {
        let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
        let loaded = load(&ConfigSources { file, handlers: &["echo"], ..ConfigSources::default() });
        loaded.findings().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn expressions_are_those_of_cron_with_or_without_seconds() {
        for good in ["*/5 * * * *", "0 3 * * MON-FRI", "30 0 3 1 * *", "0 0 L * *", "@daily"] {
            assert!(read_cron(good).is_some(), "{good}");
        }
        for wrong in ["", "* * * *", "61 * * * *", "every day", &"*".repeat(300)] {
            assert!(read_cron(wrong).is_none(), "{wrong}");
        }
        assert!(read_zone("UTC").is_some() && read_zone("Mars/Olympus").is_none());
    }

    #[test]
    fn a_schedule_needs_an_expression_and_a_handler_that_exists() {
        assert_eq!(found("[schedule.a]\ncron = '*/5 * * * *'\nhandler = 'echo'\n"), [""; 0]);
        let missing = found("[schedule.a]\nhandler = 'echo'\n");
        assert!(missing[0].contains("schedule.a: expected a cron expression, got none"), "{missing:?}");
        let nobody = found("[schedule.a]\ncron = '@daily'\nhandler = 'ecko'\n");
        assert!(
            nobody[0].contains("schedule.a.handler: expected a handler that exists, got \"ecko\""),
            "{nobody:?}"
        );
        assert!(nobody[0].contains("did you mean echo?"), "{nobody:?}");
        let wrong = found("[schedule.a]\ncron = '* * *'\ntime_zone = 'Nowhere/At_All'\n");
        assert!(wrong[0].contains("schedule.a.cron: expected a cron expression"), "{wrong:?}");
        assert!(wrong[1].contains("schedule.a.time_zone: expected the name of a time zone"), "{wrong:?}");
    }
}
