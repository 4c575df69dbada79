//! A server as a child process: started in a folder of its own, waited for until it answers, ended by its
//! pid.
//!
//! Sockets and files of a server lie in a private folder that goes with it. The server is killed and waited
//! for when its value is dropped, also on the way out of an error, so that no round leaves anything to the
//! next one.
//!
//! Not here: where the program comes from (`debian.rs`), what is said to it (`peers/tasks/`, `peers/http/`).

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server that does not answer within this is not going to.
const START_LIMIT: Duration = Duration::from_secs(20);
const NAP: Duration = Duration::from_millis(2);

/// A folder that only this user can look into, removed with everything in it.
pub(crate) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    pub(crate) fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Not in the target folder: the path of a socket may have 107 bytes only.
        let path = std::env::temp_dir().join(format!("millpond-bench-{}-{number}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("{}: cannot be made: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that runs, until it is dropped.
pub(crate) struct Daemon {
    child: Child,
    folder: PrivateFolder,
}

impl Daemon {
    /// Starts the command, which was told to use this folder; what it says goes to a file there.
    pub(crate) fn start(mut command: Command, folder: PrivateFolder) -> Result<Self, String> {
        let name = Path::new(command.get_program()).display().to_string();
        let failed = |error: io::Error| format!("{name}: cannot be started: {error}");
        let log = File::create(folder.path().join("log")).map_err(failed)?;
        let copy = log.try_clone().map_err(failed)?;
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(log).stderr(copy);
        let child = command.spawn().map_err(failed)?;
        Ok(Self { child, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Calls `connect` until it succeeds, the server has ended, or it is too late.
    pub(crate) fn connect<C>(&mut self, connect: impl Fn() -> io::Result<C>) -> Result<C, String> {
        let started = Instant::now();
        loop {
            let error = match connect() {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let ended = self.child.try_wait().map_err(|error| format!("the server: {error}"))?;
            if let Some(status) = ended {
                return Err(format!("the server ended with {status}: {}", self.last_words()));
            }
            if started.elapsed() > START_LIMIT {
                let waited = START_LIMIT.as_secs();
                return Err(format!(
                    "the server did not answer for {waited} s: {error}: {}",
                    self.last_words()
                ));
            }
            thread::sleep(NAP);
        }
    }

    fn last_words(&self) -> String {
        let said = fs::read(self.folder().join("log")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine at which nobody listened a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("a free port: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Daemon {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Daemon::start(command, PrivateFolder::new().unwrap()).unwrap()
    }

    fn file(path: &Path) -> io::Result<()> {
        fs::metadata(path).map(drop)
    }

    #[test]
    fn a_server_is_waited_for_and_its_folder_goes_with_it() {
        let mut daemon = shell("touch here; exec sleep 600");
        let here = daemon.folder().join("here");
        daemon.connect(|| file(&here)).unwrap();
        let process = PathBuf::from(format!("/proc/{}", daemon.child.id()));
        assert!(process.exists());
        drop(daemon);
        assert!(!here.exists() && !process.exists());
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_last_words() {
        let mut daemon = shell("echo first; echo no room >&2; exit 3");
        let message = daemon.connect(|| file(Path::new("/nowhere"))).unwrap_err();
        assert_eq!(message, "the server ended with exit status: 3: no room");
    }
}
