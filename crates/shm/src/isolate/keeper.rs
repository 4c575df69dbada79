//! The life of one seat: a process in it, its answers, its end, and the next process.
//!
//! Every seat has a thread of its own, because a process may have to wait for whoever reads its partial results, and
//! then only it should. The thread sleeps in the channel, and looks for a moment before it does, because an answer
//! mostly comes sooner than a thread can be woken.
//!
//! A process that dies while it has a task costs that task, and another is started at once. One that dies without a
//! task, or before it was ready, shows that something is wrong with all of them: the pause doubles each time.
//!
//! Not here: which call comes next (`desk.rs`), what the process does (`worker.rs`).

use super::crew::Crew;
use super::desk::{Job, Next, Refusal};
use super::fork::Reaped;
use super::link::Told;
use super::process::{Held, Process, give};
use super::wire::{self, kind};
use super::{GRACE, NAP, linger};
use crate::channel::{BATCH, Message, Receiver, SendError};
use millpond_tasks::{ErrorCode, Level, TaskFailure};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// How long a process may take to get ready.
const START_WAIT: Duration = Duration::from_secs(20);
/// The pause after the first process that died without cause, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// After so many in a row it is no accident, and tasks are told instead of waiting.
const FAILURES_MAX: u32 = 3;
/// Without a zygote nothing can be started any more.
const PAUSE_FOR_GOOD: Duration = Duration::from_secs(365 * 86_400);
/// How long a process that was told to end may take.
const END_WAIT: Duration = Duration::from_secs(2);

/// Keeps one seat.
pub(super) struct Keeper {
    crew: Arc<Crew>,
    seat: usize,
    /// Processes in a row that died without cause.
    failures: u32,
    /// The call that the process has, once it said something about it or if it was given by this thread.
    current: Option<Job>,
    /// The call was not sent after all.
    is_unsent: bool,
    /// What the process did that it may not.
    fault: Option<String>,
    /// Whether it was ever given a task.
    has_worked: bool,
    /// The process was told to end, and when it is killed if it does not.
    ends_by: Option<Instant>,
    /// For what is sent.
    body: Vec<u8>,
}

/// What came of the process so far.
enum Sign {
    Lives,
    Ended(Reaped),
    Lost,
}

impl Keeper {
    pub(super) fn new(crew: Arc<Crew>, seat: usize) -> Self {
        Self {
            crew,
            seat,
            failures: 0,
            current: None,
            is_unsent: false,
            fault: None,
            has_worked: false,
            ends_by: None,
            body: Vec::new(),
        }
    }

    /// Until the crew closes.
    pub(super) fn run(&mut self) {
        while !self.crew.desk.is_closing() {
            (self.is_unsent, self.fault, self.has_worked, self.ends_by) = (false, None, false, None);
            match self.start() {
                Ok((process, held)) => self.tend(&process, held),
                Err(words) => {
                    self.crew.desk.count(|counts| counts.crashes += 1);
                    self.lie_down(&words);
                }
            }
        }
    }

    /// A panic left the seat as it was: its process goes, with what it had.
    pub(super) fn recover(&mut self) {
        self.crew.desk.doom(self.seat);
        let (job, _) = self.crew.desk.ended(self.seat);
        let failure =
            TaskFailure::new(ErrorCode::Internal, "the thread that keeps a worker process panicked");
        for job in [job, self.current.take()].into_iter().flatten() {
            job.call.finish(Err(failure.clone()));
        }
    }

