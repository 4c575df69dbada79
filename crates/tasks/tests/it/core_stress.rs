//! Everything at once: tasks of every kind from many threads and from tasks, cancelled, timed out, retried,
//! streamed, watched, taken and dropped, on services of every size, which are then ended in any way.
//!
//! Each round starts a service with settings drawn by lot. A ledger has a line for every request that was
//! accepted; when the service is gone each line must say that the task ended once and that everybody was told
//! once, and the lines must agree with the service's own figures.
//!
//! `MILLPOND_STRESS_SECONDS` sets how long it takes (3 if it is not given), and `MILLPOND_SEED` repeats the
//! random choices, though not the timing, of an earlier run.

use crate::toys::{SOON, failure, json, panic_quietly, read_all, until};
use millpond::{BackPressure, PoolConfig};
use millpond_tasks::config::ResultsFull;
use millpond_tasks::error::TABLE;
use millpond_tasks::{
    Accepted, Call, ErrorCode, Handler, ListFilter, Reader, Registry, Said, Service, ServiceConfig,
    ServiceHandle, Submit, Symbols, Task, TaskId, Wants, Watch, Watching,
};
use std::collections::HashMap;
use std::env;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SUBMITTERS: u64 = 3;
/// How many requests each of them hands in, in one round.
const REQUESTS: u64 = 250;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, round: u64, player: u64) -> Self {
        let mut dice = Self(seed ^ (round << 8) ^ player);
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a whole number, got {text:?}")))
}

/// One accepted request, and who was told what about it.
#[derive(Default)]
struct Line {
    is_new: AtomicBool,
    key: Option<u64>,
    retries: u32,
    task: OnceLock<Arc<Task>>,
    called_back: AtomicUsize,
    wants: Option<Wants>,
    told_of_end: AtomicUsize,
    /// Whether its reader stopped watching, so that it need not be told.
    has_left: AtomicBool,
}

/// Everything the threads of a round share.
struct Mill {
    handle: ServiceHandle,
    keys_are_kept: bool,
    lines: Mutex<Vec<Arc<Line>>>,
    /// By tag, before the submission: a reader may be told before `submit` returns.
    readers: Mutex<HashMap<u64, Arc<Line>>>,
    tag: AtomicU64,
    watchings: Mutex<Vec<(Watching, Arc<Line>)>>,
    ids: Mutex<Vec<TaskId>>,
    is_over: AtomicBool,
    /// What callbacks found wrong; a panic in one of them would be caught.
    complaints: Mutex<Vec<String>>,
}

impl Watch for Mill {
    fn told(&self, tag: u64, task: &Arc<Task>) {
        let line = Arc::clone(&self.readers.lock().unwrap()[&tag]);
        let is_stream = matches!(line.wants, Some(Wants::Stream { .. }));
        if !is_stream && !task.is_ended() {
            self.complain(format!("told of {task:?} too early"));
        }
        line.told_of_end.fetch_add(usize::from(task.is_ended()), SeqCst);
    }
}

/// What handlers share: calls that wait for a porter, and counts of what was done on purpose.
#[derive(Default)]
struct Yard {
    calls: Mutex<Vec<Call>>,
    panics: AtomicU64,
    hooks_set: AtomicU64,
    hooks_gone: AtomicU64,
    mill: OnceLock<Weak<Mill>>,
    dice: AtomicU64,
}

/// Is gone when its hook is gone, called or not; a second call is impossible, for a hook is called by value.
struct HookMark(Arc<Yard>);

impl Drop for HookMark {
    fn drop(&mut self) {
        self.0.hooks_gone.fetch_add(1, SeqCst);
    }
}

#[derive(Clone)]
struct Toil(Arc<Yard>);

impl Toil {
    fn dice(&self) -> Dice {
        Dice::new(self.0.dice.fetch_add(1, SeqCst), 0, 0)
    }

    fn set_hook(&self, call: &Call) {
        let mark = HookMark(Arc::clone(&self.0));
        self.0.hooks_set.fetch_add(1, SeqCst);
        call.on_stop(move |_| drop(mark));
    }

