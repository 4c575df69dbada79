//! The settings of the HTTP door: their part of the table, and what the door is given.
//!
//! They are many because everything a stranger can make the daemon hold has a limit: connections, requests
//! that wait, heads, bodies, answers nobody reads, streams. The defaults suit a daemon on one machine.
//!
//! Not here: the settings of the handlers `http_get` and `http_post`, whose section is `http`.

use super::load::Loaded;
use super::table::{DAY, GIB, SOME_TIME, Setting, setting};
use super::typed::{is_on, list, number, span, text};
use super::value::Kind::{self, Address, Bytes, Count, Fraction, Hosts, Path, Span, Switch};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where the door listens if nobody says where.
pub const WEB_ADDRESS: &str = "127.0.0.1:7117";

const MINUTES: Kind = Span(Duration::from_millis(1), Duration::from_secs(3600));

const fn web(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "web", about).only_with("web.enabled", "true")
}

/// The settings of the HTTP door, as they stand in the table.
pub(super) const WEB_SETTINGS: &[Setting] = &[
    setting(
        "web.enabled",
        Switch,
        "true",
        "web",
        "Whether tasks are taken by HTTP, and the dashboard is shown.",
    ),
    web("web.listen", Address, "auto", "Where the door listens; beyond this machine only with a token.")
        .or("auto", "127.0.0.1:7117, or a free port of this machine if that is taken"),
    web("web.socket", Path, "none", "A Unix socket on which the door listens too.").or("none", "no socket"),
    web("web.token_file", Path, "none", "A file with the token that clients must show.")
        .or("none", "no token is asked for"),
    web("web.read_token_file", Path, "none", "A file with a token that allows to look and not to change.")
        .or("none", "no such token"),
    web(
        "web.hosts",
        Hosts,
        "",
        "Names under which the door may be reached, beside its address and this machine.",
    ),
    web("web.origins", Hosts, "", "Hosts whose pages may use the door from a browser."),
    web("web.workers", Count(1, 64), "auto", "How many threads serve connections.")
        .or("auto", "one for two processors, 1 to 4"),
    web("web.in_flight_max", Count(1, 65_536), "64", "How many requests are worked on at once."),
    web(
        "web.queue_capacity",
        Count(1, 65_536),
        "100",
        "How many more may wait; whoever comes then is refused.",
    ),
    web("web.queue_timeout", SOME_TIME, "1s", "How long one may wait before it is refused after all."),
    web(
        "web.queue_target",
        SOME_TIME,
        "none",
        "If all have waited longer than this for 100 ms, those who waited twice as long are refused.",
    )
    .or("none", "the queue may be as full as it likes"),
    web("web.connections_max", Count(1, 1 << 20), "4096", "How many connections may be open."),
    web(
        "web.connections_per_peer_max",
        Count(1, 1 << 20),
        "256",
        "How many of them one address may have, if it is not this machine's.",
    ),
    web(
        "web.requests_per_connection_max",
        Count(1, 1 << 40),
        "10000",
        "After how many requests a connection is closed.",
    ),
    web("web.head_bytes_max", Bytes(8 << 10, 1 << 20), "16 KiB", "The largest head of a request."),
    web("web.headers_max", Count(8, 1024), "100", "The most headers of a request."),
    web("web.head_timeout", MINUTES, "5s", "How long a head may take from its first byte."),
    web("web.idle_timeout", MINUTES, "60s", "How long a connection may be open without a request."),
    web(
        "web.body_bytes_max",
        Bytes(64, GIB),
        "4 MiB",
        "The largest body; a bulk may be longer, line by line.",
    ),
    web(
        "web.bodies_bytes_max",
        Bytes(64 << 10, 1 << 40),
        "64 MiB",
        "How much memory bodies may take together.",
    ),
    web(
        "web.answers_bytes_max",
        Bytes(64 << 10, 1 << 40),
        "256 MiB",
        "How much memory large answers may take together until they are read.",
    ),
    web("web.body_timeout", MINUTES, "30s", "How long a body may take."),
    web(
        "web.write_timeout",
        MINUTES,
        "30s",
        "How long an answer may lie unread before the connection is cut.",
    ),
    web(
        "web.request_timeout",
        Span(Duration::from_millis(1), DAY),
        "60s",
        "How long a request may take in all.",
    ),
    web("web.wait_max", Span(Duration::from_millis(1), DAY), "60s", "The longest wait a client may ask for."),
    web("web.waiting_max", Count(1, 1 << 20), "4096", "How many requests may wait for a task to end."),
    web("web.streams_max", Count(1, 65_536), "512", "How many clients may follow events."),
    web(
        "web.stream_bytes_max",
        Bytes(4 << 10, GIB),
        "1 MiB",
        "How much may wait for one of those to be read.",
    ),
    web("web.heartbeat", MINUTES, "15s", "How often a silent stream shows that it is alive."),
    web("web.batch_max", Count(1, 1 << 20), "1000", "The most requests in one batch."),
    web("web.refused_max", Count(1, 65_536), "1024", "How many refused clients are given time to read why."),
    web("web.refused_timeout", MINUTES, "1s", "How long each of them is."),
    web(
        "web.alert_refused_share",
        Fraction(0.000_001, 1.0),
        "0.01",
        "Which share of connections refused in the last minute is worth an alert.",
    ),
];

