//! haproxy: answers plain requests itself; otherwise it lets 8 requests through to a hyper server, holds up
//! to 100 in its own queue, and denies the rest.

use super::{AT_ONCE, CONNECTIONS_MAX, Duty, HEALTHY, Server, WAITING_MAX, hyper, write_settings};
use crate::daemon::{PrivateFolder, free_address};
use crate::debian::{self, Program};
use std::net::SocketAddr;

pub(crate) fn program() -> Result<Program, String> {
    debian::program("haproxy", "-v", "haproxy")
}

pub(crate) fn start(duty: Duty) -> Result<Server, String> {
    let (behind, work) = hyper::start_behind(duty)?;
    let (address, folder) = (free_address()?, PrivateFolder::new()?);
    let settings = write_settings(&folder, "haproxy.cfg", &settings(address, work, duty))?;
    let mut command = program()?.command();
    // -db: stay in the foreground.
    command.arg("-db").arg("-f").arg(settings);
    Server::start(behind, command, folder, address)
}

fn settings(address: SocketAddr, work: Option<SocketAddr>, duty: Duty) -> String {
    let head_timeout = duty.head_timeout().as_millis();
    let healthy = HEALTHY.replace('"', "\\\"");
    let (deny, backend) = match work {
        None => (String::new(), String::new()),
        Some(work) => (
            format!("  http-request deny deny_status 503 if {{ queue(work) ge {WAITING_MAX} }}\n"),
            format!("  default_backend work\nbackend work\n  server one {work} maxconn {AT_ONCE}\n"),
        ),
    };
    format!(
        "global\n  nbthread 1\n  maxconn {CONNECTIONS_MAX}\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n  \
         timeout queue 60s\n  timeout http-keep-alive 60s\n  timeout http-request {head_timeout}ms\n\
         frontend door\n  bind {address} backlog 4096\n  http-request return status 200 content-type \
         application/json string \"{healthy}\" if {{ path /healthz }}\n{deny}{backend}"
    )
}
