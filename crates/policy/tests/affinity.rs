//! Keys find the workers that `tests/vectors/affinity-*.json` say, evenly, and few move when workers come and
//! go.
//!
//! The vectors were worked out by another program from the description: owners by looking at every point and
//! sorting, logarithms with sixty digits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_policy::Moment;
use millpond_policy::affinity::{
    Affinity, AffinitySettings, HashRing, Method, Rendezvous, Sticky, hash_bytes, mix,
};
use serde_json::Value;
use std::collections::HashSet;
use std::time::Duration;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn owner_vectors() -> Value {
    parse(include_str!("../../../tests/vectors/affinity-owner.json"))
}

fn long(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn short(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn shorts(value: &Value) -> Vec<u32> {
    value.as_array().into_iter().flatten().map(short).collect()
}

fn settings(set: &Value) -> AffinitySettings {
    let mut settings = AffinitySettings::default();
    for (name, value) in set.as_object().into_iter().flatten() {
        match name.as_str() {
            "virtual_nodes" => settings.virtual_nodes = short(value),
            "probes" => settings.probes = short(value),
            "sticky_keys_max" => settings.sticky_keys_max = short(value) as usize,
            "sticky_for_ms" => settings.sticky_for = Some(Duration::from_millis(short(value).into())),
            other => panic!("the vectors name a setting {other}"),
        }
    }
    settings
}

fn owners(method: Method, workers: impl IntoIterator<Item = u32>) -> Affinity {
    let mut owners = Affinity::new(&AffinitySettings { method, ..AffinitySettings::default() }).unwrap();
    workers.into_iter().for_each(|worker| assert!(owners.add(worker)));
    owners
}

const METHODS: [Method; 2] = [Method::Rendezvous, Method::Ring];

#[test]
fn hashes_are_those_written_for_texts_bytes_and_numbers() {
    let vectors = parse(include_str!("../../../tests/vectors/affinity-hash.json"));
    for case in vectors["texts"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(hash_bytes(text.as_bytes()), long(&case["hash"]), "{text:?}");
    }
    for case in vectors["bytes"].as_array().unwrap() {
        let hex = case["hex"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_eq!(hash_bytes(&bytes), long(&case["hash"]), "{hex}");
    }
    for case in vectors["mix"].as_array().unwrap() {
        assert_eq!(mix(long(&case["number"])), long(&case["mixed"]));
    }
}

#[test]
fn hashes_of_like_texts_share_nothing_and_every_bit_counts() {
    let texts = (0..100_000).map(|user| format!("user:{user}"));
    let hashes: HashSet<u64> = texts.map(|text| hash_bytes(text.as_bytes())).collect();
    assert_eq!(hashes.len(), 100_000, "no two of 100 000 texts collide");
    // S3-33: the low bits of the seed's hash were zero too often.
    for bit in 0..64 {
        let ones = hashes.iter().filter(|&&hash| hash >> bit & 1 == 1).count();
        assert!(ones.abs_diff(50_000) < 1_000, "bit {bit} is one in {ones} of 100 000");
    }
    // One bit changed in the text changes each bit of the hash half of the time.
    let mut flips = [0_u32; 64];
    let mut trials = 0;
    for user in 0..200 {
        let text = format!("session:{user}:abcdef").into_bytes();
        for bit in 0..text.len() * 8 {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let changed = hash_bytes(&text) ^ hash_bytes(&other);
            flips.iter_mut().enumerate().for_each(|(at, flips)| *flips += (changed >> at & 1) as u32);
            trials += 1;
        }
    }
    for (at, flips) in flips.into_iter().enumerate() {
        assert!(flips.abs_diff(trials / 2) < trials / 50, "bit {at} changes in {flips} of {trials}");
    }
}

#[test]
fn every_key_has_the_owner_and_the_followers_written() {
    for case in owner_vectors()["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let method = Method::by_name(case["method"].as_str().unwrap()).unwrap();
        let mut owners = Affinity::new(&AffinitySettings { method, ..settings(&case["settings"]) }).unwrap();
        let (workers, weights) = (shorts(&case["workers"]), shorts(&case["weights"]));
        for (at, &worker) in workers.iter().enumerate() {
            let added = match (&mut owners, weights.get(at)) {
                (Affinity::Rendezvous(owners), Some(&weight)) => owners.add_weighted(worker, weight),
                (owners, _) => owners.add(worker),
            };
            assert!(added, "{name}");
        }
        for step in case["steps"].as_array().unwrap() {
            let key = long(&step["key"]);
            assert_eq!(
                owners.owner(key),
                step["owner"].as_u64().map(|owner| owner as u32),
                "{name}, key {key}"
            );
            let mut found = [0; 4];
            let count = owners.preference(key, &mut found);
            assert_eq!(found[..count], shorts(&step["preference"]), "{name}, key {key}");
        }
    }
}

#[test]
fn bad_settings_and_names_are_refused_with_what_is_allowed() {
    let vectors = owner_vectors();
    for case in vectors["settings"].as_array().unwrap() {
        let error = Affinity::new(&settings(&case["set"])).unwrap_err();
        assert_eq!(error.to_string(), case["error"].as_str().unwrap());
    }
    for case in vectors["names"].as_array().unwrap() {
        match Method::by_name(case["name"].as_str().unwrap()) {
            Ok(method) => assert_eq!(method.name(), case["expect"].as_str().unwrap()),
            Err(error) => assert_eq!(error.to_string(), case["error"].as_str().unwrap()),
        }
    }
    assert!(HashRing::new(0, 3).is_err() && HashRing::new(150, 17).is_err());
    assert!(Sticky::new(0, Duration::from_secs(1)).is_err() && Sticky::new(1, Duration::ZERO).is_err());
}

#[test]
fn a_worker_that_comes_or_goes_moves_its_own_keys_and_not_many() {
    const KEYS: u64 = 20_000;
    for method in METHODS {
        let mut owners = owners(method, [0]);
        let mut before: Vec<u32> = (0..KEYS).map(|key| owners.owner(key).unwrap()).collect();
        for workers in 2..=64_u32 {
            let newcomer = workers - 1;
            owners.add(newcomer);
            let after: Vec<u32> = (0..KEYS).map(|key| owners.owner(key).unwrap()).collect();
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
            assert!(
                moved.clone().all(|(_, &after)| after == newcomer),
                "{method:?}: to the newcomer or not at all"
            );
            // What moves when it comes is what moves when it goes, and any other may go as well.
            let mut shares = vec![0_u64; workers as usize];
            after.iter().for_each(|&worker| shares[worker as usize] += 1);
            assert_eq!(moved.count() as u64, shares[newcomer as usize]);
            for (worker, share) in shares.into_iter().enumerate() {
                let limit = KEYS * 13 / 10 / u64::from(workers);
                assert!(
                    share <= limit,
                    "{method:?}, {workers} workers: {worker} has {share}, {limit} is the limit"
                );
            }
            before = after;
        }
        // Taking away anybody moves nobody else's keys, and adding it again restores every owner.
        for gone in [0, 17, 63] {
            assert!(owners.remove(gone));
            for (key, &owner) in before.iter().enumerate() {
                let now = owners.owner(key as u64).unwrap();
                assert!(if owner == gone { now != gone } else { now == owner }, "{method:?}");
            }
            assert!(owners.add(gone));
            assert!((0..KEYS).all(|key| owners.owner(key) == Some(before[key as usize])), "{method:?}");
        }
    }
}

/// How far the workers are from an even share of 50 000 keys, the fullest and the emptiest, in thousandths.
fn spread(owners: &Affinity, workers: &[u32]) -> (u64, u64) {
    const KEYS: u64 = 50_000;
    let mut shares = vec![0_u64; workers.len()];
    for key in 0..KEYS {
        let owner = owners.owner(mix(key)).unwrap();
        shares[workers.iter().position(|&worker| worker == owner).unwrap()] += 1;
    }
    let thousandths = |share: u64| share * 1000 * workers.len() as u64 / KEYS;
    (thousandths(*shares.iter().max().unwrap()), thousandths(*shares.iter().min().unwrap()))
}

#[test]
fn keys_are_spread_within_15_percent_over_16_workers_and_5_by_rendezvous() {
    for method in METHODS {
        for crew in 0..5_u32 {
            let workers: Vec<u32> = (crew * 1_000..crew * 1_000 + 16).collect();
            let (most, least) = spread(&owners(method, workers.iter().copied()), &workers);
            let allowed = if method == Method::Rendezvous { 50 } else { 150 };
            assert!(most <= 1_000 + allowed && least >= 1_000 - allowed, "{method:?}: {least} to {most}");
        }
    }
}

#[test]
fn the_probes_are_what_keeps_a_ring_within_15_percent() {
    let workers: Vec<u32> = (0..16).collect();
    let outside = |probes: u32| {
        let crews =
            (0..5_u32).map(|crew| workers.iter().map(|worker| worker + crew * 1_000).collect::<Vec<_>>());
        let spreads = crews.map(|workers| {
            let mut ring = HashRing::new(150, probes).unwrap();
            workers.iter().for_each(|&worker| assert!(ring.add(worker)));
            spread(&Affinity::Ring(ring), &workers)
        });
        spreads.filter(|&(most, least)| most > 1_150 || least < 850).count()
    };
    assert!(outside(1) > 0, "a plain ring would do, and the probes are for nothing");
    assert_eq!(outside(3), 0);
}

#[test]
fn weights_are_kept_in_proportion_and_a_changed_weight_moves_only_its_own_keys() {
    const KEYS: u64 = 60_000;
    let mut owners = Rendezvous::new();
    for (worker, weight) in [(0, 1), (1, 2), (2, 3)] {
        assert!(owners.add_weighted(worker, weight));
    }
    let before: Vec<u32> = (0..KEYS).map(|key| owners.owner(key).unwrap()).collect();
    for (worker, even) in [(0, 10_000), (1, 20_000), (2, 30_000)] {
        let share = before.iter().filter(|&&owner| owner == worker).count();
        assert!(share.abs_diff(even) < even / 25, "worker {worker} has {share}");
    }
    assert!(owners.set_weight(1, 6));
    for (key, &owner) in before.iter().enumerate() {
        let now = owners.owner(key as u64).unwrap();
        assert!(now == owner || now == 1, "a heavier worker only gains");
    }
    assert!(owners.set_weight(1, 2) && !owners.set_weight(9, 2));
    assert!((0..KEYS).all(|key| owners.owner(key) == Some(before[key as usize])));
}

#[test]
fn the_preference_is_who_follows_when_those_before_have_gone() {
    for method in METHODS {
        let mut owners = owners(method, 0..12);
        for key in (0..100).map(mix) {
            let mut list = [0; 20];
            assert_eq!(owners.preference(key, &mut list), 12, "as many as there are, each once");
            let list = &list[..12];
            assert_eq!(list.iter().collect::<HashSet<_>>().len(), 12);
            for &worker in list {
                assert_eq!(owners.owner(key), Some(worker), "{method:?}");
                owners.remove(worker);
            }
            assert_eq!((owners.owner(key), owners.preference(key, &mut [0; 3])), (None, 0));
            (0..12).for_each(|worker| assert!(owners.add(worker)));
        }
        assert_eq!(owners.preference(1, &mut []), 0);
    }
}

#[test]
fn adding_twice_is_adding_once_and_removing_takes_all_of_it() {
    // S3-35: in the seed, keys of a worker that was added twice and removed once had no owner.
    for method in METHODS {
        let mut owners = owners(method, [1, 2]);
        assert!(!owners.add(1) && owners.len() == 2);
        assert!(owners.remove(1) && !owners.remove(1));
        assert!((0..1_000).all(|key| owners.owner(key) == Some(2)), "{method:?}");
        assert!(owners.remove(2) && owners.is_empty());
        assert_eq!(owners.owner(5), None);
    }
}

#[test]
fn many_points_of_many_workers_leave_every_key_an_owner_when_any_of_them_goes() {
    // S3-34: in the seed two workers' points fell on one spot, and taking one away took the other's point
    // too.
    let mut ring = HashRing::new(150, 3).unwrap();
    (0..200).for_each(|worker| assert!(ring.add(worker)));
    for gone in (0..200).step_by(2) {
        assert!(ring.remove(gone));
    }
    assert!((0..20_000).all(|key| ring.owner(key).is_some_and(|owner| owner % 2 == 1)));
}

fn millis(value: &Value) -> Moment {
    Moment::ZERO + Duration::from_millis(value.as_u64().unwrap())
}

#[test]
fn sticky_keys_stay_and_go_as_written() {
    let vectors = parse(include_str!("../../../tests/vectors/affinity-sticky.json"));
    for case in vectors["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut owners = owners(Method::Rendezvous, shorts(&case["workers"]));
        let life = millis(&case["sticky_for_ms"]).since(Moment::ZERO);
        let mut sticky = Sticky::new(short(&case["keys_max"]) as usize, life).unwrap();
        for step in case["steps"].as_array().unwrap() {
            let now = millis(&step["now_ms"]);
            if step["route"].is_string() {
                let got = sticky.route(long(&step["route"]), &owners, now);
                let expect = step["expect"].as_object();
                let expect = expect.map(|expect| (short(&expect["worker"]), expect["hit"] == true));
                assert_eq!(got, expect, "{name}, at {now}");
            } else if step["add"].is_u64() {
                assert!(owners.add(short(&step["add"])));
            } else if step["remove"].is_u64() {
                let gone = short(&step["remove"]);
                assert!(owners.remove(gone));
                assert_eq!(sticky.forget_worker(gone, now), short(&step["moved"]) as usize, "{name}");
            } else {
                let (counts, expect) = (sticky.counts(), &step["counts"]);
                let got =
                    [counts.hits, counts.misses, counts.moved, counts.evicted, counts.hit_rate().into()];
                let names = ["hits", "misses", "moved", "evicted", "hit_rate"];
                assert_eq!(got, names.map(|name| expect[name].as_u64().unwrap()), "{name}");
            }
        }
    }
}

#[test]
fn a_table_made_for_some_keys_keeps_nearly_all_of_them() {
    let mut sticky = Sticky::new(1_000, Duration::from_secs(1)).unwrap();
    assert_eq!(sticky.places(), 2_048);
    let now = Moment::from_nanos(1);
    (0..1_000).for_each(|key| sticky.bind(key, 3, now));
    let kept = sticky.len(now);
    assert!(kept >= 990, "{kept} of 1000 keys are kept");
    assert_eq!(kept as u64 + sticky.counts().evicted, 1_000, "the others are counted");
    assert_eq!(sticky.forget_worker(3, now), kept);
    assert_eq!((sticky.len(now), sticky.counts().moved), (0, kept as u64));
}

#[test]
fn a_key_is_bound_once_wherever_it_moves_and_can_be_forgotten() {
    let mut sticky = Sticky::new(100, Duration::from_secs(1)).unwrap();
    let now = Moment::ZERO;
    for worker in 0..50 {
        sticky.bind(0, worker, now);
        assert_eq!(sticky.find(0, now), Some(worker));
    }
    assert_eq!((sticky.len(now), sticky.counts().evicted), (1, 0));
    assert!(sticky.forget(0, now) && !sticky.forget(0, now));
    assert_eq!(sticky.find(0, now), None);
    assert_eq!(sticky.counts().hit_rate(), 9_803, "50 of 51");
}

#[test]
fn no_look_for_an_owner_allocates() {
    for method in METHODS {
        let owners = owners(method, 0..32);
        let mut sticky = Sticky::new(64, Duration::from_secs(1)).unwrap();
        let mut weighted = Rendezvous::new();
        (0..32).for_each(|worker| assert!(weighted.add_weighted(worker, 1 + worker % 3)));
        let memory = allocation_counter::measure(|| {
            for key in 0..1_000 {
                let mut list = [0; 8];
                assert_eq!(owners.preference(key, &mut list), 8);
                assert!(owners.owner(key).is_some() && weighted.owner(key).is_some());
                assert!(sticky.route(key, &owners, Moment::from_nanos(key)).is_some());
            }
            sticky.forget_worker(3, Moment::ZERO);
        });
        assert_eq!(memory.count_total, 0, "{method:?}");
    }
}
