//! Processes that share a region are killed at random points, thousands of times, and the survivors go on.
//!
//! This is what version 2 is for, and no model can replace it: real processes, real shared memory, SIGKILL. Four
//! children submit, run, cancel and fetch tasks, sweep, and leave; the parent kills one every 0.2 to 2 ms, sweeps the
//! region and starts another. Some are stopped for a while instead, sweepers among them. Every task has a number and a
//! checksummed payload, and every step leaves a mark in a ledger beside the region. At the end the ledger must add up,
//! and every slot must be free and be given out once.
//!
//! Version 1 goes through the same mill and must get stuck. If it does not, the mill is too gentle to prove anything.
//!
//! `MILLPOND_TORTURE_SECONDS` sets how long each run takes (otherwise: until enough were killed), and
//! `MILLPOND_TORTURE_SEED` repeats the random choices, though not the timing, of an earlier run.

#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "torture/ledger.rs"]
mod ledger;
#[path = "torture/version_1.rs"]
mod version_1;
#[path = "torture/worker.rs"]
mod worker;

use millpond_queue::wpol::Memory;
use millpond_queue::wpol::v2::{
    Config, DeathPolicy, Identity, Peer, Reaper, Region, Submission, Sweep, SweepError,
};
use std::collections::VecDeque;
use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::sleep;
use std::time::{Duration, Instant};
use worker::Worker;

const CHILDREN: usize = 4;
const PARENT: u32 = CHILDREN as u32;
const SLOTS: u32 = 64;
const KILLS: u64 = 2_000;
const IDS: usize = 4 << 20;
const LEDGER_BYTES: usize = 4096 + 4 * IDS;
/// One run at a time: each wants both processors.
static MILL: Mutex<()> = Mutex::new(());

fn config() -> Config {
    Config {
        lanes: 2,
        lane_capacity: 64,
        slots: SLOTS,
        slot_stride: 256,
        attach_records: PARENT + 1,
        segment: 77,
    }
}

/// The first page of the mapping: what the parent and the children tell each other.
#[repr(C)]
struct Page {
    next_id: AtomicU64,
    /// Tasks started, in all: whether anything moves.
    progress: AtomicU64,
    /// Payloads or results that were not what they should be.
    torn: AtomicU64,
    /// Tasks started twice although no worker of theirs had died, or finished twice.
    doubled: AtomicU64,
    /// 1: submit no more, finish what there is, leave.
    stop: AtomicU32,
    /// Steps of each child since it was started; 0 means not attached yet.
    steps: [AtomicU32; CHILDREN],
    /// 1 from when a child was seen dead until the next one is started in its place. This is how a child that
    /// sweeps knows who is dead.
    dead: [AtomicU32; CHILDREN],
}

/// The mapping: one page, one word per task, the region.
struct Mill {
    base: *mut u8,
    bytes: usize,
    descriptor: i32,
}

impl Mill {
    /// A fresh mapping; its descriptor is inherited by the children.
    fn create(region_bytes: usize) -> Self {
        // SAFETY: the name is a C literal; the kernel copies it during the call.
        let descriptor = unsafe { libc::memfd_create(c"millpond-torture".as_ptr(), 0) };
        assert!(descriptor >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        let bytes = LEDGER_BYTES + region_bytes;
        // SAFETY: the descriptor was just made here, and no memory is involved.
        let sized = unsafe { libc::ftruncate(descriptor, bytes as i64) };
        assert_eq!(sized, 0, "ftruncate: {}", std::io::Error::last_os_error());
        Self::map(descriptor, bytes)
    }

    fn map(descriptor: i32, bytes: usize) -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is at least this long; the result is checked.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, libc::MAP_SHARED, descriptor, 0) };
        assert_ne!(base, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Self { base: base.cast(), bytes, descriptor }
    }

    fn page(&self) -> &Page {
        // SAFETY: the first page of the mapping, which lives as long as `self`, and only atomics in it.
        unsafe { &*self.base.cast::<Page>() }
    }

    /// The ledger's word for a task; one word takes what is out of range, so that nonsense shows and does not crash.
    fn mark(&self, id: u64) -> &AtomicU32 {
        let word = self.base.wrapping_add(4096 + 4 * (id as usize).min(IDS - 1));
        // SAFETY: inside the ledger, aligned, mapped as long as `self` lives, and touched by atomics only.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    fn region(&self, bytes: usize) -> Memory {
        let start = self.base.wrapping_add(LEDGER_BYTES);
        // SAFETY: the rest of the mapping, otherwise untouched; callers drop it before the mill, as locals do.
        unsafe { Memory::from_raw(start, bytes) }.unwrap()
    }
}

