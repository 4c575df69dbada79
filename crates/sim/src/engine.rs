//! The run itself: from one event to the next, until the last task has ended.
//!
//! ```text
//!   arrival ──► strategy ──► idle worker: begins ─────────────► departure ──► own queue, shared queue, robbery
//!                       └──► busy worker: waits in its queue                  or rest
//! ```
//!
//! There is one arrival to come, one departure for each busy worker, and perhaps one look of the scaling policy; so
//! the heap holds no more than there are workers, and an event costs the logarithm of that, besides what the policy
//! itself looks at. At the same time departures come before arrivals, and both before a look; of two departures the
//! one in the lower seat comes first. So a run has one course only.
//!
//! Not here: what changes when something happens (`crew.rs`), who is chosen (`strategy.rs`).

use crate::arrivals::ArrivalTimes;
use crate::crew::Crew;
use crate::error::SimError;
use crate::ledger::Ledger;
use crate::outcome::Outcome;
use crate::scaling::Scaling;
use crate::scenario::Scenario;
use crate::service::ServiceTimes;
use crate::strategy::Strategy;
use crate::tasks::{Queue, Task};
use crate::watch::Watch;
use millpond_policy::Moment;
use millpond_policy::steal::Thief;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The watcher is asked once in so many tasks.
const WATCH_EVERY: u64 = 1 << 14;

/// Utilisation is taken over so many mean service times.
const UTILISATION_SERVICES: u32 = 10;

/// Nothing to come.
const NEVER: u64 = u64::MAX;

