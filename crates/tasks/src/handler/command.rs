//! Command handlers: any program, kept alive and fed one line of JSON for each task.
//!
//! A program that reads lines and writes lines is a handler, in whatever language. It is started when its
//! first task comes and then kept, so a task costs two lines through pipes and not a new process. What it
//! does wrong costs exactly the task it had: a crash, a hang, a line of a gigabyte, an answer that is none.
//! The process is killed and replaced, and the task is told what happened.
//!
//! ```text
//!   start(call) ──► desk: calls in order ──► keeper: one thread for each process ──► stdin
//!                     (desk.rs)                (keeper.rs)     (turn.rs) ◄────────── stdout, stderr
//! ```
//!
//! No worker waits for a process: `start` only hands the call in. Not here: retries and what becomes of a
//! result (`attempt.rs`).

mod answers;
mod backoff;
mod bell;
mod crew;
mod desk;
mod ending;
mod fault;
mod keeper;
mod last_words;
mod launch;
mod limits;
mod line_buffer;
mod process;
mod task_line;
mod turn;

use super::{About, Handler};
use crate::call::Call;
use crate::config::HandlerSettings;
use crate::log::Log;
use crate::request::TaskId;
use crate::why::span;
use crew::Crew;
use desk::Taken;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A handler for the program that `settings` name. Nothing is started before the first call.
pub fn command(name: &str, settings: HandlerSettings, log: Log) -> Command {
    Command { crew: Arc::new(Crew::new(name, settings, log)) }
}

/// What [`command`] makes. When it is dropped its processes are killed; [`close`](Handler::close) is politer.
pub struct Command {
    crew: Arc<Crew>,
}

impl Handler for Command {
    fn start(&self, call: Call) {
        let number = self.crew.desk.next_number();
        // The call is kept by the crew, and must not keep the crew in turn.
        let crew = Arc::downgrade(&self.crew);
        call.on_stop(move |_cause| {
            if let Some(crew) = crew.upgrade() {
                crew.desk.stop(number);
            }
        });
        match self.crew.desk.hand_in(call, number) {
            Taken::Queued => {}
            Taken::Keep(place) => self.crew.staff(place),
            Taken::Refused(call, why) => call.finish(Err(self.crew.refusal(why))),
        }
    }

    // `timeout` says nothing: that of the settings is kept by the process's own thread, which can say more.

    fn begins_late(&self) -> bool {
        true
    }

    fn why_waiting(&self, task: &TaskId) -> Option<String> {
        let before = self.crew.desk.waiting_before(task)?;
        let desk = self.crew.desk.stats();
        let (label, places) = (&self.crew.launch.label, self.crew.settings.concurrency);
        let mut reason = format!("it waits for a process of {label}: {} of {places} are busy", desk.busy);
        if let Some(rest) = desk.rest {
            let rest = span(rest);
            reason.push_str(&format!(", {} rest after a crash, the first for {rest}", desk.resting));
        }
        reason.push_str(&format!("; {before} came before it and wait too"));
        Some(reason)
    }

    fn close(&self, within: Duration) {
        self.crew.close(within);
    }

    fn about(&self) -> About {
        let settings = &self.crew.settings;
        // The configuration lets nothing through but an object; a program that makes its own settings may
        // err.
        let example = settings.example.clone().and_then(|json| RawValue::from_string(json).ok());
        About { summary: settings.summary.clone().unwrap_or_default().into(), example }
    }

    fn stats(&self) -> Option<serde_json::Value> {
        let desk = self.crew.desk.stats();
        Some(serde_json::json!({
            "command": self.crew.launch.label,
            "concurrency": self.crew.settings.concurrency,
            "processes": desk.processes,
            "busy": desk.busy,
            "waiting": desk.waiting,
            "answered": desk.counts.answered,
            "starts": desk.counts.starts,
            "restarts": desk.counts.restarts,
            "crashes": desk.counts.crashes,
            "stops": desk.counts.stops,
            "resting": desk.resting,
            "rest_ms": desk.rest.map(|rest| rest.as_millis() as u64),
            "broken": desk.broken,
        }))
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        self.crew.close(Duration::ZERO);
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let desk = self.crew.desk.stats();
        formatter.debug_struct("Command").field("name", &self.crew.name).field("desk", &desk).finish()
    }
}
