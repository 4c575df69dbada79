//! Keeps a pool busy for a while and shows what it tells about itself: a line every second, or the text for Prometheus.
//!
//! The load is made up. Tasks compute for a few to a few hundred microseconds, most of them briefly; one in ten is
//! urgent, one in ten has a key, and now and then so many come at once that some are refused. So every number moves.
//!
//! ```sh
//! cargo run --release --example metrics -p millpond -- --help
//! cargo run --release --example metrics -p millpond -- --format prometheus | promtool check metrics
//! ```
//!
//! It ends with an error if the numbers do not add up. `MILLPOND_EXAMPLE_QUICK=1` makes it short.

mod command_line;

use command_line::{CommandLine, say};
use millpond::{Events, Metrics, MetricsConfig, Pool, PoolConfig, Priority, TaskOptions};
use std::env;
use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "
Keeps a pool busy and shows its metrics.

usage: metrics [options]

  --format NAME  lines: one every second (default); prometheus: the text for Prometheus, once, at the end
  --seconds N    how long (default 5)
  --workers N    how many workers (default 2)
  --every N      time one task in so many (default 128)
";

/// How often the load is looked at anew.
const BEAT: Duration = Duration::from_millis(10);
/// Tasks in a beat, and in one of the beats that are too much.
const TASKS: u32 = 150;
const TASKS_AT_WORST: u32 = 1500;

struct Settings {
    prometheus: bool,
    seconds: usize,
    workers: usize,
    every: u32,
}

impl Settings {
    fn read() -> Result<Self, Box<dyn Error>> {
        let quick = env::var_os("MILLPOND_EXAMPLE_QUICK").is_some();
        let mut words = CommandLine::read(HELP)?;
        let format = words.value("--format")?.unwrap_or_else(|| "lines".into());
        let settings = Self {
            prometheus: match format.to_str() {
                Some("lines") => false,
                Some("prometheus") => true,
                _ => return Err(format!("--format: expected lines or prometheus, got {format:?}").into()),
            },
            seconds: words.count("--seconds", if quick { 1 } else { 5 })?,
            workers: words.count("--workers", 2)?,
            every: words.count_up_to("--every", 128, u32::MAX as usize)? as u32,
        };
        match words.last()? {
            None => Ok(settings),
            Some(word) => Err(format!("{}: expected options only; see --help", word.display()).into()),
        }
    }
}

fn main() -> ExitCode {
    command_line::end("metrics", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let settings = Settings::read()?;
    let pool = Pool::start(PoolConfig {
        workers: settings.workers,
        name: "example".to_owned(),
        metrics: MetricsConfig { sample_every: settings.every, ..MetricsConfig::default() },
        ..PoolConfig::default()
    })?;
    let events = pool.events(1000);
    let (started, mut dice) = (Instant::now(), Dice(42));
    let (mut accepted, mut shown) = (0, 0);
    while started.elapsed() < Duration::from_secs(settings.seconds as u64) {
        let tasks = if dice.roll(20) == 0 { TASKS_AT_WORST } else { TASKS };
        accepted += (0..tasks).filter(|_| submit_one(&pool, &mut dice)).count() as u64;
        std::thread::sleep(BEAT);
        if started.elapsed().as_secs() > shown && !settings.prometheus {
            shown += 1;
            show(&pool.metrics(), &events)?;
        }
    }
    if !pool.drain(Duration::from_secs(30)).is_finished() {
        return Err("the tasks take longer than expected".into());
    }
    let metrics = pool.metrics();
    let said = if settings.prometheus {
        say!("{}", pool.metrics_prometheus().trim_end())
    } else {
        show(&metrics, &events)
    };
    match metrics.ended() {
        ended if ended == accepted => said,
        // Nobody may be reading any more, but what is wrong is wrong.
        ended => Err(format!("{accepted} tasks were taken in, and {ended} have ended").into()),
    }
}

/// Submits one task of some kind; `false` if the pool was full.
fn submit_one(pool: &Pool, dice: &mut Dice) -> bool {
    // Mostly short, seldom long.
    let rounds = 10_000 * (1 + 100 / (1 + dice.roll(100)));
    let work = move || {
        black_box((0..rounds).fold(1_u64, |sum, round| sum.rotate_left(5) ^ round));
    };
    let options = match dice.roll(10) {
        0 => TaskOptions { priority: Priority::High, ..TaskOptions::default() },
        1 => TaskOptions { affinity: Some(dice.roll(16)), ..TaskOptions::default() },
        _ => return pool.try_spawn(work).is_ok(),
    };
    pool.with(&options).try_spawn(work).is_ok()
}

fn show(metrics: &Metrics, events: &Events) -> Result<(), Box<dyn Error>> {
    let busy: Vec<_> =
        metrics.workers.iter().map(|worker| format!("{:.0} %", worker.utilisation * 100.0)).collect();
    say!(
        "{:>5.1} s  {:>8.0} tasks/s  {:>5} wait  {:>6} refused  wait p50 {:>9.1?} p99 {:>9.1?}  run p50 {:>8.1?} \
         p99 {:>8.1?}  busy {}",
        metrics.uptime.as_secs_f64(),
        metrics.throughput.tasks_per_second,
        metrics.tasks_waiting,
        metrics.pressure.refused,
        metrics.wait.p50,
        metrics.wait.p99,
        metrics.run.p50,
        metrics.run.p99,
        busy.join(", "),
    )?;
    let mut told = 0;
    let last = std::iter::from_fn(|| events.try_recv()).inspect(|_| told += 1).last();
    if let Some(last) = last {
        say!("         {told} events, {} missed so far, the last one at {last}", events.missed())?;
    }
    Ok(())
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
