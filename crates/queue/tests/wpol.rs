//! What wpol promises to callers: the published bytes, clear refusals, and no trust in what others wrote.
//!
//! Regions outlive the code that wrote them and are shared with code we did not write. So the bytes are pinned by a
//! region written by hand, and everything in a region may be nonsense: whatever the bytes say, an operation answers,
//! soon, without a panic. Random tests print their seed and take it back in `MILLPOND_SEED`.

#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use millpond_queue::wpol::v1::{AllocateError, Entry, PopError, PushError, Queue, Task};
use millpond_queue::wpol::v2::{
    Cancel, Config, DeathPolicy, FinishError, Identity, Peer, Progress, Reaper, Region, StartError,
    Submission, SubmitError, SweepError, TicketError, lane_for,
};
use millpond_queue::wpol::{Memory, RegionError, layout};
use std::sync::Arc;
use std::time::Duration;

struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let given = std::env::var("MILLPOND_SEED").ok();
        let seed = given.map_or_else(
            || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
            |text| text.parse().expect("MILLPOND_SEED: expected a whole number, not 0"),
        );
        println!("MILLPOND_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// A region of which the test holds a second view, to look at its bytes and to spoil them.
fn blank(len: usize) -> Arc<Memory> {
    Arc::new(Memory::heap(len).unwrap())
}

// ---- Version 1: the bytes ----------------------------------------------------------------------------------------

/// A region of capacity 2, by hand: slot 1 is free, slot 0 is queued with priority 5 at position 0.
fn golden() -> Vec<u8> {
    let mut bytes = vec![0; 64 + 2 * 72];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"LOPW");
    put(4, &[1, 0, 0, 0]);
    put(8, &[0; 8]);
    put(16, &[1, 0, 0, 0, 0, 0, 0, 0]);
    put(24, &[2, 0, 0, 0]);
    put(28, &[1, 0, 0, 0]);
    put(32, &[1, 0, 0, 0]);
    put(40, &[80, 0, 0, 0]);
    put(48, &[1, 0, 0, 0, 0, 0, 0, 0]);
    put(64, &[0, 0, 0, 0, 5, 0, 0, 0]);
    // Slot 0: allocated, task 9, priority 5, time 7, method 3, one reference, payload.
    put(
        80,
        &[1, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0],
    );
    put(80 + 48, b"sixteen bytes ..");
    // Slot 1: free, the last of the list.
    put(144, &[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    bytes
}

#[test]
fn a_region_written_by_hand_is_read_as_specified() {
    let memory = Arc::new(Memory::from_bytes(&golden()).unwrap());
    let queue = Queue::attach(Arc::clone(&memory)).unwrap();
    assert_eq!((queue.capacity(), queue.len(), queue.allocated()), (2, 1, 1));
    assert_eq!(queue.pop(), Ok(Entry { priority: 5, slot: 0 }));
    let task = queue.read_task(0).unwrap();
    let expected =
        Task { id: 9, priority: 5, timestamp: 7, method: 3, deadline: 0, payload: *b"sixteen bytes .." };
    assert_eq!(task, expected);
    assert_eq!(queue.allocate(), Ok(1));
    assert_eq!(queue.allocate(), Err(AllocateError::NoFreeSlot));
    assert_eq!(queue.release(0), Ok(true));
    // The published layout has no word for priority 0 with slot 0, and this region does not announce ours.
    assert_eq!(queue.push(Entry { priority: 0, slot: 0 }), Err(PushError::Unrepresentable));
    queue.push(Entry { priority: 0xA1B2_C3D4, slot: 1 }).unwrap();
    let after = memory.to_bytes();
    assert_eq!(after[8..24], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], "head and tail");
    assert_eq!(after[64..72], [0; 8], "the popped entry is cleared");
    assert_eq!(after[72..80], [1, 0, 0, 0, 0xD4, 0xC3, 0xB2, 0xA1], "the pushed entry");
    assert_eq!(after[48..56], [0, 0, 0, 0, 2, 0, 0, 0], "slot 0 is first in the list, after two changes");
    assert_eq!(after[80..88], [0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF], "slot 0 is free and the last");
}

#[test]
fn a_fresh_region_holds_exactly_the_specified_bytes() {
    let memory = Arc::new(Memory::from_bytes(&[0xEE; 208]).unwrap());
    Queue::create(Arc::clone(&memory), 2).unwrap();
    let mut expected = vec![0; 208];
    let mut put = |at: usize, value: u32| expected[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(0, 0x5750_4F4C);
    put(4, 1);
    put(24, 2);
    put(28, 1);
    put(36, 1 | 8);
    put(40, 80);
    put(80 + 4, 1);
    put(144 + 4, u32::MAX);
    assert_eq!(memory.to_bytes(), expected);
}

#[test]
fn creating_over_a_finished_region_attaches_and_wipes_nothing() {
    let memory = Arc::new(Memory::heap(Queue::bytes_for(4).unwrap()).unwrap());
    let first = Queue::create(Arc::clone(&memory), 4).unwrap();
    first.push(Entry { priority: 3, slot: 2 }).unwrap();
    let second = Queue::create(Arc::clone(&memory), 4).unwrap();
    assert_eq!(second.pop(), Ok(Entry { priority: 3, slot: 2 }));
    assert!(matches!(Queue::create(memory, 2), Err(RegionError::BadField { field: "capacity", .. })));
}

#[test]
fn every_bad_header_of_version_1_is_named() {
    let spoil = |at: usize, value: u32| {
        let mut bytes = golden();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Queue::attach(Memory::from_bytes(&bytes).unwrap()).unwrap_err()
    };
    assert_eq!(spoil(0, 0), RegionError::InvalidMagic { found: 0 });
    assert_eq!(spoil(4, 2), RegionError::VersionMismatch { expected: 1, found: 2 });
    for (at, value, name) in [
        (24, 0, "capacity"),
        (24, 3, "capacity"),
        (24, u32::MAX, "capacity"),
        (28, 3, "mask"),
        (40, 64, "slots base"),
        (36, 0x4000, "features"),
    ] {
        assert!(matches!(spoil(at, value), RegionError::BadField { field, .. } if field == name), "{name}");
    }
    let truncated = |len| Queue::attach(Memory::from_bytes(&golden()[..len]).unwrap()).unwrap_err();
    assert_eq!(truncated(200), RegionError::Truncated { expected: 208, found: 200 });
    assert_eq!(truncated(8), RegionError::Truncated { expected: 64, found: 8 });
    for capacity in [0, 3, 1 << 26, u32::MAX] {
        assert!(matches!(Queue::bytes_for(capacity), Err(RegionError::BadField { field: "capacity", .. })));
    }
}

#[test]
fn each_version_refuses_the_others_regions() {
    let config = Config { slots: 4, lane_capacity: 64, ..Config::default() };
    let memory = Arc::new(Memory::heap(config.bytes().unwrap()).unwrap());
    let region = Region::create(Arc::clone(&memory), config).unwrap();
    assert_eq!(
        Queue::attach(Arc::clone(&memory)).unwrap_err(),
        RegionError::VersionMismatch { expected: 1, found: 2 }
    );
    assert_eq!(Region::create(Arc::clone(&memory), config).unwrap_err(), RegionError::AlreadyThere);
    assert_eq!(Region::open(memory).unwrap().config(), region.config());
    let other = Arc::new(Memory::heap(1 << 16).unwrap());
    Queue::create(Arc::clone(&other), 64).unwrap();
    assert!(Region::open(other).is_err());
}

// ---- Version 2: tasks --------------------------------------------------------------------------------------------

fn small(slots: u32) -> Config {
    Config { lanes: 3, lane_capacity: 64, slots, slot_stride: 128, attach_records: 4, segment: 9 }
}

fn region(config: Config) -> Region {
    Region::create(Memory::heap(config.bytes().unwrap()).unwrap(), config).unwrap()
}

fn peer(region: &Region) -> Peer {
    region.attach(Identity::default()).unwrap()
}

#[test]
fn a_fresh_region_of_version_2_has_the_documented_header() {
    let memory = blank(small(2).bytes().unwrap());
    Region::create(Arc::clone(&memory), small(2)).unwrap();
    let (len, read) = (memory.len(), memory.to_bytes());
    let word = |at: usize| u32::from_le_bytes(read[at..at + 4].try_into().unwrap());
    assert_eq!(&read[..4], b"LOPW");
    assert_eq!((word(4), word(8), word(0x14), word(0x18), word(0x1C)), (2, 0x100, 3 | 6 << 16, 2, 128));
    assert_eq!((word(0x20) as usize, word(0x28), word(0x30), word(0x40)), (len, 9, 4, 2));
    // Two free slots are listed in ring 0, whose entries follow the four records.
    let entries = (0x100 + 4 * 0x180 + 4 * 64_usize).next_multiple_of(128);
    assert_eq!(read[entries..entries + 16], [0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(word(0x100), 2, "tail of ring 0");
}

#[test]
fn a_task_goes_in_and_its_result_comes_back() {
    let region = region(small(2));
    let (client, worker) = (peer(&region), peer(&region));
    let submission = Submission { method: 4, priority: 8, payload: b"hello", ..Submission::default() };
    let ticket = client.submit(submission).unwrap();
    assert_eq!(client.poll(&ticket), Ok(Progress::Queued));
    let running = worker.start(0).unwrap();
    assert_eq!(client.poll(&ticket), Ok(Progress::Running));
    assert_eq!((running.method(), running.priority(), running.task()), (4, 8, 1));
    assert_eq!((running.payload().as_slice(), running.attempts()), (&b"hello"[..], 0));
    assert_eq!(running.result_bytes_max(), 64 - 8);
    let (refusal, ticket) = client.release(ticket).unwrap_err();
    assert_eq!(refusal, TicketError::NotFinal);
    running.finish(3, b"world!").unwrap();
    assert_eq!(client.wait(&ticket, Duration::from_secs(1)), Ok(true));
    assert_eq!(client.poll(&ticket), Ok(Progress::Done { status: 3 }));
    assert_eq!(client.result(&ticket).unwrap(), b"world!");
    client.release(ticket).unwrap();
    assert_eq!(region.census().free, 2);
}

#[test]
fn refusals_say_what_was_wrong_and_leave_nothing_behind() {
    let region = region(small(2));
    let client = peer(&region);
    let submit = |submission| client.submit(submission);
    assert_eq!(submit(Submission { lane: 3, ..Submission::default() }), Err(SubmitError::BadLane));
    assert_eq!(submit(Submission { payload: &[0; 65], ..Submission::default() }), Err(SubmitError::TooLong));
    let tickets = [submit(Submission::default()).unwrap(), submit(Submission::default()).unwrap()];
    assert_eq!(submit(Submission::default()), Err(SubmitError::NoSlot));
    assert!(!client.wait_slot(Duration::from_millis(1)));
    for ticket in tickets {
        assert_eq!(client.cancel(&ticket), Ok(Cancel::Cancelled));
        assert_eq!(client.cancel(&ticket), Ok(Cancel::Over));
        client.release(ticket).unwrap();
    }
    assert_eq!(client.start(0).unwrap_err(), StartError::Empty);
    region.close();
    assert_eq!(submit(Submission::default()), Err(SubmitError::Closed));
    assert_eq!(region.census().free, 2);
}

#[test]
fn a_full_lane_gives_the_slot_back() {
    let region = region(Config { slots: 70, ..small(70) });
    let client = peer(&region);
    for _ in 0..64 {
        drop(client.submit(Submission { detached: true, ..Submission::default() }).unwrap());
    }
    assert_eq!(client.submit(Submission::default()), Err(SubmitError::LaneFull));
    assert!(!client.wait_space(0, Duration::from_millis(1)));
    assert_eq!(region.census().free, 6);
    let mut tickets = Vec::new();
    assert_eq!(client.submit_batch(&[Submission::default(); 3], &mut tickets), Err(SubmitError::LaneFull));
    assert_eq!(region.census().free, 6);
    let other = [Submission { lane: 1, ..Submission::default() }; 10];
    assert_eq!(client.submit_batch(&other, &mut tickets), Ok(6));
    assert_eq!((tickets.len(), region.census().free), (6, 0));
}

#[test]
fn batches_keep_their_order_within_a_lane() {
    let region = region(small(60));
    let (client, worker) = (peer(&region), peer(&region));
    let batch: Vec<_> =
        (1..=40).map(|task| Submission { task, detached: true, ..Submission::default() }).collect();
    assert_eq!(client.submit_batch(&batch, &mut Vec::new()), Ok(40));
    let (mut seen, mut tasks) = (Vec::new(), Vec::new());
    while worker.start_batch(0, 7, &mut tasks).is_ok() {
        for running in tasks.drain(..) {
            seen.push(running.task());
            running.finish(0, &[]).unwrap();
        }
    }
    assert_eq!(seen, (1..=40).collect::<Vec<_>>());
    assert_eq!(region.census().free, 60);
}

#[test]
fn no_lane_starves_and_the_first_goes_first() {
    let region = region(small(60));
    let (client, worker) = (peer(&region), peer(&region));
    for lane in [0, 1, 2] {
        for _ in 0..14 {
            drop(
                client
                    .submit(Submission { lane, method: lane, detached: true, ..Submission::default() })
                    .unwrap(),
            );
        }
    }
    let mut taken = [0; 3];
    for _ in 0..14 {
        let running = worker.start(0).unwrap();
        taken[running.method() as usize] += 1;
        running.finish(0, &[]).unwrap();
    }
    assert_eq!(taken, [8, 4, 2]);
    assert_eq!([0, 1 << 30, 3 << 30, u32::MAX].map(|priority| lane_for(priority, 4)), [3, 2, 0, 0]);
}

#[test]
fn late_dropped_and_oversized_tasks_end_as_they_should() {
    let region = region(small(4));
    let (client, worker) = (peer(&region), peer(&region));
    let late = client.submit(Submission { deadline: 10, ..Submission::default() }).unwrap();
    assert_eq!(worker.start(11).unwrap_err(), StartError::Empty);
    assert_eq!(client.poll(&late), Ok(Progress::Expired));
    let dropped = client.submit(Submission::default()).unwrap();
    drop(worker.start(0).unwrap());
    assert_eq!(client.poll(&dropped), Ok(Progress::Failed));
    assert_eq!(client.result(&dropped).unwrap(), b"");
    let oversized = client.submit(Submission { payload: &[1; 60], ..Submission::default() }).unwrap();
    assert_eq!(worker.start(0).unwrap().finish(0, b"x"), Err(FinishError::TooLong));
    assert_eq!(client.poll(&oversized), Ok(Progress::Failed));
    drop(client);
    assert_eq!(region.census().free, 4, "what a leaving peer had not fetched is freed");
}

// ---- Version 2: the dead -----------------------------------------------------------------------------------------

/// A peer that never leaves: as if its process had been killed.
fn killed(peer: Peer) -> u32 {
    let index = peer.index();
    std::mem::forget(peer);
    index
}

#[test]
fn what_the_dead_held_comes_back() {
    for (policy, expected) in
        [(DeathPolicy::Fail, Progress::Failed), (DeathPolicy::Requeue { attempts_max: 1 }, Progress::Queued)]
    {
        let region = region(small(4));
        let (client, worker, reaper) = (peer(&region), peer(&region), peer(&region));
        let ticket = client.submit(Submission::default()).unwrap();
        std::mem::forget(worker.start(0).unwrap());
        let dead = killed(worker);
        let mut memory = Reaper::default();
        let sweep = memory.sweep(&reaper, 5, policy, |index| index == dead).unwrap();
        assert_eq!((sweep.buried, sweep.failed + sweep.requeued), (1, 1));
        assert_eq!(client.poll(&ticket), Ok(expected));
        if expected == Progress::Queued {
            let second = peer(&region);
            assert_eq!(second.index(), dead, "the record is free again");
            let running = second.start(0).unwrap();
            assert_eq!(running.attempts(), 1);
            std::mem::forget(running);
            let dead = killed(second);
            memory.sweep(&reaper, 6, policy, |index| index == dead).unwrap();
            assert_eq!(client.poll(&ticket), Ok(Progress::Failed), "no more attempts");
        }
        client.release(ticket).unwrap();
        assert_eq!(region.census().free, 4);
    }
}

#[test]
fn tasks_of_a_dead_submitter_run_and_are_freed() {
    let region = region(small(4));
    let (client, worker, reaper) = (peer(&region), peer(&region), peer(&region));
    let [queued, done] = [client.submit(Submission::default()), client.submit(Submission::default())];
    worker.start(0).unwrap().finish(0, &[]).unwrap();
    drop((queued, done));
    let dead = killed(client);
    let sweep = Reaper::default().sweep(&reaper, 0, DeathPolicy::Fail, |index| index == dead).unwrap();
    assert_eq!(sweep.orphaned, 2);
    assert_eq!(region.census().free, 3, "the finished one is free");
    worker.start(0).unwrap().finish(0, &[]).unwrap();
    assert_eq!(region.census().free, 4);
}

#[test]
fn only_one_live_peer_sweeps_and_a_dead_one_is_replaced() {
    let region = region(small(1));
    let (first, second) = (peer(&region), peer(&region));
    let answer = Reaper::default().sweep(&first, 0, DeathPolicy::Fail, |_| {
        // While the first one sweeps, the second may not.
        let refused = Reaper::default().sweep(&second, 0, DeathPolicy::Fail, |_| false);
        assert_eq!(refused.unwrap_err(), SweepError::AnotherReaper);
        false
    });
    assert!(answer.is_ok());
    let dead = first.index();
    let stolen = Reaper::default().sweep(&second, 0, DeathPolicy::Fail, |index| index == dead);
    assert_eq!(stolen.unwrap().buried, 1);
    std::mem::forget(first);
}

/// Where the records and the control blocks of `small` regions are.
fn record(index: usize) -> usize {
    0x100 + 4 * 0x180 + index * 64
}

#[test]
fn a_sweep_cut_short_by_death_is_finished_by_the_next() {
    let memory = blank(small(2).bytes().unwrap());
    let region = Region::create(Arc::clone(&memory), small(2)).unwrap();
    let (worker, first, second) = (peer(&region), peer(&region), peer(&region));
    let ticket = second.submit(Submission::default()).unwrap();
    std::mem::forget(worker.start(0).unwrap());
    let (worker, first) = (killed(worker), killed(first));
    // The first reaper took the role, marked the worker's record, and was killed too.
    let head = memory.to_bytes();
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
    memory.overwrite(0x40, (word(0x40) & 0xFFFF_FFFF) | u64::from(first + 1) << 32);
    memory.overwrite(record(worker as usize), 2);
    let mut reaper = Reaper::default();
    assert_eq!(
        reaper.sweep(&second, 0, DeathPolicy::Fail, |_| false).unwrap_err(),
        SweepError::AnotherReaper
    );
    let sweep = reaper.sweep(&second, 0, DeathPolicy::Fail, |index| index == first).unwrap();
    assert_eq!((sweep.buried, sweep.failed), (2, 1));
    assert_eq!(second.poll(&ticket), Ok(Progress::Failed));
}

#[test]
fn hints_lost_with_the_dead_are_found_by_the_second_sweep() {
    let memory = blank(small(2).bytes().unwrap());
    let region = Region::create(Arc::clone(&memory), small(2)).unwrap();
    let client = peer(&region);
    let ticket = client.submit(Submission::default()).unwrap();
    // Somebody popped both hints, of the queued and of the free slot, and died with them in hand.
    let ring_0 = (record(4)).next_multiple_of(128);
    memory.overwrite(ring_0 + 8, 2 << 32);
    memory.overwrite(ring_0 + 8 * 64, 2 << 32);
    assert_eq!(client.start(0).unwrap_err(), StartError::Empty);
    assert_eq!(client.submit(Submission::default()), Err(SubmitError::NoSlot));
    let mut reaper = Reaper::default();
    let mut sweep = || reaper.sweep(&client, 0, DeathPolicy::Fail, |_| false).unwrap().relisted;
    assert_eq!([sweep(), sweep(), sweep()], [0, 2, 0]);
    client.start(0).unwrap().finish(0, &[]).unwrap();
    client.release(ticket).unwrap();
    assert_eq!(client.submit_batch(&[Submission::default(); 2], &mut Vec::new()), Ok(2));
}

#[test]
fn waiters_that_died_asleep_are_forgotten_and_live_ones_are_not() {
    let memory = blank(small(1).bytes().unwrap());
    let region = Region::create(Arc::clone(&memory), small(1)).unwrap();
    let (client, sleeper) = (peer(&region), peer(&region));
    // Event word 0 and three waiters for items, in lane 0's control block.
    let items = 0x100 + 0x180 + 0x100;
    memory.overwrite(items, 3 << 32);
    let waiting = record(sleeper.index() as usize) + 0x20;
    memory.overwrite(waiting, 1 << 32);
    let waiters = || memory.to_bytes()[items + 4];
    let mut reaper = Reaper::default();
    reaper.sweep(&client, 0, DeathPolicy::Fail, |_| false).unwrap();
    assert_eq!(waiters(), 3, "somebody alive says that it waits");
    let dead = killed(sleeper);
    reaper.sweep(&client, 0, DeathPolicy::Fail, |index| index == dead).unwrap();
    assert_eq!(waiters(), 0);
}

// ---- Hostile bytes -----------------------------------------------------------------------------------------------

/// Does everything once with whatever the region says. Answers do not matter, coming back does.
fn use_version_1(queue: &Queue, random: &mut Random) {
    for _ in 0..4 {
        let slot = random.next() as u32 % 8;
        let _ = queue.push(Entry { priority: random.next() as u32, slot });
        let _ = queue.pop();
        let _ = queue.allocate();
        let _ = queue.retain(slot);
        let _ = queue.release(slot);
        let _ = queue.read_task(slot);
        let _ = (queue.len(), queue.allocated(), queue.is_poisoned());
    }
}

fn use_version_2(peer: &Peer, random: &mut Random) {
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let submission =
            Submission { lane: random.next() as u32 % 4, payload: &[7; 20], ..Submission::default() };
        tickets.extend(peer.submit(submission));
        let _ = peer.submit_batch(&[submission; 3], &mut tickets);
        if let Ok(running) = peer.start(random.next()) {
            let _ = (running.payload(), running.result_bytes_max());
            let _ = running.finish(1, &[5; 9]);
        }
        let _ = peer.start_batch(0, 3, &mut Vec::new());
    }
    for ticket in tickets {
        let _ = (peer.poll(&ticket), peer.result(&ticket), peer.cancel(&ticket));
        let _ = peer.wait(&ticket, Duration::from_nanos(1));
        let _ = peer.release(ticket);
    }
    let policy = DeathPolicy::Requeue { attempts_max: 2 };
    let _ = Reaper::default().sweep(peer, 0, policy, |index| index.is_multiple_of(2));
}

/// Overwrites a few random words: any field, any value, with a liking for small and for extreme ones.
fn vandalise(memory: &Memory, from: usize, random: &mut Random) {
    let before = memory.to_bytes();
    for _ in 0..1 + random.below(6) {
        let at = (from + random.below(before.len() - from)) / 8 * 8;
        let value = match random.below(4) {
            0 => random.next(),
            1 => random.next() % 9,
            2 => ((random.next() % 9) << 32) | (random.next() % 9),
            _ => u64::MAX - random.next() % 3,
        };
        let keep = [0, 0xFFFF_FFFF, !0xFFFF_FFFF, !(0xFF << (8 * random.below(8)))][random.below(4)];
        let word = u64::from_le_bytes(before[at..at + 8].try_into().unwrap());
        memory.overwrite(at, (word & keep) | (value & !keep));
    }
}

#[test]
fn hostile_bytes_in_version_1_end_in_an_answer() {
    let mut random = Random::seeded();
    for round in 0..30_000 {
        let memory = blank(64 + 4 * 72);
        let queue = Queue::create(Arc::clone(&memory), 4).unwrap();
        use_version_1(&queue, &mut random);
        // Half of the time the magic number is spared, so that the vandal gets past it.
        vandalise(&memory, if round % 2 == 0 { 0 } else { 8 }, &mut random);
        use_version_1(&queue, &mut random);
        if let Ok(queue) = Queue::attach(memory) {
            use_version_1(&queue, &mut random);
        }
    }
}

#[test]
fn hostile_bytes_in_version_2_end_in_an_answer() {
    let mut random = Random::seeded();
    let config =
        Config { lanes: 2, lane_capacity: 64, slots: 3, slot_stride: 128, attach_records: 3, segment: 1 };
    for round in 0..20_000 {
        let memory = blank(config.bytes().unwrap());
        let region = Region::create(Arc::clone(&memory), config).unwrap();
        let mut first = Some(peer(&region));
        first.iter().for_each(|peer| use_version_2(peer, &mut random));
        // A third of the rounds spoils the header too, and a third leaves before the damage is done.
        if round % 3 == 1 {
            first = None;
        }
        vandalise(&memory, if round % 3 == 0 { 0 } else { 0x40 }, &mut random);
        if let Some(peer) = first {
            use_version_2(&peer, &mut random);
        }
        if let Ok(region) = Region::open(memory) {
            let _ = (region.census(), region.lane_len(0), region.is_poisoned());
            if let Ok(peer) = region.attach(Identity::default()) {
                use_version_2(&peer, &mut random);
            }
        }
    }
}

#[test]
fn random_headers_are_refused_or_served() {
    let mut random = Random::seeded();
    for round in 0..50_000_u64 {
        let memory = blank(72 + random.below(2_000));
        for at in (0..memory.to_bytes().len().min(512)).step_by(8) {
            memory.overwrite(at, random.next() & random.next() & random.next());
        }
        memory.overwrite(0, u64::from(layout::MAGIC) | (1 + round % 2) << 32);
        memory.overwrite(0x40, 2);
        if let Ok(queue) = Queue::attach(Arc::clone(&memory)) {
            use_version_1(&queue, &mut random);
        }
        if let Ok(region) = Region::open(memory) {
            let _ = region.census();
        }
    }
}

#[test]
fn a_poisoned_region_says_so_everywhere() {
    let memory = blank(small(2).bytes().unwrap());
    let region = Region::create(Arc::clone(&memory), small(2)).unwrap();
    let client = peer(&region);
    let ticket = client.submit(Submission::default()).unwrap();
    // A sequence number from nowhere, in the first place of lane 0: records, then 64 places of ring 0.
    let entries = (0x100 + 4 * 0x180 + 4 * 64_usize).next_multiple_of(128);
    memory.overwrite(entries + 8 * 64, 0x8000_0005 << 32);
    assert_eq!(client.start(0).unwrap_err(), StartError::Poisoned);
    assert!(region.is_poisoned());
    assert_eq!(client.submit(Submission::default()), Err(SubmitError::Poisoned));
    assert_eq!(client.poll(&ticket), Err(TicketError::Poisoned));
    assert_eq!(region.attach(Identity::default()).unwrap_err(), RegionError::NotReady { life: 4 });
    assert_eq!(Region::open(memory).unwrap_err(), RegionError::NotReady { life: 4 });
}

// ---- Threads -----------------------------------------------------------------------------------------------------

#[test]
fn threads_over_both_versions_lose_nothing() {
    const ITEMS: u32 = 20_000;
    let queue = Queue::create(Memory::heap(Queue::bytes_for(64).unwrap()).unwrap(), 64).unwrap();
    let sum = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for item in 1..=ITEMS {
                    while queue.push_retry(Entry { priority: item, slot: item % 64 }, 100).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..ITEMS {
                    let entry = loop {
                        match queue.pop_retry(100) {
                            Ok(entry) => break entry,
                            Err(PopError::Poisoned) => panic!("poisoned"),
                            Err(_) => std::thread::yield_now(),
                        }
                    };
                    assert_eq!(entry.slot, entry.priority % 64);
                    sum.fetch_add(entry.priority.into(), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), u64::from(ITEMS) * u64::from(ITEMS + 1));
    blocking_threads_over_version_2(5_000);
}

fn blocking_threads_over_version_2(items: u32) {
    let region = region(small(16));
    std::thread::scope(|scope| {
        let (client, worker) = (peer(&region), peer(&region));
        scope.spawn(move || {
            for item in 0..items {
                let payload = item.to_le_bytes();
                let ticket = loop {
                    match client.submit(Submission { payload: &payload, ..Submission::default() }) {
                        Ok(ticket) => break ticket,
                        Err(SubmitError::NoSlot) => drop(client.wait_slot(Duration::from_secs(1))),
                        Err(refusal) => panic!("{refusal}"),
                    }
                };
                while !client.wait(&ticket, Duration::from_secs(1)).unwrap() {}
                assert_eq!(client.result(&ticket).unwrap(), payload);
                client.release(ticket).unwrap();
            }
        });
        scope.spawn(move || {
            for _ in 0..items {
                let running = loop {
                    match worker.start(0) {
                        Ok(running) => break running,
                        Err(StartError::Empty) => drop(worker.wait_items(Duration::from_secs(1))),
                        Err(refusal) => panic!("{refusal}"),
                    }
                };
                let payload = running.payload();
                running.finish(0, &payload).unwrap();
            }
        });
    });
    assert_eq!(region.census().free, 16);
}