/// The HTTP door.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSettings {
    /// Whether there is one.
    pub enabled: bool,
    /// Where it listens; without, at [`WEB_ADDRESS`] or at a free port.
    pub listen: Option<SocketAddr>,
    /// A Unix socket on which it listens too.
    pub socket: Option<PathBuf>,
    /// The file with the token that clients must show.
    pub token_file: Option<PathBuf>,
    /// The file with a token that allows to look and not to change.
    pub read_token_file: Option<PathBuf>,
    /// Names under which the door may be reached, beside its address and this machine.
    pub hosts: Vec<String>,
    /// Hosts whose pages may use the door from a browser.
    pub origins: Vec<String>,
    /// How many threads serve connections; without, one for two processors, 1 to 4.
    pub workers: Option<usize>,
    /// How many requests are worked on at once.
    pub in_flight_max: usize,
    /// How many more may wait.
    pub queue_capacity: usize,
    /// How long one may wait.
    pub queue_timeout: Duration,
    /// From which wait on the queue counts as standing, if that matters.
    pub queue_target: Option<Duration>,
    /// How many connections may be open.
    pub connections_max: usize,
    /// How many of them one address may have, if it is not this machine's.
    pub connections_per_peer_max: usize,
    /// After how many requests a connection is closed.
    pub requests_per_connection_max: u64,
    /// The largest head of a request.
    pub head_bytes_max: usize,
    /// The most headers of a request.
    pub headers_max: usize,
    /// How long a head may take from its first byte.
    pub head_timeout: Duration,
    /// How long a connection may be open without a request.
    pub idle_timeout: Duration,
    /// The largest body.
    pub body_bytes_max: usize,
    /// How much memory bodies may take together.
    pub bodies_bytes_max: u64,
    /// How much memory large answers may take together.
    pub answers_bytes_max: u64,
    /// How long a body may take.
    pub body_timeout: Duration,
    /// How long an answer may lie unread.
    pub write_timeout: Duration,
    /// How long a request may take in all.
    pub request_timeout: Duration,
    /// The longest wait a client may ask for.
    pub wait_max: Duration,
    /// How many requests may wait for a task to end.
    pub waiting_max: usize,
    /// How many clients may follow events.
    pub streams_max: usize,
    /// How much may wait for one of those to be read.
    pub stream_bytes_max: usize,
    /// How often a silent stream shows that it is alive.
    pub heartbeat: Duration,
    /// The most requests in one batch.
    pub batch_max: usize,
    /// How many refused clients are given time to read why.
    pub refused_max: usize,
    /// How long each of them is.
    pub refused_timeout: Duration,
    /// Which share of refused connections is worth an alert.
    pub alert_refused_share: f64,
}

impl Loaded {
    pub(super) fn web(&self) -> WebSettings {
        let path = |name| text(self.value(name)).map(PathBuf::from);
        WebSettings {
            enabled: is_on(self.value("web.enabled")),
            listen: text(self.value("web.listen")).map(|text| text.parse().expect("the address was checked")),
            socket: path("web.socket"),
            token_file: path("web.token_file"),
            read_token_file: path("web.read_token_file"),
            hosts: list(self.value("web.hosts")),
            origins: list(self.value("web.origins")),
            workers: number(self.value("web.workers")).map(|workers| workers as usize),
            in_flight_max: self.count("web.in_flight_max"),
            queue_capacity: self.count("web.queue_capacity"),
            queue_timeout: self.duration("web.queue_timeout"),
            queue_target: span(self.value("web.queue_target")),
            connections_max: self.count("web.connections_max"),
            connections_per_peer_max: self.count("web.connections_per_peer_max"),
            requests_per_connection_max: self.count("web.requests_per_connection_max") as u64,
            head_bytes_max: self.count("web.head_bytes_max"),
            headers_max: self.count("web.headers_max"),
            head_timeout: self.duration("web.head_timeout"),
            idle_timeout: self.duration("web.idle_timeout"),
            body_bytes_max: self.count("web.body_bytes_max"),
            bodies_bytes_max: self.count("web.bodies_bytes_max") as u64,
            answers_bytes_max: self.count("web.answers_bytes_max") as u64,
            body_timeout: self.duration("web.body_timeout"),
            write_timeout: self.duration("web.write_timeout"),
            request_timeout: self.duration("web.request_timeout"),
            wait_max: self.duration("web.wait_max"),
            waiting_max: self.count("web.waiting_max"),
            streams_max: self.count("web.streams_max"),
            stream_bytes_max: self.count("web.stream_bytes_max"),
            heartbeat: self.duration("web.heartbeat"),
            batch_max: self.count("web.batch_max"),
            refused_max: self.count("web.refused_max"),
            refused_timeout: self.duration("web.refused_timeout"),
            alert_refused_share: self.fraction("web.alert_refused_share"),
        }
    }
}
