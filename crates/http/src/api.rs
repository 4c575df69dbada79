//! What is answered to each request: checked, routed and done; and every answer is finished alike.
//!
//! To follow one: `guard.rs` says whether it may ask at all, `routes.rs` what it asks for; `submit.rs`,
//! `task.rs`, `list.rs`, `batch.rs` and `bulk.rs` deal with tasks, `follow.rs` and `events.rs` with what goes
//! on, `about.rs` with the daemon itself. `problem.rs` is how any of them says no, `openapi.rs` how the
//! whole is described to programs, and `reference.rs` to people.
//!
//! Not here: connections, and how many requests are worked on at once (`connection.rs`, `line.rs`).

mod about;
mod ask;
mod batch;
mod body;
mod bulk;
mod cutter;
mod dead;
mod events;
mod flow;
mod follow;
mod guard;
mod limit;
mod list;
mod openapi;
mod problem;
mod query;
#[cfg(test)]
mod reference;
mod request_id;
pub(crate) mod routes;
mod schemas;
mod submit;
mod task;
mod tick;
mod tokens;
mod view;
mod wait;

use crate::door::Door;
use crate::http_door::OpenError;
use crate::reply::Reply;
use crate::visit::{Peer, Visit};
use ask::{Answer, Answered, Ask};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{ALLOW, CONNECTION, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
pub(crate) use limit::Held;
use limit::Limit;
use millpond_tasks::ServiceHandle;
use millpond_tasks::config::WebSettings;
use problem::{Fault, Problem};
use request_id::{RequestIds, X_REQUEST_ID};
use routes::{Act, Role, Route};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tick::Ticks;
use tokens::Tokens;

/// The environment variable with a token, for those who have no file for it.
const TOKEN_VARIABLE: &str = "MILLPOND_TOKEN";

/// From which size on an answer counts among the large ones.
const LARGE_BYTES: usize = 64 << 10;

/// What every request may use.
pub(crate) struct Api {
    pub(crate) service: ServiceHandle,
    pub(crate) settings: Arc<WebSettings>,
    pub(crate) door: Arc<Door>,
    /// Requests that wait for a task to end.
    pub(crate) waiting: Limit,
    /// Clients that follow events.
    pub(crate) streams: Limit,
    /// Bytes of bodies that are being read.
    pub(crate) bodies: Limit,
    /// Bytes of large answers that are not written yet.
    pub(crate) answers: Limit,
    tokens: Tokens,
    request_ids: RequestIds,
    openapi: OnceLock<Bytes>,
    ticks: Ticks,
}

impl Api {
    /// Reads the tokens. A door that other machines reach must have one.
    pub(crate) fn new(
        service: ServiceHandle,
        settings: Arc<WebSettings>,
        door: Arc<Door>,
        address: Option<SocketAddr>,
    ) -> Result<Self, OpenError> {
        let tokens = Tokens::load(&settings, std::env::var(TOKEN_VARIABLE).ok()).map_err(OpenError::Token)?;
        if let Some(address) = address.filter(|address| !address.ip().is_loopback() && !tokens.is_any()) {
            return Err(OpenError::TokenNeeded(address));
        }
        Ok(Self {
            waiting: Limit::new(settings.waiting_max),
            streams: Limit::new(settings.streams_max),
            bodies: Limit::new(usize::try_from(settings.bodies_bytes_max).unwrap_or(usize::MAX)),
            answers: Limit::new(usize::try_from(settings.answers_bytes_max).unwrap_or(usize::MAX)),
            tokens,
            request_ids: RequestIds::new(),
            openapi: OnceLock::new(),
            ticks: Ticks::default(),
            service,
            settings,
            door,
        })
    }

    /// The right to wait for a task.
    fn take_waiting(&self) -> Result<Held, Box<Problem>> {
        self.waiting.take(1).ok_or_else(|| {
            let max = self.waiting.max();
            let detail =
                format!("{max} of {max} requests wait already; come again, or raise web.waiting_max");
            Problem::new(Fault::TooManyWaiting, detail)
        })
    }

    /// The right to keep so many bytes of a body.
    fn take_body(&self, bytes: usize) -> Result<Held, Box<Problem>> {
        self.bodies.take(bytes).ok_or_else(|| {
            let advice = "come again, or raise web.bodies_bytes_max";
            let detail = format!("all bodies together take as much memory as they may; {advice}");
            Problem::new(Fault::BodiesFull, detail).closing()
        })
    }

    /// The right to follow events.
    fn take_stream(&self) -> Result<Held, Box<Problem>> {
        self.streams.take(1).ok_or_else(|| {
            let max = self.streams.max();
            let detail =
                format!("{max} of {max} streams are open already; come again, or raise web.streams_max");
            Problem::new(Fault::TooManyWaiting, detail)
        })
    }
}

/// What came of a request at first sight.
pub(crate) enum Begun {
    /// It is answered.
    Answered(Answer),
    /// Its body is to be read, or something to be waited for.
    Later(Box<Later>),
}

/// A request that is not answered at once.
pub(crate) struct Later {
    ask: Ask,
    origin: Option<HeaderValue>,
    request_id: HeaderValue,
}

/// Answers everything that reaches a worker, at once if nothing has to be waited for: most requests never become
/// a future.
pub(crate) fn begin(api: &Arc<Api>, request: Request<Incoming>, visit: Visit) -> Begun {
    let (head, body) = request.into_parts();
    let request_id = api.request_ids.of(&head.headers);
    let mut origin = None;
    let is_read = body.is_end_stream();
    let began = visit.began;
    let Some((number, route)) = routes::find(&head.method, head.uri.path()) else {
        let answered = without_route(api, &head, visit.peer, &mut origin);
        let answer = finish(answered, &head, is_read, origin, request_id);
        api.door.meter.record(None, answer.status().as_u16(), began.elapsed());
        return Begun::Answered(answer);
    };
    let mut ask = Ask { route, number, head, body: Some(body), is_read, visit };
    let answered = match (admit(api, &ask, route, &mut origin), &route.act) {
        (Ok(()), Act::Now(act)) if is_read => act(api, &mut ask),
        (Ok(()), _) => return Begun::Later(Box::new(Later { ask, origin, request_id })),
        (Err(problem), _) => Err(problem),
    };
    Begun::Answered(finish_ask(api, answered, &ask, origin, request_id))
}

impl Later {
    /// Answers it.
    pub(crate) async fn answer(self: Box<Self>, api: &Arc<Api>) -> Answer {
        let Self { mut ask, origin, request_id } = *self;
        let route = ask.route;
        let answered = act(api, &mut ask, route).await;
        finish_ask(api, answered, &ask, origin, request_id)
    }
}

/// A large answer may lie unread for long, so all of them together have a limit.
fn count_large(api: &Api, reply: &mut Reply) -> Result<(), Box<Problem>> {
    let Reply::Whole(bytes) = reply else { return Ok(()) };
    if bytes.len() <= LARGE_BYTES {
        return Ok(());
    }
    let Some(held) = api.answers.take(bytes.len()) else {
        let advice = "come again, or raise web.answers_bytes_max";
        let detail = format!("answers that others have not read take as much memory as they may; {advice}");
        return Err(Problem::new(Fault::AnswersFull, detail));
    };
    *reply = Reply::Large { bytes: std::mem::take(bytes), _held: held };
    Ok(())
}

/// Finishes the answer of a route, and counts it.
fn finish_ask(
    api: &Api,
    mut answered: Answered,
    ask: &Ask,
    origin: Option<HeaderValue>,
    request_id: HeaderValue,
) -> Answer {
    if let Ok(answer) = &mut answered
        && let Err(problem) = count_large(api, answer.body_mut())
    {
        answered = Err(problem);
    }
    let answer = finish(answered, &ask.head, ask.is_read, origin, request_id);
    api.door.meter.record(Some(ask.number), answer.status().as_u16(), ask.visit.began.elapsed());
    answer
}

/// Whether the request may ask for this route.
fn admit(api: &Api, ask: &Ask, route: &Route, origin: &mut Option<HeaderValue>) -> Result<(), Box<Problem>> {
    guard::check_host(api, &ask.head, ask.visit.peer)?;
    *origin = guard::check_origin(api, &ask.head, route.role)?;
    guard::check_token(api, &ask.head.headers, ask.visit.peer, route.role)?;
    ask.query().check(route)
}

async fn act(api: &Arc<Api>, ask: &mut Ask, route: &Route) -> Answered {
    if route.body.is_none() && !ask.is_read {
        body::pass_over(api, ask).await;
    }
    match route.act {
        Act::Now(act) => act(api, ask),
        Act::Later(act) => act(api, ask).await,
    }
}

/// There is no route for this method and path: a browser asks first, or somebody is mistaken.
fn without_route(api: &Api, head: &Parts, peer: Peer, origin: &mut Option<HeaderValue>) -> Answered {
    guard::check_host(api, head, peer)?;
    let path = head.uri.path();
    *origin = guard::check_origin(api, head, Role::Open)?;
    let methods = methods_at(path);
    if methods.is_empty() {
        let path = query::cut(path);
        let detail = format!("nothing is at {path:?}; did you mean {}?", routes::nearest(path));
        return Err(Problem::new(Fault::RouteNotFound, detail));
    }
    let allowed = HeaderValue::try_from(methods.join(", ")).expect("names of methods are visible");
    if head.method != Method::OPTIONS {
        let got = query::cut(head.method.as_str());
        let detail = format!("{}: expected one of {}, got {got}", query::cut(path), methods.join(", "));
        return Err(Problem::new(Fault::MethodNotAllowed, detail).with_header(ALLOW, allowed));
    }
    let mut answer = Response::new(Reply::Whole(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    if origin.is_some() {
        guard::write_preflight(&allowed, answer.headers_mut());
    }
    answer.headers_mut().insert(ALLOW, allowed);
    Ok(answer)
}

/// The methods that an address has; none if there is nothing.
fn methods_at(path: &str) -> Vec<&'static str> {
    let mut methods: Vec<_> = routes::at(path).map(|route| route.verb.name()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    if !methods.is_empty() {
        methods.push("OPTIONS");
    }
    methods
}

/// What every answer has.
fn finish(
    answered: Answered,
    head: &Parts,
    is_read: bool,
    origin: Option<HeaderValue>,
    request_id: HeaderValue,
) -> Answer {
    let mut answer = match answered {
        Ok(answer) => answer,
        Err(problem) => problem.into_answer(head.uri.path(), request_id::text(&request_id)),
    };
    let headers = answer.headers_mut();
    if !is_read {
        // What is left of the body would be taken for the next request.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    guard::open_to(origin, headers);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_REQUEST_ID, request_id);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_methods() {
        assert_eq!(methods_at("/v1/tasks"), ["POST", "GET", "HEAD", "OPTIONS"]);
        assert_eq!(methods_at("/v1/exec"), ["POST", "OPTIONS"]);
        assert_eq!(methods_at("/v1/nothing"), [""; 0]);
    }
}
