//! A real daemon for the tests of the commands that talk to one, each with a private directory of its own.
//!
//! It is known to listen once its first line has come. When a test ends, in whichever way, its daemon is
//! killed by its process id and its directory removed.

use crate::program::text;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a condition may take to come true, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A handler in shell: it says something of every kind, and then answers.
pub(crate) const TALKER: &str = r#"
[handler.talk]
command = ["sh", "-c", '''
while read -r line; do
    echo '{"log":"begin"}'; echo '{"progress":0.5}'
    echo '{"partial":1}'; echo '{"partial":"two"}'; echo '{"result":"end"}'
done
''']
"#;

/// A folder of one test; the program runs in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("millpond-cli-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("no other test has this name");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, contents: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder is ours");
        fs::write(path, contents).expect("the folder is ours");
    }

    /// The program in this folder, untouched by the settings of whoever runs the tests.
    pub(crate) fn millpond(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("MILLPOND_")) {
                command.env_remove(name);
            }
        }
        // Nobody's own daemon is to be found by chance.
        command.env("XDG_RUNTIME_DIR", &self.0).current_dir(&self.0);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.millpond(arguments).output().expect("cargo has built the program"))
    }

    /// The same, with something on standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.millpond(arguments);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("cargo has built the program");
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = input.to_owned();
        // Both pipes may be full at once, so one is fed from aside. The program may end before it has read
        // all.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().expect("it was started");
        feeder.join().expect("writing does not panic");
        Ran::from(output)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a script sees of a command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl Ran {
    /// The output, if the command ended with this code.
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// The output of a command that went well and had nothing else to say.
    pub(crate) fn quietly(self) -> String {
        assert_eq!((self.code, &*self.err), (Some(0), ""), "{self:?}");
        self.out
    }

    /// Every line of the output as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}")))
            .collect()
    }
}

/// A daemon that listens.
pub(crate) struct Daemon {
    folder: Folder,
    child: Child,
    /// Where it speaks HTTP: host and port.
    pub(crate) web: String,
}

impl Daemon {
    /// With these settings in `millpond.toml`, and two workers.
    pub(crate) fn start(settings: &str) -> Self {
        let folder = Folder::new();
        folder.write("millpond.toml", &format!("workers = 2\n{settings}"));
        let command = folder.millpond(&["serve", "--json"]);
        Self::started_by(command, folder)
    }

    /// As `command` starts it, with its log as JSON.
    pub(crate) fn started_by(mut command: Command, folder: Folder) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("cargo has built the program");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the daemon says hello");
        let mut daemon = Self { folder, child, web: String::new() };
        let hello: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("the daemon said {line:?}"));
        assert_eq!(hello["listening"], true, "{hello}");
        let web = hello["web"].as_str().and_then(|url| url.strip_prefix("http://"));
        daemon.web = web.unwrap_or_default().to_owned();
        daemon
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.folder.run(arguments)
    }

    /// Runs the command again and again until what it says is as wanted.
    pub(crate) fn run_until(&self, arguments: &[&str], is_so: impl Fn(&Ran) -> bool) -> Ran {
        let begun = Instant::now();
        loop {
            let ran = self.run(arguments);
            if is_so(&ran) {
                return ran;
            }
            assert!(begun.elapsed() < PATIENCE, "{arguments:?} still says {ran:?}");
        }
    }

    /// Waits for its end, and says with which code that was.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child.wait().expect("it was started").code()
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        signal("TERM", self.child.id());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that a test has started.
pub(crate) fn signal(name: &str, process: u32) {
    let status =
        Command::new("kill").args(["-s", name, &process.to_string()]).status().expect("there is a kill");
    assert!(status.success());
}
