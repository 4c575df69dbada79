//! The daemon's log: lines on standard error, for people or as JSON, from the level that is set.
//!
//! A line that nobody reads must not stop the daemon: if standard error is closed, it is lost and counted nowhere.

use crate::output::harmless;
use crate::paint::{Paint, Tone};
use millpond_tasks::{Level, Log};
use serde_json::json;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// What lines look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLines {
    level: Level,
    json: bool,
    paint: Paint,
}

impl LogLines {
    /// Lines from this level on; the name is one of the setting `log.level`.
    pub(super) fn new(level: &str, json: bool) -> Self {
        Self { level: Level::by_name(level).unwrap_or(Level::Info), json, paint: Paint::for_errors() }
    }

    /// Where the parts of the daemon say what happened.
    pub(super) fn log(self) -> Log {
        Log::new(move |level, line| {
            if level <= self.level {
                let text = self.line(SystemTime::now(), level, line);
                let _ = io::stderr().lock().write_all(text.as_bytes());
            }
        })
    }

    fn line(&self, at: SystemTime, level: Level, line: &str) -> String {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.json {
            let seconds = since.as_millis() as f64 / 1000.0;
            return format!("{}\n", json!({"at": seconds, "level": level.name(), "line": line}));
        }
        let tone = match level {
            Level::Error => Tone::Bad,
            Level::Warn => Tone::Doubtful,
            Level::Info => Tone::Good,
            Level::Debug | Level::Trace => Tone::Faint,
        };
        let of_day = since.as_secs() % 86_400;
        let time = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
        let name = self.paint.put(tone, &format!("{level:<5}"));
        format!("{} {name} {}\n", self.paint.put(Tone::Faint, &time), harmless(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_has_its_time_and_its_level_and_no_tricks() {
        let lines = LogLines { level: Level::Info, json: false, paint: Paint::NONE };
        let at = UNIX_EPOCH + Duration::from_secs(3 * 86_400 + 3_723);
        assert_eq!(lines.line(at, Level::Warn, "a\x1b[2Jb"), "01:02:03 warn  a\\u001b[2Jb\n");
        let lines = LogLines { json: true, ..lines };
        assert_eq!(
            lines.line(at, Level::Warn, "a\nb"),
            "{\"at\":262923.0,\"level\":\"warn\",\"line\":\"a\\nb\"}\n"
        );
    }
}
