//! `millpond.toml`: all settings by their names, `[handler.NAME]` for handlers, `[opcodes]` for their
//! numbers, `[region.NAME]` for memory regions, `[schedule.NAME]` for what the clock asks for.
//!
//! The parser of the crate `toml` goes on after a mistake in the syntax and says where every key and value
//! stands. After such a mistake the rest of the line may look like something else than was meant, so nothing
//! more is said about that line.
//!
//! Not here: what a value may be (`value.rs`).

use super::document::{Document, Given, NamedTable};
use super::finding::{Place, Places, Source};
use super::named::{HANDLER_SETTINGS, NAME, REGION_SETTINGS};
use super::schedule::SCHEDULE_SETTINGS;
use super::table::{SETTINGS, Setting};
use super::value::Raw;
use crate::nearest::{did_you_mean, shown};
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const HANDLER: &str = "handler";
const REGION: &str = "region";
const SCHEDULE: &str = "schedule";
const OPCODES: &str = "opcodes";

pub(super) fn parse(document: &mut Document, file: &str, text: &str) {
    let (root, mistakes) = DeTable::parse_recoverable(text);
    let mut walk = Walk { document: Document::default(), places: Places::new(file, text) };
    walk.root(root.get_ref());
    let mut said = walk.document;
    let mut lines_broken = BTreeSet::new();
    for mistake in mistakes {
        let place = walk.places.at(mistake.span().map_or(0, |span| span.start));
        // One slip may upset the parser several times.
        if lines_broken.insert(place.line) {
            // Where the parser has nothing to suggest it says so, which helps nobody.
            let message = mistake.message().trim_end_matches(", expected nothing").replace('\n', "; ");
            document.error(place, format!("the file is not TOML here: {message}"));
        }
    }
    let is_whole = |source: &Source| !matches!(source, Source::File(at) if lines_broken.contains(&at.line));
    said.findings.retain(|finding| is_whole(&finding.source));
    said.values.retain(|given| is_whole(&given.source));
    said.opcodes.retain(|line| is_whole(&line.source));
    for table in said.handlers.iter_mut().chain(&mut said.regions).chain(&mut said.schedules) {
        table.values.retain(|given| is_whole(&given.source));
    }
    document.findings.append(&mut said.findings);
    document.values = said.values;
    document.handlers = said.handlers;
    document.regions = said.regions;
    document.schedules = said.schedules;
    document.opcodes = said.opcodes;
}

struct Walk<'a> {
    document: Document,
    places: Places<'a>,
}

type Table<'a> = DeTable<'a>;
type Item<'a> = Spanned<DeValue<'a>>;