impl Drop for Mill {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and everything over it has been dropped.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
        // SAFETY: the descriptor is this value's own, and this is its last use.
        unsafe { libc::close(self.descriptor) };
    }
}

/// A small xorshift; the seed is printed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn seed() -> u64 {
    let given = env::var("MILLPOND_TORTURE_SEED").ok();
    let seed = given.map_or_else(
        || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
        |text| text.parse().expect("MILLPOND_TORTURE_SEED: expected a whole number, not 0"),
    );
    assert_ne!(seed, 0, "MILLPOND_TORTURE_SEED: expected a whole number, not 0");
    println!("MILLPOND_TORTURE_SEED={seed}");
    seed
}

// ---- The child -------------------------------------------------------------------------------------------------

/// Not a test: the children's way in. Without the parent's order it does nothing.
#[test]
fn the_child_of_the_other_tests() {
    let Ok(order) = env::var("MILLPOND_TORTURE_ORDER") else { return };
    let numbers: Vec<u64> = order.split(',').map(|number| number.parse().unwrap()).collect();
    let [descriptor, version, region_bytes, attempts_max, index, seed, parent] = numbers[..] else {
        panic!("bad order: {order}")
    };
    // SAFETY: no memory is involved. Children must not outlive the test, however it ends.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // The parent may have died before that line.
    if u64::from(std::os::unix::process::parent_id()) != parent {
        return;
    }
    let mill = Mill::map(descriptor as i32, LEDGER_BYTES + region_bytes as usize);
    let memory = mill.region(region_bytes as usize);
    if version == 1 {
        return version_1::run_child(&mill, memory, index as usize);
    }
    let region = Region::open(memory).unwrap();
    let identity = Identity { pid: std::process::id(), ..Identity::default() };
    let peer = region.attach_record(index as u32, identity).unwrap();
    let mut random = Random(seed | 1);
    let role = random.below(3);
    let mut worker = Worker {
        mill: &mill,
        peer: &peer,
        index: index as usize,
        policy: policy_of(attempts_max),
        random,
        reaper: Reaper::default(),
        tickets: VecDeque::new(),
    };
    worker.run(role);
}

/// The policy as a number, for the children's order.
fn policy_of(attempts_max: u64) -> DeathPolicy {
    match attempts_max {
        0 => DeathPolicy::Fail,
        deaths => DeathPolicy::Requeue { attempts_max: deaths as u8 },
    }
}

// ---- The parent ------------------------------------------------------------------------------------------------

/// The children, and who of them is stopped.
struct Crew<'m> {
    mill: &'m Mill,
    version: u64,
    region_bytes: usize,
    attempts_max: u64,
    random: Random,
    children: [Option<Child>; CHILDREN],
    /// Who is stopped, and for how many more rounds.
    stopped: Option<(usize, u64)>,
    kills: u64,
}

impl<'m> Crew<'m> {
    fn new(mill: &'m Mill, version: u64, region_bytes: usize, attempts_max: u64, seed: u64) -> Self {
        let mut crew = Self {
            mill,
            version,
            region_bytes,
            attempts_max,
            random: Random(seed),
            children: [const { None }; CHILDREN],
            stopped: None,
            kills: 0,
        };
        crew.spawn_all();
        crew
    }

    fn spawn_all(&mut self) {
        (0..CHILDREN).for_each(|index| self.spawn(index));
    }

    fn spawn(&mut self, index: usize) {
        self.mill.page().steps[index].store(0, SeqCst);
        self.mill.page().dead[index].store(0, SeqCst);
        let (descriptor, bytes, seed) = (self.mill.descriptor, self.region_bytes, self.random.next());
        let (version, attempts_max, parent) = (self.version, self.attempts_max, std::process::id());
        let order = format!("{descriptor},{version},{bytes},{attempts_max},{index},{seed},{parent}");
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_of_the_other_tests", "--test-threads=1"])
            .env("MILLPOND_TORTURE_ORDER", order)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.children[index] = Some(child);
    }

