//! One mailbox: its letters, in order, and which updater it belongs to.
//!
//! A mailbox that has letters is *listed*: it stands on its owner's desk or is in its owner's hand. Whoever
//! posts to one that is not listed lists it, under the lock of the mailbox. An owner changes under the same
//! lock, so no mailbox is ever listed on a desk whose owner no longer has it. That, and not a timer, is why
//! no letter is forgotten.
//!
//! Letters in an updater's hand count as being here until they are taken: the bounds are exact.
//!
//! Not here: the desks (`desk.rs`), and who owns what (`domains.rs`).

use super::desk::Desk;
use super::letter::{Letter, PostError};
use super::{MailboxSettings, updater::Hand};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One mailbox.
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Told when letters have left, while somebody in `State::waiting` listens.
    left: Condvar,
}

struct State {
    letters: VecDeque<Letter>,
    /// Letters here and in the owner's hand.
    len: usize,
    /// The bytes of those.
    bytes: usize,
    /// On the owner's desk or in its hand.
    listed: bool,
    /// The owner's desk.
    desk: Arc<Desk>,
    closed: bool,
    /// Threads that wait for `left`.
    waiting: usize,
    /// A letter was given back, and nobody was told since that there is room.
    gave_back: bool,
}

/// How a mailbox stands after its owner served it.
pub(super) struct Served {
    /// There are letters, and the owner must list it again.
    pub(super) more: bool,
    /// Somebody should be told that there is room.
    pub(super) tell_room: bool,
}

impl Inbox {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        let state = State {
            letters: VecDeque::new(),
            len: 0,
            bytes: 0,
            listed: false,
            desk,
            closed: false,
            waiting: 0,
            gave_back: false,
        };
        Self { state: Mutex::new(state), left: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a letter. Waits for room until `deadline`, if there is one.
    pub(super) fn post(
        &self,
        own_index: usize,
        letter: Letter,
        settings: &MailboxSettings,
        deadline: Option<Instant>,
    ) -> Result<(), PostError> {
        let bytes = letter.text.len();
        if bytes > settings.bytes_max {
            return Err(PostError::TooLarge(letter));
        }
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(PostError::Closed(letter));
            }
            if state.len < settings.lines_max && state.bytes + bytes <= settings.bytes_max {
                break;
            }
            if deadline.is_none_or(|deadline| deadline <= Instant::now()) {
                state.gave_back = true;
                return Err(PostError::Full(letter));
            }
            state = self.wait(state, deadline);
        }
        state.letters.push_back(letter);
        state.len += 1;
        state.bytes += bytes;
        if !state.listed {
            state.listed = true;
            state.desk.list(own_index);
        }
        Ok(())
    }

    /// Moves up to `most` letters into its owner's hand.
    pub(super) fn take(&self, most: usize, hand: &mut VecDeque<Letter>) {
        let mut state = self.lock();
        let count = state.letters.len().min(most);
        hand.extend(state.letters.drain(..count));
    }

    /// Its owner is done with it for now and puts back what it did not get rid of.
    pub(super) fn served(&self, hand: &mut Hand) -> Served {
        let mut state = self.lock();
        while let Some(letter) = hand.letters.pop_back() {
            state.letters.push_front(letter);
        }
        state.len -= hand.gone;
        state.bytes -= hand.gone_bytes;
        let tell_room = hand.gone > 0 && std::mem::take(&mut state.gave_back);
        if hand.gone > 0 && state.waiting > 0 {
            self.left.notify_all();
        }
        (hand.gone, hand.gone_bytes) = (0, 0);
        state.listed = !state.letters.is_empty();
        Served { more: state.listed, tell_room }
    }

    /// From now on `desk` is told of letters.
    pub(super) fn give_to(&self, desk: &Arc<Desk>) {
        self.lock().desk = Arc::clone(desk);
    }

    /// Letters that wait, with those in the owner's hand.
    pub(super) fn len(&self) -> usize {
        self.lock().len
    }

    /// Takes no more letters. Whoever waits for room gets theirs back.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.left.notify_all();
    }

    /// Waits until it is empty, so long at most.
    pub(super) fn wait_empty(&self, deadline: Option<Instant>) {
        let mut state = self.lock();
        while state.len > 0 && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            state = self.wait(state, deadline);
        }
    }

    /// Takes out all that is not in somebody's hand, when nobody serves it any more.
    pub(super) fn take_rest(&self) -> VecDeque<Letter> {
        let mut state = self.lock();
        let rest = std::mem::take(&mut state.letters);
        state.len -= rest.len();
        state.bytes -= rest.iter().map(|letter| letter.text.len()).sum::<usize>();
        rest
    }

    /// Waits for letters to leave; may return before.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let mut state = match deadline {
            None => self.left.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let patience = deadline.saturating_duration_since(Instant::now());
                self.left.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.waiting -= 1;
        state
    }
}
