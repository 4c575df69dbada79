//! The daemon itself: whether it lives and takes tasks, what it is, and what works in it.
//!
//! Not here: the figures (`stats.rs`, `metrics.rs`) and the page (`page.rs`), which have files of their own.

use super::ask::{Answered, Ask, json_answer, json_of};
use super::problem::{Fault, Problem};
use super::query::cut;
use super::routes::Shape;
use super::{Api, openapi};
use crate::{metrics, page, stats};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use millpond_tasks::{ErrorCode, HandlerInfo, PoolStats, TaskFailure, WorkerStats};
use serde::Serialize;
use std::sync::Arc;

const TEXT_TYPE: &str = "text/plain";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text";
/// What Prometheus reads.
pub(super) const METRICS_TEXT: Shape = Shape { media: "text/plain; version=0.0.4", schema: None };
/// What newer scrapers ask for.
pub(super) const OPEN_METRICS: Shape =
    Shape { media: "application/openmetrics-text; version=1.0.0; charset=utf-8", schema: None };
/// The dashboard.
pub(super) const PAGE: Shape = Shape { media: "text/html", schema: None };
/// A part of it, of whatever kind.
pub(super) const PART: Shape = Shape { media: "*/*", schema: None };

/// `GET /healthz`.
pub(super) fn health(_: &Arc<Api>, ask: &mut Ask) -> Answered {
    Ok(ask.json(StatusCode::OK, Bytes::from_static(b"{\"status\":\"ok\"}")))
}

/// `GET /readyz`.
pub(super) fn ready(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    if api.door.is_draining() || api.service.is_draining() {
        let failure =
            TaskFailure::new(ErrorCode::Draining, "the daemon is shutting down and takes no more tasks");
        return Err(Problem::of_failure(failure, None));
    }
    if let Some(failure) = api.service.journal_failure() {
        return Err(Problem::of_failure(failure, None));
    }
    Ok(ask.json(StatusCode::OK, Bytes::from_static(b"{\"status\":\"ready\"}")))
}

/// `GET /version`.
pub(super) fn version(_: &Arc<Api>, _: &mut Ask) -> Answered {
    #[derive(Serialize)]
    struct Version {
        name: &'static str,
        version: &'static str,
        api: &'static str,
    }
    Ok(json_of(StatusCode::OK, &Version { name: "millpond", version: env!("CARGO_PKG_VERSION"), api: "v1" }))
}

/// `GET /openapi.json`.
pub(super) fn openapi(api: &Arc<Api>, _: &mut Ask) -> Answered {
    let make = || openapi::document(api.service.limits(), api.settings.batch_max).to_string().into();
    let document = api.openapi.get_or_init(make);
    Ok(json_answer(StatusCode::OK, document.clone()))
}

/// `GET /v1/handlers`.
pub(super) fn handlers(api: &Arc<Api>, _: &mut Ask) -> Answered {
    #[derive(Serialize)]
    struct Handlers {
        handlers: Vec<HandlerInfo>,
    }
    Ok(json_of(StatusCode::OK, &Handlers { handlers: api.service.handler_infos() }))
}

/// `GET /v1/workers`.
pub(super) fn workers(api: &Arc<Api>, _: &mut Ask) -> Answered {
    #[derive(Serialize)]
    struct Workers {
        workers: Vec<WorkerStats>,
        strategy: String,
    }
    let PoolStats { workers, strategy, .. } = api.service.stats().pool;
    Ok(json_of(StatusCode::OK, &Workers { workers, strategy }))
}

/// `GET /stats`.
pub(super) fn stats(api: &Arc<Api>, _: &mut Ask) -> Answered {
    Ok(json_answer(StatusCode::OK, stats::stats_json(api)))
}

/// `GET /metrics`.
pub(super) fn metrics(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    // Whoever accepts neither is most likely a browser, and can read text.
    let wanted = ask.preferred(&[TEXT_TYPE, OPEN_METRICS_TYPE]);
    let is_open = wanted.is_ok_and(|kind| kind == OPEN_METRICS_TYPE);
    let Shape { media, .. } = if is_open { OPEN_METRICS } else { METRICS_TEXT };
    let mut answer = json_answer(StatusCode::OK, metrics::metrics_text(api, is_open));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(answer)
}

/// `GET /` and `GET /assets/{name}`.
pub(super) fn page(_: &Arc<Api>, ask: &mut Ask) -> Answered {
    page::answer(ask.head.uri.path(), &ask.head.headers).ok_or_else(|| not_here(ask))
}

fn not_here(ask: &Ask) -> Box<Problem> {
    let path = cut(ask.head.uri.path());
    Problem::new(Fault::RouteNotFound, format!("nothing is at {path:?}"))
}