    /// Has a process made, and waits until it is ready.
    fn start(&self) -> Result<(Arc<Process>, Held), String> {
        let (process, mut held) = Process::order(&self.crew.link)?;
        let until = Instant::now() + START_WAIT;
        loop {
            // Before the messages: what it said before its end is there then.
            let sign = sign(&held);
            let mut answer = None;
            let heard = held.receiver.receive(BATCH, |message| match message.kind {
                kind::READY => answer = Some(Ok(())),
                kind::FAILED => answer = Some(Err(String::from_utf8_lossy(message.body).into_owned())),
                _ => self.hear_log(process.pid, &message),
            });
            let wrong = match (answer, heard, sign) {
                (Some(Ok(())), Ok(_), Sign::Lives) => return Ok((Arc::new(process), held)),
                (Some(Err(words)), ..) => words,
                (_, Err(_), _) => "its memory is broken".to_owned(),
                (_, _, Sign::Ended(ended)) => self.crew.ending(ended),
                (_, _, Sign::Lost) => "the process that starts it has ended".to_owned(),
                (None, Ok(_), Sign::Lives) if Instant::now() > until => {
                    format!("it was not ready after {START_WAIT:?}")
                }
                (None, Ok(_), Sign::Lives) if !self.crew.desk.is_closing() => {
                    held.receiver.wait(NAP);
                    continue;
                }
                _ => "it was no longer needed".to_owned(),
            };
            process.kill();
            return Err(format!("a worker process (pid {}) did not start: {wrong}", process.pid));
        }
    }

    /// The life of a process from when it is ready to its end.
    fn tend(&mut self, process: &Arc<Process>, mut held: Held) {
        self.crew.desk.ready(self.seat, process);
        self.crew.log.debug(&format!("isolation: worker process {} is ready", process.pid));
        let next = self.crew.desk.next(self.seat);
        self.go_on(process, next);
        let (mut busy_at, mut looked_at) = (Instant::now(), Instant::now());
        let ended = loop {
            let sign = sign(&held);
            let heard = self.hear(process, &mut held.receiver);
            match sign {
                // All of it, now that nothing more can come.
                Sign::Ended(_) | Sign::Lost if heard > 0 => {
                    while self.hear(process, &mut held.receiver) > 0 {}
                }
                _ => {}
            }
            match sign {
                Sign::Ended(ended) => break Some(ended),
                Sign::Lost => break None,
                Sign::Lives if heard > 0 => busy_at = Instant::now(),
                Sign::Lives if linger(busy_at) => {}
                Sign::Lives => {
                    let nap = self.look_after(process);
                    held.receiver.wait(nap);
                }
            }
            // One that never stops speaking must be stopped too.
            if looked_at.elapsed() > NAP {
                self.look_after(process);
                looked_at = Instant::now();
            }
        };
        self.put_away(process, ended);
    }

    /// Takes what the process said; how much that was.
    fn hear(&mut self, process: &Arc<Process>, receiver: &mut Receiver) -> usize {
        if self.fault.is_some() {
            return 0;
        }
        let heard = receiver.receive(BATCH, |message| {
            if self.fault.is_none() {
                self.fault = self.take(process, &message).err();
            }
        });
        if heard.is_err() {
            self.fault = Some("wrote over the memory by which it answers".to_owned());
        }
        if self.fault.is_some() {
            self.crew.desk.doom(self.seat);
        }
        heard.unwrap_or(0)
    }

    /// One message. An error is what the process did wrong.
    fn take(&mut self, process: &Arc<Process>, message: &Message<'_>) -> Result<(), String> {
        let unreadable = || "answered what cannot be read".to_owned();
        match message.kind {
            kind::SAID => self.hear_log(process.pid, message),
            kind::RESULT => {
                let value = wire::json(message.body).ok_or_else(unreadable)?;
                return self.answered(process, message.number, Ok(value));
            }
            kind::ERROR => {
                let failure = wire::read_failure(message.word, message.body).ok_or_else(unreadable)?;
                return self.answered(process, message.number, Err(failure));
            }
            kind::PARTIAL => {
                let value = wire::json(message.body).ok_or_else(unreadable)?;
                // If nobody wants it any more, the process will be told in another way.
                let _ = self.job(message.number)?.call.partial(value);
            }
            kind::CHECKPOINT => {
                let value = wire::json(message.body).ok_or_else(unreadable)?;
                // The process has checked its size, and nobody wants it if the attempt is over.
                let _ = self.job(message.number)?.call.checkpoint(value);
            }
            kind::PROGRESS => {
                let fraction = message.body.try_into().map_err(|_| unreadable())?;
                self.job(message.number)?.call.progress(f64::from_le_bytes(fraction));
            }
            kind::LOG => {
                let line = std::str::from_utf8(message.body).map_err(|_| unreadable())?;
                self.job(message.number)?.call.log(line);
            }
            _ => return Err(unreadable()),
        }
        Ok(())
    }

