//! What becomes of what the dead held, with each moment of dying set up by hand.
//!
//! A slot lost with its owner is lost for good unless a sweep finds it, and a sweep that errs takes from the living.
//!
//! Not here: real deaths at random moments (`torture.rs`).

use crate::{killed, peer, probed, record, region, small};
use millpond_queue::wpol::v2::{
    DeathPolicy, Identity, Peer, Progress, Reaper, StartError, Submission, SubmitError, SweepError,
};
use std::cell::{Cell, RefCell};

#[test]
fn what_the_dead_held_comes_back() {
    for (policy, expected) in
        [(DeathPolicy::Fail, Progress::Failed), (DeathPolicy::Requeue { attempts_max: 1 }, Progress::Queued)]
    {
        let region = region(small(4));
        let (client, worker, reaper) = (peer(&region), peer(&region), peer(&region));
        let ticket = client.submit(Submission::default()).unwrap();
        std::mem::forget(worker.start(0).unwrap());
        let dead = killed(worker);
        let mut memory = Reaper::default();
        let sweep = memory.sweep(&reaper, 5, policy, |index| index == dead).unwrap();
        assert_eq!((sweep.buried, sweep.failed + sweep.requeued), (1, 1));
        assert_eq!(client.poll(&ticket), Ok(expected));
        if expected == Progress::Queued {
            let second = peer(&region);
            assert_eq!(second.index(), dead, "the record is free again");
            let running = second.start(0).unwrap();
            assert_eq!(running.attempts(), 1);
            std::mem::forget(running);
            let dead = killed(second);
            memory.sweep(&reaper, 6, policy, |index| index == dead).unwrap();
            assert_eq!(client.poll(&ticket), Ok(Progress::Failed), "no more attempts");
        }
        client.release(ticket).unwrap();
        assert_eq!(region.census().free, 4);
    }
}

#[test]
fn tasks_of_a_dead_submitter_run_and_are_freed() {
    let region = region(small(4));
    let (client, worker, reaper) = (peer(&region), peer(&region), peer(&region));
    let [queued, done] = [client.submit(Submission::default()), client.submit(Submission::default())];
    worker.start(0).unwrap().finish(0, &[]).unwrap();
    drop((queued, done));
    let dead = killed(client);
    let sweep = Reaper::default().sweep(&reaper, 0, DeathPolicy::Fail, |index| index == dead).unwrap();
    assert_eq!(sweep.orphaned, 2);
    assert_eq!(region.census().free, 3, "the finished one is free");
    worker.start(0).unwrap().finish(0, &[]).unwrap();
    assert_eq!(region.census().free, 4);
}

#[test]
fn only_one_live_peer_sweeps_and_a_dead_one_is_replaced() {
    let region = region(small(1));
    let (first, second) = (peer(&region), peer(&region));
    let answer = Reaper::default().sweep(&first, 0, DeathPolicy::Fail, |_| {
        // While the first one sweeps, the second may not.
        let refused = Reaper::default().sweep(&second, 0, DeathPolicy::Fail, |_| false);
        assert_eq!(refused.unwrap_err(), SweepError::AnotherReaper);
        false
    });
    assert!(answer.is_ok());
    let dead = first.index();
    let stolen = Reaper::default().sweep(&second, 0, DeathPolicy::Fail, |index| index == dead);
    assert_eq!(stolen.unwrap().buried, 1);
    std::mem::forget(first);
}

#[test]
fn a_sweep_cut_short_by_death_is_finished_by_the_next() {
    let (region, probe) = probed(small(2));
    let (worker, first, second) = (peer(&region), peer(&region), peer(&region));
    let ticket = second.submit(Submission::default()).unwrap();
    std::mem::forget(worker.start(0).unwrap());
    let (worker, first) = (killed(worker), killed(first));
    // The first reaper took the role, marked the worker's record, and was killed too.
    probe.overwrite(0x40, (probe.read(0x40) & 0xFFFF_FFFF) | u64::from(first + 1) << 32);
    probe.overwrite(record(worker as usize), 1 << 8 | 2);
    let mut reaper = Reaper::default();
    assert_eq!(
        reaper.sweep(&second, 0, DeathPolicy::Fail, |_| false).unwrap_err(),
        SweepError::AnotherReaper
    );
    let sweep = reaper.sweep(&second, 0, DeathPolicy::Fail, |index| index == first).unwrap();
    assert_eq!((sweep.buried, sweep.failed), (2, 1));
    assert_eq!(second.poll(&ticket), Ok(Progress::Failed));
}

