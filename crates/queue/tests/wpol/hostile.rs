//! Regions whose bytes are nonsense, all of it or some, before or during use: every call answers, soon.
//!
//! Shared memory is written by others, and one broken peer must not take the rest of us with it.
//!
//! Not here: honest headers of the wrong kind (`bytes.rs`).

use crate::{Random, blank, peer, probed, small};
use millpond_queue::wpol::v1::{Entry, Queue};
use millpond_queue::wpol::v2::{
    Config, DeathPolicy, Identity, Peer, Reaper, Region, StartError, Submission, SubmitError, TicketError,
};
use millpond_queue::wpol::{Memory, Probe, RegionError, layout};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

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
fn vandalise(probe: &Probe, from: usize, to: usize, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let at = (from + random.below(to - from)) / 8 * 8;
        let value = match random.below(4) {
            0 => random.next(),
            1 => random.next() % 9,
            2 => ((random.next() % 9) << 32) | (random.next() % 9),
            _ => u64::MAX - random.next() % 3,
        };
        let keep = [0, 0xFFFF_FFFF, !0xFFFF_FFFF, !(0xFF << (8 * random.below(8)))][random.below(4)];
        probe.overwrite(at, (probe.read(at) & keep) | (value & !keep));
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
        let probe = Probe::version_1(Arc::clone(&memory), 4).unwrap();
        vandalise(&probe, if round % 2 == 0 { 0 } else { 8 }, memory.len(), &mut random);
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
        let probe = Probe::version_2(Arc::clone(&memory), config).unwrap();
        let mut first = Some(peer(&region));
        first.iter().for_each(|peer| use_version_2(peer, &mut random));
        // A third of the rounds spoils the header too, and a third leaves before the damage is done.
        if round % 3 == 1 {
            first = None;
        }
        vandalise(&probe, if round % 3 == 0 { 0 } else { 0x40 }, memory.len(), &mut random);
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
        let mut bytes = vec![0; (72 + random.below(2_000)) / 8 * 8];
        for word in bytes.chunks_exact_mut(8).take(64) {
            word.copy_from_slice(&(random.next() & random.next() & random.next()).to_le_bytes());
        }
        bytes[..8].copy_from_slice(&(u64::from(layout::MAGIC) | (1 + round % 2) << 32).to_le_bytes());
        bytes[0x40..0x48].copy_from_slice(&2_u64.to_le_bytes());
        let memory = Arc::new(Memory::from_bytes(&bytes).unwrap());
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
    let (region, probe) = probed(small(2));
    let client = peer(&region);
    let ticket = client.submit(Submission::default()).unwrap();
    // A sequence number from nowhere, in the first place of lane 0: records, then 64 places of ring 0.
    let entries = (0x100 + 4 * 0x180 + 4 * 64_usize).next_multiple_of(128);
    probe.overwrite(entries + 8 * 64, 0x8000_0005 << 32);
    assert_eq!(client.start(0).unwrap_err(), StartError::Poisoned);
    assert!(region.is_poisoned());
    assert_eq!(client.submit(Submission::default()), Err(SubmitError::Poisoned));
    assert_eq!(client.poll(&ticket), Err(TicketError::Poisoned));
    assert_eq!(region.attach(Identity::default()).unwrap_err(), RegionError::NotReady { life: 4 });
    assert_eq!(Region::open(probe.memory()).unwrap_err(), RegionError::NotReady { life: 4 });
}

/// CRC-32C, bit by bit: the vandal can compute it too.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0x82F6_3B78 & (sum & 1).wrapping_neg()))
    })
}

#[test]
fn headers_that_lie_under_a_valid_checksum_are_refused_or_served() {
    let mut random = Random::seeded();
    let (_region, probe) = probed(small(2));
    let honest = probe.to_bytes();
    assert_eq!(honest[0x38..0x3C], checksum(&honest[..0x38]).to_le_bytes());
    let (mut served, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = honest.clone();
        for _ in 0..1 + random.below(3) {
            // Not the magic number and not the version, which have tests of their own.
            let at = 8 + random.below(0x30);
            bytes[at] = [0, 1, 2, 3, 64, 255, random.next() as u8, bytes[at] ^ (1 << random.below(8))]
                [random.below(8)];
        }
        let sum = checksum(&bytes[..0x38]);
        bytes[0x38..0x3C].copy_from_slice(&sum.to_le_bytes());
        match Region::open(Memory::from_bytes(&bytes).unwrap()) {
            Ok(region) => {
                served += 1;
                use_version_2(&peer(&region), &mut random);
            }
            Err(RegionError::BadField { .. } | RegionError::Truncated { .. }) => refused += 1,
            Err(refusal) => panic!("{refusal}"),
        }
    }
    assert!(served > 0 && refused > 10_000, "{served} served, {refused} refused");
}

/// The same damage as above, but while the honest are at work. The life word is kept at "ready", or the first find
/// would end the test.
#[test]
fn a_vandal_at_work_beside_the_honest_gets_them_answers_only() {
    let config = Config { lanes: 2, slots: 5, attach_records: 3, ..small(5) };
    let mut random = Random::seeded();
    let deadline = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < deadline {
        let (region, probe) = probed(config);
        let [first, second] = [(); 2].map(|()| peer(&region));
        let stop = AtomicBool::new(false);
        let mut vandals = Random(random.next());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let len = probe.to_bytes().len();
                while !stop.load(Relaxed) {
                    vandalise(&probe, 0x48, len, &mut vandals);
                    probe.overwrite(0x40, 2 | (vandals.next() % 6) << 32);
                }
            });
            for _ in 0..50 {
                use_version_2(&first, &mut random);
                use_version_2(&second, &mut random);
                let _ = (region.census(), region.records(), region.lane_len(1));
                drop(region.attach(Identity::default()));
                drop(Region::open(probe.memory()));
            }
            stop.store(true, Relaxed);
        });
    }
}
