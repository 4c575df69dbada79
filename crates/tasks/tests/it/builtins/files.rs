//! `file_read` and `file_write` below an allowed directory, and nowhere else.
//!
//! The directories are real and full of traps: links that lead out, pipes that never end, names that climb.

use super::{Daemon, error};
use millpond_tasks::Symbols;
use millpond_tasks::config::{AllowSettings, BuiltinSettings, StreamSettings};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A directory that goes with the test: `allowed` in it, and something `outside`.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("builtins-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        fs::create_dir_all(folder.0.join("allowed/inner")).unwrap();
        fs::create_dir_all(folder.0.join("outside")).unwrap();
        fs::write(folder.0.join("outside/secret"), "secret").unwrap();
        folder
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn daemon(&self) -> Daemon {
        Daemon::with_files(&[self.at("allowed")])
    }

    /// A service that takes no more than ten bytes at once.
    fn tight_daemon(&self) -> Daemon {
        let allow = AllowSettings { files: vec![self.at("allowed")], ..AllowSettings::default() };
        Daemon::new(&BuiltinSettings { allow, files_bytes_max: 10, ..BuiltinSettings::default() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_is_read_whole_or_in_part() {
    let folder = Folder::new();
    let daemon = folder.daemon();
    fs::write(folder.at("allowed/inner/a.txt"), "0123456789é").unwrap();
    let path = folder.at("allowed/inner/a.txt");
    assert_eq!(
        daemon.run("file_read", json!({ "path": path })),
        json!({ "data": "0123456789é", "encoding": "utf8", "length": 12, "size": 12 })
    );
    let data = |args: Value| daemon.run("file_read", args)["data"].as_str().unwrap().to_owned();
    assert_eq!(data(json!({ "path": "inner/a.txt" })), "0123456789é", "from the only directory there is");
    assert_eq!(data(json!({ "path": path, "offset": 4, "length": 3 })), "456");
    assert_eq!(data(json!({ "path": path, "offset": 8, "length": 1000 })), "89é");
    assert_eq!(data(json!({ "path": path, "offset": 11 })), "qQ==", "half a character is no text");
    assert_eq!(data(json!({ "path": path, "offset": 99 })), "", "behind the end is nothing");
    assert_eq!(data(json!({ "path": path, "length": 2, "encoding": "base64" })), "MDE=");
    assert_eq!(
        daemon.fail("file_read", json!({ "path": path, "length": 11, "encoding": "utf8" })),
        error(
            "handler-error",
            "expected UTF-8, got the byte 0xc3 at offset 10; ask with \"encoding\": \"base64\""
        )
    );
}

#[test]
fn writing_creates_adds_or_replaces_as_it_is_told() {
    let folder = Folder::new();
    let daemon = folder.daemon();
    let path = folder.at("allowed/a.txt");
    let write = |data: &str, mode: &str| json!({ "path": path, "data": data, "mode": mode });
    assert_eq!(daemon.run("file_write", json!({ "path": path, "data": "one" })), json!({ "length": 3 }));
    assert_eq!(
        daemon.fail("file_write", json!({ "path": path, "data": "two" })),
        error(
            "handler-error",
            format!(
                "args.path: {path:?} exists; \"mode\": \"replace\" puts the data in its place, \
                 \"append\" adds to it"
            )
        )
    );
    assert_eq!(folder.text("allowed/a.txt"), "one", "to create is the default and destroys nothing");
    daemon.run("file_write", write(" two", "append"));
    assert_eq!(folder.text("allowed/a.txt"), "one two");
    daemon
        .run("file_write", json!({ "path": path, "data": "aGk=", "mode": "replace", "encoding": "base64" }));
    assert_eq!(folder.text("allowed/a.txt"), "hi");
    daemon.run("file_write", json!({ "path": "b.txt", "data": "new", "mode": "replace" }));
    daemon.run("file_write", json!({ "path": "c.txt", "data": "new", "mode": "append" }));
    assert_eq!(folder.names("allowed"), ["a.txt", "b.txt", "c.txt", "inner"], "and nothing is left beside");
}

#[test]
fn a_replaced_file_keeps_its_permissions() {
    let folder = Folder::new();
    let path = folder.at("allowed/a.sh");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    folder.daemon().run("file_write", json!({ "path": path, "data": "new", "mode": "replace" }));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn nothing_outside_is_read_or_written() {
    let folder = Folder::new();
    let daemon = folder.daemon();
    symlink(folder.at("outside"), folder.at("allowed/link")).unwrap();
    symlink(folder.at("outside/secret"), folder.at("allowed/secret")).unwrap();
    symlink("../outside/secret", folder.at("allowed/relative")).unwrap();
    symlink(folder.at("outside/new"), folder.at("allowed/dangling")).unwrap();
    fs::create_dir(folder.at("allowed-too")).unwrap();
    fs::write(folder.at("allowed-too/a"), "secret").unwrap();
    let outside = folder.at("outside/secret");
    let allowed = folder.at("allowed");
    let way = |way: &str| format!("{}/{way}", allowed.display());
    for path in [
        outside.display().to_string(),
        "/etc/passwd".to_owned(),
        folder.at("allowed-too/a").display().to_string(),
        way("../outside/secret"),
        way("inner/../../outside/secret"),
        way("link/secret"),
        way("secret"),
        way("relative"),
        way("link/new"),
        way("dangling"),
        "../outside/secret".to_owned(),
        "link/secret".to_owned(),
    ] {
        let (code, message) = daemon.fail("file_read", json!({ "path": path }));
        assert_eq!(code, "not-allowed", "{path}: {message}");
        for mode in ["create", "append", "replace"] {
            let (code, message) =
                daemon.fail("file_write", json!({ "path": path, "data": "evil", "mode": mode }));
            assert_eq!(code, "not-allowed", "{path}, {mode}: {message}");
        }
    }
    assert_eq!(folder.text("outside/secret"), "secret");
    assert_eq!(folder.names("outside"), ["secret"]);
    assert_eq!(folder.text("allowed-too/a"), "secret");
}

#[test]
fn a_refusal_says_which_path_and_why() {
    let folder = Folder::new();
    let daemon = folder.daemon();
    symlink("inner", folder.at("allowed/link")).unwrap();
    let path = |path: &str| folder.at(path).display().to_string();
    for (path, code, words) in [
        (
            path("outside/secret"),
            "not-allowed",
            "is not allowed: it lies below none of the directories in allow.files",
        ),
        (
            path("allowed/inner/../x"),
            "not-allowed",
            "is not allowed: `..` may lead out of the allowed directories; write the path without it",
        ),
        (
            path("allowed/link/x"),
            "not-allowed",
            "is not allowed: a symbolic link is on the way, and below an allowed directory none is followed",
        ),
        (path("allowed/inner"), "not-allowed", ": expected a regular file, got a directory"),
        (path("allowed/missing"), "handler-error", ": no such file or directory"),
        (
            path("allowed"),
            "bad-arguments",
            ": expected a file below an allowed directory, got the directory itself",
        ),
        ("".to_owned(), "bad-arguments", ": expected a path without zero bytes"),
        ("a\0b".to_owned(), "bad-arguments", ": expected a path without zero bytes"),
    ] {
        let (said, message) = daemon.fail("file_read", json!({ "path": path }));
        assert_eq!(said, code, "{message}");
        assert!(message.starts_with("args.path: \"") && message.ends_with(words), "{message}");
    }
    let gone = Daemon::with_files(&[folder.at("nowhere")]);
    let (code, message) = gone.fail("file_read", json!({ "path": path("nowhere/a") }));
    assert_eq!(code, "handler-error");
    assert!(
        message.starts_with("allow.files: \"") && message.ends_with(": no such file or directory"),
        "{message}"
    );
}

#[test]
fn with_several_directories_a_path_must_be_whole() {
    let folder = Folder::new();
    fs::write(folder.at("allowed/inner/a"), "inner").unwrap();
    let daemon = Daemon::with_files(&[folder.at("allowed/inner"), folder.at("outside")]);
    assert_eq!(daemon.run("file_read", json!({ "path": folder.at("outside/secret") }))["data"], "secret");
    assert_eq!(daemon.run("file_read", json!({ "path": folder.at("allowed/inner/a") }))["data"], "inner");
    let (code, message) = daemon.fail("file_read", json!({ "path": "a" }));
    assert_eq!(code, "bad-arguments");
    assert!(
        message.ends_with("expected an absolute path, because more than one directory is allowed"),
        "{message}"
    );
}

#[test]
fn only_regular_files_are_opened() {
    let folder = Folder::new();
    let daemon = folder.daemon();
    let pipe = folder.at("allowed/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The path of a socket must be short, so it is bound from where it lies.
    let socket = folder.at("allowed/socket");
    let _listener = UnixListener::bind(&socket).ok();
    let with_devices = Daemon::with_files(&[PathBuf::from("/dev")]);
    let mut cases = vec![
        (&daemon, pipe, "a pipe"),
        (&daemon, folder.at("allowed/inner"), "a directory"),
        (&with_devices, PathBuf::from("/dev/null"), "a device"),
        (&with_devices, PathBuf::from("/dev/zero"), "a device"),
    ];
    if socket.exists() {
        cases.push((&daemon, socket, "a socket"));
    }
    for (daemon, path, kind) in cases {
        let expected =
            error("not-allowed", format!("args.path: {path:?}: expected a regular file, got {kind}"));
        assert_eq!(daemon.fail("file_read", json!({ "path": path })), expected);
        for mode in ["create", "append", "replace"] {
            let args = json!({ "path": path, "data": "x", "mode": mode });
            assert_eq!(daemon.fail("file_write", args), expected, "{mode}");
        }
    }
}

#[test]
fn a_file_that_is_too_large_is_read_in_parts_or_as_a_stream() {
    let folder = Folder::new();
    let daemon = folder.tight_daemon();
    let path = folder.at("allowed/a");
    fs::write(&path, "0123456789").unwrap();
    assert_eq!(daemon.run("file_read", json!({ "path": path }))["length"], 10, "exactly the limit");
    fs::write(&path, "0123456789x").unwrap();
    assert_eq!(
        daemon.fail("file_read", json!({ "path": path })),
        error(
            "too-large",
            format!(
                "args.path: {path:?}: 11 bytes, and at most 10 are allowed; ask for a part with \
                 offset and length, or for a stream"
            )
        )
    );
    assert_eq!(daemon.run("file_read", json!({ "path": path, "offset": 1, "length": 99 }))["length"], 10);
    let (partials, result) = daemon.stream("file_read", json!({ "path": path, "stream": true }));
    assert_eq!(partials, [json!({ "data": "0123456789x", "encoding": "utf8" })]);
    assert_eq!(result, json!({ "length": 11, "size": 11 }));
    assert_eq!(
        daemon.fail("file_write", json!({ "path": "b", "data": "01234567890" })),
        error("too-large", "args.data: 11 bytes, and at most 10 are allowed; append it in parts")
    );
    assert!(!folder.at("allowed/b").exists());
}

#[test]
fn a_stream_brings_every_byte_in_order() {
    let folder = Folder::new();
    let allow = AllowSettings { files: vec![folder.at("allowed")], ..AllowSettings::default() };
    let settings = BuiltinSettings { allow, ..BuiltinSettings::default() };
    // Few and small partial results, so that the handler has to wait for its reader again and again.
    let stream = StreamSettings { chunk_bytes_max: 4096, chunks_max: 4, ..StreamSettings::default() };
    let daemon = Daemon::with(&settings, Symbols::new(), stream);
    let text: String = (0..40_000).map(|number| format!("{number}€\n")).collect();
    fs::write(folder.at("allowed/a"), &text).unwrap();
    let (partials, result) = daemon.stream("file_read", json!({ "path": "a", "stream": true }));
    let together: String = partials.iter().map(|piece| piece["data"].as_str().unwrap()).collect();
    assert!(together == text, "{} of {} bytes", together.len(), text.len());
    assert_eq!(result["length"], text.len());
    let (partials, result) =
        daemon.stream("file_read", json!({ "path": "a", "stream": true, "offset": 5, "length": 5 }));
    assert_eq!(partials, [json!({ "data": "1€\n", "encoding": "utf8" })]);
    assert_eq!(result["length"], 5);
}

#[test]
fn what_the_system_makes_up_is_read_although_it_has_no_size() {
    let daemon = Daemon::with_files(&[PathBuf::from("/proc")]);
    let version = daemon.run("file_read", json!({ "path": "version" }));
    assert!(version["data"].as_str().unwrap().starts_with("Linux"), "{version}");
    assert_eq!(version["size"], 0);
}
