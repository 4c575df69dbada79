//! The bindings in their own interpreters: LuaJIT, and CPython with the wheel that a user would install.
//!
//! Both call the library as the other tests have built it, and attach to the daemon as it was built. Python gets a
//! virtual environment below the target folder, with pytest, mypy and what builds the wheel; the tests then run
//! against the installed wheel and not against the sources, since a file that is missing from it would not be missed
//! otherwise.
//!
//! Not here: the tests themselves (`bindings/lua/spec`, `bindings/python/tests`).

use super::{Verdict, browser};
use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the virtual environment holds. Pinned, so that a new release of a tool breaks nothing by itself.
const PYTHON_TOOLS: &[&str] = &["hatchling==1.33.0", "mypy==2.4.1", "pytest==9.2.0"];

/// The specs in LuaJIT, then the example.
pub(super) fn lua(root: &Path) -> Result<Verdict, String> {
    let built = Built::by_cargo(root)?;
    let luajit = |script: &str| {
        let mut command = Command::new("luajit");
        command.arg(root.join(script)).current_dir(root).env("MILLPOND_LIBRARY", &built.library);
        command.env("MILLPOND_BIN", &built.program).env("LUA_PATH", root.join("bindings/lua/src/?.lua"));
        command
    };
    each(root, [luajit("bindings/lua/spec/run.lua"), luajit("examples/lua/words.lua")])
}

/// The wheel is built and installed, types are checked, the tests run, then the example.
pub(super) fn python(root: &Path) -> Result<Verdict, String> {
    let built = Built::by_cargo(root)?;
    let place = process::target_folder(root).join("python");
    let environment = virtual_environment(&place)?;
    let package = root.join("bindings/python");
    let tool = |name: &str| {
        let mut command = Command::new(environment.join("bin").join(name));
        command.current_dir(&package).env("PYTHONDONTWRITEBYTECODE", "1").env("MILLPOND_BIN", &built.program);
        command.env_remove("MILLPOND_LIBRARY").env_remove("PYTHONPATH").env("MILLPOND_EXAMPLE_QUICK", "1");
        command
    };
    let wheel = build_wheel(tool("pip").env("MILLPOND_LIBRARY", &built.library), &place, &package)?;
    let mut install = tool("pip");
    install.args(["install", "--quiet", "--no-deps", "--force-reinstall"]).arg(wheel);
    let mut types = tool("mypy");
    types.arg("--cache-dir").arg(place.join("mypy"));
    let mut tests = tool("pytest");
    tests.args(["--quiet", "tests"]);
    let mut example = tool("python");
    example.arg(root.join("examples/python/check_links.py"));
    each(root, [install, types, tests, example])
}

/// What the bindings are tried with.
struct Built {
    program: PathBuf,
    library: PathBuf,
}

impl Built {
    fn by_cargo(root: &Path) -> Result<Self, String> {
        let program = browser::program(root)?;
        let mut build = process::cargo(root);
        if !process::run_in_the_open(build.args(["build", "--quiet", "--package", "millpond-ffi"]))? {
            return Err("libmillpond could not be built".to_owned());
        }
        Ok(Self { program, library: process::target_folder(root).join("debug/libmillpond.so") })
    }
}

/// Runs one command after the other, up to the first that fails.
fn each<const COUNT: usize>(root: &Path, commands: [Command; COUNT]) -> Result<Verdict, String> {
    for mut command in commands {
        if browser::watched(root, &mut command)? != Verdict::Passed {
            println!("failed: {}", process::shown(&command));
            return Ok(Verdict::Failed);
        }
    }
    Ok(Verdict::Passed)
}

/// A virtual environment with the tools in it, made anew when the list of tools has changed.
fn virtual_environment(place: &Path) -> Result<PathBuf, String> {
    let environment = place.join("venv");
    let (mark, wanted) = (environment.join("millpond-tools"), PYTHON_TOOLS.join("\n"));
    if fs::read_to_string(&mark).is_ok_and(|present| present == wanted) {
        return Ok(environment);
    }
    process::output_of(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let mut fetch = Command::new(environment.join("bin/pip"));
    process::output_of(fetch.args(["install", "--quiet", "--disable-pip-version-check"]).args(PYTHON_TOOLS))?;
    fs::write(&mark, wanted).map_err(|error| format!("{}: {error}", mark.display()))?;
    Ok(environment)
}

/// Builds the wheel with `pip`, and gives back its path. One of an earlier run must not be taken for it.
fn build_wheel(pip: &mut Command, place: &Path, package: &Path) -> Result<PathBuf, String> {
    let folder = place.join("wheel");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    pip.args(["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]);
    process::output_of(pip.arg("--wheel-dir").arg(&folder).arg(package))?;
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wheels: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        other => Err(format!("{}: expected one wheel, got {}", folder.display(), other.len())),
    }
}
