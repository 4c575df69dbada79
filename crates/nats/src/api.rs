//! Questions to JetStream that are asked now and then: each is one request with a limit of time, answered in JSON.
//!
//! The answers are looked at as the server wrote them, and not as a typed value: what the server did not understand
//! it leaves out of its answer, and only so can that be seen.
//!
//! Not here: what goes by the thousand every second (`pulls.rs`, `writing.rs`).

use crate::error::NatsError;
use crate::message::EXPECTED_LAST;
use crate::names::{bucket_stream, entry_subject};
use async_nats::{Client, HeaderMap, RequestErrorKind};
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

/// Asks JetStream for something.
pub(crate) async fn ask(client: &Client, subject: &str, body: &Value) -> Result<Value, NatsError> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let subject = format!("$JS.API.{subject}");
    let mut answer = client.request(subject.clone(), body.clone()).await;
    // The connection may have been lost in between; whatever is asked here may be asked twice.
    if answer.as_ref().is_err_and(|error| error.kind() == RequestErrorKind::TimedOut) {
        answer = client.request(subject.clone(), body).await;
    }
    read(&subject, &answer.map_err(|error| failed(&subject, &error))?.payload)
}

/// The answer, or the error that the server put into it.
pub(crate) fn read(what: &str, payload: &[u8]) -> Result<Value, NatsError> {
    let answer: Value = serde_json::from_slice(payload)
        .map_err(|error| NatsError::Failed(format!("{what}: expected JSON from the server, got {error}")))?;
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => {
            let number = error["err_code"].as_u64().or(error["code"].as_u64()).unwrap_or_default();
            Err(NatsError::of_answer(what, number, error["description"].as_str().unwrap_or_default()))
        }
    }
}

fn failed(what: &str, error: &async_nats::RequestError) -> NatsError {
    match error.kind() {
        RequestErrorKind::TimedOut => NatsError::TimedOut(format!(
            "{what}: no answer from the server in time; it may be away, or this user may not ask (see its log)"
        )),
        RequestErrorKind::NoResponders => NatsError::Unable(format!(
            "{what}: nobody answers; the server or the account has no JetStream: start it with -js"
        )),
        _ => NatsError::Failed(format!("{what}: {error}")),
    }
}

/// An entry of a bucket.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it says; empty if it was removed.
    pub value: Bytes,
    /// Its revision.
    pub revision: u64,
    /// When the server took it, in Unix time in milliseconds.
    pub at_ms: u64,
}

/// The present entry of a key; none if there is none or it was removed.
pub async fn get_entry(client: &Client, bucket: &str, key: &str) -> Result<Option<Entry>, NatsError> {
    let subject = format!("$JS.API.DIRECT.GET.{}.{}", bucket_stream(bucket), entry_subject(bucket, key));
    let answer = client.request(subject.clone(), Bytes::new()).await;
    let message = answer.map_err(|error| failed(&subject, &error))?;
    if let Some(status) = message.status {
        return match status.as_u16() {
            404 => Ok(None),
            number => Err(NatsError::Failed(format!("{subject}: the server answered {number}"))),
        };
    }
    let headers = message.headers.unwrap_or_default();
    let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned()).unwrap_or_default();
    let revision = text("Nats-Sequence")
        .parse()
        .map_err(|_| NatsError::Failed(format!("{subject}: expected a sequence in the answer, got none")))?;
    let is_removed = headers.get("KV-Operation").is_some();
    let value = if is_removed { Bytes::new() } else { message.payload };
    Ok(Some(Entry { value, revision, at_ms: time_ms(&text("Nats-Time-Stamp")) }))
}

/// The keys of a small bucket, with those that were removed. Asked of the server in one go: a consumer that counts down
/// what is still to come waits for ever if an entry is replaced meanwhile.
pub(crate) async fn keys_of(client: &Client, bucket: &str) -> Result<Vec<String>, NatsError> {
    let body = json!({ "subjects_filter": entry_subject(bucket, ">") });
    let info = ask(client, &format!("STREAM.INFO.{}", bucket_stream(bucket)), &body).await?;
    let start = entry_subject(bucket, "");
    let subjects = info["state"]["subjects"].as_object().into_iter().flatten();
    Ok(subjects.filter_map(|(subject, _)| subject.strip_prefix(&start)).map(str::to_owned).collect())
}

