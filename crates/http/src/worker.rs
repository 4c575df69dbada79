//! A thread that serves connections: one tokio runtime of its own, listeners of its own, and an inbox through
//! which the front hands over those few that it would have refused.
//!
//! Workers share nothing but the door. None of them ever blocks: tasks run in the pool, and what takes long is
//! waited for. The inbox holds no more than the front's reserve.

use crate::accept::{self, Listener};
use crate::api::Api;
use crate::connection;
use crate::door::Arrival;
use crate::outbox;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::runtime::Builder;
use tokio::sync::Notify;

/// Connections on their way to a worker.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    arrivals: VecDeque<Arrival>,
    is_closed: bool,
}

impl Inbox {
    /// Hands a connection over.
    pub(crate) fn put(&self, arrival: Arrival) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_closed {
            return;
        }
        waiting.arrivals.push_back(arrival);
        let is_first = waiting.arrivals.len() == 1;
        drop(waiting);
        // Whoever found others there knows that the worker was told and has not looked yet.
        if is_first {
            self.filled.notify_one();
        }
    }

    /// The worker takes nothing more, and ends.
    pub(crate) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.filled.notify_one();
    }

    /// All that came; none once it is closed and empty.
    async fn take(&self) -> Option<VecDeque<Arrival>> {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if !waiting.arrivals.is_empty() {
                    return Some(std::mem::take(&mut waiting.arrivals));
                }
                if waiting.is_closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

/// Starts the worker with this number. It ends when its inbox is closed; connections that it still has then
/// are dropped.
pub(crate) fn start(api: Arc<Api>, number: usize, listeners: Vec<Listener>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    thread::Builder::new().name(format!("millpond-http-{number}")).spawn(move || {
        runtime.block_on(async {
            tokio::spawn(outbox::attend());
            for listener in listeners {
                let api = Arc::clone(&api);
                tokio::spawn(async move {
                    let door = Arc::clone(&api.door);
                    if let Err(error) = accept::run(api, number, listener).await {
                        door.log.error(&format!("http: cannot wait for connections: {error}"));
                    }
                    door.listening.fetch_sub(1, Release);
                });
            }
            while let Some(arrivals) = api.door.inboxes[number].take().await {
                for arrival in arrivals {
                    serve(&api, arrival);
                }
            }
            outbox::send();
        });
    })
}

/// Serves a connection on the worker that calls.
pub(crate) fn serve(api: &Arc<Api>, arrival: Arrival) {
    tokio::spawn(connection::serve(Arc::clone(api), arrival));
}
