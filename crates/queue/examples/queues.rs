//! The queues at work: two producers, two workers who rob each other, and a gate behind which the results come in.
//!
//! ```text
//!  producer ─┐            ┌─ worker: own StealQueue ─┐
//!            ├──► Ring ──►│        ▲ steal ▼         ├──► Gate ──► collector (this thread)
//!  producer ─┘   chunks   └─ worker: own StealQueue ─┘  results
//! ```
//!
//! It counts the primes below twenty million. A producer cuts its half of the numbers into chunks; a worker takes a
//! chunk, cuts it into tasks for its own queue, and runs them. A worker with nothing to do robs the other. The number
//! of primes is known, so the program checks its own work and ends with an error if a task was lost or done twice.
//!
//! ```sh
//! cargo run --release --example queues -p millpond-queue
//! ```
//!
//! `MILLPOND_EXAMPLE_QUICK=1` makes it short.

use millpond_queue::{Gate, Refusal, Ring, Steal, StealQueue, Stealer};
use std::error::Error;
use std::io::{IsTerminal, Write, stderr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Numbers per task: small enough that the two workers end together, large enough to be worth a queue.
const TASK_NUMBERS: u32 = 100;
/// Tasks per chunk.
const CHUNK_TASKS: u32 = 32;
/// How long a producer waits when the ring is full: less than it takes the workers to empty it.
const BREAK: Duration = Duration::from_micros(200);
const PRODUCERS: u32 = 2;
const WORKERS: usize = 2;

/// How many primes there are below the limit, and how many tasks it took to find them.
struct Job {
    limit: u32,
    primes: u64,
    tasks: usize,
}

impl Job {
    fn chosen() -> Self {
        let (limit, primes) = match env::var_os("MILLPOND_EXAMPLE_QUICK") {
            Some(_) => (500_000, 41_538),
            None => (20_000_000, 1_270_607),
        };
        Self { limit, primes, tasks: limit.div_ceil(TASK_NUMBERS) as usize }
    }

    /// The numbers of one producer, in chunks.
    fn chunks(&self, producer: u32) -> impl Iterator<Item = Range<u32>> {
        let limit = self.limit;
        let chunk = TASK_NUMBERS * CHUNK_TASKS;
        let starts = (producer * chunk..limit).step_by((PRODUCERS * chunk) as usize);
        starts.map(move |start| start..(start + chunk).min(limit))
    }
}

/// What the threads share.
struct Mill {
    /// Chunks of numbers on their way from the producers to the workers.
    chunks: Ring<Range<u32>>,
    /// Counts of primes on their way from the workers to the collector.
    results: Gate<u64>,
    /// Tasks not yet done; the workers go home when it reaches 0.
    tasks_left: AtomicUsize,
    workers_left: AtomicUsize,
    /// Chunks the full ring handed back, to be tried again.
    chunks_refused: AtomicU64,
    /// Results the full gate handed back, for which the worker then waited.
    results_refused: AtomicU64,
    steals: AtomicU64,
    tasks_stolen: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let job = Job::chosen();
    let mill = Mill {
        chunks: Ring::with_capacity(16)?,
        results: Gate::with_capacity(100)?,
        tasks_left: AtomicUsize::new(job.tasks),
        workers_left: AtomicUsize::new(WORKERS),
        chunks_refused: AtomicU64::new(0),
        results_refused: AtomicU64::new(0),
        steals: AtomicU64::new(0),
        tasks_stolen: AtomicU64::new(0),
    };
    let start = Instant::now();
    let (primes, results) = thread::scope(|scope| {
        let (mill, job) = (&mill, &job);
        for producer in 0..PRODUCERS {
            scope.spawn(move || produce(mill, job.chunks(producer)));
        }
        let own: [StealQueue<Range<u32>>; WORKERS] = [StealQueue::new(), StealQueue::new()];
        let mut victims = own.each_ref().map(StealQueue::stealer);
        victims.rotate_left(1);
        for (own, victim) in own.into_iter().zip(victims) {
            scope.spawn(move || Worker { mill, own, victim }.run());
        }
        collect(mill, job)
    });
    report(&mill, &job, start.elapsed());
    if (primes, results) != (job.primes, job.tasks) {
        let Job { limit, primes: expected, tasks } = job;
        return Err(format!(
            "primes below {limit}: expected {expected} in {tasks} results, got {primes} in {results}; \
             a task was lost or doubled"
        )
        .into());
    }
    println!("{primes} primes below {}, as it should be", job.limit);
    Ok(())
}

/// Pushes every chunk. A full ring hands it back, and the producer takes a break before it tries again.
fn produce(mill: &Mill, chunks: impl Iterator<Item = Range<u32>>) {
    for chunk in chunks {
        let mut answer = mill.chunks.push(chunk);
        while let Err(chunk) = answer {
            mill.chunks_refused.fetch_add(1, Ordering::Relaxed);
            thread::sleep(BREAK);
            answer = mill.chunks.push(chunk);
        }
    }
}

struct Worker<'a> {
    mill: &'a Mill,
    own: StealQueue<Range<u32>>,
    victim: Stealer<Range<u32>>,
}

