//! Daemons on one queue, each a process with a folder and a name of its own, and the handlers they share.
//!
//! Handlers write down each execution in one file of the whole crew, by one short write to its end, before they do
//! anything else: a daemon that is killed in the middle has still left its line.
//!
//! Not here: what is read out of that file (`books.rs`).

use super::{Engine, LEASE};
use crate::daemon::{Folder, Ran, signal};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

pub(super) const QUEUE: &str = "it";

/// A server, and the folder in which its store and the crew's file lie.
pub(super) struct Crew {
    pub(super) engine: Engine,
    /// The same for all members.
    pub(super) lease: Duration,
    folder: Folder,
}

impl Crew {
    pub(super) fn new() -> Self {
        Self::at(Ipv4Addr::LOCALHOST)
    }

    /// With a server that listens at this address of the machine.
    pub(super) fn at(host: Ipv4Addr) -> Self {
        let folder = Folder::new();
        let engine = Engine::start(host, folder.path());
        Self { engine, lease: LEASE, folder }
    }

    /// Where executions are written down.
    pub(super) fn executions(&self) -> PathBuf {
        self.folder.path().join("executions")
    }

    /// A daemon that is not started yet.
    pub(super) fn member(&self, name: &'static str) -> Member {
        self.member_by(name, self.engine.address(), "")
    }

    /// With settings of its own, and a server that it knows by another address.
    pub(super) fn member_by(&self, name: &'static str, server: SocketAddr, rest: &str) -> Member {
        let place = self.folder.path().display();
        let lease = self.lease.as_secs();
        let settings = format!(
            r#"
workers = 2
mailbox.enabled = false
memory_door.enabled = false
web.enabled = false
drain_timeout = "1s"
allow.files = ["{place}"]
nats.url = "nats://{server}"
nats.queue = "{QUEUE}"
nats.name = "{name}"
nats.lease = "{lease}s"
nats.presence = "1s"
{rest}
{}{}"#,
            command(name, &self.executions(), "note", ""),
            command(name, &self.executions(), "slow", "sleep 1; "),
        );
        let folder = Folder::new();
        folder.write("millpond.toml", &settings);
        Member { name, folder, running: None }
    }
}

/// A handler in shell that writes down what it was given, and answers with how many tasks this process had.
fn command(daemon: &str, executions: &Path, handler: &str, then: &str) -> String {
    let file = executions.display();
    format!(
        r#"
[handler.{handler}]
command = ["sh", "-c", '''
while read -r line; do
    printf '%s %s\n' {daemon} "$line" >> {file}
    {then}printf '{{"result":1}}\n'
done
''']
concurrency = 2
"#
    )
}

/// One daemon, or the place for it.
pub(super) struct Member {
    pub(super) name: &'static str,
    folder: Folder,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// Open as long as it runs: a daemon that has nobody to speak to is another one.
    _output: BufReader<ChildStdout>,
}

impl Member {
    /// Starts it, and comes back once it takes tasks.
    pub(super) fn start(&mut self) {
        let child = self.spawn(self.command());
        self.welcome(child);
    }

    /// The command that would start it.
    pub(super) fn command(&self) -> Command {
        self.folder.millpond(&["serve", "--json"])
    }

    /// Starts the process; what it says to the log goes to a file.
    pub(super) fn spawn(&self, mut command: Command) -> Child {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        command.stdout(Stdio::piped()).stderr(log).spawn().expect("cargo has built the program")
    }

    /// Waits for the first line of the process.
    pub(super) fn welcome(&mut self, mut child: Child) {
        assert!(self.running.is_none(), "{} runs", self.name);
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the daemon says hello");
        self.running = Some(Running { child, _output: output });
        let hello: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{} said {line:?} and in its log {}", self.name, self.log()));
        assert_eq!(hello["listening"], true, "{hello}");
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn kill(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }

    /// Asks it to end, waits, and says with which code it did.
    pub(super) fn send_home(&mut self) -> Option<i32> {
        let mut running = self.running.take().expect("it runs");
        signal("TERM", running.child.id());
        running.child.wait().unwrap().code()
    }

    pub(super) fn pause(&self) {
        signal("STOP", self.process());
    }

    pub(super) fn resume(&self) {
        signal("CONT", self.process());
    }

    pub(super) fn process(&self) -> u32 {
        self.running.as_ref().expect("it runs").child.id()
    }

    /// What it says about its door.
    pub(super) fn figures(&self) -> Value {
        let ran = self.folder.run(&["stats", "--json"]).with_code(0);
        ran.json().swap_remove(0)["nats"].take()
    }

    /// A command, run beside it.
    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.folder.run(arguments)
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        if std::thread::panicking() {
            println!("== the log of {}\n{}", self.name, self.log());
        }
    }
}
