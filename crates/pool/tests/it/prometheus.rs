//! The text for Prometheus keeps the rules of its format, and says what the picture says.
//!
//! A scraper that meets one bad line throws the whole scrape away, so every line is read here by a reader that forgives
//! nothing. A real parser reads the text of `examples/metrics.rs` as well, where there is one.

use crate::busy::{Busy, start};
use millpond::{MetricsConfig, Pool, PoolConfig, TaskOptions, prometheus_text};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// One line that is no comment.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The text, by the name of the metric: its kind and its samples, in their order.
fn read(text: &str) -> BTreeMap<String, (String, Vec<Sample>)> {
    assert!(text.ends_with('\n'), "the last line ends too");
    let mut families: BTreeMap<String, (String, Vec<Sample>)> = BTreeMap::new();
    let (mut helped, mut current) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').unwrap().0.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, helped, "the help comes first");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let before = families.insert(name.to_owned(), (kind.to_owned(), Vec::new()));
            assert!(before.is_none(), "{name} is there twice");
            current = name.to_owned();
        } else {
            let sample = read_sample(line);
            let (kind, samples) = families.get_mut(&current).unwrap();
            let suffix =
                sample.name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line} in {current}"));
            let suffixes = if kind == "histogram" { &["_bucket", "_sum", "_count"][..] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            samples.push(sample);
        }
    }
    families
}

fn read_sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').unwrap();
    let mut letters = rest.chars();
    let mut labels = BTreeMap::new();
    loop {
        let label: String = letters.by_ref().take_while(|letter| *letter != '=').collect();
        assert_eq!(letters.next(), Some('"'), "{line}");
        let mut value = String::new();
        loop {
            match letters.next().unwrap_or_else(|| panic!("{line} ends too early")) {
                '"' => break,
                '\\' => value.push(match letters.next() {
                    Some('n') => '\n',
                    Some(escaped @ ('\\' | '"')) => escaped,
                    other => panic!("{line}: {other:?} is not escaped that way"),
                }),
                letter => value.push(letter),
            }
        }
        assert!(labels.insert(label, value).is_none(), "a label comes once: {line}");
        match letters.next() {
            Some(',') => {}
            Some('}') => break,
            other => panic!("{line}: {other:?} after a label"),
        }
    }
    let value = letters.as_str().strip_prefix(' ').unwrap().parse().unwrap();
    Sample { name: name.to_owned(), labels, value }
}

/// The value of the one sample that has all of these labels.
fn value(families: &BTreeMap<String, (String, Vec<Sample>)>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |sample: &&Sample| labels.iter().all(|(label, value)| sample.labels[*label] == *value);
    let found: Vec<_> = families[name].1.iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}");
    found[0].value
}

/// A pool that has done some of everything.
fn experienced(name: &str) -> Pool {
    let metrics = MetricsConfig { sample_every: 1, ..MetricsConfig::default() };
    let pool = start(PoolConfig {
        workers: 2,
        queue_capacity: 4,
        name: name.to_owned(),
        metrics,
        ..PoolConfig::default()
    });
    let busy = Busy::many(&pool, 2);
    let keyed = TaskOptions { affinity: Some(1), ..TaskOptions::default() };
    pool.with(&keyed).spawn(|| ()).unwrap();
    (0..6).for_each(|_| drop(pool.try_spawn(|| ())));
    busy.into_iter().for_each(Busy::release);
    pool.submit(|| std::panic::resume_unwind(Box::new(0))).unwrap().wait().unwrap_err();
    assert!(pool.drain(Duration::MAX).is_finished());
    pool
}

#[test]
fn every_line_keeps_the_rules_and_every_series_comes_once() {
    let families = read(&experienced("mill").metrics_prometheus());
    assert!(families.len() > 30, "{} metrics", families.len());
    for (name, (kind, samples)) in &families {
        assert!(!samples.is_empty(), "{name} has no series");
        let mut series = HashSet::new();
        for sample in samples {
            assert!(series.insert((&sample.name, format!("{:?}", sample.labels))), "twice: {sample:?}");
            assert_eq!(sample.labels["pool"], "mill");
            assert!(sample.value.is_finite() && sample.value >= 0.0, "{sample:?}");
            assert!(kind != "counter" || sample.name.ends_with("_total"), "{sample:?}");
        }
    }
}

#[test]
fn bounds_rise_counts_add_up_and_the_last_bucket_holds_all() {
    let pool = experienced("mill");
    let families = read(&pool.metrics_prometheus());
    let metrics = pool.metrics();
    for (name, latency) in
        [("millpond_task_wait_seconds", &metrics.wait), ("millpond_task_run_seconds", &metrics.run)]
    {
        let (kind, samples) = &families[name];
        assert_eq!(kind, "histogram");
        let buckets: Vec<_> = samples.iter().filter(|sample| sample.name.ends_with("_bucket")).collect();
        let bounds: Vec<f64> = buckets.iter().map(|bucket| bucket.labels["le"].parse().unwrap()).collect();
        assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        assert_eq!((bounds.len(), bounds[0], bounds[9]), (10, 0.001, f64::INFINITY));
        assert!(buckets.is_sorted_by_key(|bucket| bucket.value as u64), "{buckets:?}");
        let only = |suffix: &str| samples.iter().find(|sample| sample.name.ends_with(suffix)).unwrap().value;
        assert_eq!((buckets[9].value, only("_count")), (latency.timed as f64, latency.timed as f64));
        assert_eq!(only("_sum"), latency.sum.as_secs_f64());
        assert_eq!(
            latency.timed, 8,
            "two that kept workers busy, one with a key, four that waited, one that panicked"
        );
    }
}

#[test]
fn the_text_says_what_the_picture_says() {
    let pool = experienced("mill");
    let metrics = pool.metrics();
    let families = read(&metrics.to_prometheus("mill"));
    let told = |name: &str, labels: &[(&str, &str)]| value(&families, name, labels);
    for (ending, count) in [("completed", 7), ("panicked", 1), ("cancelled", 0), ("dropped", 0)] {
        assert_eq!(told("millpond_tasks_ended_total", &[("ending", ending)]), f64::from(count), "{ending}");
    }
    assert_eq!(told("millpond_tasks_refused_total", &[("reason", "full")]), 2.0);
    assert_eq!(told("millpond_tasks_keyed_total", &[]), 1.0);
    assert_eq!(told("millpond_lane_capacity", &[("lane", "normal")]), 4.0);
    assert_eq!(told("millpond_lane_enqueued_total", &[("lane", "normal")]), metrics.lanes[1].enqueued as f64);
    assert_eq!(told("millpond_uptime_seconds", &[]), metrics.uptime.as_secs_f64());
    for worker in &metrics.workers {
        let labels = [("worker", &*worker.id.to_string()), ("ending", "completed")];
        assert_eq!(told("millpond_worker_tasks_ended_total", &labels), worker.completed as f64);
        let ran = told("millpond_worker_run_seconds_total", &labels[..1]);
        assert_eq!(ran, worker.run_total.as_secs_f64());
    }
}

#[test]
fn a_pool_may_have_any_name_and_two_pools_share_one_text() {
    let odd = "a \"mill\\pond\"\nwith ducks, and {braces}";
    let (first, second) = (experienced(odd).metrics(), experienced("plain").metrics());
    let families = read(&prometheus_text(&[(odd, &first), ("plain", &second)]));
    for pool in [odd, "plain"] {
        assert_eq!(value(&families, "millpond_workers_wanted", &[("pool", pool)]), 2.0);
    }
    assert_eq!(families["millpond_tasks_ended_total"].1.len(), 12);
}
