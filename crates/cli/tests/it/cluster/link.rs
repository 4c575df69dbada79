//! What stands between a daemon and its server, and can be cut without either side being told.
//!
//! Where namespaces can be made (by root, with iproute2) the daemon has a network of its own and a cable to this one,
//! which is pulled. Elsewhere a proxy stands between the two, and holds back what both say. Either way no connection is
//! closed: whoever sends something hears nothing.
//!
//! Not here: what a daemon does about it (`pause.rs`).

use super::crew::Member;
use super::until;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// A way to the server that can be cut.
pub(super) enum Link {
    Cable(Cable),
    Proxy(Proxy),
}

impl Link {
    /// A cable if there can be one.
    pub(super) fn make() -> Self {
        Cable::lay().map_or_else(|| Self::Proxy(Proxy::default()), Self::Cable)
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Cable(_) => "a pulled cable",
            Self::Proxy(_) => "a proxy that holds everything back",
        }
    }

    /// Where the server is to listen.
    pub(super) fn host(&self) -> Ipv4Addr {
        match self {
            Self::Cable(cable) => cable.near,
            Self::Proxy(_) => Ipv4Addr::LOCALHOST,
        }
    }

    /// What the daemon is told of the server.
    pub(super) fn server(&mut self, address: SocketAddr) -> SocketAddr {
        match self {
            Self::Cable(_) => address,
            Self::Proxy(proxy) => proxy.stand_before(address),
        }
    }

    /// Starts a daemon at the far end.
    pub(super) fn start(&self, member: &mut Member) {
        match self {
            Self::Cable(cable) => cable.start(member),
            Self::Proxy(_) => member.start(),
        }
    }

    pub(super) fn cut(&self) {
        match self {
            Self::Cable(cable) => assert!(run("ip", &["link", "set", &cable.name, "down"])),
            Self::Proxy(proxy) => proxy.is_cut.store(true, Relaxed),
        }
    }

    pub(super) fn heal(&self) {
        match self {
            Self::Cable(cable) => assert!(run("ip", &["link", "set", &cable.name, "up"])),
            Self::Proxy(proxy) => proxy.is_cut.store(false, Relaxed),
        }
    }
}

/// Two ends of a cable: one here, one that goes into the daemon's network, and vanishes with it.
pub(super) struct Cable {
    name: String,
    far_name: String,
    near: Ipv4Addr,
    far: Ipv4Addr,
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Cable {
    fn lay() -> Option<Self> {
        if !run("unshare", &["--net", "true"]) {
            return None;
        }
        let process = process::id();
        // Four addresses for each process that tests, out of those that are set aside for tests of networks.
        let at =
            |last| Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (process % 32_768) * 4 + last);
        let cable = Self {
            name: format!("mill{process}n"),
            far_name: format!("mill{process}f"),
            near: at(1),
            far: at(2),
        };
        let name = cable.name.as_str();
        let is_laid = run("ip", &["link", "add", name, "type", "veth", "peer", "name", &cable.far_name])
            && run("ip", &["address", "add", &format!("{}/30", cable.near), "dev", name])
            && run("ip", &["link", "set", name, "up"]);
        is_laid.then_some(cable)
    }

    fn start(&self, member: &mut Member) {
        let sign =
            PathBuf::from(format!("{}-{}", std::env::temp_dir().join(&self.name).display(), "plugged"));
        let inner = member.command();
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", "while ! [ -e \"$0\" ]; do sleep 0.02; done; exec \"$@\""])
            .arg(&sign);
        command.arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(inner.get_current_dir().expect("it has a folder"));
        let child = member.spawn(command);
        let process = child.id().to_string();
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        until("the daemon has a network of its own", || network(&process) != network("self"));
        assert!(run("ip", &["link", "set", &self.far_name, "netns", &process]));
        let inside = |arguments: &[&str]| {
            let mut all = vec!["--target", &process, "--net", "ip"];
            all.extend(arguments);
            assert!(run("nsenter", &all), "{arguments:?}");
        };
        inside(&["address", "add", &format!("{}/30", self.far), "dev", &self.far_name]);
        inside(&["link", "set", &self.far_name, "up"]);
        fs::write(&sign, "").unwrap();
        member.welcome(child);
        let _ = fs::remove_file(&sign);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // It is gone already if its other end is.
        run("ip", &["link", "delete", &self.name]);
    }
}

/// Passes on what both sides say, unless it is cut.
#[derive(Default)]
pub(super) struct Proxy {
    is_cut: Arc<AtomicBool>,
}

impl Proxy {
    /// Listens for as long as the test runs.
    fn stand_before(&self, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = Arc::clone(&self.is_cut);
        thread::spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                while is_cut.load(Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
                let Ok(far) = TcpStream::connect(server) else { continue };
                let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { continue };
                for (from, to) in [(near, far), (far_too, near_too)] {
                    let is_cut = Arc::clone(&is_cut);
                    thread::spawn(move || pass_on(from, to, &is_cut));
                }
            }
        });
        address
    }
}

/// Ends both connections when one of them ends.
fn pass_on(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut carry = || -> io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            let length = from.read(&mut bytes)?;
            while is_cut.load(Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
            if length == 0 {
                return Ok(());
            }
            to.write_all(&bytes[..length])?;
        }
    };
    // However it ended, the other side is to know.
    let _ = carry();
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
