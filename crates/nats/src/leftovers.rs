//! Tasks that the server has and gives to nobody: below the place up to which a lane counts everything as acknowledged.
//!
//! After a crash the server may have messages again that were acknowledged, and it may have lost sight of some that
//! were not. They look alike, so each is decided by its entry: a task that has ended is removed, and any other is sent
//! again as a copy that remembers where it came from, before the old message is removed. Two daemons that look at the
//! same time send one copy, because a copy has an id of its own.
//!
//! Never by purging a lane: nats-server 2.9 then forgets what daemons have at that time, and gives it to nobody.
//!
//! Not here: when this is done (`presence.rs`).

use crate::api::{ask, consumer_info, get_entry, publish};
use crate::error::NatsError;
use crate::figures::count;
use crate::intake::due_of;
use crate::message::{Heading, MESSAGE_ID, given_id};
use crate::names::{Lane, key_of};
use crate::record::Record;
use crate::shared::{Shared, now_ms};
use async_nats::Client;
use async_nats::jetstream;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessageErrorKind;
use millpond_tasks::Request;
use serde_json::{Value, json};

/// How many are looked at in one go; the others follow.
const GO_MAX: usize = 1000;

/// What was found.
#[derive(Debug, Default)]
struct Tally {
    ended: u64,
    sent_again: u64,
}

/// Looks after tasks up to sequence `until`. The place below which nothing is given out moves on as tasks end, so this
/// is done again until nothing can be left. Says whether that is so.
pub(crate) async fn look_after(shared: &Shared, client: &Client, until: u64) -> Result<bool, NatsError> {
    let mut is_done = true;
    for lane in Lane::ALL {
        let info = consumer_info(client, &shared.queue.stream(), &lane.to_string()).await?;
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let is_idle = number(&info["num_pending"]) == 0 && number(&info["num_ack_pending"]) == 0;
        let floor = number(&info["ack_floor"]["stream_seq"]);
        // With nothing under way, nothing that was given out comes again.
        let floor = if is_idle { floor.max(number(&info["delivered"]["stream_seq"])) } else { floor };
        // Not beyond what was there at the restart: a server that lost the end of its stream numbers new tasks below
        // the old place.
        let is_all = walk(shared, client, lane, floor.min(until)).await?;
        is_done &= is_all && (is_idle || floor >= until);
    }
    Ok(is_done)
}

/// Looks after one lane up to sequence `last`; says whether that was all.
async fn walk(shared: &Shared, client: &Client, lane: Lane, last: u64) -> Result<bool, NatsError> {
    if last == 0 {
        return Ok(true);
    }
    let name = shared.queue.stream();
    let subject = shared.queue.subject(lane);
    let failed = |error: &dyn std::fmt::Display| NatsError::Failed(format!("{name}: leftovers: {error}"));
    let context = jetstream::new(client.clone());
    let stream = context.get_stream_no_info(&name).await.map_err(|error| failed(&error))?;
    let mut tally = Tally::default();
    let mut next = 1;
    let mut is_all = false;
    for _ in 0..GO_MAX {
        let message = match stream.get_first_raw_message_by_subject(&subject, next).await {
            Ok(message) if message.sequence <= last => message,
            Err(error) if error.kind() != RawMessageErrorKind::NoMessageFound => return Err(failed(&error)),
            _ => {
                is_all = true;
                break;
            }
        };
        next = message.sequence + 1;
        look_at(shared, client, lane, &message, &mut tally).await?;
    }
    if tally.ended > 0 {
        let words = "tasks that had ended; the server had them again, after a restart";
        shared.log.warn(&format!("nats: lane {lane}: removed {} {words}", tally.ended));
    }
    if tally.sent_again > 0 {
        let words = "tasks that the server would have given to nobody, after a restart";
        shared.log.warn(&format!("nats: lane {lane}: sent {} {words}, again", tally.sent_again));
    }
    Ok(is_all)
}

/// Sends one again unless it has ended, and removes it.
async fn look_at(
    shared: &Shared,
    client: &Client,
    lane: Lane,
    message: &StreamMessage,
    tally: &mut Tally,
) -> Result<(), NatsError> {
    let heading = Heading::read(Some(&message.headers));
    let origin = heading.origin.unwrap_or(message.sequence);
    let at_ms = u64::try_from(message.time.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    let since_ms = heading.since_ms.unwrap_or(at_ms);
    let parsed = Request::parse(&message.payload, shared.service.limits());
    let id = match &parsed {
        Ok(request) => request.id.clone(),
        Err(error) => error.id.clone(),
    };
    let key = key_of(&id.unwrap_or_else(|| given_id(origin)));
    let entry = get_entry(client, &shared.queue.results(), &key).await?;
    let has_ended = entry.is_some_and(|entry| {
        Record::read(&entry.value).is_some_and(|record| record.ends(origin, since_ms, entry.at_ms))
    });
    if has_ended {
        tally.ended += 1;
    } else {
        // What was moved before has its time in its heading, if it has to wait at all.
        let of_request = || parsed.ok().filter(|_| heading.origin.is_none());
        let due_ms = heading.run_at_ms.or_else(|| due_of(&of_request()?, since_ms));
        let due_ms = due_ms.filter(|due_ms| *due_ms > now_ms());
        let lane = if due_ms.is_some() { Lane::Later } else { lane };
        let copy =
            Heading { run_at_ms: due_ms, origin: Some(origin), since_ms: Some(since_ms), ..heading.clone() };
        let mut headers = copy.write();
        headers.insert(MESSAGE_ID, format!("mill:{origin}:left-{}", message.sequence).as_str());
        publish(client, &shared.queue.subject(lane), headers, message.payload.clone()).await?;
        count(&shared.figures.moved);
        tally.sent_again += 1;
    }
    let body = json!({ "seq": message.sequence, "no_erase": true });
    match ask(client, &format!("STREAM.MSG.DELETE.{}", shared.queue.stream()), &body).await {
        // Another daemon was quicker.
        Ok(_) | Err(NatsError::Missing(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
