//! Who may ask at all: the host by which we were called, the site whose page asks, and the token.
//!
//! A daemon on this machine has a guard of its own to keep: every page in every browser on it can reach it.
//! Three things keep those out. The host name must be ours, so that no stranger's name can be pointed at us.
//! A page of another origin is refused by what the browser says of it. And what changes something needs a
//! content type that browsers do not send without asking first.
//!
//! Not here: what a token is (`tokens.rs`); the content type is looked at where a body is read (`ask.rs`).

use super::Api;
use super::problem::{Fault, Problem};
use super::query::cut;
use super::routes::Role;
use crate::visit::Peer;
use hyper::Version;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, VARY, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use std::net::{IpAddr, Ipv6Addr};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a page of another origin may send.
const CORS_HEADERS: &str =
    "authorization, content-type, idempotency-key, last-event-id, prefer, traceparent, x-request-id";
/// What such a page may read of an answer.
const CORS_EXPOSED: &str = "idempotency-replayed, location, retry-after, x-request-id";

/// The request must have been sent to us, and not to a name that somebody points at us.
pub(super) fn check_host(api: &Api, head: &Parts, peer: Peer) -> Result<(), Box<Problem>> {
    if peer == Peer::Unix {
        return Ok(());
    }
    let mut values = head.headers.get_all(HOST).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::new(Fault::BadHeader, "host: expected it once, got it twice").closing());
    }
    let named = head.uri.authority().map(|authority| authority.as_str());
    let Some(host) = named.or_else(|| value.and_then(|value| value.to_str().ok())) else {
        // Browsers speak HTTP/1.1, which has a host.
        let is_old = value.is_none() && head.version < Version::HTTP_11;
        let detail = "host: expected the host and port that were connected to, got none";
        return if is_old { Ok(()) } else { Err(Problem::new(Fault::BadHeader, detail).closing()) };
    };
    if is_our_name(&api.settings.hosts, host) {
        return Ok(());
    }
    let detail =
        format!("host: {:?} is no name of this door; add it to web.hosts if it should be", cut(host));
    Err(Problem::new(Fault::HostNotAllowed, detail))
}

/// A number can be no stranger's name for us; a name must be this machine's or one of the settings.
fn is_our_name(hosts: &[String], host: &str) -> bool {
    let name = without_port(host);
    matches!(name, "127.0.0.1" | "localhost")
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
        || is_listed(hosts, host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// An entry without a port stands for every port.
fn is_listed(hosts: &[String], host: &str) -> bool {
    let name = without_port(host);
    hosts.iter().any(|listed| listed.eq_ignore_ascii_case(host) || listed.eq_ignore_ascii_case(name))
}

/// The origin whose page may read the answer, if there is one. Pages of any other origin are refused.
pub(super) fn check_origin(api: &Api, head: &Parts, role: Role) -> Result<Option<HeaderValue>, Box<Problem>> {
    let headers = &head.headers;
    let site = headers.get(SEC_FETCH_SITE);
    let Some(origin) = headers.get(ORIGIN) else {
        // A link on somebody's page may lead to the dashboard; what it asks for then, it asks for itself.
        return match site {
            Some(site) if site == "cross-site" && role != Role::Open => Err(cross_site("no origin")),
            _ => Ok(None),
        };
    };
    let text = origin.to_str().unwrap_or_default();
    let host = text.split_once("://").map_or("", |(_, host)| host);
    let own = head.uri.authority().map(|authority| authority.as_str());
    let own = own.or_else(|| headers.get(HOST).and_then(|value| value.to_str().ok()));
    if !host.is_empty() && own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        return Ok(None);
    }
    if !host.is_empty() && is_listed(&api.settings.origins, host) {
        return Ok(Some(origin.clone()));
    }
    Err(cross_site(&format!("the origin {:?}", cut(text))))
}

fn cross_site(got: &str) -> Box<Problem> {
    let detail =
        format!("expected a page of this door or of web.origins, got {got}; add its host to web.origins");
    Problem::new(Fault::CrossSite, detail)
}

/// The token must open the door as far as the route needs.
pub(super) fn check_token(
    api: &Api,
    headers: &HeaderMap,
    peer: Peer,
    needed: Role,
) -> Result<(), Box<Problem>> {
    if needed == Role::Open || !api.tokens.is_any() || peer == Peer::Unix {
        return Ok(());
    }
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let shown = value.and_then(|value| {
        let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
    });
    let refuse = |fault, detail: &str, how: &'static str| {
        Err(Problem::new(fault, detail).with_header(WWW_AUTHENTICATE, HeaderValue::from_static(how)))
    };
    match (shown.and_then(|shown| api.tokens.role(shown)), shown, value) {
        (Some(role), ..) if role >= needed => Ok(()),
        (Some(_), ..) => {
            let detail = "this needs the token of web.token_file, got the one that allows to look";
            refuse(Fault::Forbidden, detail, "Bearer realm=\"millpond\", error=\"insufficient_scope\"")
        }
        (None, Some(_), _) => {
            let detail = "authorization: the token is not one that this daemon knows";
            refuse(Fault::Unauthorized, detail, "Bearer realm=\"millpond\", error=\"invalid_token\"")
        }
        (None, None, Some(_)) => {
            let detail = "authorization: expected \"Bearer TOKEN\", got another scheme";
            refuse(Fault::Unauthorized, detail, "Bearer realm=\"millpond\"")
        }
        (None, None, None) => {
            let advice = "the daemon's web.token_file has it";
            let detail = format!("authorization: expected \"Bearer TOKEN\", got none; {advice}");
            refuse(Fault::Unauthorized, &detail, "Bearer realm=\"millpond\"")
        }
    }
}

/// Lets the page of an origin that may ask also read the answer.
pub(super) fn open_to(origin: Option<HeaderValue>, headers: &mut HeaderMap) {
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(CORS_EXPOSED));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}

/// What a browser wants to know before it lets a page ask.
pub(super) fn write_preflight(methods: &HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(CORS_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_this_machine_are_ours_and_strangers_names_are_not() {
        let hosts = ["door.example".to_owned(), "other.example:81".to_owned()];
        let ours = [
            "127.0.0.1:7117",
            "127.0.0.1",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7117",
            "[::1]",
            "192.168.1.5:80",
            "door.example",
            "Door.Example:8080",
            "other.example:81",
        ];
        for host in ours {
            assert!(is_our_name(&hosts, host), "{host}");
        }
        for host in [
            "evil.example",
            "other.example",
            "other.example:82",
            "localhost.evil.example",
            "",
            ":80",
            "127.0.0.1.nip",
        ] {
            assert!(!is_our_name(&hosts, host), "{host:?}");
        }
    }
}