pub(crate) struct Engine<'a> {
    arrivals: ArrivalTimes,
    services: ServiceTimes,
    strategy: Strategy,
    tasks: u64,
    now_ns: u64,
    crew: Crew,
    /// Tasks that wait for whoever is free next.
    shared: Queue,
    /// When each busy worker ends its task, the next first.
    departures: BinaryHeap<Reverse<(u64, u32)>>,
    /// One for each seat, if there is stealing.
    thieves: Vec<Thief>,
    scaling: Option<Scaling>,
    ledger: Ledger,
    watch: &'a mut dyn Watch,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        scenario: &Scenario,
        strategy: Strategy,
        watch: &'a mut dyn Watch,
    ) -> Result<Self, SimError> {
        scenario.check()?;
        let window = scenario.service_mean * UTILISATION_SERVICES;
        let window_ns = strategy.reads_utilisation().then_some(window.as_nanos() as u64);
        let scaling = scenario.scaling.map(Scaling::new).transpose()?;
        let mut engine = Self {
            arrivals: ArrivalTimes::new(scenario.arrivals.clone(), scenario.gap_ns(), scenario.seed),
            services: ServiceTimes::new(scenario.service, scenario.service_mean, scenario.seed),
            strategy,
            tasks: scenario.tasks,
            now_ns: 0,
            crew: Crew::new(scenario.speeds.clone(), window_ns),
            shared: Queue::default(),
            departures: BinaryHeap::new(),
            thieves: Vec::new(),
            scaling,
            ledger: Ledger::new(),
            watch,
        };
        let workers_max =
            engine.scaling.as_ref().map_or(0, Scaling::workers_max).max(scenario.workers as usize);
        if let Some(stealing) = scenario.stealing {
            engine.thieves = vec![Thief::new(stealing)?; workers_max];
        }
        for _ in 0..scenario.workers {
            engine.add_worker()?;
        }
        Ok(engine)
    }

    /// Goes through all events.
    pub(crate) fn run(mut self) -> Result<Outcome, SimError> {
        let mut arrival = self.next_arrival();
        loop {
            let departure_ns = self.departures.peek().map_or(NEVER, |Reverse((at_ns, _))| *at_ns);
            let arrival_ns = arrival.map_or(NEVER, |task| task.arrived_ns);
            if departure_ns == NEVER && arrival.is_none() {
                break;
            }
            let look_ns = self.scaling.as_ref().map_or(NEVER, Scaling::next_look_ns);
            if look_ns < departure_ns.min(arrival_ns) {
                self.pass_time(look_ns);
                self.look()?;
            } else if let Some(task) = arrival.filter(|_| arrival_ns < departure_ns) {
                self.pass_time(arrival_ns);
                self.arrive(task)?;
                arrival = self.next_arrival();
            } else {
                self.pass_time(departure_ns);
                self.depart()?;
            }
        }
        let steps = self.scaling.as_ref().map(Scaling::steps).unwrap_or_default();
        let name = self.strategy.name().to_owned();
        Outcome::new(name, self.tasks, self.ledger, &self.crew, steps, self.now_ns)
    }

    fn pass_time(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.ledger.advance(now_ns);
    }

    fn next_arrival(&mut self) -> Option<Task> {
        (self.ledger.arrived < self.tasks).then(|| {
            let (arrived_ns, recorded_ns) = self.arrivals.draw();
            let service_ns = recorded_ns.unwrap_or_else(|| self.services.draw_ns());
            Task { arrived_ns, service_ns }
        })
    }

    fn arrive(&mut self, task: Task) -> Result<(), SimError> {
        let arrived = self.ledger.arrived;
        if arrived.is_multiple_of(WATCH_EVERY) && self.watch.progress(arrived).is_break() {
            return Err(SimError::Stopped);
        }
        self.crew.refresh(self.now_ns);
        self.ledger.arrived += 1;
        self.place(task)?;
        if self.ledger.arrived == self.tasks {
            self.ledger.close_shares();
        }
        Ok(())
    }

    /// Gives a task to an idle worker, or lets it wait.
    fn place(&mut self, task: Task) -> Result<(), SimError> {
        let Some(chosen) = self.strategy.choose(self.crew.views(), self.now_ns)? else {
            return match self.crew.newest_idle() {
                Some(at) => self.begin(at, task),
                None => {
                    self.crew.slab().push(&mut self.shared, task);
                    Ok(())
                }
            };
        };
        if self.crew.is_idle(chosen) {
            return self.begin(chosen, task);
        }
        self.crew.enqueue(chosen, task, &mut self.ledger);
        // The pool wakes a sleeper for every task that does not begin at once; here it may rob somebody.
        match self.crew.newest_idle() {
            Some(idle) if !self.thieves.is_empty() => self.employ(idle),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, at: usize, task: Task) -> Result<(), SimError> {
        let ends_ns = self.crew.begin(at, task, self.now_ns, &mut self.ledger).ok_or(SimError::TooLong)?;
        self.departures.push(Reverse((ends_ns, at as u32)));
        Ok(())
    }

    /// An idle worker looks for something to do.
    fn employ(&mut self, at: usize) -> Result<(), SimError> {
        match self.find(at) {
            Some(task) => self.begin(at, task),
            None => Ok(()),
        }
    }

    fn depart(&mut self) -> Result<(), SimError> {
        let Some(Reverse((_, at))) = self.departures.peek().copied() else { return Ok(()) };
        let at = at as usize;
        let ran_ns = self.crew.end(at, self.now_ns, &mut self.ledger).unwrap_or(0);
        self.strategy.task_done(at as u32, Duration::from_nanos(ran_ns), self.now_ns);
        match self.find(at) {
            Some(task) => {
                let ends_ns = self.crew.begin(at, task, self.now_ns, &mut self.ledger);
                let ends_ns = ends_ns.ok_or(SimError::TooLong)?;
                // The first of the heap is still this worker's: changing it in place costs half of taking it out and
                // putting another in.
                if let Some(mut first) = self.departures.peek_mut() {
                    *first = Reverse((ends_ns, at as u32));
                }
            }
            None => {
                self.departures.pop();
                self.crew.rest(at, self.now_ns, &mut self.ledger);
            }
        }
        Ok(())
    }

    /// What a worker that is free does next: what waits for it, what waits for anybody, what waits for another.
    fn find(&mut self, at: usize) -> Option<Task> {
        if !self.crew.takes_tasks(at) || self.ledger.waiting() == 0 {
            return None;
        }
        if let Some(task) = self.crew.dequeue(at, &mut self.ledger) {
            return Some(task);
        }
        if let Some(task) = self.crew.slab().pop(&mut self.shared) {
            return Some(task);
        }
        let thief = self.thieves.get_mut(at)?;
        let robbery = thief.decide(at as u32, self.crew.views(), Moment::from_nanos(self.now_ns))?;
        let taken = self.crew.rob(robbery.at, at, robbery.take, &mut self.ledger);
        self.ledger.robberies += 1;
        self.ledger.stolen += u64::from(taken);
        self.crew.dequeue(at, &mut self.ledger)
    }

    fn add_worker(&mut self) -> Result<(), SimError> {
        let worker = self.crew.add(self.now_ns, &mut self.ledger);
        self.strategy.worker_added(&worker, self.now_ns);
        let at = worker.id as usize;
        if self.crew.is_idle(at) { self.employ(at) } else { Ok(()) }
    }

    /// The worker in the highest seat goes, and what waits for it goes to others.
    fn retire_worker(&mut self) -> Result<(), SimError> {
        let at = self.crew.retire(self.now_ns, &mut self.ledger);
        self.strategy.worker_removed(at as u32);
        while let Some(task) = self.crew.dequeue(at, &mut self.ledger) {
            self.place(task)?;
        }
        Ok(())
    }

    /// The scaling policy looks at the crew, and is obeyed.
    fn look(&mut self) -> Result<(), SimError> {
        let Some(scaling) = &mut self.scaling else { return Ok(()) };
        let wanted = scaling.look(&self.crew, &self.shared, self.ledger.arrived, self.now_ns, self.watch);
        while self.crew.len() < wanted {
            self.add_worker()?;
        }
        while self.crew.len() > wanted {
            self.retire_worker()?;
        }
        Ok(())
    }
}
