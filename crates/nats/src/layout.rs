//! What must be on the server before a queue works: made if it is missing, compared with what the server says if not.
//!
//! Nothing that is there is ever changed: another daemon may rely on it. What would break the promises of the queue
//! if it were otherwise (retention, subjects, the lease) is an error with what to do; what only bounds it (how many,
//! how long) is a warning. The server leaves out of its answers what it did not understand, so also what was just
//! made is compared.
//!
//! Not here: names (`names.rs`), the settings themselves (`config/nats.rs` of the crate `millpond-tasks`).

use crate::api::ask;
use crate::error::NatsError;
use crate::names::{Lane, Queue, bucket_stream};
use async_nats::Client;
use millpond_tasks::config::{NatsSettings, NatsStorage};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The most delayed tasks that wait for their time side by side.
const LATER_MAX: u64 = 1_000_000;
/// How long a cancelled task is remembered at least, for daemons that have not seen it.
const CANCELLED_AGE_MIN: Duration = Duration::from_secs(7 * 86_400);
/// How much all other small buckets may take.
const SMALL_BYTES_MAX: u64 = 64 << 20;

/// Makes what is missing, and compares the rest. Says what is not as the settings say but does no harm.
pub async fn open(client: &Client, queue: &Queue, settings: &NatsSettings) -> Result<Vec<String>, NatsError> {
    let mut warnings = Vec::new();
    make(client, queue, settings, &mut warnings).await?;
    Ok(warnings)
}

/// As [`open`], for a queue that was there: says what was missing and was made anew.
pub(crate) async fn mend(
    client: &Client,
    queue: &Queue,
    settings: &NatsSettings,
) -> Result<Vec<String>, NatsError> {
    make(client, queue, settings, &mut Vec::new()).await
}

async fn make(
    client: &Client,
    queue: &Queue,
    settings: &NatsSettings,
    warnings: &mut Vec<String>,
) -> Result<Vec<String>, NatsError> {
    let mut made = Vec::new();
    for plan in streams(queue, settings) {
        let (info, is_new) = make_stream(client, &plan).await?;
        made.extend(is_new.then(|| format!("stream {}", plan.name)));
        plan.compare("stream", &info["config"], warnings)?;
    }
    for plan in consumers(queue, settings) {
        let (info, is_new) = make_consumer(client, &queue.stream(), &plan).await?;
        made.extend(is_new.then(|| format!("consumer {} of {}", plan.name, queue.stream())));
        plan.compare("consumer", &info["config"], warnings)?;
    }
    Ok(made)
}

/// Whether the queue is there at all; for clients, which never make one.
pub async fn look(client: &Client, queue: &Queue) -> Result<Value, NatsError> {
    crate::api::stream_info(client, &queue.stream()).await.map_err(|error| match error {
        NatsError::Missing(_) => NatsError::Missing(format!(
            "no stream {}: start a daemon with --nats and --queue {} first",
            queue.stream(),
            queue.name()
        )),
        other => other,
    })
}

/// Something that must be there.
struct Plan {
    name: String,
    /// What must be so.
    must: Map<String, Value>,
    /// What ought to be so.
    should: Map<String, Value>,
    /// How to get it right.
    remedy: String,
}

impl Plan {
    fn new(name: String, must: Value, should: Value, remedy: String) -> Self {
        let object = |value: Value| if let Value::Object(object) = value { object } else { Map::new() };
        Self { name, must: object(must), should: object(should), remedy }
    }

