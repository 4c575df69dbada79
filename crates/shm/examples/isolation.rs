//! A program whose handlers may crash: each runs in a process of its own, and the program goes on.
//!
//! Then it measures what that costs: from handing a task in to hearing its result, one task at a time, with worker
//! processes and with threads. `MILLPOND_EXAMPLE_QUICK=1` measures little.
//!
//! ```sh
//! cargo run --release -p millpond-shm --example isolation
//! ```

use millpond_shm::isolate::{Handlers, Zygote, service};
use millpond_tasks::config::{ConfigSources, Isolation, Settings, load};
use millpond_tasks::{Log, Reader, Service, Submit, Task, Wants, Watch, function};
use std::env;
use std::error::Error;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// How many tasks are handed in before the first is waited for.
const UNDER_WAY: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings: Settings = load(&ConfigSources::default()).settings().expect("the defaults are right");
    settings.isolation.mode = Isolation::Process;
    // Before anything that starts a thread.
    let zygote = Zygote::start(&settings, || Ok(handlers()))?;
    let log = Log::new(|level, line| println!("  log: {level} {line}"));
    let isolated = service(&settings, handlers(), &log, Some(zygote))?;
    for request in [r#"{"handler": "square", "args": {"n": 7}}"#, r#"{"handler": "crash", "args": {}}"#] {
        let task = isolated.handle().submit(request.as_bytes(), Submit::default())?.task;
        match task.wait(PATIENCE).ok_or("it took too long")?.result() {
            Ok(value) => println!("{request} => {}", value.get()),
            Err(failure) => println!("{request} => {failure}"),
        }
    }
    let rounds = if env::var_os("MILLPOND_EXAMPLE_QUICK").is_some() { 200 } else { 50_000 };
    measure("worker processes", &isolated, rounds)?;
    isolated.stop(PATIENCE);
    let threads = service(&settings, handlers(), &Log::silent(), None)?;
    measure("threads", &threads, rounds)?;
    threads.stop(PATIENCE);
    Ok(())
}

fn handlers() -> Handlers {
    let square = function(|call| {
        let args: std::collections::HashMap<String, i64> = call.read_args()?;
        let n = args.get("n").copied().unwrap_or(0);
        Ok(serde_json::value::to_raw_value(&(n * n)).expect("a number is JSON"))
    });
    let crash = function(|_| std::process::abort());
    vec![("square".to_owned(), Box::new(square)), ("crash".to_owned(), Box::new(crash))]
}

/// When the last task was heard to have ended, in nanoseconds since `since`; 0 if it has not.
struct Bell {
    since: Instant,
    at: AtomicU64,
}

impl Watch for Bell {
    fn told(&self, _: u64, task: &Arc<Task>) {
        if task.is_ended() {
            self.at.store(self.since.elapsed().as_nanos() as u64, SeqCst);
        }
    }
}

fn measure(name: &str, service: &Service, rounds: usize) -> Result<(), Box<dyn Error>> {
    let handle = service.handle();
    let bell = Arc::new(Bell { since: Instant::now(), at: AtomicU64::new(0) });
    // Tasks that flow: whoever submits looks for the result.
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        bell.at.store(0, SeqCst);
        let who: Arc<dyn Watch> = Arc::clone(&bell) as _;
        let reader = Some(Reader { who, tag: 0, wants: Wants::Result });
        let begin = bell.since.elapsed();
        let how = Submit { reader, keep: false, ..Submit::default() };
        let accepted = handle.submit(br#"{"handler": "square", "args": {"n": 7}}"#, how)?;
        while bell.at.load(SeqCst) == 0 {
            spin_loop();
            thread::yield_now();
        }
        times.push(Duration::from_nanos(bell.at.load(SeqCst)) - begin);
        drop(accepted);
    }
    say(name, "one after the other", &mut times);
    // Many at once.
    let (begin, batches) = (Instant::now(), rounds.div_ceil(UNDER_WAY));
    for _ in 0..batches {
        let how = || Submit { keep: false, ..Submit::default() };
        let submit = |_| handle.submit(br#"{"handler": "square", "args": {"n": 7}}"#, how());
        let under_way = (0..UNDER_WAY).map(submit).collect::<Result<Vec<_>, _>>()?;
        for accepted in under_way {
            accepted.task.wait(PATIENCE).ok_or("it took too long")?;
        }
    }
    let rate = (batches * UNDER_WAY) as f64 / begin.elapsed().as_secs_f64();
    println!("{name}, {UNDER_WAY} at once: {rate:.0} tasks a second");
    // Everybody sleeps before each.
    let mut times = Vec::new();
    for _ in 0..rounds.min(500) {
        thread::sleep(Duration::from_millis(2));
        let begin = Instant::now();
        let task = handle.submit(br#"{"handler": "square", "args": {"n": 7}}"#, Submit::default())?.task;
        task.wait(PATIENCE).ok_or("it took too long")?;
        times.push(begin.elapsed());
    }
    say(name, "after a rest of 2 ms", &mut times);
    Ok(())
}

fn say(name: &str, how: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!("{name}, {how}: median {:.1?}, 99 % within {:.1?}", at(0.5), at(0.99));
}
