//! The connection to the server: made with a limit of time and checked for what is needed, then kept alive by the
//! client.
//!
//! At the start whoever is unreachable is an error at once: a wrong address would otherwise look like an empty queue.
//! Once connected, the client comes back by itself for as long as it takes. Pings are so frequent that a connection
//! nobody answers on is noticed before the leases of the tasks are over.
//!
//! Not here: what is asked of the server (`api.rs`), what must be there (`layout.rs`).

use crate::error::NatsError;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use millpond_tasks::config::{NatsSettings, without_password};
use std::time::Duration;

/// The oldest server that has all that is used: major, minor, patch.
const SERVER_MIN: (i64, i64, i64) = (2, 9, 0);
/// Answers that wait for the loop; beyond that the client drops some. Far more than can be under way.
const UNREAD_MAX: usize = 1 << 17;

/// Connects to one of the servers that the settings name. `name` is what the server calls the connection; `told`
/// hears of what happens to it.
pub async fn connect(
    settings: &NatsSettings,
    name: &str,
    told: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<Client, NatsError> {
    let url = without_password(&settings.url);
    let servers: Vec<&str> = settings.url.split(',').map(str::trim).collect();
    let options = options(settings, name, told).await?;
    // Name look-ups have no limit of their own.
    let within = settings.connect_timeout.saturating_mul(servers.len() as u32);
    let connecting = options.connect(servers.as_slice());
    let client = match tokio::time::timeout(within + Duration::from_millis(500), connecting).await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return Err(refusal(&url, settings, &error)),
        Err(_) => return Err(silence(&url, settings)),
    };
    check(&client, &url)?;
    Ok(client)
}

/// Whether the server has what is needed.
fn check(client: &Client, url: &str) -> Result<(), NatsError> {
    let info = client.server_info();
    let (major, minor, patch) = SERVER_MIN;
    if !client.is_server_compatible(major, minor, patch) {
        let version = &info.version;
        return Err(NatsError::Unable(format!(
            "{url}: expected a NATS server of version {major}.{minor} or newer, got {version}; upgrade it"
        )));
    }
    if !info.jetstream {
        return Err(NatsError::Unable(format!(
            "{url}: the NATS server has no JetStream; start it with -js, or with jetstream in its configuration"
        )));
    }
    Ok(())
}

async fn options(
    settings: &NatsSettings,
    name: &str,
    told: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<ConnectOptions, NatsError> {
    let mut options = ConnectOptions::new()
        .name(name)
        .connection_timeout(settings.connect_timeout)
        .request_timeout(Some(settings.connect_timeout))
        .ping_interval((settings.lease / 3).clamp(Duration::from_millis(500), Duration::from_secs(5)))
        .subscription_capacity(UNREAD_MAX)
        .max_reconnects(None)
        .reconnect_delay_callback(pause_before_reconnect)
        .event_callback(move |event| {
            told(&event);
            std::future::ready(())
        });
    options = match who(&settings.url) {
        Some((user, Some(password))) => options.user_and_password(user, password),
        Some((token, None)) => options.token(token),
        None => options,
    };
    if let Some(path) = &settings.credentials {
        options = options.credentials_file(path).await.map_err(|error| {
            let path = path.display();
            NatsError::Invalid(format!("nats.credentials: {path}: {error}; give the path of a .creds file"))
        })?;
    }
    if let Some(path) = &settings.ca {
        std::fs::metadata(path).map_err(|error| {
            let path = path.display();
            NatsError::Invalid(format!("nats.ca: {path}: {error}; give the path of a PEM file"))
        })?;
        options = options.add_root_certificates(path.clone()).require_tls(true);
    }
    Ok(options)
}

/// Who comes, as the first URL that says it does: a user and a password, or a token alone.
fn who(url: &str) -> Option<(String, Option<String>)> {
    url.split(',').find_map(|server| {
        let server = server.trim();
        let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
        let (who, _) = rest.rsplit_once('@')?;
        Some(match who.split_once(':') {
            Some((user, password)) => (user.to_owned(), Some(password.to_owned())),
            None => (who.to_owned(), None),
        })
    })
}

/// At once, then ever longer, up to a second.
fn pause_before_reconnect(attempts: usize) -> Duration {
    match attempts {
        0 | 1 => Duration::ZERO,
        more => Duration::from_millis(20 << (more - 2).min(6)).min(Duration::from_secs(1)),
    }
}

fn refusal(url: &str, settings: &NatsSettings, error: &async_nats::ConnectError) -> NatsError {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            NatsError::Unauthorized(format!(
                "{url}: the NATS server does not let this client in ({error}); check user and password in nats.url, or \
                 nats.credentials"
            ))
        }
        ConnectErrorKind::TimedOut => silence(url, settings),
        ConnectErrorKind::ServerParse => {
            NatsError::Invalid(format!("nats.url: expected nats://host:port, got {url:?} ({error})"))
        }
        // The client calls some of these an error of input and output.
        kind if kind == ConnectErrorKind::Tls || error.to_string().contains("certificate") => {
            NatsError::Unreachable(format!(
                "{url}: no secure connection: {error}; check nats.ca, the PEM file of whoever signed the server's \
                 certificate"
            ))
        }
        _ => NatsError::Unreachable(format!(
            "{url}: no NATS server can be reached there: {error}; start one (nats-server -js) or mend nats.url"
        )),
    }
}

/// Nobody says hello.
fn silence(url: &str, settings: &NatsSettings) -> NatsError {
    let within = settings.connect_timeout.as_millis();
    NatsError::Unreachable(format!(
        "{url}: nothing there said hello as a NATS server within {within} ms; mend nats.url (the port of clients is \
         usually 4222) or raise nats.connect_timeout"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_alone_is_a_token() {
        let token = Some(("secret".to_owned(), None));
        assert_eq!(who("nats://secret@host:4222"), token);
        assert_eq!(who("a:4222, secret@host, other@b"), token);
        assert_eq!(who("nats://me:se:cr@et@host"), Some(("me".to_owned(), Some("se:cr@et".to_owned()))));
        assert_eq!(who("nats://host"), None);
    }

    #[test]
    fn a_reconnect_is_tried_at_once_and_then_at_least_every_second() {
        assert_eq!(pause_before_reconnect(1), Duration::ZERO);
        assert_eq!(pause_before_reconnect(2), Duration::from_millis(20));
        assert_eq!(pause_before_reconnect(usize::MAX), Duration::from_secs(1));
    }
}
