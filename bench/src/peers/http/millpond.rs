//! Ours: `millpond serve` as people run it, with its HTTP door; the work is the built-in handler `sleep`.
//!
//! One thread serves HTTP, as in the other servers; the pool keeps its two workers. The daemon finds no
//! settings but those it is given here.

use super::{AT_ONCE, CONNECTIONS_MAX, Duty, Server, WAITING_MAX, write_settings};
use crate::daemon::{PrivateFolder, free_address};
use crate::peers::tasks::millpond_daemon::programs;
use std::net::SocketAddr;
use std::process::Command;

pub(crate) fn start(duty: Duty) -> Result<Server, String> {
    let (address, folder) = (free_address()?, PrivateFolder::new()?);
    let settings = write_settings(&folder, "millpond.toml", &settings(address, duty))?;
    let mut command = Command::new(programs()?.daemon);
    command.arg("serve").arg("--runtime-dir").arg(folder.path().join("run")).arg("--config").arg(settings);
    command.env_remove("MILLPOND_CONFIG").env_remove("MILLPOND_TOKEN");
    Server::start(Vec::new(), command, folder, address)
}

fn settings(address: SocketAddr, duty: Duty) -> String {
    let limits = match duty {
        Duty::Plain { .. } => String::new(),
        Duty::Limited => format!("in_flight_max = {AT_ONCE}\nqueue_capacity = {WAITING_MAX}\n"),
    };
    let head_timeout = duty.head_timeout().as_millis();
    format!(
        "workers = 2\n[web]\nlisten = \"{address}\"\nworkers = 1\nconnections_max = {CONNECTIONS_MAX}\n\
         head_timeout = \"{head_timeout}ms\"\n{limits}"
    )
}
