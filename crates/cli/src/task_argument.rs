//! A task's id on the command line: a number, a name, or either as JSON writes it.
//!
//! `17` is the number and `"17"` the text, which are two different ids; a shell needs quotes around the
//! latter.

use millpond_tasks::TaskId;

/// Reads an id.
pub(crate) fn parse(text: &str) -> Result<TaskId, String> {
    TaskId::parse(text)
        .ok_or_else(|| "expected a number, or a text of 1 to 128 bytes without control characters".to_owned())
}
