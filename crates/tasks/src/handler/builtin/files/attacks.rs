//! The step-by-step walk, which runs only where the kernel lacks `openat2`, held to the same promises.
//!
//! Both ways are led through the same directories full of links, and must agree on every path: on what they
//! find, and on what they refuse.

use super::beneath::Place;
use crate::error::ErrorCode;
use rustix::fs::OFlags;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A directory that goes with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("millpond-walk-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).unwrap();
        folder
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(super) fn place(&self, name: &str) -> Place {
        Place::find(std::slice::from_ref(&self.0), name).unwrap()
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What comes of a path: the text of the file, or the code of the refusal.
fn read(place: Result<Place, crate::TaskFailure>) -> Result<String, ErrorCode> {
    let mut file = place.and_then(|place| place.open(OFlags::RDONLY)).map_err(|failure| failure.code)?;
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn the_kernel_and_the_walk_agree_on_every_path() {
    let folder = Folder::new();
    let at = |path: &str| folder.at(path);
    fs::create_dir_all(at("allowed/a/b")).unwrap();
    fs::create_dir_all(at("outside/b")).unwrap();
    fs::write(at("outside/secret"), "secret").unwrap();
    fs::write(at("outside/b/file"), "secret").unwrap();
    for path in ["allowed/file", "allowed/a/file", "allowed/a/b/file"] {
        fs::write(at(path), "fine").unwrap();
    }
    let link = |to: &Path, from: &str| symlink(to, at(from)).unwrap();
    link(&at("outside"), "allowed/out");
    link(&at("outside/secret"), "allowed/secret");
    link(Path::new("../../outside"), "allowed/a/out");
    link(Path::new("b"), "allowed/a/inside");
    link(Path::new("/proc/self/root"), "allowed/magic");
    link(Path::new("loop"), "allowed/loop");
    let allowed = [at("allowed")];
    let refused = Err(ErrorCode::NotAllowed);
    let failed = Err(ErrorCode::HandlerError);
    for (path, expected) in [
        ("file", Ok("fine")),
        ("./file", Ok("fine")),
        ("a/file", Ok("fine")),
        ("a/./b//file", Ok("fine")),
        ("a/b/file", Ok("fine")),
        ("a/missing", failed),
        ("missing/file", failed),
        ("file/file", failed),
        ("a", refused),
        ("secret", refused),
        ("out/secret", refused),
        ("a/out/secret", refused),
        ("out/b/file", refused),
        ("a/inside/file", refused),
        ("a/inside", refused),
        ("loop", refused),
        ("loop/file", refused),
        ("magic/etc/passwd", refused),
        ("../outside/secret", refused),
        ("a/../file", refused),
        ("a/../../outside/secret", refused),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(read(Place::find(&allowed, path)), expected, "{path}, by the kernel");
        assert_eq!(read(Place::find_by_walking(&allowed, path)), expected, "{path}, step by step");
    }
}
