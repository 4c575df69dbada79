//! What is submitted, in which way, and what becomes of the ticket: all by dice.
//!
//! Tasks submit tasks themselves, two deep, and wait for them in every way, also where no worker can stand in; so every
//! road through the pool is used from outside and from inside.

use crate::dice::Dice;
use crate::ledger::{Ledger, Witness};
use millpond::{
    PoolHandle, Priority, SubmitError, TaskOptions, Ticket, block_on, blocking, is_cancelled, join, yield_now,
};
use std::sync::Arc;
use std::time::Duration;

/// So deep tasks submit tasks.
const DEPTH_MAX: u32 = 2;
/// So many tickets a thread keeps for later.
const KEPT_MAX: u64 = 32;

/// What the threads and the tasks of one round share.
pub(crate) struct Mill {
    pub(crate) pool: PoolHandle,
    pub(crate) ledger: Arc<Ledger>,
}

/// The round has had its share, or the pool takes nothing more.
pub(crate) struct Over;

/// A ticket, and the number of its task in the ledger.
pub(crate) struct Kept {
    ticket: Ticket<()>,
    number: usize,
    timed: bool,
}

/// Whoever submits: a thread outside, or a task.
pub(crate) struct Submitter {
    mill: Arc<Mill>,
    dice: Dice,
    depth: u32,
    kept: Vec<Kept>,
}

impl Submitter {
    pub(crate) fn new(mill: &Arc<Mill>, dice: Dice, depth: u32) -> Self {
        Self { mill: Arc::clone(mill), dice, depth, kept: Vec::new() }
    }

    /// One submission of some kind, and perhaps something with a ticket of an earlier one.
    pub(crate) fn act(&mut self) -> Result<(), Over> {
        match self.dice.below(16) {
            0..=3 => self.spawn(),
            4..=8 => self.submit(),
            9 => self.submit_batch(),
            10..=12 => self.spawn_async(),
            13 => self.scope(),
            14 if self.depth == 0 => self.join(),
            _ => {
                self.meddle();
                Ok(())
            }
        }
    }

    /// Waits for every ticket that is left.
    pub(crate) fn settle(mut self) {
        for kept in std::mem::take(&mut self.kept) {
            self.wait(kept);
        }
    }

    fn witness(&self, future: bool) -> Result<Witness, Over> {
        self.mill.ledger.witness(future).ok_or(Over)
    }

    fn spawn(&mut self) -> Result<(), Over> {
        let witness = self.witness(false)?;
        let number = witness.number();
        let options = self.plain_options();
        let (mill, closure) = (Arc::clone(&self.mill), self.closure(witness));
        let never_waits = self.dice.once_in(2);
        let spawned = match (self.dice.below(3), never_waits) {
            (0, true) => mill.pool.with(&options).try_spawn(closure),
            (0, false) => mill.pool.with(&options).spawn(closure),
            (_, true) => mill.pool.try_spawn(closure),
            (_, false) => mill.pool.spawn(closure),
        };
        self.taken_in(number, spawned).map(drop)
    }

    fn submit(&mut self) -> Result<(), Over> {
        let witness = self.witness(false)?;
        let number = witness.number();
        let options = self.options();
        let (mill, closure) = (Arc::clone(&self.mill), self.closure(witness));
        let with = mill.pool.with(&options);
        let submitted = match self.dice.below(3) {
            0 => with.submit(closure),
            1 => with.try_submit(closure),
            _ => with.submit_timeout(closure, Duration::from_micros(self.dice.below(200))),
        };
        let taken_in = self.taken_in(number, submitted)?;
        self.keep(taken_in, number, options.timeout.is_some());
        Ok(())
    }

    fn submit_batch(&mut self) -> Result<(), Over> {
        let options = self.options();
        let mut numbers = Vec::new();
        let mut closures = Vec::new();
        for _ in 0..4 {
            let witness = self.witness(false)?;
            numbers.push(witness.number());
            closures.push(self.closure(witness));
        }
        let mill = Arc::clone(&self.mill);
        let (tickets, refused) = match mill.pool.with(&options).submit_batch(closures) {
            Ok(tickets) => (tickets, None),
            Err(error) => (error.accepted, Some(error.refused)),
        };
        numbers[tickets.len()..].iter().for_each(|&number| mill.ledger.refused(number));
        for (ticket, &number) in tickets.into_iter().zip(&numbers) {
            self.keep(Some(ticket), number, options.timeout.is_some());
        }
        refused.map_or(Ok(()), |refused| goes_on(&refused))
    }

