//! The handlers that millpond brings along: memory, files, HTTP, and two to try things with.
//!
//! Files and network are closed: a handler reaches nothing that `allow.files` or `allow.hosts` does not name,
//! and what it reads is bounded. Arguments are read strictly, and every refusal says which argument, what was
//! expected and what came.
//!
//! Not here: handlers in other languages (`command.rs`), and under which opcodes all of these are called.

mod arguments;
mod content;
mod echo;
mod files;
mod http;
mod memory;
mod sleep;

use crate::config::BuiltinSettings;
use crate::error::{ErrorCode, TaskFailure};
use crate::handler::{About, Handler};
use crate::timer::Timer;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;

/// The most that one answer of `read_memory` holds. A larger region is read in parts.
const MEMORY_BYTES_MAX: usize = 16 << 20;

/// The names of all built-in handlers.
pub const BUILTIN_NAMES: &[&str] =
    &["echo", "sleep", "read_memory", "write_memory", "file_read", "file_write", "http_get", "http_post"];

/// All built-in handlers with their names. `timer` is where `sleep` waits.
pub fn builtins(settings: &BuiltinSettings, timer: &Timer) -> Vec<(&'static str, Box<dyn Handler>)> {
    let files: Arc<[_]> = settings.allow.files.clone().into();
    let files_bytes_max = settings.files_bytes_max;
    let client = Arc::new(http::Client::new(settings));
    vec![
        ("echo", Box::new(echo::Echo)),
        ("sleep", Box::new(sleep::Sleep { timer: timer.clone() })),
        ("read_memory", Box::new(memory::ReadMemory { bytes_max: MEMORY_BYTES_MAX })),
        ("write_memory", Box::new(memory::WriteMemory)),
        ("file_read", Box::new(files::FileRead { allowed: Arc::clone(&files), bytes_max: files_bytes_max })),
        ("file_write", Box::new(files::FileWrite { allowed: files, bytes_max: files_bytes_max })),
        ("http_get", Box::new(http::HttpGet(Arc::clone(&client)))),
        ("http_post", Box::new(http::HttpPost(client))),
    ]
}

/// What a handler says of itself.
fn about(summary: &'static str, example: &str) -> About {
    let example =
        RawValue::from_string(example.to_owned()).expect("the examples below are JSON, as a test sees");
    About { summary: summary.into(), example: Some(example) }
}

/// What a handler answers, as JSON. No handler answers with anything that is not.
fn answer(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("strings, numbers and maps with names are JSON")
}

/// More than a limit allows.
fn too_large(what: &str, bytes_max: u64, advice: &str) -> TaskFailure {
    TaskFailure::new(ErrorCode::TooLarge, format!("{what}, and at most {bytes_max} are allowed; {advice}"))
}

/// Room for so many bytes. A stranger chooses how many, so a lack of memory is an answer and no crash.
fn buffer_for(length: usize) -> Result<Vec<u8>, TaskFailure> {
    let mut bytes = Vec::new();
    let message =
        |_| TaskFailure::new(ErrorCode::OutOfMemory, format!("there is no memory for {length} bytes"));
    bytes.try_reserve_exact(length).map_err(message)?;
    Ok(bytes)
}

/// So many bytes, all zero.
fn buffer(length: usize) -> Result<Vec<u8>, TaskFailure> {
    let mut bytes = buffer_for(length)?;
    bytes.resize(length, 0);
    Ok(bytes)
}
