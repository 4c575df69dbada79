//! The life of one place: start a process when a call waits, feed it, replace it when it has to go.
//!
//! Every place has a thread of its own, because a process may have to wait for whoever reads its partial
//! results, and then only it should. The thread starts with the first call that needs it and ends when the
//! handler closes. A program that crashes stays down for a while; one whose task was merely cancelled does
//! not, and neither does one that ended by itself, with status 0, after it had done some work.
//!
//! Not here: which call comes next (`desk.rs`), what is said during a task (`turn.rs`).

use super::backoff::Backoff;
use super::crew::Crew;
use super::desk::{Job, Next, NextStart, Place};
use super::ending::ending;
use super::fault::{self, Fault};
use super::process::Process;
use super::turn::{END_WAIT, READS_AT_END, Surroundings, Turn, more_said, take_turn};
use crate::error::{ErrorCode, TaskFailure};
use crate::log::Level;
use rustix::process::Signal;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keeps one place.
pub(super) struct Keeper {
    crew: Arc<Crew>,
    place: Place,
    backoff: Backoff,
    /// Until when nothing is started here.
    rest_until: Option<Instant>,
    has_started: bool,
}

/// Why a process has to go.
enum Farewell {
    /// It did something wrong, perhaps while it had this call.
    Fault(Fault, Option<Job>),
    /// Its task is no longer wanted.
    Stop,
    /// It has done as many tasks as it may.
    Retire,
    /// The handler closes.
    Close,
}

impl Keeper {
    pub(super) fn new(crew: Arc<Crew>, place: Place) -> Self {
        let backoff = Backoff::new(crew.settings.restart_backoff_min, crew.settings.restart_backoff_max);
        Self { crew, place, backoff, rest_until: None, has_started: false }
    }

    /// Until the handler closes.
    pub(super) fn run(&mut self) {
        while let Some(mut process) = self.next_process() {
            let farewell = self.feed(&mut process);
            self.put_away(process, farewell);
        }
    }

    /// A panic took the process with it. It counts as a crash.
    pub(super) fn recover(&mut self) {
        self.crew.desk.process_ended(&self.place);
        self.crew.desk.count(|counts| counts.crashes += 1);
        self.lie_down();
    }

    /// Waits for a call and starts a process for it; none if the handler closes.
    fn next_process(&mut self) -> Option<Process> {
        loop {
            while let Some(until) = self.rest_until.filter(|until| *until > Instant::now()) {
                if self.crew.desk.is_closing() {
                    return None;
                }
                self.place.bell.wait(Some(until));
            }
            match self.crew.desk.next_start(&self.place) {
                NextStart::Start => {
                    if let Some(process) = self.start() {
                        return Some(process);
                    }
                }
                NextStart::Wait => self.place.bell.wait(None),
                NextStart::Close => return None,
            }
        }
    }

    fn start(&mut self) -> Option<Process> {
        match Process::start(&self.crew.launch, &self.place.group) {
            Ok(process) => {
                self.crew.desk.started(&self.place, !self.has_started);
                self.has_started = true;
                self.crew.say(Level::Info, &format!("started {}", self.name(&process)));
                Some(process)
            }
            Err(failure) => {
                let (until, pause) = self.lie_down();
                self.crew.log.warn(&format!("{}; it is tried again in {pause:.1?}", failure.message));
                if failure.is_lasting {
                    for job in self.crew.desk.set_broken(&failure.message, until) {
                        job.call.finish(Err(Crew::broken(&failure.message, pause)));
                    }
                }
                None
            }
        }
    }

    /// Gives calls to a process until it has to go.
    fn feed(&mut self, process: &mut Process) -> Farewell {
        loop {
            // Whoever ended or spoke without a task must not get one.
            if let Some(fault) = self.look(process, Some(Instant::now())) {
                return Farewell::Fault(fault, None);
            }
            match self.crew.desk.next(&self.place) {
                Next::Work(job) => {
                    if let Some(farewell) = self.work(process, job) {
                        return farewell;
                    }
                }
                Next::Wait => {
                    if let Some(fault) = self.look(process, None) {
                        return Farewell::Fault(fault, None);
                    }
                }
                Next::Close => return Farewell::Close,
            }
        }
    }

