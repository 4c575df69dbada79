//! The settings of the NATS door: which server and queue, how much is fetched, and how long everything is kept.
//!
//! Without a server the door is closed. What stands here is partly the daemon's own business (how much it fetches) and
//! partly of the queue itself (how much it holds, the lease): the latter is made on the server by the first daemon, and
//! every other must say the same.
//!
//! Not here: what is made on the server, and how tasks come from it (the crate `millpond-nats`).

use super::load::Loaded;
use super::table::{DAY, Setting, setting};
use super::typed::text;
use super::value::Kind::{self, Bytes, Count, Name, NatsUrl, OneOf, Path, Queue, Span};
use super::value::is_host;
use super::{ConfigSources, load};
use std::path::PathBuf;
use std::time::Duration;

/// How many servers of one cluster may be named.
const SERVERS_MAX: usize = 16;

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

const fn nats(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    setting(name, kind, default, "NATS door", about)
}

/// The settings of the NATS door, as they stand in the table.
pub(super) const NATS_SETTINGS: &[Setting] = &[
    nats(
        "nats.url",
        NatsUrl,
        "none",
        "The NATS server from which tasks are taken; several with commas between.",
    )
    .or("none", "tasks come by other doors only"),
    nats("nats.queue", Queue, "main", "The queue on it; all daemons that name the same one share its tasks."),
    nats("nats.name", Name, "auto", "What other daemons and `millpond nats status` call this one.")
        .or("auto", "made of the machine's name, the process and a random part"),
    nats("nats.credentials", Path, "none", "The file of credentials that the server asks for.")
        .or("none", "the user and password of the URL, if any"),
    nats("nats.ca", Path, "none", "The certificates that vouch for the server, in PEM.")
        .or("none", "those of this machine"),
    nats(
        "nats.connect_timeout",
        Span(Duration::from_millis(100), Duration::from_secs(3600)),
        "5s",
        "How long a connection and each request to the server may take.",
    ),
    nats(
        "nats.lease",
        Span(SECOND, DAY),
        "30s",
        "How long the server waits for a sign of life before another daemon gets the task. The same for all daemons.",
    ),
    nats("nats.in_flight_max", Count(1, 1 << 20), "1024", "How many tasks this daemon may hold at once."),
    nats(
        "nats.ahead",
        Span(Duration::ZERO, Duration::from_secs(60)),
        "50ms",
        "For how long a time of work tasks are fetched beyond one for each worker.",
    ),
    nats(
        "nats.pending_max",
        Count(1, 1 << 24),
        "20000",
        "How many tasks of a lane all daemons together may hold. The same for all daemons.",
    ),
    nats(
        "nats.messages_max",
        Count(1, 1 << 40),
        "1000000",
        "How many tasks the queue holds before it refuses.",
    ),
    nats("nats.bytes_max", Bytes(64 << 10, 1 << 50), "1 GiB", "How large the queue grows before it refuses."),
    nats(
        "nats.message_bytes_max",
        Bytes(64, 64 << 20),
        "1 MiB",
        "The largest task with its headers; the server has a limit of its own (1 MiB unless told otherwise).",
    ),
    nats(
        "nats.results",
        OneOf(|| vec!["all", "failures", "none"]),
        "all",
        "Which results are kept on the server for whoever asks.",
    ),
    nats("nats.results_age", Span(SECOND, YEAR), "1d", "How long a result is kept."),
    nats("nats.results_bytes_max", Bytes(64 << 10, 1 << 50), "1 GiB", "How much all kept results may take."),
    nats("nats.dead_age", Span(SECOND, YEAR), "30d", "How long a task that failed for good is kept."),
    nats(
        "nats.dead_messages_max",
        Count(1, 1 << 32),
        "100000",
        "How many of those are kept; beyond that the oldest goes.",
    ),
    nats(
        "nats.deliveries_max",
        Count(1, 1 << 20),
        "20",
        "How often a task is given out before it is a dead letter: daemons die of it, or nobody knows its handler.",
    ),
    nats(
        "nats.nack_max",
        Span(Duration::ZERO, DAY),
        "10s",
        "How long a failed task waits on its lane; one that must wait longer is moved aside, and no lane waits for it.",
    ),
    nats("nats.replicas", Count(1, 5), "1", "On how many servers of a cluster everything is kept."),
    nats("nats.storage", OneOf(|| vec!["file", "memory"]), "file", "Where the server keeps it."),
    nats(
        "nats.duplicates_window",
        Span(Duration::from_millis(100), DAY),
        "2m",
        "For how long the server takes a task of the same id only once.",
    ),
    nats(
        "nats.presence",
        Span(SECOND, Duration::from_secs(3600)),
        "5s",
        "How often the daemon says that it is there; after three times that nobody believes it any more.",
    ),
];

