//! What becomes of a message that has come: it is run, looked up first, moved to another lane, refused, or given
//! back.
//!
//! A task that comes for the first time is run without a question. One that was given out before may have ended (its
//! acknowledgement was lost) or failed elsewhere, so its entry is read first; so is every task from before a restart
//! of the server, which may have forgotten what it knew. A task whose time has not come goes to `later` and comes
//! again.
//!
//! Not here: what follows from its end (`ending.rs`), what is sent (`writing.rs`).

use crate::ending::{self, End, Ending};
use crate::engine::Engine;
use crate::figures::count;
use crate::holding::{Finish, Held, Step};
use crate::message::{Heading, MESSAGE_ID, Place, given_id};
use crate::names::{Lane, key_of};
use crate::shared::{Ended, Shared, now_ms};
use crate::writing::Found;
use async_nats::{Message, Subject};
use bytes::Bytes;
use millpond_tasks::config::NatsResults;
use millpond_tasks::{
    DoorName, Earlier, ErrorCode, Outcome, Reader, Refused, Request, Submit, Task, TaskFailure, TaskId,
    Wants, Watch,
};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The longest that a task on `later` is sent away at once; then its time is looked at again.
pub(crate) const LATER_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// The first pause of a task whose handler is not here; it doubles with every delivery.
const STRANGER_PAUSE: Duration = Duration::from_secs(1);
/// The pause of a task while another of the same id is here.
const TWIN_PAUSE: Duration = Duration::from_secs(1);
/// How often a service without room is asked again.
const ROOM_PAUSE: Duration = Duration::from_millis(20);

impl Engine {
    /// A task has come.
    pub(crate) async fn take(&mut self, message: Message, now: Instant) {
        let Some((reply, place)) =
            message.reply.and_then(|reply| Place::read(&reply).map(|place| (reply, place)))
        else {
            return self.shared.log.debug(&format!("nats: {}: a message without a place", message.subject));
        };
        self.pulls.came(place.lane, now);
        count(&self.shared.figures.fetched);
        if place.deliveries > 1 && place.lane != Lane::Later {
            count(&self.shared.figures.redelivered);
        }
        let sure_until = self.turned_at + self.shared.settings.lease;
        // The same number at another time is another message: the stream was made anew, and the old one is nobody's.
        if self.held.get(&place.sequence).is_some_and(|held| held.place.at_ms != place.at_ms) {
            self.let_go(place.sequence, Finish::Silence);
        }
        if let Some(held) = self.held.get_mut(&place.sequence) {
            // The lease was lost and it has come back to where it still is.
            held.reply = reply;
            held.place = place;
            held.sure_until = held.sure_until.max(sure_until);
            return;
        }
        if now >= sure_until {
            // This thread stood still for so long that the task is another's by now.
            return;
        }
        let heading = Heading::read(message.headers.as_ref());
        let origin = heading.origin.unwrap_or(place.sequence);
        let parsed = Request::parse(&message.payload, self.shared.service.limits());
        let (id, retries, priority) = match &parsed {
            Ok(request) => (request.id.clone(), request.retries, request.priority),
            Err(error) => (error.id.clone(), 0, millpond::Priority::Normal),
        };
        let id = id.unwrap_or_else(|| given_id(origin));
        let held = Held {
            reply,
            origin,
            since_ms: heading.since_ms.unwrap_or(place.at_ms),
            key: key_of(&id),
            id,
            retries,
            priority,
            failures: heading.failures,
            checkpoint: None,
            run: 0,
            was_looked_up: false,
            revision: 0,
            watching: None,
            step: Step::LookUp,
            is_counted: false,
            asked: None,
            is_in_service: false,
            queued_at: None,
            refusals: 0,
            not_before: None,
            sure_until,
            got_at: now,
            place,
            heading,
            payload: message.payload,
        };
        self.hold(held);
        match parsed {
            Ok(request) => self.consider(place.sequence, request).await,
            Err(error) => self.refuse(place.sequence, Refused::from(error).failure).await,
        }
    }

    fn hold(&mut self, mut held: Held) {
        held.is_counted = held.is_busy();
        self.busy += usize::from(held.is_counted);
        self.later += usize::from(held.place.lane == Lane::Later);
        self.held_bytes += held.payload.len();
        self.held.insert(held.place.sequence, held);
    }

