//! The package for Debian and its kin: the daemon as a service that runs, with its pages, and no library.
//!
//! It is put together from what was laid out, moved to where Debian wants it, and built by `dpkg-deb`; texts and
//! scripts are in `packaging/debian`, with `@WORDS@` for what is known only now. Which libraries it needs is found out
//! by `dpkg-shlibdeps`. The configuration is a conffile: an upgrade leaves alone what somebody has changed. Programs
//! that link the library take the archive.
//!
//! Not here: whether the package does what it should (`inspect.rs`).

use super::place::{self, must};
use super::{Build, Version};
use crate::process;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the package is of.
pub(super) struct Built<'a> {
    pub(super) version: &'a Version,
    pub(super) how: Build,
    /// The time that its files bear.
    pub(super) moment: u64,
}

/// Whoever hands out packages says who they are, as Debian's tools expect it (`DEBFULLNAME`, `DEBEMAIL`).
const MAINTAINER: (&str, &str) = ("the millpond authors", "millpond@packages.invalid");

/// Builds the package out of what lies in `place`, and says where it is.
pub(super) fn pack(root: &Path, place: &Path, folder: &Path, built: &Built) -> Result<PathBuf, String> {
    let architecture =
        process::output_of(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let work = folder.join("debian-work");
    // Where Debian's tools expect the files of a package: in a folder of the sources.
    let tree = work.join("debian/millpond");
    place::clear(&tree)?;
    put_files(root, place, &tree)?;
    put_changelog(root, &tree, built)?;
    let control = tree.join("DEBIAN");
    place::write(&control.join("conffiles"), "/etc/millpond/millpond.toml\n")?;
    let depends = depends(&work)?;
    let words = [
        ("@VERSION@", built.version.full.clone()),
        ("@ARCHITECTURE@", architecture.clone()),
        ("@MAINTAINER@", maintainer()),
        ("@SIZE@", kilobytes(&tree)?.to_string()),
        ("@DEPENDS@", depends),
    ];
    let texts = root.join("packaging/debian");
    place::write(&control.join("control"), &filled(&place::read(&texts.join("control"))?, &words)?)?;
    for script in ["postinst", "prerm", "postrm"] {
        place::write_program(&control.join(script), &place::read(&texts.join(script))?)?;
    }
    place::write(&control.join("md5sums"), &sums(&tree)?)?;
    place::open_folders(&tree)?;
    let package = folder.join(format!("millpond_{}_{architecture}.deb", built.version.full));
    let mut build = Command::new("dpkg-deb");
    // A trial is not worth the wait for a small file.
    build.args(if built.how == Build::Release { ["-Zxz", "-z6"] } else { ["-Zgzip", "-z1"] });
    build.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package);
    must(build.env("SOURCE_DATE_EPOCH", built.moment.to_string()))?;
    fs::remove_dir_all(&work).map_err(|error| format!("{}: cannot be removed: {error}", work.display()))?;
    Ok(package)
}

/// Everything in the package but what is about the package.
fn put_files(root: &Path, place: &Path, tree: &Path) -> Result<(), String> {
    place::copy_program(&place.join("bin/millpond"), &tree.join("usr/bin/millpond"))?;
    for page in place::names(&place.join("share/man/man1"))? {
        let to = tree.join("usr/share/man/man1").join(&page);
        place::copy(&place.join("share/man/man1").join(&page), &to)?;
        place::squeeze(&to)?;
    }
    for (from, to) in [
        ("share/completions/millpond.bash", "usr/share/bash-completion/completions/millpond"),
        ("share/completions/_millpond", "usr/share/zsh/vendor-completions/_millpond"),
        ("share/completions/millpond.fish", "usr/share/fish/vendor_completions.d/millpond.fish"),
        ("share/millpond/millpond.toml", "etc/millpond/millpond.toml"),
        ("lib/sysusers.d/millpond.conf", "usr/lib/sysusers.d/millpond.conf"),
    ] {
        place::copy(&place.join(from), &tree.join(to))?;
    }
    let unit = place::read(&root.join(super::UNIT))?;
    place::write(&tree.join("lib/systemd/system/millpond.service"), &unit)?;
    let documents = tree.join("usr/share/doc/millpond");
    for name in place::names(&place.join("share/doc/millpond"))? {
        // Debian has the one text and wants the other in a form of its own.
        if name.starts_with("LICENSE") {
            continue;
        }
        let to = documents.join(&name);
        place::copy(&place.join("share/doc/millpond").join(&name), &to)?;
        if name == "third-party-licences" {
            place::squeeze(&to)?;
        }
    }
    let words = [("@MIT@", as_paragraph(&place::read(&root.join("LICENSE-MIT"))?))];
    let copyright = filled(&place::read(&root.join("packaging/debian/copyright"))?, &words)?;
    place::write(&documents.join("copyright"), &copyright)
}

