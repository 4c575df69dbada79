//! Who comes to the socket and does not belong there: another user, a silent one, one who talks nonsense.
//!
//! The directory and the socket keep other users out; if somebody opens those by mistake, the kernel is asked who is
//! there. Programs of the same user may do anything to their own memory (`door/hostile.rs`), but not to others.

use crate::house::{House, LONG, directory, request, until};
use millpond_shm::{Client, MEMORY_SOCKET_NAME};
use std::env;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

fn hello(layout: u32) -> String {
    let plan = r#"{"slots":64,"slot_bytes":128,"arena_bytes":256}"#;
    format!("{{\"layout\":{layout},\"plan\":{plan},\"program\":\"x\"}}\n")
}

#[test]
fn nonsense_is_answered_in_words_and_the_door_stays_open() {
    let house = House::build();
    let path = house.directory.join(MEMORY_SOCKET_NAME);
    for (bytes, words) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "hello"),
        (b"{}\n", "hello"),
        (hello(2).as_bytes(), "layout 2"),
        (hello(1).as_bytes(), "descriptor"),
        (&[b'x'; 4000], "one line"),
    ] {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(bytes).unwrap();
        let mut answer = String::new();
        // A socket that still had bytes to be read is reset after its last word.
        let _ = socket.read_to_string(&mut answer);
        assert!(answer.contains("\"welcome\":false") && answer.contains(words), "{answer}");
    }
    // Somebody who says nothing keeps nobody else out, and is sent away.
    let mut silent = UnixStream::connect(&path).unwrap();
    let client = house.client();
    let number = client.try_submit(&request("echo", "{}")).unwrap();
    assert_eq!(client.wait(number, LONG).unwrap().unwrap().status, 0);
    let mut answer = String::new();
    silent.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("within a second"), "{answer}");
    assert_eq!(house.stats().refused, 6);
}

/// Not a test: what another user does. Without an order it does nothing.
#[test]
fn the_other_user_of_the_next_test() {
    let Ok(name) = env::var("MILLPOND_OTHER_USER") else { return };
    println!("client: {}", Client::attach(&name).unwrap_err());
    // Without the client, which would not even knock at somebody else's door.
    let mut answer = String::new();
    let knock = UnixStream::connect(std::path::Path::new(&name).join(MEMORY_SOCKET_NAME));
    let heard = knock.and_then(|mut socket| socket.read_to_string(&mut answer));
    println!("door: {heard:?} {answer}");
}

#[test]
fn another_user_is_kept_out_by_the_directory_and_by_the_door_itself() {
    let house = House::build();
    let socket = house.directory.join(MEMORY_SOCKET_NAME);
    assert_eq!((mode(&house.directory), mode(&socket)), (0o700, 0o600));
    if !is_root() {
        // Only root can be somebody else; what keeps others out has been looked at above.
        return;
    }
    let folder = directory("other");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("other");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let ask = || {
        let mut command = Command::new(&program);
        command.args(["--exact", "strangers::the_other_user_of_the_next_test", "--nocapture"]);
        command.env("MILLPOND_OTHER_USER", house.name()).current_dir("/").uid(65_534).gid(65_534);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let answer = ask();
    assert!(answer.contains("Permission denied") && answer.contains("door: Err"), "{answer}");
    // Even if somebody opens the directory and the socket to all.
    fs::set_permissions(&house.directory, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let answer = ask();
    assert!(answer.contains("client: ") && answer.contains("belongs to user 0"), "{answer}");
    assert!(answer.contains("user 65534 may not attach"), "{answer}");
    until("both were counted", || house.stats().refused == 2);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let (real, link) = (directory("real"), directory("link"));
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let opened = std::panic::catch_unwind(|| {
        House::at(&link, millpond_tasks::ServiceConfig::default(), crate::house::door_settings())
    });
    assert!(opened.is_err(), "the door was opened behind a link");
    fs::remove_file(link).unwrap();
    fs::remove_dir_all(real).unwrap();
}