impl Walk<'_> {
    fn root(&mut self, table: &Table) {
        for (key, item) in readable(table) {
            let name: &str = key.get_ref();
            match item.get_ref() {
                DeValue::Table(entries) if name == HANDLER => self.handlers(entries),
                DeValue::Table(entries) if name == REGION => self.regions(entries),
                DeValue::Table(entries) if name == SCHEDULE => self.schedules(entries),
                DeValue::Table(entries) if name == OPCODES => self.opcodes(entries),
                DeValue::Table(entries) if is_section(name) => self.section(name, entries),
                other if [HANDLER, REGION, SCHEDULE, OPCODES].contains(&name) || is_section(name) => {
                    let suffix = if [HANDLER, REGION, SCHEDULE].contains(&name) { ".NAME" } else { "" };
                    let message = format!(
                        "{name}: expected a table, got {}; write [{name}{suffix}] and its settings below it",
                        raw(other)
                    );
                    self.error(item, message);
                }
                _ => match SETTINGS.iter().find(|setting| setting.name == name && !name.contains('.')) {
                    Some(setting) => self.setting(setting, name, key.span().start, item),
                    None => self.unknown(name, key.span().start, SETTINGS, ""),
                },
            }
        }
    }

    fn section(&mut self, section: &str, table: &Table) {
        for (key, item) in readable(table) {
            let name = format!("{section}.{}", key.get_ref());
            match Setting::by_name(&name) {
                Some(setting) => self.setting(setting, &name, key.span().start, item),
                None => self.unknown(&name, key.span().start, SETTINGS, ""),
            }
        }
    }

    fn opcodes(&mut self, table: &Table) {
        for (key, item) in readable(table) {
            let (key_place, value_place) = (self.place(key.span().start), self.place(item.span().start));
            self.document.take_opcode(key.get_ref(), &raw(item.get_ref()), false, key_place, value_place);
        }
    }

    fn handlers(&mut self, table: &Table) {
        for (name, at, entries) in self.named(HANDLER, table) {
            let is_said = |(key, item): (&Spanned<Cow<str>>, &Item)| match key.get_ref().as_ref() {
                "command" => true,
                "library" => item.get_ref().as_str() != Some("none"),
                _ => false,
            };
            if !entries.iter().any(is_said) {
                let message = format!(
                    "handler.{name}: expected a command or a library, got neither; add command = [\"program\", \
                     \"argument\"]"
                );
                self.error_at(at, message);
            }
            let table = self.named_table(HANDLER, name, at, entries, HANDLER_SETTINGS);
            self.document.handlers.push(table);
        }
    }

    fn regions(&mut self, table: &Table) {
        for (name, at, entries) in self.named(REGION, table) {
            let table = self.named_table(REGION, name, at, entries, REGION_SETTINGS);
            self.document.regions.push(table);
        }
    }

    fn schedules(&mut self, table: &Table) {
        for (name, at, entries) in self.named(SCHEDULE, table) {
            if !entries.contains_key("cron") {
                let message = format!(
                    "schedule.{name}: expected a cron expression, got none; add cron = \"*/5 * * * *\""
                );
                self.error_at(at, message);
            }
            let table = self.named_table(SCHEDULE, name, at, entries, SCHEDULE_SETTINGS);
            self.document.schedules.push(table);
        }
    }

    /// The tables in a table that have a name of their own, each with the byte where that stands.
    fn named<'a>(&mut self, kind: &str, table: &'a Table<'a>) -> Vec<(&'a str, usize, &'a Table<'a>)> {
        let mut tables = Vec::new();
        for (key, item) in readable(table) {
            let name: &str = key.get_ref();
            let at = key.span().start;
            if NAME.read(&Raw::Text(name)).is_err() {
                self.error_at(at, format!("{kind}: expected {NAME}, got {}", shown(name)));
                continue;
            }
            let DeValue::Table(entries) = item.get_ref() else {
                let got = raw(item.get_ref());
                let message = format!(
                    "{kind}.{name}: expected a table, got {got}; write [{kind}.{name}] and its settings \
                     below it"
                );
                self.error(item, message);
                continue;
            };
            tables.push((name, at, entries));
        }
        tables
    }

    fn named_table(
        &mut self,
        kind: &str,
        name: &str,
        at: usize,
        entries: &Table,
        settings: &'static [Setting],
    ) -> NamedTable {
        let values_before = self.document.values.len();
        for (key, item) in readable(entries) {
            let full = format!("{kind}.{name}.{}", key.get_ref());
            match settings.iter().find(|setting| setting.name == key.get_ref()) {
                Some(setting) => self.setting(setting, &full, key.span().start, item),
                None => {
                    self.unknown(key.get_ref(), key.span().start, settings, &format!("{kind}.{name}."));
                }
            }
        }
        let values = self.document.values.split_off(values_before);
        NamedTable { name: name.to_owned(), source: Source::File(self.place(at)), values }
    }

    fn setting(&mut self, setting: &'static Setting, name: &str, at: usize, item: &Item) {
        match setting.read(&raw(item.get_ref())) {
            Ok(value) => {
                let source = Source::File(self.place(at));
                self.document.values.push(Given { setting, value, source });
            }
            Err(wrong) => {
                let byte = wrong.byte.unwrap_or(item.span().start);
                self.error_at(byte, format!("{name}: {}", wrong.message));
            }
        }
    }

    fn unknown(&mut self, name: &str, at: usize, settings: &'static [Setting], within: &str) {
        let names = settings.iter().map(|setting| setting.name);
        let sections = SETTINGS
            .iter()
            .filter_map(|setting| section_of(setting.name))
            .chain([HANDLER, REGION, SCHEDULE, OPCODES]);
        let sections = sections.filter(|_| within.is_empty());
        let otherwise = "docs/configuration.md lists all settings";
        let advice = did_you_mean(name, names.chain(sections), otherwise);
        self.error_at(
            at,
            format!("expected a known setting, got {}; {advice}", shown(&format!("{within}{name}"))),
        );
    }

    fn place(&self, byte: usize) -> Place {
        self.places.at(byte)
    }

    fn error(&mut self, item: &Item, message: String) {
        self.error_at(item.span().start, message);
    }

    fn error_at(&mut self, byte: usize, message: String) {
        let place = self.place(byte);
        self.document.error(place, message);
    }
}

/// All entries but those whose value the parser could not read: there it puts something that stands nowhere,
/// and the mistake in the syntax was already told.
fn readable<'a>(table: &'a Table<'a>) -> impl Iterator<Item = (&'a Spanned<Cow<'a, str>>, &'a Item<'a>)> {
    table.iter().filter(|(_, item)| item.get_ref().is_table() || !item.span().is_empty())
}

fn section_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(section, _)| section)
}

fn is_section(name: &str) -> bool {
    SETTINGS.iter().any(|setting| section_of(setting.name) == Some(name))
}

fn raw<'a>(value: &'a DeValue) -> Raw<'a> {
    match value {
        DeValue::String(text) => Raw::Text(text),
        DeValue::Integer(number) => {
            let decimal = i128::from_str_radix(number.as_str(), number.radix());
            Raw::Number(decimal.map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()))
        }
        DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
        DeValue::Boolean(is_on) => Raw::Switch(*is_on),
        DeValue::Datetime(_) => Raw::Time,
        DeValue::Array(items) => {
            Raw::List(items.iter().map(|item| (raw(item.get_ref()), item.span().start)).collect())
        }
        DeValue::Table(entries) => {
            let entry = |(key, item): (&'a Spanned<_>, &'a Item)| {
                let key: &'a Cow<str> = key.get_ref();
                (key.as_ref(), raw(item.get_ref()), item.span().start)
            };
            Raw::Table(entries.iter().map(entry).collect())
        }
    }
}
