//! Every example of every crate, built and run: it must end well within its time.
//!
//! Examples are programs a user would really run, so they are run as users run them, but for one variable that
//! asks them to be short, and without optimisation: what they stand on was built so for the tests. The executables
//! are run themselves and not through cargo, so that the one that is too slow is the one that is stopped.
//!
//! Not here: examples inside documentation; those are doc tests.

use super::Verdict;
use crate::process;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

struct Example {
    name: String,
    executable: PathBuf,
}

pub(super) fn run(root: &Path) -> Result<Verdict, String> {
    let mut build = process::cargo(root);
    build.args(["build", "--quiet", "--workspace", "--examples"]);
    build.args(["--message-format", "json-render-diagnostics"]);
    let examples = built(&process::output_of(&mut build)?);
    if examples.is_empty() {
        return Ok(Verdict::Skipped("there are no examples".to_owned()));
    }
    let mut all_well = true;
    for example in examples {
        all_well &= run_one(root, &example)?;
    }
    Ok(Verdict::from(all_well))
}

fn run_one(root: &Path, example: &Example) -> Result<bool, String> {
    let mut command = Command::new(&example.executable);
    command.current_dir(root).env("MILLPOND_EXAMPLE_QUICK", "1");
    let ended = process::watch(root, &mut command, LIMIT)?;
    let end = match ended.status {
        None => format!("still running after {} s", LIMIT.as_secs()),
        Some(status) if status.success() => "ended well".to_owned(),
        Some(status) => status.to_string(),
    };
    println!("{:<30} {:>6.1} s  {end}", example.name, ended.elapsed.as_secs_f64());
    if !ended.succeeded() {
        print!("{}", ended.output);
    }
    Ok(ended.succeeded())
}

/// The examples among cargo's messages, sorted by name.
fn built(messages: &str) -> Vec<Example> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut examples: Vec<_> = messages
        .filter(|message| message["target"]["kind"][0] == "example")
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some(Example { name, executable: message["executable"].as_str()?.into() })
        })
        .collect();
    examples.sort_by(|a, b| a.name.cmp(&b.name));
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_examples_are_run() {
        let messages = concat!(
            "{\"target\":{\"kind\":[\"example\"],\"name\":\"two\"},\"executable\":\"/two\"}\n",
            "{\"target\":{\"kind\":[\"bin\"],\"name\":\"not\"},\"executable\":\"/not\"}\n",
            "{\"target\":{\"kind\":[\"example\"],\"name\":\"one\"},\"executable\":\"/one\"}\n",
        );
        assert_eq!(
            built(messages).into_iter().map(|example| example.name).collect::<Vec<_>>(),
            ["one", "two"]
        );
    }

    #[test]
    fn an_example_that_ends_badly_fails() {
        let root = crate::repository_root();
        let example = |program: &str| Example { name: program.to_owned(), executable: program.into() };
        assert_eq!(run_one(&root, &example("true")), Ok(true));
        assert_eq!(run_one(&root, &example("false")), Ok(false));
    }
}
