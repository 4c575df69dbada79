//! A picture of a pool as text for Prometheus, in the format that every scraper reads (version 0.0.4).
//!
//! One table lists every metric: its name, its kind, what it means, and where its numbers come from. The table is the
//! source of `docs/metrics.md` as well, and a test compares the two. Names begin with `millpond_`, times are in
//! seconds, what only grows ends in `_total`. Every series has the label `pool`.
//!
//! Not here: who serves the text. Any web server will do.

mod table;

use crate::handle::PoolHandle;
use crate::metrics::{LatencyMetrics, Metrics};
use std::fmt::{self, Write};
use std::time::Duration;
use table::TABLE;

/// What a web server says about the text: the `Content-Type`.
pub const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl PoolHandle {
    /// The [`metrics`](Self::metrics) as text for Prometheus, under the name of the pool. If a process has several
    /// pools, see [`prometheus_text`].
    ///
    /// ```
    /// let pool = millpond::Pool::start(millpond::PoolConfig::default())?;
    /// pool.submit(|| ())?.wait()?;
    /// let text = pool.metrics_prometheus();
    /// assert!(text.contains("millpond_tasks_ended_total{pool=\"millpond\",ending=\"completed\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics_prometheus(&self) -> String {
        self.metrics().to_prometheus(&self.shared.config.name)
    }
}

impl Metrics {
    /// The text for Prometheus, of a pool with this name.
    pub fn to_prometheus(&self, pool: &str) -> String {
        prometheus_text(&[(pool, self)])
    }
}

/// The text for Prometheus of several pools, each with the name by which it is to be known.
pub fn prometheus_text(pools: &[(&str, &Metrics)]) -> String {
    let mut text = String::with_capacity(8192);
    for metric in TABLE {
        let Metric { name, kind, help, .. } = metric;
        line(&mut text, format_args!("# HELP {name} {help}"));
        line(&mut text, format_args!("# TYPE {name} {kind}"));
        for (pool, metrics) in pools {
            (metric.series)(metrics, &mut Series { text: &mut text, metric, pool });
        }
    }
    text
}

fn line(text: &mut String, words: fmt::Arguments<'_>) {
    // A string takes whatever is written.
    let _ = text.write_fmt(words);
    text.push('\n');
}

/// One row of the table.
struct Metric {
    name: &'static str,
    kind: Kind,
    /// The labels beside `pool`.
    labels: &'static [&'static str],
    /// What it means, in plain words and without a full stop.
    help: &'static str,
    /// Writes its series.
    series: fn(&Metrics, &mut Series<'_>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// The series of one metric of one pool.
struct Series<'a> {
    text: &'a mut String,
    metric: &'static Metric,
    pool: &'a str,
}

impl Series<'_> {
    /// The one series of a metric without further labels.
    fn value(&mut self, value: impl fmt::Display) {
        self.labelled(&[], value);
    }

    /// One series of several: `names` are the values of the metric's labels.
    fn labelled(&mut self, names: &[&dyn fmt::Display], value: impl fmt::Display) {
        let metric = self.metric;
        debug_assert_eq!(metric.labels.len(), names.len(), "{}: a name for each label", metric.name);
        self.sample("", metric.labels.iter().copied().zip(names.iter().copied()), value);
    }

    fn histogram(&mut self, latency: &LatencyMetrics) {
        for bucket in &latency.buckets {
            self.sample("_bucket", [("le", &seconds(bucket.le) as _)], bucket.count);
        }
        self.sample("_bucket", [("le", &"+Inf" as _)], latency.timed);
        self.sample("_sum", [], seconds(latency.sum));
        self.sample("_count", [], latency.timed);
    }

    fn sample<'a>(
        &mut self,
        suffix: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a dyn fmt::Display)>,
        value: impl fmt::Display,
    ) {
        // A string takes whatever is written.
        let _ = write!(self.text, "{}{suffix}{{pool=\"{}\"", self.metric.name, Escaped(self.pool));
        for (label, name) in labels {
            let _ = write!(self.text, ",{label}=\"{name}\"");
        }
        line(self.text, format_args!("}} {value}"));
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// A label's value as it is written: the three characters that would end it are escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            letter => f.write_char(letter),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_follow_the_rules_and_come_once() {
        let mut names = HashSet::new();
        for Metric { name, kind, help, labels, .. } in TABLE {
            assert!(names.insert(name), "{name} is there twice");
            let plain = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            assert!(name.starts_with("millpond_") && name.chars().all(plain), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name} is a {kind}");
            assert_eq!(
                name.ends_with("_seconds"),
                *kind == Kind::Histogram || *name == "millpond_uptime_seconds"
            );
            assert!(
                !help.is_empty() && !help.contains(['\\', '\n', '|']) && !help.ends_with('.'),
                "{name}: {help}"
            );
            assert!(labels.iter().all(|label| label.chars().all(plain) && *label != "pool"), "{name}");
        }
    }

    #[test]
    fn the_page_lists_the_table() {
        let page = include_str!("../../../docs/metrics.md");
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `millpond_")).collect();
        let expected: Vec<_> = TABLE
            .iter()
            .map(|metric| {
                let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
                format!("| `{}` | {} | {} | {} |", metric.name, metric.kind, labels.join(", "), metric.help)
            })
            .collect();
        assert_eq!(rows, expected, "docs/metrics.md: expected these rows\n{}\n", expected.join("\n"));
    }

    #[test]
    fn a_label_holds_any_name() {
        assert_eq!(Escaped("mill").to_string(), "mill");
        assert_eq!(Escaped("a \"b\" \\ c\nd").to_string(), "a \\\"b\\\" \\\\ c\\nd");
    }
}
