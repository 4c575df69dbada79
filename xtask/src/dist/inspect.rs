//! Whether what was packed is what it should be: complete, the same each time, and of use.
//!
//! The archive and the package are listed and taken apart, never installed. The daemon out of the package is then
//! started with the configuration out of the package, as systemd would: it says when it is ready, does a task, and ends
//! when it is told to, with a journal that can be read. systemd's own tool looks at the unit, and Debian's at the
//! package.
//!
//! Not here: what is packed (`packages.rs`), the C example (`trial.rs`).

use super::packages::Packages;
use super::{Build, make, place};
use crate::process;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);
/// How exposed the service may be at most, by the tool's own measure: from 0, not at all, to 100.
const EXPOSURE_MAX: u32 = 20;

/// What must be in the archive, below its one folder.
const IN_ARCHIVE: &[&str] = &[
    "bin/millpond",
    "include/millpond/connection_queue.h",
    "include/millpond/symbol_table.h",
    "include/millpond/threadpool.h",
    "lib/cmake/millpond/millpond-config.cmake",
    "lib/libmillpond.a",
    "lib/libmillpond.so",
    "lib/pkgconfig/millpond.pc",
    "lib/systemd/system/millpond.service",
    "lib/sysusers.d/millpond.conf",
    "share/completions/millpond.bash",
    "share/doc/millpond/CHANGELOG.md",
    "share/doc/millpond/LICENSE-APACHE",
    "share/doc/millpond/LICENSE-MIT",
    "share/doc/millpond/OPERATING.md",
    "share/doc/millpond/README.md",
    "share/doc/millpond/third-party-licences",
    "share/man/man1/millpond-serve.1",
    "share/millpond/millpond.toml",
];

/// What must be in the package.
const IN_DEBIAN: &[&str] = &[
    "etc/millpond/millpond.toml",
    "lib/systemd/system/millpond.service",
    "usr/bin/millpond",
    "usr/lib/sysusers.d/millpond.conf",
    "usr/share/bash-completion/completions/millpond",
    "usr/share/doc/millpond/OPERATING.md",
    "usr/share/doc/millpond/changelog.gz",
    "usr/share/doc/millpond/copyright",
    "usr/share/man/man1/millpond-serve.1.gz",
    "usr/share/zsh/vendor-completions/_millpond",
];

/// Looks at the archive and at the package, and tries the daemon.
pub(super) fn look_at(root: &Path, packages: &Packages, version: &str) -> Result<bool, String> {
    let folder = process::target_folder(root).join("dist-inspection");
    place::clear(&folder)?;
    let look = Look { root, folder: &folder, tree: folder.join("debian") };
    let archive = process::output_of(
        Command::new("tar").args(["--list", "--verbose", "--gzip", "--file"]).arg(&packages.archive),
    )?;
    let debian = process::output_of(Command::new("dpkg-deb").arg("--contents").arg(&packages.debian))?;
    place::must(Command::new("dpkg-deb").arg("--extract").arg(&packages.debian).arg(&look.tree))?;
    let outcomes = [
        told("the archive", &listing_lacks(&archive, IN_ARCHIVE)),
        told("the package", &listing_lacks(&debian, IN_DEBIAN)),
        told("the package's fields", &look.fields_differ(&packages.debian, version)?),
        look.sums_are_right(&packages.archive)?,
        look.unit_is_well()?,
        look.runs(
            "lintian",
            Command::new("lintian").args(["--allow-root", "--fail-on", "error"]).arg(&packages.debian),
        )?,
        look.daemon_serves(version)?,
    ];
    Ok(outcomes.iter().all(|well| *well))
}

