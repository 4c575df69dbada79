//! Dead letters: tasks whose last attempt failed, kept until somebody tries them again or lets them go.
//!
//! A task that was cancelled, expired or dropped is none: somebody or something decided that. One whose handler failed
//! for good is worth a look, and another try once the cause is mended. Letters are bounded by number, by bytes and by
//! age, and go oldest first. They hold what is needed to ask again, and nothing of the service, so that they outlive
//! their handler and the daemon.
//!
//! Not here: how they are written to disk (`ledger.rs`), the words for doors (`manage.rs`).

use crate::config::DeadSettings;
use crate::error::{ErrorCode, TaskFailure};
use crate::request::TaskId;
use crate::status::priority_name;
use crate::task::{State, Task};
use millpond::Priority;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many a page shows if nobody says.
const PAGE_LETTERS: usize = 100;
/// The most that a page shows.
pub const DEAD_LIST_MAX: usize = 1000;

/// A task that failed for good.
#[derive(Clone, Debug, Serialize)]
pub struct DeadLetter {
    /// Its place in the order of deaths, from 1.
    #[serde(skip)]
    pub(crate) number: u64,
    /// What the task was called.
    pub task_id: TaskId,
    /// Who did it.
    pub handler: Box<str>,
    /// Its arguments, as they came.
    pub args: Box<RawValue>,
    /// How urgent it was.
    #[serde(serialize_with = "name_of")]
    pub priority: Priority,
    #[serde(skip)]
    pub(crate) affinity: Option<u64>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How many more attempts a failure allowed.
    pub retries: u32,
    /// The W3C trace context that it continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Box<str>>,
    /// How many attempts were begun.
    pub attempts: u32,
    /// When it was accepted, in Unix time.
    pub accepted_at_ms: u64,
    /// When it died, in Unix time.
    pub died_at_ms: u64,
    /// Why: the name of the error.
    #[serde(serialize_with = "error_name")]
    pub error: ErrorCode,
    /// Why, in words.
    pub message: Box<str>,
    /// What its attempts left for the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

fn name_of<S: Serializer>(priority: &Priority, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(priority_name(*priority))
}

fn error_name<S: Serializer>(code: &ErrorCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.name())
}

impl DeadLetter {
    /// The letter of a task that ends with this failure now.
    pub(crate) fn of(task: &Task, state: &State, failure: &TaskFailure, died_at_ms: u64) -> Self {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            number: 0,
            task_id: task.id.clone(),
            handler: task.handler.name.clone(),
            args: task.args.clone(),
            priority: task.priority,
            affinity: task.affinity,
            timeout_ms: task.timeout.map(milliseconds),
            retries: task.retries,
            traceparent: task.traceparent.clone(),
            attempts: state.attempt,
            accepted_at_ms: task.accepted_unix_ns / 1_000_000,
            died_at_ms,
            error: failure.code,
            message: failure.message.as_str().into(),
            checkpoint: state.checkpoint.as_deref().map(ToOwned::to_owned),
        }
    }

    fn bytes(&self) -> u64 {
        let checkpoint = self.checkpoint.as_ref().map_or(0, |value| value.get().len());
        (size_of::<Self>() + self.args.get().len() + self.message.len() + checkpoint) as u64
    }
}

/// Which letters are meant.
#[derive(Clone, Debug, Default)]
pub struct DeadFilter {
    /// Only those of this handler.
    pub handler: Option<String>,
    /// Only those that died at least so long ago.
    pub older_than: Option<Duration>,
    /// How many, [`DEAD_LIST_MAX`] at most; without, 100. For lists.
    pub max: Option<usize>,
    /// Only those that a page which ended here has not reached. For lists.
    pub before: Option<u64>,
}

impl DeadFilter {
    fn fits(&self, letter: &DeadLetter, now_ms: u64) -> bool {
        let age = Duration::from_millis(now_ms.saturating_sub(letter.died_at_ms));
        self.handler.as_deref().is_none_or(|handler| handler == &*letter.handler)
            && self.older_than.is_none_or(|least| age >= least)
    }
}

/// Some of the letters, the latest first.
#[derive(Clone, Debug, Serialize)]
pub struct DeadPage {
    /// The letters.
    pub letters: Vec<DeadLetter>,
    /// Where to go on, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// How many are kept, whatever the filter.
    pub kept: usize,
}

/// What became of dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadStats {
    /// Kept now.
    pub kept: usize,
    /// About how much memory they take.
    pub bytes: u64,
    /// Tasks that died since the start.
    pub died: u64,
    /// Tried again since the start.
    pub retried: u64,
    /// Let go by somebody.
    pub purged: u64,
    /// Gone because there was no room.
    pub dropped: u64,
    /// Gone because nobody asked for so long.
    pub aged: u64,
}