    /// The call that has this number.
    fn job(&mut self, number: u64) -> Result<&Job, String> {
        if self.current.is_none() {
            self.current = self.crew.desk.take_job(self.seat);
        }
        let job = self.current.as_ref().filter(|job| job.number == number);
        job.ok_or_else(|| "spoke of a task that it does not have".to_owned())
    }

    fn answered(
        &mut self,
        process: &Arc<Process>,
        number: u64,
        outcome: Result<Box<RawValue>, TaskFailure>,
    ) -> Result<(), String> {
        let stranger = || "answered a task that it does not have".to_owned();
        if self.current.as_ref().is_some_and(|job| job.number != number) {
            return Err(stranger());
        }
        let (job, next) = self.crew.desk.answered(self.seat, number);
        let job = self.current.take().or(job);
        (self.has_worked, self.failures) = (true, 0);
        // First the process has something to do again, then somebody is told of what it did.
        self.go_on(process, next);
        job.ok_or_else(stranger)?.call.finish(outcome);
        Ok(())
    }

    /// The process is free: does what comes next.
    fn go_on(&mut self, process: &Arc<Process>, mut next: Next) {
        loop {
            match next {
                Next::Wait | Next::Nothing => return,
                Next::Close => {
                    self.ends_by = Some(Instant::now() + END_WAIT);
                    return process.hang_up();
                }
                Next::Work(job) => {
                    job.call.begins();
                    self.body.clear();
                    wire::write_call(&job.call, &mut self.body);
                    match give(process.sender(), job.number, &self.body) {
                        Ok(()) => {
                            self.current = Some(job);
                            return;
                        }
                        Err(SendError::TooLarge { bytes_max }) => {
                            let bytes = self.body.len();
                            job.call.finish(Err(self.crew.refusal(Refusal::TooLarge { bytes, bytes_max })));
                        }
                        Err(_) => {
                            (self.current, self.is_unsent) = (Some(job), true);
                            return self.crew.desk.doom(self.seat);
                        }
                    }
                }
            }
            next = self.crew.desk.next(self.seat);
        }
    }

    /// Now and then: kills what has to go. How long it may be until the next look.
    fn look_after(&mut self, process: &Arc<Process>) -> Duration {
        let now = Instant::now();
        if let Some(limit) = self.crew.memory_bytes_max()
            && let Some(memory) = process.memory().filter(|memory| *memory > limit)
            && self.fault.is_none()
        {
            let words = format!("took {} MiB of memory (isolation_memory_max = {limit})", memory >> 20);
            self.fault = Some(words);
            self.crew.desk.doom(self.seat);
        }
        if self.ends_by.is_none() && self.crew.desk.is_idle_and_closing(self.seat) {
            self.ends_by = Some(now + END_WAIT);
            process.hang_up();
        }
        if self.ends_by.is_some_and(|by| by <= now) {
            process.kill();
        }
        match self.crew.desk.kill_if_due(self.seat, now) {
            Some(at) => NAP.min(at.saturating_duration_since(now)).max(GRACE / 100),
            None => NAP,
        }
    }

