//! A real parser of Prometheus reads what a busy pool and a busy daemon say of themselves.
//!
//! The pool's text is that of the example `metrics`, the daemon's is what a test of its HTTP door got from
//! it; the parser is `promtool`. Debian has it in the package `prometheus`, whose installation would also
//! start a server; so unless it is on the machine already the package is only fetched and taken apart, under
//! the target folder.
//!
//! Not here: what the numbers must be (`crates/pool/tests/it/prometheus.rs`,
//! `crates/http/tests/it/metrics.rs`).

use super::Verdict;
use crate::process;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) fn run(root: &Path) -> Result<Verdict, String> {
    let promtool = promtool(root)?;
    let mut is_read = true;
    for (who, text) in [("the pool", of_pool(root)?), ("the daemon", of_daemon(root)?)] {
        let lines = text.lines().filter(|line| line.starts_with("millpond_")).count();
        if lines == 0 {
            return Err(format!("{who}: expected lines that begin with millpond_, got none"));
        }
        is_read &= check(&promtool, &text)?;
        println!("{}: {lines} lines of {who} read", promtool.display());
        // A parser that lets everything pass would prove nothing.
        let spoilt = text.replacen("# TYPE", "# TYPO", 1) + "millpond_spoilt{le=} 1\n";
        if check(&promtool, &spoilt)? {
            println!("the parser also read a text of {who} that was spoilt on purpose");
            is_read = false;
        }
    }
    Ok(Verdict::from(is_read))
}

/// What the example says of its pool.
fn of_pool(root: &Path) -> Result<String, String> {
    let mut example = process::cargo(root);
    example.args(["run", "--quiet", "--package", "millpond", "--example", "metrics", "--"]);
    process::output_of(example.args(["--format", "prometheus"]).env("MILLPOND_EXAMPLE_QUICK", "1"))
}

/// What a daemon that has done some of everything says over HTTP: a test leaves it in a folder.
fn of_daemon(root: &Path) -> Result<String, String> {
    let folder = process::target_folder(root).join("scrape");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let path = folder.join("metrics.txt");
    // What an earlier run left must not be taken for the answer of this one.
    let _ = fs::remove_file(&path);
    let mut test = process::cargo(root);
    test.args(["test", "--quiet", "--package", "millpond-http", "--test", "it", "--", "--exact"]);
    test.arg("metrics::every_line_keeps_the_rules_in_both_formats_and_every_series_comes_once");
    process::output_of(test.env("MILLPOND_SCRAPE_TO", &folder))?;
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether the parser accepts a text.
fn check(promtool: &Path, text: &str) -> Result<bool, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", promtool.display());
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    Ok(output.status.success())
}

/// The parser: the machine's own, or one taken out of Debian's package.
fn promtool(root: &Path) -> Result<PathBuf, String> {
    let installed = Path::new("promtool");
    if answers(installed) {
        return Ok(installed.to_owned());
    }
    let folder = process::target_folder(root).join("promtool");
    let fetched = folder.join("usr/bin/promtool");
    if answers(&fetched) {
        return Ok(fetched);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let remedy = "install promtool, which Debian has in the package prometheus";
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        process::output_of(command.args(arguments).current_dir(&folder))
    };
    // A fresh machine does not know yet what there is to be fetched.
    apt_get(&["download", "prometheus"])
        .or_else(|_| apt_get(&["update"]).and_then(|_| apt_get(&["download", "prometheus"])))
        .map_err(|error| format!("{error}; {remedy}"))?;
    let package = fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| format!("apt-get download brought no package; {remedy}"))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(&package).arg(&folder);
    process::output_of(&mut unpack).map_err(|error| format!("{error}; {remedy}"))?;
    if answers(&fetched) {
        Ok(fetched)
    } else {
        Err(format!("{}: does not run; {remedy}", fetched.display()))
    }
}

fn answers(promtool: &Path) -> bool {
    let mut probe = Command::new(promtool);
    probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}
