//! The pages that are made from tables: `docs/configuration.md`, `examples/config/millpond.toml` and `docs/errors.md`.
//!
//! Nobody keeps a page of ninety settings true by hand. With `MILLPOND_WRITE_PAGES=1` these tests write the
//! pages, and `cargo xtask gen` runs them so; without, they fail if one is stale.

use super::value::Value;
use super::{
    ConfigFile, ConfigSources, HANDLER_SETTINGS, REGION_SETTINGS, Row, SCHEDULE_SETTINGS, SETTINGS, Setting,
    Source, load,
};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

const BUILTIN: &[&str] =
    &["http_get", "http_post", "write_memory", "read_memory", "file_read", "file_write", "echo", "sleep"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Writes a page if that was asked for, and sees that it is as it should be.
fn keep(name: &str, wanted: &str) {
    if std::env::var_os("MILLPOND_WRITE_PAGES").is_some() {
        std::fs::write(path(name), wanted).unwrap();
    }
    let found = std::fs::read_to_string(path(name)).unwrap_or_default();
    assert!(found == wanted, "{name} is not what its table says; run `cargo xtask gen`");
}

fn rows(settings: &[Setting], with_flags: bool) -> String {
    let mut table =
        String::from("| setting | may be | default | read by | what it does |\n|---|---|---|---|---|\n");
    for setting in settings {
        let default = setting.default_value().to_string();
        let default = match setting.name {
            "command" => "this or `library`",
            "cron" => "must be said",
            _ => &format!("`{default}`"),
        };
        let mut about = setting.about.to_owned();
        if let Some((word, meaning)) = setting.word {
            write!(about, " `{word}`: {meaning}.").unwrap();
        }
        if let Some((other, value)) = setting.only_with {
            write!(about, " Counts with `{other}` = {value}.").unwrap();
        }
        if let (Some(key), true) = (setting.specified, with_flags) {
            write!(about, " In `config/config`: `{key}`.").unwrap();
        }
        let (name, expected, reader) = (setting.name, setting.expected(), setting.reader);
        writeln!(table, "| `{name}` | {expected} | {default} | {reader} | {about} |").unwrap();
    }
    table
}

/// The page with its tables made anew.
fn page(old: &str) -> String {
    let mut page = old.to_owned();
    let tables = [
        ("settings", rows(SETTINGS, true)),
        ("handler", rows(HANDLER_SETTINGS, false)),
        ("region", rows(REGION_SETTINGS, false)),
        ("schedule", rows(SCHEDULE_SETTINGS, false)),
    ];
    for (name, table) in tables {
        let (begin, end) = (format!("<!-- table: {name} -->\n"), format!("<!-- end: {name} -->\n"));
        let (before, rest) = page.split_once(&begin).expect("the page has the mark where the table begins");
        let (_, after) = rest.split_once(&end).expect("the page has the mark where the table ends");
        page = format!("{before}{begin}{table}{end}{after}");
    }
    page
}

/// Every setting at its default, and what else there is, switched off.
fn example() -> String {
    let mut text = String::from(
        "# Every setting of millpond, at its default: a file that changes nothing.\n\
         # Copy what you want to change.\n\
         # Sizes: 4096, \"64 KiB\", \"1 MiB\". Durations: \"20us\", \"5 s\", \"1m30s\".\n\
         # docs/configuration.md says more.\n",
    );
    let mut section = "";
    for setting in SETTINGS {
        let (of, key) = setting.name.split_once('.').unwrap_or(("", setting.name));
        if of != section {
            write!(text, "\n[{of}]").unwrap();
            section = of;
        }
        let word = setting.word.map_or(String::new(), |(word, meaning)| format!(" \"{word}\": {meaning}."));
        write!(
            text,
            "\n# {}{word}\n# {}\n{key} = {}\n",
            setting.about,
            sentence(setting),
            setting.default_value()
        )
        .unwrap();
    }
    text += "\n# A handler of your own, in any language.\n\
             # Take away the single # to switch it on.\n#[handler.thumbnail]\n";
    for setting in HANDLER_SETTINGS {
        let value = match setting.name {
            "command" => Value::List(vec!["python3".to_owned(), "thumbnail.py".to_owned()]),
            _ => setting.default_value(),
        };
        writeln!(text, "# {}\n#{} = {value}", setting.about, setting.name).unwrap();
    }
    text += "\n# Memory that tasks share, for `read_memory` and `write_memory`.\n#[region.orders]\n";
    for setting in REGION_SETTINGS {
        writeln!(text, "# {}\n#{} = {}", setting.about, setting.name, setting.default_value()).unwrap();
    }
    text += "\n# What the clock asks for.\n#[schedule.nightly]\n";
    for setting in SCHEDULE_SETTINGS {
        let value = match setting.name {
            "cron" => Value::Text("0 3 * * *".to_owned()),
            _ => setting.default_value(),
        };
        writeln!(text, "# {}\n#{} = {value}", setting.about, setting.name).unwrap();
    }
    text += "\n# Which handler a number calls, for those who ask by number.\n#[opcodes]\n#1 = \"http_get\"\n\
             #100 = \"thumbnail\"\n";
    text
}

fn sentence(setting: &Setting) -> String {
    let expected = setting.expected();
    format!("{}{}.", expected[..1].to_uppercase(), &expected[1..])
}

/// What is effective, and what was said, with this text as the file.
fn effective(name: &str, text: &str) -> (Vec<Row>, Vec<String>) {
    let file = Some(ConfigFile { name, bytes: text.as_bytes() });
    let loaded = load(&ConfigSources { file, handlers: BUILTIN, ..ConfigSources::default() });
    (loaded.listing(), loaded.findings().iter().map(ToString::to_string).collect())
}

#[test]
fn the_page_lists_every_setting() {
    let old = std::fs::read_to_string(path("docs/configuration.md")).expect("docs/configuration.md is there");
    keep("docs/configuration.md", &page(&old));
}

#[test]
fn the_page_of_errors_lists_every_code() {
    keep("docs/errors.md", &crate::error::markdown());
}

/// The first block of the page that is marked with this language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("the page has such a block");
    rest.split_once("```").expect("the block ends").0
}