impl Worker<'_> {
    fn run(self) {
        // The square root of twenty million.
        let divisors = primes_to(4_473);
        while self.mill.tasks_left.load(Ordering::Relaxed) > 0 {
            match self.find() {
                Some(task) => {
                    self.mill.tasks_left.fetch_sub(1, Ordering::Relaxed);
                    self.deliver(task.filter(|number| is_prime(*number, &divisors)).count() as u64);
                }
                None => thread::yield_now(),
            }
        }
        // The last one out closes the gate; what it accepted before is still served.
        if self.mill.workers_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.mill.results.close();
        }
    }

    /// Own work first, since its data is warm; then half of what the other one has, so that what was begun is finished;
    /// then a new chunk.
    fn find(&self) -> Option<Range<u32>> {
        self.own.pop().or_else(|| self.rob()).or_else(|| self.take_chunk())
    }

    fn take_chunk(&self) -> Option<Range<u32>> {
        let chunk = self.mill.chunks.pop()?;
        for start in chunk.clone().step_by(TASK_NUMBERS as usize) {
            let task = start..(start + TASK_NUMBERS).min(chunk.end);
            self.own.push(task).expect("a chunk is far smaller than the limit of the queue");
        }
        self.own.pop()
    }

    fn rob(&self) -> Option<Range<u32>> {
        // `Retry` means that the owner or another thief was faster; the caller comes back anyway.
        let Steal::Success(task) = self.victim.steal_batch_and_pop(&self.own) else { return None };
        self.mill.steals.fetch_add(1, Ordering::Relaxed);
        self.mill.tasks_stolen.fetch_add(1 + self.own.len() as u64, Ordering::Relaxed);
        Some(task)
    }

    /// Tries without waiting first, to see how often the gate is full; then waits.
    fn deliver(&self, primes: u64) {
        if let Err(Refusal::Full(primes)) = self.mill.results.try_enqueue(primes) {
            self.mill.results_refused.fetch_add(1, Ordering::Relaxed);
            self.mill.results.enqueue(primes).expect("the gate is closed only when all results are in");
        }
    }
}

/// Adds the results up until the gate is closed and drained. Returns the sum and how many there were.
fn collect(mill: &Mill, job: &Job) -> (u64, usize) {
    let show_progress = stderr().is_terminal();
    let (mut primes, mut results) = (0, 0);
    while let Some(found) = mill.results.dequeue() {
        primes += found;
        results += 1;
        if show_progress && results % (job.tasks / 100).max(1) == 0 {
            draw_progress(results, job.tasks);
        }
    }
    if show_progress {
        // Wipes the bar away, so that the report stands alone.
        let _ = write!(stderr(), "\r{:60}\r", "");
    }
    (primes, results)
}

fn draw_progress(done: usize, all: usize) {
    const WIDTH: usize = 40;
    let filled = WIDTH * done / all;
    let _ =
        write!(stderr(), "\r[{}{}] {:3} %", "=".repeat(filled), " ".repeat(WIDTH - filled), 100 * done / all);
    let _ = stderr().flush();
}

fn report(mill: &Mill, job: &Job, elapsed: Duration) {
    let gate = mill.results.stats();
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let seconds = elapsed.as_secs_f64();
    println!(
        "numbers    {} in {seconds:.2} s, {:.1} million a second",
        job.limit,
        f64::from(job.limit) / seconds / 1e6
    );
    println!("tasks      {}, {:.0} a second", job.tasks, job.tasks as f64 / seconds);
    println!("stolen     {} tasks in {} steals", load(&mill.tasks_stolen), load(&mill.steals));
    println!("ring       {} chunks handed back and tried again", load(&mill.chunks_refused));
    println!(
        "gate       {} of {} at most, {} results handed back and waited for",
        gate.len_max,
        gate.capacity,
        load(&mill.results_refused)
    );
    println!(
        "waits      mean {:?}, longest {:?}, {} measured",
        gate.wait_mean, gate.wait_max, gate.waits_measured
    );
}

/// Whether a number has no divisor among the primes up to its square root.
fn is_prime(number: u32, divisors: &[u32]) -> bool {
    number >= 2
        && divisors
            .iter()
            .take_while(|divisor| **divisor * **divisor <= number)
            .all(|divisor| !number.is_multiple_of(*divisor))
}

fn primes_to(limit: u32) -> Vec<u32> {
    let mut primes = Vec::new();
    for number in 2..=limit {
        if is_prime(number, &primes) {
            primes.push(number);
        }
    }
    primes
}
