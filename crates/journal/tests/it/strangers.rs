//! Directories that are in use, unreadable, or hold files of somebody else are refused by name.
//!
//! A journal never writes into a directory that it does not understand.

use crate::house::{House, add, open};
use millpond_journal::OpenError;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_second_opening_is_told_who_has_the_directory() {
    let house = House::new("twice");
    let (journal, _, _) = open(house.config()).unwrap();
    let error = open(house.config()).unwrap_err();
    assert_eq!(error.code(), "journal-locked");
    let text = error.to_string();
    assert!(text.contains(&format!("(pid {})", std::process::id())), "{text}");
    assert!(text.starts_with(&house.path().join("journal").display().to_string()), "{text}");
    drop(journal);
    open(house.config()).unwrap();
}

#[test]
fn files_of_strangers_are_left_alone_unless_they_have_our_names() {
    let house = House::new("strangers");
    drop(open(house.config()).unwrap());
    fs::write(house.file("notes.txt"), "mine").unwrap();
    drop(open(house.config()).unwrap());
    assert_eq!(fs::read(house.file("notes.txt")).unwrap(), b"mine");
    let path = house.file("log-0000000000000002.mill");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    let error = open(house.config()).unwrap_err();
    assert_eq!(error.code(), "journal-foreign");
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"#!/bin/sh\n");
}

#[test]
fn a_file_of_another_log_is_refused() {
    let (house, other) = (House::new("one"), House::new("other"));
    for house in [&house, &other] {
        let (journal, _, _) = open(house.config()).unwrap();
        (0..100).for_each(|number| add(&journal, number).unwrap());
    }
    let name = house.files()[1].clone();
    fs::copy(other.file(&name), house.file(&name)).unwrap();
    let error = open(house.config()).unwrap_err();
    assert!(matches!(&error, OpenError::Mixed { path } if path.ends_with(&name)), "{error}");
}

#[test]
fn a_file_of_a_newer_release_is_refused_as_such() {
    let house = House::new("newer");
    drop(open(house.config()).unwrap());
    let path = house.file("log-0000000000000001.mill");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    bytes[2048 + 8] = 2;
    fs::write(&path, &bytes).unwrap();
    let error = open(house.config()).unwrap_err();
    assert_eq!(error.code(), "journal-version");
    assert!(error.to_string().contains("format 2, this build reads 1"), "{error}");
}

#[test]
fn what_may_not_be_read_or_written_is_named() {
    if rustix_is_root() {
        // Root may read everything, so there is nothing to see; a directory in the way works for everybody.
        let house = House::new("in the way");
        fs::write(house.path().join("journal"), "a file").unwrap();
        let error = open(house.config()).unwrap_err();
        assert!(matches!(&error, OpenError::Io { path, .. } if path.ends_with("journal")), "{error}");
        return;
    }
    let house = House::new("forbidden");
    drop(open(house.config()).unwrap());
    let path = house.file("log-0000000000000001.mill");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let error = open(house.config()).unwrap_err().to_string();
    assert!(error.starts_with(&path.display().to_string()), "{error}");
    assert!(error.contains("let the user who runs this own the directory"), "{error}");
}

/// Whether this process may read everything.
fn rustix_is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

#[test]
fn the_directory_and_its_files_are_for_their_owner_only() {
    let house = House::new("private");
    let (journal, _, _) = open(house.config()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&house.path().join("journal")), 0o700);
    for name in ["lock", "log-0000000000000001.mill"] {
        assert_eq!(mode(&house.file(name)), 0o600, "{name}");
    }
    drop(journal);
}

#[test]
fn what_a_crash_left_unfinished_is_removed() {
    let house = House::new("parts");
    drop(open(house.config()).unwrap());
    for name in ["spare.part", "snapshot.part", "spill-0000000000000009.mill"] {
        fs::write(house.file(name), "half").unwrap();
    }
    let (journal, _, recovery) = open(house.config()).unwrap();
    assert_eq!(recovery.files_removed, 3);
    drop(journal);
    assert_eq!(house.files(), ["log-0000000000000001.mill"]);
}

#[test]
fn large_payloads_without_their_log_are_not_removed() {
    let house = House::new("orphans");
    fs::create_dir(house.path().join("journal")).unwrap();
    fs::write(house.file("spill-0000000000000009.mill"), "precious").unwrap();
    let error = open(house.config()).unwrap_err();
    assert_eq!(error.code(), "journal-damaged");
    assert!(house.file("spill-0000000000000009.mill").exists());
}
