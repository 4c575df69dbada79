//! One request to the collector: spans go out as protobuf, and what comes back is read for what it means.
//!
//! OTLP says which answers are worth another try: those that say "not now", and none at all. Whatever else is
//! said would be said again.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::time::Duration;
use ureq::Agent;
use ureq::http::header::{CONTENT_TYPE, RETRY_AFTER};

/// Where OTLP listens for traces, if only a host is named.
const TRACES_PATH: &str = "/v1/traces";
/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// The longest pause that a collector may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Posted {
    /// It was taken, but for so many spans.
    Taken { rejected: u64, words: String },
    /// It was not, and another try may help, after this pause if one was named.
    NotNow { pause: Option<Duration>, words: String },
    /// It was not, and never will be.
    Refused { words: String },
}

/// The way to the collector.
#[derive(Debug)]
pub(crate) struct Post {
    agent: Agent,
    url: String,
}

impl Post {
    pub(crate) fn new(endpoint: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            // What the environment says of proxies is meant for browsers; a collector stands nearby.
            .proxy(None)
            .user_agent(concat!("millpond/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::new_with_config(config), url: url(endpoint) }
    }

    /// Sends a request, and waits for the answer.
    pub(crate) fn send(&self, request: &[u8]) -> Posted {
        // What stands behind a question mark may be a secret, and these words go to the log.
        let url = self.url.split('?').next().unwrap_or_default();
        let sent = self.agent.post(&self.url).header(CONTENT_TYPE, "application/x-protobuf").send(request);
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(error) => return Posted::NotNow { pause: None, words: format!("{url}: {error}") },
        };
        let status = answer.status().as_u16();
        let pause = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let pause = pause.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        match status {
            200..=299 => taken(url, &body.unwrap_or_default()),
            429 | 502 | 503 | 504 => {
                Posted::NotNow { pause, words: format!("{url}: expected status 200, got {status}") }
            }
            _ => {
                Posted::Refused { words: format!("{url}: expected status 200, got {status}; is this OTLP?") }
            }
        }
    }
}

/// The address that spans are posted to.
fn url(endpoint: &str) -> String {
    let after_scheme = endpoint.find("://").map_or(0, |place| place + 3);
    let (endpoint, query) = endpoint.split_at(endpoint.find('?').unwrap_or(endpoint.len()));
    let place = match endpoint[after_scheme..].find('/') {
        None => format!("{endpoint}{TRACES_PATH}"),
        Some(_) if endpoint[after_scheme..].trim_end_matches('/').contains('/') => endpoint.to_owned(),
        Some(_) => format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/')),
    };
    place + query
}

/// A collector may take a part only. An answer that is not understood was at least no refusal.
fn taken(url: &str, body: &[u8]) -> Posted {
    let partial = ExportTraceServiceResponse::decode(body).ok().and_then(|answer| answer.partial_success);
    let partial = partial.unwrap_or_default();
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or_default();
    Posted::Taken { rejected, words: format!("{url}: {rejected} spans rejected: {}", partial.error_message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_alone_means_the_usual_path() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://example.org/otlp/v1/traces", "https://example.org/otlp/v1/traces"),
            ("https://example.org/otlp/", "https://example.org/otlp/"),
        ] {
            assert_eq!(url(endpoint), expected);
        }
    }

    #[test]
    fn an_answer_that_is_no_protobuf_is_no_refusal() {
        for body in [&b""[..], b"{}", b"<html>"] {
            let taken = taken("", body);
            assert!(matches!(taken, Posted::Taken { rejected: 0, .. }), "{taken:?}");
        }
    }
}
