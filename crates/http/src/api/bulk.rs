//! Any number of tasks, one to a line, answered line by line while the rest is still being sent.
//!
//! Nobody has to know how much the daemon can take: when it is full, this stops reading, and the sender
//! feels it. Answers come in the order of the lines. A client must read while it sends; if it does not, its
//! own answers fill the connection, and nothing moves until it does.
//!
//! ```text
//!  body ──► Cutter ── line ──► submit ──► window: accepted, in order ── ended? ──► answer
//!              ▲                 │ full: wait, then the same line again
//!              └── not read while the window is full
//! ```

use super::Api;
use super::ask::{Answered, Ask, LINES_TYPE};
use super::body::next_piece;
use super::cutter::{Cutter, Line};
use super::flow::{Out, flow};
use super::follow::{Form, stream_answer, write_json};
use super::limit::Held;
use super::problem::Problem;
use super::query::{bad, cut};
use super::submit::traceparent;
use super::wait::{Bell, Woken};
use bytes::Bytes;
use hyper::body::Incoming;
use millpond_tasks::{
    Accepted, DoorName, ErrorCode, Refused, Request, Submit, Task, TaskFailure, TaskId, Wants, Watching,
};
use serde::Serialize;
use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::io::Write as _;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// What an answer waits for.
pub(super) const UNTIL: &[&str] = &["accepted", "ended"];
/// Other names under which clients send lines.
const LINES_TYPES: &[&str] = &[LINES_TYPE, "application/ndjson", "application/jsonl"];
/// How many tasks of one bulk may be under way at once if their ends are waited for.
const WINDOW_MAX: usize = 1024;
/// Longer than a task may take.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Answers are sent on when they are so many bytes, or when there is nothing else to do.
const PIECE_BYTES: usize = 16 << 10;

/// `POST /v1/bulk`.
pub(super) fn bulk(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    ask.expect_body(LINES_TYPES)?;
    let waits_for_end = match ask.query().text("until")?.as_deref() {
        None | Some("accepted") => false,
        Some("ended") => true,
        Some(other) => {
            return Err(
                bad(format!("until: expected {}, got {:?}", UNTIL.join(" or "), cut(other))).closing()
            );
        }
    };
    let held = api.take_stream().map_err(Problem::closing)?;
    let line_bytes_max = usize::try_from(api.service.limits().request_bytes_max).unwrap_or(usize::MAX);
    let memory = api.take_body(0)?;
    let trace = traceparent(ask)?.map(Into::into);
    let body = ask.body.take();
    // From here on the body is the stream's, and so is its end.
    ask.is_read = true;
    let mut bulk = Bulk {
        api: Arc::clone(api),
        body,
        cutter: Cutter::new(line_bytes_max),
        memory,
        trace,
        waits_for_end,
        bell: Arc::default(),
        window: VecDeque::new(),
        answers: Vec::new(),
        told: Vec::new(),
    };
    let body = flow(move |out| async move {
        let _held = held;
        bulk.run(&out).await;
    });
    Ok(stream_answer(Form::Lines, body))
}

struct Bulk {
    api: Arc<Api>,
    /// None once it has ended, or is not wanted any more.
    body: Option<Incoming>,
    cutter: Cutter,
    /// What the cutter keeps, counted among all bodies.
    memory: Held,
    /// The trace that tasks without one continue.
    trace: Option<Box<str>>,
    waits_for_end: bool,
    bell: Arc<Bell>,
    /// Accepted and not answered, oldest first.
    window: VecDeque<Pending>,
    /// Written and not sent.
    answers: Vec<u8>,
    /// Whose outcomes are among these and are then let go of.
    told: Vec<TaskId>,
}

struct Pending {
    line: u64,
    what: What,
    /// Whether its outcome is let go of once it was told: nobody has a key to ask for it again.
    is_forgotten: bool,
}

enum What {
    /// Its end is waited for, by whoever watches it.
    Task(Arc<Task>, #[expect(dead_code, reason = "dropping it ends the watching")] Option<Watching>),
    /// Its acceptance is waited for: whether it is kept.
    Unkept(TaskId, Arc<OnceLock<Result<(), Refused>>>),
    /// It has ended and waits for those before it. Its outcome lies where all outcomes do, within their limits.
    Ended(TaskId),
    /// Those before it come first.
    Refused(Refused),
}

/// What a bulk has to do next.
enum Next {
    /// Look at the window, and at the lines that have come.
    Look,
    /// More of the body has come.
    Piece(Bytes),
    /// The body has ended.
    End,
    /// The body broke, or took too long.
    Broken(Box<Problem>),
    /// The daemon goes.
    Drains,
}

impl Bulk {
    async fn run(&mut self, out: &Out) {
        loop {
            self.answer_all_ended(out).await;
            while self.window.len() < WINDOW_MAX {
                let Some(line) = self.cutter.next_line() else { break };
                self.take_in(line, out).await;
                if self.answers.len() >= PIECE_BYTES {
                    self.send(out).await;
                }
            }
            self.memory.shrink_to(self.cutter.len());
            self.send(out).await;
            if self.body.is_none() && self.window.is_empty() {
                return;
            }
            match self.next().await {
                Next::Look => {}
                Next::Piece(piece) => match self.api.take_body(piece.len()) {
                    Ok(more) => {
                        self.memory.join(more);
                        self.cutter.push(&piece);
                    }
                    Err(problem) => self.break_off(&problem),
                },
                Next::End => {
                    self.body = None;
                    if let Some(line) = self.cutter.last_line() {
                        self.take_in(line, out).await;
                    }
                }
                Next::Broken(problem) => self.break_off(&problem),
                Next::Drains => {
                    self.stop();
                    self.answer_all_ended(out).await;
                    self.answer_accepted();
                }
            }
        }
    }

