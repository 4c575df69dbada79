//! Which groups there are, and which of them a prefix chooses.
//!
//! A group is named after the queue, then after who uses it: `ring-2p2c` has two producers and two consumers.
//! So one prefix chooses all there is to know about one queue, or about the pool, about tasks, about shared
//! memory, about HTTP, about the journal, or about NATS.
//!
//! Not here: what a group does (its own file), how its rounds are mixed (`measure.rs`).

mod deque;
mod gate;
mod global;
mod http;
mod idle;
mod journal;
mod nats;
mod policy;
mod pool;
mod ring;
mod shm;
mod tasks;

use crate::measure::{Better, Contestant, Group, Pace};

/// Room in every bounded queue.
const CAPACITY: usize = 1024;

/// Every group, in the order in which they are run and listed.
pub(crate) fn all() -> Vec<Group> {
    let groups = [
        ring::groups(),
        gate::groups(),
        idle::groups(),
        deque::groups(),
        global::groups(),
        pool::groups(),
        policy::groups(),
        tasks::groups(),
        shm::groups(),
        http::groups(),
        journal::groups(),
        nats::groups(),
    ];
    groups.into_iter().flatten().collect()
}

/// The groups that begin with one of the prefixes, or are named by one with `=` before it; all if there is none.
pub(crate) fn chosen(prefixes: &[String]) -> Result<Vec<Group>, String> {
    let groups = all();
    for prefix in prefixes {
        if !groups.iter().any(|group| chooses(prefix, group.name)) {
            let names: Vec<_> = groups.iter().map(|group| group.name).collect();
            return Err(format!("no group begins with \"{prefix}\"; the groups are {}", names.join(", ")));
        }
    }
    let wanted =
        |group: &Group| prefixes.is_empty() || prefixes.iter().any(|prefix| chooses(prefix, group.name));
    Ok(groups.into_iter().filter(wanted).collect())
}

fn chooses(prefix: &str, name: &str) -> bool {
    match prefix.strip_prefix('=') {
        Some(exact) => name == exact,
        None => name.starts_with(prefix),
    }
}

/// A group that is measured in nanoseconds per item.
fn per_item(name: &'static str, question: &'static str, contestants: Vec<Contestant>) -> Group {
    measured(name, question, "ns/item", contestants)
}

/// A group that is measured round by round in some unit of which less is better.
fn measured(
    name: &'static str,
    question: &'static str,
    unit: &'static str,
    contestants: Vec<Contestant>,
) -> Group {
    Group { name, question, unit, better: Better::Lower, pace: Pace::Rounds, contestants }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian;
    use crate::measure::{OURS, Round, is_ours};
    use std::collections::hash_map::{DefaultHasher, RandomState};
    use std::hash::{BuildHasher, Hash, Hasher};

    fn names(prefixes: &[&str]) -> Vec<&'static str> {
        let prefixes: Vec<_> = prefixes.iter().map(ToString::to_string).collect();
        chosen(&prefixes).unwrap().iter().map(|group| group.name).collect()
    }

    #[test]
    fn a_prefix_chooses_all_that_begin_with_it_and_an_equals_sign_just_the_one() {
        assert_eq!(names(&["gate"]), ["gate-1p1c", "gate-2p2c", "gate-idle"]);
        assert_eq!(names(&["=ring-1"]), ["ring-1"]);
        assert_eq!(names(&["ring-1", "=ring-1"]), ["ring-1", "ring-1p1c"]);
        assert_eq!(names(&[]).len(), all().len());
    }

    #[test]
    fn an_unknown_prefix_is_answered_with_the_groups() {
        let message = chosen(&["rung".to_owned()]).err().unwrap();
        assert!(message.starts_with("no group begins with \"rung\"; the groups are ring-1, "), "{message}");
        assert!(message.contains("gate-2p2c"));
    }

    #[test]
    fn every_group_has_a_row_of_ours_and_no_row_twice() {
        for group in all() {
            let mut peers: Vec<_> = group.contestants.iter().map(|contestant| contestant.peer).collect();
            assert!(peers.contains(&OURS), "{} has no row of ours", group.name);
            peers.sort_unstable();
            peers.dedup();
            assert_eq!(peers.len(), group.contestants.len(), "{}", group.name);
        }
    }

    /// In one group of eight ours and one peer in three, drawn by lot: over the runs all have their turn, and a run
    /// does not take minutes. `MILLPOND_SEED` repeats a draw, `MILLPOND_ALL_PEERS=1` takes them all.
    #[test]
    fn ours_and_the_peers_that_are_drawn_move_every_item() {
        let given = std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        let takes_all = std::env::var_os("MILLPOND_ALL_PEERS").is_some();
        eprintln!("peers are drawn with MILLPOND_SEED={seed}");
        let is_drawn = |group: &str, peer: &str, one_in: u64| {
            let mut lot = DefaultHasher::new();
            (seed, group, peer).hash(&mut lot);
            takes_all || lot.finish().is_multiple_of(one_in)
        };
        for group in all().into_iter().filter(|group| is_drawn(group.name, "", 8)) {
            for contestant in &group.contestants {
                if !is_ours(contestant.peer) && !is_drawn(group.name, contestant.peer, 3) {
                    continue;
                }
                if let Err(reason) = (contestant.prepare)() {
                    // Where Debian's packages can be fetched, every peer must be there.
                    assert!(!is_ours(contestant.peer) && !debian::is_here(), "{}: {reason}", contestant.peer);
                    eprintln!("{}: {} was not run: {reason}", group.name, contestant.peer);
                    continue;
                }
                let figures = (contestant.round)(&Round { items: 20_000, pinned: false })
                    .unwrap_or_else(|fault| panic!("{}: {}: {fault}", group.name, contestant.peer));
                // What is counted of the heap is everybody's, and other tests run beside this one.
                let is_sound = figures.main > 0.0 || group.pace == Pace::Once;
                assert!(is_sound, "{}: {}: {figures:?}", group.name, contestant.peer);
            }
        }
    }
}
