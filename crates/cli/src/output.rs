//! Writing to the terminal, the pipe, or wherever it goes, without ever panicking over it.
//!
//! The macros of the standard library panic when a pipe is closed, as `| head` does. Here that is an ordinary end.

use crate::failure::Failure;
use std::io::{self, ErrorKind, Write};

/// Writes what was asked for to standard output.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Failed(format!("standard output: cannot be written: {error}")),
    })
}

/// Says something beside the output, on standard error. If nobody hears it, so be it.
pub(crate) fn note(kind: &str, message: &str) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {message}");
}
