//! What must hold between settings: limits that fit into each other, and handlers that exist.
//!
//! Each value alone is right when it comes here. A mistake is told at the one of the two that was written by
//! hand, and if both were, at the one that speaks later: it is probably the one that was just changed.
//!
//! Not here: what a single value may be (`value.rs`).

use super::finding::{Finding, Source};
use super::library::LIBRARY_COUNTS;
use super::load::{Loaded, LoadedTable};
use super::named::HANDLER_SETTINGS;
use super::table::{SETTINGS, Setting};
use super::value::Value;
use crate::nearest::did_you_mean;
use std::cmp::Ordering;

/// The first must not be more than the second. What limits another comes before it is limited itself.
const AT_MOST: &[(&str, &str)] = &[
    ("workers", "workers_max"),
    ("scaling.workers_max", "workers_max"),
    ("scaling.workers_min", "scaling.workers_max"),
    ("request.string_bytes_max", "request.bytes_max"),
    ("request.args_bytes_max", "request.bytes_max"),
    ("nats.message_bytes_max", "request.bytes_max"),
    ("retry.backoff_min", "retry.backoff_max"),
    ("results.result_bytes_max", "results.bytes_max"),
    ("stream.bytes_max", "results.bytes_max"),
    ("stream.chunk_bytes_max", "stream.bytes_max"),
];

/// The first must fit into the second, too, but has nothing else to do with it: it is the second that gives
/// way.
const FITS_INTO: &[(&str, &str)] = &[("request.bytes_max", "mailbox.bytes_max")];

/// The same as the first list, of each handler.
const BACKOFF: (&str, &str) = ("restart_backoff_min", "restart_backoff_max");

/// Whoever changes one limit need not know all that lies below or above it: defaults shrink or grow to fit.
pub(super) fn fit_defaults(loaded: &mut Loaded) {
    for (less, more) in AT_MOST {
        let ((low, source), (high, _)) = (loaded.get(less), loaded.get(more));
        if *source == Source::Default && compare(low, high) == Some(Ordering::Greater) {
            let fitting = high.clone();
            loaded.set_default(less, fitting);
        }
    }
    for (less, more) in FITS_INTO {
        let ((low, _), (high, source)) = (loaded.get(less), loaded.get(more));
        if *source == Source::Default && compare(low, high) == Some(Ordering::Greater) {
            let fitting = low.clone();
            loaded.set_default(more, fitting);
        }
    }
    for handler in loaded.handlers.values_mut() {
        let ((least, source), (most, _)) = (handler.get(BACKOFF.0), handler.get(BACKOFF.1));
        if *source == Source::Default && compare(least, most) == Some(Ordering::Greater) {
            let fitting = most.clone();
            handler.set_default(BACKOFF.0, fitting);
        }
    }
}

pub(super) fn check(loaded: &Loaded, builtin: &[&str], findings: &mut Vec<Finding>) {
    let is_on = |setting: &Setting| counts(loaded, setting);
    for (less, more) in AT_MOST.iter().chain(FITS_INTO) {
        let both_count = [less, more].into_iter().all(|name| Setting::by_name(name).is_none_or(is_on));
        if both_count {
            at_most(loaded, less, more, findings);
        }
    }
    if loaded.get("scaling.enabled").0 == Value::Switch(true) {
        scaling(loaded, findings);
    }
    without_effect(loaded, findings);
    name_or_directory(loaded, findings);
    handlers(loaded, builtin, findings);
    opcodes(loaded, builtin, findings);
    schedules(loaded, builtin, findings);
}

/// Whether the setting on which another hangs is as it must be.
fn counts(loaded: &Loaded, setting: &Setting) -> bool {
    setting.only_with.is_none_or(|(other, value)| plain(&loaded.get(other).0) == value)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Count(one), Value::Count(other)) | (Value::Bytes(one), Value::Bytes(other)) => {
            Some(one.cmp(other))
        }
        (Value::Span(one), Value::Span(other)) => Some(one.cmp(other)),
        (Value::Fraction(one), Value::Fraction(other)) => one.partial_cmp(other),
        // A word fits everything.
        _ => None,
    }
}

