//! What a request asks of a server: from the arguments of a task, and changed by redirects on the way.
//!
//! Headers that frame the message or say who is meant are set by millpond alone: a request that could write
//! its own `host` or `content-length` could mean somebody else than the one who was checked. When a redirect
//! leads to another server, the headers of the caller stay behind, except for a few that tell no secrets.
//!
//! Not here: whether the URL is allowed (`hosts.rs`), sending it (`http.rs`).

use super::hosts::Target;
use crate::error::TaskFailure;
use crate::handler::builtin::arguments::{Arguments, bad, named, wrong};
use crate::handler::builtin::content::Encoding;
use crate::nearest::shown;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::Duration;
use ureq::http::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use ureq::http::{Method, StatusCode, Uri};

const ARGUMENTS: &[&str] = &["url", "headers", "timeout_ms", "stream"];
const POST_ARGUMENTS: &[&str] = &["url", "body", "json", "encoding", "headers", "timeout_ms", "stream"];
/// A day.
const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The most headers that a task may send along.
const HEADERS_MAX: usize = 100;

/// Headers that millpond sets itself, or that belong to one connection.
const RESERVED: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "proxy-authorization",
    "proxy-connection",
];

/// Headers that go along to another server.
const HARMLESS: &[HeaderName] = &[ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

/// One message to one server.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    /// What a POST carries.
    pub(super) body: Vec<u8>,
}

/// An ask, and what the task wants besides.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) ask: Ask,
    pub(super) timeout: Option<Duration>,
    pub(super) stream: bool,
}

impl Wanted {
    pub(super) fn read_get(args: &RawValue) -> Result<Self, TaskFailure> {
        let arguments = Arguments::read("http_get", args, ARGUMENTS)?;
        Self::read(&arguments, Method::GET, Vec::new(), None)
    }

    pub(super) fn read_post(args: &RawValue) -> Result<Self, TaskFailure> {
        let arguments = Arguments::read("http_post", args, POST_ARGUMENTS)?;
        let encoding = Encoding::asked(&arguments)?;
        let (body, kind) = match (arguments.string("body")?, arguments.raw("json"), encoding) {
            (Some(text), None, None | Some(Encoding::Utf8)) => {
                (text.into_bytes(), "text/plain; charset=utf-8")
            }
            (Some(text), None, Some(Encoding::Base64)) => {
                (Encoding::Base64.decode("body", text)?, "application/octet-stream")
            }
            (None, Some(json), None) => (json.get().as_bytes().to_vec(), "application/json"),
            (None, Some(_), Some(_)) => {
                return Err(bad(
                    "args.encoding: expected nothing beside json, which is sent as it is".to_owned()
                ));
            }
            (body, _, _) => {
                let amount = if body.is_some() { "both" } else { "neither" };
                return Err(bad(format!("args: expected either body or json, got {amount}")));
            }
        };
        Self::read(&arguments, Method::POST, body, Some(kind))
    }

    fn read(
        arguments: &Arguments<'_>,
        method: Method,
        body: Vec<u8>,
        kind: Option<&'static str>,
    ) -> Result<Self, TaskFailure> {
        let url = arguments.needed_string("url")?;
        let not_a_url = |expected| wrong("args.url", expected, shown(&url));
        let uri: Uri = url.parse().map_err(|_| not_a_url("a URL"))?;
        let target = Target::of(&uri).map_err(not_a_url)?;
        let mut headers = headers(arguments)?;
        if let Some(kind) = kind {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
        }
        let timeout = arguments.whole_number("timeout_ms", 1, TIMEOUT_MS_MAX)?.map(Duration::from_millis);
        let ask = Ask { method, uri, target, headers, body };
        Ok(Self { ask, timeout, stream: arguments.switch("stream")? })
    }
}

fn headers(arguments: &Arguments<'_>) -> Result<HeaderMap, TaskFailure> {
    let mut headers = HeaderMap::new();
    let Some(raw) = arguments.raw("headers") else { return Ok(headers) };
    let values: BTreeMap<String, &RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| wrong("args.headers", "an object", named(raw.get())))?;
    if values.len() > HEADERS_MAX {
        return Err(wrong("args.headers", &format!("at most {HEADERS_MAX} headers"), values.len()));
    }
    for (name, raw) in values {
        let path = format!("args.headers[{}]", shown(&name));
        let text: String =
            serde_json::from_str(raw.get()).map_err(|_| wrong(&path, "a string", named(raw.get())))?;
        let header: HeaderName =
            name.parse().map_err(|_| wrong(&path, "the name of a header", shown(&name)))?;
        if RESERVED.contains(&header.as_str()) {
            return Err(bad(format!("{path}: millpond sets this header itself; leave it out")));
        }
        let value = HeaderValue::from_str(&text)
            .map_err(|_| wrong(&path, "printable ASCII on one line", shown(&text)))?;
        if headers.insert(header, value).is_some() {
            return Err(bad(format!("{path}: the header comes twice, in upper and in lower case")));
        }
    }
    Ok(headers)
}

