//! Messages in batches: sent without tickets, read in order, over once they are read.
//!
//! What travels between two programs goes this way, so what a reader does not get to see must not be lost, and what it
//! has seen must leave nothing behind, whatever the reader does.
//!
//! Not here: batches of tasks with tickets (`tasks.rs`, `threads.rs`).

use crate::{peer, region, small};
use millpond_queue::wpol::v2::{Progress, Running, StartError, Submission, SubmitError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

fn messages(numbers: std::ops::RangeInclusive<u64>) -> Vec<Submission<'static>> {
    numbers.map(|task| Submission { task, ..Submission::default() }).collect()
}

fn received(peer: &millpond_queue::wpol::v2::Peer, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    let told = peer.receive_batch(0, count, |message| seen.push(message.task()));
    assert_eq!(told.unwrap_or(0), seen.len());
    seen
}

#[test]
fn messages_come_in_order_and_leave_no_slot_behind() {
    let region = region(small(60));
    let (sender, reader) = (peer(&region), peer(&region));
    for first in [1, 101] {
        assert_eq!(sender.send_batch(&messages(first..=first + 39)), Ok(40));
        assert_eq!(received(&reader, 7), (first..first + 7).collect::<Vec<_>>());
        assert_eq!(received(&reader, 99), (first + 7..first + 39).collect::<Vec<_>>(), "32 at a time");
        assert_eq!(region.census().free, 59);
        assert_eq!(received(&reader, 99), [first + 39]);
        assert_eq!(reader.receive_batch(0, 1, |_| panic!("there is none")), Err(StartError::Empty));
        assert_eq!(reader.receive_batch(0, 0, |_| panic!("none was asked for")), Ok(0));
        assert_eq!(region.census().free, 60);
    }
}

#[test]
fn a_ticket_of_a_message_is_the_receipt_that_it_was_read() {
    let region = region(small(2));
    let (sender, reader) = (peer(&region), peer(&region));
    let ticket = sender.submit(Submission { attachment: 7, ..Submission::default() }).unwrap();
    assert_eq!(reader.receive_batch(0, 9, |message| assert_eq!(message.attachment(), 7)), Ok(1));
    assert_eq!(sender.poll(&ticket), Ok(Progress::Done { status: 0 }));
    assert_eq!((sender.result(&ticket).unwrap(), region.census().ended), (Vec::new(), 1));
    sender.release(ticket).unwrap();
    assert_eq!(region.census().free, 2);
}

#[test]
fn a_batch_stops_at_the_first_that_is_refused() {
    let region = region(small(5));
    let sender = peer(&region);
    let mut batch = messages(1..=4);
    batch[2].payload = &[0; 65];
    assert_eq!(sender.send_batch(&batch), Ok(2));
    assert_eq!(sender.send_batch(&batch[2..]), Err(SubmitError::TooLong));
    assert_eq!((received(&sender, 9), region.census().free), (vec![1, 2], 5));
    assert_eq!(sender.send_batch(&messages(1..=9)), Ok(5), "as many as there are slots");
    assert_eq!(sender.send_batch(&messages(1..=9)), Err(SubmitError::NoSlot));
    batch[1].lane = 3;
    assert_eq!(received(&sender, 9).len(), 5);
    assert_eq!(sender.send_batch(&batch), Ok(1), "there is no such lane");
    region.close();
    assert_eq!(sender.send_batch(&batch), Err(SubmitError::Closed));
}

#[test]
fn messages_that_a_panicking_reader_has_not_seen_stay_queued() {
    let region = region(small(6));
    let (sender, reader) = (peer(&region), peer(&region));
    let ticket = sender.submit(Submission { task: 1, ..Submission::default() }).unwrap();
    assert_eq!(sender.send_batch(&messages(2..=5)), Ok(4));
    let failed = sender.submit(Submission { task: 6, ..Submission::default() }).unwrap();
    let read = |message: &Running<'_>| assert_ne!(message.task(), 3, "the reader panics at this one");
    catch_unwind(AssertUnwindSafe(|| reader.receive_batch(0, 9, read))).unwrap_err();
    assert_eq!(sender.poll(&ticket), Ok(Progress::Done { status: 0 }));
    assert_eq!((region.census().queued, region.census().free), (3, 2));
    let read = |message: &Running<'_>| assert_ne!(message.task(), 6, "the reader panics at this one");
    catch_unwind(AssertUnwindSafe(|| reader.receive_batch(0, 9, read))).unwrap_err();
    assert_eq!(sender.poll(&failed), Ok(Progress::Failed));
    sender.release(ticket).unwrap();
    sender.release(failed).unwrap();
    assert_eq!(region.census().free, 6);
}

#[test]
fn tasks_ended_together_give_their_slots_back_to_their_own_regions() {
    let (here, there) = (region(small(60)), region(small(60)));
    let (one, other) = (peer(&here), peer(&there));
    let mut tasks = Vec::new();
    for peer in [&one, &other] {
        assert_eq!(peer.send_batch(&messages(1..=50)), Ok(50));
        while peer.start_batch(0, 32, &mut tasks).is_ok() {}
    }
    assert_eq!((tasks.len(), here.census().running, there.census().running), (100, 50, 50));
    one.finish_batch(tasks);
    assert_eq!((here.census().free, there.census().free), (60, 60));
    for peer in [&one, &other] {
        assert_eq!(peer.send_batch(&messages(1..=60)), Ok(60), "every slot is listed once more");
    }
}

#[test]
fn a_sender_that_waits_is_woken_by_the_end_of_a_batch() {
    const MESSAGES: u64 = 20_000;
    let region = region(small(33));
    let (sender, reader) = (peer(&region), peer(&region));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 1;
            while next <= MESSAGES {
                match sender.send_batch(&messages(next..=MESSAGES.min(next + 49))) {
                    Ok(count) => next += count as u64,
                    Err(SubmitError::NoSlot) => drop(sender.wait_slot(Duration::from_secs(1))),
                    Err(refusal) => panic!("{refusal}"),
                }
            }
        });
        let mut seen = 0;
        while seen < MESSAGES {
            for number in received(&reader, 32) {
                seen += 1;
                assert_eq!(number, seen);
            }
            reader.wait_items(Duration::from_secs(1));
        }
    });
    assert_eq!(region.census().free, 33);
}