/// How late a layer speaks.
fn rank(source: &Source) -> (u8, usize) {
    match source {
        Source::Default => (0, 0),
        Source::File(place) => (1, place.line),
        Source::Environment { .. } => (2, 0),
        Source::Flag { .. } => (3, 0),
    }
}

fn at_most(loaded: &Loaded, less: &str, more: &str, findings: &mut Vec<Finding>) {
    let ((low, low_source), (high, high_source)) = (loaded.get(less), loaded.get(more));
    if compare(low, high) == Some(Ordering::Greater) {
        findings.push(disagree((less, low, low_source), (more, high, high_source), "at most", "at least"));
    }
}

type Told<'a> = (&'a str, &'a Value, &'a Source);

/// Told at the later of the two; `low_must` and `high_must` say what each would have to be.
fn disagree(low: Told, high: Told, low_must: &str, high_must: &str) -> Finding {
    let (at, must, other, what) = match rank(low.2) > rank(high.2) {
        true => (low, low_must, high, "lower it, or raise the other"),
        false => (high, high_must, low, "raise it, or lower the other"),
    };
    let message = format!(
        "{}: expected {must} {} ({}, from {}), got {}; {what}",
        at.0, other.0, other.1, other.2, at.1
    );
    Finding::error(at.2.clone(), message)
}

fn scaling(loaded: &Loaded, findings: &mut Vec<Finding>) {
    let (down_name, up_name) = ("scaling.scale_down_threshold", "scaling.scale_up_threshold");
    let ((down, down_source), (up, up_source)) = (loaded.get(down_name), loaded.get(up_name));
    if compare(down, up) != Some(Ordering::Less) {
        let low = (down_name, down, down_source);
        findings.push(disagree(low, (up_name, up, up_source), "less than", "more than"));
    }
    let (horizon, source) = loaded.get("scaling.predict_horizon");
    let (sampled, sampled_source) = loaded.get("metrics.sample_every");
    if matches!(horizon, Value::Span(_)) && *sampled == Value::Count(0) {
        let message = format!(
            "scaling.predict_horizon: expected timed tasks to look ahead from, got \
             metrics.sample_every = 0 from {sampled_source}; set that to 1 or more"
        );
        findings.push(Finding::error(source.clone(), message));
    }
}

/// Settings that were changed and do not count, because another is not as it must be.
fn without_effect(loaded: &Loaded, findings: &mut Vec<Finding>) {
    for setting in SETTINGS {
        let (value, source) = loaded.get(setting.name);
        if let Some((other, needed)) = setting.only_with
            && *source != Source::Default
            && *value != setting.default_value()
            && !counts(loaded, setting)
        {
            let (now, now_source) = loaded.get(other);
            let message = format!(
                "{}: it has no effect while {other} is {} ({now_source}); it counts with {needed}",
                setting.name,
                plain(now)
            );
            findings.push(Finding::note(source.clone(), message));
        }
    }
}

/// Whether the daemon was given a name by a later layer than its directory, so that the name counts.
pub(super) fn name_is_later(loaded: &Loaded) -> bool {
    rank(&loaded.get("name").1).0 > rank(&loaded.get("runtime_dir").1).0
}

/// A name says which directory, so whoever gives both should know which of them counts.
fn name_or_directory(loaded: &Loaded, findings: &mut Vec<Finding>) {
    let [name, directory] = ["name", "runtime_dir"].map(|setting| (setting, loaded.get(setting)));
    let is_given = |(_, (value, source)): &(&str, &(Value, Source))| {
        *source != Source::Default && matches!(value, Value::Text(_))
    };
    if is_given(&name) && is_given(&directory) {
        let (idle, counts) = if name_is_later(loaded) { (directory, name) } else { (name, directory) };
        let (other, (value, source)) = counts;
        let message =
            format!("{}: it has no effect while {other} is {value} ({source}); take that out", idle.0);
        findings.push(Finding::note(idle.1.1.clone(), message));
    }
}

