//! What does it cost to find the worker a key belongs to, with 16 of them and with 1000?
//!
//! Keys are numbers that look random. The row `millpond` is rendezvous hashing, the default, which looks at
//! every worker; `millpond ring` has 150 points for each and looks at three places, `millpond ring, 1 probe`
//! at one, as plain rings do. Each is called with its own defaults, its own hash among them.
//!
//! Peers: `hashring`, a plain ring, with the same 150 points; `hrw-hash`, rendezvous, which has only the
//! whole order of preference to offer and must sort it; `anchorhash`, which answers in constant time, must be
//! told the most workers there will be, and whose owners depend on the order in which workers came and went.
//! Limit: jump hashing, whose workers can come and go at the end of the row only.

use super::{Stopwatch, check_repeated, check_spread};
use crate::groups::measured;
use crate::measure::{Contestant, Group, ns_per_item};
use anchorhash::AnchorHash;
use hashring::HashRing;
use hrw_hash::HrwNodes;
use millpond_policy::affinity::{Affinity, AffinitySettings, Method, mix};
use std::cell::OnceCell;
use std::time::Duration;

/// Points of each worker on a ring.
const VIRTUAL_NODES: u32 = 150;

pub(super) fn groups() -> Vec<Group> {
    vec![
        group("policy-affinity-16", "the owner of a key, of 16 workers; millpond is rendezvous", 16),
        group("policy-affinity-1000", "the owner of a key, of 1000 workers; millpond is rendezvous", 1000),
    ]
}

fn group(name: &'static str, question: &'static str, workers: u32) -> Group {
    let contestants = vec![
        contestant("millpond", workers, |workers| ours(workers, Method::Rendezvous, 1)),
        contestant("millpond ring", workers, |workers| ours(workers, Method::Ring, 3)),
        contestant("millpond ring, 1 probe", workers, |workers| ours(workers, Method::Ring, 1)),
        contestant("hashring", workers, |workers| {
            let mut ring = HashRing::new();
            let nodes = (0..workers).flat_map(|worker| (0..VIRTUAL_NODES).map(move |node| (worker, node)));
            ring.batch_add(nodes.collect());
            move |key: u64| ring.get(&key).map(|(worker, _)| *worker)
        }),
        sparing("hrw-hash", workers, workers / 16, |workers| {
            let nodes = HrwNodes::new(0..workers);
            move |key: u64| nodes.sorted(&key).next().copied()
        }),
        contestant("anchorhash", workers, |workers| {
            // Room for as many again, as somebody would leave who expects to grow.
            let room = u16::try_from(2 * workers).expect("the groups have few workers");
            let anchor: AnchorHash<u64, u32, _> =
                anchorhash::Builder::default().with_resources(0..workers).build(room);
            move |key: u64| anchor.get_resource(key).copied()
        }),
        contestant("~jump hash", workers, |workers| move |key: u64| Some(jump(key, workers))),
    ];
    measured(name, question, "ns/owner", contestants)
}

fn contestant<F: Fn(u64) -> Option<u32> + 'static>(
    peer: &'static str,
    workers: u32,
    open: impl Fn(u32) -> F + 'static,
) -> Contestant {
    sparing(peer, workers, 1, open)
}

/// A contestant with a smaller share of the keys, where one key takes so long that the others would get few
/// rounds. Workers are put in once and not in every round: on a ring of 1000 that takes longer than a round.
fn sparing<F: Fn(u64) -> Option<u32> + 'static>(
    peer: &'static str,
    workers: u32,
    share: u32,
    open: impl Fn(u32) -> F + 'static,
) -> Contestant {
    let opened = OnceCell::new();
    Contestant::new(peer, move |round| {
        let keys = round.items / 4 / u64::from((workers / 40).max(1)) / u64::from(share);
        own_all(opened.get_or_init(|| open(workers)), workers, keys.max(1))
    })
}

fn ours(workers: u32, method: Method, probes: u32) -> impl Fn(u64) -> Option<u32> {
    let settings =
        AffinitySettings { method, probes, virtual_nodes: VIRTUAL_NODES, ..AffinitySettings::default() };
    let mut owners = Affinity::new(&settings).expect("the settings are valid constants");
    (0..workers).for_each(|worker| assert!(owners.add(worker), "no worker comes twice"));
    move |key| owners.owner(key)
}

/// The published function, in the words of its paper: the key leaps over the buckets it would not move to.
fn jump(mut key: u64, buckets: u32) -> u32 {
    let (mut bucket, mut next) = (0_u32, 0.0_f64);
    while next < f64::from(buckets) {
        bucket = next as u32;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((f64::from(bucket) + 1.0) * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)).floor();
    }
    bucket
}

fn own_all(owner: &impl Fn(u64) -> Option<u32>, workers: u32, keys: u64) -> Result<f64, String> {
    let mut owned = vec![0_u64; workers as usize];
    let mut rehearsed = 0_u64;
    for key in 1..=keys {
        let worker = owner(mix(key)).ok_or("a key belonged to nobody")?;
        let count = owned.get_mut(worker as usize);
        *count.ok_or_else(|| format!("a key belonged to worker {worker}, of {workers}"))? += 1;
        rehearsed = rehearsed.wrapping_add(u64::from(worker).wrapping_mul(key));
    }
    check_spread(&owned)?;
    let (elapsed, timed) = time(owner, keys);
    check_repeated(rehearsed, timed)?;
    Ok(ns_per_item(elapsed, keys))
}

#[inline(never)]
fn time(owner: &impl Fn(u64) -> Option<u32>, keys: u64) -> (Duration, u64) {
    let mut checksum = 0_u64;
    let start = Stopwatch::start();
    for key in 1..=keys {
        // The rehearsal found an owner for each; whoever finds none now has another sum.
        let worker = owner(mix(key)).unwrap_or(u32::MAX);
        checksum = checksum.wrapping_add(u64::from(worker).wrapping_mul(key));
    }
    (start.elapsed(), checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bucket_more_moves_keys_to_itself_alone() {
        for buckets in [1, 2, 16, 999] {
            for key in (0..2000).map(mix) {
                let (before, after) = (jump(key, buckets), jump(key, buckets + 1));
                assert!(before < buckets && (after == before || after == buckets), "{key} of {buckets}");
            }
        }
    }

    #[test]
    fn a_key_of_nobody_and_one_of_a_stranger_are_found() {
        assert_eq!(own_all(&|_| None, 16, 1000).unwrap_err(), "a key belonged to nobody");
        assert_eq!(own_all(&|_| Some(16), 16, 1000).unwrap_err(), "a key belonged to worker 16, of 16");
        assert!(own_all(&|_| Some(0), 16, 1000).unwrap_err().starts_with("worker 0 got 1000 of 1000"));
    }
}