#[test]
fn hints_lost_with_the_dead_are_found_by_the_second_sweep() {
    let (region, probe) = probed(small(2));
    let client = peer(&region);
    let ticket = client.submit(Submission::default()).unwrap();
    // Somebody popped both hints, of the queued and of the free slot, and died with them in hand.
    let ring_0 = (record(4)).next_multiple_of(128);
    probe.overwrite(ring_0 + 8, 2 << 32);
    probe.overwrite(ring_0 + 8 * 64, 2 << 32);
    assert_eq!(client.start(0).unwrap_err(), StartError::Empty);
    assert_eq!(client.submit(Submission::default()), Err(SubmitError::NoSlot));
    let mut reaper = Reaper::default();
    let mut sweep = || reaper.sweep(&client, 0, DeathPolicy::Fail, |_| false).unwrap().relisted;
    assert_eq!([sweep(), sweep(), sweep()], [0, 2, 0]);
    client.start(0).unwrap().finish(0, &[]).unwrap();
    client.release(ticket).unwrap();
    assert_eq!(client.submit_batch(&[Submission::default(); 2], &mut Vec::new()), Ok(2));
}

#[test]
fn waiters_that_died_asleep_are_forgotten_and_live_ones_are_not() {
    let (region, probe) = probed(small(1));
    let (client, sleeper) = (peer(&region), peer(&region));
    // Event word 0 and three waiters for items, in lane 0's control block.
    let items = 0x100 + 0x180 + 0x100;
    probe.overwrite(items, 3 << 32);
    let waiting = record(sleeper.index() as usize) + 0x20;
    probe.overwrite(waiting, 1 << 32);
    let waiters = || probe.read(items) >> 32;
    let mut reaper = Reaper::default();
    reaper.sweep(&client, 0, DeathPolicy::Fail, |_| false).unwrap();
    assert_eq!(waiters(), 3, "somebody alive says that it waits");
    let dead = killed(sleeper);
    reaper.sweep(&client, 0, DeathPolicy::Fail, |index| index == dead).unwrap();
    assert_eq!(waiters(), 0);
}

/// The answer "dead" was right when it was given. By the time it is used, the record has a new owner.
#[test]
fn a_peer_that_takes_the_record_of_one_that_left_is_not_reaped_in_its_place() {
    let region = region(small(4));
    let [client, reaper, leaving] =
        [0, 1, 2].map(|index| region.attach_record(index, Identity::default()).unwrap());
    let ticket = client.submit(Submission::default()).unwrap();
    let leaving = RefCell::new(Some(leaving));
    let newcomer: RefCell<Option<Peer>> = RefCell::new(None);
    let policy = DeathPolicy::Requeue { attempts_max: 9 };
    let sweep = Reaper::default().sweep(&reaper, 0, policy, |index| {
        let left = if index == 2 { leaving.borrow_mut().take() } else { None };
        left.is_some_and(|left| {
            drop(left);
            *newcomer.borrow_mut() = Some(region.attach_record(2, Identity::default()).unwrap());
            std::mem::forget(newcomer.borrow().as_ref().unwrap().start(0).unwrap());
            true
        })
    });
    assert_eq!(sweep.unwrap().buried, 0);
    assert_eq!(client.poll(&ticket), Ok(Progress::Running));
    assert!(region.attach_record(2, Identity::default()).is_err(), "the record is the newcomer's");
}