    /// Says why nothing more is read.
    fn break_off(&mut self, problem: &Problem) {
        self.stop();
        write!(self.answers, "{{\"problem\":").expect("a vector takes it");
        problem.write_json(None, &mut self.answers);
        self.answers.extend_from_slice(b"}\n");
    }

    /// Whatever still comes is not read.
    fn stop(&mut self) {
        self.body = None;
        self.cutter = Cutter::new(0);
    }

    async fn send(&mut self, out: &Out) {
        if !self.answers.is_empty() {
            out.send(std::mem::take(&mut self.answers)).await;
        }
        for id in self.told.drain(..) {
            // It may be gone already.
            let _ = self.api.service.take(&id);
        }
    }

    /// Waits for the first of what may happen.
    async fn next(&mut self) -> Next {
        let (api, bell) = (&self.api, &self.bell);
        let is_room = self.window.len() < WINDOW_MAX;
        // Who waits for our answers before it goes on is not late.
        let patience = if self.window.is_empty() { api.settings.body_timeout } else { A_DAY };
        let until = Instant::now() + patience;
        let mut rung = pin!(bell.rung(until, &api.door));
        let mut piece = pin!(async {
            match self.body.as_mut().filter(|_| is_room) {
                Some(body) => next_piece(api, body, until).await,
                None => pending().await,
            }
        });
        poll_fn(|context| {
            if let Poll::Ready(piece) = piece.as_mut().poll(context) {
                return Poll::Ready(match piece {
                    Ok(Some(piece)) => Next::Piece(piece),
                    Ok(None) => Next::End,
                    Err(problem) => Next::Broken(problem),
                });
            }
            rung.as_mut()
                .poll(context)
                .map(|woken| if woken == Woken::Drains { Next::Drains } else { Next::Look })
        })
        .await
    }

    /// Takes one line in. While the daemon is full this waits, and meanwhile nothing is read.
    async fn take_in(&mut self, line: Line, out: &Out) {
        let patience = Instant::now() + self.api.settings.request_timeout;
        let lines_max = self.api.service.limits().batch_lines_max;
        if line.number > lines_max {
            self.stop();
            let message =
                format!("expected at most {lines_max} lines, got more; this one and the rest were not read");
            let failure = TaskFailure::new(ErrorCode::TooLarge, message);
            return self.refuse(line.number, Refused { failure, id: None, retry_after: None });
        }
        loop {
            match self.submit(&line) {
                Ok((accepted, has_key)) => return self.accept(line.number, accepted, has_key),
                Err(refused) if refused.failure.code == ErrorCode::QueueFull && Instant::now() < patience => {
                    self.answer_all_ended(out).await;
                    self.send(out).await;
                    let pause = refused.retry_after.unwrap_or(Duration::from_millis(20));
                    if self.bell.rung(Instant::now() + pause, &self.api.door).await == Woken::Drains {
                        self.stop();
                        return self.refuse(line.number, refused);
                    }
                }
                Err(refused) => {
                    // What comes behind it would be refused too.
                    if refused.failure.code == ErrorCode::Draining {
                        self.stop();
                    }
                    return self.refuse(line.number, refused);
                }
            }
        }
    }

    /// Hands a line in. Says also whether it has an idempotency key.
    fn submit(&self, line: &Line) -> Result<(Accepted, bool), Refused> {
        let service = &self.api.service;
        let parsed = Request::parse(&line.text, service.limits());
        let Ok(mut request) = parsed.map_err(|error| error.in_line(line.number)) else {
            // Handed in all the same, so that it is counted as every refusal is.
            let mut refused = service.submit(&line.text, Submit::default());
            if let Err(Refused { failure: TaskFailure { at: Some(at), .. }, .. }) = &mut refused {
                at.line = line.number;
            }
            return refused.map(|accepted| (accepted, true));
        };
        let has_key = request.idempotency_key.is_some();
        request.traceparent = request.traceparent.take().or_else(|| self.trace.clone());
        let reader = self.waits_for_end.then(|| self.bell.reader(Wants::Result));
        // Kept in any case: a connection that breaks must not take outcomes with it that were not told.
        let accepted = service
            .submit_request(request, Submit { reader, keep: true, door: DoorName::Http, earlier: None })?;
        Ok((accepted, has_key))
    }

