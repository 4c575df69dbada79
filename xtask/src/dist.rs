//! `cargo xtask dist`: program, library, headers, pages and the service, as one would install them, and packed.
//!
//! ```text
//!   bin/millpond
//!   lib/libmillpond.so.0.1.0, .so.0, .so, .a      lib/pkgconfig/millpond.pc      lib/cmake/millpond/
//!   lib/systemd/system/millpond.service      lib/sysusers.d/millpond.conf      share/millpond/millpond.toml
//!   include/millpond/*.h      share/man/man1      share/completions      share/doc/millpond
//! ```
//!
//! The folder can be moved: pkg-config and CMake find the rest from where their own files are. With
//! `--prefix` it is laid out where the system looks, such as /usr/local; without, in the target folder, and packed
//! beside it.
//!
//! Not here: whether a program can be built against it (`dist/trial.rs`), the archive (`dist/packages.rs`) and the
//! package (`dist/debian.rs`), and whether those are what they should be (`dist/inspect.rs`).

mod debian;
mod finders;
mod inspect;
mod licences;
mod packages;
mod place;
mod trial;

pub(crate) use trial::try_out;

use crate::process;
use clap::Args;
use place::must;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The unit as Debian has it.
const UNIT: &str = "packaging/systemd/millpond.service";
/// What the unit calls the program.
const PROGRAM_OF_UNIT: &str = "/usr/bin/millpond";

#[derive(Args)]
pub(crate) struct DistArguments {
    /// Lay it out here, for example /usr/local, and pack nothing
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Then try it: the C example built against it, and what was packed
    #[arg(long)]
    check: bool,
}

/// How program and library are built.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Build {
    /// With optimisation, to be installed.
    Release,
    /// As the tests have built them, to see that everything is in its place.
    Dev,
}

/// What a release is called.
struct Version {
    /// For example 0.1.0.
    full: String,
    /// What stays the same while programs need not be linked again.
    major: String,
}

pub(crate) fn run(root: &Path, arguments: &DistArguments) -> Result<bool, String> {
    if let Some(prefix) = &arguments.prefix {
        lay_out(root, prefix, prefix, Build::Release)?;
        println!("laid out in {}", prefix.display());
        return if arguments.check { try_out(root, prefix) } else { Ok(true) };
    }
    if arguments.check {
        return make_and_check(root, Build::Release);
    }
    let place = folder(root);
    make(root, &place, &packages_folder(root), Build::Release)?;
    println!("laid out in {}", place.display());
    println!("packed into {}", packages_folder(root).display());
    Ok(true)
}

/// Lays everything out, packs it, and tries all of it.
pub(crate) fn make_and_check(root: &Path, how: Build) -> Result<bool, String> {
    let place = folder(root);
    let packages = make(root, &place, &packages_folder(root), how)?;
    // All are tried, so that one run tells all there is to mend.
    let tried = try_out(root, &place)?;
    let inspected = inspect::look_at(root, &packages, &version(root)?.full)?;
    let repeated = inspect::comes_out_the_same(root, &packages, how)?;
    Ok(tried && inspected && repeated)
}

/// Where it is laid out if nobody says.
fn folder(root: &Path) -> PathBuf {
    process::target_folder(root).join("dist")
}

/// Where the archive and the package are.
fn packages_folder(root: &Path) -> PathBuf {
    process::target_folder(root).join("packages")
}

/// Lays everything out in a folder of ours, and packs it into another.
fn make(root: &Path, place: &Path, packages: &Path, how: Build) -> Result<packages::Packages, String> {
    place::clear(place)?;
    lay_out(root, place, Path::new("/usr/local"), how)?;
    packages::pack(root, place, packages, &version(root)?, how)
}

/// Builds everything and puts it into its place. The service will look for it below `prefix`.
fn lay_out(root: &Path, place: &Path, prefix: &Path, how: Build) -> Result<(), String> {
    let version = version(root)?;
    let built = build(root, &version, how)?;
    put_binaries(&built, place, &version)?;
    for header in ["threadpool.h", "symbol_table.h", "connection_queue.h"] {
        let from = root.join("crates/ffi/include").join(header);
        place::copy(&from, &place.join("include/millpond").join(header))?;
    }
    let lib = place.join("lib");
    place::write(&lib.join("pkgconfig/millpond.pc"), &finders::pkg_config(&version))?;
    let cmake = lib.join("cmake/millpond");
    place::write(&cmake.join("millpond-config.cmake"), &finders::cmake(&version))?;
    place::write(&cmake.join("millpond-config-version.cmake"), &finders::cmake_version(&version))?;
    put_service(root, place, prefix)?;
    put_documents(root, place)?;
    from_the_program(place)
}

