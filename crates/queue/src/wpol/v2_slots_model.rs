//! Every interleaving of what can happen to one slot: submit, start, finish, cancel, detach, release, death.
//!
//! Each slot has a cell (`model_cells.rs`) for what its payload and result would be. Peers are handed back by their
//! threads and leave after everybody has ended, so that their leaving is not searched.

use super::error::{FinishError, RegionError, StartError};
use super::model_cells::Cells;
use super::v2::{Cancel, DeathPolicy, Identity, Peer, Progress, Reaper, Region, Running, Submission, Ticket};
use super::v2_geometry::{Config, model_memory};
use crate::model::explore;
use crate::sync::{Arc, thread};
// Regions hold their memory by the plain make, whatever `sync.rs` says an `Arc` is.
use alloc::sync::Arc as PlainArc;

struct Fixture {
    region: Region,
    cells: Cells,
}

fn config(slots: u32) -> Config {
    Config { lanes: 1, lane_capacity: 2, slots, slot_stride: 64, attach_records: 3, segment: 1 }
}

impl Fixture {
    fn new(slots: u32) -> Arc<Self> {
        let region = Region::create(model_memory(config(slots)), config(slots)).unwrap();
        Arc::new(Self { region, cells: Cells::new(slots as usize) })
    }

    fn peer(&self) -> Peer {
        self.region.attach(Identity::default()).unwrap()
    }

    fn write(&self, slot: u32, value: u32) {
        self.cells.write(slot, value);
    }

    fn read(&self, slot: u32) -> u32 {
        self.cells.read(slot)
    }
}

/// Submits a task whose number is in its cell as well.
fn submit(fixture: &Fixture, peer: &Peer, value: u32) -> Ticket {
    let submission = Submission { task: value.into(), ..Submission::default() };
    // The cell stands for the payload, which `submit` writes between taking the slot and queueing it.
    peer.submit_with(submission, |slot| fixture.write(slot, value)).unwrap()
}

fn start(peer: &Peer) -> Running<'_> {
    loop {
        match peer.start(0) {
            Ok(running) => return running,
            Err(StartError::Empty) => thread::yield_now(),
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

#[test]
fn a_slot_serves_one_task_after_another() {
    explore(2, || {
        let fixture = Fixture::new(1);
        let (client, worker) = (fixture.peer(), fixture.peer());
        let workshop = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                for _ in 0..2 {
                    let running = start(&worker);
                    let value = fixture.read(running.slot());
                    assert_eq!(u64::from(value), running.task());
                    fixture.write(running.slot(), value + 10);
                    running.finish(value, &[]).unwrap();
                }
                worker
            })
        };
        for value in [1, 2] {
            let ticket = submit(&fixture, &client, value);
            loop {
                match client.poll(&ticket).unwrap() {
                    Progress::Done { status } => break assert_eq!(status, value),
                    _ => thread::yield_now(),
                }
            }
            assert_eq!(fixture.read(ticket.slot), value + 10);
            client.release(ticket).unwrap();
        }
        workshop.join().unwrap();
        assert_eq!(fixture.region.census().free, 1);
    });
}

#[test]
fn a_task_is_cancelled_or_started_and_never_both() {
    explore(3, || {
        let fixture = Fixture::new(1);
        let (client, worker) = (fixture.peer(), fixture.peer());
        let ticket = submit(&fixture, &client, 1);
        let workshop = thread::spawn(move || {
            let ran = worker.start(0).map(|running| running.finish(0, &[]).unwrap()).is_ok();
            (worker, ran)
        });
        let cancelled = client.cancel(&ticket).unwrap();
        let (_worker, ran) = workshop.join().unwrap();
        assert_eq!(cancelled == Cancel::Cancelled, !ran, "{cancelled:?}");
        client.release(ticket).unwrap();
        assert_eq!(fixture.region.census().free, 1);
    });
}

/// A cancelled task leaves its hint in the lane. The hint may lead to a later task in the same slot.
#[test]
fn a_stale_hint_leads_to_a_whole_task_or_to_none() {
    explore(2, || {
        let fixture = Fixture::new(1);
        let (client, worker) = (fixture.peer(), fixture.peer());
        let workshop = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                if let Ok(running) = worker.start(0) {
                    assert_eq!(u64::from(fixture.read(running.slot())), running.task());
                    running.finish(0, &[]).unwrap();
                }
                worker
            })
        };
        let first = submit(&fixture, &client, 1);
        if client.cancel(&first).unwrap() == Cancel::Cancelled {
            client.release(first).unwrap();
            let second = submit(&fixture, &client, 2);
            drop(workshop.join().unwrap());
            client.detach(second).unwrap();
        } else {
            drop(workshop.join().unwrap());
        }
    });
}

