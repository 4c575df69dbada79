//! How long tasks wait and run: one in so many is timed, and its times are counted by the worker that runs it.
//!
//! Reading a clock costs about as much as spawning an empty task, so only some are timed. Which ones is decided at
//! submit by a number that every thread keeps for itself and moves on by the golden ratio: the share comes out exactly,
//! evenly spread, and a thread that submits two kinds of tasks in turn (or to two pools) has both of them timed, which
//! counting to 128 would not do.
//!
//! A worker is the only writer of its own counts. What runs elsewhere (on the thread of a submitter) is counted in one
//! shared set with locked additions. The buckets are those of `millpond_policy::histogram`, made octave by octave when
//! they are first needed, so that a worker that has timed nothing takes two words.
//!
//! Not here: percentiles and means (`metrics.rs`).

use crate::cell::TaskRef;
use crate::counters::bump;
use crate::current;
use crate::error::SubmitError;
use crate::shared::Shared;
use crate::state::Verdict;
use crate::task::{PartOf, Ran, Run, Task};
use millpond_policy::BadSetting;
use millpond_policy::histogram::{BOUNDS_DEFAULT, BUCKETS, Histogram, bucket_of};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The most bounds a histogram may be shown in.
const BOUNDS_MAX: usize = 64;
/// Buckets that are made at once.
const OCTAVE: usize = 64;

/// What a pool measures, and how it shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// One task in so many is timed, from submit to start and from start to end. 1 times every task, which suits tasks
    /// of ten microseconds and more; 0 times none. Default 128.
    pub sample_every: u32,
    /// The upper bounds of the buckets in which the times are shown to Prometheus: 1 to 64, each longer than the one
    /// before. Default 1, 5, 10, 25, 50, 100, 250, 500 and 1000 ms. Percentiles do not depend on them.
    pub bounds: Vec<Duration>,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { sample_every: 128, bounds: BOUNDS_DEFAULT.map(Duration::from_nanos).to_vec() }
    }
}

impl MetricsConfig {
    /// Whether it can work.
    pub fn check(&self) -> Result<(), BadSetting> {
        let bad = |got| BadSetting {
            setting: "metrics.bounds",
            expected: format!("1 to {BOUNDS_MAX} times, each longer than the one before"),
            got,
        };
        if !(1..=BOUNDS_MAX).contains(&self.bounds.len()) {
            return Err(bad(format!("{} times", self.bounds.len())));
        }
        if self.bounds[0].is_zero() {
            return Err(bad("0 s at place 1".to_owned()));
        }
        match self.bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(bad(format!("{:?} after {:?}", pair[1], pair[0]))),
            None => Ok(()),
        }
    }
}

/// What a pool has timed on threads that are no workers of it, and which tasks it times.
#[derive(Debug)]
pub(crate) struct Latency {
    /// A task is timed if the thread's number is below this.
    below: u64,
    elsewhere: Samples,
}

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

impl Latency {
    /// The fraction of the golden ratio in 64 bits: its multiples are spread as evenly as can be, and so are those of
    /// every second or third of them.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    pub(crate) fn new(sample_every: u32) -> Self {
        // For 1 this leaves out one number of 2^64, which a thread comes to in some centuries.
        let below = u64::MAX.checked_div(u64::from(sample_every)).unwrap_or(0);
        Self { below, elsewhere: Samples::default() }
    }

    /// Whether the task that is about to be submitted is timed.
    #[inline(always)]
    pub(crate) fn sample(&self) -> bool {
        let last = NUMBER.get();
        let number = if last == 0 { first_number() } else { last.wrapping_add(Self::STEP) };
        NUMBER.set(number);
        number < self.below
    }
}

/// Where a thread begins: each elsewhere, or many threads that submit a few tasks each would all time the same ones.
#[cold]
fn first_number() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    // Any odd number will do that is not the step.
    THREADS.fetch_add(1, Relaxed).wrapping_mul(0xD1B5_4A32_D192_ED03) | 1
}

/// A task that is timed. It knows its pool by address alone: the count of a counted pointer would go to and fro between
/// the caches of who submits and who runs, which costs as much as reading the clock once more.
pub(crate) struct Timed<R> {
    work: R,
    submitted: Instant,
    pool: usize,
}

