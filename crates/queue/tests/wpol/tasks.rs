//! A task's way through version 2: in, run, fetched, refused, cancelled, late, in batches and in lanes.
//!
//! What a caller is told must be what happened, and what is refused must leave nothing behind.
//!
//! Not here: peers that die on the way (`dead.rs`).

use crate::{peer, probed, region, small};
use millpond_queue::wpol::v2::{
    Cancel, Config, FinishError, Progress, StartError, Submission, SubmitError, TicketError, lane_for,
};
use std::time::Duration;

#[test]
fn a_fresh_region_of_version_2_has_the_documented_header() {
    let (_region, probe) = probed(small(2));
    let read = probe.to_bytes();
    let len = read.len();
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
fn an_attachment_is_carried_in_its_word_of_the_slot_and_is_nothing_unless_given() {
    let (region, probe) = probed(small(1));
    let (client, worker) = (peer(&region), peer(&region));
    let slot = probe.to_bytes().len() - 128;
    for attachment in [u64::MAX, 0x0123_4567_89AB_CDEF, 0] {
        let payload = &[0xEE; 48];
        let ticket = client.submit(Submission { attachment, payload, ..Submission::default() }).unwrap();
        assert_eq!(probe.read(slot + 0x38), attachment);
        let running = worker.start(0).unwrap();
        assert_eq!((running.attachment(), running.payload().as_slice()), (attachment, &payload[..]));
        running.finish(7, &[0xDD; 16]).unwrap();
        assert_eq!(probe.read(slot + 0x38), attachment, "a result does not touch it");
        assert_eq!(client.poll(&ticket), Ok(Progress::Done { status: 7 }));
        assert_eq!(client.result(&ticket).unwrap(), [0xDD; 16]);
        client.release(ticket).unwrap();
    }
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

#[test]
fn a_batch_of_none_takes_none_and_at_once() {
    let region = region(small(2));
    let (client, worker) = (peer(&region), peer(&region));
    drop(client.submit(Submission { detached: true, ..Submission::default() }).unwrap());
    let mut tasks = Vec::new();
    assert_eq!(worker.start_batch(0, 0, &mut tasks), Ok(0));
    assert_eq!(client.submit_batch(&[], &mut Vec::new()), Ok(0));
    assert_eq!(worker.start_batch(0, 9, &mut tasks), Ok(1));
}

#[test]
fn whoever_holds_a_ticket_may_give_it_up() {
    let region = region(small(1));
    let (client, other) = (peer(&region), peer(&region));
    for is_over in [false, true] {
        let ticket = client.submit(Submission::default()).unwrap();
        let running = other.start(0).unwrap();
        if is_over {
            running.finish(0, b"never fetched").unwrap();
            other.detach(ticket).unwrap();
        } else {
            other.detach(ticket).unwrap();
            running.finish(0, b"never fetched").unwrap();
        }
        assert_eq!(region.census().free, 1);
    }
}
