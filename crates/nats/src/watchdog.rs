//! Sees that the loop turns and that the server is still asked for tasks; if not, the loop begins anew.
//!
//! A fetcher that silently stopped after a reconnect is the failure that users of such queues fear most: everything
//! looks healthy and nothing is done. The loop is built so that it cannot happen; this thread does not believe it.
//!
//! Not here: questions that got no answer (`pulls.rs`), which the loop itself asks anew.

use crate::figures::count;
use crate::pulls::{PATIENCE, WAIT};
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long the loop may stand still.
const STILL_MAX: Duration = Duration::from_secs(5);
/// How long nothing may be heard of questions, while there is a connection and room.
const SILENT_MAX: Duration = WAIT.saturating_add(PATIENCE).saturating_add(Duration::from_secs(10));

/// What is wrong, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The loop does not turn.
    Still,
    /// It turns, and asks for nothing although it should.
    Silent,
}

/// Whether something is wrong, at `now_ms`.
pub(crate) fn look(now_ms: u64, turned_ms: u64, healthy_ms: u64, should_ask: bool) -> Option<Wrong> {
    let since = |then_ms: u64| Duration::from_millis(now_ms.saturating_sub(then_ms));
    if since(turned_ms) > STILL_MAX {
        return Some(Wrong::Still);
    }
    (should_ask && since(healthy_ms) > SILENT_MAX).then_some(Wrong::Silent)
}

/// Looks until the door is closed.
pub(crate) fn watch(shared: &Arc<Shared>) {
    let mut quiet_until_ms = 0;
    while !shared.is_over.load(Acquire) {
        thread::sleep(LOOK);
        let now_ms = shared.elapsed_ms();
        let figures = &shared.figures;
        let should_ask = figures.connected.load(Relaxed)
            && !shared.is_draining.load(Acquire)
            && figures.in_flight.load(Relaxed) < figures.slots.load(Relaxed);
        let wrong = look(now_ms, shared.turned_ms.load(Relaxed), shared.healthy_ms.load(Relaxed), should_ask);
        if let Some(wrong) = wrong.filter(|_| now_ms >= quiet_until_ms) {
            count(&figures.restarts);
            shared.log.error(match wrong {
                Wrong::Still => "nats: the loop stands still; it begins anew",
                Wrong::Silent => "nats: nothing was heard of the queue for too long; the loop begins anew",
            });
            shared.restart.notify_one();
            quiet_until_ms = now_ms + u64::try_from(SILENT_MAX.as_millis()).unwrap_or(u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stands_still_is_noticed_and_a_quiet_one_is_not() {
        assert_eq!(look(100_000, 99_000, 99_000, true), None);
        assert_eq!(look(100_000, 94_000, 99_000, true), Some(Wrong::Still));
        assert_eq!(look(100_000, 100_000, 80_000, true), None, "a question may wait so long");
        assert_eq!(look(100_000, 100_000, 70_000, true), Some(Wrong::Silent));
        assert_eq!(look(100_000, 100_000, 0, false), None, "it need not ask");
    }
}
