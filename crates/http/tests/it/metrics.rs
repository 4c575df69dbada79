//! What Prometheus reads keeps the rules of its format, in both of them, and says what happened.
//!
//! A scraper that meets one bad line throws the whole scrape away, so every line is read here by a reader
//! that forgives nothing. `cargo xtask test --only scrape` has a real parser read the same text: it runs the
//! first of these tests with a folder to write it to.

use crate::http::Answer;
use crate::start::{Daemon, ECHO, HOLD, JSON, raw, until};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

const OPEN_METRICS: &str = "Accept: application/openmetrics-text; version=1.0.0";

/// One line that is no comment.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The text by the name of the metric: its kind and its samples, in their order.
type Families = BTreeMap<String, (String, Vec<Sample>)>;

/// Reads a text. Counters have the name under which they are described.
fn read(text: &str, is_open: bool) -> Families {
    let text = if is_open { text.strip_suffix("# EOF\n").expect("the end is marked") } else { text };
    assert!(text.ends_with('\n'), "the last line ends too");
    let mut families = Families::new();
    let (mut helped, mut current) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').unwrap().0.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, helped, "the help comes first");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let is_total = name.ends_with("_total");
            assert_eq!(is_total, kind == "counter" && !is_open, "{line}");
            let before = families.insert(name.to_owned(), (kind.to_owned(), Vec::new()));
            assert!(before.is_none(), "{name} is there twice");
            current = name.to_owned();
        } else {
            let sample = read_sample(line);
            let (kind, samples) = families.get_mut(&current).unwrap_or_else(|| panic!("{line} is described"));
            let suffix = sample.name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line}"));
            let suffixes = match (kind.as_str(), is_open) {
                ("histogram", _) => &["_bucket", "_sum", "_count"][..],
                ("counter", true) => &["_total"],
                _ => &[""],
            };
            assert!(suffixes.contains(&suffix), "{line} in {current}");
            samples.push(sample);
        }
    }
    families
}

/// Reads `name{label="value",label="value"} 1`, or without the braces.
fn read_sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("{line}: no number"));
    let Some((name, rest)) = series.split_once('{') else {
        return Sample { name: series.to_owned(), labels: BTreeMap::new(), value };
    };
    let rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}: not closed"));
    let mut labels = BTreeMap::new();
    for pair in rest.split(',') {
        let (label, value) = pair.split_once('=').unwrap_or_else(|| panic!("{line}: {pair}"));
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = value.unwrap_or_else(|| panic!("{line}: {pair}"));
        assert!(!value.contains(['"', '\\']), "{line}: nothing in these tests has to be escaped");
        assert!(labels.insert(label.to_owned(), value.to_owned()).is_none(), "a label comes once: {line}");
    }
    Sample { name: name.to_owned(), labels, value }
}

/// The value of the one sample that has this name and these labels, and maybe others.
fn value(families: &Families, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |sample: &&Sample| {
        sample.name == name
            && labels
                .iter()
                .all(|(label, value)| sample.labels.get(*label).map(String::as_str) == Some(*value))
    };
    let found: Vec<_> = families.values().flat_map(|(_, samples)| samples).filter(has).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    found[0].value
}

fn scrape(daemon: &Daemon) -> Families {
    read(daemon.get("/metrics").text(), false)
}

