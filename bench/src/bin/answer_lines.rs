//! A command handler that echoes: a line comes with a task, a line goes with its arguments as the result.
//!
//! The row `millpond command` of the group `tasks-socket` lets the daemon feed two of these. It reads every
//! line as JSON and writes every answer at once, as a handler in any language would.
//!
//! Not here: what a daemon says in such a line (`docs/handlers.md`).

use serde_json::{Value, json};
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    answer(io::stdin().lock(), io::stdout())
}

/// Answers every line, until the other side closes.
fn answer(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.lines() {
        let mut request: Value = serde_json::from_str(&line?)?;
        let result = json!({ "result": request["args"].take() });
        // One write for one line: whoever waits for it is woken once.
        output.write_all(format!("{result}\n").as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_answered_with_its_arguments() {
        let mut answers = Vec::new();
        let lines = "{\"task_id\":\"t1\",\"args\":{\"a\":1}}\n{\"args\":{\"b\":[2,3]}}\n";
        answer(lines.as_bytes(), &mut answers).unwrap();
        assert_eq!(answers, b"{\"result\":{\"a\":1}}\n{\"result\":{\"b\":[2,3]}}\n");
        assert!(answer("no JSON\n".as_bytes(), &mut answers).is_err());
    }
}
