//! Waiting for a task without holding a thread: a bell that the task rings, a time, and the drain.
//!
//! The bell may ring before anybody waits, even before the submission returns; it is then heard at once.

use crate::door::Door;
use millpond_tasks::{Reader, Task, Wants, Watch};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Rings when a task has news.
#[derive(Debug, Default)]
pub(super) struct Bell(Notify);

impl Watch for Bell {
    fn told(&self, _tag: u64, _task: &Arc<Task>) {
        self.0.notify_one();
    }
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// There is news.
    Rang,
    /// The time is over.
    Late,
    /// The daemon goes.
    Drains,
}

impl Bell {
    /// Who rings it.
    pub(super) fn reader(self: &Arc<Self>, wants: Wants) -> Reader {
        Reader { who: Arc::clone(self) as Arc<dyn Watch>, tag: 0, wants }
    }

    /// Rings it.
    pub(super) fn ring(&self) {
        self.0.notify_one();
    }

    /// Waits until the task has ended, also while the daemon drains. False if the time is over before.
    pub(super) async fn ended(&self, task: &Task, until: Instant) -> bool {
        while !task.is_ended() {
            if timeout_at(until, self.0.notified()).await.is_err() {
                return task.is_ended();
            }
        }
        true
    }

    /// Waits until it rings, the time is over, or the daemon goes.
    pub(super) async fn rung(&self, until: Instant, door: &Door) -> Woken {
        let mut rang = pin!(self.0.notified());
        let mut late = pin!(sleep_until(until));
        let mut drains = pin!(door.closes());
        poll_fn(|context| {
            if rang.as_mut().poll(context).is_ready() {
                Poll::Ready(Woken::Rang)
            } else if drains.as_mut().poll(context).is_ready() {
                Poll::Ready(Woken::Drains)
            } else {
                late.as_mut().poll(context).map(|()| Woken::Late)
            }
        })
        .await
    }

    /// Waits until the task has ended, the time is over, or the daemon goes.
    pub(super) async fn ended_or_drained(&self, task: &Task, until: Instant, door: &Door) {
        while !task.is_ended() {
            if self.rung(until, door).await != Woken::Rang {
                return;
            }
        }
    }
}
