//! A task as this door shows it: what every door shows, with the time of day and the address.
//!
//! Other doors say how old a task is; somebody who reads JSON in a browser wants to know when it came.

use super::ask::{Answer, json_of};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use millpond_tasks::{Task, TaskDetail, TaskId, TaskStatus};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Serialize, Serializer};

/// What an address takes as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A moment, printed as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    unix_ms: u64,
}

impl Moment {
    pub(super) fn of_unix_ms(unix_ms: u64) -> Self {
        Self { unix_ms }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, time) = (self.unix_ms / 86_400_000, self.unix_ms % 86_400_000);
        let (year, month, day) = date(days);
        let (seconds, milliseconds) = (time / 1000, time % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"
        )
    }
}

/// Year, month and day, so many days after 1970 began. Years begin in March here, so that the leap day is the
/// last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    // From the first of March of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year_of_era + next_year, month, day)
}

/// A task in a list.
#[derive(Serialize)]
pub(super) struct TaskView {
    #[serde(flatten)]
    status: TaskStatus,
    accepted_at: Moment,
}

impl From<TaskStatus> for TaskView {
    fn from(status: TaskStatus) -> Self {
        let accepted_at = Moment::of_unix_ms(status.accepted_at_ms);
        Self { status, accepted_at }
    }
}

/// A task by itself: with arguments, attempts and result.
#[derive(Serialize)]
pub(super) struct WholeTaskView {
    #[serde(flatten)]
    detail: TaskDetail,
    accepted_at: Moment,
}

impl WholeTaskView {
    pub(super) fn of(task: &Task) -> Self {
        let detail = task.detail();
        let accepted_at = Moment::of_unix_ms(detail.status.accepted_at_ms);
        Self { detail, accepted_at }
    }
}

/// The answer that is a task by itself.
pub(super) fn whole_task(status: StatusCode, task: &Task) -> Answer {
    json_of(status, &WholeTaskView::of(task))
}

/// Where a task is found. A text that would be read as something else stands in quotes, as in JSON.
pub(super) fn location(id: &TaskId) -> HeaderValue {
    let text = match id {
        TaskId::Number(number) => number.to_string(),
        TaskId::Assigned(number) => format!("t{number}"),
        TaskId::Name(name) if is_plain(id, name) => utf8_percent_encode(name, ESCAPED).to_string(),
        TaskId::Name(_) => utf8_percent_encode(&id.to_string(), ESCAPED).to_string(),
    };
    HeaderValue::try_from(format!("/v1/tasks/{text}")).expect("letters, digits and escapes are visible")
}

/// Dots alone are a way up in a path, even if they are escaped.
fn is_plain(id: &TaskId, name: &str) -> bool {
    TaskId::parse(name).as_ref() == Some(id) && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::percent_decode_str;

    #[test]
    fn moments_are_printed_as_people_write_them() {
        let printed = |unix_ms| Moment::of_unix_ms(unix_ms).to_string();
        assert_eq!(printed(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(printed(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(printed(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(printed(1_735_689_600_001), "2025-01-01T00:00:00.001Z");
        assert_eq!(printed(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn every_id_is_found_where_its_location_says() {
        for json in
            ["17", "\"17\"", "\"t17\"", "\"t017\"", "\"a/b ü?#\"", "\"..\"", "\".\"", r#""\"x""#, "\"%41\""]
        {
            let id = TaskId::parse(json).unwrap();
            let location = location(&id);
            let segment = location.to_str().unwrap().strip_prefix("/v1/tasks/").unwrap();
            assert!(!segment.contains(['/', '?', '#']) && segment != "..", "{segment}");
            let decoded = percent_decode_str(segment).decode_utf8().unwrap();
            assert_eq!(TaskId::parse(&decoded), Some(id), "{segment}");
        }
    }
}