/// The program and the library, without what only a debugger reads.
fn put_binaries(built: &Path, place: &Path, version: &Version) -> Result<(), String> {
    let (program, lib) = (place.join("bin/millpond"), place.join("lib"));
    let names = [
        format!("libmillpond.so.{}", version.full),
        format!("libmillpond.so.{}", version.major),
        "libmillpond.so".to_owned(),
    ];
    let (shared, archive) = (lib.join(&names[0]), lib.join("libmillpond.a"));
    place::copy_program(&built.join("millpond"), &program)?;
    place::copy(&built.join("libmillpond.so"), &shared)?;
    place::copy(&built.join("libmillpond.a"), &archive)?;
    for (file, how_much) in
        [(&program, "--strip-all"), (&shared, "--strip-unneeded"), (&archive, "--strip-debug")]
    {
        must(Command::new("strip").args(["--enable-deterministic-archives", how_much]).arg(file))?;
    }
    place::link(&names[0], &lib.join(&names[1]))?;
    place::link(&names[1], &lib.join(&names[2]))
}

/// What makes it a service: the unit, its user, and a configuration to begin with.
fn put_service(root: &Path, place: &Path, prefix: &Path) -> Result<(), String> {
    let unit = place::read(&root.join(UNIT))?;
    let program = std::path::absolute(prefix.join("bin/millpond"))
        .map_err(|error| format!("{}: {error}", prefix.display()))?;
    place::write(&place.join("lib/systemd/system/millpond.service"), &unit_for(&unit, &program))?;
    let user = root.join("packaging/systemd/millpond.sysusers");
    place::copy(&user, &place.join("lib/sysusers.d/millpond.conf"))?;
    // Not where the daemon reads it: what somebody has changed there stays.
    place::copy(&root.join("packaging/millpond.toml"), &place.join("share/millpond/millpond.toml"))
}

/// The unit for a program in another place.
fn unit_for(unit: &str, program: &Path) -> String {
    unit.replace(PROGRAM_OF_UNIT, &program.display().to_string())
}

/// What people read.
fn put_documents(root: &Path, place: &Path) -> Result<(), String> {
    let documents = place.join("share/doc/millpond");
    for text in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        place::copy(&root.join(text), &documents.join(text))?;
    }
    for name in place::names(&root.join("docs"))? {
        if name.ends_with(".md") {
            place::copy(&root.join("docs").join(&name), &documents.join(&name))?;
        }
    }
    place::write(&documents.join("third-party-licences"), &licences::of_everybody_else(root)?)
}

/// Builds the program and the library, and says where they are.
fn build(root: &Path, version: &Version, how: Build) -> Result<PathBuf, String> {
    let (profile, folder) = match how {
        Build::Release => ("release", "release"),
        Build::Dev => ("dev", "debug"),
    };
    let mut program = process::cargo(root);
    must(program.args(["build", "--profile", profile, "--package", "millpond-cli"]))?;
    let mut library = process::cargo(root);
    library.args(["rustc", "--profile", profile, "--package", "millpond-ffi", "--lib", "--"]);
    // Programs ask the loader for this name, so a later release with the same first number serves them too.
    must(library.arg(format!("-Clink-arg=-Wl,-soname,libmillpond.so.{}", version.major)))?;
    Ok(process::target_folder(root).join(folder))
}

/// Manual pages and completions, which the program makes itself.
fn from_the_program(place: &Path) -> Result<(), String> {
    let program = place.join("bin/millpond");
    must(Command::new(&program).arg("man").arg(place.join("share/man/man1")))?;
    for (shell, file) in [("bash", "millpond.bash"), ("zsh", "_millpond"), ("fish", "millpond.fish")] {
        let script = process::output_of(Command::new(&program).args(["completions", shell]))?;
        place::write(&place.join("share/completions").join(file), &script)?;
    }
    Ok(())
}

fn version(root: &Path) -> Result<Version, String> {
    let mut metadata = process::cargo(root);
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&process::output_of(&mut metadata)?)
        .map_err(|error| format!("cargo metadata: expected JSON, got: {error}"))?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let package = packages.iter().find(|package| package["name"] == "millpond-ffi");
    let full =
        package.and_then(|package| package["version"].as_str()).ok_or("millpond-ffi has no version")?;
    let major = full.split('.').next().unwrap_or_default().to_owned();
    Ok(Version { full: full.to_owned(), major })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_names_the_program_where_it_was_laid_out() {
        let unit = place::read(&crate::repository_root().join(UNIT)).unwrap();
        let here = unit_for(&unit, Path::new("/opt/pond/bin/millpond"));
        assert!(here.contains("\nExecStart=/opt/pond/bin/millpond serve --config /etc/"), "{here}");
        assert!(!here.contains(PROGRAM_OF_UNIT));
    }
}
