//! How a service takes letters: each becomes a task, waits for room in its mailbox, or is refused.
//!
//! A service that is full is asked again soon, at most every few milliseconds for each mailbox. Its own
//! advice is for clients far away; here it costs a parse to ask, and a mailbox that waits too long leaves
//! workers idle.
//!
//! Not here: how a request becomes a task (`submit.rs`).

use super::letter::{Intake, Letter, Take};
use crate::door::DoorName;
use crate::error::ErrorCode;
use crate::service::ServiceHandle;
use crate::submit::Submit;
use std::sync::Arc;
use std::time::Duration;

/// The longest pause before a full service is asked again.
const ASK_AGAIN_MAX: Duration = Duration::from_millis(10);

impl Intake for ServiceHandle {
    fn take(&self, _mailbox: usize, letter: &Letter) -> Take {
        // The sender is told the outcome, so nobody else needs to keep it.
        let how = Submit { reader: None, keep: false, door: DoorName::Mailbox, earlier: None };
        match self.submit(&letter.text, how) {
            Ok(accepted) => {
                let (reply, tag) = (Arc::clone(&letter.reply), letter.tag);
                accepted.task.on_end(move |task, outcome| reply.ended(tag, task.id(), outcome));
                Take::Taken
            }
            Err(refused) if refused.failure.code == ErrorCode::QueueFull => {
                Take::TryLater(refused.retry_after.unwrap_or(ASK_AGAIN_MAX).min(ASK_AGAIN_MAX))
            }
            Err(refused) => {
                letter.reply.refused(letter.tag, refused);
                Take::Taken
            }
        }
    }
}