    fn accept(&mut self, line: u64, accepted: Accepted, has_key: bool) {
        let is_next = accepted.is_kept() && self.window.is_empty();
        if !self.waits_for_end && !is_next {
            return self.accept_later(line, &accepted);
        }
        let is_forgotten = self.waits_for_end && !has_key;
        let what = What::Task(accepted.task, accepted.watching);
        self.window.push_back(Pending { line, what, is_forgotten });
        if !self.waits_for_end {
            self.answer_accepted();
        }
    }

    /// One whose acceptance is told when it is kept, after those before it.
    fn accept_later(&mut self, line: u64, accepted: &Accepted) {
        let (fate, bell) = (Arc::<OnceLock<Result<(), Refused>>>::default(), Arc::clone(&self.bell));
        let what = What::Unkept(accepted.task.id().clone(), Arc::clone(&fate));
        accepted.on_kept(move |kept| {
            let _ = fate.set(kept);
            bell.ring();
        });
        self.window.push_back(Pending { line, what, is_forgotten: false });
        self.answer_ended();
    }

    /// Answers all with no more than that they were accepted. Their outcomes are kept, since nobody heard them.
    fn answer_accepted(&mut self) {
        for Pending { line, what, .. } in self.window.drain(..) {
            let mut write = |task_id| {
                write_line(line, |out| write_json(&Words { task_id }, out), &mut self.answers);
            };
            match what {
                What::Task(task, _) => write(task.id()),
                What::Ended(id) => write(&id),
                What::Unkept(id, fate) => match fate.get() {
                    Some(Ok(())) => write(&id),
                    Some(Err(refused)) => {
                        write_line(line, |out| refused.write_json(out), &mut self.answers);
                    }
                    // Nobody knows, so nothing is said.
                    None => {}
                },
                What::Refused(refused) => write_line(line, |out| refused.write_json(out), &mut self.answers),
            }
        }
    }

    fn refuse(&mut self, line: u64, refused: Refused) {
        self.window.push_back(Pending { line, what: What::Refused(refused), is_forgotten: false });
        self.answer_ended();
    }

    /// Answers those that have ended, up to the first that has not, piece by piece. Those behind it are let go of,
    /// so that what they hold counts where outcomes are counted.
    async fn answer_all_ended(&mut self, out: &Out) {
        for pending in &mut self.window {
            if let What::Task(task, _) = &pending.what
                && task.is_ended()
            {
                pending.what = What::Ended(task.id().clone());
            }
        }
        while self.answer_ended() {
            self.send(out).await;
        }
    }

    /// Answers some of those that have ended; true if there may be more.
    fn answer_ended(&mut self) -> bool {
        while self.answers.len() < PIECE_BYTES {
            let is_next = match self.window.front() {
                Some(Pending { what: What::Task(task, _), .. }) => task.is_ended(),
                Some(Pending { what: What::Unkept(_, fate), .. }) => fate.get().is_some(),
                next => next.is_some(),
            };
            if !is_next {
                return false;
            }
            let Some(Pending { line, what, is_forgotten }) = self.window.pop_front() else { return false };
            let task = match what {
                What::Task(task, _) => Ok(task),
                What::Ended(id) => self.api.service.get(&id).map_err(|failure| (failure, Some(id))),
                What::Refused(refused) => {
                    write_line(line, |out| refused.write_json(out), &mut self.answers);
                    continue;
                }
                What::Unkept(task_id, fate) => {
                    match fate.get() {
                        Some(Err(refused)) => {
                            write_line(line, |out| refused.write_json(out), &mut self.answers);
                        }
                        _ => write_line(
                            line,
                            |out| write_json(&Words { task_id: &task_id }, out),
                            &mut self.answers,
                        ),
                    }
                    continue;
                }
            };
            match task {
                Ok(task) => {
                    write_line(line, |out| _ = task.write_outcome(out), &mut self.answers);
                    if is_forgotten {
                        self.told.push(task.id().clone());
                    }
                }
                // There was no room for so many outcomes.
                Err((failure, id)) => {
                    let refused = Refused { failure, id, retry_after: None };
                    write_line(line, |out| refused.write_json(out), &mut self.answers);
                }
            }
        }
        true
    }
}

/// What is said of a task that was accepted.
#[derive(Serialize)]
struct Words<'a> {
    task_id: &'a TaskId,
}

/// Appends an object with the number of its line in front.
fn write_line(number: u64, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    write!(out, "{{\"line\":{number}").expect("a vector takes it");
    let brace = out.len();
    write(out);
    out[brace] = b',';
    out.push(b'\n');
}
