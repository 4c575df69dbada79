//! A life of a journal with everything in it, told to a disk that may fail at any point, and what must be true then.
//!
//! The owner of the state is a list of live numbers: one kind of record adds a number, another removes one. One thread
//! tells the story, so its steps have an order, and what comes back must be the state after some number of them.

use crate::house::{KIND, LONG, large_payload, payload, small};
use crate::sim_disk::SimDisk;
use millpond_journal::{AppendError, Journal, JournalConfig, OpenError, Payload, Receipt, Record, SpillRef};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) const DIRECTORY: &str = "/pond";
const GONE: u8 = 8;

/// One step: records that are appended together.
#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u64>),
    AddLarge(u64),
    Remove(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Must be there.
    Acknowledged,
    /// May be there, and only if everything before it is.
    Unknown,
    /// Must not be there.
    Refused,
}

/// What was begun, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Story {
    steps: Vec<(Step, Fate)>,
    pub(crate) poisoned: bool,
}

/// The live numbers, with the large payloads among them.
type State = BTreeMap<u64, Option<SpillRef>>;

impl Story {
    /// Tells the story from the beginning, to its end or to the first error that lasts.
    pub(crate) fn tell(disk: &SimDisk, from: u64) -> Self {
        Self::tell_after(disk, from, Self::default())
    }

    /// Tells it to a disk on which an earlier story left what it left.
    pub(crate) fn tell_after(disk: &SimDisk, from: u64, earlier: Self) -> Self {
        let mut story = earlier;
        let mut state = State::new();
        let opened = open(disk, &mut state);
        let Ok(journal) = opened else { return story };
        if from > 0 {
            story.settle(&state.keys().copied().collect::<Vec<_>>());
        }
        for chapter in 0..3 {
            let first = from + chapter * 100;
            story.chapter(&journal, &mut state, first);
            if chapter < 2 {
                snapshot(&journal, &state);
            }
        }
        story.poisoned = journal.poisoned().is_some();
        story
    }

    fn chapter(&mut self, journal: &Journal, state: &mut State, first: u64) {
        for number in first..first + 12 {
            self.step(journal, state, Step::Add(vec![number]));
        }
        self.step(journal, state, Step::Add((first + 20..first + 25).collect()));
        self.step(journal, state, Step::AddLarge(first + 30));
        self.step(journal, state, Step::Remove(first + 3));
        self.several(
            journal,
            state,
            (first + 40..first + 52).map(|number| Step::Add(vec![number])).collect(),
        );
        self.step(journal, state, Step::AddLarge(first + 60));
        self.step(journal, state, Step::Remove(first + 30));
        self.step(journal, state, Step::Add(vec![first + 61]));
    }

    /// One step, waited for.
    fn step(&mut self, journal: &Journal, state: &mut State, step: Step) {
        self.several(journal, state, vec![step]);
    }

    /// Several steps, of which each is begun before the first has ended.
    fn several(&mut self, journal: &Journal, state: &mut State, steps: Vec<Step>) {
        let begun: Vec<_> = steps.into_iter().map(|step| (append(journal, &step), step)).collect();
        for (receipt, step) in begun {
            let outcome = receipt.and_then(|receipt| {
                let outcome = receipt.wait_timeout(LONG).expect("an answer in good time");
                outcome.map(|()| receipt.spilled().first().map(|(_, spill)| *spill))
            });
            let fate = match outcome {
                Ok(spill) => {
                    apply(state, &step, spill);
                    Fate::Acknowledged
                }
                Err(AppendError::Poisoned(_)) => Fate::Unknown,
                Err(_) => Fate::Refused,
            };
            self.steps.push((step, fate));
        }
    }

    /// What came back once is certain from then on.
    fn settle(&mut self, state: &[u64]) {
        let count = self.matching(state).expect("a state of the story");
        self.steps.retain(|(_, fate)| *fate != Fate::Refused);
        self.steps.truncate(count);
        self.steps.iter_mut().for_each(|(_, fate)| *fate = Fate::Acknowledged);
    }

    /// After how many of the steps that were not refused the state is this, if it may be.
    fn matching(&self, state: &[u64]) -> Result<usize, String> {
        let steps: Vec<_> = self.steps.iter().filter(|(_, fate)| *fate != Fate::Refused).collect();
        let certain =
            steps.iter().rposition(|(_, fate)| *fate == Fate::Acknowledged).map_or(0, |last| last + 1);
        let mut expected = State::new();
        for count in 0..=steps.len() {
            if count >= certain && expected.keys().eq(state) {
                return Ok(count);
            }
            if let Some((step, _)) = steps.get(count) {
                apply(&mut expected, step, None);
            }
        }
        Err(format!("{certain} of {} steps were acknowledged, and the state is {state:?}", steps.len()))
    }

    /// Whether a state may have come back.
    pub(crate) fn check(&self, state: &[u64]) -> Result<(), String> {
        self.matching(state).map(drop)
    }
}

fn apply(state: &mut State, step: &Step, spill: Option<SpillRef>) {
    match step {
        Step::Add(numbers) => state.extend(numbers.iter().map(|number| (*number, None))),
        Step::AddLarge(number) => drop(state.insert(*number, spill)),
        Step::Remove(number) => drop(state.remove(number)),
    }
}

fn append(journal: &Journal, step: &Step) -> Result<Receipt, AppendError> {
    match step {
        Step::Add(numbers) => {
            let payloads: Vec<_> = numbers.iter().map(|number| (*number, payload(*number))).collect();
            let records: Vec<_> =
                payloads.iter().map(|(number, bytes)| Record::new(KIND, *number, bytes)).collect();
            journal.append(&records)
        }
        Step::AddLarge(number) => journal.append(&[Record::new(KIND, *number, &large_payload(*number))]),
        Step::Remove(number) => journal.append(&[Record::new(GONE, *number, b"")]),
    }
}

/// A snapshot may fail, and then it changes nothing.
fn snapshot(journal: &Journal, state: &State) {
    let Ok(mut snapshot) = journal.begin_snapshot() else { return };
    for (number, spill) in state {
        let bytes = payload(*number);
        let payload = spill.map_or(Payload::Bytes(&bytes), Payload::Spilled);
        if snapshot.put(Record { kind: KIND, key: *number, payload }).is_err() {
            return;
        }
    }
    let _ = snapshot.finish();
}

fn config() -> JournalConfig {
    small(Path::new(DIRECTORY))
}

fn open(disk: &SimDisk, state: &mut State) -> Result<Journal, OpenError> {
    let (journal, _) =
        Journal::open_on(config(), Arc::new(disk.clone()), |record| match (record.kind, record.payload) {
            (GONE, _) => drop(state.remove(&record.key)),
            (_, Payload::Bytes(bytes)) => {
                assert_eq!(bytes, payload(record.key), "record {}", record.key);
                state.insert(record.key, None);
            }
            (_, Payload::Spilled(spill)) => drop(state.insert(record.key, Some(spill))),
        })?;
    for (number, spill) in state.iter() {
        if let Some(spill) = spill {
            match journal.read_spilled(spill) {
                Ok(bytes) => assert_eq!(bytes, large_payload(*number), "record {number}"),
                Err(error) => assert!(disk.has_failed(), "record {number}: {error}"),
            }
        }
    }
    Ok(journal)
}

/// The live numbers that a start finds.
pub(crate) fn recovered(disk: &SimDisk) -> Result<Vec<u64>, OpenError> {
    let mut state = State::new();
    open(disk, &mut state)?;
    Ok(state.into_keys().collect())
}
