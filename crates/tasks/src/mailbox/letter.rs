//! What is posted, who takes it, and who is answered.
//!
//! A letter ends in one of two ways: the intake takes it, or its sender is told why not. It is lent to the
//! intake and stays with the updater until it is taken, so a service that is full costs nobody a copy, and an
//! intake that panics loses no other letter.
//!
//! Not here: how a service takes letters (`service_intake.rs`).

use crate::error::{ErrorCode, TaskFailure};
use crate::outcome::{Outcome, Refused};
use crate::request::TaskId;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// One request, as text, with the way back to its sender.
pub struct Letter {
    /// The request.
    pub text: Vec<u8>,
    /// What the sender calls it.
    pub tag: u64,
    /// Who hears of it.
    pub reply: Arc<dyn Reply>,
}

/// Who sent a letter. It is told once what became of it, from any thread and without locks; it must be quick
/// and must not wait.
pub trait Reply: Send + Sync {
    /// The letter that was given `tag` became a task, and that has ended.
    fn ended(&self, tag: u64, id: &TaskId, outcome: &Outcome);

    /// The letter that was given `tag` did not become a task.
    fn refused(&self, tag: u64, refused: Refused);
}

/// Who takes letters out of the mailboxes.
pub trait Intake: Send + Sync {
    /// Takes a letter, or says when to offer it again. Must not wait: its updater serves other mailboxes too.
    /// It may be called for several mailboxes at once, but never twice for one. Whoever takes a letter tells
    /// its sender what becomes of it, also if that is a refusal. A letter on which this panics is not offered
    /// again; its sender is told.
    fn take(&self, mailbox: usize, letter: &Letter) -> Take;

    /// A mailbox that gave a letter back because it was full has room again. Must not wait.
    fn room(&self, mailbox: usize) {
        let _ = mailbox;
    }
}

/// What an intake says to a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The letter has been dealt with.
    Taken,
    /// Not now. It stays first in its mailbox and is offered again after so long, 1 ms to 1 s.
    TryLater(Duration),
}

/// Why a letter was not posted, with the letter.
pub enum PostError {
    /// The mailbox has as many letters or bytes as it may.
    Full(Letter),
    /// The letter alone is larger than the mailbox.
    TooLarge(Letter),
    /// No more letters are taken.
    Closed(Letter),
    /// There is no mailbox with this number.
    Unknown(Letter),
}

impl PostError {
    /// The letter that was not posted.
    pub fn into_letter(self) -> Letter {
        match self {
            Self::Full(letter) | Self::TooLarge(letter) | Self::Closed(letter) | Self::Unknown(letter) => {
                letter
            }
        }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "the mailbox is full; try again later",
            Self::TooLarge(_) => "the letter is larger than mailbox.bytes_max",
            Self::Closed(_) => "the mailboxes are closed",
            Self::Unknown(_) => "there is no mailbox with this number",
        })
    }
}

impl fmt::Debug for PostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PostError({self})")
    }
}

impl Error for PostError {}

impl fmt::Debug for Letter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Letter").field("tag", &self.tag).field("bytes", &self.text.len()).finish()
    }
}

impl Letter {
    /// Tells the sender that the mailboxes closed before anybody took the letter.
    pub(super) fn refuse_closed(self) {
        let message = "the mailboxes were closed before the request was taken; send it again later";
        self.refuse(TaskFailure::new(ErrorCode::Draining, message));
    }

    /// Tells the sender that the intake panicked, and with what.
    pub(super) fn refuse_panicked(self, panic: &(dyn Any + Send)) {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("the intake panicked on this request: {}", words.unwrap_or("no message"));
        self.refuse(TaskFailure::new(ErrorCode::Internal, message));
    }

    /// A sender that panics when it is told, or when it is let go, must not harm an updater. The two are
    /// apart, because a second panic while the first unwinds would end the process.
    fn refuse(self, failure: TaskFailure) {
        let refused = Refused { failure, id: None, retry_after: None };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.reply.refused(self.tag, refused))) {
            drop_panic(panic);
        }
        self.discard();
    }

    /// Lets go of a letter that has been dealt with. Does not unwind.
    pub(super) fn discard(self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(self))) {
            drop_panic(panic);
        }
    }
}

/// Drops what somebody panicked with. Does not unwind, even if that panics in turn.
pub(super) fn drop_panic(mut panic: Box<dyn Any + Send>) {
    for _ in 0..8 {
        match catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            Ok(()) => return,
            Err(next) => panic = next,
        }
    }
    mem::forget(panic);
}
