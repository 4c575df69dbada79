//! Dead letters of a queue: find them, send them again, let them go.
//!
//! The server knows them by their place only, so they are read from the latest backwards, many at once, until
//! enough are found. A letter that is sent again is removed once the server has the new message; a crash between
//! the two leaves both, and the id of the message keeps a second try within the window from being a second task.
//!
//! Not here: what a letter says (`letters.rs`), how it came to be one (`ending.rs`).

use super::letters::Letter;
use super::{AwaitOn, NatsClient, now_ms};
use crate::api::{publish, stream_info};
use crate::error::NatsError;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use millpond_tasks::TaskId;
use std::time::Duration;

/// How many letters are asked for at once.
const AT_ONCE: u64 = 128;

/// Which letters are meant.
#[derive(Clone, Debug, Default)]
pub struct LetterFilter {
    /// Those of this handler.
    pub handler: Option<String>,
    /// Those that died so long ago.
    pub older_than: Option<Duration>,
    /// That of this task; the latest, if there are several.
    pub id: Option<TaskId>,
}

impl LetterFilter {
    /// The letter of one task.
    pub fn of(id: &TaskId) -> Self {
        Self { id: Some(id.clone()), ..Self::default() }
    }

    fn is_everything(&self) -> bool {
        self.handler.is_none() && self.older_than.is_none() && self.id.is_none()
    }

    fn takes(&self, letter: &Letter, now_ms: u64) -> bool {
        let age_ms = u128::from(now_ms.saturating_sub(letter.died_at_ms));
        self.handler.as_ref().is_none_or(|handler| *handler == letter.handler)
            && self.older_than.is_none_or(|time| time.as_millis() <= age_ms)
            && self.id.as_ref().is_none_or(|id| *id == letter.task_id)
    }
}

/// What became of sending letters again.
#[derive(Clone, Debug, Default)]
pub struct Retried {
    /// Those that were sent.
    pub retried: Vec<TaskId>,
    /// How many the server did not take, so that they stay.
    pub left: u64,
    /// Why, of the first of those.
    pub refused: Option<String>,
}

impl NatsClient {
    /// Letters that the filter takes, the latest first; and how many there are in all.
    pub fn dead(&self, filter: &LetterFilter, max: usize) -> Result<(Vec<Letter>, u64), NatsError> {
        self.find(filter, max).map_err(|error| self.with_complaint(error))
    }

    /// Sends letters again, as tasks with all their attempts before them.
    pub fn dead_retry(&self, filter: &LetterFilter, max: usize) -> Result<Retried, NatsError> {
        let (letters, _) = self.dead(filter, max)?;
        let mut done = Retried::default();
        for letter in letters {
            let (subject, headers, payload) = letter.again(&self.queue, now_ms());
            match publish(&self.connection.client, &subject, headers, payload).await_on(self) {
                Ok(_) => {
                    self.forget(&letter)?;
                    done.retried.push(letter.task_id);
                }
                Err(error) => {
                    done.left += 1;
                    done.refused.get_or_insert_with(|| self.with_complaint(error).to_string());
                }
            }
        }
        Ok(done)
    }

    /// Lets letters go; says how many.
    pub fn dead_purge(&self, filter: &LetterFilter) -> Result<u64, NatsError> {
        let name = self.queue.dead_stream();
        if filter.is_everything() {
            let purged = self.block_on(async {
                let stream = self
                    .connection
                    .jetstream
                    .get_stream_no_info(&name)
                    .await
                    .map_err(|error| error.to_string())?;
                stream.purge().await.map_err(|error| error.to_string())
            });
            return purged.map(|purged| purged.purged).map_err(|error| self.failed(&name, &error));
        }
        let (letters, _) = self.dead(filter, usize::MAX)?;
        for letter in &letters {
            self.forget(letter)?;
        }
        Ok(letters.len() as u64)
    }

    fn forget(&self, letter: &Letter) -> Result<(), NatsError> {
        let name = self.queue.dead_stream();
        let stream = self.dead_stream(&name)?;
        let removed = self.block_on(stream.delete_message(letter.sequence));
        removed.map(|_| ()).map_err(|error| self.failed(&name, &error))
    }

    fn dead_stream(&self, name: &str) -> Result<Stream<()>, NatsError> {
        let stream = self.block_on(self.connection.jetstream.get_stream_no_info(name));
        stream.map_err(|error| self.failed(name, &error))
    }

    fn find(&self, filter: &LetterFilter, max: usize) -> Result<(Vec<Letter>, u64), NatsError> {
        let name = self.queue.dead_stream();
        let info = match stream_info(&self.connection.client, &name).await_on(self) {
            Err(NatsError::Missing(_)) => return Ok((Vec::new(), 0)),
            other => other?,
        };
        let number = |field: &str| info["state"][field].as_u64().unwrap_or_default();
        let (first, mut end, kept) = (number("first_seq").max(1), number("last_seq") + 1, number("messages"));
        let (stream, now) = (self.dead_stream(&name)?, now_ms());
        let (mut found, mut seen) = (Vec::new(), 0);
        while end > first && found.len() < max && seen < kept {
            let begin = end.saturating_sub(AT_ONCE).max(first);
            for letter in self.read_letters(&stream, begin, end)?.into_iter().rev() {
                seen += 1;
                if filter.takes(&letter, now) && found.len() < max {
                    found.push(letter);
                }
            }
            end = begin;
            // One task, one letter: the latest.
            if filter.id.is_some() && !found.is_empty() {
                break;
            }
        }
        Ok((found, kept))
    }

    /// The letters with these places, without those that are gone.
    fn read_letters(&self, stream: &Stream<()>, begin: u64, end: u64) -> Result<Vec<Letter>, NatsError> {
        let asked = (begin..end).map(|sequence| async move {
            match stream.get_raw_message(sequence).await {
                Ok(message) => {
                    let died_at_ms = message.time.unix_timestamp_nanos() / 1_000_000;
                    let died_at_ms = u64::try_from(died_at_ms).unwrap_or_default();
                    Ok(Some(Letter::read(sequence, &message.headers, message.payload, died_at_ms)))
                }
                Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        });
        let answers = self.block_on(futures_util::future::join_all(asked));
        let letters: Result<Vec<_>, String> = answers.into_iter().collect();
        let letters = letters.map_err(|error| self.failed("dead letters cannot be read", &error))?;
        Ok(letters.into_iter().flatten().collect())
    }
}
