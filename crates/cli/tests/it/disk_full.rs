//! A disk that is really full: a small file system of its own under the journal of a daemon.
//!
//! Submissions are refused with `journal-full`, looking goes on, and when somebody has made room the daemon takes tasks
//! again, by itself. What it acknowledged before, meanwhile and after is there when it was killed; what it refused is
//! not.
//!
//! The file system is a tmpfs in namespaces of its own, which needs no rights but those to make namespaces. Where the
//! system allows none, these tests fail and say so.

use crate::daemon::{Folder, signal};
use millpond_local::{Client, Flags, Kind};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes so long, unless it never happens.
const SOON: Duration = Duration::from_secs(60);

/// Room for two segments and a bit, and a file to make room by removing it.
const SETTINGS: &str = r#"
workers = 2
journal.segment_bytes = "8 MiB"
mailbox.enabled = false
memory_door.enabled = false
web.enabled = false

[handler.gate]
command = ["sh", "-c", '''
while read -r line; do
    until [ -e open ]; do sleep 0.05; done
    echo '{"result":7}'
done
''']
"#;
const SIZE: &str = "size=36m,mode=0700";
const FILLER_MEGABYTES: &str = "16";

/// Mounts, says so, and then starts a daemon for each line that it reads, one after the other.
const SCRIPT: &str = r#"
mount -t tmpfs -o "$1" millpond disk || exit 9
dd if=/dev/zero of=disk/filler bs=1M count="$2" 2>/dev/null || exit 8
echo mounted
shift 2
while read -r line; do "$@"; done
"#;

/// A file system, and whoever keeps it alive.
struct Disk {
    folder: Folder,
    keeper: Child,
    orders: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    daemon: Option<u32>,
}

impl Disk {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("millpond.toml", SETTINGS);
        fs::create_dir(folder.path().join("disk")).unwrap();
        let run = folder.path().join("run").display().to_string();
        let journal = folder.path().join("disk/journal").display().to_string();
        let daemon = folder.millpond(&["serve", "--json", "--journal", &journal, "--runtime-dir", &run]);
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            SCRIPT,
            "sh",
            SIZE,
            FILLER_MEGABYTES,
        ]);
        command.arg(daemon.get_program()).args(daemon.get_args()).current_dir(folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("MILLPOND_")) {
                command.env_remove(name);
            }
        }
        let mut keeper =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is an unshare");
        let orders = keeper.stdin.take();
        let lines = BufReader::new(keeper.stdout.take().unwrap());
        let mut disk = Self { folder, keeper, orders, lines, daemon: None };
        assert_eq!(
            disk.line(),
            "mounted\n",
            "a tmpfs cannot be mounted in namespaces here, so a full disk cannot be tried; allow user namespaces"
        );
        disk
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn start(&mut self) -> Client {
        self.orders.as_mut().unwrap().write_all(b"start\n").unwrap();
        let line = self.line();
        let hello: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the daemon said {line:?}"));
        self.daemon = hello["pid"].as_u64().map(|pid| u32::try_from(pid).unwrap());
        self.client()
    }

    fn client(&self) -> Client {
        Client::connect(&self.folder.path().join("run/control.sock")).unwrap()
    }

    fn kill(&mut self) {
        signal("KILL", self.daemon.take().unwrap());
    }

    /// The file system as seen from outside of its namespace.
    fn inside(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.daemon.unwrap()));
        root.join(self.folder.path().strip_prefix("/").unwrap()).join("disk").join(name)
    }

    fn millpond(&self, arguments: &[&str]) -> crate::daemon::Ran {
        let run = self.folder.path().join("run").display().to_string();
        self.folder.run(&[arguments, &["--runtime-dir", &run]].concat())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Without orders its keeper ends when the daemon does, and the file system with it.
        drop(self.orders.take());
        if let Some(daemon) = self.daemon.take() {
            signal("KILL", daemon);
        }
        let _ = self.keeper.wait();
    }
}

/// Hands in a task that runs tomorrow, with so many bytes of arguments: its id, or why it was refused.
fn submit(client: &mut Client, number: u64, bytes: usize) -> Result<Value, Value> {
    let padding = "x".repeat(bytes);
    let request = json!({
        "task_id": number, "handler": "echo", "args": { "padding": padding }, "delay_ms": 86_400_000,
    });
    client.send(Kind::Submit, Flags::NONE, number, request.to_string().as_bytes()).unwrap();
    let frame = client.receive().unwrap();
    let answer: Value = serde_json::from_slice(frame.payload).unwrap();
    if frame.kind == Kind::Accepted { Ok(answer["task_id"].clone()) } else { Err(answer) }
}

/// Whether the daemon knows the task.
fn knows(client: &mut Client, number: u64) -> bool {
    client.send(Kind::Get, Flags::NONE, 1, json!({ "task_id": number }).to_string().as_bytes()).unwrap();
    client.receive().unwrap().kind == Kind::Status
}

