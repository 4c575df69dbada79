//! What the user asked for: options and group prefixes, checked before anything runs.
//!
//! Written by hand, since a bench with six options does not need a parser to compile.
//!
//! Not here: whether a prefix names a group (`groups/mod.rs`).

use crate::measure::Plan;
use std::path::PathBuf;
use std::time::Duration;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Compares millpond's queues, pool and daemon with their peers, side by side in one interleaved run.

Usage: cargo run --release -p millpond-bench -- [OPTIONS] [GROUP-PREFIX...]

A prefix chooses every group whose name begins with it; `=NAME` chooses the group NAME alone.
Without a prefix every group is run.

Options:
  --quick        fewer items, and about 7 s a group at most
  --rounds N     measure N rounds, however long it takes (default: up to 25 within a minute a group)
  --json PATH    also write the figures as a JSON array
  --plot PATH    also write the figures as bars, as an SVG picture
  --pin          bind each thread to one core, in turn (Linux)
  --list         name the groups and their peers, and stop
  --help         print this, and stop

Rows: `millpond` is ours, `millpond ...` a variant of it; `~` marks a limit that does less than the others do,
such as a queue for one producer and one consumer. The ratio is to the row `millpond`: 2.00 took twice as long, or
in a group where higher is better did twice as much.

Examples:
  millpond-bench --quick ring             every group that begins with ring
  millpond-bench --quick =ring-1 deque    ring-1 alone, and every deque group
  millpond-bench --quick pool-spawn       empty closures, spawned outside and inside a pool
  millpond-bench --quick tasks-socket     our daemon beside beanstalkd, gearmand and redis, fetched from Debian
  millpond-bench --quick --pin http       our HTTP door beside nginx, haproxy and hyper, each on its core
  millpond-bench --json all.json --plot all.svg
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Wish {
    Help,
    List,
    Measure(Arguments),
}

/// What to measure, and where to put the figures.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) prefixes: Vec<String>,
    pub(crate) plan: Plan,
    pub(crate) json: Option<PathBuf>,
    pub(crate) plot: Option<PathBuf>,
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut words = words;
    let (mut quick, mut pinned, mut list, mut rounds) = (false, false, false, None);
    let (mut prefixes, mut json, mut plot) = (Vec::new(), None, None);
    while let Some(word) = words.next() {
        // `--json=PATH` and `--json PATH` mean the same.
        let (name, mut attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (word, None),
        };
        let mut value = |what: &str| {
            attached
                .take()
                .or_else(|| words.next())
                .ok_or_else(|| format!("{name}: expected {what}, got nothing"))
        };
        match name.as_str() {
            "--help" | "-h" => return Ok(Wish::Help),
            "--list" => list = true,
            "--quick" => quick = true,
            "--pin" => pinned = true,
            "--rounds" => rounds = Some(round_count(&value("a number of rounds")?)?),
            "--json" => json = Some(PathBuf::from(value("a path")?)),
            "--plot" => plot = Some(PathBuf::from(value("a path")?)),
            _ if name.starts_with('-') => return Err(format!("{name}: no such option; --help lists them")),
            _ => prefixes.push(name.clone()),
        }
        if let Some(value) = attached {
            return Err(format!("{name}: expected no value, got \"{value}\""));
        }
    }
    if list {
        return Ok(Wish::List);
    }
    let mut plan = if quick { Plan::quick() } else { Plan::full() };
    if let Some(rounds) = rounds {
        plan.rounds = rounds;
        plan.group_time_max = Duration::MAX;
    }
    plan.pinned = pinned;
    Ok(Wish::Measure(Arguments { prefixes, plan, json, plot }))
}

fn round_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds @ 1..=10_000) => Ok(rounds),
        _ => Err(format!("--rounds: expected a whole number from 1 to 10000, got \"{text}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Wish, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn measured(line: &str) -> Arguments {
        match parse_line(line) {
            Ok(Wish::Measure(arguments)) => arguments,
            other => panic!("expected arguments, got {other:?}"),
        }
    }

    #[test]
    fn options_and_prefixes_may_come_in_any_order() {
        let arguments = measured("ring --quick --json=a.json --rounds 3 gate --plot b.svg");
        assert_eq!(arguments.prefixes, ["ring", "gate"]);
        assert_eq!((arguments.plan.rounds, arguments.plan.group_time_max), (3, Duration::MAX));
        assert_eq!(arguments.json, Some(PathBuf::from("a.json")));
        assert_eq!(arguments.plot, Some(PathBuf::from("b.svg")));
        assert!(arguments.plan.items < Plan::full().items);
    }

    #[test]
    fn a_leading_equals_sign_belongs_to_the_group_and_not_to_an_option() {
        assert_eq!(measured("=ring-1").prefixes, ["=ring-1"]);
    }

    #[test]
    fn help_and_list_measure_nothing() {
        assert!(matches!(parse_line("--quick --help"), Ok(Wish::Help)));
        assert!(matches!(parse_line("--list ring"), Ok(Wish::List)));
    }

    #[test]
    fn a_bad_option_is_answered_with_what_was_expected() {
        let message = |line| parse_line(line).expect_err("must be refused");
        assert_eq!(message("--fast"), "--fast: no such option; --help lists them");
        assert_eq!(message("--json"), "--json: expected a path, got nothing");
        assert_eq!(message("--quick=yes"), "--quick: expected no value, got \"yes\"");
        assert_eq!(message("--rounds 0"), "--rounds: expected a whole number from 1 to 10000, got \"0\"");
    }
}
