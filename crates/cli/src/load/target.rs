//! Whom to load: an address out of what people type, and whether it is on this machine.
//!
//! `127.0.0.1:8080`, `:8080`, `localhost:8080/path?query` and whole URLs with `http://` are all understood. A
//! name is looked up once, before the run; every address it has must be on this machine, or somebody has to
//! have said that it may be elsewhere.

use millpond_load::Address;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

const HTTP_PORT: u16 = 80;

/// One server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: Address,
    /// What the field `Host` says.
    pub(super) host: String,
    /// Path and query, if there was something behind the host.
    pub(super) path: Option<String>,
    /// Whether it is on this machine.
    pub(super) is_here: bool,
}

impl Target {
    pub(super) fn new(url: Option<&str>, unix: Option<&Path>, allow_remote: bool) -> Result<Self, String> {
        let url = url.unwrap_or_default();
        let (host, path) = split(url)?;
        if let Some(socket) = unix {
            let host = if host.is_empty() { "localhost" } else { host }.to_owned();
            return Ok(Self { address: Address::Unix(socket.to_owned()), host, path, is_here: true });
        }
        let (name, port) = name_and_port(host)
            .ok_or_else(|| format!("URL: expected http://HOST:PORT/PATH or HOST:PORT, got {url:?}"))?;
        let addresses: Vec<SocketAddr> = match (name.trim_matches(['[', ']']), port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => return Err(format!("{name}: no address is known: {error}")),
        };
        let address = *addresses.first().ok_or_else(|| format!("{name}: no address is known"))?;
        let is_here = addresses.iter().all(|address| address.ip().to_canonical().is_loopback());
        if !is_here && !allow_remote {
            let message = "is not on this machine; a load test of a server that is not yours is an attack, \
                           so say --allow-remote if it is";
            return Err(format!("{address}: {message}"));
        }
        let host = if host.starts_with(':') { format!("localhost{host}") } else { host.to_owned() };
        Ok(Self { address: Address::Tcp(address), host, path, is_here })
    }
}

/// Host and port, and what is behind them.
fn split(url: &str) -> Result<(&str, Option<String>), String> {
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) => {
            return Err(format!(
                "URL: expected http://, got {scheme}://; load the plain port behind the proxy"
            ));
        }
        None => url,
    };
    // What stands behind a # is for browsers and never sent.
    let rest = rest.split('#').next().unwrap_or_default();
    match rest.find(['/', '?']) {
        None => Ok((rest, None)),
        Some(at) if rest[at..].starts_with('?') => Ok((&rest[..at], Some(format!("/{}", &rest[at..])))),
        Some(at) if &rest[at..] == "/" => Ok((&rest[..at], None)),
        Some(at) => Ok((&rest[..at], Some(rest[at..].to_owned()))),
    }
}

/// `localhost` and 80 if one of them is missing, but not both. Names and passwords before an @ are refused.
fn name_and_port(host: &str) -> Option<(&str, u16)> {
    if host.is_empty() || host.contains('@') {
        return None;
    }
    // The colons of `[::1]` are its own.
    let (name, port) = match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
        Some(at) => (&host[..at], host[at + 1..].parse().ok()?),
        None => (host, HTTP_PORT),
    };
    let is_one = !name.contains(':') || name.starts_with('[');
    is_one.then_some((if name.is_empty() { "127.0.0.1" } else { name }, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::new(Some(url), None, false).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn an_address_is_read_however_it_is_typed() {
        for (url, address, host, path) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1:8080", None),
            (":8080", "127.0.0.1:8080", "localhost:8080", None),
            ("http://127.0.0.1/", "127.0.0.1:80", "127.0.0.1", None),
            ("HTTP://[::1]:81/a/b?c=d#e", "[::1]:81", "[::1]:81", Some("/a/b?c=d")),
            ("[::1]?x", "[::1]:80", "[::1]", Some("/?x")),
        ] {
            let expected = Target {
                address: Address::Tcp(address.parse().unwrap()),
                host: host.to_owned(),
                path: path.map(str::to_owned),
                is_here: true,
            };
            assert_eq!(target(url), expected, "{url}");
        }
    }

    #[test]
    fn a_socket_needs_no_url_but_may_have_a_path() {
        let socket = Path::new("/run/door.sock");
        let alone = Target::new(None, Some(socket), false).unwrap();
        assert_eq!((&*alone.host, alone.path, alone.is_here), ("localhost", None, true));
        let with_path = Target::new(Some("http://any/stats"), Some(socket), false).unwrap();
        assert_eq!((&*with_path.host, with_path.path.as_deref()), ("any", Some("/stats")));
    }

    #[test]
    fn what_is_not_here_needs_a_word() {
        let message = Target::new(Some("192.0.2.1:80"), None, false).unwrap_err();
        assert!(message.contains("--allow-remote"), "{message}");
        let allowed = Target::new(Some("192.0.2.1:80"), None, true).unwrap();
        assert!(!allowed.is_here);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["", "https://localhost", "127.0.0.1:port", "a:b@127.0.0.1", "1:2:3", "/path"] {
            assert!(Target::new(Some(url), None, true).is_err(), "{url}");
        }
    }
}
