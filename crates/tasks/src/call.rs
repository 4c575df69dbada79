//! One attempt of one task, in the hands of its handler: what is asked, and where the answer goes.
//!
//! A call belongs to one attempt. Once that is over (the task was cancelled, its time ran out, a later
//! attempt has begun) whatever the call says is ignored, so a handler that notices late does no harm.
//! A call that is dropped without an answer ends its task as crashed: no task waits for ever for a handler
//! that forgot it.
//!
//! Not here: whether there will be another attempt (`attempt.rs`).

use crate::error::{ErrorCode, TaskFailure};
use crate::request::TaskId;
use crate::stream::Said;
use crate::symbols::Region;
use crate::task::Task;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// The longest line of a log that is kept, in bytes.
const LOG_LINE_BYTES_MAX: usize = 4096;

/// Why a handler should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody cancelled the task.
    Cancelled,
    /// The time allowed is over.
    TimedOut,
    /// The daemon stops and waits no longer.
    ShuttingDown,
}

/// What a handler is told when it says something that nobody wants any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The attempt is over: cancelled, timed out or followed by another.
    Over,
    /// A partial result was larger than `stream.chunk_bytes_max` and is not in the stream.
    TooLarge(TaskFailure),
}

impl From<Stopped> for TaskFailure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Over => Self::new(ErrorCode::Cancelled, "the attempt is over"),
            Stopped::TooLarge(failure) => failure,
        }
    }
}

/// One attempt of one task.
pub struct Call {
    task: Arc<Task>,
    attempt: u32,
    /// Its own handles: good as long as the call is, even if the task has ended meanwhile.
    regions: Option<Arc<[Region]>>,
    /// Whether it was answered.
    is_finished: bool,
}

impl Call {
    pub(crate) fn new(task: Arc<Task>, attempt: u32, regions: Option<Arc<[Region]>>) -> Self {
        Self { task, attempt, regions, is_finished: false }
    }

    pub(crate) fn parts(&self) -> (&Arc<Task>, u32) {
        (&self.task, self.attempt)
    }

    /// The task's id.
    pub fn task_id(&self) -> &TaskId {
        self.task.id()
    }

    /// The name under which the handler was called.
    pub fn handler(&self) -> &str {
        self.task.handler()
    }

    /// The arguments: a JSON object on one line, in which no name comes twice.
    pub fn args(&self) -> &RawValue {
        self.task.args()
    }

    /// The arguments as what the handler wants them to be.
    pub fn read_args<T: DeserializeOwned>(&self) -> Result<T, TaskFailure> {
        serde_json::from_str(self.args().get()).map_err(|error| {
            let text = error.to_string();
            // The place in the arguments says little to somebody who wrote the whole request.
            let words = text.split(" at line ").next().unwrap_or(&text);
            TaskFailure::new(ErrorCode::BadArguments, format!("args: {words}"))
        })
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When this attempt must be done.
    pub fn deadline(&self) -> Option<Instant> {
        self.task.lock().deadline
    }

    /// The W3C trace context that the handler continues: that of the task itself if it is traced, else the
    /// one it came with.
    pub fn traceparent(&self) -> Option<&str> {
        self.task.own_traceparent().or(self.task.traceparent())
    }

    /// The regions of memory that [`Handler::regions`](crate::Handler::regions) named, in its order.
    pub fn regions(&self) -> &[Region] {
        self.regions.as_deref().unwrap_or_default()
    }

    /// The time of this attempt begins now. For handlers that [begin late](crate::Handler::begins_late).
    pub fn begins(&self) {
        self.task.attempt_begins(self.attempt);
    }

    /// Whether the answer is still wanted: false until the task is cancelled, its time is over, or a later
    /// attempt has begun.
    pub fn is_cancelled(&self) -> bool {
        !self.task.is_live(self.attempt)
    }

    /// Has `act` called when the answer is no longer wanted; at once if that is so already. It is called at
    /// most once, and not after [`finish`](Self::finish). A later `act` replaces an earlier one. It may be
    /// called from any thread and must not wait.
    pub fn on_stop(&self, act: impl FnOnce(StopCause) + Send + 'static) {
        let mut state = self.task.lock();
        if self.task.is_live(self.attempt) {
            let earlier = state.on_stop.replace(Box::new(act));
            drop(state);
            drop(earlier);
        } else {
            let cause = state.stop_cause;
            drop(state);
            act(cause);
        }
    }

    /// Adds a partial result to the stream. Waits while the stream is full and somebody may still read it.
    pub fn partial(&self, value: Box<RawValue>) -> Result<(), Stopped> {
        let bytes_max = self.task.shared.config.stream.chunk_bytes_max;
        if value.get().len() > bytes_max {
            let message = format!(
                "expected a partial result of at most {bytes_max} bytes, got {}; send less at a time or raise \
                 stream.chunk_bytes_max",
                value.get().len()
            );
            return Err(Stopped::TooLarge(TaskFailure::new(ErrorCode::TooLarge, message)));
        }
        self.task.say_partial(self.attempt, &Said::Partial(value.into()))
    }

    /// Says how much is done, from 0 to 1. Never waits; the latest counts.
    pub fn progress(&self, fraction: f64) {
        if fraction.is_finite() {
            self.task.say_in_passing(self.attempt, &Said::Progress(fraction.clamp(0.0, 1.0)));
        }
    }

    /// Adds a line to the task's log. Never waits; a full stream loses it.
    pub fn log(&self, line: &str) {
        let mut end = line.len().min(LOG_LINE_BYTES_MAX);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        self.task.say_in_passing(self.attempt, &Said::Log(line[..end].into()));
    }

    /// Ends the attempt. If it is no longer wanted, nothing happens.
    pub fn finish(mut self, outcome: Result<Box<RawValue>, TaskFailure>) {
        self.is_finished = true;
        self.regions = None;
        self.task.attempt_ended(self.attempt, outcome);
    }

    /// Ends the attempt with its own arguments as the result.
    pub fn finish_with_args(mut self) {
        self.is_finished = true;
        self.regions = None;
        self.task.attempt_ended(self.attempt, Ok(self.task.args().to_owned()));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_finished {
            let message = if std::thread::panicking() {
                "the handler panicked"
            } else {
                "the handler left without an answer"
            };
            self.task.attempt_ended(self.attempt, Err(TaskFailure::new(ErrorCode::HandlerCrashed, message)));
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Call")
            .field("task_id", self.task_id())
            .field("handler", &self.handler())
            .field("attempt", &self.attempt)
            .finish()
    }
}
