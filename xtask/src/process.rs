//! How other programs are run: watched with a time limit and silent, or in the open.
//!
//! A watched program writes both its outputs to one file, so that their order is kept and a grandchild that
//! outlives it cannot hold us up at the end of a pipe. No program gets our input: the CI has none to give.
//!
//! Not here: what a failure means to the caller (`test.rs`, `models/explore.rs`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How a watched program ended.
pub(crate) struct Ended {
    /// None when the time limit ran out and it was killed.
    pub(crate) status: Option<ExitStatus>,
    /// Standard output and standard error, in the order they were written.
    pub(crate) output: String,
    pub(crate) elapsed: Duration,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// The cargo that runs us, at the root of the repository, free of what an outer run left in the environment.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).env_remove("MILLPOND_MUTANT").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Where cargo builds, so that our own folders lie beside its own.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(chosen)
}

/// Runs `command` in the open and answers whether it succeeded.
pub(crate) fn run_in_the_open(command: &mut Command) -> Result<bool, String> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| cannot_start(command, &error))?;
    Ok(status.success())
}

/// Runs `command` to its end and gives back what it wrote to standard output; what it says to people goes to
/// ours.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_start(command, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{}: {}", shown(command), output.status)) }
}

/// Runs `command` without a sound, for `limit` at the most.
pub(crate) fn watch(root: &Path, command: &mut Command, limit: Duration) -> Result<Ended, String> {
    let path = output_path(root)?;
    let ended = watch_into(&path, command, limit);
    // The file has served its purpose; if it cannot be removed it is only in the way of `cargo clean`.
    let _ = fs::remove_file(&path);
    ended
}

/// A command as one would type it, without its folder.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The last lines of a long output.
pub(crate) fn tail(output: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<_> = output.lines().collect();
    let first = lines.len().saturating_sub(LINES);
    lines[first..].iter().map(|line| format!("      | {line}")).collect::<Vec<_>>().join("\n")
}

fn watch_into(path: &Path, command: &mut Command, limit: Duration) -> Result<Ended, String> {
    let failed = |error| format!("{}: cannot be written: {error}", path.display());
    let file = File::create(path).map_err(failed)?;
    let copy = file.try_clone().map_err(failed)?;
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(file).stderr(copy);
    let mut child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    let mut nap = Duration::from_millis(1);
    let status = loop {
        let status = child.try_wait().map_err(|error| format!("{}: {error}", shown(command)))?;
        if status.is_some() {
            break status;
        }
        if started.elapsed() >= limit {
            // It may have ended this very moment, and then there is nothing left to kill.
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(20));
    };
    let elapsed = started.elapsed();
    let output = fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
    Ok(Ended { status, output: String::from_utf8_lossy(&output).into_owned(), elapsed })
}

fn output_path(root: &Path) -> Result<PathBuf, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = target_folder(root).join("xtask");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: cannot be made: {error}", folder.display()))?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!("output-{}-{number}", std::process::id())))
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("{}: cannot be started: {error}", shown(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        watch(&crate::repository_root(), Command::new("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn both_outputs_are_kept_in_order() {
        let ended = shell("echo one; echo two >&2; echo three; exit 3", Duration::from_secs(60));
        assert_eq!(ended.output, "one\ntwo\nthree\n");
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert!(!ended.succeeded());
    }

    #[test]
    fn a_program_over_its_time_is_killed_and_its_output_kept() {
        let ended = shell("echo begun; exec sleep 600", Duration::from_millis(300));
        assert!(ended.status.is_none() && !ended.succeeded());
        assert_eq!(ended.output, "begun\n");
        assert!(ended.elapsed < Duration::from_secs(60));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_that_names_it() {
        let error = run_in_the_open(&mut Command::new("/nowhere/millpond-no-such-program")).unwrap_err();
        assert!(error.starts_with("millpond-no-such-program: cannot be started"), "{error}");
    }
}