/// The NATS door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSettings {
    /// The server, or several of one cluster with commas between; perhaps with a password in it.
    pub url: String,
    /// The queue.
    pub queue: String,
    /// What others call this daemon; without, a name is made.
    pub name: Option<String>,
    /// The file of credentials.
    pub credentials: Option<PathBuf>,
    /// The certificates that vouch for the server; without, those of this machine.
    pub ca: Option<PathBuf>,
    /// How long a connection and each request may take.
    pub connect_timeout: Duration,
    /// How long the server waits for a sign of life.
    pub lease: Duration,
    /// How many tasks this daemon may hold at once.
    pub in_flight_max: usize,
    /// For how long a time of work tasks are fetched beyond one for each worker.
    pub ahead: Duration,
    /// How many tasks of a lane all daemons together may hold.
    pub pending_max: usize,
    /// How many tasks the queue holds before it refuses.
    pub messages_max: u64,
    /// How large the queue grows before it refuses.
    pub bytes_max: u64,
    /// The largest task with its headers.
    pub message_bytes_max: usize,
    /// Which results are kept.
    pub results: NatsResults,
    /// How long a result is kept.
    pub results_age: Duration,
    /// How much all kept results may take.
    pub results_bytes_max: u64,
    /// How long a dead letter is kept.
    pub dead_age: Duration,
    /// How many dead letters are kept.
    pub dead_messages_max: u64,
    /// How often a task is given out before it is a dead letter.
    pub deliveries_max: u32,
    /// How long a failed task waits on its lane.
    pub nack_max: Duration,
    /// On how many servers everything is kept.
    pub replicas: usize,
    /// Where the server keeps it.
    pub storage: NatsStorage,
    /// For how long the server takes a task of the same id only once.
    pub duplicates_window: Duration,
    /// How often the daemon says that it is there.
    pub presence: Duration,
}

/// Which results are kept on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsResults {
    /// All of them.
    All,
    /// Those of tasks that failed or were cancelled.
    Failures,
    /// None: nobody asks.
    None,
}

/// Where the server keeps its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsStorage {
    /// On its disk.
    File,
    /// In its memory: gone with it.
    Memory,
}

/// The table's defaults, and a server on this machine.
impl Default for NatsSettings {
    fn default() -> Self {
        let flags = [("--nats-url".to_owned(), "nats://127.0.0.1:4222".to_owned())];
        let loaded = load(&ConfigSources { flags: &flags, ..ConfigSources::default() });
        loaded.nats().expect("a server is given")
    }
}

impl Loaded {
    /// The NATS door, if a server is named. It is known even while something else is wrong, so that commands find the
    /// server of daemons that were started before.
    pub fn nats(&self) -> Option<NatsSettings> {
        let url = text(self.value("nats.url"))?.to_owned();
        let path = |name| text(self.value(name)).map(PathBuf::from);
        let large = |name| self.count(name) as u64;
        Some(NatsSettings {
            url,
            queue: text(self.value("nats.queue")).unwrap_or_default().to_owned(),
            name: text(self.value("nats.name")).map(str::to_owned),
            credentials: path("nats.credentials"),
            ca: path("nats.ca"),
            connect_timeout: self.duration("nats.connect_timeout"),
            lease: self.duration("nats.lease"),
            in_flight_max: self.count("nats.in_flight_max"),
            ahead: self.duration("nats.ahead"),
            pending_max: self.count("nats.pending_max"),
            messages_max: large("nats.messages_max"),
            bytes_max: large("nats.bytes_max"),
            message_bytes_max: self.count("nats.message_bytes_max"),
            results: match text(self.value("nats.results")) {
                Some("failures") => NatsResults::Failures,
                Some("none") => NatsResults::None,
                _ => NatsResults::All,
            },
            results_age: self.duration("nats.results_age"),
            results_bytes_max: large("nats.results_bytes_max"),
            dead_age: self.duration("nats.dead_age"),
            dead_messages_max: large("nats.dead_messages_max"),
            deliveries_max: u32::try_from(self.count("nats.deliveries_max")).unwrap_or(u32::MAX),
            nack_max: self.duration("nats.nack_max"),
            replicas: self.count("nats.replicas"),
            storage: match text(self.value("nats.storage")) {
                Some("memory") => NatsStorage::Memory,
                _ => NatsStorage::File,
            },
            duplicates_window: self.duration("nats.duplicates_window"),
            presence: self.duration("nats.presence"),
        })
    }
}

