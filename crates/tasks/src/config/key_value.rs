//! The specification's configuration file: lines of `key=value`, at `config/config`.
//!
//! ```text
//! # a comment has a line of its own
//! thread_count=4
//! 1=handler_http_get
//! ```
//!
//! A key is one of the specification's, a setting's own name (`stealing.size=one`), or an opcode. Spaces
//! around both sides, empty lines, and either end of line are fine. A value is everything after the first
//! `=`, without quotes; items of a list stand between commas. Handlers need `millpond.toml`.

use super::document::{Document, Given};
use super::finding::{Place, Source};
use super::table::{SETTINGS, Setting};
use super::value::Raw;
use crate::nearest::{did_you_mean, shown};

pub(super) fn parse(document: &mut Document, file: &str, text: &str) {
    for (index, line) in text.lines().enumerate() {
        let place = |part: &str| {
            // `part` is a piece of `line`, so this is where it begins.
            let before = part.as_ptr().addr() - line.as_ptr().addr();
            Place { file: file.to_owned(), line: index + 1, column: line[..before].chars().count() + 1 }
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            let got = shown(line);
            document.error(place(line), format!("expected key=value, got {got}; put = after the key"));
            continue;
        };
        take(document, (key.trim_end(), place(key)), (value.trim_start(), place(value.trim_start())));
    }
}

/// Takes in one line.
fn take(document: &mut Document, (key, key_place): (&str, Place), (value, value_place): (&str, Place)) {
    if key.is_empty() {
        return document.error(key_place, "expected a key before =, got none; write key=value");
    }
    if key.bytes().all(|byte| byte.is_ascii_digit()) {
        return document.take_opcode(key, &Raw::Untyped(value), true, key_place, value_place);
    }
    let is_it = |setting: &&Setting| setting.specified == Some(key) || setting.name == key;
    let Some(setting) = SETTINGS.iter().find(is_it) else {
        let known = SETTINGS.iter().flat_map(|setting| setting.specified.into_iter().chain([setting.name]));
        let otherwise = "docs/configuration.md lists all settings";
        let advice = did_you_mean(key, known, otherwise);
        return document.error(key_place, format!("expected a known key, got {}; {advice}", shown(key)));
    };
    if let Some(other) = document.values.iter().find(|given| given.setting.name == setting.name) {
        let message = format!("{key} is already given at {}; keep one", other.source);
        return document.error(key_place, message);
    }
    match setting.read(&Raw::Untyped(value)) {
        Ok(value) => document.values.push(Given { setting, value, source: Source::File(key_place) }),
        Err(wrong) => document.error(value_place, format!("{key}: {}", wrong.message)),
    }
}