/// The same for the role: its dead holder is replaced, swept, and its record's next owner sweeps, all during one
/// question.
#[test]
fn a_live_reaper_is_not_taken_for_the_dead_one_before_it() {
    let region = region(small(4));
    let attach = |index| region.attach_record(index, Identity::default()).unwrap();
    let (asking, other, dying) = (attach(1), attach(3), attach(2));
    let die_in_a_sweep = |peer: &Peer| {
        let cut_short = std::panic::AssertUnwindSafe(|| {
            Reaper::default().sweep(peer, 0, DeathPolicy::Fail, |_| std::panic::resume_unwind(Box::new(())))
        });
        assert!(std::panic::catch_unwind(cut_short).is_err());
    };
    die_in_a_sweep(&dying);
    killed(dying);
    let (asked, next) = (Cell::new(false), RefCell::new(None));
    let answer = Reaper::default().sweep(&asking, 0, DeathPolicy::Fail, |index| {
        assert!(!asked.replace(true), "two peers sweep at one time");
        assert_eq!(index, 2);
        Reaper::default().sweep(&other, 0, DeathPolicy::Fail, |index| index == 2).unwrap();
        *next.borrow_mut() = Some(attach(2));
        // It lives, and is in the middle of its sweep.
        die_in_a_sweep(next.borrow().as_ref().unwrap());
        true
    });
    assert_eq!(answer, Err(SweepError::AnotherReaper));
}

#[test]
fn a_result_half_written_by_the_dead_does_not_show_in_the_next_ones() {
    let (region, probe) = probed(small(1));
    let (client, worker, reaper) = (peer(&region), peer(&region), peer(&region));
    let ticket = client.submit(Submission::default()).unwrap();
    std::mem::forget(worker.start(0).unwrap());
    // The worker was killed in `finish(5, b"garbage!")`, before its last step.
    let slot = probe.to_bytes().len() - 128;
    probe.overwrite(slot + 0x40, u64::from_le_bytes(*b"garbage!"));
    probe.overwrite(slot + 0x28, (probe.read(slot + 0x28) & !0xFFFF_FFFF) | 8);
    probe.overwrite(slot + 0x30, (probe.read(slot + 0x30) & !0xFFFF_FFFF) | 5);
    let dead = killed(worker);
    let policy = DeathPolicy::Requeue { attempts_max: 3 };
    Reaper::default().sweep(&reaper, 0, policy, |index| index == dead).unwrap();
    reaper.start(0).unwrap().finish(0, b"").unwrap();
    assert_eq!(client.poll(&ticket), Ok(Progress::Done { status: 0 }));
    assert_eq!(client.result(&ticket).unwrap(), b"");
}

#[test]
fn a_task_that_every_worker_dies_of_fails_in_the_end() {
    let region = region(small(1));
    let (client, reaper) = (peer(&region), peer(&region));
    let ticket = client.submit(Submission::default()).unwrap();
    let mut deaths = 0;
    while client.poll(&ticket) == Ok(Progress::Queued) {
        let worker = peer(&region);
        std::mem::forget(worker.start(0).unwrap());
        let dead = killed(worker);
        let policy = DeathPolicy::Requeue { attempts_max: 255 };
        Reaper::default().sweep(&reaper, 0, policy, |index| index == dead).unwrap();
        deaths += 1;
        assert!(deaths <= 256, "the count of attempts does not end it");
    }
    assert_eq!((client.poll(&ticket), deaths), (Ok(Progress::Failed), 256));
}

#[test]
fn records_in_use_say_whose_they_are() {
    let region = region(small(1));
    let identity = Identity { pid: 7, uid: 8, started: 9 };
    drop(region.attach_record(2, Identity::default()).unwrap());
    let peer = region.attach_record(2, identity).unwrap();
    peer.heartbeat(33);
    Reaper::default().sweep(&peer, 44, DeathPolicy::Fail, |_| false).unwrap();
    let records = region.records();
    let [record] = records[..] else { panic!("{records:?}") };
    assert_eq!((record.index, record.identity, record.epoch), (2, identity, 2));
    assert_eq!((record.heartbeat, record.is_reaped, region.swept()), (33, false, 44));
    drop(peer);
    assert_eq!(region.records(), []);
}
