//! What the daemon, the zygote and the worker processes say to each other, as bytes.
//!
//! All of them are one program, copied, so there are no versions and no strangers. There may be a handler that
//! wrote over its own memory, though: whatever comes from a worker process is read with care, and what cannot be
//! read costs that process its life.
//!
//! Not here: how the bytes travel (`channel.rs`, `parcel.rs`).

use super::parcel::PARCEL_BYTES;
use millpond_tasks::{Call, ErrorCode, Here, Level, Position, Request, TaskFailure, TaskId};
use serde_json::value::RawValue;

/// Kinds of messages in the channel.
pub(super) mod kind {
    /// To a process: run this.
    pub(crate) const TASK: u32 = 1;
    /// From a process: it is ready for tasks.
    pub(crate) const READY: u32 = 10;
    /// It cannot work, and says why.
    pub(crate) const FAILED: u32 = 11;
    /// A partial result of its task.
    pub(crate) const PARTIAL: u32 = 12;
    /// How much of its task is done.
    pub(crate) const PROGRESS: u32 = 13;
    /// A line of its task's log.
    pub(crate) const LOG: u32 = 14;
    /// A line of its own log.
    pub(crate) const SAID: u32 = 15;
    /// Its task has a result.
    pub(crate) const RESULT: u32 = 16;
    /// Its task has failed.
    pub(crate) const ERROR: u32 = 17;
    /// What its task leaves for the next attempt.
    pub(crate) const CHECKPOINT: u32 = 18;
}

/// A task on its way to a process.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) request: Request,
    pub(super) here: Here,
}

/// Appends what a process has to know of a call.
pub(super) fn write_call(call: &Call, out: &mut Vec<u8>) {
    let id = call.task_id().to_string();
    let checkpoint = call.last_checkpoint();
    let checkpoint = checkpoint.as_ref().map_or("", |value| value.get());
    let fields = [call.handler(), &id, call.traceparent().unwrap_or_default(), checkpoint, call.args().get()];
    out.extend_from_slice(&call.attempt().to_le_bytes());
    for field in &fields[..4] {
        // A name has 64 bytes at most, an id 128, a trace context 55, a checkpoint 16 MiB.
        out.extend_from_slice(&(field.len() as u32).to_le_bytes());
    }
    fields.iter().for_each(|field| out.extend_from_slice(field.as_bytes()));
}

/// Reads what [`write_call`] wrote; none if it is not that.
pub(super) fn read_errand(body: &[u8]) -> Option<Errand> {
    let (head, mut rest) = body.split_at_checked(20)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let mut text = |bytes: usize| {
        let (field, more) = rest.split_at_checked(bytes)?;
        rest = more;
        std::str::from_utf8(field).ok()
    };
    let (handler, id, trace, left) = (text(word(4))?, text(word(8))?, text(word(12))?, text(word(16))?);
    let checkpoint = if left.is_empty() { None } else { Some(json(left.as_bytes())?.into()) };
    let request = Request {
        id: Some(TaskId::parse(id)?),
        traceparent: (!trace.is_empty()).then(|| trace.into()),
        ..Request::for_handler(handler, json(rest)?)
    };
    Some(Errand { request, here: Here { attempt: word(0) as u32, checkpoint } })
}

/// Bytes that have to be JSON.
pub(super) fn json(bytes: &[u8]) -> Option<Box<RawValue>> {
    RawValue::from_string(std::str::from_utf8(bytes).ok()?.to_owned()).ok()
}

/// Appends a failure; its code travels in the word of the message.
pub(super) fn write_failure(failure: &TaskFailure, out: &mut Vec<u8>) {
    let (line, column) = failure.at.map_or((0, 0), |at| (at.line, at.column));
    out.extend_from_slice(&line.to_le_bytes());
    out.extend_from_slice(&column.to_le_bytes());
    out.extend_from_slice(failure.message.as_bytes());
}

/// Reads what [`write_failure`] wrote; none if it is not that.
pub(super) fn read_failure(word: u32, body: &[u8]) -> Option<TaskFailure> {
    let code = ErrorCode::from_number(word as i32)?;
    let (line, rest) = body.split_first_chunk()?;
    let (column, message) = rest.split_first_chunk()?;
    let at = Position { line: u64::from_le_bytes(*line), column: u64::from_le_bytes(*column) };
    let message = String::from_utf8(message.to_vec()).ok()?;
    Some(TaskFailure { code, message, at: (at.line > 0).then_some(at) })
}

