//! How a queue stands: its lanes, how full everything is, and which daemons are there.
//!
//! All of it is asked of the server in one go; nothing is kept, and nothing of it is exact a moment later.
//!
//! Not here: single tasks (`NatsClient::get`).

use super::{AwaitOn, NatsClient};
use crate::api::{consumer_info, get_entry, keys_of, stream_info};
use crate::error::NatsError;
use crate::layout::look;
use crate::names::{Lane, bucket_stream};
use serde::Serialize;
use serde_json::Value;

/// Of so many daemons the status tells.
const DAEMONS_MAX: usize = 1024;

/// How a queue stands.
#[derive(Clone, Debug, Serialize)]
pub struct QueueStatus {
    /// The queue.
    pub queue: String,
    /// The server, without a password.
    pub server: String,
    /// Its version.
    pub server_version: String,
    /// How many tasks the queue holds, with those that run.
    pub messages: u64,
    /// How many it takes; none if there is no limit.
    pub messages_max: Option<u64>,
    /// How much that is.
    pub bytes: u64,
    /// How much it takes.
    pub bytes_max: Option<u64>,
    /// The lanes: high, normal, low, later.
    pub lanes: Vec<LaneStatus>,
    /// Results that are kept.
    pub results: BucketStatus,
    /// Tasks that failed for good.
    pub dead: BucketStatus,
    /// What the daemons say of themselves.
    pub daemons: Vec<Value>,
}

/// How a lane stands.
#[derive(Clone, Debug, Serialize)]
pub struct LaneStatus {
    /// Its name.
    pub lane: &'static str,
    /// How many tasks no daemon has.
    pub waiting: u64,
    /// How many daemons have, or wait for the next attempt.
    pub held: u64,
    /// How many of those were given out more than once.
    pub redelivered: u64,
    /// How many requests of daemons wait for a task.
    pub pulls: u64,
}

/// How full something is.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct BucketStatus {
    /// How many are kept.
    pub kept: u64,
    /// How much that is.
    pub bytes: u64,
    /// How much it may be.
    pub bytes_max: Option<u64>,
}

impl NatsClient {
    /// How the queue stands.
    pub fn status(&self) -> Result<QueueStatus, NatsError> {
        self.ask_status().map_err(|error| self.with_complaint(error))
    }

    fn ask_status(&self) -> Result<QueueStatus, NatsError> {
        let client = &self.connection.client;
        let info = look(client, &self.queue).await_on(self)?;
        let mut lanes = Vec::with_capacity(Lane::ALL.len());
        for lane in Lane::ALL {
            let stands = consumer_info(client, &self.queue.stream(), lane.name()).await_on(self);
            let stands = stands.map_err(|error| match error {
                NatsError::Missing(_) => NatsError::Missing(format!(
                    "lane {lane} of queue {} has no consumer: start a daemon of the queue, which makes it",
                    self.queue.name()
                )),
                other => other,
            })?;
            let number = |field: &str| stands[field].as_u64().unwrap_or_default();
            lanes.push(LaneStatus {
                lane: lane.name(),
                waiting: number("num_pending"),
                held: number("num_ack_pending"),
                redelivered: number("num_redelivered"),
                pulls: number("num_waiting"),
            });
        }
        Ok(QueueStatus {
            queue: self.queue.name().to_owned(),
            server: self.url.clone(),
            server_version: client.server_info().version,
            messages: info["state"]["messages"].as_u64().unwrap_or_default(),
            messages_max: limit(&info["config"]["max_msgs"]),
            bytes: info["state"]["bytes"].as_u64().unwrap_or_default(),
            bytes_max: limit(&info["config"]["max_bytes"]),
            lanes,
            results: self.fill(&bucket_stream(&self.queue.results()))?,
            dead: self.fill(&self.queue.dead_stream())?,
            daemons: self.daemons()?,
        })
    }

    fn fill(&self, stream: &str) -> Result<BucketStatus, NatsError> {
        let info = match stream_info(&self.connection.client, stream).await_on(self) {
            Err(NatsError::Missing(_)) => return Ok(BucketStatus::default()),
            other => other?,
        };
        let number = |field: &str| info["state"][field].as_u64().unwrap_or_default();
        let bytes_max = limit(&info["config"]["max_bytes"]);
        Ok(BucketStatus { kept: number("messages"), bytes: number("bytes"), bytes_max })
    }

    /// What the daemons have said of themselves, by name.
    fn daemons(&self) -> Result<Vec<Value>, NatsError> {
        let name = self.queue.daemons();
        let client = &self.connection.client;
        let told = self.block_on(async {
            let mut keys = keys_of(client, &name).await?;
            keys.truncate(DAEMONS_MAX);
            keys.sort();
            let entries = keys.iter().map(|key| get_entry(client, &name, key));
            Ok::<_, NatsError>(futures_util::future::join_all(entries).await)
        })?;
        // One that went away between the two questions is not there.
        let values = told.into_iter().filter_map(|entry| serde_json::from_slice(&entry.ok()??.value).ok());
        Ok(values.collect())
    }
}

/// A limit of the server, which writes -1 where there is none.
fn limit(value: &Value) -> Option<u64> {
    value.as_u64().filter(|limit| *limit > 0)
}
