//! Handing in one task: and going away, or waiting for its end.
//!
//! `/v1/exec` is a call: it keeps its place among the requests that are worked on, so that the door's own
//! limits hold it back, and its answer is the result. `/v1/tasks` leaves a task behind; if it waits, it gives
//! its place to others meanwhile.
//!
//! Headers that other tools know (`Idempotency-Key`, `traceparent`) fill the fields of the same meaning.

use super::Api;
use super::ask::{Answer, Answered, Ask, JSON_TYPE, json_of};
use super::body;
use super::problem::{Fault, Problem};
use super::query::cut;
use super::view::{TaskView, location, whole_task};
use super::wait::Bell;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, LOCATION};
use millpond_tasks::request::IDEMPOTENCY_KEY_BYTES_MAX;
use millpond_tasks::{Accepted, DoorName, ErrorCode, Reader, Request, Submit, Task, TaskFailure, Wants};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// About how much JSON stands around a result.
const AROUND_A_RESULT: usize = 128;

/// `POST /v1/exec`.
pub(super) async fn execute(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    ask.expect_body(&[JSON_TYPE])?;
    let body = body::whole(api, ask).await?;
    let request = read(api, ask, &body)?;
    drop(body);
    // Whoever sends a key may ask again for what got lost on its way.
    let keep = request.idempotency_key.is_some();
    let bell = Arc::<Bell>::default();
    let mut accepted = take_in(api, request, Some(bell.reader(Wants::Result)), keep)?;
    let task = &Arc::clone(&accepted.task);
    let until = Instant::from_std(ask.visit.began) + api.settings.request_timeout;
    let is_ended = bell.ended(task, until).await;
    // From here on its outcome is kept, so that one that comes now is not lost between us and the address below.
    drop(accepted.watching.take());
    if !is_ended && !task.is_ended() {
        let timeout = api.settings.request_timeout;
        let detail =
            format!("the task has not ended within {timeout:?}; it goes on, and its address is in Location");
        let problem = Problem::new(Fault::RequestTimeout, detail).about(task.id());
        return Err(problem.with_header(LOCATION, location(task.id())));
    }
    let mut answer = result(ask, task)?;
    note_replay(&accepted, &mut answer);
    Ok(answer)
}

/// `POST /v1/tasks`.
pub(super) async fn submit(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    ask.expect_body(&[JSON_TYPE])?;
    let wait = ask.wait(api.settings.wait_max)?;
    let body = body::whole(api, ask).await?;
    let request = read(api, ask, &body)?;
    drop(body);
    let Some(wait) = wait else {
        let accepted = take_in(api, request, None, true)?;
        kept(&accepted).await?;
        return Ok(accepted_answer(&accepted));
    };
    // Before the task: whoever may not wait should not have to ask what became of it.
    let _waiting = api.take_waiting()?;
    let bell = Arc::<Bell>::default();
    let accepted = take_in(api, request, Some(bell.reader(Wants::Result)), true)?;
    ask.visit.park();
    bell.ended_or_drained(&accepted.task, Instant::now() + wait, &api.door).await;
    if !accepted.task.is_ended() {
        kept(&accepted).await?;
        return Ok(accepted_answer(&accepted));
    }
    let mut answer = whole_task(StatusCode::OK, &accepted.task);
    answer.headers_mut().insert(LOCATION, location(accepted.task.id()));
    note_replay(&accepted, &mut answer);
    Ok(answer)
}

/// The request in a body, with what its headers say.
fn read(api: &Api, ask: &Ask, text: &[u8]) -> Result<Request, Box<Problem>> {
    let mut request = parse(api, text)?;
    if let Some(key) = idempotency_key(ask)? {
        fill("idempotency_key", &IDEMPOTENCY_KEY, key, &mut request.idempotency_key)?;
    }
    if let Some(context) = traceparent(ask)? {
        fill("traceparent", &TRACEPARENT, context, &mut request.traceparent)?;
    }
    Ok(request)
}

/// The request in a text. One that cannot be read is handed in all the same, so that it is counted as every
/// refusal is.
pub(super) fn parse(api: &Api, text: &[u8]) -> Result<Request, Box<Problem>> {
    Request::parse(text, api.service.limits()).map_err(|error| {
        let counted = api.service.submit(text, Submit::default()).err();
        counted.unwrap_or_else(|| error.into()).into()
    })
}