/// What Debian's own tools read of what has changed; people read the one of the project.
fn put_changelog(root: &Path, tree: &Path, built: &Built) -> Result<(), String> {
    let date =
        process::output_of(Command::new("date").args(["-u", "-R", "-d", &format!("@{}", built.moment)]))?;
    let words = [
        ("@VERSION@", built.version.full.clone()),
        ("@MAINTAINER@", maintainer()),
        ("@DATE@", date.trim().to_owned()),
    ];
    let path = tree.join("usr/share/doc/millpond/changelog");
    place::write(&path, &filled(&place::read(&root.join("packaging/debian/changelog"))?, &words)?)?;
    place::squeeze(&path)
}

/// The packages with the libraries that the program is linked to.
fn depends(work: &Path) -> Result<String, String> {
    // The tool asks for the sources of a package; what these say does not matter to it.
    let control = "Source: millpond\n\nPackage: millpond\nArchitecture: any\n";
    place::write(&work.join("debian/control"), control)?;
    let mut tool = Command::new("dpkg-shlibdeps");
    tool.args(["-O", "debian/millpond/usr/bin/millpond"]).current_dir(work);
    let said = process::output_of(&mut tool)?;
    let found = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    found.map(str::to_owned).ok_or_else(|| format!("dpkg-shlibdeps: expected shlibs:Depends, got {said:?}"))
}

/// Puts what is known now in the place of the words: all of them are there, and no others.
fn filled(text: &str, words: &[(&str, String)]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (word, value) in words {
        if !text.contains(word) {
            return Err(format!("packaging/debian: expected {word} in the text, found none"));
        }
        text = text.replace(word, value);
    }
    let is_word = |token: &&str| !token.is_empty() && token.chars().all(|letter| letter.is_ascii_uppercase());
    match text.split('@').skip(1).step_by(2).find(is_word) {
        Some(word) => Err(format!("packaging/debian: @{word}@ is a word that nobody knows")),
        None => Ok(text),
    }
}

/// As Debian writes a text of several paragraphs in a field: a space before each line, a dot for an empty one.
fn as_paragraph(text: &str) -> String {
    let line = |line: &str| if line.trim().is_empty() { " .".to_owned() } else { format!(" {line}") };
    text.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

fn maintainer() -> String {
    let name = std::env::var("DEBFULLNAME").unwrap_or_else(|_| MAINTAINER.0.to_owned());
    let address = std::env::var("DEBEMAIL").unwrap_or_else(|_| MAINTAINER.1.to_owned());
    format!("{name} <{address}>")
}

/// The sum of the sizes of all files, each rounded up: what is installed, and the same wherever it is built.
fn kilobytes(tree: &Path) -> Result<u64, String> {
    let mut sizes = Command::new("find");
    sizes.arg(tree).args(["-type", "f", "-printf", "%s\n"]);
    let sizes = process::output_of(&mut sizes)?;
    Ok(sizes.lines().filter_map(|line| line.parse::<u64>().ok()).map(|size| size.div_ceil(1024)).sum())
}

/// By which `dpkg --verify` sees what was changed.
fn sums(tree: &Path) -> Result<String, String> {
    let mut files = Command::new("find");
    files.current_dir(tree).args(["usr", "lib", "-type", "f"]);
    let mut names: Vec<_> = process::output_of(&mut files)?.lines().map(str::to_owned).collect();
    names.sort();
    process::output_of(Command::new("md5sum").args(names).current_dir(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_text_that_are_missing_or_unknown_are_told() {
        let words = [("@A@", "1".to_owned()), ("@B@", "2".to_owned())];
        assert_eq!(filled("@A@ and @B@, @A@", &words), Ok("1 and 2, 1".to_owned()));
        assert!(filled("@A@", &words).unwrap_err().contains("@B@"));
        assert!(filled("@A@ @B@ @C@", &words).unwrap_err().contains("@C@"));
    }

    #[test]
    fn an_empty_line_of_a_field_is_a_dot() {
        assert_eq!(as_paragraph("one\n\ntwo\n"), " one\n .\n two");
    }
}
