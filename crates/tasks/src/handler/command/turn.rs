//! One task with one process: the line goes in, words come out, until there is an answer or a reason for
//! none.
//!
//! Writing and listening go on side by side, so a process that speaks before it has read everything cannot
//! stand still, and one that does not read holds up nobody but itself. A partial result that finds no room
//! waits, and with it the reading of this process: its pipe fills, and it waits too. That is the
//! back-pressure.
//!
//! Not here: where tasks come from and what becomes of the process afterwards (`keeper.rs`).

use super::answers::{Answer, is_blank, parse};
use super::bell::Bell;
use super::fault::Fault;
use super::line_buffer::{Filled, LineTooLong};
use super::process::Process;
use super::task_line::TaskLine;
use crate::call::{Call, Stopped};
use crate::error::TaskFailure;
use crate::nearest::shown;
use serde_json::value::RawValue;
use std::time::{Duration, Instant};

/// How long a process that closed its stdout may take to end, so that its status can be told.
pub(super) const END_WAIT: Duration = Duration::from_millis(500);
/// How often a pipe is read after its writer has ended or answered. Somebody else may hold it open and write
/// for ever; what a pipe can hold at all (1 MiB unless an administrator allows more) is read whole.
pub(super) const READS_AT_END: usize = 16;

/// What a turn needs to know about the world.
pub(super) struct Surroundings<'a> {
    pub(super) bell: &'a Bell,
    /// What other threads want, asked for whenever the bell rings.
    pub(super) orders: &'a dyn Fn() -> Orders,
    /// Takes each line of stderr.
    pub(super) log: &'a dyn Fn(&str),
    pub(super) line_bytes_max: usize,
    /// When the time of this task is over.
    pub(super) until: Option<Instant>,
}

impl Surroundings<'_> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }
}

/// What other threads want of a process that works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// Its task is no longer wanted.
    pub(super) stop: bool,
    /// It gets no more tasks.
    pub(super) end_input: bool,
}

/// How a turn ended.
pub(super) enum Turn {
    /// With an answer; the process is ready for more.
    Answered(Result<Box<RawValue>, TaskFailure>),
    /// Nobody wants the answer any more.
    Stopped,
    /// The time was over.
    TimedOut,
    /// The process is of no more use.
    Fault(Fault),
}

/// Gives `call` to `process` and listens.
pub(super) fn take_turn(process: &mut Process, call: &Call, world: &Surroundings<'_>) -> Turn {
    // What a process says before its first task is about its start, and may be why that task fails.
    if process.tasks > 0 {
        process.words.forget();
    }
    process.ask(task_line(call, world.until));
    let turn = converse(process, call, world);
    // What it said on stderr before that lies in its pipe by now, and belongs to this task.
    for _ in 0..READS_AT_END {
        if !hear(process, call, world) {
            break;
        }
    }
    turn
}

fn converse(process: &mut Process, call: &Call, world: &Surroundings<'_>) -> Turn {
    let mut closed_until = None;
    loop {
        let until = [world.until, closed_until].into_iter().flatten().min();
        let ready = match process.wait(world.bell, until) {
            Ok(ready) => ready,
            Err(error) => return Turn::Fault(Fault::Lost(error.to_string())),
        };
        if ready.bell {
            world.bell.silence();
            let orders = (world.orders)();
            if orders.stop {
                return Turn::Stopped;
            }
            if orders.end_input {
                process.end_input();
            }
        }
        if ready.stderr {
            hear(process, call, world);
        }
        if ready.stdin {
            process.send();
        }
        if ready.stdout || ready.end {
            if let Some(turn) = listen(process, call, world, ready.end) {
                return turn;
            }
            if ready.end {
                return Turn::Fault(Fault::Ended);
            }
            if process.has_closed_stdout() && closed_until.is_none() {
                closed_until = Some(Instant::now() + END_WAIT);
            }
        }
        if closed_until.is_some_and(|until| until <= Instant::now()) {
            return Turn::Fault(Fault::ClosedStdout);
        }
        if world.is_over() {
            return Turn::TimedOut;
        }
    }
}