    fn spawn_async(&mut self) -> Result<(), Over> {
        let witness = self.witness(true)?;
        let number = witness.number();
        let options = self.options();
        let mill = Arc::clone(&self.mill);
        let may_pend = options.timeout.is_none();
        let future = future(self.task_dice(), witness, Arc::clone(&mill), self.depth, may_pend);
        let spawned = mill.pool.with(&options).spawn_async(future);
        let taken_in = self.taken_in(number, spawned)?;
        self.keep(taken_in, number, options.timeout.is_some());
        Ok(())
    }

    /// A scope's tasks are run in any case, by a worker or by this thread, and counted wherever that is.
    fn scope(&mut self) -> Result<(), Over> {
        let witnesses: Vec<_> = (0..3).map_while(|_| self.witness(false).ok()).collect();
        let priority = self.priority();
        self.mill.pool.scope(|scope| {
            for witness in &witnesses {
                scope.spawn_with(priority, || {
                    witness.begin();
                    witness.end();
                });
            }
        });
        Ok(())
    }

    fn join(&mut self) -> Result<(), Over> {
        // From outside this is one task of a scope.
        let witness = self.witness(false)?;
        witness.begin();
        let sum = self.mill.pool.inside(|| fibonacci(10));
        assert_eq!(sum, 55);
        witness.end();
        Ok(())
    }

    /// What came back, if the task was taken in.
    fn taken_in<R, F>(&self, number: usize, submitted: Result<R, SubmitError<F>>) -> Result<Option<R>, Over> {
        match submitted {
            Ok(taken_in) => Ok(Some(taken_in)),
            Err(refused) => {
                self.mill.ledger.refused(number);
                goes_on(&refused).map(|()| None)
            }
        }
    }

    fn keep(&mut self, ticket: Option<Ticket<()>>, number: usize, timed: bool) {
        let Some(ticket) = ticket else { return };
        let kept = Kept { ticket, number, timed };
        if self.depth > 0 {
            return self.let_go(kept);
        }
        self.kept.push(kept);
        if self.kept.len() as u64 > KEPT_MAX {
            let oldest = self.kept.swap_remove(0);
            self.wait(oldest);
        }
    }

    /// What a task does with a ticket.
    fn let_go(&mut self, mut kept: Kept) {
        match self.dice.below(5) {
            0 => drop(kept.ticket.cancel()),
            1 => return self.call_back(kept),
            2 => return self.wait(kept),
            3 => {
                let timeout = Duration::from_micros(self.dice.below(2000));
                if let Some(result) = kept.ticket.wait_timeout(timeout) {
                    return self.mill.ledger.told(kept.number, &result);
                }
            }
            _ => {}
        }
        if kept.timed { self.call_back(kept) } else { drop(kept.ticket) }
    }

    /// Does something with a ticket that was kept.
    fn meddle(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let place = self.dice.below(self.kept.len() as u64) as usize;
        let mut kept = self.kept.swap_remove(place);
        match self.dice.below(6) {
            0 => {
                kept.ticket.cancel();
                self.kept.push(kept);
            }
            1 => match kept.ticket.wait_timeout(Duration::from_micros(self.dice.below(100))) {
                Some(result) => self.mill.ledger.told(kept.number, &result),
                None => self.kept.push(kept),
            },
            2 => match kept.ticket.poll() {
                Some(result) => self.mill.ledger.told(kept.number, &result),
                None => self.kept.push(kept),
            },
            3 => self.call_back(kept),
            // How a timed task ended cannot be told from its marks, so somebody must be told.
            4 if !kept.timed => drop(kept.ticket),
            _ => self.wait(kept),
        }
    }

    fn wait(&mut self, kept: Kept) {
        let result = if self.dice.once_in(2) { kept.ticket.wait() } else { block_on(kept.ticket) };
        self.mill.ledger.told(kept.number, &result);
    }

    fn call_back(&self, kept: Kept) {
        let ledger = Arc::clone(&self.mill.ledger);
        kept.ticket.on_done(move |result| ledger.told(kept.number, &result));
    }