/// Lays everything out and packs it once more, elsewhere and later: the bytes must be the same.
pub(super) fn comes_out_the_same(root: &Path, first: &Packages, how: Build) -> Result<bool, String> {
    let folder = process::target_folder(root).join("dist-again");
    let again = make(root, &folder.join("laid-out"), &folder.join("packages"), how)?;
    let mut all_well = true;
    for (one, other) in [(&first.archive, &again.archive), (&first.debian, &again.debian)] {
        let same = bytes(one)? == bytes(other)?;
        println!("{}: made twice, {}", shown(one), if same { "the same bytes" } else { "other bytes" });
        all_well &= same;
    }
    fs::remove_dir_all(&folder)
        .map_err(|error| format!("{}: cannot be removed: {error}", folder.display()))?;
    Ok(all_well)
}

struct Look<'a> {
    root: &'a Path,
    folder: &'a Path,
    /// What was in the package.
    tree: PathBuf,
}

impl Look<'_> {
    fn fields_differ(&self, package: &Path, version: &str) -> Result<Vec<String>, String> {
        let control = self.folder.join("control");
        place::must(Command::new("dpkg-deb").arg("--control").arg(package).arg(&control))?;
        let fields = place::read(&control.join("control"))?;
        let mut wrong = Vec::new();
        for line in ["Package: millpond".to_owned(), format!("Version: {version}")] {
            if !fields.lines().any(|field| field == line) {
                wrong.push(format!("expected the line {line:?} in its control file, found none"));
            }
        }
        if !fields.lines().any(|field| field.starts_with("Depends: ") && field.contains("libc6 (>= ")) {
            wrong.push("expected it to depend on a version of libc6".to_owned());
        }
        if place::read(&control.join("conffiles"))? != "/etc/millpond/millpond.toml\n" {
            wrong.push("expected one conffile".to_owned());
        }
        Ok(wrong)
    }

    fn sums_are_right(&self, beside: &Path) -> Result<bool, String> {
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(beside.parent().unwrap_or(beside));
        self.runs("sha256sum", &mut check)
    }

    /// systemd must understand every line of the unit, find the program, and think the service guarded.
    fn unit_is_well(&self) -> Result<bool, String> {
        let unit = "/lib/systemd/system/millpond.service";
        let mut verify = Command::new("systemd-analyze");
        verify
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(format!("--root={}", self.tree.display()));
        let mut exposure = Command::new("systemd-analyze");
        exposure
            .args(["security", "--offline=true", "--no-pager"])
            .arg(format!("--threshold={EXPOSURE_MAX}"));
        exposure.arg(format!("{}{unit}", self.tree.display()));
        Ok(self.runs("systemd-analyze verify", verify.arg(unit))?
            && self.runs("systemd-analyze security", &mut exposure)?)
    }

    /// The daemon of the package with the configuration of the package; only the folders are others.
    fn daemon_serves(&self, version: &str) -> Result<bool, String> {
        let program = self.tree.join("usr/bin/millpond");
        let said = process::output_of(Command::new(&program).arg("--version"))?;
        if said.trim() != format!("millpond {version}") {
            println!("the program of the package: expected version {version}, got {said:?}");
            return Ok(false);
        }
        let directory = self.folder.join("run");
        let manager = Manager::bind(&self.folder.join("notify"))?;
        let mut serve = Command::new(&program);
        serve
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(self.tree.join("etc/millpond/millpond.toml"));
        serve.arg("--runtime-dir").arg(&directory).arg("--journal").arg(self.folder.join("journal"));
        serve.env("NOTIFY_SOCKET", &manager.path).stdin(Stdio::null()).stdout(Stdio::null());
        let mut daemon =
            Daemon(serve.spawn().map_err(|error| format!("the daemon cannot be started: {error}"))?);
        manager.hears("READY=1")?;
        let mut submit = Command::new(&program);
        submit.args(["submit", "{\"handler\": \"sleep\", \"args\": {\"ms\": 1}}", "--wait", "--runtime-dir"]);
        let answered = process::watch(self.root, submit.arg(&directory), LIMIT)?;
        daemon.asked_to_end()?;
        manager.hears("STOPPING=1")?;
        let ended = daemon.0.wait().map_err(|error| format!("the daemon cannot be waited for: {error}"))?;
        let mut journal = Command::new(&program);
        journal.args(["journal", "status"]).arg(self.folder.join("journal"));
        let well = answered.output == "{\"ms\":1}\n" && ended.success();
        if !well {
            println!("the daemon of the package: answered {:?}, ended with {ended}", answered.output);
        }
        Ok(self.runs("millpond journal status", &mut journal)? && well)
    }

    fn runs(&self, what: &str, command: &mut Command) -> Result<bool, String> {
        let ended = process::watch(self.root, command, LIMIT)?;
        if ended.succeeded() {
            println!("{what} finds nothing wrong");
        } else {
            println!("{what} failed:\n{}", process::tail(&ended.output));
        }
        Ok(ended.succeeded())
    }
}

