//! Every interleaving of sweeping and attaching: one reaper at a time, and nobody is reaped in another's place.
//!
//! Who is dead is told by a flag that stands for a lock outside the region: it is read by a change of nothing, since
//! a lock is never seen as it was. What a reaper or an owner does to a record stands in a cell (`model_cells.rs`).
//! Peers leave after everybody has ended, so that their leaving is not searched where it is not the question.

use super::error::SweepError;
use super::model_cells::Cells;
use super::v2::{DeathPolicy, Identity, Peer, Reaper, Region, Sweep};
use super::v2_geometry::{Config, model_memory};
use crate::model::explore;
use crate::sync::Ordering::Relaxed;
use crate::sync::{Arc, AtomicU32, thread};

/// Records: 0 and 1 sweep, 2 is the one in question, 3 is a bystander whom only somebody sweeping asks about.
const IN_QUESTION: u32 = 2;
const BYSTANDER: u32 = 3;

struct Fixture {
    region: Region,
    /// One cell per record; the bystander's is the role's.
    cells: Cells,
    is_alive: AtomicU32,
}

impl Fixture {
    fn new(is_alive: bool) -> Arc<Self> {
        let config =
            Config { lanes: 1, lane_capacity: 1, slots: 1, slot_stride: 64, attach_records: 4, segment: 1 };
        let region = Region::create(model_memory(config), config).unwrap();
        Arc::new(Self { region, cells: Cells::new(4), is_alive: AtomicU32::new(is_alive.into()) })
    }

    fn peer(&self, index: u32) -> Peer {
        self.region.attach_record(index, Identity::default()).unwrap()
    }

    fn sweep(&self, peer: &Peer) -> Result<Sweep, SweepError> {
        Reaper::default().sweep(peer, 0, DeathPolicy::Fail, |index| match index {
            IN_QUESTION => self.is_alive.fetch_add(0, Relaxed) == 0,
            BYSTANDER => {
                self.cells.write(BYSTANDER, peer.index());
                false
            }
            _ => false,
        })
    }
}

#[test]
fn a_record_is_taken_when_its_last_owners_sweep_is_over() {
    explore(2, || {
        let fixture = Fixture::new(false);
        let (reaper, dead) = (fixture.peer(0), fixture.peer(IN_QUESTION));
        core::mem::forget(dead);
        let newcomer = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let peer = fixture.region.attach_record(IN_QUESTION, Identity::default()).ok();
                if peer.is_some() {
                    fixture.cells.write(IN_QUESTION, 2);
                }
                peer
            })
        };
        let sweep = Reaper::default().sweep(&reaper, 0, DeathPolicy::Fail, |index| {
            fixture.cells.write(index, 1);
            index == IN_QUESTION
        });
        assert_eq!(sweep.unwrap().buried, 1);
        drop(newcomer.join().unwrap());
    });
}

#[test]
fn two_reapers_sweep_one_after_the_other() {
    explore(2, || {
        let fixture = Fixture::new(true);
        let (first, second, _bystander) = (fixture.peer(0), fixture.peer(1), fixture.peer(BYSTANDER));
        let rival = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let sweep = fixture.sweep(&second);
                (second, sweep)
            })
        };
        let sweep = fixture.sweep(&first);
        let (_second, rivals) = rival.join().unwrap();
        assert!(sweep.is_ok() || rivals.is_ok());
    });
}

/// The dead holder of the role is swept, and the next owner of its record sweeps, while another asks about it.
#[test]
fn the_role_of_the_dead_is_not_taken_from_the_next_owner_of_its_record() {
    // A switch to the rival, one back while it asks, and one to it while the next owner sweeps.
    explore(3, || {
        let fixture = Fixture::new(false);
        let (first, second, _bystander) = (fixture.peer(0), fixture.peer(1), fixture.peer(BYSTANDER));
        let dead = fixture.peer(IN_QUESTION);
        fixture.region.shared.take_reaper_role(dead.index(), &|_| false).unwrap();
        core::mem::forget(dead);
        let rival = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let _ = fixture.sweep(&second);
                second
            })
        };
        let mut next = None;
        if fixture.sweep(&first).is_ok_and(|sweep| sweep.buried == 1) {
            fixture.is_alive.store(1, Relaxed);
            let peer = fixture.peer(IN_QUESTION);
            let _ = fixture.sweep(&peer);
            next = Some(peer);
        }
        let _second = rival.join().unwrap();
        drop(next);
    });
}

#[test]
fn a_peer_is_not_reaped_for_one_that_left_its_record() {
    explore(3, || {
        let fixture = Fixture::new(true);
        let (reaper, leaving) = (fixture.peer(0), fixture.peer(IN_QUESTION));
        let change = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                drop(leaving);
                fixture.is_alive.store(0, Relaxed);
                fixture.is_alive.store(1, Relaxed);
                fixture.peer(IN_QUESTION)
            })
        };
        assert_eq!(fixture.sweep(&reaper).unwrap().buried, 0);
        let _newcomer = change.join().unwrap();
    });
}