    /// Kills a child, if there is one, mostly when it is at work. Now and then one is only stopped, for some rounds.
    /// Also notices a child that left in good order.
    fn kill_one(&mut self) -> Option<usize> {
        self.let_go_on();
        let index = self.random.below(CHILDREN as u64) as usize;
        if self.has_left(index) {
            return Some(index);
        }
        let is_at_work = self.mill.page().steps[index].load(SeqCst) != 0;
        if !is_at_work && self.random.below(8) != 0 {
            return None;
        }
        if is_at_work && self.stopped.is_none() && self.random.below(32) == 0 {
            self.signal(index, libc::SIGSTOP);
            self.stopped = Some((index, 1 + self.random.below(8)));
            return None;
        }
        let child = self.children[index].as_mut()?;
        child.kill().unwrap();
        let status = child.wait().unwrap();
        // One that leaves in good order may be faster than the signal.
        let is_killed = status.signal() == Some(libc::SIGKILL);
        assert!(is_killed || status.success(), "child {index} failed: {status}");
        self.kills += u64::from(is_killed);
        self.bury(index);
        Some(index)
    }

    /// Whether a child is gone by itself. One that failed by itself has found something.
    fn has_left(&mut self, index: usize) -> bool {
        let Some(status) = self.children[index].as_mut().and_then(|child| child.try_wait().unwrap()) else {
            return false;
        };
        assert!(status.success(), "child {index} failed: {status}");
        self.bury(index);
        true
    }

    /// After a child has been waited for: it will never touch the memory again.
    fn bury(&mut self, index: usize) {
        self.mill.page().dead[index].store(1, SeqCst);
        self.children[index] = None;
        self.stopped = self.stopped.filter(|(stopped, _)| *stopped != index);
    }

    /// Counts down the rounds of a stopped child.
    fn let_go_on(&mut self) {
        self.stopped = match self.stopped {
            Some((index, 0)) => {
                self.signal(index, libc::SIGCONT);
                None
            }
            Some((index, rounds)) => Some((index, rounds - 1)),
            None => None,
        };
    }

    fn signal(&self, index: usize, signal: i32) {
        if let Some(child) = &self.children[index] {
            // SAFETY: a signal to a child of ours that has not been waited for, so the number is still its own.
            unsafe { libc::kill(child.id() as i32, signal) };
        }
    }

    fn pause(&mut self) {
        sleep(Duration::from_micros(200 + self.random.below(1_800)));
    }

    /// Tells all to finish, and waits until they have.
    fn finish(&mut self) {
        self.mill.page().stop.store(1, SeqCst);
        if let Some((index, _)) = self.stopped.take() {
            self.signal(index, libc::SIGCONT);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        for (index, child) in self.children.iter_mut().enumerate() {
            let Some(child) = child else { continue };
            let status = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break status,
                    None if Instant::now() > deadline => panic!("child {index} does not come to an end"),
                    None => sleep(Duration::from_millis(1)),
                }
            };
            assert!(status.success(), "child {index} failed: {status}");
        }
        self.children = [const { None }; CHILDREN];
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How long, or how many kills.
fn is_over(started: Instant, kills: u64) -> bool {
    match env::var("MILLPOND_TORTURE_SECONDS").ok() {
        Some(seconds) => {
            started.elapsed().as_secs() >= seconds.parse().expect("MILLPOND_TORTURE_SECONDS: whole seconds")
        }
        None => kills >= KILLS,
    }
}

/// Rounds until it is over. A round ends early when the ledger is full; the next one has a fresh one.
fn torture(attempts_max: u64) {
    let _turn = MILL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut random, started, mut kills) = (Random(seed()), Instant::now(), 0);
    while !is_over(started, kills) {
        kills += torture_round(attempts_max, random.next(), |so_far| is_over(started, kills + so_far));
    }
}

