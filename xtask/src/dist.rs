//! `cargo xtask dist`: program, library, headers, manual pages and completions, as one would install them.
//!
//! ```text
//!   bin/millpond
//!   lib/libmillpond.so.0.1.0, .so.0, .so, .a      lib/pkgconfig/millpond.pc      lib/cmake/millpond/
//!   include/millpond/*.h      share/man/man1      share/completions      share/doc/millpond
//! ```
//!
//! The folder can be moved: pkg-config and CMake find the rest from where their own files are. With
//! `--prefix` it is laid out where the system looks, such as /usr/local; without, in the target folder and as
//! an archive beside it.
//!
//! Not here: whether a program can be built against it (`dist/trial.rs`), packages of distributions.

mod trial;

pub(crate) use trial::try_out;

use crate::process;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Args)]
pub(crate) struct DistArguments {
    /// Lay it out here, for example /usr/local, and make no archive
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Then build the C example against it, with pkg-config and with CMake, and run it
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
    let place = arguments.prefix.clone().unwrap_or_else(|| folder(root));
    lay_out(root, &place, arguments.prefix.is_none(), Build::Release)?;
    println!("laid out in {}", place.display());
    if arguments.prefix.is_none() {
        println!("packed into {}", pack(root, &place)?.display());
    }
    if arguments.check { try_out(root, &place) } else { Ok(true) }
}

/// Where it is laid out if nobody says.
pub(crate) fn folder(root: &Path) -> PathBuf {
    process::target_folder(root).join("dist")
}

/// Builds everything and puts it into its place. What lay there before goes only if the place is ours.
pub(crate) fn lay_out(root: &Path, place: &Path, is_ours: bool, how: Build) -> Result<(), String> {
    let version = version(root)?;
    let built = build(root, &version, how)?;
    if is_ours && place.exists() {
        fs::remove_dir_all(place)
            .map_err(|error| format!("{}: cannot be cleared: {error}", place.display()))?;
    }
    copy(&built.join("millpond"), &place.join("bin/millpond"))?;
    let names = [
        format!("libmillpond.so.{}", version.full),
        format!("libmillpond.so.{}", version.major),
        "libmillpond.so".to_owned(),
    ];
    let lib = place.join("lib");
    copy(&built.join("libmillpond.so"), &lib.join(&names[0]))?;
    copy(&built.join("libmillpond.a"), &lib.join("libmillpond.a"))?;
    for file in [place.join("bin/millpond"), lib.join(&names[0]), lib.join("libmillpond.a")] {
        must(Command::new("strip").arg("--strip-debug").arg(&file))?;
    }
    for (target, link) in [(&names[0], &names[1]), (&names[1], &names[2])] {
        let link = lib.join(link);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).map_err(|error| cannot(&link, &error))?;
        }
        std::os::unix::fs::symlink(target, &link).map_err(|error| cannot(&link, &error))?;
    }
    for header in ["threadpool.h", "symbol_table.h", "connection_queue.h"] {
        copy(&root.join("crates/ffi/include").join(header), &place.join("include/millpond").join(header))?;
    }
    for text in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "docs/c.md"] {
        let name = Path::new(text).file_name().unwrap_or_default();
        copy(&root.join(text), &place.join("share/doc/millpond").join(name))?;
    }
    write(&lib.join("pkgconfig/millpond.pc"), &pkg_config(&version))?;
    write(&lib.join("cmake/millpond/millpond-config.cmake"), &cmake(&version))?;
    write(&lib.join("cmake/millpond/millpond-config-version.cmake"), &cmake_version(&version))?;
    from_the_program(place)
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
        write(&place.join("share/completions").join(file), &script)?;
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

fn pkg_config(version: &Version) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include/millpond\n\n\
         Name: millpond\nDescription: A worker pool you can link, run or join\nVersion: {}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lmillpond\nLibs.private: -lpthread -lm -ldl\n",
        version.full
    )
}

fn cmake(version: &Version) -> String {
    let Version { full, major } = version;
    format!(
        "# millpond::millpond is the shared library, millpond::static the other.\n\
         get_filename_component(_millpond \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)\n\n\
         if(NOT TARGET millpond::millpond)\n  add_library(millpond::millpond SHARED IMPORTED)\n  \
         set_target_properties(millpond::millpond PROPERTIES\n    \
         IMPORTED_LOCATION \"${{_millpond}}/lib/libmillpond.so.{full}\"\n    \
         IMPORTED_SONAME \"libmillpond.so.{major}\"\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{_millpond}}/include/millpond\")\nendif()\n\n\
         if(NOT TARGET millpond::static)\n  add_library(millpond::static STATIC IMPORTED)\n  \
         set_target_properties(millpond::static PROPERTIES\n    \
         IMPORTED_LOCATION \"${{_millpond}}/lib/libmillpond.a\"\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{_millpond}}/include/millpond\"\n    \
         INTERFACE_LINK_LIBRARIES \"pthread;m;dl\")\nendif()\n\nunset(_millpond)\n"
    )
}

/// A later release with the same first number will do; while that is 0, one with the same second number.
fn cmake_version(version: &Version) -> String {
    let mut parts = version.full.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let same = if major == "0" { format!("{major}.{minor}") } else { major.to_owned() };
    format!(
        "set(PACKAGE_VERSION \"{}\")\n\
         if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION\n   OR NOT \"${{PACKAGE_FIND_VERSION}}.\" MATCHES \
         \"^{}\\\\.\")\n  set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n  \
         if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n    set(PACKAGE_VERSION_EXACT TRUE)\n  \
         endif()\nendif()\n",
        version.full,
        same.replace('.', "\\\\.")
    )
}

/// An archive beside the folder. The same files give the same bytes.
fn pack(root: &Path, place: &Path) -> Result<PathBuf, String> {
    let version = version(root)?.full;
    let name = format!("millpond-{version}-{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let archive = process::target_folder(root).join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--gzip",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
    ]);
    tar.arg(format!("--transform=s,^\\.,{name},"))
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(place)
        .arg(".");
    must(&mut tar)?;
    Ok(archive)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_folder(to)?;
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: cannot be copied: {error}", from.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    make_folder(path)?;
    fs::write(path, text).map_err(|error| cannot(path, &error))
}

fn make_folder(around: &Path) -> Result<(), String> {
    let folder = around.parent().unwrap_or(around);
    fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: cannot be written: {error}", path.display())
}

/// Runs a command that the rest needs.
fn must(command: &mut Command) -> Result<(), String> {
    if process::run_in_the_open(command)? {
        Ok(())
    } else {
        Err(format!("{} failed", process::shown(command)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_pkg_config_and_cmake_name_no_folder_of_this_machine() {
        let version = Version { full: "0.1.0".to_owned(), major: "0".to_owned() };
        for text in [pkg_config(&version), cmake(&version), cmake_version(&version)] {
            let root = crate::repository_root();
            assert!(!text.contains(&root.display().to_string()), "{text}");
            assert!(text.contains("0.1.0"), "{text}");
        }
        assert!(pkg_config(&version).starts_with("prefix=${pcfiledir}/../..\n"));
    }
}