/// Writes an entry if its revision is still `expected` (0: there is none); says its new revision.
pub async fn put_entry(
    client: &Client,
    bucket: &str,
    key: &str,
    value: Bytes,
    expected: Option<u64>,
) -> Result<u64, NatsError> {
    let mut headers = HeaderMap::new();
    if let Some(expected) = expected {
        headers.insert(EXPECTED_LAST, expected.to_string().as_str());
    }
    publish(client, &entry_subject(bucket, key), headers, value)
        .await
        .map(|answer| answer["seq"].as_u64().unwrap_or_default())
}

/// Publishes into a stream and waits for the server's word that it is kept.
pub async fn publish(
    client: &Client,
    subject: &str,
    headers: HeaderMap,
    payload: Bytes,
) -> Result<Value, NatsError> {
    let answer = client.request_with_headers(subject.to_owned(), headers, payload).await;
    let answer = answer.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => {
            NatsError::Missing(format!("{subject}: no stream takes it; is the queue there?"))
        }
        RequestErrorKind::MaxPayloadExceeded => NatsError::TooLarge(format!("{subject}: {error}")),
        _ => failed(subject, &error),
    })?;
    read(subject, &answer.payload)
}

/// Writes an entry whatever is there; for what is said again anyway.
pub(crate) async fn put_soon(
    client: &Client,
    bucket: &str,
    key: &str,
    value: Bytes,
) -> Result<(), NatsError> {
    let put = put_entry(client, bucket, key, value, None);
    match tokio::time::timeout(Duration::from_secs(5), put).await {
        Ok(answer) => answer.map(|_| ()),
        Err(_) => Err(NatsError::TimedOut(format!("{bucket}: the server did not answer"))),
    }
}

/// Removes an entry, leaving a mark.
pub(crate) async fn remove_entry(client: &Client, bucket: &str, key: &str) -> Result<(), NatsError> {
    let mut headers = HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    publish(client, &entry_subject(bucket, key), headers, Bytes::new()).await.map(|_| ())
}

/// What a stream is, and how it stands.
pub async fn stream_info(client: &Client, stream: &str) -> Result<Value, NatsError> {
    ask(client, &format!("STREAM.INFO.{stream}"), &Value::Null).await
}

/// What a consumer is, and how it stands.
pub async fn consumer_info(client: &Client, stream: &str, consumer: &str) -> Result<Value, NatsError> {
    ask(client, &format!("CONSUMER.INFO.{stream}.{consumer}"), &json!({})).await
}

/// A time as the server writes it (RFC 3339), in Unix time in milliseconds; 0 if it is none.
pub fn time_ms(text: &str) -> u64 {
    let parse = || {
        let (date, rest) = text.split_once('T')?;
        let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let rest = rest.strip_suffix('Z').unwrap_or(rest);
        let (clock, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        let mut clock = clock.split(':').map(|part| part.parse::<i64>().ok());
        let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
        let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
        let milliseconds = digits.parse::<i64>().ok()?;
        // Days since 1970, counted in years that begin in March, so that a leap day is the last of its year.
        let year = if month <= 2 { year - 1 } else { year };
        let era_year = year.rem_euclid(400);
        let month_index = (month + 9) % 12;
        let day_of_year = (153 * month_index + 2) / 5 + day - 1;
        let day_of_era = era_year * 365 + era_year / 4 - era_year / 100 + day_of_year;
        let days = year.div_euclid(400) * 146_097 + day_of_era - 719_468;
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        u64::try_from(seconds * 1_000 + milliseconds).ok()
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_server_are_read() {
        assert_eq!(time_ms("1970-01-01T00:00:00Z"), 0);
        assert_eq!(time_ms("2024-02-29T12:34:56.789012345Z"), 1_709_210_096_789);
        assert_eq!(time_ms("2026-11-16T10:20:30.5Z"), 1_794_824_430_500);
        assert_eq!(time_ms("yesterday"), 0);
    }

    #[test]
    fn an_error_in_an_answer_is_an_error() {
        let error = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        assert_eq!(read("x", error), Err(NatsError::Missing("x: stream not found".to_owned())));
        assert!(read("x", b"{\"seq\":1}").is_ok() && read("x", b"+OK").is_err());
    }
}
