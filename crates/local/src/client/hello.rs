//! The greeting: what a server says about itself before anything else.
//!
//! A server that has no place for another connection says ERROR instead, and closes; that message is what the
//! caller gets to see.
//!
//! Not here: the server's side of it.

use crate::frame::{Frame, Kind, PROTOCOL};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The payload of HELLO.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol: 1.
    pub protocol: u32,
    /// The version of millpond.
    pub version: String,
    /// The daemon's process.
    pub pid: u32,
    /// The largest payload it takes.
    pub frame_bytes_max: u64,
    /// How many exchanges may be under way on this connection before it stops reading for a while.
    pub in_flight_max: u64,
    /// How many workers the pool has.
    pub workers: u64,
}

/// What ERROR says, as far as a greeting needs it.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

pub(super) fn read(frame: Option<Frame<'_>>, path: &Path) -> io::Result<Hello> {
    let path = path.display();
    let frame = frame.ok_or_else(|| {
        let text = format!("{path}: the server took the connection and said nothing; is it stopped?");
        io::Error::new(ErrorKind::TimedOut, text)
    })?;
    let wrong = |got: String| {
        io::Error::new(
            ErrorKind::InvalidData,
            format!("{path}: expected HELLO of protocol {PROTOCOL}, got {got}"),
        )
    };
    match frame.kind {
        Kind::Hello => {
            let hello: Hello =
                serde_json::from_slice(frame.payload).map_err(|error| wrong(error.to_string()))?;
            if hello.protocol != PROTOCOL {
                return Err(wrong(format!("protocol {}; use programs of one release", hello.protocol)));
            }
            Ok(hello)
        }
        Kind::Error => {
            let refusal: Refusal =
                serde_json::from_slice(frame.payload).map_err(|error| wrong(error.to_string()))?;
            Err(io::Error::new(ErrorKind::ConnectionRefused, format!("{path}: {}", refusal.message)))
        }
        other => Err(wrong(other.to_string())),
    }
}
