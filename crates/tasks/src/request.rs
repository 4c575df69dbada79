//! A request: the JSON object that asks for a task, read within limits and refused with a place and a reason.
//!
//! The order matters. Size, nesting and string lengths are checked on the bytes, so that hostile input costs
//! no memory; then comes the syntax; then what each field says. `args` stays text: only the handler knows its
//! shape. Every refusal names the task if an id can be found at all, because somebody may be waiting for that
//! id.
//!
//! Not here: whether the handler exists, and what its arguments mean; results and their form.

mod fields;
mod limits;
mod lines;
mod only_args;
mod plain;
mod problem;
mod scan;
mod task_id;
mod tokens;
mod values;

pub use limits::{Limits, LimitsError};
pub use lines::{Line, Lines};
pub use only_args::read_args;
pub use problem::RequestError;
pub use task_id::{TASK_ID_BYTES_MAX, TaskId};

use crate::error::ErrorCode;
use fields::{Field, Fields};
use millpond::Priority;
use problem::Problem;
use serde_json::value::RawValue;
use std::num::NonZeroU32;
use std::str;
use std::time::Duration;
use task_id::json_string;
use tokens::is_space;
use values::Value;

/// The most bytes of `affinity`.
pub const AFFINITY_BYTES_MAX: usize = 256;
/// The most bytes of `idempotency_key`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;
/// The most bytes of `unique_key`.
pub const UNIQUE_KEY_BYTES_MAX: usize = 256;

/// What somebody asks for.
///
/// ```
/// use millpond_tasks::{Limits, Request, Target};
///
/// let limits = Limits::default();
/// let request = Request::parse(br#"{"handler": "echo", "task_id": 17, "args": {"text": "hi"}}"#, &limits)?;
/// assert_eq!(request.target, Target::Handler("echo".into()));
/// assert_eq!(request.args.get(), r#"{"text": "hi"}"#);
///
/// let error = Request::parse(br#"{"handler": "echo", "task_id": 17, "retries": "3"}"#, &limits).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "task 17: retries: expected a whole number from 0 to 100, got the string \"3\" (line 1, column 47)"
/// );
/// # Ok::<(), millpond_tasks::RequestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// `task_id`: what the client calls the task. Without one, whoever takes the request chooses.
    pub id: Option<TaskId>,
    /// `opcode` or `handler`: who is to do it.
    pub target: Target,
    /// `args`: an object, as it was written, on one line; `{}` if there was none. No name in it comes twice.
    pub args: Box<RawValue>,
    /// `priority`: a word, or a number in thirds: 0 to 84 is low, 85 to 170 normal, 171 to 255 high.
    pub priority: Priority,
    /// `affinity`: tasks with the same key go to the same worker.
    pub affinity: Option<Box<str>>,
    /// `timeout_ms`: how long it may run.
    pub timeout: Option<Duration>,
    /// `delay_ms`: how long it must wait first.
    pub delay: Duration,
    /// `run_at`: the moment it must wait for, in Unix time in milliseconds. Not beside a delay.
    pub run_at_ms: Option<u64>,
    /// `expires_ms`: by when it must have begun, counted from its acceptance.
    pub expires: Option<Duration>,
    /// `retries`: how many more attempts a failure allows.
    pub retries: u32,
    /// `idempotency_key`: a second request with the same key is the same request.
    pub idempotency_key: Option<Box<str>>,
    /// `unique_key`: while a task with this key has not ended, a second request gets that task.
    pub unique_key: Option<Box<str>>,
    /// `traceparent`: the W3C trace context that the task continues.
    pub traceparent: Option<Box<str>>,
}

/// Who is to do a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// By number, as the configuration assigns them. 0 is no opcode.
    Opcode(NonZeroU32),
    /// By name: 1 to 64 characters out of `a-z`, `0-9`, `_`, `.` and `-`.
    Handler(Box<str>),
}

