//! A try-out of what was laid out: the C example, built as its users would and run.
//!
//! Once with make and pkg-config, once with CMake, which also links the static library; and once with the
//! handler loaded by the daemon that was laid out, to which the example attaches.
//!
//! Not here: tests of the library itself (`crates/ffi/tests`).

use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);
/// "123456789\n" and what every CRC-32 says of it.
const SAMPLE: (&str, &str) = ("123456789\n", "{\"bytes\": 10, \"crc32\": \"e0117757\"}");

/// Builds the example against what lies in `place`, and runs it.
pub(crate) fn try_out(root: &Path, place: &Path) -> Result<bool, String> {
    let folder = process::target_folder(root).join("dist-trial");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .map_err(|error| format!("{}: cannot be cleared: {error}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: cannot be made: {error}", folder.display()))?;
    let trial = Trial { root, place, sample: folder.join("sample"), folder };
    fs::write(&trial.sample, SAMPLE.0).map_err(|error| format!("the sample cannot be written: {error}"))?;
    // All are tried, so that one run tells all there is to mend.
    let outcomes = [trial.with_make()?, trial.with_cmake()?, trial.with_the_daemon()?];
    Ok(outcomes.iter().all(|well| *well))
}

struct Trial<'a> {
    root: &'a Path,
    place: &'a Path,
    folder: PathBuf,
    sample: PathBuf,
}

impl Trial<'_> {
    fn with_make(&self) -> Result<bool, String> {
        let sources = self.folder.join("make");
        copy_folder(&self.root.join("examples/c"), &sources)?;
        let mut make = Command::new("make");
        make.arg("--directory").arg(&sources).env("PKG_CONFIG_PATH", self.place.join("lib/pkgconfig"));
        Ok(self.runs("make", &mut make)? && self.says("pkg-config", &sources.join("checksum"), &[])?)
    }

    fn with_cmake(&self) -> Result<bool, String> {
        let build = self.folder.join("cmake");
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(self.root.join("examples/c")).arg("-B").arg(&build);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", self.place.display()));
        Ok(self.runs("cmake", &mut configure)?
            && self.runs("cmake --build", Command::new("cmake").arg("--build").arg(&build))?
            && self.says("cmake", &build.join("checksum"), &[])?
            && self.says("cmake, static", &build.join("checksum-static"), &[])?)
    }

    /// The handler as a library of the daemon, and the program attached to it.
    fn with_the_daemon(&self) -> Result<bool, String> {
        let config = self.folder.join("millpond.toml");
        let library = self.folder.join("make/libchecksum.so");
        let text = format!(
            "name = 'dist-trial'\n[web]\nenabled = false\n[handler.checksum]\nlibrary = '{}'\n",
            library.display()
        );
        fs::write(&config, text)
            .map_err(|error| format!("{}: cannot be written: {error}", config.display()))?;
        let mut serve = Command::new(self.place.join("bin/millpond"));
        serve.arg("serve").arg("--config").arg(&config).current_dir(&self.folder);
        serve.env("XDG_RUNTIME_DIR", &self.folder).stdin(Stdio::null()).stdout(Stdio::null());
        let daemon = Daemon(serve.spawn().map_err(|error| format!("the daemon cannot be started: {error}"))?);
        let socket = self.folder.join("millpond-dist-trial/memory.sock");
        let until = Instant::now() + LIMIT;
        while !socket.exists() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        let said = self.says("the daemon", &self.folder.join("make/checksum"), &["-a", "dist-trial"]);
        drop(daemon);
        said
    }

    /// Whether the example computes what it should.
    fn says(&self, how: &str, program: &Path, arguments: &[&str]) -> Result<bool, String> {
        let mut command = Command::new(program);
        command.args(arguments).arg(&self.sample).env("XDG_RUNTIME_DIR", &self.folder);
        let ended = process::watch(self.root, &mut command, LIMIT)?;
        let expected = format!("{} {}\n", SAMPLE.1, self.sample.display());
        let well = ended.succeeded() && ended.output == expected;
        if well {
            println!("the example runs: built by {how}");
        } else {
            println!(
                "the example, by {how}: expected\n{}\ngot\n{}",
                process::tail(&expected),
                process::tail(&ended.output)
            );
        }
        Ok(well)
    }

    fn runs(&self, what: &str, command: &mut Command) -> Result<bool, String> {
        let ended = process::watch(self.root, command, LIMIT)?;
        if !ended.succeeded() {
            println!("{what} failed:\n{}", process::tail(&ended.output));
        }
        Ok(ended.succeeded())
    }
}

/// Ended when it is dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has nothing to lose, and may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: cannot be copied: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}