impl Ask {
    /// The message that follows from a redirect: the same to another place, or a GET if the answer was that
    /// the message arrived and something else is to be fetched.
    pub(super) fn redirected(mut self, status: StatusCode, uri: Uri, target: Target) -> Self {
        let keeps_method = matches!(status.as_u16(), 307 | 308);
        if self.method == Method::POST && !keeps_method {
            self.method = Method::GET;
            self.body.clear();
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(CONTENT_LENGTH);
        }
        if self.target != target || self.uri.scheme() != uri.scheme() {
            let mut harmless = HeaderMap::new();
            for name in HARMLESS {
                harmless.extend(self.headers.remove(name).map(|value| (name.clone(), value)));
            }
            self.headers = harmless;
        }
        Self { uri, target, ..self }
    }
}

/// Whether an answer with this status says to look elsewhere.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn post(json: &str) -> Result<Wanted, String> {
        Wanted::read_post(&raw(json)).map_err(|failure| failure.message)
    }

    #[test]
    fn a_body_is_text_bytes_or_json_and_says_so() {
        for (args, body, kind) in [
            (r#"{"url":"http://a/","body":"é"}"#, "é", "text/plain; charset=utf-8"),
            (r#"{"url":"http://a/","body":"aGk=","encoding":"base64"}"#, "hi", "application/octet-stream"),
            (r#"{"url":"http://a/","json":{"a": [1]}}"#, r#"{"a": [1]}"#, "application/json"),
            (r#"{"url":"http://a/","body":"x","headers":{"Content-Type":"a/b"}}"#, "x", "a/b"),
        ] {
            let ask = post(args).unwrap().ask;
            assert_eq!(
                (ask.body.as_slice(), ask.headers[CONTENT_TYPE].as_bytes()),
                (body.as_bytes(), kind.as_bytes())
            );
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_a_reason() {
        for (args, message) in [
            (r#"{"url":"http://a/"}"#, "args: expected either body or json, got neither"),
            (r#"{"url":"http://a/","body":"","json":1}"#, "args: expected either body or json, got both"),
            (
                r#"{"url":"http://a/","json":1,"encoding":"utf8"}"#,
                "args.encoding: expected nothing beside json, which is sent as it is",
            ),
            (r#"{"url":"a b","body":""}"#, r#"args.url: expected a URL, got "a b""#),
            (
                r#"{"url":"file:///etc/passwd","body":""}"#,
                r#"args.url: expected a URL, got "file:///etc/passwd""#,
            ),
            (
                r#"{"url":"gopher://a/","body":""}"#,
                r#"args.url: expected a URL that begins with http:// or https://, got "gopher://a/""#,
            ),
            (
                r#"{"url":"http://a/","body":"","headers":[]}"#,
                "args.headers: expected an object, got an array",
            ),
            (
                r#"{"url":"http://a/","body":"","headers":{"x":1}}"#,
                r#"args.headers["x"]: expected a string, got the number 1"#,
            ),
            (
                r#"{"url":"http://a/","body":"","headers":{"x y":"1"}}"#,
                r#"args.headers["x y"]: expected the name of a header, got "x y""#,
            ),
            (
                r#"{"url":"http://a/","body":"","headers":{"x":"1\r\nhost: b"}}"#,
                r#"args.headers["x"]: expected printable ASCII on one line, got "1\r\nhost: b""#,
            ),
            (
                r#"{"url":"http://a/","body":"","headers":{"Host":"b"}}"#,
                r#"args.headers["Host"]: millpond sets this header itself; leave it out"#,
            ),
            (
                r#"{"url":"http://a/","body":"","headers":{"a":"b","A":"c"}}"#,
                r#"args.headers["a"]: the header comes twice, in upper and in lower case"#,
            ),
        ] {
            assert_eq!(post(args).unwrap_err(), message, "{args}");
        }
    }

    #[test]
    fn a_redirect_keeps_secrets_with_the_server_they_were_for() {
        let args =
            r#"{"url":"https://a/","body":"x","headers":{"authorization":"s","x-key":"s","accept":"t"}}"#;
        let to = |status: u16, url: &str| {
            let uri: Uri = url.parse().unwrap();
            let target = Target::of(&uri).unwrap();
            let ask = post(args).unwrap().ask;
            let ask = ask.redirected(StatusCode::from_u16(status).unwrap(), uri, target);
            let mut names: Vec<_> = ask.headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            (ask.method.to_string(), ask.body.len(), names.join(" "))
        };
        let of = |method: &str, length, names: &str| (method.to_owned(), length, names.to_owned());
        assert_eq!(to(307, "https://a/b"), of("POST", 1, "accept authorization content-type x-key"));
        assert_eq!(to(308, "https://b/"), of("POST", 1, "accept content-type"));
        assert_eq!(to(302, "https://a:444/"), of("GET", 0, "accept"));
        assert_eq!(to(303, "https://a/b"), of("GET", 0, "accept authorization x-key"));
        assert_eq!(to(301, "http://a:443/"), of("GET", 0, "accept"), "another scheme is another server");
    }
}
