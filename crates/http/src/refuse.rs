//! What a client is told that is not served: the bytes of a 503 or a 408, made without a worker.
//!
//! It is a problem document like every other error of the door, and says when to come again.

use crate::figures::Turned;

/// What the paths begin with that are answered even if there is no place.
const HEALTH_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The longest beginning of a request that is looked at to see whether it asks for the door's health.
pub(crate) const HEAD_PEEKED_BYTES: usize = 64;

/// Whether a path is one of those that are answered even if there is no place.
pub(crate) fn is_health_path(path: &str) -> bool {
    HEALTH_PATHS.contains(&path)
}

/// Whether the beginning of a request asks for the door's health.
pub(crate) fn asks_for_health(head: &[u8]) -> bool {
    let rest = head.strip_prefix(b"GET ").or_else(|| head.strip_prefix(b"HEAD "));
    rest.is_some_and(|rest| {
        HEALTH_PATHS.iter().any(|path| {
            let after = rest.strip_prefix(path.as_bytes()).and_then(|after| after.first());
            matches!(after, Some(b' ' | b'?'))
        })
    })
}

impl Turned {
    /// One sentence for people.
    fn title(self) -> &'static str {
        match self {
            Self::QueueFull => "All places are held and the queue is full.",
            Self::QueueTimeout => "The request waited in the queue for too long.",
            Self::TooMany => "Too many connections are open.",
            Self::PeerTooMany => "This address has too many connections open.",
            Self::Draining => "The daemon is shutting down.",
            Self::NoDescriptors => "The system has no more file descriptors.",
            Self::Stranger => "This socket is for programs of its owner.",
        }
    }

    /// What programs go by.
    fn code(self) -> &'static str {
        match self {
            Self::QueueFull | Self::QueueTimeout => "connection-queue-full",
            Self::TooMany | Self::PeerTooMany | Self::NoDescriptors => "too-many-connections",
            Self::Draining => "draining",
            Self::Stranger => "forbidden",
        }
    }

    pub(crate) fn status(self) -> u16 {
        if self == Self::Stranger { 403 } else { 503 }
    }
}

/// The problem document of a refusal.
pub(crate) fn problem(why: Turned, retry_after: u64) -> String {
    let (code, title, status) = (why.code(), why.title(), why.status());
    let detail = match why {
        Turned::Stranger => "connect as the user who runs the daemon".to_owned(),
        _ => format!("come again in {retry_after} s"),
    };
    format!(
        "{{\"type\":\"urn:millpond:error:{code}\",\"title\":\"{title}\",\"status\":{status},\
         \"detail\":\"{detail}\",\"code\":\"{code}\",\"retry_after_ms\":{}}}\n",
        retry_after * 1000
    )
}

/// The whole answer to a client that is refused.
pub(crate) fn answer(why: Turned, retry_after: u64) -> Vec<u8> {
    let reason = if why.status() == 403 { "Forbidden" } else { "Service Unavailable" };
    let body = problem(why, retry_after);
    whole(why.status(), reason, &format!("Retry-After: {retry_after}\r\n"), &body)
}

/// The whole answer to a client whose head takes too long.
pub(crate) fn slow_head() -> Vec<u8> {
    let body = "{\"type\":\"urn:millpond:error:head-timeout\",\"title\":\"The head of the request took too long.\",\
                \"status\":408,\"code\":\"head-timeout\"}\n";
    whole(408, "Request Timeout", "", body)
}

fn whole(status: u16, reason: &str, header: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
         Connection: close\r\n{header}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_whole_http_with_a_problem_document() {
        let text = String::from_utf8(answer(Turned::QueueFull, 3)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(head.contains("\r\nRetry-After: 3") && head.contains("\r\nConnection: close"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&"connection-queue-full".into(), &503.into()));
        assert_eq!(problem["retry_after_ms"], 3000);
        let text = String::from_utf8(slow_head()).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(text.split_once("\r\n\r\n").unwrap().1).is_ok());
    }

    #[test]
    fn every_refusal_can_be_read_as_json() {
        for why in Turned::ALL {
            let read = serde_json::from_str::<serde_json::Value>(&problem(why, 1));
            assert!(read.is_ok(), "{}: {read:?}", why.name());
        }
    }

    #[test]
    fn only_health_checks_are_taken_for_health_checks() {
        for head in ["GET /healthz HTTP/1.1\r\n", "HEAD /readyz HTTP/1.0\r\n", "GET /metrics?x=1 HTTP/1.1"] {
            assert!(asks_for_health(head.as_bytes()), "{head}");
        }
        for head in
            ["", "GET /", "GET /healthz", "GET /healthzz ", "POST /healthz ", "GET /v1/tasks HTTP/1.1"]
        {
            assert!(!asks_for_health(head.as_bytes()), "{head}");
        }
    }
}