    /// What becomes of a task that could be read.
    async fn consider(&mut self, sequence: u64, request: Request) {
        let shared = Arc::clone(&self.shared);
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let now = now_ms();
        if shared.cancelled.covers(&held.key, held.since_ms) {
            return self.is_cancelled(sequence).await;
        }
        let is_later = held.place.lane == Lane::Later;
        let most = shared.settings.deliveries_max.saturating_add(held.retries);
        if !is_later && held.place.deliveries > most {
            return self.came_too_often(sequence).await;
        }
        // What was moved has waited already, unless it is on `later` again.
        let due_ms = match held.heading.run_at_ms {
            Some(due_ms) => Some(due_ms),
            None if held.heading.origin.is_some() => None,
            None => due_of(&request, held.since_ms),
        };
        let due_ms = due_ms.filter(|due_ms| *due_ms > now);
        match (is_later, due_ms) {
            (true, Some(due_ms)) => {
                let left = Duration::from_millis(due_ms - now).min(LATER_PAUSE_MAX);
                return self.go(sequence, Step::Finish(Finish::Nack(left))).await;
            }
            (true, None) => {
                let lane = Lane::of(held.priority);
                return self.move_to(sequence, lane, None).await;
            }
            (false, Some(due_ms)) if held.heading.origin.is_none() => {
                return self.move_to(sequence, Lane::Later, Some(due_ms)).await;
            }
            _ => {}
        }
        if shared.is_draining.load(Acquire) || shared.is_stopping.load(Acquire) {
            return self.go(sequence, Step::Finish(Finish::Nack(Duration::ZERO))).await;
        }
        // What was moved may have been moved by a daemon that died before it said so, and was then run elsewhere.
        let may_have_ended = held.place.deliveries > 1
            || held.heading.origin.is_some()
            || (held.place.sequence <= shared.floor.load(Relaxed)
                && held.results(shared.settings.results) == NatsResults::All);
        if may_have_ended && !held.was_looked_up {
            return self.go(sequence, Step::LookUp).await;
        }
        self.try_to_run(sequence, request).await;
    }

