//! Which tasks somebody has cancelled, as far as this daemon has to know: those that it may still be given.
//!
//! Whoever cancels writes the final state into the bucket of results, which alone decides, and then a mark into the
//! bucket of cancelled tasks. This daemon watches the marks, so that it does not run what has ended and stops what
//! runs. The marks are read completely before the first task is asked for. A mark is for tasks that the server took
//! before it.
//!
//! Not here: the decision (`record.rs`), stopping a task (`engine.rs`).

use async_nats::Client;
use async_nats::jetstream;
use futures_util::StreamExt;
use millpond_tasks::Log;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How many marks are remembered; beyond that the oldest go. Such a task is run, and its result is refused.
const MARKS_MAX: usize = 100_000;
/// How long after a watch broke it is begun anew.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the marks may take to be read at the start.
const FIRST_TIME: Duration = Duration::from_secs(10);

/// The marks.
#[derive(Debug, Default)]
pub(crate) struct Cancelled {
    marks: Mutex<Marks>,
    /// Somebody should look at `news`.
    pub(crate) bell: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Marks {
    by_key: HashMap<String, u64>,
    in_order: VecDeque<String>,
    news: Vec<(String, u64)>,
}

impl Cancelled {
    /// Whether a task of this key that came at `since_ms` is cancelled.
    pub(crate) fn covers(&self, key: &str, since_ms: u64) -> bool {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        !marks.by_key.is_empty() && marks.by_key.get(key).is_some_and(|at_ms| since_ms <= *at_ms)
    }

    /// The marks that came since the last call: keys and times.
    pub(crate) fn take_news(&self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.marks.lock().unwrap_or_else(PoisonError::into_inner).news)
    }

    fn add(&self, key: String, at_ms: u64) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.news.len() < MARKS_MAX {
            marks.news.push((key.clone(), at_ms));
        }
        if marks.by_key.insert(key.clone(), at_ms).is_none() {
            marks.in_order.push_back(key);
        }
        if marks.in_order.len() > MARKS_MAX
            && let Some(oldest) = marks.in_order.pop_front()
        {
            marks.by_key.remove(&oldest);
        }
        drop(marks);
        self.bell.notify_one();
    }

    /// Watches the bucket for ever. `loaded` is told once all marks that were there have been read.
    pub(crate) async fn watch(
        self: Arc<Self>,
        client: Client,
        bucket: String,
        loaded: Arc<Notify>,
        log: Log,
    ) {
        let mut is_told = false;
        loop {
            // Whatever is wrong with the watch, it is begun anew: nobody else would. It is told once.
            if let Err(error) = self.watch_once(&client, &bucket, &loaded).await
                && !is_told
            {
                is_told = true;
                log.warn(&format!("nats: bucket {bucket}: cancelled tasks cannot be watched: {error}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn watch_once(
        &self,
        client: &Client,
        bucket: &str,
        loaded: &Notify,
    ) -> Result<(), async_nats::Error> {
        let context = jetstream::new(client.clone());
        let store = context.get_key_value(bucket).await?;
        let is_empty = store.status().await?.values() == 0;
        let mut watch = store.watch_with_history(">").await?;
        if is_empty {
            loaded.notify_one();
        }
        while let Some(entry) = watch.next().await {
            let entry = entry?;
            let at_ms = u64::try_from(entry.created.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
            self.add(entry.key, at_ms);
            if entry.seen_current {
                loaded.notify_one();
            }
        }
        Ok(())
    }
}

/// Waits until the marks have been read, or for so long as a start may take.
pub(crate) async fn loaded(loaded: &Notify) -> bool {
    tokio::time::timeout(FIRST_TIME, loaded.notified()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_for_tasks_that_came_before_it() {
        let cancelled = Cancelled::default();
        assert!(!cancelled.covers("17", 0));
        cancelled.add("17".to_owned(), 1_000);
        assert!(
            cancelled.covers("17", 1_000) && !cancelled.covers("17", 1_001) && !cancelled.covers("18", 0)
        );
        assert_eq!(cancelled.take_news(), [("17".to_owned(), 1_000)]);
        assert_eq!(cancelled.take_news(), []);
    }

    #[test]
    fn marks_have_a_limit() {
        let cancelled = Cancelled::default();
        for number in 0..=MARKS_MAX {
            cancelled.add(number.to_string(), 5);
        }
        assert!(!cancelled.covers("0", 0) && cancelled.covers("1", 0));
    }
}
