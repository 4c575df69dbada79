//! The layers: defaults, then the file, the environment, the flags. The last one that speaks wins.
//!
//! A layer that says something impossible is reported and passed over, so that the effective values can be
//! shown even beside mistakes. An empty variable of the environment counts as not set, as compositors of
//! containers leave them.
//!
//! Not here: relations between settings (`check.rs`), what the parts of the program are given (`typed.rs`).

use super::check;
use super::document::{Document, Given, NamedTable};
use super::finding::{Finding, Place, Severity, Source};
use super::named::{HANDLER_SETTINGS, REGION_SETTINGS};
use super::nats::without_password;
use super::schedule::SCHEDULE_SETTINGS;
use super::table::{SETTINGS, Setting, VARIABLE_PREFIX as PREFIX};
use super::value::{Kind, Raw, Value};
use crate::nearest::{did_you_mean, nearest, shown};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// A configuration file that was read.
#[derive(Clone, Copy, Debug)]
pub struct ConfigFile<'a> {
    /// What messages call it. If it ends in `.toml` it is TOML, else the specification's lines of
    /// `key=value`.
    pub name: &'a str,
    /// What is in it: [`FILE_BYTES_MAX`](super::FILE_BYTES_MAX) at most.
    pub bytes: &'a [u8],
}

/// Everything that has a say in the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfigSources<'a> {
    /// The file, if there is one.
    pub file: Option<ConfigFile<'a>>,
    /// The environment, as [`std::env::vars_os`] gives it; only names that begin with `MILLPOND_` count.
    pub environment: &'a [(OsString, OsString)],
    /// Flags with their values: `("--workers", "4")`.
    pub flags: &'a [(String, String)],
    /// Names of the handlers that are built in.
    pub handlers: &'a [&'a str],
}

/// The effective configuration, and all that is to be said about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Of all [`SETTINGS`], in their order.
    values: Vec<(Value, Source)>,
    pub(super) handlers: BTreeMap<String, LoadedTable>,
    pub(super) regions: BTreeMap<String, LoadedTable>,
    pub(super) schedules: BTreeMap<String, LoadedTable>,
    pub(super) opcodes: BTreeMap<u32, (String, Source)>,
    findings: Vec<Finding>,
}

/// One `[handler.NAME]`, `[region.NAME]` or `[schedule.NAME]`.
#[derive(Clone, Debug)]
pub(super) struct LoadedTable {
    pub(super) source: Source,
    /// [`HANDLER_SETTINGS`], [`REGION_SETTINGS`] or [`SCHEDULE_SETTINGS`].
    settings: &'static [Setting],
    /// Of all those, in their order.
    values: Vec<(Value, Source)>,
}

/// One line of `millpond config`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The setting: `stealing.size`, `handler.NAME.timeout`, `region.NAME.bytes`, `schedule.NAME.cron`,
    /// `opcodes.7`.
    pub name: String,
    /// What it is.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

/// Puts all layers together and checks them.
pub fn load(sources: &ConfigSources) -> Loaded {
    let document = sources.file.map_or_else(Document::default, |file| Document::parse(file.name, file.bytes));
    let mut findings = document.findings;
    let mut values = defaults(SETTINGS);
    overlay(&mut values, SETTINGS, document.values);
    overlay(&mut values, SETTINGS, environment(sources.environment, &mut findings));
    overlay(&mut values, SETTINGS, flags(sources.flags, &mut findings));
    let named = |tables: Vec<NamedTable>, settings: &'static [Setting]| {
        let named = |table: NamedTable| {
            let mut values = defaults(settings);
            overlay(&mut values, settings, table.values);
            (table.name, LoadedTable { source: table.source, settings, values })
        };
        tables.into_iter().map(named).collect()
    };
    let handlers = named(document.handlers, HANDLER_SETTINGS);
    let regions = named(document.regions, REGION_SETTINGS);
    let schedules = named(document.schedules, SCHEDULE_SETTINGS);
    let opcodes =
        document.opcodes.into_iter().map(|line| (line.opcode, (line.handler, line.source))).collect();
    let mut loaded = Loaded { values, handlers, regions, schedules, opcodes, findings: Vec::new() };
    check::fit_defaults(&mut loaded);
    check::check(&loaded, sources.handlers, &mut findings);
    // Mistakes in the file come first, from its beginning to its end.
    findings.sort_by_key(|finding| match &finding.source {
        Source::File(Place { line, column, .. }) => (*line, *column),
        _ => (usize::MAX, usize::MAX),
    });
    loaded.findings = findings;
    loaded
}

fn defaults(settings: &[Setting]) -> Vec<(Value, Source)> {
    settings.iter().map(|setting| (setting.default_value(), Source::Default)).collect()
}