/// A daemon that has done some of everything.
fn experienced() -> Daemon {
    let daemon = Daemon::start();
    for _ in 0..3 {
        assert_eq!(daemon.post("/v1/exec", ECHO).status, 200);
    }
    let failing = r#"{"handler":"fail","args":{"error":"handler-error"}}"#;
    assert_eq!(daemon.post("/v1/exec", failing).status, 500);
    assert_eq!(daemon.post("/v1/exec", r#"{"handler":"nobody"}"#).status, 422);
    let place = daemon.submit(HOLD);
    let call = daemon.call();
    assert_eq!(daemon.post(&format!("{place}/cancel"), "").status, 200);
    drop(call);
    assert_eq!(daemon.get("/v1/nowhere").status, 404);
    daemon
}

#[test]
fn every_line_keeps_the_rules_in_both_formats_and_every_series_comes_once() {
    let daemon = experienced();
    let plain = daemon.get("/metrics");
    let open = daemon.ask("GET /metrics", &[OPEN_METRICS], None);
    for (answer, is_open) in [(&plain, false), (&open, true)] {
        assert_eq!(answer.status, 200);
        let families = read(answer.text(), is_open);
        assert!(families.len() > 70, "{} metrics", families.len());
        for (name, (kind, samples)) in &families {
            let mut series = HashSet::new();
            for sample in samples {
                assert!(series.insert((&sample.name, format!("{:?}", sample.labels))), "twice: {sample:?}");
                assert!(sample.value.is_finite() && sample.value >= 0.0, "{sample:?}");
            }
            if kind == "histogram" {
                check_buckets(name, samples);
            }
        }
    }
    let names = |answer: &Answer, is_open| -> Vec<_> {
        let families = read(answer.text(), is_open).into_iter();
        families
            .map(|(name, (kind, _))| if is_open && kind == "counter" { name + "_total" } else { name })
            .collect()
    };
    let (mut of_plain, mut of_open) = (names(&plain, false), names(&open, true));
    of_plain.sort();
    of_open.sort();
    assert_eq!(of_plain, of_open, "both formats have the same metrics");
    if let Some(folder) = std::env::var_os("MILLPOND_SCRAPE_TO").map(PathBuf::from) {
        std::fs::write(folder.join("metrics.txt"), &plain.body).unwrap();
        std::fs::write(folder.join("metrics.openmetrics"), &open.body).unwrap();
    }
    daemon.end();
}

/// Bounds rise within each series, counts do not fall, and the last bucket holds all.
fn check_buckets(name: &str, samples: &[Sample]) {
    let mut bound = f64::NEG_INFINITY;
    let mut count = 0.0;
    for sample in samples {
        if sample.name.ends_with("_bucket") {
            let le = sample.labels["le"].parse().unwrap();
            assert!(le > bound && sample.value >= count, "{name}: {sample:?}");
            (bound, count) = (le, sample.value);
        } else if sample.name.ends_with("_count") {
            assert_eq!((bound, count), (f64::INFINITY, sample.value), "{name}: {sample:?}");
            (bound, count) = (f64::NEG_INFINITY, 0.0);
        }
    }
}

#[test]
fn the_text_says_what_happened() {
    let daemon = experienced();
    let families = scrape(&daemon);
    let total = |status| value(&families, "millpond_tasks_total", &[("status", status)]);
    assert_eq!(
        ["completed", "failed", "cancelled", "timeout", "dropped"].map(total),
        [3.0, 1.0, 1.0, 0.0, 0.0]
    );
    let named = |name, labels: &[(&str, &str)]| value(&families, name, labels);
    assert_eq!(named("millpond_tasks_submitted_total", &[("door", "http")]), 5.0);
    assert_eq!(named("millpond_tasks_submitted_total", &[("door", "mailbox")]), 0.0);
    assert_eq!(named("millpond_tasks_failed_total", &[("error", "handler-error")]), 1.0);
    let refused = [("reason", "unknown-handler"), ("policy", "block")];
    assert_eq!(named("millpond_tasks_rejected_total", &refused), 1.0);
    assert_eq!(named("millpond_handler_tasks_total", &[("handler", "echo"), ("status", "completed")]), 3.0);
    for name in ["millpond_task_duration_seconds", "millpond_task_queue_wait_seconds"] {
        let (count, bucket) = (format!("{name}_count"), format!("{name}_bucket"));
        assert_eq!(value(&families, &count, &[("handler", "echo")]), 3.0);
        assert_eq!(value(&families, &bucket, &[("handler", "echo"), ("le", "+Inf")]), 3.0);
    }
    let exec = [("route", "/v1/exec"), ("method", "POST")];
    let answered = |code| named("millpond_http_requests_total", &[&exec[..], &[("code", code)]].concat());
    assert_eq!([answered("200"), answered("500"), answered("422")], [3.0, 1.0, 1.0]);
    assert_eq!(named("millpond_http_request_duration_seconds_count", &exec), 5.0);
    let cancelled = [("route", "/v1/tasks/{id}/cancel"), ("method", "POST"), ("code", "200")];
    assert_eq!(named("millpond_http_requests_total", &cancelled), 1.0);
    let lost = [("route", "other"), ("method", "other"), ("code", "404")];
    assert_eq!(named("millpond_http_requests_total", &lost), 1.0);
    assert_eq!(
        named("millpond_connections_accepted_total", &[]),
        9.0,
        "each request had its own, and this one"
    );
    assert_eq!(named("millpond_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    assert!(named("process_resident_memory_bytes", &[]) > 1e6);
    let states = families["millpond_workers"].1.iter().map(|sample| sample.value).sum::<f64>();
    assert_eq!(states, named("millpond_workers_running", &[]), "the pool is asked by both tables");
    assert!(
        !families.contains_key("millpond_spans_exported_total")
            || families["millpond_spans_exported_total"].1.is_empty()
    );
    daemon.end();
}

#[test]
fn a_scraper_gets_the_format_that_it_would_rather_have() {
    let daemon = Daemon::start();
    let kind = |accept: &[&str]| {
        let answer = daemon.ask("GET /metrics", accept, None);
        assert_eq!(answer.status, 200);
        (answer.header("content-type").unwrap().to_owned(), answer.text().ends_with("# EOF\n"))
    };
    let plain = ("text/plain; version=0.0.4".to_owned(), false);
    let open = ("application/openmetrics-text; version=1.0.0; charset=utf-8".to_owned(), true);
    assert_eq!(kind(&[]), plain);
    assert_eq!(kind(&["Accept: */*"]), plain);
    assert_eq!(kind(&["Accept: text/html,application/xhtml+xml"]), plain, "a browser can read text");
    assert_eq!(kind(&[OPEN_METRICS]), open);
    let prometheus = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,\
                      application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,\
                      */*;q=0.2";
    assert_eq!(kind(&[prometheus]), open);
    let rather_plain = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4";
    assert_eq!(kind(&[rather_plain]), plain);
    daemon.end();
}

#[test]
fn a_full_door_is_seen_from_outside() {
    let daemon = Daemon::with(|web, _| {
        (web.in_flight_max, web.queue_capacity) = (1, 1);
        web.queue_timeout = crate::http::SOON;
    });
    let mut holder = daemon.connect();
    holder.ask("POST /v1/exec", &[JSON], Some(HOLD));
    let call = daemon.call();
    let mut waiter = daemon.connect();
    waiter.ask("POST /v1/exec", &[JSON], Some(ECHO));
    let now = |name: &str| value(&scrape(&daemon), name, &[]);
    until("somebody waits", || now("millpond_connection_queue_depth") == 1.0);
    assert_eq!(daemon.post("/v1/exec", ECHO).status, 503);
    let families = scrape(&daemon);
    let named = |name, labels: &[(&str, &str)]| value(&families, name, labels);
    assert_eq!(named("millpond_connections_rejected_total", &[("reason", "queue-full")]), 1.0);
    assert_eq!(
        (named("millpond_http_in_flight", &[]), named("millpond_http_in_flight_max", &[])),
        (1.0, 1.0)
    );
    assert_eq!(named("millpond_connection_queue_max_depth", &[]), 1.0);
    call.finish(Ok(raw(&json!(1))));
    assert_eq!((holder.answer().status, waiter.answer().status), (200, 200));
    assert_eq!(now("millpond_connection_queue_wait_seconds_count"), 1.0);
    daemon.end();
}
