//! A plain HTTP server on hyper and tokio, one thread: the peer that shows what the libraries alone do.
//!
//! `plain_hyper ADDRESS HEAD_TIMEOUT_MS` answers `GET /healthz` at once. `POST /v1/exec` waits for one of
//! eight places and then sleeps for the `ms` in its body. Nothing bounds how many wait for a place: that is
//! what nginx and haproxy are put in front of it for, and what happens without them is measured too.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How many requests are worked on at a time.
const PLACES: usize = 8;
/// As long as the answers of the other servers.
const HEALTHY: &str = "{\"status\":\"ok\"}";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, timeout] = &words[..] else { return Err("expected ADDRESS HEAD_TIMEOUT_MS".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(address.parse()?, Duration::from_millis(timeout.parse()?)))
}

async fn serve(address: SocketAddr, head_timeout: Duration) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    let places = Arc::new(Semaphore::new(PLACES));
    loop {
        // Too many open files is no reason to end.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let places = Arc::clone(&places);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&places)));
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(head_timeout);
            // A client that goes away is not our business.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    places: Arc<Semaphore>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    if path == "/healthz" {
        return Ok(said(StatusCode::OK, HEALTHY.into()));
    }
    if path != "/v1/exec" {
        return Ok(said(StatusCode::NOT_FOUND, String::new()));
    }
    let Ok(body) = request.into_body().collect().await else {
        return Ok(said(StatusCode::BAD_REQUEST, String::new()));
    };
    let Some(ms) = milliseconds(&body.to_bytes()) else {
        return Ok(said(StatusCode::BAD_REQUEST, String::new()));
    };
    let place = places.acquire().await;
    tokio::time::sleep(Duration::from_millis(ms)).await;
    drop(place);
    Ok(said(StatusCode::OK, format!("{{\"ms\":{ms}}}")))
}

fn said(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn milliseconds(body: &[u8]) -> Option<u64> {
    let request: serde_json::Value = serde_json::from_slice(body).ok()?;
    request["args"]["ms"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_from_the_request() {
        assert_eq!(milliseconds(br#"{"handler":"sleep","args":{"ms":10}}"#), Some(10));
        assert_eq!(milliseconds(b"{}"), None);
        assert_eq!(milliseconds(b"no JSON"), None);
    }
}
