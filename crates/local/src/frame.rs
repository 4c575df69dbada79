//! The frames of the control socket: 16 bytes that say what comes, then the payload. Both sides use this
//! file.
//!
//! ```text
//!  0        4      5       6        8                16
//!  ├────────┼──────┼───────┼────────┼────────────────┼───────────
//!  │ bytes  │ kind │ flags │ zero   │ tag            │ payload …
//!  │ u32    │ u8   │ u8    │ u16    │ u64            │ UTF-8 JSON
//! ```
//!
//! All numbers are little endian; `bytes` counts the payload alone. The length comes first, so that a frame
//! nobody understands can be stepped over. [`Cutter`] takes bytes as they come and hands out whole frames
//! without copying them; it stores no byte of a payload that is over the limit, and grows only with what
//! came.
//!
//! Not here: what the payloads say (`docs/PROTOCOL.md`), and which kinds may come from which side.

mod cutter;

pub use cutter::{Cut, Cutter};

use std::fmt;

/// What stands before every payload.
pub const HEADER_BYTES: usize = 16;
/// The version of the protocol that HELLO names.
pub const PROTOCOL: u32 = 1;

/// Makes the enum, its numbers and its names out of one list.
macro_rules! kinds {
    ($($variant:ident = $number:literal, $name:literal, $sentence:literal;)*) => {
        /// What a frame is about. Below 64 a client says it, from 64 on a server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $sentence] $variant = $number,)*
        }

        impl Kind {
            /// Every kind, clients' first.
            pub const ALL: &[Kind] = &[$(Kind::$variant,)*];

            /// The kind with this number, if there is one.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in `docs/PROTOCOL.md`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

kinds! {
    Submit = 1, "SUBMIT", "A request for a task.";
    Get = 2, "GET", "What is known about a task, now or when it has ended, or as it comes.";
    Cancel = 3, "CANCEL", "End a task.";
    List = 4, "LIST", "Which tasks there are.";
    Stats = 5, "STATS", "Numbers about the daemon.";
    Ping = 6, "PING", "Are you there?";
    Forget = 7, "FORGET", "No more answers for an earlier tag.";
    Take = 8, "TAKE", "The outcome of a task that has ended, which is then no longer kept.";
    Ask = 9, "ASK", "What operators ask beside tasks: dead letters, schedules.";
    Hello = 65, "HELLO", "The server's first words.";
    Accepted = 66, "ACCEPTED", "The task is queued and has this id.";
    Event = 67, "EVENT", "One event of a task's stream.";
    Result = 68, "RESULT", "What became of a task; the last frame of its tag.";
    Error = 69, "ERROR", "Why there is no answer; the last frame of its tag.";
    Status = 70, "STATUS", "How a task is doing.";
    Tasks = 71, "TASKS", "The tasks that were asked for.";
    Numbers = 72, "STATS", "The numbers that were asked for.";
    Pong = 73, "PONG", "What the PING said.";
    Ok = 74, "OK", "It is done.";
    Told = 75, "TOLD", "What was asked by ASK.";
}

impl Kind {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether a client says it.
    pub const fn is_from_client(self) -> bool {
        self.number() < 64
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// What a client wants beyond the kind. Flags are added with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Answer with the outcome when the task has ended.
    pub const RESULT: Self = Self(1);
    /// Answer with events as they come, and then with the outcome.
    pub const STREAM: Self = Self(2);
    /// Keep the outcome although it was sent.
    pub const KEEP: Self = Self(4);
    /// Say ACCEPTED as well.
    pub const ACK: Self = Self(8);

    /// From the number on the wire, whatever it is.
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether every flag of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is a flag that `others` has not.
    pub const fn exceeds(self, others: Self) -> bool {
        self.0 & !others.0 != 0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The 16 bytes before a payload, as they came: a kind nobody knows is still a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How long the payload is.
    pub payload_bytes: u32,
    /// The number of the kind.
    pub kind: u8,
    /// What is wanted beyond the kind.
    pub flags: Flags,
    /// Zero, until a later version has a use for it.
    pub reserved: u16,
    /// The client's name for this exchange.
    pub tag: u64,
}

impl Header {
    /// Reads the bytes of the wire. Any 16 bytes are a header.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, d, kind, flags, e, f, tag @ ..] = *bytes;
        Self {
            payload_bytes: u32::from_le_bytes([a, b, c, d]),
            kind,
            flags: Flags::from_number(flags),
            reserved: u16::from_le_bytes([e, f]),
            tag: u64::from_le_bytes(tag),
        }
    }

    /// The bytes of the wire.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags.number();
        bytes[6..8].copy_from_slice(&self.reserved.to_le_bytes());
        bytes[8..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }
}

/// One whole frame, borrowed from the buffer it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is about.
    pub kind: Kind,
    /// What is wanted beyond the kind.
    pub flags: Flags,
    /// The client's name for this exchange.
    pub tag: u64,
    /// JSON, if the sender keeps to the protocol.
    pub payload: &'a [u8],
}

/// Puts one frame at the end of `out`; `write` says the payload. The length is filled in afterwards, so that
/// nothing is copied twice.
pub fn append(out: &mut Vec<u8>, kind: Kind, flags: Flags, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    let header = Header { payload_bytes: 0, kind: kind.number(), flags, reserved: 0, tag };
    out.extend_from_slice(&header.to_bytes());
    write(out);
    let payload_bytes = u32::try_from(out.len() - start - HEADER_BYTES)
        .expect("requests and results are limited far below 4 GiB");
    out[start..start + 4].copy_from_slice(&payload_bytes.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was_sent() {
        let header = Header {
            payload_bytes: 0x0102_0304,
            kind: 99,
            flags: Flags::RESULT | Flags::ACK,
            reserved: 0xABCD,
            tag: 0x1122_3344_5566_7788,
        };
        let bytes = header.to_bytes();
        assert_eq!(
            bytes,
            [4, 3, 2, 1, 99, 9, 0xCD, 0xAB, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
            "the layout of docs/PROTOCOL.md"
        );
        assert_eq!(Header::from_bytes(&bytes), header);
    }

    #[test]
    fn kinds_have_one_number_each_and_know_their_side() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind.number()), Some(*kind));
        }
        let known = (0..=u8::MAX).filter(|number| Kind::from_number(*number).is_some()).count();
        assert_eq!(known, Kind::ALL.len());
        assert!(Kind::Forget.is_from_client() && !Kind::Hello.is_from_client());
    }

    #[test]
    fn flags_that_are_not_allowed_are_seen() {
        let allowed = Flags::RESULT | Flags::STREAM;
        assert!(!Flags::STREAM.exceeds(allowed) && !Flags::NONE.exceeds(allowed));
        assert!((Flags::STREAM | Flags::KEEP).exceeds(allowed));
        assert!(Flags::from_number(0x80).exceeds(allowed));
    }
}
