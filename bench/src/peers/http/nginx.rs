//! nginx: answers plain requests itself; otherwise `limit_conn` lets 108 requests through to a hyper server.
//!
//! It has no queue of its own for them, so its limit is that of those who work and those who wait together.
//! One process does everything (`master_process off`), so that ending it by its id ends all of it.

use super::{AT_ONCE, CONNECTIONS_MAX, Duty, HEALTHY, Server, WAITING_MAX, hyper, write_settings};
use crate::daemon::{PrivateFolder, free_address};
use crate::debian::{self, Program};
use std::net::SocketAddr;

pub(crate) fn program() -> Result<Program, String> {
    debian::program("nginx", "-v", "nginx")
}

pub(crate) fn start(duty: Duty) -> Result<Server, String> {
    let (behind, work) = hyper::start_behind(duty)?;
    let (address, folder) = (free_address()?, PrivateFolder::new()?);
    let settings = write_settings(&folder, "nginx.conf", &settings(address, work, duty))?;
    let mut command = program()?.command();
    command.arg("-p").arg(folder.path()).arg("-c").arg(settings).args(["-e", "stderr"]);
    Server::start(behind, command, folder, address)
}

fn settings(address: SocketAddr, work: Option<SocketAddr>, duty: Duty) -> String {
    let head_timeout = duty.head_timeout().as_millis();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {kind};\n"))
        .concat();
    let upstream = work.map_or(String::new(), |work| {
        let limit = AT_ONCE + WAITING_MAX;
        format!(
            "  limit_conn_zone $server_port zone=all:1m;\n\
             \x20 upstream work {{ server {work}; keepalive {limit}; }}\n"
        )
    });
    let location = work.map_or(String::new(), |_| {
        let limit = AT_ONCE + WAITING_MAX;
        format!(
            "    location /v1/ {{\n      limit_conn all {limit};\n      proxy_pass http://work;\n      \
             proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n"
        )
    });
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr emerg;\n\
         events {{ worker_connections {CONNECTIONS_MAX}; }}\n\
         http {{\n  access_log off;\n  default_type application/json;\n  client_max_body_size 8m;\n  \
         keepalive_requests 100000000;\n  client_header_timeout {head_timeout}ms;\n{temporary}{upstream}  \
         server {{\n    listen {address} backlog=4096;\n    \
         location = /healthz {{ return 200 '{HEALTHY}'; }}\n{location}  }}\n}}\n"
    )
}
