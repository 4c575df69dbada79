//! The little of HTTP/1.1 that a crawler needs: ask for a path, read a page, find its links.
//!
//! Every wait here is a wait for a socket of async-io, so a fetch may be dropped at any of them and leaves
//! nothing behind. What is read is bounded, since the other side decides how much it sends.
//!
//! Not here: TLS, redirects, compression; use an HTTP library for those. It runs on the same pool.

use async_io::Async;
use futures_util::{AsyncReadExt, AsyncWriteExt};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

/// More than this of an answer is not read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A host, found out once: asking for its number waits without letting go of the thread.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    host: String,
    socket: SocketAddr,
}

impl Address {
    pub(crate) fn new(socket: SocketAddr) -> Self {
        Self { host: socket.to_string(), socket }
    }

    /// The host and the path of `http://host:port/path`.
    pub(crate) fn parse(text: &str) -> Result<(Self, String), String> {
        let rest = text.strip_prefix("http://");
        let rest =
            rest.ok_or_else(|| format!("expected an address as http://host:port/path, got {text:?}"))?;
        let (host, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
        if host.split(':').next().is_none_or(str::is_empty) {
            return Err(format!(
                "expected a host behind http://, as in http://localhost:8000/, got {text:?}"
            ));
        }
        let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let found = with_port.to_socket_addrs().map_err(|error| format!("{host}: {error}"))?.next();
        let socket = found.ok_or_else(|| format!("{host}: no such host"))?;
        Ok((Self { host: host.to_owned(), socket }, path.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.host)
    }
}

pub(crate) struct Page {
    pub(crate) title: String,
    /// Paths on the same host, each once.
    pub(crate) links: BTreeSet<String>,
    pub(crate) bytes: usize,
}

/// Asks for a page and reads it.
pub(crate) async fn fetch(address: Address, path: String) -> Result<Page, String> {
    let mut stream = Async::<TcpStream>::connect(address.socket).await.map_err(|error| error.to_string())?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: millpond-crawler\r\nConnection: close\r\n\r\n",
        address.host
    );
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.map_err(|error| error.to_string())?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("expected an HTTP answer, got something else")?;
    let status = head.split_ascii_whitespace().nth(1).unwrap_or("none");
    if status != "200" {
        return Err(format!("status {status}"));
    }
    let title = between(body, "<title>", "</title>").unwrap_or_default().trim().to_owned();
    Ok(Page { title, links: links(body, &address.host, &path), bytes: body.len() })
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

/// Where the page's links lead on its own host.
fn links(body: &str, host: &str, path: &str) -> BTreeSet<String> {
    let targets = body.split("href=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
    targets.filter_map(|target| resolve(target, host, path)).collect()
}

/// The path that `target`, found on the page at `path`, stands for; `None` if it leads elsewhere.
fn resolve(target: &str, host: &str, path: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    let absolute = match target.strip_prefix("http://").or_else(|| target.strip_prefix("//")) {
        Some(absolute) => {
            absolute.strip_prefix(host).filter(|rest| rest.is_empty() || rest.starts_with('/'))?.to_owned()
        }
        None if target.starts_with('/') => target.to_owned(),
        // Nothing but a mark on the same page, or another scheme: https, mailto, javascript.
        None if target.is_empty() || target.contains(':') => return None,
        None => format!("{}/{target}", path.rfind('/').map_or("", |slash| &path[..slash])),
    };
    Some(without_dots(&absolute))
}

/// The same path without `.` and `..`: or each way round to a page would count as a page of its own.
fn without_dots(path: &str) -> String {
    let mut folders: Vec<&str> = Vec::new();
    for folder in path.trim_start_matches('/').split('/') {
        match folder {
            "." => {}
            ".." => drop(folders.pop()),
            folder => folders.push(folder),
        }
    }
    format!("/{}", folders.join("/"))
}
