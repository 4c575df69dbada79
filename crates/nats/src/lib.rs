//! The NATS door: daemons on several machines work on one queue of a JetStream server.
//!
//! The server keeps tasks and gives each to one daemon at a time; that daemon renews the lease while it has the task,
//! puts the result into a bucket, and acknowledges. A daemon that dies, hangs or is cut off loses the lease, another
//! one runs the task again, and a compare-and-set on the result sees to it that the late one changes nothing.
//!
//! To follow one task: `pulls.rs` asks for messages, `intake.rs` decides what becomes of one, `queued.rs` has those
//! that wait for a slot, `holding.rs` is one that is here, `ending.rs` decides what follows from an end, `writing.rs`
//! carries it out. `engine.rs` is the loop that calls them all and renews the leases, `door.rs` the thread it runs
//! in, `watchdog.rs` sees that it turns, `leftovers.rs` finds tasks that a restarted server forgot. `client.rs` is
//! the other side: programs that submit, wait, cancel and look.
//!
//! Below: `names.rs` what things are called, `layout.rs` what must be on the server, `message.rs` what messages say,
//! `record.rs` what results say and who may replace them, `api.rs` questions to the server, `connect.rs` the
//! connection.
//!
//! Not here: the server; it is not started, configured or synced by anything of ours.

mod api;
mod cancelled;
mod chunks;
mod client;
mod connect;
mod door;
mod ending;
mod engine;
mod error;
mod figures;
mod holding;
mod intake;
mod layout;
mod leftovers;
mod link;
mod message;
mod names;
mod presence;
mod pulls;
mod queued;
mod record;
mod shared;
mod slots;
mod watchdog;
mod writing;

pub use api::{Entry, consumer_info, get_entry, publish, put_entry, stream_info, time_ms};
pub use client::{
    BucketStatus, Cancelled, Heard, LaneStatus, Letter, LetterFilter, NatsClient, QueueStatus, Retried,
    Submission, Wants,
};
pub use connect::connect;
pub use door::{Closed, NatsDoor};
pub use error::NatsError;
pub use layout::{look, open as open_layout};
pub use message::{Heading, Place, given_id, lane_of, results_name};
pub use names::{Lane, Queue, bucket_stream, entry_subject, key_of, key_of_name};
pub use presence::Presence;
pub use record::{Follows, Record, RecordState};

/// Names of headers.
pub mod header {
    pub use crate::message::{
        EXPECTED_LAST, FAILURES, MESSAGE_ID, ORIGIN, REASON, RESULT, RUN_AT, SINCE, STREAM, TASK,
    };
}

/// The example in the README, run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