/// A handler is a program or a function in a library, and has the settings of one of them.
fn kind_of_handler(name: &str, handler: &LoadedTable, findings: &mut Vec<Finding>) {
    let is_function = handler.library().is_some();
    let (command, command_source) = handler.get("command");
    if is_function && matches!(command, Value::List(words) if !words.is_empty()) {
        let library_source = &handler.get("library").1;
        let later = [command_source, library_source].into_iter().max_by_key(|source| rank(source));
        let message = format!("handler.{name}: expected a command or a library, got both; keep one");
        findings.push(Finding::error(later.unwrap_or(command_source).clone(), message));
        return;
    }
    for setting in HANDLER_SETTINGS {
        let (value, source) = handler.get(setting.name);
        let counts = match setting.name {
            "symbol" => is_function,
            other => !is_function || LIBRARY_COUNTS.contains(&other),
        };
        if !counts && *source != Source::Default && *value != setting.default_value() {
            let (what, with) =
                if is_function { ("a function in a library", "command") } else { ("a program", "library") };
            let message = format!(
                "handler.{name}.{}: it has no effect for {what}; it counts with a {with}",
                setting.name
            );
            findings.push(Finding::note(source.clone(), message));
        }
    }
}

fn handlers(loaded: &Loaded, builtin: &[&str], findings: &mut Vec<Finding>) {
    for (name, handler) in &loaded.handlers {
        if builtin.contains(&name.as_str()) {
            let message =
                format!("handler.{name}: expected a name of its own, got a built-in one; choose another");
            findings.push(Finding::error(handler.source.clone(), message));
        }
        kind_of_handler(name, handler, findings);
        let (least, least_source) = handler.get(BACKOFF.0);
        let (most, most_source) = handler.get(BACKOFF.1);
        if compare(least, most) == Some(Ordering::Greater) {
            let names = [BACKOFF.0, BACKOFF.1].map(|key| format!("handler.{name}.{key}"));
            let (low, high) = ((&*names[0], least, least_source), (&*names[1], most, most_source));
            findings.push(disagree(low, high, "at most", "at least"));
        }
    }
}

fn schedules(loaded: &Loaded, builtin: &[&str], findings: &mut Vec<Finding>) {
    for (name, schedule) in &loaded.schedules {
        let (value, source) = schedule.get("handler");
        let handler = plain(value);
        if builtin.contains(&handler.as_str()) || loaded.handlers.contains_key(&handler) {
            continue;
        }
        let known = builtin.iter().copied().chain(loaded.handlers.keys().map(String::as_str));
        let advice = did_you_mean(&handler, known, &format!("add [handler.{handler}] to millpond.toml"));
        let message =
            format!("schedule.{name}.handler: expected a handler that exists, got {handler:?}; {advice}");
        let source = if *source == Source::Default { &schedule.source } else { source };
        findings.push(Finding::error(source.clone(), message));
    }
}

fn opcodes(loaded: &Loaded, builtin: &[&str], findings: &mut Vec<Finding>) {
    for (opcode, (handler, source)) in &loaded.opcodes {
        if builtin.contains(&handler.as_str()) || loaded.handlers.contains_key(handler) {
            continue;
        }
        let known = builtin.iter().copied().chain(loaded.handlers.keys().map(String::as_str));
        let advice = did_you_mean(handler, known, &format!("add [handler.{handler}] to millpond.toml"));
        let message = format!("opcode {opcode}: expected a handler that exists, got {handler:?}; {advice}");
        findings.push(Finding::error(source.clone(), message));
    }
}
