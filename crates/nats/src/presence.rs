//! What a daemon tells the others from time to time: that it is there, what it can do, and how it does.
//!
//! An entry of a bucket whose age limit is three times the interval: whoever dies is gone from the list by itself.
//! Nothing is decided by it; it is for people, and for programs that look.
//!
//! Here also: how far a server that was restarted may have forgotten. After a crash the server may give out tasks
//! that were acknowledged, as if for the first time. Whoever finds another server than the one noted down notes the
//! last sequence: tasks up to there are looked up before they are run, and those that the server would give to nobody
//! are looked after (`leftovers.rs`).

use crate::api::{get_entry, put_entry, put_soon, remove_entry, stream_info};
use crate::error::NatsError;
use crate::leftovers;
use crate::message::results_name;
use crate::names::key_of_name;
use crate::shared::{Shared, now_ms};
use async_nats::Client;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What a daemon tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Presence {
    /// What it is called.
    pub name: String,
    /// On which machine it runs.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// How many workers it has.
    pub workers: usize,
    /// How many tasks it would hold now.
    pub slots: usize,
    /// How many it holds.
    pub in_flight: usize,
    /// How many ended since its start.
    pub ended: u64,
    /// How many of them failed.
    pub failed: u64,
    /// What it can do.
    pub handlers: Vec<String>,
    /// Which results it keeps: `all`, `failures` or `none`.
    pub results: String,
    /// Since when it runs, in Unix time in milliseconds.
    pub started_ms: u64,
    /// When it said this.
    pub at_ms: u64,
}

/// The key in the bucket of results under which the server itself is noted down; no task has it.
const ENGINE_KEY: &str = "engine";
/// How often noting it down is tried.
const TRIES: usize = 20;

/// The server as it was last seen.
#[derive(Debug, Serialize, Deserialize)]
struct Engine {
    server_id: String,
    /// Tasks up to this sequence may be given out again.
    until: u64,
}

/// Says that this daemon is there, for ever.
pub(crate) async fn keep(shared: Arc<Shared>, client: Client) {
    find_floor(Arc::clone(&shared), client.clone()).await;
    let bucket = shared.queue.daemons();
    let key = key_of_name(&shared.daemon);
    let mut is_told = false;
    loop {
        let json = serde_json::to_vec(&present(&shared)).unwrap_or_default();
        if let Err(error) = put_soon(&client, &bucket, &key, json.into()).await {
            shared.log.debug(&format!("nats: presence: {error}"));
        }
        let until = shared.leftovers.load(Relaxed);
        if until > 0 {
            match leftovers::look_after(&shared, &client, until).await {
                // Unless the server was restarted once more meanwhile.
                Ok(true) => drop(shared.leftovers.compare_exchange(until, 0, Relaxed, Relaxed)),
                Ok(false) => {}
                Err(error) if !is_told => {
                    is_told = true;
                    shared.log.warn(&format!(
                        "nats: tasks of before a restart cannot be looked after yet: {error}"
                    ));
                }
                Err(error) => shared.log.debug(&format!("nats: {error}")),
            }
        }
        tokio::time::sleep(shared.settings.presence).await;
    }
}

/// Says that it is not there any more.
pub(crate) async fn leave(shared: &Shared, client: &Client) {
    let _ = remove_entry(client, &shared.queue.daemons(), &key_of_name(&shared.daemon)).await;
}

fn present(shared: &Shared) -> Presence {
    let figures = &shared.figures;
    Presence {
        name: shared.daemon.clone(),
        host: host(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workers: shared.service.pool_metrics().workers_wanted,
        slots: figures.slots.load(Relaxed),
        in_flight: figures.in_flight.load(Relaxed),
        ended: figures.ended.load(Relaxed),
        failed: figures.failed.load(Relaxed),
        handlers: shared.service.handlers().into_iter().map(str::to_owned).collect(),
        results: results_name(shared.settings.results).to_owned(),
        started_ms: shared.started_ms,
        at_ms: now_ms(),
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "host".to_owned() } else { name.to_owned() }
}

/// Finds out which tasks have to be looked up although they come for the first time.
pub(crate) async fn find_floor(shared: Arc<Shared>, client: Client) {
    for _ in 0..TRIES {
        match note_server(&shared, &client).await {
            Ok(until) => {
                shared.floor.store(until, Relaxed);
                return shared.leftovers.store(until, Relaxed);
            }
            Err(NatsError::Conflict(_)) => {}
            Err(error) => {
                shared.log.debug(&format!("nats: {error}"));
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
}

async fn note_server(shared: &Shared, client: &Client) -> Result<u64, NatsError> {
    let bucket = shared.queue.results();
    let server_id = client.server_info().server_id;
    let entry = get_entry(client, &bucket, ENGINE_KEY).await?;
    let noted = entry.as_ref().and_then(|entry| serde_json::from_slice::<Engine>(&entry.value).ok());
    if let Some(noted) = noted.filter(|noted| noted.server_id == server_id) {
        return Ok(noted.until);
    }
    let info = stream_info(client, &shared.queue.stream()).await?;
    let until = info["state"]["last_seq"].as_u64().unwrap_or_default();
    let json = serde_json::to_vec(&Engine { server_id, until }).unwrap_or_default();
    let revision = entry.as_ref().map_or(0, |entry| entry.revision);
    put_entry(client, &bucket, ENGINE_KEY, json.into(), Some(revision)).await?;
    Ok(until)
}