/// Reads once, or at the end all there is, and does what the lines say.
fn listen(process: &mut Process, call: &Call, world: &Surroundings<'_>, at_end: bool) -> Option<Turn> {
    for _ in 0..if at_end { READS_AT_END } else { 1 } {
        if process.read_answers() != Filled::Some {
            break;
        }
        if let Some(turn) = act(process, call, world) {
            return Some(turn);
        }
    }
    None
}

/// Does what the lines that have been read say.
fn act(process: &mut Process, call: &Call, world: &Surroundings<'_>) -> Option<Turn> {
    while let Some(line) = process.answers.next_line() {
        let line = match line {
            Ok(line) if is_blank(line) => continue,
            Ok(line) => line,
            Err(LineTooLong) => return Some(Turn::Fault(Fault::LineTooLong(world.line_bytes_max))),
        };
        let answer = match parse(line, call.task_id()) {
            Ok(answer) => answer,
            Err(why) => return Some(Turn::Fault(Fault::Meaningless(why))),
        };
        let outcome = match answer {
            // Each of many may have to wait for its reader, and the time goes on meanwhile.
            Answer::Partial(_) if world.is_over() => return Some(Turn::TimedOut),
            Answer::Partial(value) => match call.partial(value.to_owned()) {
                Ok(()) => continue,
                Err(Stopped::Over) => return Some(Turn::Stopped),
                Err(Stopped::TooLarge(failure)) => {
                    return Some(Turn::Fault(Fault::PartialTooLarge(failure.message)));
                }
            },
            Answer::Checkpoint(value) => match call.checkpoint(value.to_owned()) {
                Ok(()) => continue,
                Err(Stopped::Over) => return Some(Turn::Stopped),
                Err(Stopped::TooLarge(failure)) => {
                    return Some(Turn::Fault(Fault::PartialTooLarge(failure.message)));
                }
            },
            Answer::Progress(fraction) => {
                call.progress(fraction);
                continue;
            }
            Answer::Log(text) => {
                call.log(&text);
                continue;
            }
            Answer::Result(value) => Ok(value.to_owned()),
            Answer::Error(failure) => Err(failure),
        };
        return Some(answered(process, outcome));
    }
    None
}

fn answered(process: &mut Process, outcome: Result<Box<RawValue>, TaskFailure>) -> Turn {
    if let Some(said) = more_said(process) {
        return Turn::Fault(Fault::WentOn(said));
    }
    if !process.has_read_its_task() {
        return Turn::Fault(Fault::AnsweredUnread);
    }
    process.tasks += 1;
    Turn::Answered(outcome)
}

/// What a process has said that nobody asked for.
pub(super) fn more_said(process: &mut Process) -> Option<String> {
    let show = |said: &[u8]| shown(String::from_utf8_lossy(&said[..said.len().min(1024)]).trim());
    while let Some(line) = process.answers.next_line() {
        match line {
            Ok(line) if is_blank(line) => {}
            Ok(line) => return Some(show(line)),
            Err(LineTooLong) => return Some("a line that is too long".to_owned()),
        }
    }
    let rest = process.answers.rest();
    (!is_blank(rest)).then(|| show(rest))
}

fn hear(process: &mut Process, call: &Call, world: &Surroundings<'_>) -> bool {
    process.hear(|line| {
        (world.log)(line);
        call.log(line);
    })
}

fn task_line(call: &Call, until: Option<Instant>) -> Vec<u8> {
    let until = [until, call.deadline()].into_iter().flatten().min();
    let checkpoint = call.last_checkpoint();
    let line = TaskLine {
        task_id: call.task_id(),
        handler: call.handler(),
        attempt: call.attempt(),
        args: call.args(),
        timeout: until.map(|until| until.saturating_duration_since(Instant::now())),
        traceparent: call.traceparent(),
        checkpoint: checkpoint.as_deref(),
    };
    line.to_bytes()
}