    /// What a handler may do with a call, on whatever thread.
    fn work(&self, call: Call, dice: &mut Dice) {
        if dice.one_in(3) {
            self.set_hook(&call);
        }
        match dice.below(12) {
            0 => drop(call),
            1 | 2 => {
                let row = TABLE[1 + dice.below(TABLE.len() as u64 - 1) as usize];
                call.finish(Err(failure(row.code)));
            }
            3 | 4 => self.0.calls.lock().unwrap().push(call),
            5 | 6 => {
                for number in 0..dice.below(40) {
                    call.progress(number as f64 / 40.0);
                    call.log("a line");
                    // A task that was stopped is given up; the answer does not count.
                    if call.partial(json(&number.to_string())).is_err() {
                        break;
                    }
                }
                call.finish_with_args();
            }
            7 => {
                if let Some(mill) = self.0.mill.get().and_then(Weak::upgrade) {
                    mill.submit(dice);
                }
                call.finish(Ok(json("\"and another\"")));
            }
            _ => call.finish_with_args(),
        }
    }
}

impl Handler for Toil {
    fn start(&self, call: Call) {
        let mut dice = self.dice();
        if dice.one_in(20) {
            let _held = call;
            self.0.panics.fetch_add(1, SeqCst);
            return panic_quietly("on purpose");
        }
        self.work(call, &mut dice);
    }
}

