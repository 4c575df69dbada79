//! A pool in a daemon, reached by shared memory.
//!
//! Numbers, results and streams are the client's own. Callbacks go through the same thread as those of a pool
//! in this process, so that leaving the daemon can promise that none comes afterwards. Whoever leaves waits
//! for the tasks that have a callback, since somebody counts on those; a task that has none goes on in the
//! daemon and is forgotten.
//!
//! Not here: the memory and what is said through it (`millpond_shm`).

use crate::border::nothing_to_report;
use crate::callbacks::{self, Callback, Callbacks};
use crate::here::Want;
use crate::numbers::deadline;
use crate::result::OwnedResult;
use millpond_shm::{AttachError, Client, ClientError, Reply};
use millpond_tasks::{ErrorCode, TaskFailure};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What `threadpool_attach` attaches to if no name is given.
const DEFAULT_NAME: &str = "millpond";
/// How many tasks with a callback may be under way, as many as the client allows in all.
const CALLBACKS_MAX: usize = 4096;
/// How long leaving waits for tasks that have a callback.
const LEAVE_TIMEOUT_MS: u32 = 30_000;

/// A pool in a daemon.
pub(crate) struct There {
    /// The number of its handle.
    pool: usize,
    /// None once it was left.
    client: Mutex<Option<Client>>,
    callbacks: Callbacks,
    pending: Arc<Mutex<Pending>>,
}

/// Callbacks that were promised and not yet called.
#[derive(Default)]
struct Pending {
    last: u64,
    /// With the number of the task, which is 0 until it is known.
    promised: HashMap<u64, (Callback, u64)>,
}

impl There {
    /// Attaches as the pool of this number.
    pub(crate) fn attach(name: &str, pool: usize) -> Result<Self, TaskFailure> {
        let name = if name.is_empty() { DEFAULT_NAME } else { name };
        let client = Client::attach(name).map_err(|error| not_attached(name, &error))?;
        Ok(Self {
            pool,
            client: Mutex::new(Some(client)),
            callbacks: Callbacks::default(),
            pending: Arc::default(),
        })
    }

    pub(crate) fn submit(&self, text: &[u8], want: Want) -> Result<u64, TaskFailure> {
        let client = self.client()?;
        match want {
            Want::Result => client.try_submit(text).map_err(refused),
            Want::Stream => client.submit_streaming(text, Duration::ZERO).map_err(refused),
            Want::Callback(callback) => self.submit_with(&client, text, callback),
        }
    }

    fn submit_with(&self, client: &Client, text: &[u8], callback: Callback) -> Result<u64, TaskFailure> {
        self.callbacks.take_place(self.pool, CALLBACKS_MAX)?;
        let mut pending = lock(&self.pending);
        pending.last += 1;
        let promise = pending.last;
        pending.promised.insert(promise, (callback, 0));
        drop(pending);
        let (callbacks, all) = (self.callbacks.clone(), Arc::clone(&self.pending));
        let submitted = client.submit_with(text, Duration::ZERO, move |reply| {
            // Whoever takes the promise keeps it: this, or the leaving of the pool, which looks after this
            // lock.
            let mut pending = lock(&all);
            if pending.promised.remove(&promise).is_some() {
                callbacks.call(callback, result(&reply));
            }
        });
        match submitted {
            Ok(number) => {
                if let Some((_, known)) = lock(&self.pending).promised.get_mut(&promise) {
                    *known = number;
                }
                Ok(number)
            }
            Err(error) => {
                lock(&self.pending).promised.remove(&promise);
                self.callbacks.give_back();
                Err(refused(error))
            }
        }
    }

    pub(crate) fn poll(&self, number: u64) -> Result<OwnedResult, TaskFailure> {
        handed_over(number, self.client()?.poll(number))
    }

    pub(crate) fn wait(&self, number: u64, timeout_ms: u32) -> Result<OwnedResult, TaskFailure> {
        handed_over(number, self.client()?.wait(number, Duration::from_millis(timeout_ms.into())))
    }

    pub(crate) fn next(&self, timeout_ms: u32) -> Result<OwnedResult, TaskFailure> {
        let reply = self.client()?.next_ended(Duration::from_millis(timeout_ms.into()));
        let none = || TaskFailure::new(ErrorCode::NotEnded, "no task has ended whose result was not fetched");
        reply.as_ref().map(result).ok_or_else(none)
    }

    pub(crate) fn next_partial(
        &self,
        number: u64,
        timeout_ms: u32,
    ) -> Result<Option<OwnedResult>, TaskFailure> {
        match self.client()?.next_partial(number, Duration::from_millis(timeout_ms.into())) {
            Ok(Some(line)) => Ok(Some(OwnedResult::success(number, &line))),
            Ok(None) => {
                let message = format!("task {number} has said nothing more yet");
                Err(TaskFailure::new(ErrorCode::NotEnded, message))
            }
            Err(ClientError::StreamOver { .. }) => {
                nothing_to_report();
                Ok(None)
            }
            Err(error) => Err(refused(error)),
        }
    }

    pub(crate) fn cancel(&self, number: u64) -> Result<(), TaskFailure> {
        self.client()?.cancel(number).map_err(refused)
    }

    /// Leaves the daemon. No callback is called after this.
    pub(crate) fn shut_down(&self) {
        self.callbacks.wait_until_idle(deadline(LEAVE_TIMEOUT_MS));
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        let promised = std::mem::take(&mut lock(&self.pending).promised);
        for (callback, number) in promised.into_values() {
            let message = "the pool was left before the task ended; it may still run";
            let left = OwnedResult::failure(number, ErrorCode::Cancelled.number(), message);
            self.callbacks.call(callback, left);
        }
        self.callbacks.close();
        drop(client);
    }

    /// Whether this thread runs a callback of this pool.
    pub(crate) fn is_on_own_thread(&self) -> bool {
        callbacks::is_thread_of(self.pool)
    }

    fn client(&self) -> Result<Client, TaskFailure> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.ok_or_else(|| TaskFailure::new(ErrorCode::Draining, "the pool was left meanwhile"))
    }
}

fn lock(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn result(reply: &Reply) -> OwnedResult {
    match reply.status {
        0 => OwnedResult::success(reply.number, &reply.body),
        status => OwnedResult::failure(reply.number, status, &String::from_utf8_lossy(&reply.body)),
    }
}

fn handed_over(number: u64, reply: Result<Option<Reply>, ClientError>) -> Result<OwnedResult, TaskFailure> {
    match reply {
        Ok(Some(reply)) => Ok(result(&reply)),
        Ok(None) => Err(TaskFailure::new(ErrorCode::NotEnded, format!("task {number} has not ended"))),
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: ClientError) -> TaskFailure {
    TaskFailure::new(error.code(), error.to_string())
}

fn not_attached(name: &str, error: &AttachError) -> TaskFailure {
    let code = match error {
        AttachError::BadName(_) => ErrorCode::BadArguments,
        AttachError::NoDaemon { .. } => ErrorCode::NotFound,
        AttachError::Silent { .. } => ErrorCode::DaemonDied,
        AttachError::Refused(_) | AttachError::NotOurs { .. } => ErrorCode::NotAllowed,
        AttachError::Memory(_) => ErrorCode::OutOfMemory,
    };
    TaskFailure::new(code, format!("pool {name:?}: {error}"))
}