    /// All of it, as it is made.
    fn config(&self) -> Value {
        let all = self.must.iter().chain(&self.should);
        Value::Object(all.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn compare(&self, kind: &str, found: &Value, warnings: &mut Vec<String>) -> Result<(), NatsError> {
        let name = &self.name;
        let difference = |(field, expected): (&String, &Value)| {
            let found = &found[field];
            (!is_same(expected, found))
                .then(|| format!("expected {field} {}, got {}", shown(expected), shown(found)))
        };
        if let Some(difference) = self.must.iter().find_map(difference) {
            let remedy = &self.remedy;
            return Err(NatsError::Incompatible(format!("{kind} {name}: {difference}; {remedy}")));
        }
        let others = self.should.iter().filter_map(difference);
        warnings.extend(others.map(|difference| format!("{kind} {name}: {difference}; it stays as it is")));
        Ok(())
    }
}

/// Whether the server has what is expected. What is nothing is left out by the server.
fn is_same(expected: &Value, found: &Value) -> bool {
    let is_nothing = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if let (Value::Array(expected), Value::Array(found)) = (expected, found) {
        return expected.len() == found.len() && expected.iter().all(|item| found.contains(item));
    }
    expected == found || (is_nothing(expected) && is_nothing(found))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(i64::MAX as u64)
}

fn streams(queue: &Queue, settings: &NatsSettings) -> Vec<Plan> {
    let storage = match settings.storage {
        NatsStorage::File => "file",
        NatsStorage::Memory => "memory",
    };
    let elsewhere = |stream: &str| {
        format!(
            "choose another queue with nats.queue, or remove the stream (nats stream rm {stream}) if nobody needs it"
        )
    };
    let (name, dead) = (queue.stream(), queue.dead_stream());
    let subjects = Lane::ALL.map(|lane| queue.subject(lane));
    let tasks = Plan::new(
        name.clone(),
        json!({
            "name": name, "subjects": subjects, "retention": "workqueue", "discard": "new", "max_age": 0,
            "max_msgs_per_subject": -1, "no_ack": false, "sealed": false, "mirror": null, "sources": null,
            "deny_delete": false,
        }),
        json!({
            "storage": storage, "num_replicas": settings.replicas, "max_msgs": settings.messages_max,
            "max_bytes": settings.bytes_max, "max_msg_size": settings.message_bytes_max,
            "duplicate_window": nanoseconds(settings.duplicates_window),
        }),
        elsewhere(&name),
    );
    let letters = Plan::new(
        dead.clone(),
        json!({
            "name": dead, "subjects": [queue.dead_subject()], "retention": "limits", "discard": "old", "no_ack": false,
            "sealed": false, "mirror": null, "sources": null,
        }),
        json!({
            "storage": storage, "num_replicas": settings.replicas, "max_msgs": settings.dead_messages_max,
            "max_age": nanoseconds(settings.dead_age), "max_bytes": settings.bytes_max,
            "duplicate_window": nanoseconds(settings.duplicates_window.min(settings.dead_age)), "allow_direct": true,
        }),
        elsewhere(&dead),
    );
    let bucket = |bucket: String, age: Duration, bytes_max: u64| {
        let stream = bucket_stream(&bucket);
        Plan::new(
            stream.clone(),
            json!({
                "name": stream, "subjects": [format!("$KV.{bucket}.>")], "retention": "limits", "discard": "old",
                "max_msgs_per_subject": 1, "allow_rollup_hdrs": true, "allow_direct": true, "no_ack": false,
                "sealed": false, "mirror": null, "sources": null,
            }),
            json!({
                "storage": storage, "num_replicas": settings.replicas, "max_age": nanoseconds(age),
                "max_bytes": bytes_max, "deny_delete": true,
                "duplicate_window": nanoseconds(settings.duplicates_window.min(age)),
            }),
            elsewhere(&stream),
        )
    };
    vec![
        tasks,
        letters,
        bucket(queue.results(), settings.results_age, settings.results_bytes_max),
        bucket(queue.cancelled(), settings.results_age.max(CANCELLED_AGE_MIN), SMALL_BYTES_MAX),
        bucket(queue.daemons(), settings.presence.saturating_mul(3), SMALL_BYTES_MAX),
    ]
}

fn consumers(queue: &Queue, settings: &NatsSettings) -> Vec<Plan> {
    let stream = queue.stream();
    let consumer = |lane: Lane| {
        let name = lane.name();
        // Tasks that wait for their time are held as given out; there they must not keep out those that are due
        // sooner.
        let pending = match lane {
            Lane::Later => settings.messages_max.min(LATER_MAX).max(settings.pending_max as u64),
            _ => settings.pending_max as u64,
        };
        Plan::new(
            name.to_owned(),
            json!({
                "durable_name": name, "filter_subject": queue.subject(lane), "ack_policy": "explicit",
                "deliver_policy": "all", "replay_policy": "instant", "ack_wait": nanoseconds(settings.lease),
                "max_deliver": -1, "max_ack_pending": pending, "deliver_subject": "", "headers_only": false,
                "inactive_threshold": 0, "backoff": [], "max_batch": 0, "max_expires": 0,
            }),
            json!({}),
            format!(
                "all daemons of a queue must agree on nats.lease and nats.pending_max; mend the settings, or stop all \
                 daemons and remove the consumer (nats consumer rm {stream} {name})"
            ),
        )
    };
    Lane::ALL.into_iter().map(consumer).collect()
}

async fn make_stream(client: &Client, plan: &Plan) -> Result<(Value, bool), NatsError> {
    let name = &plan.name;
    match ask(client, &format!("STREAM.INFO.{name}"), &Value::Null).await {
        Err(NatsError::Missing(_)) => {
            let made = ask(client, &format!("STREAM.CREATE.{name}"), &plan.config()).await?;
            Ok((made, true))
        }
        answer => answer.map(|info| (info, false)),
    }
}

async fn make_consumer(client: &Client, stream: &str, plan: &Plan) -> Result<(Value, bool), NatsError> {
    let name = &plan.name;
    match ask(client, &format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null).await {
        Err(NatsError::Missing(_)) => {
            let mut config = plan.config();
            if let Value::Object(config) = &mut config {
                config.retain(|_, value| !is_same(&Value::Null, value));
            }
            let body = json!({"stream_name": stream, "config": config});
            let made = ask(client, &format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"), &body).await?;
            Ok((made, true))
        }
        answer => answer.map(|info| (info, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans() -> Vec<Plan> {
        streams(&Queue::new("jobs").unwrap(), &NatsSettings::default())
    }

    #[test]
    fn what_is_as_planned_passes_without_a_word() {
        for plan in plans() {
            let mut warnings = Vec::new();
            assert_eq!(plan.compare("stream", &plan.config(), &mut warnings), Ok(()));
            assert_eq!(warnings, Vec::<String>::new());
        }
    }

    #[test]
    fn another_retention_is_an_error_and_another_limit_is_not() {
        let plan = &plans()[0];
        let mut found = plan.config();
        found["max_msgs"] = json!(7);
        let mut warnings = Vec::new();
        assert_eq!(plan.compare("stream", &found, &mut warnings), Ok(()));
        assert_eq!(warnings, ["stream MILL_jobs: expected max_msgs 1000000, got 7; it stays as it is"]);
        found["retention"] = json!("limits");
        let error = plan.compare("stream", &found, &mut warnings).unwrap_err().to_string();
        assert!(
            error.starts_with("stream MILL_jobs: expected retention workqueue, got limits; choose"),
            "{error}"
        );
    }

    #[test]
    fn a_field_that_the_server_does_not_know_is_noticed() {
        let plan = &plans()[2];
        let mut found = plan.config();
        found.as_object_mut().unwrap().remove("allow_direct");
        let error = plan.compare("stream", &found, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("expected allow_direct true, got none"), "{error}");
    }

    #[test]
    fn lanes_do_not_overlap_and_have_no_wildcards() {
        let queue = Queue::new("jobs").unwrap();
        let filters: Vec<_> = consumers(&queue, &NatsSettings::default())
            .iter()
            .map(|plan| plan.must["filter_subject"].as_str().unwrap().to_owned())
            .collect();
        let subjects = Lane::ALL.map(|lane| queue.subject(lane));
        assert_eq!(filters, subjects);
        assert!(subjects.iter().all(|subject| !subject.contains(['*', '>'])));
    }
}
