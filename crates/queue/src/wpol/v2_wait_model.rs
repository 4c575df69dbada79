//! Every interleaving of sleeping and waking: nobody sleeps beside work. loom reports a deadlock if somebody does,
//! since in a model no nap ends by itself.

use super::error::{StartError, SubmitError};
use super::v2::{Identity, Progress, Region, Submission};
use super::v2_geometry::{Config, model_memory};
use crate::model::explore;
use crate::sync::thread;
use core::time::Duration;

const LONG: Duration = Duration::from_secs(1);

fn region(slots: u32, lane_capacity: u32) -> Region {
    let config = Config { lanes: 1, lane_capacity, slots, slot_stride: 64, attach_records: 3, segment: 1 };
    Region::create(model_memory(config), config).unwrap()
}

#[test]
fn a_worker_never_sleeps_beside_a_task() {
    explore(3, || {
        let region = region(2, 2);
        let [client, worker] = [(); 2].map(|()| region.attach(Identity::default()).unwrap());
        let workshop = thread::spawn(move || {
            loop {
                match worker.start(0) {
                    Ok(running) => break running.finish(0, &[]).unwrap(),
                    Err(StartError::Empty) => drop(worker.wait_items(LONG)),
                    Err(refusal) => panic!("{refusal}"),
                }
            }
            worker
        });
        let _ticket = client.submit(Submission { detached: true, ..Submission::default() }).unwrap();
        drop(workshop.join().unwrap());
    });
}

#[test]
fn a_submitter_never_sleeps_beside_a_free_slot() {
    explore(2, || {
        let region = region(1, 2);
        let [client, worker] = [(); 2].map(|()| region.attach(Identity::default()).unwrap());
        let submission = Submission { detached: true, ..Submission::default() };
        let _ticket = client.submit(submission).unwrap();
        let workshop = thread::spawn(move || {
            worker.start(0).unwrap().finish(0, &[]).unwrap();
            worker
        });
        while client.submit(submission) == Err(SubmitError::NoSlot) {
            client.wait_slot(LONG);
        }
        drop(workshop.join().unwrap());
    });
}

#[test]
fn a_submitter_never_sleeps_beside_room_in_its_lane() {
    explore(2, || {
        let region = region(2, 1);
        let [client, worker] = [(); 2].map(|()| region.attach(Identity::default()).unwrap());
        let submission = Submission { detached: true, ..Submission::default() };
        let _ticket = client.submit(submission).unwrap();
        let workshop = thread::spawn(move || {
            worker.start(0).unwrap().finish(0, &[]).unwrap();
            worker
        });
        while client.submit(submission) == Err(SubmitError::LaneFull) {
            client.wait_space(0, LONG);
        }
        drop(workshop.join().unwrap());
    });
}

#[test]
fn a_ticket_holder_never_sleeps_beside_its_result() {
    explore(3, || {
        let region = region(1, 2);
        let [client, worker] = [(); 2].map(|()| region.attach(Identity::default()).unwrap());
        let ticket = client.submit(Submission::default()).unwrap();
        let handed = worker.start(0).unwrap().hand_over();
        let workshop = thread::spawn(move || {
            super::v2::Running::resume(&worker, handed).finish(0, &[]).unwrap();
            worker
        });
        while !client.wait(&ticket, LONG).unwrap() {}
        assert_eq!(client.poll(&ticket), Ok(Progress::Done { status: 0 }));
        client.release(ticket).unwrap();
        drop(workshop.join().unwrap());
    });
}