/// A token of a subject and a part of a stream's name, so neither points nor capitals.
pub(super) fn is_queue(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

/// One server or several: each with or without a scheme, a user and a port.
pub(super) fn is_nats_url(text: &str) -> bool {
    let servers: Vec<_> = text.split(',').map(str::trim).collect();
    let is_server = |server: &&str| {
        let rest =
            ["nats://", "tls://"].iter().find_map(|scheme| server.strip_prefix(scheme)).unwrap_or(server);
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let host = host.strip_suffix('/').unwrap_or(host);
        let is_user = |user: &str| {
            !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@".contains(&byte))
        };
        is_host(host) && !host.starts_with('*') && user.is_none_or(is_user)
    };
    servers.len() <= SERVERS_MAX && servers.iter().all(is_server)
}

/// The same servers without what only they should know: a password, or a user's token.
pub fn without_password(url: &str) -> String {
    let one = |server: &str| {
        let server = server.trim();
        let (scheme, rest) = server.split_at(server.find("://").map_or(0, |at| at + 3));
        match rest.rsplit_once('@') {
            // A user alone is a token, and as good as a password.
            Some((user, host)) => match user.split_once(':') {
                Some((user, _)) => format!("{scheme}{user}:***@{host}"),
                None => format!("{scheme}***@{host}"),
            },
            None => server.to_owned(),
        }
    };
    url.split(',').map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::ConfigFile;
    use super::super::settings::Settings;
    use super::*;

    fn of_file(toml: &str) -> Settings {
        let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
        let loaded = load(&ConfigSources { file, ..ConfigSources::default() });
        loaded.settings().unwrap_or_else(|findings| panic!("{toml}: {findings:?}"))
    }

    #[test]
    fn without_a_server_the_door_is_closed_whatever_else_is_said() {
        assert_eq!(of_file("").nats, None);
        assert_eq!(of_file("[nats]\nqueue = 'jobs'\nlease = '2s'").nats, None);
    }

    #[test]
    fn with_a_server_alone_everything_else_is_as_the_table_says() {
        let nats = of_file("nats.url = 'nats://127.0.0.1:4222'").nats.expect("the door is open");
        assert_eq!(nats, NatsSettings::default());
        assert_eq!((nats.queue.as_str(), nats.lease), ("main", Duration::from_secs(30)));
        assert_eq!((nats.results, nats.storage), (NatsResults::All, NatsStorage::File));
    }

    #[test]
    fn a_task_may_not_be_larger_on_the_way_than_where_it_goes() {
        let nats = of_file("nats.url = 'a'\nrequest.bytes_max = '64 KiB'").nats.expect("the door is open");
        assert_eq!(nats.message_bytes_max, 64 << 10, "the default gives way");
        let toml = "nats.message_bytes_max = '2 MiB'\n";
        let file = Some(ConfigFile { name: "millpond.toml", bytes: toml.as_bytes() });
        let loaded = load(&ConfigSources { file, ..ConfigSources::default() });
        let said = loaded.findings().iter().map(ToString::to_string).collect::<String>();
        assert!(said.contains("nats.message_bytes_max: expected at most request.bytes_max"), "{said}");
    }

    #[test]
    fn servers_are_hosts_with_or_without_scheme_user_and_port() {
        let right = "nats://127.0.0.1:4222 tls://nats.example.org localhost localhost:4222 nats://[::1]:4222/ \
                     nats://me:secret@host:4222 nats://token@host a:1,b:2,nats://c:3";
        for url in right.split_whitespace().chain(["a:1, b:2"]) {
            assert!(is_nats_url(url), "{url}");
        }
        let wrong =
            "http://a ws://a nats:// nats://@a nats://a/b nats://a:0 nats://a:x *.a a,,b , nats://*.a a?b";
        let many = vec!["a"; SERVERS_MAX + 1].join(",");
        for url in wrong.split_whitespace().chain(["", "a b", &many]) {
            assert!(!is_nats_url(url), "{url}");
        }
    }

    #[test]
    fn a_queue_is_one_token_of_a_subject() {
        for queue in ["a", "main", "jobs-2_x", &"q".repeat(64)] {
            assert!(is_queue(queue), "{queue}");
        }
        for other in ["", "a.b", "A", "a*", "a b", ">", "ä", &"q".repeat(65)] {
            assert!(!is_queue(other), "{other}");
        }
    }

    #[test]
    fn passwords_and_tokens_are_not_shown() {
        let shown = without_password("nats://me:se:cr@et@a:4222, token@b,tls://c");
        assert_eq!(shown, "nats://me:***@a:4222,***@b,tls://c");
        let flags = [("--nats-url".to_owned(), "nats://me:secret@a".to_owned())];
        let loaded = load(&ConfigSources { flags: &flags, ..ConfigSources::default() });
        let rows = format!("{:?}", loaded.listing());
        assert!(rows.contains("nats://me:***@a") && !rows.contains("secret"), "{rows}");
        assert_eq!(loaded.settings().expect("right").nats.expect("open").url, "nats://me:secret@a");
    }
}
