//! What a configuration file says, whichever way it is written.
//!
//! Both parsers go on after a mistake and put it among the findings, so that one look shows them all. What
//! could be read is here, each value with its place.

use super::finding::{Finding, Place, Places, Source};
use super::named::NAME;
use super::table::Setting;
use super::value::{Raw, Value};
use super::{key_value, toml_file};
use crate::nearest::shown;

/// The largest file that is read: some thousand handlers.
pub const FILE_BYTES_MAX: usize = 256 << 10;

/// The prefix that the specification puts before the names of handlers.
const PREFIX: &str = "handler_";

/// A value that somebody gave to a setting.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) setting: &'static Setting,
    pub(super) value: Value,
    pub(super) source: Source,
}

/// A table `[handler.NAME]`, `[region.NAME]` or `[schedule.NAME]`.
#[derive(Debug)]
pub(super) struct NamedTable {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) values: Vec<Given>,
}

/// Which handler an opcode calls.
#[derive(Debug)]
pub(super) struct OpcodeLine {
    pub(super) opcode: u32,
    pub(super) handler: String,
    pub(super) source: Source,
}

/// All that a file says.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) values: Vec<Given>,
    pub(super) handlers: Vec<NamedTable>,
    pub(super) regions: Vec<NamedTable>,
    pub(super) schedules: Vec<NamedTable>,
    pub(super) opcodes: Vec<OpcodeLine>,
    pub(super) findings: Vec<Finding>,
}

impl Document {
    /// Reads a file: TOML if its name ends like that, else the specification's lines of `key=value`.
    pub(super) fn parse(file: &str, bytes: &[u8]) -> Self {
        let mut document = Self::default();
        let start = Place { file: file.to_owned(), line: 1, column: 1 };
        if bytes.len() > FILE_BYTES_MAX {
            let message = format!(
                "expected a file of {FILE_BYTES_MAX} bytes at most, got {}; is it the right one?",
                bytes.len()
            );
            document.error(start, message);
            return document;
        }
        match str::from_utf8(bytes) {
            Ok(text) => {
                // Some editors of Windows put a mark before the first letter.
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                match file.ends_with(".toml") {
                    true => toml_file::parse(&mut document, file, text),
                    false => key_value::parse(&mut document, file, text),
                }
            }
            Err(wrong) => {
                let readable = String::from_utf8_lossy(&bytes[..wrong.valid_up_to()]);
                let place = Places::new(file, &readable).at(wrong.valid_up_to());
                let byte = bytes[wrong.valid_up_to()];
                let message =
                    format!("expected UTF-8 text, got the byte {byte:#04x}; save the file as UTF-8");
                document.error(place, message);
            }
        }
        document
    }

    pub(super) fn error(&mut self, place: Place, message: impl Into<String>) {
        self.findings.push(Finding::error(Source::File(place), message));
    }

    /// Takes in which handler an opcode calls. The specification's file writes its prefix before the names.
    pub(super) fn take_opcode(
        &mut self,
        key: &str,
        handler: &Raw,
        is_specified: bool,
        key_place: Place,
        value_place: Place,
    ) {
        let opcode = key.parse::<u32>().ok().filter(|_| key.bytes().all(|byte| byte.is_ascii_digit()));
        let stripped = match handler {
            Raw::Untyped(name) if is_specified => Raw::Untyped(name.strip_prefix(PREFIX).unwrap_or(name)),
            other => other.clone(),
        };
        match (opcode, NAME.read(&stripped)) {
            (Some(0), Ok(Value::Text(name))) if is_specified && name == "updater" => {
                let message = "opcode 0 is left out: millpond keeps its queues without an updater task";
                self.findings.push(Finding::note(Source::File(key_place), message));
            }
            (Some(0), _) => {
                self.error(
                    key_place,
                    "expected an opcode from 1 to 4294967295, got 0, which is reserved; choose another",
                );
            }
            (None, _) => {
                let got = shown(key);
                self.error(
                    key_place,
                    format!("expected an opcode from 1 to 4294967295, got {got}; choose another"),
                );
            }
            (Some(_), Err((got, _))) => {
                self.error(value_place, format!("opcode {key}: expected the name of a handler, got {got}"));
            }
            (Some(opcode), Ok(name)) => {
                let Value::Text(handler) = name else { unreachable!("a name is a text") };
                // `007` is `7`: TOML and the lines below tell keys apart by their letters only.
                if let Some(other) = self.opcodes.iter().find(|line| line.opcode == opcode) {
                    let message = format!("opcode {opcode} is already given at {}; keep one", other.source);
                    return self.error(key_place, message);
                }
                self.opcodes.push(OpcodeLine { opcode, handler, source: Source::File(key_place) });
            }
        }
    }
}
