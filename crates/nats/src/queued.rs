//! Tasks that are here and that the service does not have yet: they begin when it has a slot for them, or go back.
//!
//! The rate by which tasks are fetched is that of all, and tiny ones make it high; when slow ones follow, hundreds of
//! them may be here before that is noticed. So what the service is given has a measure of its own, and whoever waits
//! here for longer than [`PATIENCE`] goes back to the queue, where an idle daemon may take it. Each time counts as a
//! delivery, so one that has come often stays.
//!
//! Not here: the measure (`slots.rs`), handing over (`intake.rs`).

use crate::engine::Engine;
use crate::holding::{Finish, Step};
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

/// How long a task waits here for a slot before it goes back.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long after that no more are asked for than the service takes.
const CAREFUL: Duration = Duration::from_secs(2);
/// Its turn is not a matter of time.
const UNTIMED: Duration = Duration::from_secs(86_400);

impl Engine {
    /// Lets a task wait for a slot in the service.
    pub(crate) fn queue_here(&mut self, sequence: u64) {
        let Some(held) = self.held.get_mut(&sequence) else { return };
        let now = Instant::now();
        held.step = Step::Room;
        held.not_before = Some(now + UNTIMED);
        if held.queued_at.replace(held.queued_at.unwrap_or(now)).is_none() {
            self.queued.push_back(sequence);
        } else {
            self.queued.push_front(sequence);
        }
    }

    /// Hands over as many as the service has slots for.
    pub(crate) async fn fill_service(&mut self) {
        while self.in_service < self.service_slots.now(self.workers) {
            let Some(sequence) = self.queued.pop_front() else { return };
            let waits =
                |held: &crate::holding::Held| held.queued_at.is_some() && matches!(held.step, Step::Room);
            if self.held.get(&sequence).is_some_and(waits) {
                self.run_again(sequence).await;
            }
        }
    }

    /// Gives back those that have waited too long, or all of them if the daemon ends.
    pub(crate) async fn give_back_queued(&mut self, now: Instant) {
        let is_ending = self.shared.is_draining.load(Acquire) || self.shared.service.is_draining();
        let often = self.shared.settings.deliveries_max / 2;
        let mut kept = Vec::new();
        // The latest first, so that the oldest keep their place if a slot comes free meanwhile.
        while let Some(sequence) = self.queued.pop_back() {
            let Some(held) = self.held.get(&sequence) else { continue };
            let Some(queued_at) = held.queued_at.filter(|_| matches!(held.step, Step::Room)) else {
                continue;
            };
            let has_waited =
                now.saturating_duration_since(queued_at) > PATIENCE && held.place.deliveries <= often;
            if is_ending || has_waited {
                self.careful_until = Some(now + CAREFUL);
                self.go(sequence, Step::Finish(Finish::Nack(Duration::ZERO))).await;
            } else {
                kept.push(sequence);
            }
        }
        self.queued.extend(kept.into_iter().rev());
    }
}