impl Request {
    /// Reads one request. `limits` should have passed [`Limits::check`].
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, RequestError> {
        if text.len() as u64 > limits.request_bytes_max {
            return Err(Problem::too_long(text, limits.request_bytes_max));
        }
        Self::read(text, limits).map_err(|problem| problem.in_text(text))
    }

    fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Problem> {
        let fields = match Fields::read_plain(bytes, limits) {
            Some(fields) => fields,
            None => {
                scan::check(bytes, 0, limits)?;
                Fields::read(checked_text(bytes, "a JSON object")?)?
            }
        };
        let number =
            |field, min, max| fields.get(field).map(|value| value.whole_number(min, max)).transpose();
        let label = |field, max| fields.get(field).map(|value| value.label(max)).transpose();
        let milliseconds = |field, min, max| Ok(number(field, min, max)?.map(Duration::from_millis));
        let retries = number(Field::Retries, 0, limits.retries_max.min(u32::MAX.into()))?.unwrap_or(0);
        let delay = milliseconds(Field::DelayMs, 0, limits.delay_ms_max)?;
        let run_at_ms = fields.get(Field::RunAt).map(|value| run_at(&value, delay)).transpose()?;
        let expires = milliseconds(Field::ExpiresMs, 1, limits.expires_ms_max)?;
        Ok(Self {
            id: fields.get(Field::TaskId).map(|value| value.task_id()).transpose()?,
            target: target(&fields)?,
            args: args(&fields, limits)?,
            priority: fields
                .get(Field::Priority)
                .map(|value| value.priority())
                .transpose()?
                .unwrap_or_default(),
            affinity: label(Field::Affinity, AFFINITY_BYTES_MAX)?,
            timeout: milliseconds(Field::TimeoutMs, 1, limits.timeout_ms_max)?,
            delay: delay.unwrap_or_default(),
            run_at_ms,
            expires,
            retries: u32::try_from(retries).expect("the bound above is that of u32"),
            idempotency_key: label(Field::IdempotencyKey, IDEMPOTENCY_KEY_BYTES_MAX)?,
            unique_key: label(Field::UniqueKey, UNIQUE_KEY_BYTES_MAX)?,
            traceparent: fields.get(Field::Traceparent).map(|value| value.traceparent()).transpose()?,
        })
    }

    /// Asks this handler, with these arguments and nothing else. Whoever knows the handler by its number has no
    /// request to read.
    pub fn for_handler(name: &str, args: Box<RawValue>) -> Self {
        Self {
            id: None,
            target: Target::Handler(name.into()),
            args,
            priority: Priority::default(),
            affinity: None,
            timeout: None,
            delay: Duration::ZERO,
            run_at_ms: None,
            expires: None,
            retries: 0,
            idempotency_key: None,
            unique_key: None,
            traceparent: None,
        }
    }

    /// The request as one line of JSON, without what goes without saying. Reading it again gives the same
    /// request.
    pub fn to_json(&self) -> String {
        let mut json = Fragments::default();
        json.push("task_id", self.id.as_ref().map(TaskId::to_string));
        match &self.target {
            Target::Opcode(opcode) => json.push("opcode", Some(opcode.to_string())),
            Target::Handler(name) => json.push("handler", Some(json_string(name))),
        }
        json.push("args", (self.args.get() != "{}").then(|| self.args.get().to_owned()));
        let priority = match self.priority {
            Priority::High => Some("\"high\""),
            Priority::Normal => None,
            Priority::Low => Some("\"low\""),
        };
        json.push("priority", priority.map(str::to_owned));
        json.push("affinity", self.affinity.as_deref().map(json_string));
        json.push("timeout_ms", self.timeout.map(|timeout| timeout.as_millis().to_string()));
        json.push("delay_ms", (!self.delay.is_zero()).then(|| self.delay.as_millis().to_string()));
        json.push("run_at", self.run_at_ms.map(|at| at.to_string()));
        json.push("expires_ms", self.expires.map(|time| time.as_millis().to_string()));
        json.push("retries", (self.retries > 0).then(|| self.retries.to_string()));
        json.push("idempotency_key", self.idempotency_key.as_deref().map(json_string));
        json.push("unique_key", self.unique_key.as_deref().map(json_string));
        json.push("traceparent", self.traceparent.as_deref().map(json_string));
        format!("{{{}}}", json.0.join(","))
    }
}

