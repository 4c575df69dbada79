//! The private directory: made, checked, and given to one daemon at a time.
//!
//! The messages are what an operator has to go by, so they are held to the letter where no path is in the
//! way.

use crate::start::{Daemon, Directory};
use millpond_local::{ControlDoor, ControlSettings, SOCKET_NAME};
use millpond_tasks::{Log, RuntimeDir};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn open_door(daemon: &Daemon, path: &Path) -> io::Result<ControlDoor> {
    let settings = ControlSettings { path: path.join(SOCKET_NAME), ..ControlSettings::default() };
    ControlDoor::open(settings, daemon.service.handle(), Log::silent())
}

#[test]
fn directory_and_socket_are_made_private() {
    let daemon = Daemon::start();
    let socket = daemon.door().path();
    assert_eq!(mode(socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    assert_eq!(mode(&socket.with_file_name("control.lock")), 0o600);
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let directory = Directory::new();
    for wrong in [0o755, 0o701, 0o770, 0o500] {
        set_mode(directory.path(), wrong);
        let error = RuntimeDir::open(directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let path = directory.path().display();
        let uid = fs::metadata(directory.path()).unwrap().uid();
        let expected = format!(
            "{path}: expected a directory of user {uid} with mode 0700, got mode {wrong:04o}; chmod 700 \
             {path}, or use --runtime-dir"
        );
        assert_eq!(error.to_string(), expected);
    }
    set_mode(directory.path(), 0o700);
    RuntimeDir::open(directory.path()).unwrap();
}

#[test]
fn a_link_or_a_file_in_its_place_is_refused() {
    let directory = Directory::new();
    let real = directory.path().join("real");
    RuntimeDir::open(&real).unwrap();
    let link = directory.path().join("link");
    symlink(&real, &link).unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    // A slash or a dot at the end would make the system follow the link.
    for path in ["link", "link/", "link/.", "file"] {
        let error = RuntimeDir::open(&directory.path().join(path)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}: {error}");
        assert!(error.to_string().ends_with("got a link or a file; remove it"), "{error}");
    }
}

#[test]
fn a_folder_that_is_missing_around_it_is_not_made() {
    let directory = Directory::new();
    let error = RuntimeDir::open(&directory.path().join("a/b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().ends_with("; make the folder around it, or use --runtime-dir"), "{error}");
}

#[test]
fn a_second_daemon_is_told_of_the_first() {
    let daemon = Daemon::start();
    let path = daemon.door().path().parent().unwrap();
    let error = open_door(&daemon, path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    let expected =
        format!("a millpond is already running here (pid {}); use --runtime-dir", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
    assert!(daemon.door().path().exists(), "and the first one's socket is left alone");

    // Somebody tidied up the lock: then the socket itself is asked.
    fs::remove_file(daemon.door().path().with_file_name("control.lock")).unwrap();
    let error = open_door(&daemon, path).unwrap_err();
    assert!(error.to_string().contains(&expected), "{error}");
    drop(daemon.client());
}

#[test]
fn a_socket_that_nobody_answers_is_replaced() {
    let daemon = Daemon::start();
    let directory = Directory::new();
    set_mode(directory.path(), 0o700);
    let socket = directory.path().join(SOCKET_NAME);
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists(), "as a killed daemon leaves it");
    fs::write(directory.path().join("control.lock"), "999999\n").unwrap();
    let door = open_door(&daemon, directory.path()).unwrap();
    millpond_local::Client::connect(door.path()).unwrap();
}

#[test]
fn a_file_in_the_place_of_the_socket_is_left_alone() {
    let daemon = Daemon::start();
    let directory = Directory::new();
    set_mode(directory.path(), 0o700);
    fs::write(directory.path().join(SOCKET_NAME), "precious").unwrap();
    let error = open_door(&daemon, directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("got another kind of file; remove it"), "{error}");
    assert_eq!(fs::read_to_string(directory.path().join(SOCKET_NAME)).unwrap(), "precious");
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_told_before_anything_is_made() {
    let daemon = Daemon::start();
    let directory = Directory::new();
    let long = directory.path().join("x".repeat(100));
    let error = open_door(&daemon, &long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().ends_with("use a shorter --runtime-dir"), "{error}");
    assert!(!long.exists());
}

/// Says the kind of the first frame, and its payload.
const STRANGER: &str = "
import socket, struct, sys
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
stream = stream.makefile('rb')
length, kind = struct.unpack('<IB11x', stream.read(16))
print(kind, stream.read(length).decode(), stream.read())
";

#[test]
fn a_client_of_another_user_is_turned_away_even_if_the_files_let_it_in() {
    let daemon = Daemon::start();
    let socket = daemon.door().path();
    if fs::metadata(socket).unwrap().uid() != 0 {
        println!("not checked: only root can start a process of another user");
        return;
    }
    set_mode(socket.parent().unwrap(), 0o755);
    set_mode(socket, 0o666);
    let mut stranger = Command::new("python3");
    let output = stranger.args(["-c", STRANGER]).arg(socket).uid(65534).gid(65534).current_dir("/").output();
    let output = output.expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.starts_with("69 "),
        "ERROR and no HELLO: {said} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("expected a client of user 0 or of root, got one of user 65534"), "{said}");
    assert!(said.trim_end().ends_with("b''"), "and nothing after it: {said}");
}

#[test]
fn a_lock_is_given_back_with_its_owner() {
    let directory = Directory::new();
    set_mode(directory.path(), 0o700);
    let runtime_dir = RuntimeDir::open(directory.path()).unwrap();
    let lock = runtime_dir.lock("some.lock").unwrap();
    let error = runtime_dir.lock("some.lock").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    runtime_dir.lock("another.lock").unwrap();
    drop(lock);
    runtime_dir.lock("some.lock").unwrap();
}
