//! A request as bytes: written once, sent thousands of times.
//!
//! Fields that HTTP needs (`Host`, `Content-Length`, `Connection`) are added here, unless the caller has set
//! them: a load test may want a wrong `Host`, and then it shall be sent.

use std::fmt::Write;

/// What every client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query, from the first slash on.
    pub path: String,
    /// What the field `Host` says.
    pub host: String,
    /// Further fields, in this order.
    pub headers: Vec<(String, String)>,
    /// What follows the head.
    pub body: Vec<u8>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            method: "GET".into(),
            path: "/".into(),
            host: "localhost".into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }
}

impl Request {
    /// The bytes that go over the wire.
    pub(crate) fn bytes(&self, keep_alive: bool) -> Vec<u8> {
        let Self { method, path, host, headers, body } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let mut add = |name: &str, value: &str| {
            // Writing to a `String` cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        };
        let is_set = |name: &str| headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
        if !is_set("host") {
            add("Host", host);
        }
        headers.iter().for_each(|(name, value)| add(name, value));
        // Whoever posts nothing must say so; for the others no field means no body.
        if (!body.is_empty() || matches!(&**method, "POST" | "PUT" | "PATCH")) && !is_set("content-length") {
            add("Content-Length", &body.len().to_string());
        }
        if !keep_alive && !is_set("connection") {
            add("Connection", "close");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    /// Whether answers have no body, whatever their length says.
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Why it cannot be sent, if something in it would end a line of the head too early.
    pub(crate) fn mistake(&self) -> Option<String> {
        let is_token = |text: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !text.is_empty() && text.bytes().all(allowed)
        };
        let is_line = |text: &str| text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 127));
        if !is_token(&self.method) {
            return Some(format!("method: expected a word such as GET or POST, got {:?}", self.method));
        }
        if !self.path.starts_with('/') || !self.path.bytes().all(|byte| byte > b' ' && byte != 127) {
            return Some(format!(
                "path: expected one that begins with / and has no space, got {:?}",
                self.path
            ));
        }
        let fields = [("Host", &*self.host)].into_iter();
        let mut fields = fields.chain(self.headers.iter().map(|(name, value)| (&**name, &**value)));
        let (name, value) = fields.find(|(name, value)| !is_token(name) || !is_line(value))?;
        Some(format!("header {name:?}: expected a name and a value on one line, got {value:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request, keep_alive: bool) -> String {
        String::from_utf8(request.bytes(keep_alive)).unwrap()
    }

    #[test]
    fn a_plain_request_has_a_host_and_says_if_it_will_not_come_back() {
        let request = Request::default();
        assert_eq!(text(&request, true), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(text(&request, false), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }

    #[test]
    fn a_body_comes_with_its_length_and_an_empty_post_with_nought() {
        let mut request = Request { method: "POST".into(), body: b"abc".to_vec(), ..Request::default() };
        assert!(text(&request, true).ends_with("\r\nContent-Length: 3\r\n\r\nabc"));
        request.body.clear();
        assert!(text(&request, true).ends_with("\r\nContent-Length: 0\r\n\r\n"));
    }

    #[test]
    fn what_the_caller_has_set_is_not_said_twice() {
        let headers = [("host", "elsewhere"), ("CONNECTION", "close")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let request = Request { headers, ..Request::default() };
        assert_eq!(text(&request, false), "GET / HTTP/1.1\r\nhost: elsewhere\r\nCONNECTION: close\r\n\r\n");
    }

    #[test]
    fn a_line_cannot_be_smuggled_into_the_head() {
        assert_eq!(Request::default().mistake(), None);
        let header = |name: &str, value: &str| Request {
            headers: vec![(name.to_owned(), value.to_owned())],
            ..Request::default()
        };
        assert!(header("X", "a\r\nY: b").mistake().is_some());
        assert!(header("X Y", "a").mistake().is_some());
        assert!(Request { path: "/a b".into(), ..Request::default() }.mistake().is_some());
        assert!(Request { path: "a".into(), ..Request::default() }.mistake().is_some());
        assert!(Request { method: "GET /".into(), ..Request::default() }.mistake().is_some());
    }
}
