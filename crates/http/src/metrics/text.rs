//! How metrics are written: as text for Prometheus (0.0.4) or as OpenMetrics (1.0.0), from the same rows.
//!
//! The two differ in three things: OpenMetrics names a counter without its `_total` where it describes it,
//! wants bounds written in one way only, and ends with a line that says so. Bounds are written that way in
//! both, so that a series keeps its name whoever asks.
//!
//! Not here: which metrics there are (`table.rs`).

use super::Picture;
use std::fmt::{self, Display, Write};

/// One row of the table.
pub(super) struct Metric {
    /// What it is about, for people who look for something in the page.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the page shows it"))]
    pub(super) area: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    /// What it means, in plain words and without a full stop.
    pub(super) help: &'static str,
    /// Writes its series.
    pub(super) series: fn(&Picture, &mut Series<'_>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// In which of the two ways a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Version 0.0.4, which every scraper reads.
    Prometheus,
    /// Version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a metric is called where it is described.
    pub(super) fn family(self, name: &str) -> &str {
        match self {
            Self::Prometheus => name,
            Self::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        }
    }

    /// What stands below all metrics.
    pub(super) fn end(self) -> &'static str {
        match self {
            Self::Prometheus => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }
}

/// Writes one metric with all its series.
pub(super) fn write(text: &mut String, format: Format, metric: &'static Metric, picture: &Picture) {
    let (family, kind, help) = (format.family(metric.name), metric.kind, metric.help);
    line(text, format_args!("# HELP {family} {help}"));
    line(text, format_args!("# TYPE {family} {kind}"));
    (metric.series)(picture, &mut Series { text, metric });
}

pub(super) fn line(text: &mut String, words: fmt::Arguments<'_>) {
    // A string takes whatever is written.
    let _ = text.write_fmt(words);
    text.push('\n');
}

/// The series of one metric.
pub(super) struct Series<'a> {
    text: &'a mut String,
    metric: &'static Metric,
}

/// Counts by upper bound, as they are kept.
pub(super) struct Spread<'a> {
    /// Upper bounds, ascending.
    pub(super) bounds_us: &'a [u64],
    /// How many fell between each bound and the one before; one more, for what lies beyond the last.
    pub(super) counts: &'a [u64],
    pub(super) sum_seconds: f64,
}

impl Series<'_> {
    /// The one series of a metric without labels.
    pub(super) fn value(&mut self, value: impl Display) {
        self.labelled(&[], value);
    }

    /// One series of several: `names` are the values of the metric's labels.
    pub(super) fn labelled(&mut self, names: &[&dyn Display], value: impl Display) {
        self.sample("", names, None, value);
    }

    /// A series only if its value is known.
    pub(super) fn known(&mut self, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(value);
        }
    }

    /// The buckets, the sum and the count of a histogram.
    pub(super) fn spread(&mut self, names: &[&dyn Display], spread: &Spread<'_>) {
        let Spread { bounds_us, counts, sum_seconds } = spread;
        debug_assert_eq!(bounds_us.len() + 1, counts.len(), "{}: a count for each bucket", self.metric.name);
        let mut up_to = 0;
        for (bound, count) in bounds_us.iter().zip(*counts) {
            up_to += count;
            self.sample("_bucket", names, Some(&Bound(*bound)), up_to);
        }
        up_to += counts.last().copied().unwrap_or_default();
        self.sample("_bucket", names, Some(&"+Inf"), up_to);
        self.sample("_sum", names, None, sum_seconds);
        self.sample("_count", names, None, up_to);
    }

    fn sample(
        &mut self,
        suffix: &str,
        names: &[&dyn Display],
        bound: Option<&dyn Display>,
        value: impl Display,
    ) {
        let Metric { name, labels, .. } = self.metric;
        debug_assert_eq!(labels.len(), names.len(), "{name}: a name for each label");
        // A string takes whatever is written.
        let _ = write!(self.text, "{name}{suffix}");
        let all = labels.iter().copied().zip(names.iter().copied()).chain(bound.map(|bound| ("le", bound)));
        let mut opening = '{';
        for (label, name) in all {
            let _ = write!(self.text, "{opening}{label}=\"{}\"", Escaped(name));
            opening = ',';
        }
        if opening == ',' {
            self.text.push('}');
        }
        line(self.text, format_args!(" {value}"));
    }
}

/// A bound in seconds, from microseconds, as OpenMetrics wants it: `1.0`, `0.0005`, `5e-05`.
pub(super) struct Bound(pub(super) u64);

impl Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        canonical(self.0 as f64 / 1e6, formatter)
    }
}

/// Writes a positive number in the one way that OpenMetrics knows for it.
fn canonical(number: f64, out: &mut impl Write) -> fmt::Result {
    if number > 0.0 && number < 1e-4 {
        let written = format!("{number:e}");
        let (digits, power) = written.split_once("e-").unwrap_or((&written, "0"));
        return write!(out, "{digits}e-{power:0>2}");
    }
    if number >= 1e6 {
        let written = format!("{number:e}");
        let (digits, power) = written.split_once('e').unwrap_or((&written, "0"));
        return write!(out, "{digits}e+{power:0>2}");
    }
    write!(out, "{number:?}")
}

/// A bound that somebody else wrote, in the way OpenMetrics wants it.
pub(super) fn canonical_bound(bound: &str) -> String {
    let mut written = String::new();
    match bound.parse::<f64>() {
        Ok(number) if number.is_finite() => {
            // A string takes whatever is written.
            let _ = canonical(number, &mut written);
            written
        }
        _ => bound.to_owned(),
    }
}

/// A label's value as it is written: the three characters that would end it are escaped.
struct Escaped<'a>(&'a dyn Display);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(formatter), "{}", self.0)
    }
}

struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| match letter {
            '\\' => self.0.write_str("\\\\"),
            '"' => self.0.write_str("\\\""),
            '\n' => self.0.write_str("\\n"),
            letter => self.0.write_char(letter),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_in_the_one_way_that_open_metrics_knows() {
        let bounds = [1, 10, 25, 100, 500, 1_000, 2_500_000, 1_000_000, 100_000_000, 1_000_000_000_000];
        let written = bounds.map(|bound| Bound(bound).to_string());
        let expected =
            ["1e-06", "1e-05", "2.5e-05", "0.0001", "0.0005", "0.001", "2.5", "1.0", "100.0", "1e+06"];
        assert_eq!(written, expected);
        assert_eq!(["1", "0.25", "+Inf", "0.00005"].map(canonical_bound), ["1.0", "0.25", "+Inf", "5e-05"]);
    }

    #[test]
    fn a_label_holds_any_text() {
        assert_eq!(Escaped(&"a \"b\" \\ c\nd").to_string(), "a \\\"b\\\" \\\\ c\\nd");
    }

    #[test]
    fn only_open_metrics_describes_a_counter_without_its_ending() {
        assert_eq!(Format::OpenMetrics.family("a_total"), "a");
        assert_eq!(Format::OpenMetrics.family("a_seconds"), "a_seconds");
        assert_eq!(Format::Prometheus.family("a_total"), "a_total");
    }
}
