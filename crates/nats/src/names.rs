//! What everything is called on the server: streams, subjects, consumers, buckets, and the key of a task.
//!
//! ```text
//!  queue "jobs"      stream MILL_jobs          subjects mill.jobs.high .normal .low .later, each with a consumer
//!                    stream MILL_jobs_DEAD     subject  mill.jobs.dead
//!                    bucket MILL_jobs_results  MILL_jobs_cancelled  MILL_jobs_daemons
//!                    plain subjects            mill.jobs.out.<key of a task>
//! ```
//!
//! Subjects are listed one by one and never with a wildcard: lanes that overlap would deliver a task twice. A queue
//! has no capitals, so that no queue is called like a part of another.
//!
//! Not here: how any of it is made (`layout.rs`).

use crate::error::NatsError;
use millpond_tasks::TaskId;
use std::fmt::{self, Write as _};

/// Where a task waits on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Before all others.
    High,
    /// The usual one.
    Normal,
    /// After all others.
    Low,
    /// Until its time comes.
    Later,
}

impl Lane {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::High, Self::Normal, Self::Low, Self::Later];

    /// The last part of its subject, and the name of its consumer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
            Self::Later => "later",
        }
    }

    /// The lane of a consumer.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.name() == name)
    }

    /// The lane of tasks that are so urgent and have nothing to wait for.
    pub fn of(priority: millpond::Priority) -> Self {
        match priority {
            millpond::Priority::High => Self::High,
            millpond::Priority::Normal => Self::Normal,
            millpond::Priority::Low => Self::Low,
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A queue, and what its parts are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    name: Box<str>,
}

impl Queue {
    /// A queue of this name: 1 to 64 of `a-z`, `0-9`, `_` and `-`.
    pub fn new(name: &str) -> Result<Self, NatsError> {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if (1..=64).contains(&name.len()) && name.bytes().all(is_letter) {
            return Ok(Self { name: name.into() });
        }
        Err(NatsError::Invalid(format!(
            "queue: expected 1 to 64 of a-z, 0-9, _ and -, got {name:?}; choose another name"
        )))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stream that holds its tasks.
    pub fn stream(&self) -> String {
        format!("MILL_{}", self.name)
    }

    /// The subject of a lane.
    pub fn subject(&self, lane: Lane) -> String {
        format!("mill.{}.{}", self.name, lane.name())
    }

    /// The stream that holds its dead letters.
    pub fn dead_stream(&self) -> String {
        format!("MILL_{}_DEAD", self.name)
    }

    /// The subject of its dead letters.
    pub fn dead_subject(&self) -> String {
        format!("mill.{}.dead", self.name)
    }

    /// The bucket of results, by the key of the task.
    pub fn results(&self) -> String {
        format!("MILL_{}_results", self.name)
    }

    /// The bucket of tasks that somebody cancelled, by their key.
    pub fn cancelled(&self) -> String {
        format!("MILL_{}_cancelled", self.name)
    }

    /// The bucket of daemons, by their name.
    pub fn daemons(&self) -> String {
        format!("MILL_{}_daemons", self.name)
    }

    /// Where a task that was asked to stream says what it says.
    pub fn chunks(&self, id: &TaskId) -> String {
        format!("mill.{}.out.{}", self.name, key_of(id))
    }

    /// What this daemon calls a task of the queue among all of its tasks.
    pub fn local_id(&self, id: &TaskId) -> TaskId {
        TaskId::Name(format!("{}/{id}", self.name).into())
    }
}

/// The subject of an entry of a bucket.
pub fn entry_subject(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// The stream that holds a bucket.
pub fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// A task as one token of a subject: a number as it is, a name as `s-` and its bytes, those that a token cannot have
/// as `=` and two digits. No two ids have the same key.
pub fn key_of(id: &TaskId) -> String {
    match id {
        TaskId::Number(number) => number.to_string(),
        TaskId::Assigned(number) => format!("s-t{number}"),
        TaskId::Name(name) => {
            let mut key = String::with_capacity(name.len() + 2);
            key.push_str("s-");
            push_token(name, &mut key);
            key
        }
    }
}

/// A name as a key of its own, for instance a daemon's.
pub fn key_of_name(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    push_token(name, &mut key);
    key
}

fn push_token(text: &str, key: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            key.push(char::from(byte));
        } else {
            let _ = write!(key, "={byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn a_key_is_a_token_that_buckets_take() {
        let id = TaskId::Name("a b.c*>=ü/-_9".into());
        assert_eq!(key_of(&id), "s-a=20b=2Ec=2A=3E=3D=C3=BC=2F-_9");
        assert_eq!(key_of(&TaskId::Number(17)), "17");
        assert_eq!(key_of(&TaskId::Name("17".into())), "s-17");
        assert_eq!(key_of(&TaskId::Assigned(17)), "s-t17");
    }

    #[test]
    fn no_two_ids_share_a_key() {
        let random = RandomState::new();
        let seed = random.hash_one(0);
        let letters: Vec<char> = "s-t=0123456789AFaf.*> ü_/".chars().collect();
        let mut keys = HashMap::new();
        for round in 0..20_000_u64 {
            let mut bits = random.hash_one((seed, round));
            let id = if bits & 7 == 0 {
                TaskId::Number(bits >> 50)
            } else {
                let name: String = (0..=(bits >> 3) & 3)
                    .map(|_| {
                        bits = bits.rotate_right(7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        letters[(bits >> 32) as usize % letters.len()]
                    })
                    .collect();
                TaskId::parse(&format!("{:?}", name)).unwrap_or(TaskId::Number(bits))
            };
            let key = key_of(&id);
            let is_token =
                |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'=';
            assert!(key.bytes().all(is_token), "seed {seed}: {key}");
            let other = keys.entry(key.clone()).or_insert_with(|| id.clone());
            assert_eq!(*other, id, "seed {seed}: both are {key}");
        }
    }

    #[test]
    fn local_ids_tell_numbers_from_names() {
        let queue = Queue::new("jobs").unwrap();
        assert_ne!(queue.local_id(&TaskId::Number(17)), queue.local_id(&TaskId::Name("17".into())));
    }

    #[test]
    fn a_queue_is_one_token_without_capitals() {
        for right in ["a", "main", "jobs-2_x", &"q".repeat(64)] {
            assert!(Queue::new(right).is_ok(), "{right}");
        }
        for wrong in ["", "a.b", "A", "a*", "a b", ">", "ä", &"q".repeat(65)] {
            let error = Queue::new(wrong).unwrap_err().to_string();
            assert!(error.contains("expected 1 to 64"), "{error}");
        }
    }
}
