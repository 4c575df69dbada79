//! The daemon that the commands talk to: where it is, and one connection to it.
//!
//! Its socket lies in the private directory of the settings, so a command finds the daemon that was started
//! with the same file, environment or flag. Waiting is done in short steps, between which Ctrl-C is noticed.
//!
//! Not here: what the frames say (`answer.rs`), the protocol itself (`docs/PROTOCOL.md`).

use crate::answer::Refusal;
use crate::failure::Failure;
use crate::setting_flags::SettingFlags;
use crate::{config_file, interrupt};
use clap::Args;
use millpond_local::{Client, Flags, Hello, Kind, SOCKET_NAME};
use millpond_tasks::RuntimeDir;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long Ctrl-C may go unnoticed.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// How long the daemon may take for a question that it can answer at once.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Which daemon.
#[derive(Clone, Debug, Args)]
pub(crate) struct DaemonArguments {
    /// The daemon's private directory [default: as the settings say, else one of this user]
    #[arg(long, value_name = "DIR", help_heading = "Daemon")]
    runtime_dir: Option<PathBuf>,

    /// What the daemon is called, if it was started with a name of its own
    #[arg(long, value_name = "NAME", help_heading = "Daemon", conflicts_with = "runtime_dir")]
    name: Option<String>,

    /// The configuration file that says so [default: as `millpond serve` finds it]
    #[arg(long, value_name = "FILE", help_heading = "Daemon")]
    pub(crate) config: Option<PathBuf>,
}

impl DaemonArguments {
    /// Connects to the daemon.
    pub(crate) fn connect(&self) -> Result<Daemon, Failure> {
        let path = self.socket()?;
        match Client::connect(&path) {
            Ok(client) => Ok(Daemon { client, path }),
            Err(error) => Err(not_connected(&path, &error)),
        }
    }

    /// Where its socket should be.
    pub(crate) fn socket(&self) -> Result<PathBuf, Failure> {
        if let Some(directory) = &self.runtime_dir {
            return Ok(directory.join(SOCKET_NAME));
        }
        if let Some(name) = &self.name {
            let directory = RuntimeDir::path_for(name).map_err(|error| Failure::Usage(error.to_string()))?;
            return Ok(directory.join(SOCKET_NAME));
        }
        // Mistakes elsewhere in the configuration are no reason not to find the daemon.
        let loaded = config_file::load(self.config.as_deref(), &SettingFlags::default())?.loaded;
        Ok(loaded.runtime_path().join(SOCKET_NAME))
    }
}

fn not_connected(path: &Path, error: &io::Error) -> Failure {
    let path_shown = path.display();
    match UnixStream::connect(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Failure::NoDaemon(format!(
                "no millpond answers at {path_shown}: start one with \"millpond serve\", or say which \
                 with --name or --runtime-dir"
            ))
        }
        Err(error) => Failure::NoDaemon(format!("{path_shown}: cannot be connected to: {error}")),
        // Somebody is there, and does not want us.
        Ok(_) if error.kind() == ErrorKind::ConnectionRefused => Failure::Refused(error.to_string()),
        Ok(_) => Failure::NoDaemon(error.to_string()),
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Daemon {
    client: Client,
    path: PathBuf,
}

/// One frame of the daemon.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) kind: Kind,
    pub(crate) tag: u64,
    pub(crate) payload: Vec<u8>,
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Waited {
    /// A frame.
    Answer(Answer),
    /// The time is over.
    TimeOver,
    /// Ctrl-C was pressed.
    Interrupted,
}

impl Daemon {
    /// What it said about itself.
    pub(crate) fn hello(&self) -> &Hello {
        self.client.hello()
    }

    /// The connection itself, for whoever measures it.
    pub(crate) fn into_client(self) -> Client {
        self.client
    }

    /// Sends a frame, at the latest when somebody waits for an answer.
    pub(crate) fn send(&mut self, kind: Kind, flags: Flags, tag: u64, payload: &[u8]) -> Result<(), Failure> {
        self.client.send(kind, flags, tag, payload).map_err(|error| gone(&self.path, &error))
    }

    /// The next frame, until a moment or for as long as it takes.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<Waited, Failure> {
        loop {
            if interrupt::is_pressed() {
                return Ok(Waited::Interrupted);
            }
            let left = until.map_or(STEP, |until| until.saturating_duration_since(Instant::now()));
            let frame =
                self.client.receive_timeout(left.min(STEP)).map_err(|error| gone(&self.path, &error))?;
            match frame {
                Some(frame) => {
                    let answer = Answer { kind: frame.kind, tag: frame.tag, payload: frame.payload.to_vec() };
                    return Ok(Waited::Answer(answer));
                }
                None if left.is_zero() => return Ok(Waited::TimeOver),
                None => {}
            }
        }
    }

    /// A frame that has come already.
    pub(crate) fn buffered(&mut self) -> Option<Answer> {
        let frame = self.client.receive_buffered()?;
        Some(Answer { kind: frame.kind, tag: frame.tag, payload: frame.payload.to_vec() })
    }

    /// Asks something that is answered at once, and gives the payload of the answer, which must be of this
    /// kind.
    pub(crate) fn ask(&mut self, kind: Kind, payload: &[u8], expected: Kind) -> Result<Asked, Failure> {
        self.send(kind, Flags::NONE, 0, payload)?;
        match self.wait(Some(Instant::now() + ANSWER_WAIT))? {
            Waited::Answer(answer) if answer.kind == expected => Ok(Ok(answer.payload)),
            Waited::Answer(answer) if answer.kind == Kind::Error => Ok(Err(Refusal::read(&answer.payload)?)),
            Waited::Answer(answer) => Err(unexpected(answer.kind, expected.name())),
            Waited::TimeOver => Err(Failure::TimedOut(format!(
                "the daemon did not answer within {} s",
                ANSWER_WAIT.as_secs()
            ))),
            Waited::Interrupted => Err(Failure::Interrupted),
        }
    }
}

/// A payload, or why there is none.
pub(crate) type Asked = Result<Vec<u8>, Refusal>;

/// The daemon spoke, but not what the protocol says.
pub(crate) fn unexpected(got: Kind, expected: &str) -> Failure {
    Failure::Failed(format!(
        "the daemon answered {got} where {expected} was expected; use programs of one release"
    ))
}

fn gone(path: &Path, error: &io::Error) -> Failure {
    Failure::NoDaemon(format!("{}: the daemon went away: {error}", path.display()))
}