pub(crate) struct DeadLetters {
    settings: DeadSettings,
    is_on: bool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    letters: BTreeMap<u64, Arc<DeadLetter>>,
    /// The latest of each id.
    by_id: HashMap<TaskId, u64>,
    /// The last number given.
    number: u64,
    bytes: u64,
    stats: DeadStats,
}

impl DeadLetters {
    pub(crate) fn new(settings: DeadSettings, has_journal: bool) -> Self {
        let is_on = settings.enabled.unwrap_or(has_journal);
        Self { settings, is_on, kept: Mutex::default() }
    }

    /// Whether tasks that fail for good are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The number of the next letter.
    pub(crate) fn next_number(&self) -> u64 {
        let mut kept = self.lock();
        kept.number += 1;
        kept.number
    }

    /// Keeps a letter that has its number. The numbers of those that made room are handed back.
    pub(crate) fn keep(&self, letter: DeadLetter) -> Vec<u64> {
        let mut kept = self.lock();
        kept.stats.died += 1;
        kept.add(letter);
        let mut gone = Vec::new();
        while kept.letters.len() > 1
            && (kept.letters.len() > self.settings.max || kept.bytes > self.settings.bytes_max)
        {
            gone.extend(kept.pop());
            kept.stats.dropped += 1;
        }
        gone
    }

    /// A letter that was kept before the daemon started.
    pub(crate) fn restore(&self, letter: DeadLetter) {
        let mut kept = self.lock();
        kept.number = kept.number.max(letter.number);
        kept.add(letter);
    }

    /// The next letter has a higher number than this.
    pub(crate) fn go_on_from(&self, number: u64) {
        let mut kept = self.lock();
        kept.number = kept.number.max(number);
    }

    /// The last number given.
    pub(crate) fn last_number(&self) -> u64 {
        self.lock().number
    }

    /// Lets go of letters that are too old.
    pub(crate) fn forget_old(&self, now_ms: u64) -> Vec<u64> {
        let Some(age_max) = self.settings.age_max else { return Vec::new() };
        let oldest_ms = now_ms.saturating_sub(u64::try_from(age_max.as_millis()).unwrap_or(u64::MAX));
        let mut gone = Vec::new();
        let mut kept = self.lock();
        while kept.letters.first_key_value().is_some_and(|(_, letter)| letter.died_at_ms < oldest_ms) {
            gone.extend(kept.pop());
            kept.stats.aged += 1;
        }
        gone
    }

    /// The latest letter of this id.
    pub(crate) fn get(&self, id: &TaskId) -> Option<Arc<DeadLetter>> {
        let kept = self.lock();
        kept.letters.get(kept.by_id.get(id)?).cloned()
    }

    /// Takes a letter out; false if somebody was faster.
    pub(crate) fn take(&self, number: u64, is_retried: bool) -> bool {
        let mut kept = self.lock();
        let is_there = kept.remove(number).is_some();
        if is_there && is_retried {
            kept.stats.retried += 1;
        } else if is_there {
            kept.stats.purged += 1;
        }
        is_there
    }

    /// Puts a letter back whose task was not accepted after all.
    pub(crate) fn put_back(&self, letter: DeadLetter) {
        let mut kept = self.lock();
        kept.stats.retried = kept.stats.retried.saturating_sub(1);
        kept.add(letter);
    }

    /// Those that fit, oldest first, `max` at most.
    pub(crate) fn find(&self, filter: &DeadFilter, now_ms: u64, max: usize) -> Vec<Arc<DeadLetter>> {
        let kept = self.lock();
        let fitting = kept.letters.values().filter(|letter| filter.fits(letter, now_ms));
        fitting.take(max).cloned().collect()
    }