/// A level as a word, and back; what is no level is as loud as can be.
pub(super) fn level_word(level: Level) -> u32 {
    Level::ALL.iter().position(|known| *known == level).unwrap_or(0) as u32
}

pub(super) fn read_level(word: u32) -> Level {
    Level::ALL.get(word as usize).copied().unwrap_or(Level::Error)
}

/// What the zygote tells the daemon of the process that was ordered under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It was started; its descriptor comes along.
    Started { pid: i32 },
    /// It could not be started.
    Refused { errno: i32 },
    /// It has ended and was taken away.
    Ended { status: i32, memory_max: u64 },
}

impl News {
    pub(super) fn to_bytes(self, order: u64) -> [u8; PARCEL_BYTES] {
        let (kind, number, memory) = match self {
            Self::Started { pid } => (1, pid, 0),
            Self::Refused { errno } => (2, errno, 0),
            Self::Ended { status, memory_max } => (3, status, memory_max),
        };
        let mut bytes = order_bytes(order);
        bytes[8..12].copy_from_slice(&i32::to_le_bytes(kind));
        bytes[12..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..24].copy_from_slice(&memory.to_le_bytes());
        bytes
    }

    /// The number of the order, and the news; none if it is none.
    pub(super) fn from_bytes(bytes: &[u8; PARCEL_BYTES]) -> Option<(u64, Self)> {
        let word = |at: usize| Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let number = word(12)?;
        let news = match word(8)? {
            1 => Self::Started { pid: number },
            2 => Self::Refused { errno: number },
            3 => {
                let memory_max = u64::from_le_bytes(bytes[16..24].try_into().ok()?);
                Self::Ended { status: number, memory_max }
            }
            _ => return None,
        };
        Some((read_order(bytes), news))
    }
}

/// A number in a parcel: which process is ordered, or which task is no longer wanted.
pub(super) fn order_bytes(order: u64) -> [u8; PARCEL_BYTES] {
    let mut bytes = [0; PARCEL_BYTES];
    bytes[..8].copy_from_slice(&order.to_le_bytes());
    bytes
}

pub(super) fn read_order(bytes: &[u8; PARCEL_BYTES]) -> u64 {
    let mut order = [0; 8];
    order.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_come_back_as_they_were_sent() {
        for news in [
            News::Started { pid: 17 },
            News::Refused { errno: 11 },
            News::Ended { status: 139, memory_max: 1 << 40 },
        ] {
            assert_eq!(News::from_bytes(&news.to_bytes(u64::MAX)), Some((u64::MAX, news)));
        }
        assert_eq!(News::from_bytes(&[0; PARCEL_BYTES]), None);
    }

    #[test]
    fn failures_come_back_as_they_were_sent_and_nothing_else_does() {
        let place = Position { line: 3, column: 9 };
        for at in [None, Some(place)] {
            let failure = TaskFailure { code: ErrorCode::BadArguments, message: "args: ü".to_owned(), at };
            let mut body = Vec::new();
            write_failure(&failure, &mut body);
            assert_eq!(read_failure(failure.code.number() as u32, &body), Some(failure));
            assert_eq!(read_failure(7, &body), None, "there is no error 7");
            assert_eq!(read_failure(-5_i32 as u32, &body[..15]), None);
        }
    }

    #[test]
    fn an_errand_that_was_cut_short_is_none() {
        let mut body = 2_u32.to_le_bytes().to_vec();
        for bytes in [4_u32, 2, 0, 3] {
            body.extend_from_slice(&bytes.to_le_bytes());
        }
        body.extend_from_slice(b"echo17[7]{\"n\": 1}");
        let errand = read_errand(&body).unwrap();
        assert_eq!((errand.here.attempt, errand.request.id), (2, Some(TaskId::Number(17))));
        assert_eq!(errand.here.checkpoint.unwrap().get(), "[7]");
        assert_eq!(errand.request.target, millpond_tasks::Target::Handler("echo".into()));
        assert_eq!(errand.request.args.get(), "{\"n\": 1}");
        assert!((0..body.len()).all(|end| read_errand(&body[..end]).is_none()));
    }
}
