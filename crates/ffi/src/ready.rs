//! Results of quick tasks, which have ended before they were given a number.
//!
//! A quick handler is run by whoever submits, so there is no task that the service could keep. Its result
//! waits here for whoever fetches it, within the same limits that the service has for its own: then the
//! oldest go.
//!
//! Not here: results of all other tasks; the service keeps them.

use crate::result::OwnedResult;
use millpond_tasks::config::{ResultSettings, ResultsFull};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The results of one pool.
pub(crate) struct Ready {
    settings: ResultSettings,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_number: HashMap<u64, OwnedResult>,
    /// Oldest first. Those that were fetched are passed over.
    order: VecDeque<u64>,
    bytes: u64,
}

impl Ready {
    pub(crate) fn new(settings: ResultSettings) -> Self {
        Self { settings, kept: Mutex::default() }
    }

    /// Whether there will be room: there always is, unless the configuration says that nothing may be dropped.
    pub(crate) fn has_room(&self) -> bool {
        if self.settings.full == ResultsFull::DropOldest {
            return true;
        }
        let kept = self.lock();
        kept.by_number.len() < self.settings.max && kept.bytes < self.settings.bytes_max
    }

    pub(crate) fn keep(&self, number: u64, result: OwnedResult) {
        let mut gone = Vec::new();
        let mut kept = self.lock();
        kept.bytes += result.bytes();
        kept.by_number.insert(number, result);
        kept.order.push_back(number);
        // The newest stays even if it alone takes more than the limit.
        while kept.by_number.len() > 1
            && (kept.by_number.len() > self.settings.max || kept.bytes > self.settings.bytes_max)
        {
            let Some(oldest) = kept.order.pop_front() else { break };
            gone.extend(kept.remove(oldest));
        }
        if kept.order.len() > 2 * kept.by_number.len() + 64 {
            let Kept { by_number, order, .. } = &mut *kept;
            order.retain(|number| by_number.contains_key(number));
        }
        drop(kept);
        drop(gone);
    }

    pub(crate) fn take(&self, number: u64) -> Option<OwnedResult> {
        self.lock().remove(number)
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.lock().by_number.contains_key(&number)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, number: u64) -> Option<OwnedResult> {
        let result = self.by_number.remove(&number)?;
        self.bytes -= result.bytes();
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(max: usize, bytes_max: u64, full: ResultsFull) -> Ready {
        let settings = ResultSettings::default();
        Ready::new(ResultSettings { max, bytes_max, result_bytes_max: 1024, age_max: None, full, ..settings })
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_room_and_the_newest_stays() {
        let ready = ready(2, 1 << 20, ResultsFull::DropOldest);
        (1..=3).for_each(|number| ready.keep(number, OwnedResult::success(number, b"1")));
        assert!(ready.take(1).is_none() && ready.take(2).is_some() && ready.take(2).is_none());
        let tight = self::ready(8, 1, ResultsFull::DropOldest);
        (1..=2).for_each(|number| tight.keep(number, OwnedResult::success(number, b"1")));
        assert!(tight.take(1).is_none() && tight.take(2).is_some());
    }

    #[test]
    fn nothing_is_dropped_where_that_is_forbidden() {
        let ready = ready(1, 1 << 20, ResultsFull::Refuse);
        assert!(ready.has_room());
        ready.keep(1, OwnedResult::success(1, b"1"));
        assert!(!ready.has_room());
        assert!(ready.take(1).is_some() && ready.has_room());
    }
}
