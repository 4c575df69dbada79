//! Following one task: what it says while it says it, as server-sent events or as lines of JSON.
//!
//! The stream is the task's own, read at the pace of this client. Every event has its number, so a client
//! that lost its connection goes on after the last one it saw. There is exactly one end; a client that asks
//! for more after it is told that there is none, which also stops the browsers that would ask for ever.
//!
//! Not here: what a task says and how much of it is kept (the crate `millpond-tasks`).

use super::Api;
use super::ask::{Answered, Ask, LINES_TYPE};
use super::flow::{Out, flow};
use super::problem::{Fault, Problem};
use super::query::cut;
use super::view::TaskView;
use super::wait::{Bell, Woken};
use crate::reply::Reply;
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use millpond_tasks::{Said, StreamEvent, Wants, Watching};
use std::io::Write as _;
use std::sync::Arc;
use tokio::time::Instant;

/// The media type of server-sent events.
pub(super) const EVENTS_TYPE: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How much of a task's stream is read at once. The rest waits where it is.
const PIECE_BYTES: usize = 64 << 10;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As browsers read them.
    Events,
    /// `{"event":"partial","id":3,"data":{…}}`, one to a line.
    Lines,
}

/// `GET /v1/tasks/{id}/events`.
pub(super) fn follow(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let form = match ask.preferred(&[EVENTS_TYPE, LINES_TYPE])? {
        LINES_TYPE => Form::Lines,
        _ => Form::Events,
    };
    let task = super::task::find(api, ask)?;
    let from = match last_event_id(ask)? {
        // The end is the last event of all.
        Some(last) if task.is_ended() && last >= task.status().events => {
            let mut answer = Response::new(Reply::Whole(Bytes::new()));
            *answer.status_mut() = StatusCode::NO_CONTENT;
            return Ok(answer);
        }
        Some(last) => last.saturating_add(1),
        None => ask.query().number("from", 0, u64::MAX)?.unwrap_or(0),
    };
    let held = api.take_stream()?;
    let bell = Arc::<Bell>::default();
    let watching = task.watch(bell.reader(Wants::Stream { from }));
    let watching = watching.map_err(|failure| Problem::of_failure(failure, Some(task.id().clone())))?;
    ask.visit.park();
    let api = Arc::clone(api);
    let body = flow(move |out| async move {
        let _held = held;
        tell(&api, watching, &bell, form, &out).await;
    });
    Ok(stream_answer(form, body))
}

/// An answer that goes on.
pub(super) fn stream_answer(form: Form, body: Reply) -> Response<Reply> {
    let mut answer = Response::new(body);
    let kind = if form == Form::Events { EVENTS_TYPE } else { LINES_TYPE };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // What stands between may want to collect answers before it passes them on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    answer
}

/// The last event that a client has read. An empty one is as good as none, as browsers have it.
fn last_event_id(ask: &Ask) -> Result<Option<u64>, Box<Problem>> {
    let Some(text) = ask.header(&LAST_EVENT_ID)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.map(Some).ok_or_else(|| {
        let detail = format!("last-event-id: expected the number of an event, got {:?}", cut(text));
        Problem::new(Fault::BadHeader, detail)
    })
}

/// Tells everything until the end of the task, or of the daemon.
async fn tell(api: &Api, mut watching: Watching, bell: &Bell, form: Form, out: &Out) {
    let task = Arc::clone(watching.task());
    let view = TaskView::from(task.status());
    out.send(form.event("task", None, |data| write_json(&view, data))).await;
    let mut events = Vec::new();
    loop {
        // Looked at first: what was said before the end is then in the stream.
        let is_ended = task.is_ended();
        let more = watching.read(PIECE_BYTES.min(api.settings.stream_bytes_max), &mut events);
        if !events.is_empty() {
            out.send(form.said(&events)).await;
            events.clear();
        } else if is_ended && !more {
            let end = task.status().events;
            out.send(form.event("ended", Some(end), |data| _ = task.write_outcome(data))).await;
            return;
        } else if !more {
            match bell.rung(Instant::now() + api.settings.heartbeat, &api.door).await {
                Woken::Rang => {}
                Woken::Late => out.send(form.alive()).await,
                Woken::Drains => return out.send(form.drain()).await,
            }
        }
    }
}

impl Form {
    /// One event.
    pub(super) fn event(self, name: &str, id: Option<u64>, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write_event(name, id, write, &mut out);
        out
    }

    fn write_event(self, name: &str, id: Option<u64>, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        // Writing into a vector does not fail.
        let _ = match (self, id) {
            (Self::Events, Some(id)) => write!(out, "event: {name}\nid: {id}\ndata: "),
            (Self::Events, None) => write!(out, "event: {name}\ndata: "),
            (Self::Lines, Some(id)) => write!(out, "{{\"event\":\"{name}\",\"id\":{id},\"data\":"),
            (Self::Lines, None) => write!(out, "{{\"event\":\"{name}\",\"data\":"),
        };
        let start = out.len();
        write(out);
        // In JSON a line break is never part of a string, and here it would end the event.
        for byte in &mut out[start..] {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        out.extend_from_slice(if self == Self::Events { b"\n\n" } else { b"}\n" });
    }

    /// What a task said.
    fn said(self, events: &[StreamEvent]) -> Vec<u8> {
        let mut out = Vec::with_capacity(events.len() * 128);
        for event in events {
            let (name, id) = match event.what {
                Said::Partial(_) => ("partial", Some(event.offset)),
                Said::Progress(_) => ("progress", Some(event.offset)),
                Said::Log(_) => ("log", Some(event.offset)),
                // Its number is that of the next event, which is still to come.
                Said::Missed(_) => ("missed", event.offset.checked_sub(1)),
            };
            self.write_event(name, id, |data| event.write_json(data), &mut out);
        }
        out
    }

    /// A sign of life.
    pub(super) fn alive(self) -> &'static [u8] {
        match self {
            Self::Events => b": alive\n\n",
            Self::Lines => b"{\"event\":\"alive\"}\n",
        }
    }

    /// The daemon goes; the client may come again when there is another.
    pub(super) fn drain(self) -> &'static [u8] {
        match self {
            Self::Events => b"event: drain\nretry: 1000\ndata: {}\n\n",
            Self::Lines => b"{\"event\":\"drain\",\"data\":{}}\n",
        }
    }
}

/// Appends what serde can write.
pub(super) fn write_json(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value)
        .expect("structs of texts and numbers are JSON, and a vector takes them");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_event_whatever_is_in_it() {
        let write = |data: &mut Vec<u8>| data.extend_from_slice(b"{\n\"a\":\r\n1}");
        let events = String::from_utf8(Form::Events.event("partial", Some(3), write)).unwrap();
        assert_eq!(events, "event: partial\nid: 3\ndata: { \"a\":  1}\n\n");
        let lines = String::from_utf8(Form::Lines.event("partial", None, write)).unwrap();
        assert_eq!(lines, "{\"event\":\"partial\",\"data\":{ \"a\":  1}}\n");
    }

    #[test]
    fn whoever_goes_on_after_a_gap_misses_nothing_more() {
        let missed = StreamEvent { offset: 5, attempt: 1, what: Said::Missed(5) };
        let text = String::from_utf8(Form::Events.said(&[missed])).unwrap();
        assert!(text.contains("id: 4\n"), "the event with number 5 is still to come: {text}");
    }
}
