//! Peers that are programs: the machine's own, or those of Debian's packages, unpacked under the target
//! folder.
//!
//! Installing a package would start its server, and a bench has no business to do that. So the package is
//! only fetched and taken apart, with whatever libraries it needs and the machine lacks; apt-get itself says
//! which. A peer that cannot be had so is reported as absent, with the reason.
//!
//! Not here: starting a program (`daemon.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that answered when it was asked for its version.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Where its libraries lie, unless the system knows.
    libraries: Vec<PathBuf>,
}

impl Program {
    /// A command that runs it, without arguments yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Ok(folders) = std::env::join_paths(&self.libraries)
            && !folders.is_empty()
        {
            command.env("LD_LIBRARY_PATH", folders);
        }
        command
    }

    fn answers(&self, question: &str) -> bool {
        let mut command = self.command();
        command.arg(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// Finds the program, or fetches the Debian package that has it. `question` makes it tell its version and
/// end.
pub(crate) fn program(name: &str, question: &str, package: &str) -> Result<Program, String> {
    // The folder of servers is seldom on the path of those who are not root.
    let installed = [PathBuf::from(name), Path::new("/usr/sbin").join(name)];
    let installed = installed.map(|path| Program { path, libraries: Vec::new() });
    if let Some(program) = installed.into_iter().find(|program| program.answers(question)) {
        return Ok(program);
    }
    let folder = target_folder()?.join("bench-peers").join(package);
    if let Some(program) = unpacked(&folder, name).filter(|program| program.answers(question)) {
        return Ok(program);
    }
    let remedy = format!("install the Debian package {package}, or let {name} be on the path");
    fetch(&folder, package).map_err(|reason| format!("{reason}; {remedy}"))?;
    unpacked(&folder, name)
        .filter(|program| program.answers(question))
        .ok_or_else(|| format!("{name} of the package {package} does not run here; {remedy}"))
}

/// Whether packages can be fetched here at all.
#[cfg(test)]
pub(crate) fn is_here() -> bool {
    output_of(Command::new("apt-get").arg("--version")).is_ok()
}

/// Where cargo built this bench. It marks its folder, so that backup programs leave it alone.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let bench = std::env::current_exe().map_err(|error| format!("where this bench lies: {error}"))?;
    let marked = bench.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let missing = || format!("{}: expected to lie in a target folder of cargo", bench.display());
    marked.map(Path::to_owned).ok_or_else(missing)
}

fn unpacked(folder: &Path, name: &str) -> Option<Program> {
    let places = ["usr/bin", "usr/sbin"].map(|place| folder.join(place).join(name));
    let path = places.into_iter().find(|path| path.exists())?;
    // Debian keeps the libraries of each kind of machine in a folder of its own.
    let parts = ["usr/lib", "lib"].map(|part| fs::read_dir(folder.join(part)));
    let entries = parts.into_iter().flatten().flatten().filter_map(Result::ok).map(|entry| entry.path());
    Some(Program { path, libraries: entries.filter(|path| path.is_dir()).collect() })
}

fn fetch(folder: &Path, package: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let apt_get = |arguments: &[&str]| {
        output_of(Command::new("apt-get").args(arguments).current_dir(folder).env("LC_ALL", "C"))
    };
    let download = || {
        let plan = apt_get(&["install", "--simulate", "--no-install-recommends", package])?;
        let mut arguments = vec!["download"];
        arguments.extend(packages_to_install(&plan));
        apt_get(&arguments)
    };
    // A fresh machine does not know yet what there is to be fetched, and an old one what is there no more.
    download().or_else(|_| apt_get(&["update"]).and_then(|_| download()))?;
    for entry in fs::read_dir(folder).map_err(failed)?.filter_map(Result::ok) {
        let archive = entry.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            output_of(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(folder))?;
        }
    }
    Ok(())
}

/// The names in what `apt-get install --simulate` prints: one line for each package, `Inst NAME (...)`.
fn packages_to_install(plan: &str) -> Vec<&str> {
    plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next()).collect()
}

fn output_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it did not say why");
    Err(format!("{name}: {}: {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_installed_is_read_from_the_simulation() {
        let plan = "NOTE: This is only a simulation!\nInst libb1 [1.0] (1.1 Debian:12 [amd64])\n\
                    Inst a-server (2.0 Debian:12 [amd64])\nConf libb1 (1.1 Debian:12 [amd64])\n";
        assert_eq!(packages_to_install(plan), ["libb1", "a-server"]);
        assert!(packages_to_install("a-server is already the newest version\n").is_empty());
    }

    #[test]
    fn a_program_without_a_package_is_answered_with_a_remedy() {
        let message = program("millpond-no-such", "--version", "millpond-no-such-package").unwrap_err();
        let remedy =
            "install the Debian package millpond-no-such-package, or let millpond-no-such be on the path";
        assert!(message.ends_with(remedy), "{message}");
    }

    #[test]
    fn the_target_folder_holds_the_running_test() {
        let bench = std::env::current_exe().unwrap();
        assert!(bench.starts_with(target_folder().unwrap()));
    }
}
