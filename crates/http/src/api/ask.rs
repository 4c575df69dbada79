//! One request as a route sees it, and the answers that most routes give.
//!
//! A route borrows the request, so that whoever finishes the answer can still name its address and its id.
//!
//! Not here: which route it is (`routes.rs`), reading its body (`body.rs`).

use super::problem::{Fault, Problem};
use super::query::{self, Query};
use super::routes::Route;
use crate::reply::Reply;
use crate::visit::Visit;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use millpond_tasks::TaskId;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::time::Duration;

/// What goes back.
pub(crate) type Answer = Response<Reply>;
/// What a route says.
pub(crate) type Answered = Result<Answer, Box<Problem>>;

/// The media type of nearly everything.
pub(super) const JSON_TYPE: &str = "application/json";
/// Requests or outcomes, one to a line.
pub(super) const LINES_TYPE: &str = "application/x-ndjson";

/// The largest map of headers that goes from a request to its answer and stays with the connection.
const HEADERS_KEPT_MAX: usize = 32;

/// One request on a known route.
pub(crate) struct Ask {
    pub(crate) route: &'static Route,
    /// The route's place in the table.
    pub(crate) number: usize,
    pub(crate) head: Parts,
    /// None once a stream has it.
    pub(crate) body: Option<Incoming>,
    /// Whether the body was read to its end.
    pub(crate) is_read: bool,
    pub(crate) visit: Visit,
}

impl Ask {
    /// The task that the address names.
    pub(super) fn task_id(&self) -> Result<TaskId, Box<Problem>> {
        let segment = self.route.variable(self.head.uri.path()).unwrap_or_default();
        let id = percent_decode_str(segment).decode_utf8().ok();
        id.as_deref().and_then(TaskId::parse).ok_or_else(|| {
            let expected =
                "expected the id of a task: a number, or 1 to 128 bytes without control characters";
            Problem::new(Fault::BadId, format!("{expected}, got {:?}", query::cut(segment)))
        })
    }

    /// What stands behind the question mark.
    pub(super) fn query(&self) -> Query<'_> {
        Query::of(&self.head.uri)
    }

    /// A header as text; none if it is not there. Only a header that comes once has one meaning.
    pub(super) fn header(&self, name: &HeaderName) -> Result<Option<&str>, Box<Problem>> {
        let mut values = self.head.headers.get_all(name).iter();
        let first = values.next();
        if values.next().is_some() {
            return Err(Problem::new(Fault::BadHeader, format!("{name}: expected it once, got it twice")));
        }
        let text = first.map(|value| std::str::from_utf8(value.as_bytes())).transpose();
        text.map_err(|_| Problem::new(Fault::BadHeader, format!("{name}: expected UTF-8, got other bytes")))
    }

    /// How long the client wants to be held: `?wait=5s`, or the header `Prefer: wait=5`. At most `max`.
    pub(super) fn wait(&self, max: Duration) -> Result<Option<Duration>, Box<Problem>> {
        let asked = self.query().duration("wait")?;
        let preferred = || {
            let values = self.head.headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
            let wait = |part: &str| part.trim().strip_prefix("wait=")?.trim().parse().ok();
            values.flat_map(|value| value.split([',', ';'])).find_map(wait).map(Duration::from_secs)
        };
        Ok(asked.or_else(preferred).map(|wait| wait.min(max)))
    }

    /// The body must be of one of these kinds: browsers send others without asking first.
    pub(super) fn expect_body(&self, kinds: &[&str]) -> Result<(), Box<Problem>> {
        if let Some(encoding) = self.header(&CONTENT_ENCODING)?.filter(|encoding| *encoding != "identity") {
            let detail =
                format!("content-encoding: expected none, got {:?}; send it as it is", query::cut(encoding));
            return Err(Problem::new(Fault::UnsupportedMediaType, detail).closing());
        }
        let value = self.header(&CONTENT_TYPE)?;
        let kind = value.map(|value| value.split(';').next().unwrap_or_default().trim());
        if kind.is_some_and(|kind| kinds.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind))) {
            return Ok(());
        }
        let got = kind.map_or(Cow::Borrowed("none"), |kind| Cow::Owned(format!("{:?}", query::cut(kind))));
        let detail = format!("content-type: expected {}, got {got}", kinds.join(" or "));
        Err(Problem::new(Fault::UnsupportedMediaType, detail).closing())
    }

    /// Which of these kinds the client wants most; the first one if it does not care.
    pub(super) fn preferred(&self, kinds: &[&'static str]) -> Result<&'static str, Box<Problem>> {
        let mut values =
            self.head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
        if values.peek().is_none() {
            return Ok(kinds[0]);
        }
        let mut best: Option<(f64, &'static str)> = None;
        for range in values.flat_map(|value| value.split(',')) {
            let (range, quality) = media_range(range);
            let found = kinds.iter().find(|kind| covers(range, kind));
            if let Some(kind) = found
                && quality > best.map_or(0.0, |(quality, _)| quality)
            {
                best = Some((quality, kind));
            }
        }
        best.map(|(_, kind)| kind).ok_or_else(|| {
            Problem::new(
                Fault::NotAcceptable,
                format!("accept: expected {}, got neither", kinds.join(" or ")),
            )
        })
    }
}

impl Ask {
    /// An answer in JSON, which nobody should keep. It takes the request's headers, so nothing reads those after it:
    /// hyper uses the map of an answer for the next request, and so a small one goes round and is never made anew.
    pub(super) fn json(&mut self, status: StatusCode, body: impl Into<Bytes>) -> Answer {
        let mut headers = std::mem::take(&mut self.head.headers);
        if headers.capacity() > HEADERS_KEPT_MAX {
            headers = HeaderMap::new();
        }
        headers.clear();
        json_with(headers, status, body.into())
    }
}

/// `text/*;q=0.5` as range and quality.
fn media_range(text: &str) -> (&str, f64) {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
    (range, quality.unwrap_or(1.0))
}

fn covers(range: &str, kind: &str) -> bool {
    range == "*/*"
        || range.eq_ignore_ascii_case(kind)
        || range.strip_suffix('*').is_some_and(|start| start.ends_with('/') && kind.starts_with(start))
}

/// An answer in JSON, which nobody should keep.
pub(super) fn json_answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    json_with(HeaderMap::new(), status, body.into())
}

fn json_with(mut headers: HeaderMap, status: StatusCode, body: Bytes) -> Answer {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let mut answer = Response::new(Reply::Whole(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// An answer in JSON, from what serde can write.
pub(super) fn json_of(status: StatusCode, value: &impl serde::Serialize) -> Answer {
    let mut body = Vec::with_capacity(256);
    serde_json::to_writer(&mut body, value).expect("structs of texts and numbers are JSON");
    json_answer(status, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_range_covers_what_it_names() {
        assert!(covers("*/*", "text/event-stream"));
        assert!(covers("text/*", "text/event-stream"));
        assert!(covers("Text/Event-Stream", "text/event-stream"));
        assert!(!covers("text*", "text/event-stream"));
        assert!(!covers("application/*", "text/event-stream"));
        assert_eq!(media_range(" text/* ; q=0.5"), ("text/*", 0.5));
    }
}