/// The entries of an object that is being printed.
#[derive(Default)]
struct Fragments(Vec<String>);

impl Fragments {
    fn push(&mut self, name: &str, json: Option<String>) {
        self.0.extend(json.map(|json| format!("\"{name}\":{json}")));
    }
}

/// The bytes as text that begins with an object.
fn checked_text<'a>(bytes: &'a [u8], expected: &str) -> Result<&'a str, Problem> {
    if bytes.starts_with("\u{FEFF}".as_bytes()) {
        let message = format!("expected {expected}, got a byte order mark; send UTF-8 without one");
        return Err(Problem::invalid(0, message));
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        Problem::invalid(offset, format!("expected UTF-8, got the byte 0x{:02x}", bytes[offset]))
    })?;
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    match bytes.get(start) {
        Some(b'{') => Ok(text),
        Some(b'}' | b']' | b',' | b':') => {
            Err(Problem::invalid(start, format!("expected {expected}, got '{}'", char::from(bytes[start]))))
        }
        Some(_) => {
            let json = text[start..].trim_end_matches([' ', '\t', '\n', '\r']);
            Err(Value { json, offset: start }.unexpected(expected))
        }
        None => Err(Problem::invalid(start, format!("expected {expected}, got nothing"))),
    }
}

/// When a task is to run, which is said only once.
fn run_at(value: &Value<'_>, delay: Option<Duration>) -> Result<u64, Problem> {
    if delay.is_some() {
        return Err(Problem::invalid(value.offset, "expected either delay_ms or run_at, got both"));
    }
    value.moment()
}

fn target(fields: &Fields<'_>) -> Result<Target, Problem> {
    match (fields.get(Field::Opcode), fields.get(Field::Handler)) {
        (Some(opcode), None) => {
            let number = opcode.whole_number(1, u32::MAX.into())?;
            let number = u32::try_from(number).ok().and_then(NonZeroU32::new);
            Ok(Target::Opcode(number.expect("the bounds above are those of a u32 that is not zero")))
        }
        (None, Some(handler)) => Ok(Target::Handler(handler.handler_name()?)),
        (given, _) => {
            let start = fields.text().find('{').unwrap_or(0);
            let got = if given.is_some() { "both" } else { "neither" };
            Err(Problem::invalid(start, format!("expected either opcode or handler, got {got}")))
        }
    }
}

fn args(fields: &Fields<'_>, limits: &Limits) -> Result<Box<RawValue>, Problem> {
    let one_line = |json| RawValue::from_string(json).expect("the syntax of the arguments was checked");
    let Some(value) = fields.get(Field::Args) else {
        return Ok(one_line("{}".to_owned()));
    };
    let bytes = value.json.len() as u64;
    if !value.json.starts_with('{') {
        return Err(value.unexpected("an object"));
    }
    if bytes > limits.args_bytes_max {
        let message = format!("expected at most {} bytes, got {bytes}", limits.args_bytes_max);
        return Err(Problem::new(ErrorCode::TooLarge, value.offset, message));
    }
    fields.look_through(&value)?;
    // In JSON a line break is never part of a string. Without them a task is one line, whoever it is handed
    // to.
    match memchr::memchr2(b'\n', b'\r', value.json.as_bytes()) {
        Some(_) => Ok(one_line(value.json.replace(['\n', '\r'], " "))),
        None => Ok(match fields.parsed_args() {
            Some(raw) => raw.to_owned(),
            None => one_line(value.json.to_owned()),
        }),
    }
}
