//! hyper on tokio, without anything around it: a program of this bench (`bin/plain_hyper.rs`).
//!
//! It is what nginx and haproxy stand in front of, and a row of its own.

use super::{Duty, Server};
use crate::daemon::{Daemon, PrivateFolder, free_address};
use crate::peers::tasks::millpond_daemon::programs;
use std::net::SocketAddr;
use std::process::Command;

pub(crate) fn start(duty: Duty) -> Result<Server, String> {
    let address = free_address()?;
    let (command, folder) = (command(address, duty)?, PrivateFolder::new()?);
    Server::start(Vec::new(), command, folder, address)
}

/// The one behind another server, if that needs one.
pub(super) fn start_behind(duty: Duty) -> Result<(Vec<Daemon>, Option<SocketAddr>), String> {
    match duty {
        Duty::Plain { .. } => Ok((Vec::new(), None)),
        Duty::Limited => start(duty).map(|server| (server.daemons, Some(server.address))),
    }
}

fn command(address: SocketAddr, duty: Duty) -> Result<Command, String> {
    let mut command = Command::new(programs()?.plain_hyper);
    command.arg(address.to_string()).arg(duty.head_timeout().as_millis().to_string());
    Ok(command)
}
