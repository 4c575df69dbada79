//! What can be done with dead letters: look at them, ask for the same again, let them go.
//!
//! Asking again makes a new task with an id of its own, which is given what the attempts of the old one left
//! (`checkpoint.rs`). The letter goes when the task is accepted and stays if it is not, so that nothing is lost by
//! trying. Many at once are taken oldest first, until one finds no room.
//!
//! Not here: how long letters are kept (`dead.rs`).

use crate::dead::{DeadFilter, DeadLetter, DeadPage};
use crate::door::DoorName;
use crate::error::{ErrorCode, TaskFailure};
use crate::outcome::Refused;
use crate::request::{Request, TaskId};
use crate::service::{ServiceHandle, Shared};
use crate::submit::{Accepted, Parts, Submit};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// What came of trying many letters again.
#[derive(Clone, Debug, Serialize)]
pub struct Revived {
    /// How many became tasks.
    pub retried: usize,
    /// Those that did not, each with why; no more than a few are told.
    pub refused: Vec<String>,
    /// How many fit and are left.
    pub left: usize,
}

/// How many refusals are told.
const REFUSALS_TOLD: usize = 10;

impl ServiceHandle {
    /// Whether tasks that fail for good are kept as dead letters.
    pub fn keeps_dead_letters(&self) -> bool {
        self.shared.dead.is_on()
    }

    /// Some of the dead letters, the latest first.
    pub fn dead_letters(&self, filter: &DeadFilter) -> DeadPage {
        self.shared.dead.page(filter, self.shared.now_ms())
    }

    /// The latest dead letter of a task.
    pub fn dead_letter(&self, id: &TaskId) -> Result<Arc<DeadLetter>, TaskFailure> {
        self.shared.dead.get(id).ok_or_else(|| no_letter(id))
    }

    /// Asks once more for what a dead letter asked for.
    pub fn retry_dead(&self, id: &TaskId, door: DoorName) -> Result<Accepted, Refused> {
        let refuse = |failure| Refused::new(failure, Some(id.clone()));
        let letter = self.dead_letter(id).map_err(refuse)?;
        self.revive(&letter, door)
    }

    /// Asks once more for all that fit.
    pub fn retry_dead_all(&self, filter: &DeadFilter, door: DoorName) -> Revived {
        let letters = self.shared.dead.find(filter, self.shared.now_ms(), usize::MAX);
        let mut revived = Revived { retried: 0, refused: Vec::new(), left: 0 };
        for (tried, letter) in letters.iter().enumerate() {
            match self.revive(letter, door) {
                Ok(_) => revived.retried += 1,
                Err(refused) => {
                    revived.left += 1;
                    let no_room = refused.retry_after.is_some();
                    if revived.refused.len() < REFUSALS_TOLD {
                        revived.refused.push(refused.to_string());
                    }
                    // The next one would find no room either.
                    if no_room {
                        revived.left += letters.len() - tried - 1;
                        break;
                    }
                }
            }
        }
        revived
    }

    /// Lets go of the latest dead letter of a task.
    pub fn purge_dead(&self, id: &TaskId) -> Result<(), TaskFailure> {
        let letter = self.dead_letter(id)?;
        if self.let_go(&letter) { Ok(()) } else { Err(no_letter(id)) }
    }

    /// Lets go of all that fit, and says how many.
    pub fn purge_dead_all(&self, filter: &DeadFilter) -> usize {
        let letters = self.shared.dead.find(filter, self.shared.now_ms(), usize::MAX);
        letters.iter().filter(|letter| self.let_go(letter)).count()
    }

    fn let_go(&self, letter: &DeadLetter) -> bool {
        let is_there = self.shared.dead.take(letter.number, false);
        if is_there {
            self.shared.letters_gone(&[letter.number]);
        }
        is_there
    }

    fn revive(&self, letter: &Arc<DeadLetter>, door: DoorName) -> Result<Accepted, Refused> {
        let shared = &self.shared;
        let refuse = |failure| Refused::new(failure, Some(letter.task_id.clone()));
        let timeout = letter.timeout_ms.map(Duration::from_millis);
        let request = Request {
            priority: letter.priority,
            timeout,
            retries: letter.retries,
            traceparent: letter.traceparent.clone(),
            ..Request::for_handler(&letter.handler, letter.args.clone())
        };
        let (handler, regions) = shared.resolve(&request).map_err(refuse)?;
        let how = Submit { door, ..Submit::default() };
        let mut parts = Parts::new(request, Arc::clone(handler), regions, how);
        parts.affinity = letter.affinity;
        parts.checkpoint = letter.checkpoint.clone().map(Into::into);
        if !shared.dead.take(letter.number, true) {
            return Err(refuse(no_letter(&letter.task_id)));
        }
        parts.undead = Some(letter.number);
        let accepted = shared.admit(parts, |_| {}).map_err(|failure| {
            shared.dead.put_back(DeadLetter::clone(letter));
            refuse(failure).with_patience(shared)
        })?;
        let (shared, letter) = (Arc::clone(shared), Arc::clone(letter));
        accepted.on_kept(move |kept| {
            if kept.is_err() {
                shared.dead.put_back(DeadLetter::clone(&letter));
            }
        });
        Ok(accepted)
    }
}

impl Shared {
    /// Keeps a letter; the oldest may have to go.
    pub(crate) fn keep_letter(&self, letter: DeadLetter) {
        let gone = self.dead.keep(letter);
        self.letters_gone(&gone);
    }

    /// Writes down that letters are gone.
    pub(crate) fn letters_gone(&self, numbers: &[u64]) {
        if let Some(ledger) = &self.ledger {
            ledger.undead(numbers);
        }
    }
}

fn no_letter(id: &TaskId) -> TaskFailure {
    let message = format!("no dead letter of task {id} is kept; it may have been tried again or let go");
    TaskFailure::new(ErrorCode::NotFound, message)
}
