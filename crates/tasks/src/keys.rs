//! Idempotency keys: a request that comes twice is run once.
//!
//! A key remembers what was asked and which task came of it. The same request with the same key is answered
//! with that task; another request with the same key is a mistake and refused. Keys are forgotten after
//! `keys_age_max`, and the oldest one first if there are more than `keys_max`.

use crate::config::KeySettings;
use crate::ledger::KeyRecord;
use crate::request::{Request, TaskId};
use millpond::policy::affinity::hash_bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Keys {
    settings: KeySettings,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<Arc<str>, Use>,
    /// The same keys, oldest first.
    order: VecDeque<(Arc<str>, Instant)>,
}

struct Use {
    fingerprint: u64,
    id: TaskId,
}

/// What is known of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyAnswer {
    /// It is free.
    New,
    /// The same request came before and became this task.
    Same(TaskId),
    /// It belongs to a request that says something else.
    Other(TaskId),
}

/// The keys, held still: what is looked up stays true until this is dropped.
pub(crate) struct LockedKeys<'a> {
    keys_max: usize,
    now: Instant,
    known: MutexGuard<'a, Known>,
}

impl Keys {
    pub(crate) fn new(settings: KeySettings) -> Self {
        Self { settings, known: Mutex::default() }
    }

    /// Holds the keys still, after forgetting those that are too old.
    pub(crate) fn lock(&self, now: Instant) -> LockedKeys<'_> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget_old(&self.settings, now);
        LockedKeys { keys_max: self.settings.max, now, known }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).by_key.len()
    }

    /// All of them, for a journal.
    pub(crate) fn all(&self, now_ms: u64) -> Vec<KeyRecord> {
        let now = Instant::now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let record = |(key, since): &(Arc<str>, Instant)| {
            let Use { fingerprint, id } = known.by_key.get(key)?;
            let age = u64::try_from(now.saturating_duration_since(*since).as_millis()).unwrap_or(u64::MAX);
            let since_ms = now_ms.saturating_sub(age);
            Some(KeyRecord { key: (**key).into(), fingerprint: *fingerprint, id: id.clone(), since_ms })
        };
        known.order.iter().filter_map(record).collect()
    }

    /// Those that a journal remembers.
    pub(crate) fn restore(&self, mut records: Vec<KeyRecord>, now_ms: u64) {
        records.sort_by_key(|record| record.since_ms);
        let now = Instant::now();
        for KeyRecord { key, fingerprint, id, since_ms } in records {
            let age = Duration::from_millis(now_ms.saturating_sub(since_ms));
            let mut locked = self.lock(now);
            locked.now = now.checked_sub(age).unwrap_or(now);
            locked.release(&key, &id);
            locked.note(&key, fingerprint, &id);
        }
    }

    /// What the request asks for, whatever it is called.
    pub(crate) fn fingerprint(&self, request: &Request) -> u64 {
        let Request { target, args, priority, affinity, timeout, delay, retries, .. } = request;
        let when = (delay, request.run_at_ms, request.expires);
        // The same in every process, because keys outlive the daemon if there is a journal.
        let asked =
            format!("{target:?} {priority:?} {affinity:?} {timeout:?} {when:?} {retries} {}", args.get());
        hash_bytes(asked.as_bytes())
    }
}

impl LockedKeys<'_> {
    /// Whose key it is.
    pub(crate) fn look_up(&self, key: &str, fingerprint: u64) -> KeyAnswer {
        match self.known.by_key.get(key) {
            None => KeyAnswer::New,
            Some(earlier) if earlier.fingerprint == fingerprint => KeyAnswer::Same(earlier.id.clone()),
            Some(earlier) => KeyAnswer::Other(earlier.id.clone()),
        }
    }

    /// Gives a free key to a task.
    pub(crate) fn note(&mut self, key: &str, fingerprint: u64, id: &TaskId) {
        let key: Arc<str> = key.into();
        self.known.by_key.insert(Arc::clone(&key), Use { fingerprint, id: id.clone() });
        self.known.order.push_back((key, self.now));
        while self.known.by_key.len() > self.keys_max {
            self.known.forget_oldest();
        }
    }

    /// Frees a key whose task found no room after all.
    pub(crate) fn release(&mut self, key: &str, id: &TaskId) {
        if self.known.by_key.get(key).is_some_and(|of_key| of_key.id == *id) {
            self.known.by_key.remove(key);
            // It was noted a moment ago, so it stands near the end.
            if let Some(at) = self.known.order.iter().rposition(|(of_order, _)| **of_order == *key) {
                self.known.order.remove(at);
            }
        }
    }
}

impl Known {
    fn forget_old(&mut self, settings: &KeySettings, now: Instant) {
        let is_old = |since: Instant| now.saturating_duration_since(since) > settings.age_max;
        while self.order.front().is_some_and(|(_, since)| is_old(*since)) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((key, _)) = self.order.pop_front() {
            self.by_key.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Limits;
    use std::time::Duration;

    fn request(args: &str) -> Request {
        Request::parse(format!(r#"{{"handler":"echo","args":{args}}}"#).as_bytes(), &Limits::default())
            .unwrap()
    }

    fn keys(max: usize) -> Keys {
        Keys::new(KeySettings { max, age_max: Duration::from_secs(60) })
    }

    /// Looks the key up, and takes it if it is free.
    fn claim(keys: &Keys, key: &str, args: &str, id: &TaskId, now: Instant) -> KeyAnswer {
        let fingerprint = keys.fingerprint(&request(args));
        let mut locked = keys.lock(now);
        let answer = locked.look_up(key, fingerprint);
        if answer == KeyAnswer::New {
            locked.note(key, fingerprint, id);
        }
        answer
    }

    #[test]
    fn a_key_stands_for_one_request() {
        let keys = keys(8);
        let now = Instant::now();
        let (first, second) = (TaskId::Number(1), TaskId::Number(2));
        assert_eq!(claim(&keys, "k", "{}", &first, now), KeyAnswer::New);
        assert_eq!(claim(&keys, "k", "{}", &second, now), KeyAnswer::Same(first.clone()));
        assert_eq!(claim(&keys, "k", r#"{"a":1}"#, &second, now), KeyAnswer::Other(first));
        assert_eq!(claim(&keys, "other", "{}", &second, now), KeyAnswer::New);
        keys.lock(now).release("other", &TaskId::Number(1));
        assert_eq!(keys.len(), 2, "it belongs to another task");
        keys.lock(now).release("other", &second);
        assert_eq!(keys.len(), 1);
        assert_eq!(claim(&keys, "other", r#"{"a":1}"#, &second, now), KeyAnswer::New);
    }

    #[test]
    fn old_keys_are_forgotten_and_so_is_the_oldest_of_too_many() {
        let keys = keys(2);
        let now = Instant::now();
        let id = TaskId::Number(1);
        for key in ["a", "b", "c"] {
            assert_eq!(claim(&keys, key, "{}", &id, now), KeyAnswer::New);
        }
        assert_eq!(keys.len(), 2);
        assert_eq!(claim(&keys, "a", "{}", &id, now), KeyAnswer::New, "it was the oldest");
        assert_eq!(claim(&keys, "c", "{}", &id, now), KeyAnswer::Same(id.clone()));
        let later = now + Duration::from_secs(61);
        assert_eq!(claim(&keys, "c", "{}", &id, later), KeyAnswer::New);
        assert_eq!(keys.len(), 1);
    }
}
