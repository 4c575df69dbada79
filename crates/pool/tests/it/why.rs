//! Why: a ticket tells where its task was put and why there, and the pool tells why it waits.
//!
//! Who looks into a pool that seems stuck acts on what it says, so every answer is checked in the situation it is
//! about, in words.

use crate::busy::{Busy, pool, small_pool, start};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use crate::strategies::{choosing_pool, named};
use millpond::policy::choose::Reason;
use millpond::{
    BackPressure, CancelAnswer, EventKind, Placed, PoolConfig, Priority, Refused, Stands, SubmitError,
    TaskError, TaskOptions, Ticket,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHARED: &str = "it was put into the shared queue, for whoever is free first";

fn key(key: u64) -> TaskOptions {
    TaskOptions { affinity: Some(key), ..TaskOptions::default() }
}

#[test]
fn a_task_nobody_chose_for_is_in_the_shared_queue() {
    let pool = pool(2);
    let high = TaskOptions { priority: Priority::High, ..TaskOptions::default() };
    let tickets = [pool.submit(|| ()).unwrap(), pool.with(&high).submit(|| ()).unwrap()];
    for ticket in tickets {
        assert_eq!((ticket.placed(), ticket.placed().to_string().as_str()), (Placed::Shared, SHARED));
        ticket.wait().unwrap();
    }
}

#[test]
fn a_task_with_a_key_is_at_the_keys_worker_if_there_is_room() {
    let pool = start(PoolConfig { workers: 1, inbox_capacity: 1, ..PoolConfig::default() });
    let _busy = Busy::one(&pool);
    let options = key(7);
    let first = pool.with(&options).submit(|| ()).unwrap();
    assert_eq!(first.placed(), Placed::ByKey { worker: 0 });
    assert_eq!(first.placed().to_string(), "it was given to worker 0: its key belongs there");
    let second = pool.with(&options).submit(|| ()).unwrap();
    assert_eq!(second.placed(), Placed::Shared, "there was no room");
}

#[test]
fn a_chosen_task_tells_the_strategys_reason_whichever_verb_submitted_it() {
    let pool = choosing_pool(2, named("round-robin"));
    let turn = |worker| Placed::Chosen { worker, reason: Reason::Turn };
    assert_eq!(pool.submit(|| ()).unwrap().placed(), turn(0));
    assert_eq!(pool.try_submit(|| ()).unwrap().placed(), turn(1));
    assert_eq!(pool.submit_timeout(|| (), Duration::MAX).unwrap().placed(), turn(0));
    assert_eq!(pool.spawn_async(async {}).unwrap().placed(), turn(1));
    let batch: Vec<_> = pool.submit_batch([|| (), || ()]).unwrap().iter().map(Ticket::placed).collect();
    assert_eq!(batch, [turn(0), turn(1)]);
    assert_eq!(turn(1).to_string(), "it was given to worker 1: it was its turn");
    // What one task was told is not told of the next.
    pool.spawn(|| ()).unwrap();
    let low = TaskOptions { priority: Priority::Low, ..TaskOptions::default() };
    assert_eq!(pool.with(&low).submit(|| ()).unwrap().placed(), Placed::Shared);
}

#[test]
fn a_task_of_a_task_is_with_its_worker_or_with_the_other_pools_choice() {
    promptly("the tasks run", || {
        let (one, other) = (pool(1), choosing_pool(1, named("round-robin")));
        let (own, elsewhere) = (one.handle(), other.handle());
        let high = TaskOptions { priority: Priority::High, ..TaskOptions::default() };
        let placed = one.submit(move || {
            let shared = own.with(&high).submit(|| ()).unwrap().placed();
            [own.submit(|| ()).unwrap().placed(), shared, elsewhere.submit(|| ()).unwrap().placed()]
        });
        let chosen = Placed::Chosen { worker: 0, reason: Reason::Turn };
        let placed = placed.unwrap().wait().unwrap();
        assert_eq!(placed, [Placed::Own { worker: 0 }, Placed::Shared, chosen]);
        assert_eq!(placed[0].to_string(), "it was left with worker 0, whose task submitted it");
    });
}

#[test]
fn a_task_that_never_waited_says_so_whatever_it_submitted_itself() {
    let other = choosing_pool(1, named("round-robin"));
    let full = |back_pressure| {
        let pool =
            start(PoolConfig { workers: 1, queue_capacity: 1, back_pressure, ..PoolConfig::default() });
        let busy = Busy::one(&pool);
        pool.try_spawn(|| ()).unwrap();
        (pool, busy)
    };
    let (pool, _busy) = full(BackPressure::CallerRuns);
    let elsewhere = other.handle();
    let ran = pool.submit(move || elsewhere.spawn(|| ()).unwrap()).unwrap();
    assert_eq!(ran.placed(), Placed::RunByCaller);
    let said = "its submitter ran it, because the pool was full; it has ended";
    assert_eq!(pool.why(&ran).to_string(), said);
    let (pool, _busy) = full(BackPressure::DropNewest);
    let dropped = pool.submit(|| ()).unwrap();
    assert_eq!(dropped.placed(), Placed::Dropped);
    let said = "it was dropped, because the pool was full; it has ended";
    assert_eq!(pool.why(&dropped).to_string(), said);
}

#[test]
fn what_a_dropped_task_sets_off_is_not_told_of_the_one_that_took_its_place() {
    let other = choosing_pool(1, named("round-robin"));
    let config = PoolConfig { workers: 1, queue_capacity: 1, ..PoolConfig::default() };
    let pool = start(PoolConfig { back_pressure: BackPressure::DropOldest, ..config });
    let _busy = Busy::one(&pool);
    let elsewhere = other.handle();
    pool.submit(|| ()).unwrap().on_done(move |_| elsewhere.spawn(|| ()).unwrap());
    assert_eq!(pool.submit(|| ()).unwrap().placed(), Placed::Shared);
    assert_eq!(pool.metrics().dropped, 1);
}

#[test]
fn each_strategy_tells_its_own_reason() {
    for (name, words) in [
        ("round-robin", "it was its turn"),
        ("least-used", "it has been given the fewest tasks"),
        ("least-busy", "it has the fewest tasks running and waiting"),
        ("least-utilised", "it was the least busy"),
        ("weighted-round-robin", "it was its turn: weight"),
        ("interleaved-weighted", "it was its turn: weight"),
        ("fair-share", "it has had the least time lately"),
        ("power-of-two", "the better of two drawn"),
        ("random", "it was drawn at random"),
    ] {
        let pool = choosing_pool(2, named(name));
        let said = pool.submit(|| ()).unwrap().placed().to_string();
        assert!(said.contains(words), "{name}: {said}");
    }
}

#[test]
fn a_task_waits_because_the_pool_is_paused() {
    let pool = pool(1);
    pool.pause();
    let ticket = pool.submit(|| ()).unwrap();
    let why = pool.why(&ticket);
    assert_eq!(why.placed, Placed::Shared);
    assert!(matches!(why.stands, Stands::Waits { waiting: 1, busy: 0, workers: 1, paused: true, .. }));
    assert_eq!(why.to_string(), format!("{SHARED}; it waits because the pool is paused"));
    pool.resume();
    ticket.wait().unwrap();
}

#[test]
fn a_task_waits_because_all_workers_are_busy() {
    let pool = pool(2);
    let busy = Busy::many(&pool, 2);
    let tickets = [pool.submit(|| ()).unwrap(), pool.submit(|| ()).unwrap()];
    let why = pool.why(&tickets[1]).to_string();
    assert_eq!(why, format!("{SHARED}; it waits because all 2 workers are busy; 2 tasks wait"));
    drop(busy);
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
}

#[test]
fn a_task_waits_for_one_busy_worker_if_nobody_else_may_take_it() {
    let pool = choosing_pool(2, named("round-robin"));
    let _busy = Busy::one(&pool);
    let tickets = [pool.submit(|| ()).unwrap(), pool.submit(|| ()).unwrap()];
    eventually("the other worker has nothing left to do", || pool.metrics().workers_asleep == 1);
    let why = tickets.each_ref().map(|ticket| pool.why(ticket).stands.to_string());
    assert_eq!(why, ["it has ended", "it waits for worker 0, which is busy"]);
}

#[test]
fn a_task_runs_until_it_has_ended() {
    promptly("the task ends", || {
        let pool = pool(1);
        let (go_on, told) = std::sync::mpsc::channel::<()>();
        let mut ticket = pool.submit(move || told.recv().is_err()).unwrap();
        eventually("it runs", || pool.why(&ticket).stands == Stands::Runs);
        assert_eq!(pool.why(&ticket).to_string(), format!("{SHARED}; it runs"));
        drop(go_on);
        eventually("it has ended", || pool.why(&ticket).stands == Stands::Ended);
        assert!(ticket.poll().unwrap().unwrap());
        assert_eq!(pool.why(&ticket).to_string(), format!("{SHARED}; it has ended"), "and is taken");
    });
}

#[test]
fn a_task_that_was_cancelled_while_it_waited_has_ended() {
    let pool = pool(1);
    let _busy = Busy::one(&pool);
    let ticket = pool.submit(|| ()).unwrap();
    assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
    assert_eq!(pool.why(&ticket).stands, Stands::Ended);
    assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
}

#[test]
fn a_future_sleeps_until_it_is_woken() {
    promptly("the future ends", || {
        let (pool, door) = (choosing_pool(1, named("least-busy")), Arc::new(Door::default()));
        let waits = Arc::clone(&door);
        let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
        door.until_somebody_waits();
        eventually("it sleeps", || pool.why(&ticket).stands == Stands::Sleeps);
        let expected = "it was given to worker 0: it has the fewest tasks running and waiting: 0; \
                        it is a future that waits to be woken";
        assert_eq!(pool.why(&ticket).to_string(), expected);
        let busy = Busy::one(&pool);
        door.open();
        let stands = pool.why(&ticket).stands;
        assert!(matches!(stands, Stands::Waits { waiting: 1, busy: 1, .. }), "woken, it waits: {stands}");
        busy.release();
        ticket.wait().unwrap();
    });
}

#[test]
fn a_refusal_says_why_and_what_to_do() {
    let pool = small_pool(1, 1);
    let _busy = Busy::one(&pool);
    pool.try_spawn(|| ()).unwrap();
    let full = pool.try_submit(|| ()).unwrap_err();
    assert_eq!(
        full.to_string(),
        "pool is full; try again later or raise queue_capacity (for futures also futures_max)"
    );
    let timed_out = pool.submit_timeout(|| (), Duration::from_millis(1)).unwrap_err();
    assert_eq!(
        timed_out.to_string(),
        "pool stayed full for the whole wait; try again later or raise queue_capacity"
    );
    let late = TaskOptions { deadline: Some(Instant::now()), ..TaskOptions::default() };
    let too_late = pool.with(&late).submit(|| ()).unwrap_err();
    assert_eq!(
        too_late.to_string(),
        "task cannot be done by its deadline; submit it earlier or give it more time"
    );
    let handle = pool.handle();
    drop(_busy);
    drop(pool);
    let closed = handle.submit(|| ()).unwrap_err();
    assert!(matches!(&closed, SubmitError::Closed(_)));
    assert_eq!(closed.to_string(), "pool is closed; it takes nothing more");
}

#[test]
fn every_refusal_is_told_with_its_reason_whoever_refuses() {
    let pool = start(PoolConfig { workers: 1, queue_capacity: 2, futures_max: 1, ..PoolConfig::default() });
    let busy = Busy::one(&pool);
    let events = pool.events(100);
    let _first = pool.spawn_async(async {}).unwrap();
    assert!(pool.spawn_async(async {}).is_err(), "futures_max is reached");
    pool.try_spawn(|| ()).unwrap();
    assert!(pool.try_spawn(|| ()).is_err(), "the lane is full");
    assert!(pool.submit_timeout(|| (), Duration::ZERO).is_err());
    let late = TaskOptions { timeout: Some(Duration::ZERO), ..TaskOptions::default() };
    assert!(pool.with(&late).spawn(|| ()).is_err());
    busy.release();
    assert!(pool.drain(Duration::MAX).is_finished());
    assert!(pool.submit(|| ()).is_err());
    let refusals = std::iter::from_fn(|| events.try_recv()).filter_map(|event| match event.kind {
        EventKind::Refused { why } => Some(why),
        _ => None,
    });
    let expected = [Refused::Full, Refused::Full, Refused::TimedOut, Refused::TooLate, Refused::Closed];
    assert_eq!(refusals.collect::<Vec<_>>(), expected);
}
