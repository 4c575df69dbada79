//! A Rust function that answers at once: for work that takes microseconds, on the thread that asks.
//!
//! The same function also serves tasks: whoever wants an id, a delay or retries gets an ordinary task, whose
//! attempt is one run of it.
//!
//! Not here: who may be answered on the spot, and how that is counted (`quick.rs` of the service).

use super::{Handler, panicked};
use crate::call::Call;
use crate::error::{ErrorCode, TaskFailure};
use serde_json::value::RawValue;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A Rust function as a quick handler. It appends its result, which must be JSON, to what it is given, and
/// neither waits nor streams. A panic costs this task alone.
///
/// ```
/// use millpond_tasks::{Registry, quick};
///
/// let mut registry = Registry::new();
/// registry.add("size", quick(|args, out| {
///     out.extend_from_slice(args.get().len().to_string().as_bytes());
///     Ok(())
/// }))?;
/// # Ok::<(), millpond_tasks::RegistryError>(())
/// ```
pub fn quick<F>(work: F) -> Quick<F>
where
    F: Fn(&RawValue, &mut Vec<u8>) -> Result<(), TaskFailure> + Send + Sync + 'static,
{
    Quick(work)
}

/// What [`quick`] makes.
#[derive(Debug)]
pub struct Quick<F>(F);

impl<F> Handler for Quick<F>
where
    F: Fn(&RawValue, &mut Vec<u8>) -> Result<(), TaskFailure> + Send + Sync + 'static,
{
    fn start(&self, call: Call) {
        let mut out = Vec::new();
        // The function only borrows the call, so whatever it left half done is its own.
        let answered = catch_unwind(AssertUnwindSafe(|| (self.0)(call.args(), &mut out)));
        let answered = answered.unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
        call.finish(answered.and_then(|()| json(out)));
    }

    fn answer(&self, args: &RawValue, out: &mut Vec<u8>) -> Option<Result<(), TaskFailure>> {
        Some((self.0)(args, out))
    }

    fn is_quick(&self) -> bool {
        true
    }
}

fn json(bytes: Vec<u8>) -> Result<Box<RawValue>, TaskFailure> {
    let wrong = |error: &dyn std::fmt::Display| {
        let message = format!("expected JSON from the handler, got something else: {error}");
        TaskFailure::new(ErrorCode::HandlerCrashed, message)
    };
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    RawValue::from_string(text).map_err(|error| wrong(&error))
}
