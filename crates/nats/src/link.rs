//! The loop's way to the server: messages are handed to the client without waiting, or not at all.
//!
//! The client keeps what it is given while the connection is away, and sends it afterwards, perhaps long after a
//! lease is over. So nothing is given to it then, and whoever wants to send keeps it and tries again. It also makes
//! whoever sends wait once it has a lot to send; that is waited for only shortly, for the loop has leases to renew.
//!
//! Not here: what is sent (`writing.rs`, `pulls.rs`), making the connection (`connect.rs`).

use async_nats::client::PublishErrorKind;
use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long a message may wait for its place in the client.
const SEND_TIME: Duration = Duration::from_millis(500);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The client has it.
    Yes,
    /// Not now: the connection is away, or choked.
    NotNow,
    /// Never: it is too large for this server.
    Never,
}

/// What the client's callback tells the loop. Written by the callback, read by the loop.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) is_connected: AtomicBool,
    /// A connection was made since somebody looked.
    pub(crate) is_new: AtomicBool,
    /// The client has given up.
    pub(crate) is_closed: AtomicBool,
}

impl Health {
    pub(crate) fn connected(&self) {
        self.is_new.store(true, Release);
        self.is_connected.store(true, Release);
    }

    pub(crate) fn disconnected(&self) {
        self.is_connected.store(false, Release);
    }

    /// Whether a connection was made since the last call.
    pub(crate) fn take_new(&self) -> bool {
        self.is_new.swap(false, AcqRel)
    }
}

/// The way to the server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) health: Arc<Health>,
    /// The beginning of all subjects that answers come by, with a point at its end.
    pub(crate) inbox: String,
    choked_until: Option<Instant>,
}

impl Link {
    pub(crate) fn new(client: Client, health: Arc<Health>) -> Self {
        let inbox = format!("{}.", client.new_inbox());
        Self { client, health, inbox, choked_until: None }
    }

    /// Whether there is any use in sending.
    pub(crate) fn is_up(&self) -> bool {
        self.health.is_connected.load(Acquire)
            && self.choked_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Where an answer under this number comes.
    pub(crate) fn reply(&self, kind: char, number: u64) -> Subject {
        Subject::from(format!("{}{kind}{number}", self.inbox))
    }

    /// The kind and number of an answer that came by this subject; none for a task.
    pub(crate) fn token(&self, subject: &str) -> Option<(char, u64)> {
        let rest = subject.strip_prefix(self.inbox.as_str())?;
        let kind = rest.chars().next()?;
        rest[kind.len_utf8()..].parse().ok().map(|number| (kind, number))
    }

    /// Hands a message to the client.
    pub(crate) async fn send(
        &mut self,
        subject: Subject,
        reply: Option<Subject>,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Sent {
        if !self.is_up() {
            return Sent::NotNow;
        }
        let client = &self.client;
        let sending = async move {
            match (reply, headers) {
                (None, None) => client.publish(subject, payload).await,
                (None, Some(headers)) => client.publish_with_headers(subject, headers, payload).await,
                (Some(reply), None) => client.publish_with_reply(subject, reply, payload).await,
                (Some(reply), Some(headers)) => {
                    client.publish_with_reply_and_headers(subject, reply, headers, payload).await
                }
            }
        };
        let mut sending = pin!(sending);
        // Nearly always there is room, and then no timer is needed.
        let first = std::future::poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await;
        let sent = match first {
            Poll::Ready(sent) => Ok(sent),
            Poll::Pending => tokio::time::timeout(SEND_TIME, sending).await,
        };
        match sent {
            Ok(Ok(())) => Sent::Yes,
            Ok(Err(error)) if error.kind() == PublishErrorKind::MaxPayloadExceeded => Sent::Never,
            Ok(Err(_)) => Sent::NotNow,
            Err(_) => {
                self.choked_until = Some(Instant::now() + SEND_TIME);
                Sent::NotNow
            }
        }
    }
}