    pub(crate) fn page(&self, filter: &DeadFilter, now_ms: u64) -> DeadPage {
        let max = filter.max.unwrap_or(PAGE_LETTERS).clamp(1, DEAD_LIST_MAX);
        let before = filter.before.unwrap_or(u64::MAX);
        let kept = self.lock();
        let fitting = kept.letters.range(..before).rev().filter(|(_, letter)| filter.fits(letter, now_ms));
        let mut found: Vec<Arc<DeadLetter>> =
            fitting.map(|(_, letter)| Arc::clone(letter)).take(max + 1).collect();
        let all = kept.letters.len();
        drop(kept);
        let has_more = found.len() > max;
        found.truncate(max);
        let next = found.last().filter(|_| has_more).map(|letter| letter.number);
        DeadPage { letters: found.iter().map(|letter| DeadLetter::clone(letter)).collect(), next, kept: all }
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<DeadLetter>> {
        self.lock().letters.values().cloned().collect()
    }

    pub(crate) fn stats(&self) -> DeadStats {
        let kept = self.lock();
        DeadStats { kept: kept.letters.len(), bytes: kept.bytes, ..kept.stats }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, letter: DeadLetter) {
        let number = letter.number;
        self.remove(number);
        self.bytes += letter.bytes();
        let latest = self.by_id.entry(letter.task_id.clone()).or_insert(number);
        *latest = number.max(*latest);
        self.letters.insert(number, Arc::new(letter));
    }

    fn remove(&mut self, number: u64) -> Option<Arc<DeadLetter>> {
        let letter = self.letters.remove(&number)?;
        self.bytes -= letter.bytes();
        if self.by_id.get(&letter.task_id) == Some(&number) {
            self.by_id.remove(&letter.task_id);
            // An id may have been used again; then an earlier letter of it can be found now.
            let earlier = self.letters.values().rev().find(|earlier| earlier.task_id == letter.task_id);
            if let Some(earlier) = earlier.cloned() {
                self.by_id.insert(earlier.task_id.clone(), earlier.number);
            }
        }
        Some(letter)
    }

    fn pop(&mut self) -> Option<u64> {
        let number = *self.letters.first_key_value()?.0;
        self.remove(number).map(|letter| letter.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(number: u64, id: u64, died_at_ms: u64) -> DeadLetter {
        DeadLetter {
            number,
            task_id: TaskId::Number(id),
            handler: if id.is_multiple_of(2) { "even" } else { "odd" }.into(),
            args: RawValue::from_string("{}".to_owned()).unwrap(),
            priority: Priority::Normal,
            affinity: None,
            timeout_ms: None,
            retries: 0,
            traceparent: None,
            attempts: 1,
            accepted_at_ms: 0,
            died_at_ms,
            error: ErrorCode::HandlerError,
            message: "as asked".into(),
            checkpoint: None,
        }
    }

    fn letters(max: usize, count: u64) -> DeadLetters {
        let age_max = Some(Duration::from_millis(100));
        let settings = DeadSettings { enabled: Some(true), max, bytes_max: 1 << 20, age_max };
        let letters = DeadLetters::new(settings, false);
        for id in 1..=count {
            let number = letters.next_number();
            letters.keep(letter(number, id, 1000 * id));
        }
        letters
    }

    #[test]
    fn the_oldest_make_room_and_the_old_go() {
        let letters = letters(3, 5);
        let ids =
            |letters: &DeadLetters| letters.all().iter().map(|letter| letter.number).collect::<Vec<_>>();
        assert_eq!(ids(&letters), [3, 4, 5]);
        assert_eq!(letters.forget_old(4101), [3, 4]);
        assert_eq!(ids(&letters), [5]);
        let stats = letters.stats();
        assert_eq!((stats.died, stats.dropped, stats.aged, stats.kept), (5, 2, 2, 1));
    }

    #[test]
    fn pages_go_from_the_latest_to_the_oldest_and_filters_hold() {
        let letters = letters(10, 5);
        let filter = DeadFilter { max: Some(2), ..DeadFilter::default() };
        let first = letters.page(&filter, 0);
        assert_eq!((first.letters[0].number, first.next, first.kept), (5, Some(4), 5));
        let second = letters.page(&DeadFilter { before: first.next, ..filter }, 0);
        assert_eq!((second.letters[0].number, second.next), (3, Some(2)));
        let even = DeadFilter { handler: Some("even".to_owned()), ..DeadFilter::default() };
        assert_eq!(letters.page(&even, 0).letters.len(), 2);
        let old = DeadFilter { older_than: Some(Duration::from_millis(3000)), ..DeadFilter::default() };
        assert_eq!(letters.find(&old, 5000, 9).len(), 2);
    }

    #[test]
    fn an_id_that_died_twice_is_found_twice() {
        let letters = letters(10, 1);
        let number = letters.next_number();
        letters.keep(letter(number, 1, 5000));
        let id = TaskId::Number(1);
        assert_eq!(letters.get(&id).unwrap().number, 2);
        assert!(letters.take(2, true) && !letters.take(2, true));
        assert_eq!(letters.get(&id).unwrap().number, 1, "the earlier one");
        assert!(letters.take(1, false));
        assert!(letters.get(&id).is_none());
        assert_eq!((letters.stats().retried, letters.stats().purged, letters.stats().bytes), (1, 1, 0));
    }
}