    fn closure(&mut self, witness: Witness) -> impl FnOnce() + Send + 'static + use<> {
        let (dice, mill, depth) = (self.task_dice(), Arc::clone(&self.mill), self.depth);
        move || {
            witness.begin();
            work(dice, &witness, &mill, depth);
            witness.end();
        }
    }

    fn task_dice(&mut self) -> Dice {
        Dice::new(self.dice.next(), 0)
    }

    fn priority(&mut self) -> Priority {
        Priority::ALL[self.dice.below(3) as usize]
    }

    fn plain_options(&mut self) -> TaskOptions {
        let affinity = self.dice.once_in(4).then(|| self.dice.below(16));
        TaskOptions { priority: self.priority(), affinity, ..TaskOptions::default() }
    }

    fn options(&mut self) -> TaskOptions {
        let timeout = match self.dice.below(8) {
            0 => Some(Duration::from_micros(1 + self.dice.below(500))),
            1 => Some(Duration::from_secs(3600)),
            _ => None,
        };
        let name = self.dice.once_in(16).then(|| "named".into());
        TaskOptions { timeout, name, ..self.plain_options() }
    }
}

/// Whether there is any use in trying again.
fn goes_on<F>(refused: &SubmitError<F>) -> Result<(), Over> {
    crate::watchdog::step();
    if matches!(refused, SubmitError::Closed(_)) { Err(Over) } else { Ok(()) }
}

/// What a closure does.
fn work(mut dice: Dice, witness: &Witness, mill: &Arc<Mill>, depth: u32) {
    match dice.below(32) {
        0 => witness.panic(),
        1 => assert_eq!(fibonacci(8), 21),
        2 => blocking(std::thread::yield_now),
        3 => {
            for _ in 0..dice.below(1000) {
                if is_cancelled() {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        4..=6 if depth < DEPTH_MAX => {
            let mut inside = Submitter::new(mill, Dice::new(dice.next(), 1), depth + 1);
            for _ in 0..4 {
                if inside.act().is_err() {
                    break;
                }
            }
        }
        7 if depth < DEPTH_MAX => wait_inside(dice, mill, depth + 1),
        _ => (0..dice.below(50)).for_each(|_| std::hint::spin_loop()),
    }
}

/// A closure that waits for a closure of its own pool.
fn wait_inside(dice: Dice, mill: &Arc<Mill>, depth: u32) {
    let mut inside = Submitter::new(mill, dice, depth);
    let Ok(witness) = inside.witness(false) else { return };
    let number = witness.number();
    let closure = inside.closure(witness);
    match mill.pool.submit(closure) {
        Ok(ticket) => mill.ledger.told(number, &ticket.wait()),
        Err(_) => mill.ledger.refused(number),
    }
}

/// What a future does.
async fn future(mut dice: Dice, witness: Witness, mill: Arc<Mill>, depth: u32, may_pend: bool) {
    witness.begin();
    for _ in 0..dice.below(4) {
        yield_now().await;
    }
    match dice.below(16) {
        0 => witness.panic(),
        1..=3 if depth < DEPTH_MAX => await_inside(Dice::new(dice.next(), 2), &mill, depth + 1).await,
        4 if depth < DEPTH_MAX => {
            let mut inside = Submitter::new(&mill, Dice::new(dice.next(), 3), depth + 1);
            let _ = inside.act();
        }
        // Nobody can wake it any more. One with a deadline would wait for that.
        5 if may_pend => std::future::pending().await,
        _ => {}
    }
    witness.end();
}

/// A future that waits for a closure of its own pool. If it is dropped meanwhile, so is the ticket.
async fn await_inside(dice: Dice, mill: &Arc<Mill>, depth: u32) {
    let mut inside = Submitter::new(mill, dice, depth);
    let Ok(witness) = inside.witness(false) else { return };
    let number = witness.number();
    let closure = inside.closure(witness);
    match mill.pool.submit(closure) {
        Ok(ticket) => mill.ledger.told(number, &ticket.await),
        Err(_) => mill.ledger.refused(number),
    }
}

fn fibonacci(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    let (one, other) = join(|| fibonacci(number - 1), || fibonacci(number - 2));
    one + other
}