/// Hands a request in.
pub(super) fn take_in(
    api: &Api,
    request: Request,
    reader: Option<Reader>,
    keep: bool,
) -> Result<Accepted, Box<Problem>> {
    let how = Submit { reader, keep, door: DoorName::Http, earlier: None };
    api.service.submit_request(request, how).map_err(Into::into)
}

/// Waits until a task is kept. Whoever was told of one that was not could wait for it for ever.
pub(super) async fn kept(accepted: &Accepted) -> Result<(), Box<Problem>> {
    if accepted.is_kept() {
        return Ok(());
    }
    let (tell, told) = oneshot::channel();
    accepted.on_kept(move |kept| {
        // Who waited may have left.
        let _ = tell.send(kept);
    });
    match told.await {
        Ok(kept) => kept.map_err(Into::into),
        Err(_) => {
            let failure = TaskFailure::new(ErrorCode::Draining, "the daemon ended before the task was kept");
            Err(Problem::of_failure(failure, Some(accepted.task.id().clone())))
        }
    }
}

/// The trace that the header names. One that is malformed is passed over, as the standard has it.
pub(super) fn traceparent(ask: &Ask) -> Result<Option<&str>, Box<Problem>> {
    let is_whole = |text: &&str| {
        let parts: Vec<_> = text.split('-').collect();
        let is_hexadecimal = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
        parts.iter().map(|part| part.len()).eq([2, 32, 16, 2])
            && parts.iter().all(is_hexadecimal)
            && parts[0] != "ff"
            && !is_zero(parts[1])
            && !is_zero(parts[2])
    };
    Ok(ask.header(&TRACEPARENT)?.filter(is_whole))
}

/// The key that the header names, in quotes or without.
fn idempotency_key(ask: &Ask) -> Result<Option<&str>, Box<Problem>> {
    let Some(text) = ask.header(&IDEMPOTENCY_KEY)? else { return Ok(None) };
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let key = quoted.unwrap_or(text);
    if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control) {
        return Ok(Some(key));
    }
    let expected = format!("expected 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes without control characters");
    let detail = format!("idempotency-key: {expected}, got {} bytes: {:?}", key.len(), cut(key));
    Err(Problem::new(Fault::BadHeader, detail))
}

/// Fills a field that the body leaves out.
fn fill(
    field: &str,
    header: &HeaderName,
    value: &str,
    known: &mut Option<Box<str>>,
) -> Result<(), Box<Problem>> {
    match known {
        Some(known) if **known != *value => {
            let detail =
                format!("{header}: expected {:?} as in the body's {field}, got {:?}", cut(known), cut(value));
            Err(Problem::new(Fault::BadHeader, detail))
        }
        Some(_) => Ok(()),
        None => {
            *known = Some(value.into());
            Ok(())
        }
    }
}

/// The task and where to look. Its arguments are known to whoever sent them, so they are not sent back.
pub(super) fn accepted_answer(accepted: &Accepted) -> Answer {
    let mut answer = json_of(StatusCode::ACCEPTED, &TaskView::from(accepted.task.status()));
    answer.headers_mut().insert(LOCATION, location(accepted.task.id()));
    note_replay(accepted, &mut answer);
    answer
}

fn note_replay(accepted: &Accepted, answer: &mut Answer) {
    if !accepted.is_new {
        answer.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
}

/// What came of a task that has ended: its result, or its failure as a problem.
fn result(ask: &mut Ask, task: &Task) -> Answered {
    let outcome = task.outcome().map(|outcome| outcome.result());
    match outcome {
        Some(Err(failure)) => Err(Problem::of_failure(failure.clone(), Some(task.id().clone()))),
        outcome => {
            let bytes = outcome.and_then(Result::ok).map_or(0, |value| value.get().len());
            let mut body = Vec::with_capacity(bytes + AROUND_A_RESULT);
            task.write_outcome(&mut body);
            Ok(ask.json(StatusCode::OK, body))
        }
    }
}

/// How long a client that asks for the end of a task is held.
pub(super) async fn hold(
    api: &Api,
    ask: &mut Ask,
    task: &Arc<Task>,
    wait: Duration,
) -> Result<(), Box<Problem>> {
    if task.is_ended() || wait.is_zero() {
        return Ok(());
    }
    let _waiting = api.take_waiting()?;
    let bell = Arc::<Bell>::default();
    let watching = task.watch(bell.reader(Wants::Result));
    let _watching = watching.map_err(|failure| Problem::of_failure(failure, Some(task.id().clone())))?;
    ask.visit.park();
    bell.ended_or_drained(task, Instant::now() + wait, &api.door).await;
    Ok(())
}
