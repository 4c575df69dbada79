//! What a request names: code that takes calls, one for each attempt of a task.
//!
//! A handler begins its work on a worker of the pool. Short work is done there. Whoever waits long, for a
//! process or a clock, moves the call elsewhere and returns, so that no worker waits; the task ends when the
//! call is finished.
//!
//! Not here: who may call it and when (`service.rs`), what it is given (`call.rs`).

pub mod builtin;
pub mod command;

mod quick;

pub use quick::{Quick, quick};

use crate::call::Call;
use crate::error::{ErrorCode, TaskFailure};
use crate::request::TaskId;
use crate::symbols::RegionUse;
use serde_json::value::RawValue;
use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What a handler says of itself to people who look for one.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// What it does, in a sentence; empty if it does not say.
    pub summary: Cow<'static, str>,
    /// Arguments to try it with: a JSON object.
    pub example: Option<Box<RawValue>>,
}

/// Code that a request names.
pub trait Handler: Send + Sync + 'static {
    /// Takes one call. Runs on a worker.
    fn start(&self, call: Call);

    /// Answers at once, on the thread that asks: appends the JSON of the result to `out`. Neither waits nor
    /// streams, and takes microseconds. None if the handler is not quick, and the call must be
    /// [started](Self::start).
    fn answer(&self, args: &RawValue, out: &mut Vec<u8>) -> Option<Result<(), TaskFailure>> {
        let _ = (args, out);
        None
    }

    /// Whether it [answers](Self::answer) at once. Asked when it is registered.
    fn is_quick(&self) -> bool {
        false
    }

    /// Regions of memory that the arguments name. They are looked up before the task is queued, and
    /// [`Call::regions`] has them in this order.
    fn regions(&self, args: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        let _ = args;
        Ok(Vec::new())
    }

    /// How long an attempt may take if the request does not say.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether the time of an attempt begins only with [`Call::begins`]: a handler that lets calls wait for
    /// something of its own says yes, so that this wait is not taken from the time they may run.
    fn begins_late(&self) -> bool {
        false
    }

    /// What the call of this task waits for inside the handler, in words: `it waits for …`. None if it runs,
    /// or is not here.
    fn why_waiting(&self, task: &TaskId) -> Option<String> {
        let _ = task;
        None
    }

    /// No more calls will come. Ends what is kept alive, at the latest when `within` is over.
    fn close(&self, within: Duration) {
        let _ = within;
    }

    /// What it does, and arguments to try it with.
    fn about(&self) -> About {
        About::default()
    }

    /// What is worth knowing about it now, as a JSON object.
    fn stats(&self) -> Option<serde_json::Value> {
        None
    }
}

/// A Rust function as a handler. It runs to its end on the worker; a panic costs this task alone.
///
/// ```
/// use millpond_tasks::{Registry, function};
/// use serde_json::value::to_raw_value;
///
/// let mut registry = Registry::new();
/// registry.add("shout", function(|call| {
///     let args: std::collections::HashMap<String, String> = call.read_args()?;
///     let text = args.get("text").map(|text| text.to_uppercase());
///     Ok(to_raw_value(&text).expect("a string is JSON"))
/// }))?;
/// # Ok::<(), millpond_tasks::RegistryError>(())
/// ```
pub fn function<F>(work: F) -> Function<F>
where
    F: Fn(&Call) -> Result<Box<RawValue>, TaskFailure> + Send + Sync + 'static,
{
    Function(work)
}

/// What [`function`] makes.
#[derive(Debug)]
pub struct Function<F>(F);

impl<F> Handler for Function<F>
where
    F: Fn(&Call) -> Result<Box<RawValue>, TaskFailure> + Send + Sync + 'static,
{
    fn start(&self, call: Call) {
        // The function only borrows the call, so whatever it left half done is its own.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.0)(&call)));
        call.finish(outcome.unwrap_or_else(|payload| Err(panicked(payload.as_ref()))));
    }
}

pub(crate) fn panicked(payload: &(dyn Any + Send)) -> TaskFailure {
    let words = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    TaskFailure::new(ErrorCode::HandlerCrashed, format!("the handler panicked: {words}"))
}
