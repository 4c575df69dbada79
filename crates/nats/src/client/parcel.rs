//! From the text of a request to a message of the queue: its id, its lane, its headers.
//!
//! A request is read here with the same reader and the same limits as a daemon reads it, so that whoever submits
//! hears of a mistake at once and not from a dead letter. The text goes out as it came, with an id if it had none:
//! who submits must know under which name the result will be found.
//!
//! Not here: sending it (`submission.rs`), what a daemon makes of it (`message.rs`).

use crate::message::{self, Heading, lane_of};
use crate::names::{Queue, key_of};
use async_nats::HeaderMap;
use bytes::Bytes;
use millpond_tasks::config::NatsResults;
use millpond_tasks::request::TASK_ID_BYTES_MAX;
use millpond_tasks::{Limits, Request, RequestError, TaskId};

/// What a task is called that is asked for by an idempotency key alone.
const BY_KEY: &str = "key-";

/// A message that is ready to be sent, once or again.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) id: TaskId,
    /// Under which its result will be found.
    pub(super) key: String,
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
    /// Whether it has an idempotency key and an id that do not follow from each other.
    pub(super) is_doubly_named: bool,
}

/// What else is said with a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Whether somebody waits for the result, whatever the queue keeps.
    pub(super) result: bool,
    /// Whether somebody reads along.
    pub(super) stream: bool,
}

/// Makes a message of a request. `fresh` makes an id, if one is needed.
pub(super) fn pack(
    text: &[u8],
    queue: &Queue,
    limits: &Limits,
    wish: Wish,
    now_ms: u64,
    fresh: impl FnOnce() -> String,
) -> Result<Parcel, RequestError> {
    let request = Request::parse(text, limits)?;
    let (lane, run_at_ms) = lane_of(&request, now_ms);
    let results = wish.result.then_some(NatsResults::All);
    let mut headers = Heading { streams: wish.stream, run_at_ms, results, ..Heading::default() }.write();
    let by_key = request.idempotency_key.as_deref();
    let is_doubly_named = request.id.is_some() && by_key.is_some();
    let (id, payload) = match (request.id.clone(), by_key) {
        (Some(id), _) => (id, Bytes::copy_from_slice(text)),
        (None, Some(key)) => named(text, id_of_key(key)),
        (None, None) => named(text, fresh()),
    };
    let key = key_of(&id);
    // Two requests of one idempotency key are one task, whatever they are called; else the id says which are the same.
    let message_id =
        by_key.map_or_else(|| key.clone(), |by_key| format!("key:{}", crate::names::key_of_name(by_key)));
    headers.insert(message::MESSAGE_ID, message_id.as_str());
    Ok(Parcel { subject: queue.subject(lane), id, key, headers, payload, is_doubly_named })
}

/// The request with an id in it, which it did not have.
fn named(text: &[u8], name: String) -> (TaskId, Bytes) {
    let id = TaskId::Name(name.into());
    let at = text.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
    // There is at least the handler behind it, so a comma is right.
    let given = format!("\"task_id\":{id},");
    (id, [&text[..at], given.as_bytes(), &text[at..]].concat().into())
}

/// Whoever sends the same key again must hear of the same task, though nobody keeps a list of keys.
fn id_of_key(key: &str) -> String {
    if BY_KEY.len() + key.len() <= TASK_ID_BYTES_MAX {
        return format!("{BY_KEY}{key}");
    }
    // FNV-1a with 128 bits: a name, and no secret.
    let (prime, start) =
        (0x0000_0000_0100_0000_0000_0000_0000_013B_u128, 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    let hash = key.bytes().fold(start, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(prime));
    format!("{BY_KEY}{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WISH: Wish = Wish { result: false, stream: false };

    fn parcel(text: &str, wish: Wish) -> Parcel {
        let queue = Queue::new("jobs").expect("a queue");
        pack(text.as_bytes(), &queue, &Limits::default(), wish, 1_000, || "fresh".to_owned())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn header<'a>(parcel: &'a Parcel, name: &str) -> Option<&'a str> {
        parcel.headers.get(name).map(async_nats::HeaderValue::as_str)
    }

    #[test]
    fn a_request_without_an_id_is_given_one_and_stays_as_it_was() {
        let parcel = parcel(r#" { "handler": "echo", "args": {"a": [1,  2]} }"#, NO_WISH);
        assert_eq!(parcel.payload, r#" {"task_id":"fresh", "handler": "echo", "args": {"a": [1,  2]} }"#);
        assert_eq!((parcel.id.to_string(), parcel.key.as_str()), ("\"fresh\"".to_owned(), "s-fresh"));
        assert_eq!(parcel.subject, "mill.jobs.normal");
        assert_eq!(header(&parcel, "Nats-Msg-Id"), Some("s-fresh"));
        let again = Request::parse(&parcel.payload, &Limits::default()).expect("it is still a request");
        assert_eq!(again.id, Some(parcel.id));
    }

    #[test]
    fn a_request_with_an_id_goes_as_it_came() {
        let text = r#"{"handler":"echo","task_id":17,"priority":"high"}"#;
        let parcel = parcel(text, Wish { result: true, stream: true });
        assert_eq!(parcel.payload, text);
        assert_eq!((parcel.key.as_str(), parcel.subject.as_str()), ("17", "mill.jobs.high"));
        assert_eq!(
            (header(&parcel, "Mill-Stream"), header(&parcel, "Mill-Result")),
            (Some("1"), Some("all"))
        );
    }

    #[test]
    fn what_must_wait_goes_to_its_own_lane_with_the_moment() {
        let parcel = parcel(r#"{"handler":"echo","delay_ms":500,"priority":"high"}"#, NO_WISH);
        assert_eq!(
            (parcel.subject.as_str(), header(&parcel, "Mill-Run-At")),
            ("mill.jobs.later", Some("1500"))
        );
    }

    #[test]
    fn the_same_idempotency_key_is_the_same_task_every_time() {
        let one = parcel(r#"{"handler":"echo","idempotency_key":"order 7"}"#, NO_WISH);
        assert_eq!(
            (header(&one, "Nats-Msg-Id"), one.id.to_string()),
            (Some("key:order=207"), "\"key-order 7\"".to_owned())
        );
        let [short, long, other] = [20, 200, 201].map(|len| {
            parcel(&format!(r#"{{"handler":"echo","idempotency_key":"{}"}}"#, "k".repeat(len)), NO_WISH).key
        });
        assert_eq!(short, format!("s-key-{}", "k".repeat(20)));
        assert_eq!(long.len(), "s-key-".len() + 32, "{long}");
        assert_ne!(long, other);
        let named = parcel(r#"{"handler":"echo","idempotency_key":"k","task_id":"mine"}"#, NO_WISH);
        assert_eq!((header(&named, "Nats-Msg-Id"), named.key.as_str()), (Some("key:k"), "s-mine"));
    }

    #[test]
    fn a_mistake_is_told_before_anything_is_sent() {
        let queue = Queue::new("jobs").expect("a queue");
        let pack = |text: &str| pack(text.as_bytes(), &queue, &Limits::default(), NO_WISH, 0, String::new);
        let error = pack(r#"{"handler":"echo","retries":"3"}"#).expect_err("a string").to_string();
        assert!(error.starts_with("retries: expected a whole number from 0 to 100"), "{error}");
        assert!(pack("nonsense").is_err() && pack("").is_err());
    }
}