/// A sweep may list a free slot twice. Whoever comes by the second hint must still come after the last owner.
#[test]
fn a_doubled_hint_gives_a_slot_to_one_owner_at_a_time() {
    explore(2, || {
        let fixture = Fixture::new(1);
        let (client, other) = (fixture.peer(), fixture.peer());
        fixture.region.shared.list_free(0);
        let rival = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let submission = Submission { detached: true, ..Submission::default() };
                if let Ok(ticket) = other.submit_with(submission, |slot| fixture.write(slot, 2)) {
                    // Taken back at once, by cancelling what nobody waits for.
                    let _ = other.cancel(&ticket);
                }
                other
            })
        };
        let submission = Submission { detached: true, ..Submission::default() };
        if let Ok(ticket) = client.submit_with(submission, |slot| fixture.write(slot, 1)) {
            let _ = client.cancel(&ticket);
        }
        drop(rival.join().unwrap());
        assert_eq!(fixture.region.census().free, 1);
    });
}

/// The same for a reader: whoever takes the slot next must come after the last look at the result.
#[test]
fn a_slot_is_not_refilled_before_its_result_is_read() {
    explore(3, || {
        let fixture = Fixture::new(1);
        let (client, worker) = (fixture.peer(), fixture.peer());
        let ticket = submit(&fixture, &client, 1);
        start(&worker).finish(0, &[]).unwrap();
        fixture.region.shared.list_free(0);
        let rival = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let submission = Submission { detached: true, ..Submission::default() };
                let _ = worker.submit_with(submission, |slot| fixture.write(slot, 2));
                worker
            })
        };
        assert_eq!(fixture.read(ticket.slot), 1);
        client.release(ticket).unwrap();
        drop(rival.join().unwrap());
    });
}

#[test]
fn a_task_is_finished_or_given_away_and_never_both() {
    explore(2, || {
        let fixture = Fixture::new(1);
        let (client, worker, reaper) = (fixture.peer(), fixture.peer(), fixture.peer());
        let ticket = submit(&fixture, &client, 1);
        let suspect = worker.index();
        let running = start(&worker);
        // Handed over as raw parts: a `Running` borrows its peer, and both go to the other thread.
        let handed = running.hand_over();
        let workshop = thread::spawn(move || {
            let finished = Running::resume(&worker, handed).finish(0, &[]);
            (worker, finished)
        });
        let policy = DeathPolicy::Requeue { attempts_max: 3 };
        let sweep = Reaper::default().sweep(&reaper, 0, policy, |index| index == suspect).unwrap();
        let (worker, finished) = workshop.join().unwrap();
        assert_eq!(sweep.requeued == 1, finished == Err(FinishError::GivenAway), "{sweep:?} {finished:?}");
        let progress = client.poll(&ticket).unwrap();
        assert_eq!(progress == Progress::Queued, sweep.requeued == 1, "{progress:?}");
        core::mem::forget(worker);
        client.detach(ticket).unwrap();
    });
}

#[test]
fn a_slot_nobody_waits_for_is_freed_by_finisher_or_leaver() {
    explore(3, || {
        let fixture = Fixture::new(1);
        let (client, worker) = (fixture.peer(), fixture.peer());
        let ticket = submit(&fixture, &client, 1);
        let handed = start(&worker).hand_over();
        let workshop = thread::spawn(move || {
            Running::resume(&worker, handed).finish(0, &[]).unwrap();
            worker
        });
        client.detach(ticket).unwrap();
        let _worker = workshop.join().unwrap();
        assert_eq!(fixture.region.census().free, 1);
    });
}

#[test]
fn a_sweep_beside_a_submit_starts_nothing_twice() {
    explore(2, || {
        let fixture = Fixture::new(1);
        let (client, worker, reaper) = (fixture.peer(), fixture.peer(), fixture.peer());
        let submitter = {
            let fixture = Arc::clone(&fixture);
            thread::spawn(move || {
                let ticket = submit(&fixture, &client, 1);
                (client, ticket)
            })
        };
        let mut memory = Reaper::default();
        for _ in 0..2 {
            memory.sweep(&reaper, 0, DeathPolicy::Fail, |_| false).unwrap();
        }
        let (client, ticket) = submitter.join().unwrap();
        start(&worker).finish(0, &[]).unwrap();
        assert!(matches!(worker.start(0), Err(StartError::Empty)));
        client.release(ticket).unwrap();
    });
}

#[test]
fn an_opener_sees_no_region_or_a_whole_one() {
    explore(3, || {
        let memory = PlainArc::new(model_memory(config(1)));
        let opened = PlainArc::clone(&memory);
        let opener = thread::spawn(move || match Region::open(opened) {
            Ok(region) => assert_eq!(region.census().free, 1),
            Err(RegionError::InvalidMagic { .. } | RegionError::NotReady { life: 1 }) => {}
            Err(refusal) => panic!("{refusal}"),
        });
        Region::create(memory, config(1)).unwrap();
        opener.join().unwrap();
    });
}
