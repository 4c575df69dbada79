//! Processes that share a region are killed at random points, thousands of times, and the survivors go on.
//!
//! This is what version 2 is for, and no model can replace it: real processes, real shared memory, SIGKILL. Four
//! children submit, run, cancel and fetch tasks; the parent kills one every 0.2 to 2 ms, reaps it, sweeps the region
//! and starts another. Every task has a number and a checksummed payload, and every step leaves a mark in a ledger
//! beside the region. At the end the ledger must add up, and every slot must be free and be given out once.
//!
//! Version 1 goes through the same mill and must get stuck. If it does not, the mill is too gentle to prove anything.
//!
//! `MILLPOND_TORTURE_SECONDS` sets how long each run takes (otherwise: until enough were killed), and
//! `MILLPOND_TORTURE_SEED` repeats the random choices, though not the timing, of an earlier run.

#![cfg(all(target_os = "linux", not(any(loom, shuttle))))]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use millpond_queue::wpol::Memory;
use millpond_queue::wpol::v1::{Entry, PopError, PushError, Queue};
use millpond_queue::wpol::v2::{
    Cancel, Config, DeathPolicy, Identity, Peer, Progress, Reaper, Region, Running, StartError, Submission,
    Sweep, Ticket,
};
use std::collections::VecDeque;
use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

// ---- Marks in the ledger, one word per task ------------------------------------------------------------------

/// The low byte counts starts.
const STARTS: u32 = 0xFF;
const ATTEMPTED: u32 = 1 << 16;
const ACCEPTED: u32 = 1 << 17;
const REFUSED: u32 = 1 << 18;
const CANCELLING: u32 = 1 << 19;
const CANCELLED: u32 = 1 << 20;
const FINISHING: u32 = 1 << 21;
const FINISHED: u32 = 1 << 22;

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
    println!("MILLPOND_TORTURE_SEED={seed}");
    seed
}

// ---- Payloads --------------------------------------------------------------------------------------------------

fn payload(id: u64, bytes: &mut Vec<u8>) {
    let mut random = Random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    bytes.clear();
    bytes.extend(id.to_le_bytes());
    for _ in 0..random.below(12) {
        bytes.extend(random.next().to_le_bytes());
    }
    let sum = bytes.iter().fold(17_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    bytes.extend(&sum.to_le_bytes()[..5]);
}

fn result_of(id: u64) -> [u8; 8] {
    (id ^ 0x00FF_00FF_00FF_00FF).to_le_bytes()
}

// ---- The child -------------------------------------------------------------------------------------------------

/// Not a test: the children's way in. Without the parent's order it does nothing.
#[test]
fn the_child_of_the_other_tests() {
    let Ok(order) = env::var("MILLPOND_TORTURE_ORDER") else { return };
    // SAFETY: no memory is involved. Children must not outlive the test, however it ends.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let numbers: Vec<u64> = order.split(',').map(|number| number.parse().unwrap()).collect();
    let [descriptor, version, region_bytes, index, seed] = numbers[..] else { panic!("bad order: {order}") };
    let mill = Mill::map(descriptor as i32, LEDGER_BYTES + region_bytes as usize);
    let memory = mill.region(region_bytes as usize);
    if version == 1 {
        return run_child_of_version_1(&mill, memory, index as usize);
    }
    let region = Region::open(memory).unwrap();
    let peer = region
        .attach_record(index as u32, Identity { pid: std::process::id(), ..Identity::default() })
        .unwrap();
    let mut random = Random(seed | 1);
    let role = random.below(3);
    let mut worker =
        Worker { mill: &mill, peer: &peer, index: index as usize, random, tickets: VecDeque::new() };
    worker.run(role);
}

struct Worker<'m> {
    mill: &'m Mill,
    peer: &'m Peer,
    index: usize,
    random: Random,
    tickets: VecDeque<(Ticket, u64)>,
}

