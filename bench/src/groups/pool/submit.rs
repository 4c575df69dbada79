//! What does a closure cost whose result somebody waits for?
//!
//! One thread outside submits a thousand closures, then waits for each result in turn, then submits the next
//! thousand. Peers with tickets of their own use them (a join handle, a task, a remote handle); the others
//! get a oneshot channel for each closure. Baseline: the channel pools.
//!
//! Not here: closures that nobody waits for (`spawn.rs`), one closure at a time (`roundtrip.rs`).

use super::{SIZE, warm_up};
use crate::groups::measured;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use crate::peers::channel_pools::{CrossbeamPool, CrossfirePool};
use crate::peers::executors::{AsyncExecutor, FuturesPool, Tokio, TokioBlocking};
use crate::peers::pools::{Pool, Spawn, Submit};
use crate::peers::thread_pools::{PlainThreadPool, Rayon, RustyPool};
use crate::tally::Tally;
use std::time::Instant;

const FLIGHT: u64 = 1000;

pub(super) fn groups() -> Vec<Group> {
    let contestants = vec![
        Contestant::new("millpond", submitted::<millpond::Pool>),
        Contestant::new("rayon + oneshot", submitted::<Rayon>),
        Contestant::new("tokio", submitted::<Tokio>),
        Contestant::new("tokio spawn_blocking", submitted::<TokioBlocking>),
        Contestant::new("async-executor", submitted::<AsyncExecutor>),
        Contestant::new("futures ThreadPool", submitted::<FuturesPool>),
        Contestant::new("threadpool + oneshot", submitted::<PlainThreadPool>),
        Contestant::new("rusty_pool", submitted::<RustyPool>),
        Contestant::new("crossbeam + oneshot", submitted::<CrossbeamPool>),
        Contestant::new("crossfire + oneshot", submitted::<CrossfirePool>),
    ];
    let question = "closures from one thread outside that waits for the results of 1000 at a time";
    vec![measured("pool-submit-outside", question, "ns/task", contestants)]
}

fn submitted<P: Pool<Handle: Spawn + Submit>>(round: &Round) -> Result<f64, String> {
    let pool = P::start(SIZE);
    let handle = pool.handle();
    warm_up(&handle)?;
    let tasks = round.items / 8;
    let mut tally = Tally::default();
    let start = Instant::now();
    let mut item = 0;
    let mut tickets = Vec::with_capacity(FLIGHT as usize);
    while item < tasks {
        let border = tasks.min(item + FLIGHT);
        tickets.extend((item + 1..=border).map(|item| handle.submit(move || item)));
        tickets.drain(..).for_each(|ticket| tally.add(handle.wait(ticket)));
        item = border;
    }
    let elapsed = start.elapsed();
    tally.check(tasks)?;
    Ok(ns_per_item(elapsed, tasks))
}