#[test]
fn the_examples_of_the_page_are_true() {
    let page =
        std::fs::read_to_string(path("docs/configuration.md")).expect("docs/configuration.md is there");
    assert_eq!(effective("millpond.toml", block(&page, "toml")).1, [""; 0]);
    let file = ConfigFile { name: "millpond.toml", bytes: b"\n\nwrokers = 4\n\n\n\nspin = 20\n" };
    let environment = [(OsString::from("MILLPOND_PIN"), OsString::from("maybe"))];
    let sources = ConfigSources { file: Some(file), environment: &environment, ..ConfigSources::default() };
    let said: String = load(&sources).findings().iter().map(|finding| format!("{finding}\n")).collect();
    assert_eq!(block(&page, "text"), said);
}

#[test]
fn the_example_holds_every_setting_at_its_default() {
    let text = example();
    keep("examples/config/millpond.toml", &text);
    let (rows, said) = effective("millpond.toml", &text);
    assert_eq!(said, [""; 0]);
    assert_eq!(rows.len(), SETTINGS.len());
    for (row, setting) in rows.iter().zip(SETTINGS) {
        assert!(matches!(row.source, Source::File(_)), "{} is not in the file", row.name);
        assert_eq!(row.value, setting.default_value(), "{}", row.name);
    }
}

#[test]
fn what_the_example_switches_off_works_when_switched_on() {
    let switched_on: String = example()
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let (rows, said) = effective("millpond.toml", &switched_on);
    assert_eq!(said, [""; 0]);
    let named = HANDLER_SETTINGS.len() + REGION_SETTINGS.len() + SCHEDULE_SETTINGS.len();
    assert_eq!(rows.len(), SETTINGS.len() + named + 2);
}

#[test]
fn the_file_of_the_specification_is_read_as_it_is() {
    let text = std::fs::read_to_string(path("examples/config/config")).expect("the example is there");
    let (rows, said) = effective("config/config", &text);
    let line = text.lines().position(|line| line == "0=handler_updater").expect("it has an updater") + 1;
    let note = "opcode 0 is left out: millpond keeps its queues without an updater task";
    assert_eq!(said, [format!("config/config:{line}:1: note: {note}")]);
    let set: Vec<_> = rows
        .iter()
        .filter(|row| row.source != Source::Default)
        .map(|row| format!("{}={}", row.name, row.value))
        .collect();
    assert_eq!(
        set,
        [
            "workers=4",
            "queue_capacity=256",
            "results.max=128",
            "opcodes.1=\"http_get\"",
            "opcodes.2=\"http_post\"",
            "opcodes.3=\"write_memory\"",
            "opcodes.4=\"read_memory\"",
            "opcodes.5=\"file_read\"",
            "opcodes.6=\"file_write\"",
        ]
    );
}

#[test]
fn every_name_flag_and_variable_is_there_once() {
    let mut names: Vec<_> = SETTINGS
        .iter()
        .flat_map(|setting| [setting.name.to_owned(), setting.flag(), setting.variable()])
        .chain(SETTINGS.iter().filter_map(|setting| setting.specified.map(str::to_owned)))
        .collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    // TOML has no way back from a section, so what is in none comes first, and no section comes twice.
    let mut sections: Vec<_> = SETTINGS
        .iter()
        .map(|setting| setting.name.split_once('.').map_or("", |(section, _)| section))
        .collect();
    sections.dedup();
    let in_a_row = sections.len();
    assert_eq!(sections[0], "");
    sections.sort_unstable();
    sections.dedup();
    assert_eq!(sections.len(), in_a_row);
}