    /// The process has ended: what that means for its task, and for the next process.
    fn put_away(&mut self, process: &Arc<Process>, ended: Option<Reaped>) {
        let (job, is_doomed) = self.crew.desk.ended(self.seat);
        let job = self.current.take().or(job);
        let mut unread = None;
        process.sender().take_back(|message| unread = Some(message.number));
        let fault = self.fault.take();
        let is_stopped = is_doomed && fault.is_none() && !self.is_unsent;
        let did = match (fault, ended) {
            (Some(fault), _) => format!("{fault} and was killed"),
            (None, Some(ended)) => self.crew.ending(ended),
            (None, None) => "ended with the process that starts them".to_owned(),
        };
        let Some(job) = job else {
            return self.ended_alone(process, &did, is_stopped);
        };
        self.has_worked = true;
        let was_read = unread != Some(job.number) && !self.is_unsent;
        let (handler, task) = (job.call.handler().to_owned(), job.call.task_id().clone());
        if is_stopped && was_read {
            self.crew.desk.count(|counts| counts.stops += 1);
            let words = format!("isolation: worker process {} was killed: task {task} is over", process.pid);
            self.crew.log.info(&words);
            return job.call.finish(Err(TaskFailure::new(ErrorCode::Cancelled, "the attempt is over")));
        }
        self.crew.desk.count(|counts| counts.crashes += 1);
        if !was_read {
            // The end of a process that has not looked at a task is not the task's fault.
            self.crew.say_died(process.pid, &did, &format!("task {task} goes to another process"));
            if let Some(job) = self.crew.desk.give_back(job) {
                job.call.finish(Err(self.crew.refusal(Refusal::Closed)));
            }
            return;
        }
        self.crew.say_died(process.pid, &did, &format!("it ran handler {handler:?} for task {task}"));
        let message =
            format!("task {task}: the process (pid {}) that ran handler {handler:?} {did}", process.pid);
        job.call.finish(Err(TaskFailure::new(ErrorCode::HandlerCrashed, message)));
    }

    /// It ended without a task.
    fn ended_alone(&mut self, process: &Process, did: &str, is_stopped: bool) {
        if self.ends_by.is_some() || self.crew.desk.is_closing() {
            return self.crew.log.debug(&format!("isolation: worker process {} {did}", process.pid));
        }
        self.crew.desk.count(|counts| {
            let count = if is_stopped { &mut counts.stops } else { &mut counts.crashes };
            *count += 1;
        });
        if !is_stopped {
            self.crew.say_died(process.pid, did, "it had no task");
        }
        if !self.has_worked && !is_stopped {
            self.lie_down(&format!("worker process {} {did} before it had done anything", process.pid));
        }
    }

    /// Something is wrong with all processes: waits longer each time.
    fn lie_down(&mut self, words: &str) {
        if self.crew.desk.is_closing() {
            return;
        }
        let is_gone = self.crew.link.is_gone();
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(20)).min(PAUSE_MAX);
        let pause = if is_gone { PAUSE_FOR_GOOD } else { pause };
        self.failures += 1;
        let until = Instant::now() + pause;
        let advice =
            if is_gone { "restart the daemon".to_owned() } else { format!("next try in {pause:.1?}") };
        self.crew.log.say(Level::Error, &format!("isolation: {words}; {advice}"));
        let is_accident = self.failures < FAILURES_MAX && !is_gone && self.crew.desk.has_ever_started();
        if !is_accident {
            for job in self.crew.desk.set_broken(words, until) {
                job.call.finish(Err(self.crew.refusal(Refusal::Broken(words.to_owned(), pause))));
            }
        }
        self.crew.desk.rest(until);
    }

    fn hear_log(&self, pid: i32, message: &Message<'_>) {
        if message.kind == kind::SAID {
            let line = String::from_utf8_lossy(message.body);
            self.crew.log.say(wire::read_level(message.word), &format!("worker process {pid}: {line}"));
        }
    }
}

fn sign(held: &Held) -> Sign {
    match held.told.try_recv() {
        Ok(Told::Ended(ended)) => Sign::Ended(ended),
        Ok(Told::Lost) | Err(TryRecvError::Disconnected) => Sign::Lost,
        Ok(Told::Started { .. } | Told::Refused(_)) | Err(TryRecvError::Empty) => Sign::Lives,
    }
}
