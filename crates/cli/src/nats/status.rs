//! `millpond nats status`: how a queue stands, on one page.
//!
//! Lanes first, since a lane that grows is why people look; then how full everything is; then who works on it. A
//! daemon that has not said anything for a while is shown with how long that is.

use super::queue::{QueueArguments, failure};
use crate::columns::{Cell, Heading, list, table};
use crate::failure::Failure;
use crate::output::{self, harmless};
use crate::paint::{Paint, Tone};
use crate::units::{bytes, grouped, time};
use clap::Args;
use millpond_nats::{BucketStatus, LaneStatus, QueueStatus};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// Of so many handlers a daemon's row tells.
const HANDLERS_SHOWN_MAX: usize = 6;
/// A daemon says every few seconds that it is there; after so long it is doubtful.
const SILENT_MS: u64 = 12_000;

/// What `nats status` is told.
#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    /// Print JSON: one object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArguments,
}

pub(super) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    let (client, _) = arguments.queue.connect()?;
    let status = client.status().map_err(|error| failure(&error))?;
    if arguments.json {
        return output::print_json(&status);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    output::print(text(&status, u64::try_from(now).unwrap_or(u64::MAX), Paint::for_output()).as_bytes())
}

const LANES: [Heading; 5] = [
    Heading::left("lane"),
    Heading::right("waiting"),
    Heading::right("held"),
    Heading::right("redelivered"),
    Heading::right("pulls"),
];

const DAEMONS: [Heading; 8] = [
    Heading::left("daemon"),
    Heading::left("host"),
    Heading::right("workers"),
    Heading::right("holds"),
    Heading::right("ended"),
    Heading::right("failed"),
    Heading::right("seen"),
    Heading::left("handlers"),
];

fn text(status: &QueueStatus, now_ms: u64, paint: Paint) -> String {
    let row = |name: &str, value: String| vec![Cell::toned(Tone::Faint, name), Cell::new(value)];
    let tasks = of(status.messages, status.messages_max);
    let size = of_bytes(status.bytes, status.bytes_max);
    let kept = |bucket: &BucketStatus| {
        format!("{} kept, {}", grouped(bucket.kept), of_bytes(bucket.bytes, bucket.bytes_max))
    };
    let head = [
        row("queue", status.queue.clone()),
        row(
            "server",
            harmless(&format!("{} (nats-server {})", status.server, status.server_version)).into_owned(),
        ),
        row("tasks", format!("{tasks}, {size}")),
        row("results", kept(&status.results)),
        row("dead letters", kept(&status.dead)),
    ];
    let lanes: Vec<_> = status.lanes.iter().map(lane).collect();
    let mut page = list(&head, paint) + "\n" + &table(&LANES, &lanes, paint) + "\n";
    if status.daemons.is_empty() {
        page += "no daemon is there; tasks wait\n";
    } else {
        let daemons: Vec<_> = status.daemons.iter().map(|told| daemon(told, now_ms)).collect();
        page += &table(&DAEMONS, &daemons, paint);
    }
    page
}

fn of(count: u64, max: Option<u64>) -> String {
    max.map_or_else(|| grouped(count), |max| format!("{} of {}", grouped(count), grouped(max)))
}

fn of_bytes(count: u64, max: Option<u64>) -> String {
    max.map_or_else(|| bytes(count), |max| format!("{} of {}", bytes(count), bytes(max)))
}

fn lane(lane: &LaneStatus) -> Vec<Cell> {
    let redelivered = if lane.redelivered > 0 { Tone::Doubtful } else { Tone::Plain };
    vec![
        Cell::toned(Tone::Strong, lane.lane),
        Cell::new(grouped(lane.waiting)),
        Cell::new(grouped(lane.held)),
        Cell::toned(redelivered, grouped(lane.redelivered)),
        Cell::new(grouped(lane.pulls)),
    ]
}

/// What a daemon said of itself. Whoever may write there may write anything.
fn daemon(told: &Value, now_ms: u64) -> Vec<Cell> {
    let text = |name: &str| harmless(told[name].as_str().unwrap_or("?")).into_owned();
    let number = |name: &str| told[name].as_u64().map_or_else(|| "?".to_owned(), grouped);
    let silent_ms = now_ms.saturating_sub(told["at_ms"].as_u64().unwrap_or_default());
    let tone = if silent_ms > SILENT_MS { Tone::Doubtful } else { Tone::Plain };
    let handlers: Vec<&str> =
        told["handlers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let more = handlers.len().saturating_sub(HANDLERS_SHOWN_MAX);
    let mut shown = handlers.iter().take(HANDLERS_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    vec![
        Cell::toned(Tone::Strong, text("name")),
        Cell::new(text("host")),
        Cell::new(number("workers")),
        Cell::new(number("in_flight")),
        Cell::new(number("ended")),
        Cell::new(number("failed")),
        Cell::toned(tone, format!("{} ago", time(silent_ms as f64 * 1e6))),
        Cell::new(harmless(&shown)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_shows_lanes_fill_and_daemons_whatever_they_say() {
        let lane = |lane, waiting| LaneStatus { lane, waiting, held: 2, redelivered: 1, pulls: 3 };
        let kept = BucketStatus { kept: 5, bytes: 2048, bytes_max: None };
        let status = QueueStatus {
            queue: "jobs".to_owned(),
            server: "nats://a:4222".to_owned(),
            server_version: "2.9.10".to_owned(),
            messages: 1234,
            messages_max: Some(1_000_000),
            bytes: 4096,
            bytes_max: None,
            lanes: vec![lane("high", 0), lane("normal", 1200)],
            results: kept,
            dead: kept,
            daemons: vec![
                json!({ "name": "a-1", "host": "a", "workers": 4, "in_flight": 2, "ended": 7, "failed": 0,
                    "at_ms": 9000, "handlers": ["a", "b", "c", "d", "e", "f", "g"] }),
                json!({ "name": "\u{1b}[2J", "at_ms": "soon" }),
            ],
        };
        let page = text(&status, 10_000, Paint::NONE);
        assert!(page.contains("1 234 of 1 000 000, 4.00 KiB") && page.contains("5 kept, 2.00 KiB"), "{page}");
        assert!(page.contains("normal    1 200     2            1      3"), "{page}");
        assert!(page.contains("1.00 s ago  a, b, c, d, e, f and 1 more"), "{page}");
        assert!(page.contains("\\u001b[2J") && !page.contains('\u{1b}'), "{page}");
        let page = text(&QueueStatus { daemons: Vec::new(), ..status }, 10_000, Paint::NONE);
        assert!(page.ends_with("no daemon is there; tasks wait\n"), "{page}");
    }
}