/// What systemd would be to the daemon: a socket that is told how it goes.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn bind(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: cannot be listened to: {error}", path.display());
        let socket = UnixDatagram::bind(path).map_err(failed)?;
        socket.set_read_timeout(Some(LIMIT)).map_err(failed)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    fn hears(&self, line: &str) -> Result<(), String> {
        let mut text = [0; 1024];
        let length = self.socket.recv(&mut text);
        let length = length.map_err(|error| format!("the daemon did not say {line}: {error}"))?;
        let text = String::from_utf8_lossy(&text[..length]);
        let is_said = text.lines().any(|said| said == line);
        if is_said { Ok(()) } else { Err(format!("the daemon: expected {line}, got {text:?}")) }
    }
}

/// Killed when it is dropped, if it has not ended by then.
struct Daemon(Child);

impl Daemon {
    fn asked_to_end(&mut self) -> Result<(), String> {
        place::must(Command::new("kill").args(["-TERM", &self.0.id().to_string()]))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has most likely been waited for, and then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn told(what: &str, wrong: &[String]) -> bool {
    if wrong.is_empty() {
        println!("{what}: as it should be");
    }
    wrong.iter().for_each(|line| println!("{what}: {line}"));
    wrong.is_empty()
}

/// What is wrong with a verbose listing of tar: names that are missing, owners that are not root, files that all may
/// write to, and names of a stranger's folder.
fn listing_lacks(listing: &str, wanted: &[&str]) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in listing.lines() {
        let mut words = line.split_whitespace();
        let (mode, owner) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let name = words.nth(3).unwrap_or_default();
        if !matches!(owner, "0/0" | "root/root") {
            wrong.push(format!("{name}: expected it to be root's, got {owner}"));
        }
        // A link has every right there is, and none of its own.
        let may_others_write = mode.get(5..6) == Some("w") || mode.get(8..9) == Some("w");
        if may_others_write && !mode.starts_with('l') {
            wrong.push(format!("{name}: expected that only root may write, got {mode}"));
        }
        names.insert(name.split_once('/').map_or("", |(_, rest)| rest));
    }
    let missing = wanted.iter().filter(|name| !names.contains(**name));
    wrong.extend(missing.map(|name| format!("expected {name} in it, found none")));
    wrong
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_with_a_gap_a_stranger_or_an_open_file_is_found_wanting() {
        let good = "drwxr-xr-x root/root 0 2026-01-01 00:00 ./usr/\n-rwxr-xr-x 0/0 7 2026-01-01 00:00 ./usr/a\n\
                    lrwxrwxrwx 0/0 0 2026-01-01 00:00 ./usr/b -> a\n";
        assert!(listing_lacks(good, &["usr/a", "usr/b"]).is_empty());
        assert_eq!(listing_lacks(good, &["usr/c"]), ["expected usr/c in it, found none"]);
        assert_eq!(listing_lacks(&good.replace("0/0 7", "jo/jo 7"), &[]).len(), 1);
        assert_eq!(listing_lacks(&good.replace("-rwxr-xr-x", "-rwxrw-r-x"), &[]).len(), 1);
        assert_eq!(listing_lacks(&good.replace("-rwxr-xr-x", "-rwxr-xrwx"), &[]).len(), 1);
    }
}
