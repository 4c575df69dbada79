//! Every interleaving of batches: what is refused stays out, what is read is whole, and slots go round.
//!
//! A message carries its number twice, in words of their own. Shared memory is atomic throughout, so a missing ordering
//! shows as a message whose two numbers differ.

use super::error::{StartError, SubmitError};
use super::v2::{DeathPolicy, Identity, Peer, Reaper, Region, Submission};
use super::v2_geometry::{Config, model_memory};
use crate::model::explore;
use crate::sync::thread;
use alloc::vec::Vec;
use core::time::Duration;

const LONG: Duration = Duration::from_secs(1);

fn region(slots: u32, lane_capacity: u32) -> Region {
    let config = Config { lanes: 1, lane_capacity, slots, slot_stride: 64, attach_records: 3, segment: 1 };
    Region::create(model_memory(config), config).unwrap()
}

fn message(number: u64) -> Submission<'static> {
    Submission { task: number, attachment: 10 * number, ..Submission::default() }
}

/// Receives so many messages, and sleeps when there is none: their numbers, as they came.
fn receive(peer: &Peer, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let received = peer.receive_batch(0, 2, |message| {
            assert_eq!(message.attachment(), 10 * message.task());
            numbers.push(message.task());
        });
        match received {
            Ok(_) => {}
            Err(StartError::Empty) => drop(peer.wait_items(LONG)),
            Err(refusal) => panic!("{refusal}"),
        }
    }
    numbers
}

#[test]
fn messages_are_read_whole_and_in_order_and_their_slots_go_round() {
    explore(2, || {
        let region = region(2, 2);
        let [sender, receiver] = [(); 2].map(|()| region.attach(Identity::default()).unwrap());
        let reading = thread::spawn(move || {
            assert_eq!(receive(&receiver, 3), [1, 2, 3]);
            receiver
        });
        assert_eq!(sender.send_batch(&[message(1), message(2)]), Ok(2));
        while sender.send_batch(&[message(3)]) == Err(SubmitError::NoSlot) {
            sender.wait_slot(LONG);
        }
        let _receiver = reading.join().unwrap();
        assert_eq!(region.census().free, 2);
    });
}

/// A slot made free and not yet listed looks lost to a sweep, which lists it too; so does a hint of the lane that is in
/// the receiver's hand.
#[test]
fn a_sweep_beside_the_end_of_a_batch_gives_no_slot_to_two() {
    // One switch puts the sweep between any two steps, and it has too many steps to search them all in pairs.
    explore(1, || {
        let region = region(1, 2);
        let [sender, receiver, reaper] = [(); 3].map(|()| region.attach(Identity::default()).unwrap());
        assert_eq!(sender.send_batch(&[message(1)]), Ok(1));
        let reading = thread::spawn(move || {
            assert_eq!(receiver.receive_batch(0, 2, |message| assert_eq!(message.task(), 1)), Ok(1));
            receiver
        });
        let mut memory = Reaper::default();
        for _ in 0..2 {
            memory.sweep(&reaper, 0, DeathPolicy::Fail, |_| false).unwrap();
        }
        let _receiver = reading.join().unwrap();
        assert_eq!(region.census().free, 1);
        // However often it is listed, it is one slot.
        assert_eq!(sender.send_batch(&[message(2), message(3)]), Ok(1));
    });
}

/// A batch that the lane has no room for, while a sweep announces what looks lost and somebody runs it.
#[test]
fn a_refused_task_of_a_batch_is_never_followed_by_one_that_runs() {
    // One switch is what it takes, and a sweep has too many steps to search them all in pairs.
    explore(1, || {
        let region = region(3, 1);
        let [client, worker] = [(); 2].map(|()| region.attach(Identity::default()).unwrap());
        let detached = Submission { detached: true, ..Submission::default() };
        let _ticket = client.submit(detached).unwrap();
        let workshop = thread::spawn(move || {
            worker.start(0).unwrap().finish(0, &[]).unwrap();
            let mut memory = Reaper::default();
            for _ in 0..2 {
                memory.sweep(&worker, 0, DeathPolicy::Fail, |_| false).unwrap();
            }
            if let Ok(running) = worker.start(0) {
                running.finish(0, &[]).unwrap();
            }
            worker
        });
        let mut tickets = Vec::new();
        let count = client.submit_batch(&[Submission::default(); 2], &mut tickets).unwrap_or(0);
        let _worker = workshop.join().unwrap();
        assert_eq!(count, tickets.len());
        for ticket in tickets {
            // A ticket of ours stays valid until it is released, if it is that of a task that went in.
            client.poll(&ticket).unwrap();
            client.detach(ticket).unwrap();
        }
    });
}
