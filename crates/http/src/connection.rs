//! One connection from its first byte to its end: hyper speaks HTTP, this decides how it ends.
//!
//! A connection whose client may still be sending is not simply closed: the system would throw away the
//! answer along with what was not read. It goes back to the front, which waits a moment (`front.rs`).
//!
//! Not here: what is answered (`api.rs`).

use crate::api::{self, Api, Begun, Later};
use crate::clients::Client;
use crate::door::{Arrival, Errand, Pass};
use crate::figures::{Cut, Turned};
use crate::refuse;
use crate::reply::{Reply, Sent};
use crate::visit::Visit;
use crate::wire::{FirstRound, Wire};
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Instant;

/// What hyper has room for without being told. Being told costs it a list of that length for each request.
const HEADERS_MAX_USUAL: usize = 100;

/// How much hyper keeps of an answer before it waits for the client. The rest is counted where it lies.
const BUFFER_BYTES: usize = 64 << 10;

/// How a connection ended.
enum Ending {
    /// All was said.
    Done,
    /// What came was no HTTP, or the client went away in the middle.
    Broken,
    /// The door ended it.
    Cut(Cut),
}

/// Serves a connection to its end.
pub(crate) async fn serve(api: Arc<Api>, arrival: Arrival) {
    let Arrival { socket, entry, .. } = arrival;
    let client = Arc::clone(entry.client());
    client.is_awaited();
    let round = Arc::new(FirstRound::default());
    let wire = Wire::new(socket, Arc::clone(&client), Arc::clone(&round));
    let settings = &api.settings;
    let mut builder = http1::Builder::new();
    builder.max_header_size(settings.head_bytes_max).writev(false);
    builder.max_buf_size(settings.head_bytes_max.max(BUFFER_BYTES));
    if settings.headers_max != HEADERS_MAX_USUAL {
        builder.max_headers(settings.headers_max);
    }
    let service = service_fn(|request: Request<Incoming>| {
        let count = client.has_asked(!request.body().is_end_stream());
        let visit = Visit { peer: client.peer, place: None, began: Instant::now() };
        let is_last = count >= api.settings.requests_per_connection_max;
        answer(&api, &client, request, visit, is_last)
    });
    let mut connection = builder.serve_connection(wire, service);
    let mut told = None;
    let ending = poll_fn(|context| {
        let mut polled = Poll::Pending;
        match client.listen(context.waker()) {
            Some(why @ (Cut::Idle | Cut::Evicted | Cut::Drain)) => {
                told.get_or_insert(why);
                // First what has come, which may be a request; then no more.
                polled = Pin::new(&mut connection).poll(context);
                Pin::new(&mut connection).graceful_shutdown();
            }
            Some(why) if client.is_still_due(why) => return Poll::Ready(Ending::Cut(why)),
            _ => {}
        }
        if polled.is_pending() {
            polled = Pin::new(&mut connection).poll(context);
        }
        if polled.is_pending() && round.end() {
            polled = Pin::new(&mut connection).poll(context);
        }
        polled.map(|done| if done.is_ok() { Ending::Done } else { Ending::Broken })
    })
    .await;
    let parts = connection.into_parts();
    if let (Some(why), Ending::Done) = (told, &ending) {
        api.door.figures.was_cut(why);
    }
    // Unread requests would make the system throw away answers that the client has not read.
    let may_be_sending = !parts.read_buf.is_empty() || client.may_be_sending();
    end(&api, parts.io, may_be_sending, &ending);
}

/// Closes the connection so that the client can read what was written.
fn end(api: &Api, wire: Wire, may_be_sending: bool, ending: &Ending) {
    match ending {
        Ending::Done if !may_be_sending => return,
        Ending::Done => {}
        Ending::Broken => {
            api.door.figures.broken.fetch_add(1, Relaxed);
        }
        Ending::Cut(why) => {
            api.door.figures.was_cut(*why);
            if *why != Cut::SlowHead {
                return;
            }
        }
    }
    let Some(socket) = wire.into_socket() else { return };
    if matches!(ending, Ending::Cut(Cut::SlowHead)) {
        // A client that takes no answer gets none.
        let _ = socket.write(&refuse::slow_head());
    }
    // If the front has too much to do already, the client is closed without that moment.
    let _ = api.door.front.send(Errand::Linger(socket));
}