    /// What its entry says is known.
    pub(crate) async fn was_looked_up(&mut self, sequence: u64, found: Found) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        held.was_looked_up = true;
        held.revision = found.revision;
        if let Some(record) = found.record {
            if record.ends(held.origin, held.since_ms, found.at_ms) {
                count(&self.shared.figures.duplicates);
                return self.go(sequence, Step::Finish(Finish::Ack)).await;
            }
            if record.origin == held.origin {
                held.failures = held.failures.max(record.failures);
                held.checkpoint = record.checkpoint.map(Arc::from);
            }
        }
        self.run_again(sequence).await;
    }

    /// Reads the request once more and runs it.
    pub(crate) async fn run_again(&mut self, sequence: u64) {
        let Some(held) = self.held.get(&sequence) else { return };
        if let Ok(request) = Request::parse(&held.payload, self.shared.service.limits()) {
            self.try_to_run(sequence, request).await;
        }
    }

    /// It was given out so often that something is wrong with it.
    async fn came_too_often(&mut self, sequence: u64) {
        let Some(held) = self.held.get(&sequence) else { return };
        let message = format!(
            "it was given out {} times and never came to an end: daemons died of it, or none has its handler; see \
             nats.deliveries_max",
            held.place.deliveries
        );
        self.refuse(sequence, TaskFailure::new(ErrorCode::DaemonDied, message)).await;
    }

    /// Somebody has cancelled it before it was begun here.
    pub(crate) async fn is_cancelled(&mut self, sequence: u64) {
        self.refuse(sequence, TaskFailure::new(ErrorCode::Cancelled, "it was cancelled before it was begun"))
            .await;
    }

    /// Runs it here if it is quick, or else hands it to the service; unless it came too often, or too late.
    async fn try_to_run(&mut self, sequence: u64, mut request: Request) {
        let shared = Arc::clone(&self.shared);
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let deliveries = held.place.deliveries.saturating_sub(held.failures.min(held.retries));
        if deliveries > shared.settings.deliveries_max && held.place.lane != Lane::Later {
            return self.came_too_often(sequence).await;
        }
        if let Some(expires) = request.expires {
            let age = Duration::from_millis(now_ms().saturating_sub(held.since_ms));
            if held.failures == 0 && age >= expires {
                let message = format!("it did not begin within {} ms", expires.as_millis());
                return self.refuse(sequence, TaskFailure::new(ErrorCode::Expired, message)).await;
            }
            request.expires = Some(expires.saturating_sub(age)).filter(|_| held.failures == 0);
        }
        // The door keeps count of attempts, waits and ids; the server's window is the key.
        request.id = None;
        request.retries = 0;
        request.delay = Duration::ZERO;
        request.run_at_ms = None;
        request.idempotency_key = None;
        if let Some(number) = shared.service.quick_number(&request).filter(|_| !held.heading.streams) {
            return self.run_here(sequence, number, request).await;
        }
        self.hand_over(sequence, request).await;
    }

    /// Hands it to the service, if that has a slot for it.
    async fn hand_over(&mut self, sequence: u64, mut request: Request) {
        let shared = Arc::clone(&self.shared);
        let Some(held) = self.held.get_mut(&sequence) else { return };
        if self.in_service >= self.service_slots.now(self.workers) {
            return self.queue_here(sequence);
        }
        request.id = Some(shared.queue.local_id(&held.id));
        held.queued_at = None;
        self.next_run += 1;
        held.run = self.next_run;
        let reader = held.heading.streams.then(|| Reader {
            who: Arc::clone(&shared) as Arc<dyn Watch>,
            tag: sequence,
            wants: Wants::Stream { from: 0 },
        });
        // Whoever had it before may have begun an attempt and died.
        let attempts = held.failures.max(held.place.deliveries.saturating_sub(1));
        let earlier = Earlier { attempts, checkpoint: held.checkpoint.clone() };
        let how = Submit { reader, keep: false, door: DoorName::Nats, earlier: Some(earlier) };
        match shared.service.submit_request(request, how) {
            Ok(accepted) => {
                held.step = Step::Running;
                held.is_in_service = true;
                self.in_service += 1;
                held.watching = accepted.watching;
                let (id, run, failures) = (held.id.clone(), held.run, held.failures + 1);
                let told = Arc::clone(&shared);
                accepted.task.on_end(move |task, outcome| {
                    let ended = Ended { sequence, run, ..end_of(&told, task, outcome, &id, failures) };
                    told.has_ended(ended);
                });
            }
            Err(refused) => self.was_refused(sequence, refused).await,
        }
    }

    /// Answers on this thread, which is quicker than any other.
    async fn run_here(&mut self, sequence: u64, number: u32, request: Request) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        self.next_run += 1;
        held.run = self.next_run;
        let mut outcome = Vec::with_capacity(256);
        let _ = write!(outcome, "{{\"task_id\":{},\"status\":0,\"result\":", held.id);
        let began = Instant::now();
        let waited = began.saturating_duration_since(held.got_at);
        let answer =
            self.shared.service.answer_quick(number, &request.args, DoorName::Nats, waited, &mut outcome);
        let failure = match answer {
            Some(Ok(())) => None,
            Some(Err(failure)) => Some(failure),
            // It does not want to be quick this time.
            None => return self.hand_over(sequence, request).await,
        };
        let attempts = held.failures + 1;
        let (waited, ran) = (waited.as_micros(), began.elapsed().as_micros());
        if failure.is_none() {
            let _ = write!(outcome, ",\"attempts\":{attempts},\"waited_us\":{waited},\"ran_us\":{ran}}}");
        } else {
            outcome.clear();
        }
        let pause = match &failure {
            Some(_) => {
                let name = self.shared.service.handler_name(number).unwrap_or_default();
                self.shared.service.pause_before_retry(name, attempts)
            }
            None => Duration::ZERO,
        };
        let run = held.run;
        self.has_ended(Ended { sequence, run, outcome, failure, checkpoint: None, pause }).await;
    }

    /// The service did not take it.
    async fn was_refused(&mut self, sequence: u64, refused: Refused) {
        let nack_max = self.shared.settings.nack_max.max(STRANGER_PAUSE);
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let finish = match refused.failure.code {
            ErrorCode::QueueFull => {
                // It stays here, and its lease is renewed; nothing else is asked for while there is no room.
                held.step = Step::Room;
                held.not_before =
                    Some(Instant::now() + refused.retry_after.unwrap_or(ROOM_PAUSE).min(ROOM_PAUSE));
                return;
            }
            ErrorCode::DuplicateId => {
                // Another of the same id runs here; this one waits for it, and its lease is renewed.
                held.step = Step::Room;
                held.not_before = Some(Instant::now() + TWIN_PAUSE);
                return;
            }
            ErrorCode::UnknownHandler => {
                let doublings = held.place.deliveries.saturating_sub(1).min(16);
                let pause = STRANGER_PAUSE.saturating_mul(1 << doublings).min(nack_max);
                // Not all at the same time.
                let part =
                    (held.place.sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as f64 / 2_f64.powi(32);
                Finish::Nack(pause.mul_f64(0.75 + 0.25 * part))
            }
            ErrorCode::Draining => Finish::Nack(Duration::ZERO),
            _ => return self.refuse(sequence, refused.failure).await,
        };
        self.go(sequence, Step::Finish(finish)).await;
    }

    /// It cannot be run, now or ever.
    pub(crate) async fn refuse(&mut self, sequence: u64, failure: TaskFailure) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        // No further attempt would help, whatever its code says.
        held.retries = 0;
        let run = held.run;
        let ended = Ended {
            sequence,
            run,
            outcome: Vec::new(),
            failure: Some(failure),
            checkpoint: None,
            pause: Duration::ZERO,
        };
        self.has_ended(ended).await;
    }

    /// A copy on another lane, and this one is acknowledged.
    pub(crate) async fn move_to(&mut self, sequence: u64, lane: Lane, due_ms: Option<u64>) {
        let Some(held) = self.held.get(&sequence) else { return };
        let step = moved(&self.shared, held, lane, due_ms, held.failures);
        self.go(sequence, step).await;
    }

    /// An attempt has ended.
    pub(crate) async fn has_ended(&mut self, ended: Ended) {
        let shared = Arc::clone(&self.shared);
        let Some(held) = self.held.get_mut(&ended.sequence) else { return };
        if held.run != ended.run {
            return;
        }
        self.slots.has_ended();
        if std::mem::take(&mut held.is_in_service) {
            self.in_service -= 1;
            self.service_slots.has_ended();
        }
        let end = End {
            failure: ended.failure.as_ref(),
            failures: held.failures,
            retries: held.retries,
            is_stopping: shared.is_stopping.load(Acquire),
            results: held.results(shared.settings.results),
            pause: ended.pause,
            nack_max: shared.settings.nack_max,
        };
        let ending = ending::decide(&end);
        if let Some(failure) = &ended.failure
            && !matches!(ending, Ending::GiveBack { .. })
        {
            shared.log.debug(&format!("nats: task {}: {failure}", held.id));
        }
        let step =
            crate::writing::step_after(&shared, held, &end, ending, &ended, self.link.client.max_payload());
        match ending {
            Ending::Final { .. } => {
                count(&shared.figures.ended);
                if ended.failure.as_ref().is_some_and(|failure| failure.code == ErrorCode::Cancelled) {
                    count(&shared.figures.cancelled);
                }
                if ended.failure.is_some() {
                    count(&shared.figures.failed);
                }
            }
            Ending::Retry { .. } => count(&shared.figures.retried),
            Ending::GiveBack { .. } => {}
        }
        self.say_the_rest(ended.sequence, matches!(ending, Ending::Final { .. })).await;
        self.go(ended.sequence, step).await;
    }
}

