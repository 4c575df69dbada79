//! Ours without a socket: what a door does with a task, and what is left of that when parts are taken away.
//!
//! `Service` is everything between a door and the pool: the request is parsed, becomes a task that can be
//! found and cancelled, is run and has an outcome. `Pool` is the pool alone, with closures that carry the
//! same text. Results of both are laid into one basket, as workers lay them into the outbox of a connection.
//!
//! Not here: the daemon (`millpond_daemon.rs`).

use super::millpond_daemon::{ECHO, write_request};
use super::{Crew, Producer, Started, WORKERS};
use crate::wire::SILENCE_LIMIT;
use millpond::{PoolConfig, PoolHandle};
use millpond_tasks::{
    Reader, Registry, ServiceConfig, Submit, Symbols, Task, Wants, Watch, Watching, function,
};
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Hands requests to a service in this process.
pub(crate) struct Service {
    service: millpond_tasks::Service,
    basket: Arc<Basket<(u64, Arc<Task>)>>,
    request: Vec<u8>,
    /// By tag. Whoever drops one does not want to know of the task's end.
    watched: Vec<Option<Watching>>,
    free_tags: Vec<u64>,
    came: Vec<(u64, Arc<Task>)>,
}

/// Hands closures to a pool in this process.
pub(crate) struct Pool {
    pool: millpond::Pool,
    basket: Arc<Basket<Vec<u8>>>,
    came: Vec<Vec<u8>>,
}

/// What workers have done and the producer has not fetched.
struct Basket<T> {
    inside: Mutex<Inside<T>>,
    filled: Condvar,
}

struct Inside<T> {
    results: Vec<T>,
    /// Whether the producer waits. A worker that finds it awake need not wake it.
    waits: bool,
}

pub(crate) fn start_service() -> Result<Started<Service>, String> {
    let mut registry = Registry::new();
    let echo = function(|call| Ok(call.args().to_owned()));
    registry.add(ECHO, echo).map_err(|error| error.to_string())?;
    let mut config = ServiceConfig::default();
    config.pool.workers = WORKERS;
    let service = millpond_tasks::Service::start(config, registry, Symbols::new());
    let producer = Service {
        service: service.map_err(|error| error.to_string())?,
        basket: Arc::default(),
        request: Vec::new(),
        watched: Vec::new(),
        free_tags: Vec::new(),
        came: Vec::new(),
    };
    Ok(Started { producer, crew: Crew::new(None) })
}

pub(crate) fn start_pool() -> Result<Started<Pool>, String> {
    let config = PoolConfig { workers: WORKERS, ..ServiceConfig::default().pool };
    let pool = millpond::Pool::start(config).map_err(|error| error.to_string())?;
    let producer = Pool { pool, basket: Arc::default(), came: Vec::new() };
    Ok(Started { producer, crew: Crew::new(None) })
}

impl Producer for Service {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        write_request(&mut self.request, ECHO, task);
        let tag = self.free_tags.pop().unwrap_or_else(|| {
            self.watched.push(None);
            self.watched.len() as u64 - 1
        });
        let who: Arc<dyn Watch> = Arc::clone(&self.basket) as _;
        let reader = Some(Reader { who, tag, wants: Wants::Result });
        let accepted =
            self.service.handle().submit(&self.request, Submit { reader, keep: false, ..Submit::default() });
        self.watched[tag as usize] = accepted.map_err(io::Error::other)?.watching;
        Ok(())
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.basket.take(&mut self.came)?;
        for (tag, task) in self.came.drain(..) {
            self.watched[tag as usize] = None;
            self.free_tags.push(tag);
            let outcome = task.outcome().ok_or_else(|| io::Error::other("told of a task that goes on"))?;
            landed(
                outcome.result().map_err(|failure| io::Error::other(failure.to_string()))?.get().as_bytes(),
            )?;
        }
        Ok(())
    }
}

impl Watch for Basket<(u64, Arc<Task>)> {
    fn told(&self, tag: u64, task: &Arc<Task>) {
        self.lay((tag, Arc::clone(task)));
    }
}

impl Producer for Pool {
    fn put(&mut self, task: &[u8]) -> io::Result<()> {
        let (basket, task) = (Arc::clone(&self.basket), task.to_vec());
        let pool: &PoolHandle = &self.pool;
        pool.spawn(move || basket.lay(task)).map_err(|refused| io::Error::other(refused.to_string()))
    }

    fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.basket.take(&mut self.came)?;
        self.came.drain(..).try_for_each(|result| landed(&result))
    }
}

impl<T> Default for Basket<T> {
    fn default() -> Self {
        Self { inside: Mutex::new(Inside { results: Vec::new(), waits: false }), filled: Condvar::new() }
    }
}

impl<T> Basket<T> {
    fn lay(&self, result: T) {
        let mut inside = self.lock();
        inside.results.push(result);
        let waits = mem::take(&mut inside.waits);
        drop(inside);
        if waits {
            self.filled.notify_one();
        }
    }

    /// Waits for something and takes everything; `came` is empty before.
    fn take(&self, came: &mut Vec<T>) -> io::Result<()> {
        let mut inside = self.lock();
        while inside.results.is_empty() {
            inside.waits = true;
            let waited = self.filled.wait_timeout(inside, SILENCE_LIMIT);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            inside = guard;
            if timeout.timed_out() && inside.results.is_empty() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        mem::swap(&mut inside.results, came);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        // Pushing and swapping cannot leave the basket half changed.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