/// An answer that is made, or being made.
enum Answering {
    Now(Option<Response<Sent>>),
    Later(Pin<Box<dyn Future<Output = Response<Sent>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<Sent>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(answer) => Poll::Ready(Ok(answer.take().expect("an answer is taken once"))),
            Self::Later(answer) => answer.as_mut().poll(context).map(Ok),
        }
    }
}

/// Answers one request: at once if there is a place and nothing to wait for.
fn answer(
    api: &Arc<Api>,
    client: &Arc<Client>,
    request: Request<Incoming>,
    mut visit: Visit,
    is_last: bool,
) -> Answering {
    api.door.figures.requests.fetch_add(1, Relaxed);
    let pass = client.take_pass();
    let is_health = refuse::is_health_path(request.uri().path());
    let waits = if is_health {
        false
    } else {
        visit.place = api.door.try_take();
        visit.place.is_none()
    };
    if waits {
        let (api, client) = (Arc::clone(api), Arc::clone(client));
        return Answering::Later(Box::pin(async move {
            let seat = match pass {
                Some(Pass::Seat(seat)) => Some(seat),
                _ => None,
            };
            let response = match api.door.enter(seat).await {
                Ok(place) => {
                    visit.place = Some(place);
                    match begin(&api, request, visit) {
                        Begun::Answered(response) => response,
                        Begun::Later(later) => guarded(&api, later).await,
                    }
                }
                Err(why) => refusal(&api, why),
            };
            sent(&api, &client, response, is_last)
        }));
    }
    // Whoever has a place needs no seat beside it. A reserve is held until the answer is made.
    let _reserved = pass.filter(|pass| matches!(pass, Pass::Health { .. }));
    match begin(api, request, visit) {
        Begun::Answered(response) => Answering::Now(Some(sent(api, client, response, is_last))),
        Begun::Later(later) => {
            let (api, client) = (Arc::clone(api), Arc::clone(client));
            Answering::Later(Box::pin(async move {
                let response = guarded(&api, later).await;
                sent(&api, &client, response, is_last)
            }))
        }
    }
}

/// The answer as hyper sends it.
fn sent(api: &Api, client: &Arc<Client>, mut response: Response<Reply>, is_last: bool) -> Response<Sent> {
    if !response.headers().contains_key(CONNECTION) {
        client.was_heard();
    }
    if is_last || api.door.is_draining() {
        client.is_dismissed();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|reply| Sent::new(reply, Arc::clone(client)))
}

/// What the API says at first sight. A panic of ours costs this request alone.
fn begin(api: &Arc<Api>, request: Request<Incoming>, visit: Visit) -> Begun {
    let begun = catch_unwind(AssertUnwindSafe(|| api::begin(api, request, visit)));
    begun.unwrap_or_else(|_| Begun::Answered(panicked(api)))
}

/// What the API says in the end. A panic of ours costs this request alone.
async fn guarded(api: &Arc<Api>, later: Box<Later>) -> Response<Reply> {
    let mut future = pin!(later.answer(api));
    let caught = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await;
    caught.unwrap_or_else(|| panicked(api))
}

fn panicked(api: &Api) -> Response<Reply> {
    api.door.figures.panics.fetch_add(1, Relaxed);
    api.door.log.error("http: a request made the daemon panic; it was answered with 500");
    problem(StatusCode::INTERNAL_SERVER_ERROR, PANICKED.to_owned())
}

const PANICKED: &str = "{\"type\":\"urn:millpond:error:internal\",\"title\":\"This is a mistake of millpond itself; \
                        please report it.\",\"status\":500,\"code\":\"internal\",\"number\":-199}\n";

/// The same refusal that the front gives, to a request on a connection that was kept open.
fn refusal(api: &Api, why: Turned) -> Response<Reply> {
    let retry_after = api.door.retry_after();
    let status = StatusCode::from_u16(why.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = problem(status, refuse::problem(why, retry_after));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}

fn problem(status: StatusCode, text: String) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
