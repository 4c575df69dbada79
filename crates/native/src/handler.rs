//! A C function as a handler of a service.
//!
//! It runs on a worker to its end; nobody can stop it, it can only ask whether it should. Its answer is checked
//! to be JSON before anybody sees it. One that is quick may be run by whoever asks, with no worker in between.
//!
//! Not here: what the function sees and may call (`running.rs`).

use crate::c_task::NativeFunction;
use crate::running::{Run, run};
use millpond_tasks::config::LibrarySettings;
use millpond_tasks::{About, Call, Handler, TaskFailure};
use serde_json::value::RawValue;
use std::time::Duration;

/// A C function that a request may name.
#[derive(Clone, Debug)]
pub struct NativeHandler {
    function: NativeFunction,
    opcode: u32,
    is_quick: bool,
    timeout: Option<Duration>,
    about: About,
}

impl NativeHandler {
    /// A handler that calls `function` with one task at a time, by as many threads as there are workers.
    ///
    /// # Safety
    /// `function` is a C function as the header says: it keeps to the task it is given, does not use it once
    /// it has returned, what it leaves in `result` comes from `malloc`, and it does not throw. It stays
    /// loaded.
    pub unsafe fn new(function: NativeFunction) -> Self {
        Self { function, opcode: 0, is_quick: false, timeout: None, about: About::default() }
    }

    /// What the function is told as its opcode; 0 is none.
    #[must_use]
    pub fn with_opcode(self, opcode: u32) -> Self {
        Self { opcode, ..self }
    }

    /// The function takes microseconds, and whoever asks may run it. It has no stream then.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    /// What the configuration says about it.
    #[must_use]
    pub fn with_library(self, settings: &LibrarySettings) -> Self {
        let example = settings.example.clone().and_then(|json| RawValue::from_string(json).ok());
        let about = About { summary: settings.summary.clone().unwrap_or_default().into(), example };
        Self { timeout: settings.timeout, about, ..self }
    }

    fn run(&self, args: &RawValue, call: Option<&Call>) -> Result<Box<RawValue>, TaskFailure> {
        run(&Run { function: self.function, opcode: self.opcode, args, call })
    }
}

impl Handler for NativeHandler {
    fn start(&self, call: Call) {
        let outcome = self.run(call.args(), Some(&call));
        call.finish(outcome);
    }

    fn answer(&self, args: &RawValue, out: &mut Vec<u8>) -> Option<Result<(), TaskFailure>> {
        let answer = self.is_quick.then(|| self.run(args, None))?;
        Some(answer.map(|value| out.extend_from_slice(value.get().as_bytes())))
    }

    fn is_quick(&self) -> bool {
        self.is_quick
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn about(&self) -> About {
        self.about.clone()
    }
}