/// How long a task waited and, if it has ended, ran, in nanoseconds; and the pool it is of.
#[derive(Clone, Copy)]
struct Times {
    pool: usize,
    wait: u64,
    run: Option<u64>,
}

thread_local! {
    /// The times of a task that this thread has run although it is no worker of the task's pool.
    static LEFT: Cell<Option<Times>> = const { Cell::new(None) };
}

impl Shared {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Has `work` timed on its way into a queue, which `admit` is. Gives back what it was made of if it is refused.
    pub(crate) fn admit_timed<R: Run>(
        &self,
        work: R,
        admit: impl FnOnce(Timed<R>) -> Result<(), SubmitError<Timed<R>>>,
    ) -> Result<(), SubmitError<R>> {
        LEFT.take();
        let timed = Timed { work, submitted: Instant::now(), pool: self.address() };
        let admitted = admit(timed).map_err(|refused| refused.map(|timed| timed.work));
        // If the pool was full, the submitter may have run the task itself.
        if let Some(left) = LEFT.take().filter(|left| left.pool == self.address()) {
            self.latency.elsewhere.count(left, add_locked);
        }
        admitted
    }
}

impl<R: Run> Run for Timed<R> {
    const COUNTS_ITSELF: bool = R::COUNTS_ITSELF;

    fn run(self) -> Ran {
        let Self { work, submitted, pool } = self;
        // Of a job that was just submitted this says that somebody has begun it, other than through this entry.
        let runs_elsewhere = work.must_run();
        let begun = Instant::now();
        let ran = work.run();
        // A future that has to wait is not done, and how long it will have run in all is not measured.
        let run = ran.has_ended().then(|| nanos(begun.elapsed()));
        if run.is_none() && runs_elsewhere {
            // Whoever waited for it ran it. What was left in the queue is nothing to be timed.
            return ran;
        }
        let times = Times { pool, wait: nanos(begun - submitted), run };
        match current::worker().filter(|worker| worker.shared.address() == pool) {
            Some(worker) => worker.seat.samples.count(times, bump),
            None => LEFT.set(Some(times)),
        }
        ran
    }

    fn inherits(&self, root: &TaskRef) {
        self.work.inherits(root);
    }

    fn must_run(&self) -> bool {
        self.work.must_run()
    }

    fn part_of(&self) -> PartOf {
        self.work.part_of()
    }