    /// Watches a process that has no task, until the bell rings or the time has come.
    fn look(&self, process: &mut Process, until: Option<Instant>) -> Option<Fault> {
        loop {
            let ready = match process.wait(&self.place.bell, until) {
                Ok(ready) => ready,
                Err(error) => return Some(Fault::Lost(error.to_string())),
            };
            if ready.stderr {
                self.hear(process);
            }
            if ready.stdout {
                process.read_answers();
                if let Some(said) = more_said(process) {
                    return Some(Fault::SpokeUnasked(said));
                }
            }
            if ready.end {
                return Some(Fault::Ended);
            }
            if process.has_closed_stdout() {
                self.rest(None);
                let has_ended = self.wait_end(process, Some(Instant::now() + END_WAIT));
                return Some(if has_ended { Fault::Ended } else { Fault::ClosedStdout });
            }
            if ready.bell {
                self.place.bell.silence();
                return None;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
        }
    }

    /// Gives it one call. Why it has to go afterwards, if it has to.
    fn work(&mut self, process: &mut Process, job: Job) -> Option<Farewell> {
        let settings = &self.crew.settings;
        // The time begins now, and not when the call began to wait for a process. A request that says how long it
        // may take is watched by the service.
        job.call.begins();
        let timeout = settings.timeout.filter(|_| job.call.deadline().is_none());
        let pid = process.pid;
        let world = Surroundings {
            bell: &self.place.bell,
            orders: &|| self.crew.desk.orders(&self.place),
            log: &|line| self.crew.heard(pid, line),
            line_bytes_max: settings.line_bytes_max,
            until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        };
        let failure = match take_turn(process, &job.call, &world) {
            Turn::Answered(outcome) => {
                self.backoff.answered();
                self.crew.desk.answered(&self.place);
                let is_old = settings.tasks_per_process_max.is_some_and(|most| process.tasks >= most);
                job.call.finish(outcome);
                return is_old.then_some(Farewell::Retire);
            }
            Turn::Fault(fault) => return Some(Farewell::Fault(fault, Some(job))),
            Turn::Stopped => TaskFailure::new(ErrorCode::Cancelled, "the attempt is over"),
            Turn::TimedOut => {
                let (who, took) = (self.name(process), timeout.unwrap_or_default().as_millis());
                let message = format!("{who} took longer than {took} ms and was stopped");
                TaskFailure::new(ErrorCode::TimedOut, message)
            }
        };
        self.rest(None);
        self.crew.desk.count(|counts| counts.stops += 1);
        job.call.finish(Err(failure));
        Some(Farewell::Stop)
    }

    fn put_away(&mut self, mut process: Process, farewell: Farewell) {
        self.rest(None);
        let has_crashed = match farewell {
            Farewell::Fault(fault, job) => self.blame(&mut process, &fault, job),
            Farewell::Stop => {
                self.stop(&mut process);
                false
            }
            Farewell::Retire => {
                process.end_input();
                if !self.wait_end(&mut process, self.grace_ends()) {
                    self.stop(&mut process);
                }
                false
            }
            Farewell::Close => {
                process.end_input();
                // Whoever closes the handler loses patience for all of them.
                self.wait_end(&mut process, None);
                false
            }
        };
        let status = process.reap();
        self.hear_out(&mut process);
        self.crew.desk.process_ended(&self.place);
        if has_crashed {
            let (_, pause) = self.lie_down();
            self.crew.say(Level::Info, &format!("another is started in {pause:.1?} at the earliest"));
        } else if let Ok(status) = status {
            let did = ending(status, None, self.crew.launch.limits).did;
            self.crew.say(Level::Debug, &format!("{} {did}", self.name(&process)));
        }
    }

    /// Says what a process did wrong, to the log and to the task that it cost. Whether it was a crash.
    fn blame(&mut self, process: &mut Process, fault: &Fault, job: Option<Job>) -> bool {
        let has_worked = process.tasks > 0;
        let has_read_nothing = process.has_read_nothing();
        // Its status is known only after its end, and then costs no wait.
        let status = if *fault == Fault::Ended { process.reap().ok() } else { None };
        self.hear_out(process);
        let has_left = status.is_some_and(|status| status.success()) && has_worked;
        let is_closing = self.crew.desk.is_closing();
        let Some(job) = job else {
            if !has_left && !is_closing {
                self.crashed(&self.words(process, fault, status));
            }
            return !has_left && !is_closing;
        };
        // The end of a process that had done its work before, and has not looked at this task, is not the
        // task's fault. Once is enough, or a task could go round for ever.
        if status.is_some() && has_worked && has_read_nothing && !job.came_back {
            if !has_left {
                self.crashed(&self.words(process, fault, status));
            }
            self.crew.give_back(job);
            return !has_left;
        }
        let words = self.words(process, fault, status);
        let failure = if is_closing && status.is_some() {
            TaskFailure::new(ErrorCode::Draining, format!("the handler closed while the task ran: {words}"))
        } else {
            TaskFailure::new(fault.code(), words.clone())
        };
        self.crashed(&words);
        job.call.finish(Err(failure));
        true
    }

    fn crashed(&self, words: &str) {
        self.crew.desk.count(|counts| counts.crashes += 1);
        self.crew.say(Level::Warn, words);
    }

    fn words(&self, process: &Process, fault: &Fault, status: Option<ExitStatus>) -> String {
        let last_words = process.words.last();
        fault.words(&self.name(process), status, last_words.as_deref(), self.crew.launch.limits)
    }

    fn name(&self, process: &Process) -> String {
        fault::name(&self.crew.launch.label, process.pid)
    }

    /// Asks it to end and gives it some time. Whoever reaps it kills it.
    fn stop(&self, process: &mut Process) {
        process.cut_input();
        process.signal(Signal::TERM);
        if !self.wait_end(process, self.grace_ends()) {
            self.crew.say(Level::Info, &format!("{} did not end in time and is killed", self.name(process)));
        }
    }

    fn grace_ends(&self) -> Option<Instant> {
        Instant::now().checked_add(self.crew.settings.stop_grace)
    }

    /// Waits for its end, at most until then. Whether it has ended.
    fn wait_end(&self, process: &mut Process, until: Option<Instant>) -> bool {
        loop {
            let Ok(ready) = process.wait(&self.place.bell, until) else { return false };
            if ready.bell {
                self.place.bell.silence();
            }
            if ready.stdin {
                process.send();
            }
            if ready.stdout {
                process.skip_answers();
            }
            if ready.stderr {
                self.hear(process);
            }
            if ready.end {
                return true;
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return false;
            }
        }
    }

    fn hear(&self, process: &mut Process) -> bool {
        let pid = process.pid;
        process.hear(|line| self.crew.heard(pid, line))
    }

    /// Hears what it still had to say.
    fn hear_out(&self, process: &mut Process) {
        let _ = (0..READS_AT_END).take_while(|_| self.hear(process)).count();
        let pid = process.pid;
        process.words.end(Instant::now(), |line| self.crew.heard(pid, line));
    }

    /// After a crash: until when nothing is started here, and how long that is.
    fn lie_down(&mut self) -> (Instant, Duration) {
        let pause = self.backoff.crashed();
        let until = Instant::now() + pause;
        self.rest_until = Some(until);
        self.rest(Some(until));
        (until, pause)
    }

    /// Leaves the work to others.
    fn rest(&self, until: Option<Instant>) {
        if let Some(place) = self.crew.desk.rest(&self.place, until) {
            self.crew.staff(place);
        }
    }
}