impl Mill {
    /// Hands in a random request, and enters it in the ledger if it is accepted.
    fn submit(self: &Arc<Self>, dice: &mut Dice) {
        let key = dice.one_in(5).then(|| dice.below(40));
        let (request, retries) = match key {
            // The same key is always the same request.
            Some(key) => {
                (format!(r#"{{"handler":"toil","retries":{0},"idempotency_key":"{key}"}}"#, key % 3), key % 3)
            }
            None => random_request(dice),
        };
        let wants = match dice.below(4) {
            0 => Some(Wants::Result),
            1 => Some(Wants::Stream { from: dice.below(3) }),
            _ => None,
        };
        let line = Arc::new(Line { wants, key, retries: retries as u32, ..Line::default() });
        let tag = self.tag.fetch_add(1, SeqCst);
        self.readers.lock().unwrap().insert(tag, Arc::clone(&line));
        let who: Arc<dyn Watch> = Arc::clone(self) as Arc<dyn Watch>;
        let reader = wants.map(|wants| Reader { who, tag, wants });
        match self
            .handle
            .submit(request.as_bytes(), Submit { reader, keep: dice.one_in(2), ..Submit::default() })
        {
            Ok(accepted) => self.enter(accepted, line, dice),
            Err(refused) => {
                let expected = matches!(
                    refused.failure.code,
                    ErrorCode::QueueFull
                        | ErrorCode::DuplicateId
                        | ErrorCode::Draining
                        | ErrorCode::ResultGone
                );
                assert!(expected, "{request}: {refused}");
                thread::yield_now();
            }
        }
    }

    fn complain(&self, what: String) {
        self.complaints.lock().unwrap().push(what);
    }

    fn enter(self: &Arc<Self>, accepted: Accepted, line: Arc<Line>, dice: &mut Dice) {
        let Accepted { task, watching, is_new } = accepted;
        line.is_new.store(is_new, SeqCst);
        line.task.set(Arc::clone(&task)).expect("it is entered once");
        let (mill, of_callback) = (Arc::clone(self), Arc::clone(&line));
        task.on_end(move |task, outcome| {
            if task.outcome().is_none_or(|of_task| of_task.status() != outcome.status()) {
                mill.complain(format!("{task:?} has another outcome than its callback"));
            }
            of_callback.called_back.fetch_add(1, SeqCst);
        });
        self.lines.lock().unwrap().push(Arc::clone(&line));
        self.ids.lock().unwrap().push(task.id().clone());
        if let Some(watching) = watching {
            self.watchings.lock().unwrap().push((watching, line));
        }
        match dice.below(20) {
            0 => drop(task.wait(Duration::from_millis(2))),
            1 => drop(self.handle.cancel(task.id())),
            _ => {}
        }
    }

    /// Cancels, takes, looks: whatever a client may do with an id.
    fn meddle(&self, dice: &mut Dice) {
        let id = {
            let ids = self.ids.lock().unwrap();
            ids.get(ids.len().wrapping_sub(1 + dice.below(30) as usize)).cloned()
        };
        let Some(id) = id else { return thread::yield_now() };
        match dice.below(8) {
            0..=2 => drop(self.handle.cancel(&id)),
            3 => drop(self.handle.take(&id)),
            4 => {
                let stats = self.handle.stats();
                assert!(stats.live <= stats.tasks_max + SUBMITTERS as usize + 8, "{stats:?}");
            }
            5 => drop(self.handle.list(&ListFilter { max: Some(5), ..ListFilter::default() })),
            6 => {
                if let Ok(task) = self.handle.get(&id) {
                    assert_eq!(task.status().task_id, id);
                }
            }
            _ => thread::yield_now(),
        }
    }

    /// Reads from some stream, or leaves it.
    fn read(&self, dice: &mut Dice) {
        let taken = {
            let mut watchings = self.watchings.lock().unwrap();
            let at = dice.below(watchings.len().max(1) as u64) as usize;
            if watchings.is_empty() { None } else { Some(watchings.swap_remove(at)) }
        };
        let Some((mut watching, line)) = taken else { return thread::yield_now() };
        let next = watching.next_offset();
        let mut events = Vec::new();
        watching.read(1 << dice.below(12), &mut events);
        in_order(next, &events);
        if dice.one_in(10) {
            line.has_left.store(true, SeqCst);
            drop(watching);
        } else {
            self.watchings.lock().unwrap().push((watching, line));
        }
    }
}

/// Offsets go up by one; what is missing is said to be missed.
fn in_order(next: u64, events: &[millpond_tasks::StreamEvent]) {
    let mut next = next;
    for event in events {
        match event.what {
            Said::Missed(missed) => assert_eq!(event.offset, next + missed),
            // One who came with an offset from the future is told what came in between.
            _ => assert!(event.offset == next || next <= 2 && event.offset < next, "{next}: {event:?}"),
        }
        next = event.offset + u64::from(!matches!(event.what, Said::Missed(_)));
    }
}

/// The text, and how many retries it asks for.
fn random_request(dice: &mut Dice) -> (String, u64) {
    let retries = dice.pick(&[0, 0, 1, 3]);
    let mut text = format!(r#"{{"handler":"toil","args":{{"n":{}}},"retries":{retries}"#, dice.below(10));
    if dice.one_in(4) {
        text += &format!(r#","task_id":{}"#, dice.below(200));
    }
    if dice.one_in(3) {
        text += &format!(r#","delay_ms":{}"#, dice.below(4));
    }
    if dice.one_in(3) {
        text += &format!(r#","timeout_ms":{}"#, 1 + dice.below(5));
    }
    if dice.one_in(4) {
        text += &format!(r#","priority":"{}""#, dice.pick(&["high", "normal", "low"]));
    }
    if dice.one_in(5) {
        text += &format!(r#","affinity":"{}""#, dice.below(5));
    }
    (text + "}", retries)
}

fn random_config(dice: &mut Dice) -> ServiceConfig {
    let mut config = ServiceConfig::default();
    let policies = [
        BackPressure::Reject,
        BackPressure::CallerRuns,
        BackPressure::DropOldest,
        BackPressure::DropNewest,
        BackPressure::Block { timeout: None },
    ];
    config.pool = PoolConfig {
        workers: 1 + dice.below(3) as usize,
        queue_capacity: dice.pick(&[1, 16, 256, 1024]),
        local_capacity: dice.pick(&[1, 1024]),
        inbox_capacity: dice.pick(&[1, 64]),
        spin: Duration::from_micros(dice.pick(&[0, 20])),
        back_pressure: dice.pick(&policies),
        ..PoolConfig::default()
    };
    config.tasks_max = dice.pick(&[3, 50, 100_000, 100_000, 100_000]);
    config.results.max = dice.pick(&[1, 10, 1000]);
    let drops = ResultsFull::DropOldest;
    config.results.full = dice.pick(&[drops, drops, drops, ResultsFull::Refuse, ResultsFull::Block]);
    config.results.age_max = dice.pick(&[None, Some(Duration::from_millis(1))]);
    config.stream.chunks_max = dice.pick(&[1, 4, 100]);
    config.stream.bytes_max = dice.pick(&[200, 100_000]);
    config.stream.reader_wait = Duration::from_micros(dice.pick(&[0, 200, 2000]));
    config.stream.readers_max = dice.pick(&[1, 8]);
    config.retry.backoff_min = Duration::from_micros(dice.pick(&[0, 100, 1000]));
    config.retry.backoff_max = Duration::from_millis(2);
    config.keys.max = dice.pick(&[2, 1000]);
    config
}

/// Tells the threads of a round that it is over, also if it ends with a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Lets everybody loose, and returns when all requests have been handed in and the service has ended.
fn run(mill: &Arc<Mill>, toil: &Toil, service: Service, seed: u64, round: u64) {
    let mut dice = Dice::new(seed, round, 100);
    let (drains, is_early) = (dice.one_in(2), dice.one_in(2));
    let submits = |player: u64| {
        let mut dice = Dice::new(seed, round, player);
        (0..REQUESTS).for_each(|_| mill.submit(&mut dice));
    };
    let ports = |dice: &mut Dice| {
        let call = toil.0.calls.lock().unwrap().pop();
        call.map_or_else(thread::yield_now, |call| toil.work(call, dice));
    };
    let (meddles, reads) = (|dice: &mut Dice| mill.meddle(dice), |dice: &mut Dice| mill.read(dice));
    let others: [&(dyn Fn(&mut Dice) + Sync); 3] = [&ports, &meddles, &reads];
    thread::scope(|scope| {
        let submits = &submits;
        let submitters: Vec<_> = (0..SUBMITTERS).map(|player| scope.spawn(move || submits(player))).collect();
        for (act, player) in others.into_iter().zip(10..) {
            scope.spawn(move || {
                let mut dice = Dice::new(seed, round, player);
                while !mill.is_over.load(SeqCst) {
                    act(&mut dice);
                }
            });
        }
        let _over = Over(&mill.is_over);
        if is_early {
            until("a good part was handed in", || mill.tag.load(SeqCst) > REQUESTS);
        } else {
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        }
        if drains {
            let left = service.drain(SOON).left;
            let stats = mill.handle.stats();
            let unended = mill.handle.list(&ListFilter::default());
            assert_eq!(left, 0, "what is not stopped ends by itself: {unended:?}, {stats:?}");
            assert!(stats.results.kept <= mill.handle.config().results.max, "{stats:?}");
            assert_eq!(stats.stages["ended"], stats.stages.values().sum::<usize>());
            // Whoever ended an earlier attempt may be about to take its time limit out.
            until("only the sweep is planned", || mill.handle.stats().timers <= 1);
        }
        if dice.one_in(3) {
            drop(service);
        } else {
            service.stop(SOON);
        }
    });
}

/// Whether the ledger makes sense and agrees with the service's figures.
fn audit(mill: &Mill, yard: &Yard) {
    yard.calls.lock().unwrap().clear();
    assert_eq!(*mill.complaints.lock().unwrap(), [""; 0]);
    let stats = mill.handle.stats();
    let lines = mill.lines.lock().unwrap();
    let mut runs_of_key = HashMap::<u64, usize>::new();
    for line in lines.iter() {
        let task = line.task.get().unwrap();
        let outcome = task.outcome().unwrap_or_else(|| panic!("{task:?} was accepted and has not ended"));
        assert_eq!(line.called_back.load(SeqCst), 1, "callbacks of {task:?}");
        assert!(outcome.attempts <= line.retries + 1, "{outcome:?} of {task:?}");
        assert_eq!(task.status().stage.name(), "ended", "{task:?}");
        if let Some(key) = line.key.filter(|_| line.is_new.load(SeqCst)) {
            *runs_of_key.entry(key).or_default() += 1;
        }
    }
    if mill.keys_are_kept {
        assert!(runs_of_key.values().all(|runs| *runs == 1), "a key was run twice: {runs_of_key:?}");
    }
    for line in mill.readers.lock().unwrap().values() {
        let Some(task) = line.task.get() else {
            assert_eq!(line.told_of_end.load(SeqCst), 0, "a refused reader was told of an end");
            continue;
        };
        let (told, has_left) = (line.told_of_end.load(SeqCst), line.has_left.load(SeqCst));
        match line.wants {
            Some(Wants::Result) => assert!(told == 1 || has_left && told == 0, "{task:?}: told {told} times"),
            Some(Wants::Stream { .. }) => assert!(told >= 1 || has_left, "{task:?}: never told"),
            None => assert_eq!(told, 0),
        }
    }
    let new = lines.iter().filter(|line| line.is_new.load(SeqCst)).count() as u64;
    let failed: u64 = stats.failed.values().sum();
    assert_eq!((stats.accepted, stats.succeeded + failed), (new, new), "{stats:?}");
    assert_eq!((stats.live, stats.timers), (0, 0), "{stats:?}");
    assert_eq!(stats.stages.values().sum::<usize>(), 0, "{stats:?}");
    assert_eq!(yard.hooks_set.load(SeqCst), yard.hooks_gone.load(SeqCst), "hooks are kept");
    let panicked = mill.handle.pool_metrics().panicked;
    let meant = yard.panics.load(SeqCst);
    // Under caller-runs and from tasks some run in place, where the pool counts them as well.
    assert_eq!(panicked, meant, "panics that were not meant");
}

/// One service, from its start to its end. Returns how many requests it accepted.
fn round(seed: u64, number: u64) -> usize {
    let mut dice = Dice::new(seed, number, 200);
    let config = random_config(&mut dice);
    let shown = format!("round {number} of seed {seed}: {config:?}");
    let yard = Arc::new(Yard { dice: AtomicU64::new(dice.next()), ..Yard::default() });
    let toil = Toil(Arc::clone(&yard));
    let keys_are_kept = config.keys.max == 1000;
    let mut registry = Registry::new();
    registry.add("toil", toil.clone()).unwrap();
    let service = Service::start(config, registry, Symbols::new()).unwrap();
    let mill = Arc::new(Mill {
        handle: service.handle(),
        keys_are_kept,
        lines: Mutex::default(),
        readers: Mutex::default(),
        tag: AtomicU64::new(0),
        watchings: Mutex::default(),
        ids: Mutex::default(),
        is_over: AtomicBool::new(false),
        complaints: Mutex::default(),
    });
    yard.mill.set(Arc::downgrade(&mill)).expect("it is set once");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(&mill, &toil, service, seed, number);
        audit(&mill, &yard);
    }));
    if let Err(panic) = outcome {
        eprintln!("{shown}");
        std::panic::resume_unwind(panic);
    }
    for (mut watching, _) in mill.watchings.lock().unwrap().drain(..) {
        in_order(watching.next_offset(), &read_all(&mut watching));
    }
    let tasks: Vec<Weak<Task>> = {
        let mut lines = mill.lines.lock().unwrap();
        lines.drain(..).map(|line| Arc::downgrade(line.task.get().unwrap())).collect()
    };
    mill.readers.lock().unwrap().clear();
    let kept = tasks.iter().filter(|task| task.upgrade().is_some()).count();
    assert_eq!(kept, 0, "tasks outlive their service: {shown}");
    tasks.len()
}

#[test]
fn every_accepted_task_ends_once_and_everybody_is_told_once() {
    let seconds = number_from("MILLPOND_STRESS_SECONDS").unwrap_or(3);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number_from("MILLPOND_SEED").unwrap_or(now);
    println!("MILLPOND_SEED={seed}");
    let start = Instant::now();
    let (mut rounds, mut tasks) = (0, 0);
    while rounds < 5 || start.elapsed() < Duration::from_secs(seconds) {
        tasks += round(seed, rounds);
        rounds += 1;
    }
    println!("{rounds} rounds, {tasks} tasks in {:.1} s", start.elapsed().as_secs_f64());
}