    fn discard(self, why: Verdict) -> Option<Task> {
        self.work.discard(why)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Adds to a counter that many threads write.
fn add_locked(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

/// What one worker has timed, or all other threads. Made when there is something to count.
#[derive(Debug, Default)]
pub(crate) struct Samples(OnceLock<Box<WaitAndRun>>);

#[derive(Debug, Default)]
struct WaitAndRun {
    wait: Counts,
    run: Counts,
}

impl Samples {
    /// Counts a task. `add` is how: by load and store where one thread writes, by a locked addition otherwise.
    fn count(&self, times: Times, add: impl Fn(&AtomicU64, u64)) {
        let samples = self.0.get_or_init(Box::default);
        samples.wait.count(times.wait, &add);
        if let Some(run) = times.run {
            samples.run.count(run, &add);
        }
    }

    /// How many were timed while they ran, and for how long in all.
    pub(crate) fn run(&self) -> (u64, u64) {
        self.0
            .get()
            .map_or((0, 0), |samples| (samples.run.count.load(Relaxed), samples.run.sum.load(Relaxed)))
    }
}

/// Times in nanoseconds, bucket by bucket.
#[derive(Debug)]
struct Counts {
    count: AtomicU64,
    sum: AtomicU64,
    octaves: [OnceLock<Box<[AtomicU64; OCTAVE]>>; BUCKETS / OCTAVE],
}

impl Default for Counts {
    fn default() -> Self {
        let octaves = [const { OnceLock::new() }; BUCKETS / OCTAVE];
        Self { count: AtomicU64::new(0), sum: AtomicU64::new(0), octaves }
    }
}

impl Counts {
    fn count(&self, value: u64, add: impl Fn(&AtomicU64, u64)) {
        let bucket = bucket_of(value);
        let octave =
            self.octaves[bucket / OCTAVE].get_or_init(|| Box::new([const { AtomicU64::new(0) }; OCTAVE]));
        add(&octave[bucket % OCTAVE], 1);
        add(&self.count, 1);
        add(&self.sum, value);
    }
}

/// All that a pool has timed, added up.
pub(crate) struct Timings {
    pub(crate) wait: Histogram,
    pub(crate) run: Histogram,
}

impl Timings {
    pub(crate) fn of(shared: &Shared) -> Self {
        let all = || shared.seats().map(|seat| &seat.samples).chain([&shared.latency.elsewhere]);
        let made = || all().filter_map(|samples| samples.0.get());
        Self { wait: sum(made().map(|samples| &samples.wait)), run: sum(made().map(|samples| &samples.run)) }
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Counts>) -> Histogram {
    let mut buckets = vec![0; BUCKETS];
    let mut total = 0_u64;
    for counts in all {
        total = total.saturating_add(counts.sum.load(Relaxed));
        for (octave, places) in counts.octaves.iter().zip(buckets.chunks_exact_mut(OCTAVE)) {
            let Some(octave) = octave.get() else { continue };
            places.iter_mut().zip(octave.iter()).for_each(|(place, count)| *place += count.load(Relaxed));
        }
    }
    Histogram::from_counts(buckets, total, None).expect("as many buckets as there are")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(latency: &Latency, tasks: usize) -> usize {
        (0..tasks).filter(|_| latency.sample()).count()
    }

    #[test]
    fn one_in_so_many_is_timed_all_or_none() {
        assert_eq!(sampled(&Latency::new(0), 10_000), 0);
        assert_eq!(sampled(&Latency::new(1), 10_000), 10_000);
        for every in [2_usize, 10, 64] {
            let timed = sampled(&Latency::new(every as u32), 10_000 * every);
            assert!((9_998..=10_002).contains(&timed), "{timed} of 10000 times {every}");
        }
    }

    #[test]
    fn tasks_submitted_in_turn_are_all_timed() {
        let latency = Latency::new(64);
        for turns in [2, 3, 64, 128] {
            let mut timed = vec![0; turns];
            for _ in 0..64_000 {
                timed.iter_mut().for_each(|timed| *timed += usize::from(latency.sample()));
            }
            assert!(timed.iter().all(|timed| (990..=1010).contains(timed)), "{turns} kinds: {timed:?}");
        }
    }

    #[test]
    fn counts_add_up_over_threads_and_only_octaves_in_use_are_made() {
        let (mine, shared) = (Counts::default(), Counts::default());
        [3, 70, 1_000_000].into_iter().for_each(|value| mine.count(value, bump));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..1000).for_each(|_| shared.count(1_000_000, add_locked)));
            }
        });
        let all = sum([&mine, &shared].into_iter());
        assert_eq!((all.count(), all.sum()), (2003, 2_001_000_073));
        assert_eq!(all.counts()[bucket_of(1_000_000)], 2001);
        assert_eq!(mine.octaves.iter().filter(|octave| octave.get().is_some()).count(), 3);
    }

    #[test]
    fn bounds_must_rise_and_be_few_and_the_error_says_so() {
        let ms = Duration::from_millis;
        let ask = |bounds: &[Duration]| {
            MetricsConfig { bounds: bounds.to_vec(), ..MetricsConfig::default() }.check()
        };
        assert_eq!(MetricsConfig::default().check(), Ok(()));
        assert_eq!(ask(&[ms(1)]), Ok(()));
        let said = |bounds: &[Duration]| ask(bounds).expect_err("must be refused").to_string();
        let expected = "metrics.bounds: expected 1 to 64 times, each longer than the one before, got";
        assert_eq!(said(&[]), format!("{expected} 0 times"));
        assert_eq!(said(&[ms(1); 65]), format!("{expected} 65 times"));
        assert_eq!(said(&[ms(0), ms(1)]), format!("{expected} 0 s at place 1"));
        assert_eq!(said(&[ms(5), ms(5)]), format!("{expected} 5ms after 5ms"));
        assert_eq!(said(&[ms(1), ms(7), ms(5)]), format!("{expected} 5ms after 7ms"));
    }
}