fn overlay(values: &mut [(Value, Source)], settings: &[Setting], layer: Vec<Given>) {
    for given in layer {
        values[index_of(settings, given.setting.name)] = (given.value, given.source);
    }
}

fn index_of(settings: &[Setting], name: &str) -> usize {
    let found = settings.iter().position(|setting| setting.name == name);
    found.unwrap_or_else(|| panic!("{name} is asked for and not in the table of settings"))
}

fn environment(variables: &[(OsString, OsString)], findings: &mut Vec<Finding>) -> Vec<Given> {
    let mut layer = Vec::new();
    for (name, text) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if text.is_empty() {
            continue;
        }
        let source = Source::Environment { name: name.to_owned() };
        let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == name) else {
            // Other programs may have variables of that prefix, so only a likely slip is worth a word.
            let known: Vec<_> = SETTINGS.iter().map(Setting::variable).collect();
            let known = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
            if let Some(near) = nearest(rest, known) {
                let message = format!("no setting has this variable; did you mean {PREFIX}{near}?");
                findings.push(Finding::note(source, message));
            }
            continue;
        };
        let Some(text) = text.to_str() else {
            findings.push(Finding::error(
                source,
                format!("expected {}, got what is not UTF-8", setting.expected()),
            ));
            continue;
        };
        take(setting, text, source, &mut layer, findings);
    }
    layer
}

fn flags(flags: &[(String, String)], findings: &mut Vec<Finding>) -> Vec<Given> {
    let mut layer = Vec::new();
    let mut seen = BTreeSet::new();
    for (flag, text) in flags {
        let source = Source::Flag { name: flag.clone() };
        let Some(setting) = SETTINGS.iter().find(|setting| setting.flag() == *flag) else {
            let known: Vec<_> = SETTINGS.iter().map(Setting::flag).collect();
            let advice = did_you_mean(
                flag,
                known.iter().map(String::as_str),
                "docs/configuration.md lists all settings",
            );
            findings.push(Finding::error(
                source,
                format!("expected a known flag, got {}; {advice}", shown(flag)),
            ));
            continue;
        };
        if !seen.insert(flag) {
            findings.push(Finding::error(source, "it is given twice; keep one"));
            continue;
        }
        take(setting, text, source, &mut layer, findings);
    }
    layer
}

fn take(
    setting: &'static Setting,
    text: &str,
    source: Source,
    layer: &mut Vec<Given>,
    findings: &mut Vec<Finding>,
) {
    match setting.read(&Raw::Untyped(text.trim())) {
        Ok(value) => layer.push(Given { setting, value, source }),
        Err(wrong) => findings.push(Finding::error(source, wrong.message)),
    }
}

impl Loaded {
    /// All that is to be said, mistakes in the file first: for `millpond check`.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether anything is wrong, so that nothing may start.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Every effective value and where it came from: for `millpond config`.
    pub fn listing(&self) -> Vec<Row> {
        let row = |name: String, (value, source): &(Value, Source)| Row {
            name,
            value: value.clone(),
            source: source.clone(),
        };
        let shown = |(setting, value): (&Setting, &(Value, Source))| match (setting.kind, value) {
            // Whoever may see what is set may not see every password.
            (Kind::NatsUrl, (Value::Text(url), source)) => {
                row(setting.name.to_owned(), &(Value::Text(without_password(url)), source.clone()))
            }
            _ => row(setting.name.to_owned(), value),
        };
        let mut rows: Vec<_> = SETTINGS.iter().zip(&self.values).map(shown).collect();
        let named = [("handler", &self.handlers), ("region", &self.regions), ("schedule", &self.schedules)];
        for (kind, tables) in named {
            for (name, table) in tables {
                for (setting, value) in table.settings.iter().zip(&table.values) {
                    rows.push(row(format!("{kind}.{name}.{}", setting.name), value));
                }
            }
        }
        for (opcode, (handler, source)) in &self.opcodes {
            rows.push(row(format!("opcodes.{opcode}"), &(Value::Text(handler.clone()), source.clone())));
        }
        rows
    }

    /// The value of a setting that is in the table, and its source.
    pub(super) fn get(&self, name: &str) -> &(Value, Source) {
        &self.values[index_of(SETTINGS, name)]
    }

    /// Replaces the default of a setting that is in the table.
    pub(super) fn set_default(&mut self, name: &str, value: Value) {
        self.values[index_of(SETTINGS, name)] = (value, Source::Default);
    }
}

impl LoadedTable {
    pub(super) fn get(&self, name: &str) -> &(Value, Source) {
        &self.values[index_of(self.settings, name)]
    }

    /// Replaces the default of one of its settings.
    pub(super) fn set_default(&mut self, name: &str, value: Value) {
        self.values[index_of(self.settings, name)] = (value, Source::Default);
    }
}
