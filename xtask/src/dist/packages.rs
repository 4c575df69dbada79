//! What is handed out: an archive for any Linux, a package for Debian, and their checksums, in one folder.
//!
//! The same files give the same bytes: names are sorted, owner and time are fixed, and rights are set. Whether the
//! compiler gives the same files is for it to say; the archive adds nothing of its own.
//!
//! Not here: what is in the archive (`dist.rs`) and in the package (`debian.rs`).

use super::place::{self, must};
use super::{Build, Version, debian};
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archive and the package.
pub(crate) struct Packages {
    pub(super) archive: PathBuf,
    pub(super) debian: PathBuf,
}

/// Packs what lies in `place` into `folder`, which is cleared.
pub(super) fn pack(
    root: &Path,
    place: &Path,
    folder: &Path,
    version: &Version,
    how: Build,
) -> Result<Packages, String> {
    place::clear(folder)?;
    let moment = place::moment(root)?;
    let name = format!("millpond-{}-{}-{}", version.full, std::env::consts::ARCH, std::env::consts::OS);
    let archive = folder.join(format!("{name}.tar.gz"));
    place::open_folders(place)?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    // A trial is not worth the wait for a small file.
    let level = if how == Build::Release { "-9" } else { "-1" };
    tar.arg(format!("--mtime=@{moment}")).arg(format!("--use-compress-program=gzip --no-name {level}"));
    tar.arg(format!("--transform=flags=r;s,^\\.,{name},")).arg("--file").arg(&archive);
    must(tar.arg("--directory").arg(place).arg("."))?;
    let debian = debian::pack(root, place, folder, &debian::Built { version, how, moment })?;
    write_sums(folder)?;
    Ok(Packages { archive, debian })
}

/// What `sha256sum --check` reads.
fn write_sums(folder: &Path) -> Result<(), String> {
    let mut sums = Command::new("sha256sum");
    sums.args(place::names(folder)?).current_dir(folder);
    place::write(&folder.join("SHA256SUMS"), &process::output_of(&mut sums)?)
}