impl Worker<'_> {
    /// Role 0 mostly submits, 1 mostly runs, 2 does both, until told to stop; then everybody runs what is left.
    fn run(&mut self, role: u64) {
        let mut idle = 0;
        while idle < 3 || !self.tickets.is_empty() {
            let stopping = self.mill.page().stop.load(SeqCst) != 0;
            self.mill.page().steps[self.index].fetch_add(1, Relaxed);
            let submits = match role {
                0 => true,
                1 => false,
                _ => self.random.below(2) == 0,
            };
            let busy = if submits && !stopping { self.submit() } else { self.take() };
            self.look_after_tickets(stopping);
            idle = if stopping && !busy { idle + 1 } else { 0 };
            if !busy && !stopping {
                self.rest(submits);
            }
        }
    }

    /// Mostly looks again at once, since a kill during sleep proves little; but sleepers must be killed too.
    fn rest(&mut self, submits: bool) {
        match (self.random.below(8), submits) {
            (0, true) => drop(self.peer.wait_slot(Duration::from_micros(300))),
            (0, false) => drop(self.peer.wait_items(Duration::from_micros(300))),
            _ => std::thread::yield_now(),
        }
    }

    /// One task or a batch.
    fn submit(&mut self) -> bool {
        let count = if self.random.below(4) == 0 { 1 + self.random.below(6) } else { 1 };
        let first = self.mill.page().next_id.fetch_add(count, SeqCst) + 1;
        if first as usize + count as usize >= IDS {
            return false;
        }
        let ids: Vec<u64> = (first..first + count).collect();
        let mut bytes = vec![Vec::new(); ids.len()];
        ids.iter().zip(&mut bytes).for_each(|(id, bytes)| payload(*id, bytes));
        let lane = self.random.below(2) as u32;
        let batch: Vec<Submission<'_>> = ids
            .iter()
            .zip(&bytes)
            .map(|(id, payload)| Submission { lane, task: *id, payload, ..Submission::default() })
            .collect();
        for id in &ids {
            self.mill.mark(*id).fetch_or(ATTEMPTED, SeqCst);
        }
        let mut tickets = Vec::new();
        let done = match batch.len() {
            1 => self.peer.submit(batch[0]).map(|ticket| tickets.push(ticket)).map_or(0, |()| 1),
            _ => self.peer.submit_batch(&batch, &mut tickets).unwrap_or(0),
        };
        for (at, id) in ids.iter().enumerate() {
            self.mill.mark(*id).fetch_or(if at < done { ACCEPTED } else { REFUSED }, SeqCst);
        }
        self.tickets.extend(tickets.into_iter().zip(ids));
        done > 0
    }

    /// Runs one task or a few.
    fn take(&mut self) -> bool {
        let count = if self.random.below(4) == 0 { 3 } else { 1 };
        let mut tasks = Vec::new();
        match self.peer.start_batch(0, count, &mut tasks) {
            Ok(_) => {}
            Err(StartError::Poisoned) => panic!("poisoned"),
            Err(_) => return false,
        }
        for running in tasks {
            self.run_task(running);
        }
        true
    }

    fn run_task(&self, running: Running<'_>) {
        let (page, id) = (self.mill.page(), running.task());
        let mark = self.mill.mark(id);
        let started = mark.fetch_add(1, SeqCst);
        // Every earlier start must have ended in a death that the reaper counted.
        if started & STARTS > u32::from(running.attempts()) {
            page.doubled.fetch_add(1, SeqCst);
        }
        let mut expected = Vec::new();
        payload(id, &mut expected);
        if running.payload() != expected {
            page.torn.fetch_add(1, SeqCst);
        }
        mark.fetch_or(FINISHING, SeqCst);
        if running.finish(id as u32, &result_of(id)).is_ok()
            && mark.fetch_or(FINISHED, SeqCst) & FINISHED != 0
        {
            page.doubled.fetch_add(1, SeqCst);
        }
        page.progress.fetch_add(1, Relaxed);
    }

    /// Fetches results; now and then cancels or gives up a ticket instead.
    fn look_after_tickets(&mut self, stopping: bool) {
        while let Some((ticket, id)) = self.tickets.pop_front() {
            match self.peer.poll(&ticket).expect("a ticket of a live peer stays valid") {
                Progress::Queued | Progress::Running => {
                    if let Some(ticket) = self.be_impatient(ticket, id) {
                        self.tickets.push_front((ticket, id));
                        if self.tickets.len() < 8 || stopping {
                            return;
                        }
                        // Too many open: now and then wait for the oldest.
                        if self.random.below(4) == 0 {
                            let _ = self.peer.wait(&self.tickets[0].0, Duration::from_micros(200));
                        }
                        return;
                    }
                    continue;
                }
                Progress::Done { status } => {
                    let whole = status == id as u32 && self.peer.result(&ticket).unwrap() == result_of(id);
                    self.mill.page().torn.fetch_add(u64::from(!whole), SeqCst);
                }
                _ => {}
            }
            self.peer.release(ticket).expect("a finished task of ours can be released");
        }
    }

    /// The ticket comes back if its task is to go on.
    fn be_impatient(&mut self, ticket: Ticket, id: u64) -> Option<Ticket> {
        match self.random.below(32) {
            0 => {
                self.mill.mark(id).fetch_or(CANCELLING, SeqCst);
                if self.peer.cancel(&ticket).unwrap() == Cancel::Cancelled {
                    self.mill.mark(id).fetch_or(CANCELLED, SeqCst);
                }
                Some(ticket)
            }
            1 => {
                self.peer.detach(ticket).unwrap();
                None
            }
            _ => Some(ticket),
        }
    }
}