/// When a request is due that came at `since_ms`, if it has to wait at all.
pub(crate) fn due_of(request: &Request, since_ms: u64) -> Option<u64> {
    let delay_ms = u64::try_from(request.delay.as_millis()).unwrap_or(u64::MAX);
    request.run_at_ms.or_else(|| (delay_ms > 0).then(|| since_ms.saturating_add(delay_ms)))
}

/// A copy for another lane.
pub(crate) fn moved(shared: &Shared, held: &Held, lane: Lane, due_ms: Option<u64>, failures: u32) -> Step {
    let heading = Heading {
        run_at_ms: due_ms,
        origin: Some(held.origin),
        since_ms: Some(held.since_ms),
        failures,
        ..held.heading.clone()
    };
    let mut headers = heading.write();
    // Once for each move, however often it is sent.
    headers.insert(MESSAGE_ID, format!("mill:{}@{failures}:{lane}", held.origin).as_str());
    Step::Copy { subject: shared.queue.subject(lane), headers, then: Box::new(Step::Finish(Finish::Ack)) }
}

/// What is told of an end; on the thread of the worker, so that the loop has less to do.
fn end_of(shared: &Shared, task: &Task, outcome: &Outcome, id: &TaskId, failures: u32) -> Ended {
    let mut json = Vec::with_capacity(256);
    outcome.write_json(id, &mut json);
    let failure = outcome.result().err().cloned();
    let (checkpoint, pause) = match &failure {
        Some(_) => (task.checkpoint(), shared.service.pause_before_retry(task.handler(), failures)),
        None => (None, Duration::ZERO),
    };
    Ended { sequence: 0, run: 0, outcome: json, failure, checkpoint, pause }
}

/// The subject of a message to the queue itself.
pub(crate) fn to(subject: &str) -> Subject {
    Subject::from(subject)
}

/// The payload of a copy.
pub(crate) fn copy_of(held: &Held) -> Bytes {
    held.payload.clone()
}