/// Hands in tasks until there is no room, not even for a small one. Gives what was accepted and what was refused.
fn fill(client: &mut Client) -> (Vec<u64>, Vec<u64>) {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for bytes in [40_000, 4_000, 10] {
        loop {
            let number = (accepted.len() + refused.len()) as u64;
            match submit(client, number, bytes) {
                Ok(_) => accepted.push(number),
                Err(refusal) => {
                    assert_eq!(refusal["error"], "journal-full", "{refusal}");
                    assert!(refusal["retry_after_ms"].as_u64() > Some(0), "when to come again: {refusal}");
                    let message = refusal["message"].as_str().unwrap();
                    assert!(message.contains("No space left on device"), "{refusal}");
                    assert!(message.contains("make room on the disk"), "{refusal}");
                    refused.push(number);
                    break;
                }
            }
            assert!(number < 100_000, "the disk does not become full");
        }
    }
    (accepted, refused)
}

#[test]
fn a_full_disk_refuses_what_is_new_and_recovers_with_all_that_was_acknowledged() {
    let mut disk = Disk::new();
    let mut client = disk.start();
    let running = r#"{"task_id": "running", "handler": "sleep", "args": {"ms": 600000}}"#;
    client.send(Kind::Submit, Flags::NONE, 1, running.as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().kind, Kind::Accepted);

    let (mut accepted, refused) = fill(&mut client);
    assert!(accepted.len() > 300, "there was room for {}", accepted.len());
    let ran = disk.millpond(&["submit", r#"{"handler": "echo"}"#]);
    assert!(ran.code != Some(0) && ran.err.contains("journal-full (-118)"), "{ran:?}");

    // Looking goes on.
    assert!(accepted.iter().all(|number| knows(&mut client, *number)));
    assert!(!refused.iter().any(|number| knows(&mut client, *number)), "what was refused is not there");
    assert!(disk.millpond(&["get", "running"]).with_code(0).out.contains("running"));
    assert_eq!(disk.millpond(&["ls", "--max", "20", "--json"]).with_code(0).json().len(), 20);
    let stats = disk.millpond(&["stats", "--json"]).with_code(0).json().remove(0);
    assert_eq!(stats["journal"]["state"], "full", "{}", stats["journal"]);

    // Somebody makes room, and it goes on without a restart.
    fs::remove_file(disk.inside("filler")).unwrap();
    let begun = Instant::now();
    let mut next = 1_000_000;
    while let Err(refusal) = submit(&mut client, next, 10) {
        assert_eq!(refusal["error"], "journal-full", "{refusal}");
        assert!(begun.elapsed() < SOON, "there is room, and still: {refusal}");
        std::thread::sleep(Duration::from_millis(refusal["retry_after_ms"].as_u64().unwrap().min(500)));
        next += 1;
    }
    accepted.push(next);
    for number in next + 1..next + 50 {
        submit(&mut client, number, 10_000).unwrap();
        accepted.push(number);
    }
    let stats = disk.millpond(&["stats", "--json"]).with_code(0).json().remove(0);
    assert_eq!(stats["journal"]["state"], "ok", "{}", stats["journal"]);

    disk.kill();
    let mut client = disk.start();
    let lost: Vec<&u64> = accepted.iter().filter(|number| !knows(&mut client, **number)).collect();
    assert!(lost.is_empty(), "acknowledged and gone: {lost:?}");
    assert!(!refused.iter().any(|number| knows(&mut client, *number)), "what was refused came back");
    assert!(disk.millpond(&["get", "running"]).with_code(0).out.contains("running"));
}

#[test]
fn a_task_that_ends_on_a_full_disk_is_told_once_there_is_room() {
    let mut disk = Disk::new();
    let mut client = disk.start();
    let mut waiting = disk.client();
    // It ends when a file is there that is none of the small disk's.
    let request = r#"{"task_id": "late", "handler": "gate"}"#;
    waiting.send(Kind::Submit, Flags::RESULT | Flags::ACK, 1, request.as_bytes()).unwrap();
    assert_eq!(waiting.receive().unwrap().kind, Kind::Accepted);
    let (_, refused) = fill(&mut client);
    assert!(!refused.is_empty());
    disk.folder.write("open", "");
    // Its end may find the last few bytes; if not, it is told when there is more room.
    let told = waiting.receive_timeout(Duration::from_secs(1)).unwrap().map(|frame| frame.payload.to_vec());
    fs::remove_file(disk.inside("filler")).unwrap();
    let told = told
        .unwrap_or_else(|| waiting.receive_timeout(SOON).unwrap().expect("its end is told").payload.to_vec());
    let end: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!((&end["status"], &end["result"]), (&json!(0), &json!(7)), "{end}");
    disk.kill();
    let mut client = disk.start();
    client.send(Kind::Get, Flags::NONE, 1, br#"{"task_id": "late"}"#).unwrap();
    let frame = client.receive().unwrap();
    let after = String::from_utf8_lossy(frame.payload).into_owned();
    assert!(!after.contains("\"stage\":\"running\""), "what was told to have ended runs again: {after}");
}