// ---- The parent ------------------------------------------------------------------------------------------------

/// The children, and who of them is dead and not yet swept.
struct Crew<'m> {
    mill: &'m Mill,
    version: u64,
    region_bytes: usize,
    random: Random,
    children: [Option<Child>; CHILDREN],
    kills: u64,
}

impl<'m> Crew<'m> {
    fn new(mill: &'m Mill, version: u64, region_bytes: usize, seed: u64) -> Self {
        let mut crew = Self {
            mill,
            version,
            region_bytes,
            random: Random(seed),
            children: [const { None }; CHILDREN],
            kills: 0,
        };
        (0..CHILDREN).for_each(|index| crew.spawn(index));
        crew
    }

    fn spawn(&mut self, index: usize) {
        self.mill.page().steps[index].store(0, SeqCst);
        let (descriptor, bytes, seed) = (self.mill.descriptor, self.region_bytes, self.random.next());
        let order = format!("{descriptor},{},{bytes},{index},{seed}", self.version);
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_of_the_other_tests", "--test-threads=1"])
            .env("MILLPOND_TORTURE_ORDER", order)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.children[index] = Some(child);
    }

    /// Kills a child that is at work, if there is one, and buries it. Now and then one is only stopped for a while.
    fn kill_one(&mut self) -> Option<usize> {
        let index = self.random.below(CHILDREN as u64) as usize;
        if self.mill.page().steps[index].load(SeqCst) == 0 {
            self.check_alive(index);
            return None;
        }
        let child = self.children[index].as_mut()?;
        if self.random.below(32) == 0 {
            // SAFETY: signals to a child of ours that has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGSTOP) };
            sleep(Duration::from_millis(2));
            // SAFETY: the same child, which nobody has waited for since.
            unsafe { libc::kill(child.id() as i32, libc::SIGCONT) };
            return None;
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(
            std::os::unix::process::ExitStatusExt::signal(&status).is_some(),
            "child {index} failed: {status}"
        );
        self.children[index] = None;
        self.kills += 1;
        Some(index)
    }

    /// A child that failed by itself has found something.
    fn check_alive(&mut self, index: usize) {
        if let Some(status) = self.children[index].as_mut().and_then(|child| child.try_wait().unwrap()) {
            panic!("child {index} failed before its first step: {status}");
        }
    }

    fn pause(&mut self) {
        sleep(Duration::from_micros(200 + self.random.below(1_800)));
    }

    /// Tells all to finish, and waits until they have.
    fn finish(&mut self) {
        self.mill.page().stop.store(1, SeqCst);
        let deadline = Instant::now() + Duration::from_secs(20);
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
fn torture(policy: DeathPolicy) {
    let _turn = MILL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut random, started, mut kills) = (Random(seed()), Instant::now(), 0);
    while !is_over(started, kills) {
        kills += torture_round(policy, random.next(), |so_far| is_over(started, kills + so_far));
    }
}

fn torture_round(policy: DeathPolicy, seed: u64, is_over: impl Fn(u64) -> bool) -> u64 {
    let bytes = config().bytes().unwrap();
    let mill = Mill::create(bytes);
    // Old enough that sequence numbers pass their half during the run.
    let region = Region::create_at(mill.region(bytes), config(), ((1 << 30) - 40) * 64).unwrap();
    let parent = region.attach_record(PARENT, Identity::default()).unwrap();
    let mut reaper = Reaper::default();
    let mut total = Sweep::default();
    let mut crew = Crew::new(&mill, 2, bytes, seed);
    let started = Instant::now();
    let (mut moved, mut progress) = (started, 0);
    while !is_over(crew.kills) && mill.page().next_id.load(SeqCst) < IDS as u64 - 100_000 {
        crew.pause();
        // Sometimes two die before anybody sweeps.
        let rounds = 1 + usize::from(crew.random.below(4) == 0);
        let dead: Vec<usize> = (0..rounds).filter_map(|_| crew.kill_one()).collect();
        let sweep = reaper.sweep(&parent, 0, policy, |index| dead.contains(&(index as usize))).unwrap();
        assert_eq!(sweep.buried as usize, dead.len(), "{sweep:?}");
        add(&mut total, sweep);
        dead.into_iter().for_each(|index| crew.spawn(index));
        let now = mill.page().progress.load(SeqCst);
        if now != progress {
            (moved, progress) = (Instant::now(), now);
        }
        assert!(moved.elapsed() < Duration::from_secs(2), "no progress for 2 s: {:?}", region.census());
    }
    crew.finish();
    settle(&mill, &parent, &mut reaper, policy, &mut total);
    check_slots(&region, &parent);
    check_ledger(&mill, policy, crew.kills, &total, started);
    crew.kills
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
    let mut worker = Worker { mill, peer: parent, index: 0, random: Random(1), tickets: VecDeque::new() };
    for _ in 0..4 {
        add(total, reaper.sweep(parent, 0, policy, |_| false).unwrap());
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

fn check_ledger(mill: &Mill, policy: DeathPolicy, kills: u64, total: &Sweep, started: Instant) {
    let page = mill.page();
    let ids = page.next_id.load(SeqCst).min(IDS as u64 - 1);
    let [mut accepted, mut done, mut cancelled, mut failed, mut doubtful, mut again] = [0_u64; 6];
    for id in 1..=ids {
        let mark = mill.mark(id).load(SeqCst);
        if mark & ATTEMPTED == 0 {
            // Its submitter died before it tried.
            continue;
        }
        assert!(mark & ACCEPTED == 0 || mark & REFUSED == 0);
        assert!(mark & REFUSED == 0 || mark & STARTS == 0, "task {id} was refused and ran: {mark:#x}");
        assert!(
            mark & CANCELLED == 0 || mark & STARTS == 0 || policy != DeathPolicy::Fail,
            "task {id} was cancelled and ran: {mark:#x}"
        );
        assert!(policy != DeathPolicy::Fail || mark & STARTS <= 1, "task {id} was started twice: {mark:#x}");
        again += u64::from(mark & STARTS > 1);
        if mark & ACCEPTED == 0 {
            continue;
        }
        accepted += 1;
        match mark {
            _ if mark & FINISHED != 0 => done += 1,
            _ if mark & CANCELLED != 0 => cancelled += 1,
            // Somebody was killed between doing it and saying so.
            _ if mark & (FINISHING | CANCELLING) != 0 => doubtful += 1,
            _ => failed += 1,
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{policy:?}: {kills} kills in {seconds:.1} s, {accepted} tasks accepted = {done} done + {cancelled} cancelled \
         + {failed} failed + {doubtful} in doubt; {again} run again; {total:?}"
    );
    assert_eq!(page.torn.load(SeqCst), 0, "torn payloads or results");
    assert_eq!(page.doubled.load(SeqCst), 0, "tasks started or finished twice");
    assert_eq!(accepted, done + cancelled + failed + doubtful);
    // What was lost was lost by deaths, at most a batch each, and the reaper knows of every one.
    assert!(failed <= u64::from(total.failed), "{failed} tasks vanished, {} were failed", total.failed);
    assert!(doubtful <= 3 * kills);
    assert!(policy == DeathPolicy::Fail || failed == 0, "requeued tasks must run in the end");
    assert!(done > kills, "the mill did not work");
}

#[test]
fn killed_peers_lose_no_slot_and_run_no_task_twice() {
    torture(DeathPolicy::Fail);
}

#[test]
fn killed_workers_tasks_run_again_and_only_theirs() {
    torture(DeathPolicy::Requeue { attempts_max: 255 });
}

// ---- Version 1 in the same mill ----------------------------------------------------------------------------------

const V1_CAPACITY: u32 = 4;

fn run_child_of_version_1(mill: &Mill, memory: Memory, index: usize) {
    let queue = Queue::attach(memory).unwrap();
    while mill.page().stop.load(Relaxed) == 0 {
        let pushed = queue.push(Entry { priority: 1, slot: index as u32 }).is_ok();
        let popped = queue.pop().is_ok();
        mill.page().progress.fetch_add(u64::from(pushed || popped), Relaxed);
        mill.page().steps[index].fetch_add(1, Relaxed);
    }
}

#[test]
fn version_1_gets_stuck_in_the_same_mill() {
    let _turn = MILL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seed = seed();
    let bytes = Queue::bytes_for(V1_CAPACITY).unwrap();
    let mill = Mill::create(bytes);
    let queue = Queue::create(mill.region(bytes), V1_CAPACITY).unwrap();
    let mut crew = Crew::new(&mill, 1, bytes, seed);
    let started = Instant::now();
    loop {
        crew.pause();
        if let Some(index) = crew.kill_one() {
            crew.spawn(index);
        }
        if is_stuck(&mill) {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(40), "the mill is too gentle: {} kills", crew.kills);
    }
    println!("version 1 stuck after {} kills in {:.1} s", crew.kills, started.elapsed().as_secs_f64());
    // Nobody can bring it back: what is in the way is neither empty nor full, but claimed by the dead.
    let pop = queue.pop_retry(1_000);
    let push = queue.push_retry(Entry { priority: 1, slot: 0 }, 1_000);
    assert!(pop == Err(PopError::Busy) || push == Err(PushError::Busy), "{pop:?}, {push:?}");
}

/// Children at work, and not one push or pop among them for a quarter of a second.
fn is_stuck(mill: &Mill) -> bool {
    let look = || (mill.page().progress.load(SeqCst), steps(mill));
    let (progress, before) = look();
    let deadline = Instant::now() + Duration::from_millis(250);
    loop {
        let (now, after) = look();
        if now != progress {
            return false;
        }
        if Instant::now() > deadline && after > before + 1_000 {
            return true;
        }
        sleep(Duration::from_micros(100));
    }
}

fn steps(mill: &Mill) -> u64 {
    mill.page().steps.iter().map(|steps| u64::from(steps.load(SeqCst))).sum()
}