fn torture_round(attempts_max: u64, seed: u64, is_over: impl Fn(u64) -> bool) -> u64 {
    let (bytes, policy) = (config().bytes().unwrap(), policy_of(attempts_max));
    let mill = Mill::create(bytes);
    // Old enough that sequence numbers pass their half during the run.
    let region = Region::create_at(mill.region(bytes), config(), ((1 << 30) - 40) * 64).unwrap();
    let parent = region.attach_record(PARENT, Identity::default()).unwrap();
    let mut reaper = Reaper::default();
    let mut total = Sweep::default();
    let mut crew = Crew::new(&mill, 2, bytes, attempts_max, seed);
    let started = Instant::now();
    let (mut moved, mut rounds, mut progress) = (started, 0, 0);
    while !is_over(crew.kills) && mill.page().next_id.load(SeqCst) < IDS as u64 - 100_000 {
        crew.pause();
        // Sometimes two die before anybody sweeps.
        for _ in 0..1 + u64::from(crew.random.below(4) == 0) {
            crew.kill_one();
        }
        sweep(&mill, &parent, &mut reaper, policy, &mut total);
        // A record still in use waits for a child that sweeps, or is stopped in its sweep.
        let in_use = region.records();
        let is_free = |index: usize| in_use.iter().all(|record| record.index as usize != index);
        let empty = (0..CHILDREN).filter(|index| crew.children[*index].is_none() && is_free(*index));
        empty.collect::<Vec<_>>().into_iter().for_each(|index| crew.spawn(index));
        let now = mill.page().progress.load(SeqCst);
        (moved, rounds, progress) =
            if now == progress { (moved, rounds + 1, now) } else { (Instant::now(), 0, now) };
        let stands_still = moved.elapsed() > Duration::from_secs(10) && rounds > 300;
        assert!(!stands_still, "no progress for {rounds} rounds: {:?} {in_use:?}", region.census());
    }
    crew.finish();
    settle(&mill, &parent, &mut reaper, policy, &mut total);
    check_slots(&region, &parent);
    ledger::check(&mill, policy, crew.kills, &total, started);
    crew.kills
}

/// One sweep by the parent, unless a live child is at it.
fn sweep(mill: &Mill, parent: &Peer, reaper: &mut Reaper, policy: DeathPolicy, total: &mut Sweep) {
    let is_dead = |index: u32| mill.page().dead[index as usize].load(SeqCst) != 0;
    match reaper.sweep(parent, 0, policy, is_dead) {
        Ok(sweep) => add(total, sweep),
        Err(SweepError::AnotherReaper) => {}
        Err(refusal) => panic!("{refusal}"),
    }
}

fn add(total: &mut Sweep, sweep: Sweep) {
    total.buried += sweep.buried;
    total.freed += sweep.freed;
    total.requeued += sweep.requeued;
    total.failed += sweep.failed;
    total.orphaned += sweep.orphaned;
    total.relisted += sweep.relisted;
}

/// After everybody has left: a few sweeps bring back every hint, and the parent runs what is left.
fn settle(mill: &Mill, parent: &Peer, reaper: &mut Reaper, policy: DeathPolicy, total: &mut Sweep) {
    let mut worker = Worker {
        mill,
        peer: parent,
        index: 0,
        policy,
        random: Random(1),
        reaper: Reaper::default(),
        tickets: VecDeque::new(),
    };
    for _ in 0..4 {
        sweep(mill, parent, reaper, policy, total);
        while worker.take() {}
    }
}

/// Every slot is free, and is given out exactly once.
fn check_slots(region: &Region, parent: &Peer) {
    assert_eq!(region.census().free, SLOTS, "{:?}", region.census());
    let mut slots: Vec<u32> = Vec::new();
    let mut tickets = Vec::new();
    while let Ok(ticket) = parent.submit(Submission::default()) {
        slots.push(ticket.slot);
        tickets.push(ticket);
    }
    slots.sort_unstable();
    assert_eq!(slots, (0..SLOTS).collect::<Vec<_>>());
}

#[test]
fn killed_peers_lose_no_slot_and_run_no_task_twice() {
    torture(0);
}

#[test]
fn killed_workers_tasks_run_again_and_only_theirs() {
    torture(255);
}
