//! How a client hands in tasks: numbered, put on the table, and only then sent.
//!
//! A task is on the table before it is in the memory, because its reply may be read by another thread before the call
//! returns. A refusal takes it off again.

use super::link::{CANCELLED_UNSENT, Link, WELCOME_TIME_IN_PASSING, failed};
use super::{AttachError, ClientError, OnEnd, Shared};
use crate::channel::{BATCH, Message};
use crate::message::now_ns;
use millpond_tasks::ErrorCode;
use std::thread;
use std::time::{Duration, Instant};

/// How long somebody who waits for room sleeps at a time.
const ROOM_NAP: Duration = Duration::from_millis(1);
/// As above, if what is missing is somebody who takes replies.
const TAKER_NAP: Duration = Duration::from_micros(200);

impl Shared {
    /// Hands in one request. The callback stays with the caller if it is refused.
    pub(super) fn submit(
        &self,
        request: &[u8],
        is_streamed: bool,
        on_end: &mut Option<OnEnd>,
    ) -> Result<u64, ClientError> {
        let mut link = self.lock_link();
        self.need_daemon(&mut link)?;
        let number = link.next_number;
        {
            let mut table = self.lock_table();
            if table.len() >= self.settings.in_flight_max {
                return Err(ClientError::Full);
            }
            table.add(number, on_end.take(), is_streamed);
        }
        if let (_, Some(error)) = link.send(&[Link::request(number, request, is_streamed, now_ns())]) {
            *on_end = self.lock_table().withdraw(number);
            return Err(error.into());
        }
        link.next_number += 1;
        Ok(number)
    }

    /// Hands in as many calls as there is room for, one batch at most. Refuses if that is none.
    pub(super) fn call_some(
        &self,
        handler: u32,
        args: &[&[u8]],
        mut numbered: impl FnMut(u64),
    ) -> Result<usize, ClientError> {
        let mut link = self.lock_link();
        self.need_daemon(&mut link)?;
        let first = link.next_number;
        let count = {
            let mut table = self.lock_table();
            let room = self.settings.in_flight_max.saturating_sub(table.len());
            let count = args.len().min(BATCH).min(room);
            (first..).take(count).for_each(|number| table.add(number, None, false));
            count
        };
        if count == 0 {
            return if args.is_empty() { Ok(0) } else { Err(ClientError::Full) };
        }
        let now = now_ns();
        let mut messages = [Message::default(); BATCH];
        for ((message, args), number) in messages.iter_mut().zip(args).zip(first..).take(count) {
            *message = Link::call(number, handler, args, now);
        }
        let (sent, refusal) = link.send(&messages[..count]);
        if sent < count {
            let mut table = self.lock_table();
            (first..).take(count).skip(sent).for_each(|number| drop(table.withdraw(number)));
        }
        link.next_number += sent as u64;
        drop(link);
        (first..).take(sent).for_each(&mut numbered);
        match refusal {
            Some(error) if sent == 0 => Err(error.into()),
            _ => Ok(sent),
        }
    }

    /// Says that a task is no longer wanted.
    pub(super) fn cancel(&self, number: u64) -> Result<(), ClientError> {
        let mut link = self.lock_link();
        if link.cancel_unsent(number) {
            self.lock_table().end(failed(number, ErrorCode::Cancelled, CANCELLED_UNSENT));
            self.news.notify_all();
            return Ok(());
        }
        if !self.lock_table().is_pending(number) {
            return Err(ClientError::Unknown { number });
        }
        Ok(link.cancel(number)?)
    }

    /// Tries, and once more if it was refused because the daemon is gone: there may be another.
    pub(super) fn with_daemon<T>(
        &self,
        mut attempt: impl FnMut(&Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        match attempt(self) {
            Err(ClientError::Full | ClientError::Draining | ClientError::NoDaemon(_))
                if self.notice_death() =>
            {
                attempt(self)
            }
            answer => answer,
        }
    }

    /// Tries until there is room, at most so long.
    pub(super) fn with_patience<T>(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut(&Self) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut answer = self.with_daemon(&mut attempt);
        if timeout.is_zero() {
            return answer;
        }
        let until = Instant::now().checked_add(timeout);
        while matches!(answer, Err(ClientError::Full)) && until.is_none_or(|until| Instant::now() < until) {
            // The daemon may be held up by answers that nobody reads.
            self.look_around();
            if self.lock_table().len() >= self.settings.in_flight_max {
                thread::sleep(TAKER_NAP);
            } else {
                self.lock_link().wait_room(ROOM_NAP);
            }
            answer = self.with_daemon(&mut attempt);
        }
        answer
    }

    /// Looks for a daemon if there is none.
    pub(super) fn need_daemon(&self, link: &mut Link) -> Result<(), ClientError> {
        if link.is_wired() {
            return Ok(());
        }
        if !link.is_due() {
            return Err(ClientError::NoDaemon(format!("{}: it is gone", link.directory().display())));
        }
        self.connect(link, WELCOME_TIME_IN_PASSING).map_err(|error| ClientError::NoDaemon(error.to_string()))
    }

    /// Connects, whatever was there before.
    pub(super) fn connect(&self, link: &mut Link, patience: Duration) -> Result<(), AttachError> {
        let connected = link.connect(patience)?;
        self.set_way_in(connected);
        Ok(())
    }
}
