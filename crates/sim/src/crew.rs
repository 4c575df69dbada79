//! The simulated workers: what each runs, what waits for it, and the picture that policy sees of them.
//!
//! Every change goes through here and is told to the picture and to the ledger at once, so that both are right after
//! each event and nothing ever scans all workers, but a refresh of the utilisation now and then.
//!
//! Workers sit in seats, and the lowest seats are always taken, as in the pool. One that is told to go finishes what
//! it runs; until then it is `terminating`, and may be called back.
//!
//! Not here: who gets a task (`engine.rs`), when workers come and go (`scaling.rs`).

use crate::idle::Idle;
use crate::ledger::Ledger;
use crate::tasks::{Queue, Slab, Task};
use millpond_policy::Moment;
use millpond_policy::view::{Views, WorkerState, WorkerView};

/// The mean run time follows the last tasks: each moves it by one part in eight.
const RUN_MEAN_SHIFT: u32 = 3;
/// So often in a window the utilisation of all workers is measured.
const REFRESHES_IN_WINDOW: u64 = 10;

/// All seats, taken or not.
#[derive(Debug)]
pub(crate) struct Crew {
    views: Views,
    seats: Vec<Seat>,
    /// The seats from 0 up to here are taken.
    taken: usize,
    /// Seats above, whose worker still runs its last task.
    leaving: usize,
    idle: Idle,
    slab: Slab,
    speeds: Vec<f64>,
    window: Option<Window>,
}

#[derive(Debug)]
struct Seat {
    queue: Queue,
    /// What runs here, and since when.
    running: Option<(Task, u64)>,
    /// Time for a task on this worker, in units of its time at speed 1.
    slowness: f64,
    completed: u64,
    run_total_ns: u64,
    run_mean_ns: u64,
    /// How long somebody sat here, without the present stay, and since when the present one lasts.
    present_ns: u64,
    since_ns: Option<u64>,
    /// Share of the last while in which it was busy, as of a time.
    utilisation: f64,
    utilisation_at_ns: u64,
}

/// Over how long utilisation is taken.
#[derive(Clone, Copy, Debug)]
struct Window {
    ns: u64,
    refreshed_ns: u64,
}

impl Crew {
    /// Nobody yet. The speeds go round over the seats; none at all means 1 for everybody. With a window the picture
    /// also says how busy each worker was.
    pub(crate) fn new(speeds: Vec<f64>, window_ns: Option<u64>) -> Self {
        Self {
            views: Views::default(),
            seats: Vec::new(),
            taken: 0,
            leaving: 0,
            idle: Idle::new(),
            slab: Slab::new(),
            speeds,
            window: window_ns.map(|ns| Window { ns, refreshed_ns: 0 }),
        }
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    pub(crate) fn slab(&mut self) -> &mut Slab {
        &mut self.slab
    }

    /// How many workers there are, without those that only finish their last task.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// The worker that became idle last.
    pub(crate) fn newest_idle(&self) -> Option<usize> {
        self.idle.newest()
    }

    pub(crate) fn is_idle(&self, seat: usize) -> bool {
        self.idle.contains(seat)
    }

    pub(crate) fn takes_tasks(&self, seat: usize) -> bool {
        seat < self.taken
    }

    /// One more worker, in the lowest free seat. It may have something to finish from its last stay.
    pub(crate) fn add(&mut self, now_ns: u64, ledger: &mut Ledger) -> WorkerView {
        let at = self.taken;
        self.taken += 1;
        if at == self.seats.len() {
            let speed = self.speeds.get(at % self.speeds.len().max(1)).copied().unwrap_or(1.0);
            self.seats.push(Seat::new(1.0 / speed));
            self.views.push(WorkerView { id: at as u32, ..WorkerView::default() });
        }
        let seat = &mut self.seats[at];
        let state = if seat.running.is_some() {
            self.leaving -= 1;
            WorkerState::Busy
        } else {
            seat.since_ns = Some(now_ns);
            (seat.utilisation, seat.utilisation_at_ns) = (0.0, now_ns);
            self.idle.add(at);
            self.views.set_idle_since(at, Moment::from_nanos(now_ns));
            self.views.set_utilisation(at, 0);
            WorkerState::Ready
        };
        self.views.set_state(at, state);
        ledger.crew_is((self.taken + self.leaving) as u64);
        self.views.row(at)
    }

    /// The worker in the highest taken seat goes, at once or after the task it runs. Gives its seat; what waits for it
    /// is still in its queue, to be passed on.
    pub(crate) fn retire(&mut self, now_ns: u64, ledger: &mut Ledger) -> usize {
        self.taken -= 1;
        let at = self.taken;
        if self.seats[at].running.is_some() {
            self.leaving += 1;
            self.views.set_state(at, WorkerState::Terminating);
        } else {
            self.leave(at, now_ns);
        }
        ledger.crew_is((self.taken + self.leaving) as u64);
        at
    }

    fn leave(&mut self, at: usize, now_ns: u64) {
        self.idle.remove(at);
        self.views.set_state(at, WorkerState::Terminated);
        let seat = &mut self.seats[at];
        seat.present_ns += now_ns - seat.since_ns.take().unwrap_or(now_ns);
    }

    /// A task waits for this worker.
    pub(crate) fn enqueue(&mut self, at: usize, task: Task, ledger: &mut Ledger) {
        self.slab.push(&mut self.seats[at].queue, task);
        self.load_changed(at, ledger);
    }

    /// The oldest task that waits for this worker.
    pub(crate) fn dequeue(&mut self, at: usize, ledger: &mut Ledger) -> Option<Task> {
        let task = self.slab.pop(&mut self.seats[at].queue)?;
        self.load_changed(at, ledger);
        Some(task)
    }

    /// The oldest tasks of `from` wait for `to` instead, in the same order. Gives how many.
    pub(crate) fn rob(&mut self, from: usize, to: usize, take: u32, ledger: &mut Ledger) -> u32 {
        let take = take.min(self.seats[from].queue.len());
        for _ in 0..take {
            if let Some(task) = self.slab.pop(&mut self.seats[from].queue) {
                self.slab.push(&mut self.seats[to].queue, task);
            }
        }
        self.load_changed(from, ledger);
        self.load_changed(to, ledger);
        take
    }

    /// When the oldest of all tasks came that wait for a worker or in the queue for all. Looks at every worker.
    pub(crate) fn oldest_waiting_ns(&self, shared: &Queue) -> Option<u64> {
        let queues = self.seats.iter().map(|seat| &seat.queue).chain([shared]);
        queues.filter_map(|queue| queue.oldest(&self.slab)).map(|task| task.arrived_ns).min()
    }

    /// The worker begins a task and will end it at the time given; `None` if that is beyond the end of time.
    pub(crate) fn begin(&mut self, at: usize, task: Task, now_ns: u64, ledger: &mut Ledger) -> Option<u64> {
        self.note_utilisation(at, now_ns);
        self.idle.remove(at);
        let seat = &mut self.seats[at];
        seat.running = Some((task, now_ns));
        let run_ns = seat.run_ns(task.service_ns);
        self.views.set_state(at, WorkerState::Busy);
        self.load_changed(at, ledger);
        ledger.begin(task.arrived_ns);
        now_ns.checked_add(run_ns)
    }

    /// The worker ends its task. Gives how long it ran, or `None` if it ran none.
    pub(crate) fn end(&mut self, at: usize, now_ns: u64, ledger: &mut Ledger) -> Option<u64> {
        self.note_utilisation(at, now_ns);
        let seat = &mut self.seats[at];
        let (task, begun_ns) = seat.running.take()?;
        let ran_ns = now_ns - begun_ns;
        seat.completed += 1;
        seat.run_total_ns += ran_ns;
        seat.run_mean_ns = match seat.run_mean_ns {
            0 => ran_ns,
            mean => mean - (mean >> RUN_MEAN_SHIFT) + (ran_ns >> RUN_MEAN_SHIFT),
        };
        self.views.set_completed(at, seat.completed);
        self.views.set_run_time(at, seat.run_total_ns, seat.run_mean_ns);
        self.load_changed(at, ledger);
        ledger.end(task.arrived_ns);
        Some(ran_ns)
    }

    /// The worker has nothing more to do: it is idle from now on, or gone if it was told to go.
    pub(crate) fn rest(&mut self, at: usize, now_ns: u64, ledger: &mut Ledger) {
        if self.takes_tasks(at) {
            self.idle.add(at);
            self.views.set_state(at, WorkerState::Ready);
            self.views.set_idle_since(at, Moment::from_nanos(now_ns));
        } else {
            self.leaving -= 1;
            self.leave(at, now_ns);
            ledger.crew_is((self.taken + self.leaving) as u64);
        }
    }

    /// Measures the utilisation of all workers if that was long ago. Between two such times the picture stays as it is,
    /// as in a pool that measures now and then.
    pub(crate) fn refresh(&mut self, now_ns: u64) {
        let Some(window) = &mut self.window else { return };
        if now_ns - window.refreshed_ns >= window.ns / REFRESHES_IN_WINDOW {
            window.refreshed_ns = now_ns;
            for at in 0..self.taken {
                self.note_utilisation(at, now_ns);
                let share = self.seats[at].utilisation;
                self.views.set_utilisation(at, libm::round(share * 10_000.0) as u16);
            }
        }
    }

    /// For each worker that was ever here, the share of its time in which it was busy.
    pub(crate) fn busy_shares(&self, now_ns: u64) -> impl Iterator<Item = f64> + '_ {
        self.seats.iter().filter_map(move |seat| {
            let present = seat.present_ns + seat.since_ns.map_or(0, |since| now_ns - since);
            (present > 0).then(|| seat.run_total_ns as f64 / present as f64)
        })
    }

    fn load_changed(&mut self, at: usize, ledger: &mut Ledger) {
        let seat = &self.seats[at];
        let before = self.views.load()[at];
        self.views.set_load(at, u32::from(seat.running.is_some()), seat.queue.len());
        ledger.load_changed(before, self.views.load()[at]);
    }

    /// The share of busy time, with older time counting exponentially less.
    fn note_utilisation(&mut self, at: usize, now_ns: u64) {
        let Some(window) = self.window else { return };
        let seat = &mut self.seats[at];
        let kept = libm::exp(-((now_ns - seat.utilisation_at_ns) as f64) / window.ns as f64);
        let busy = if seat.running.is_some() { 1.0 } else { 0.0 };
        seat.utilisation = busy + (seat.utilisation - busy) * kept;
        seat.utilisation_at_ns = now_ns;
    }
}

impl Seat {
    fn new(slowness: f64) -> Self {
        Self {
            queue: Queue::default(),
            running: None,
            slowness,
            completed: 0,
            run_total_ns: 0,
            run_mean_ns: 0,
            present_ns: 0,
            since_ns: None,
            utilisation: 0.0,
            utilisation_at_ns: 0,
        }
    }

    /// How long a task runs here. At speed 1 exactly as long as it says, however long that is.
    fn run_ns(&self, service_ns: u64) -> u64 {
        if self.slowness == 1.0 {
            service_ns
        } else {
            (libm::round(service_ns as f64 * self.slowness) as u64).max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(arrived_ns: u64) -> Task {
        Task { arrived_ns, service_ns: 100 }
    }

    #[test]
    fn the_picture_follows_every_step_of_a_task() {
        let mut ledger = Ledger::new();
        let mut crew = Crew::new(vec![1.0, 0.5], None);
        crew.add(0, &mut ledger);
        crew.add(0, &mut ledger);
        ledger.arrived = 2;
        assert_eq!(crew.begin(1, task(0), 0, &mut ledger), Some(200), "half the speed, twice the time");
        crew.enqueue(1, task(0), &mut ledger);
        let row = crew.views().row(1);
        assert_eq!((row.state, row.running, row.queued), (WorkerState::Busy, 1, 1));
        assert_eq!(crew.newest_idle(), Some(0));
        ledger.advance(200);
        assert_eq!(crew.end(1, 200, &mut ledger), Some(200));
        let next = crew.dequeue(1, &mut ledger).unwrap();
        assert_eq!(crew.begin(1, next, 200, &mut ledger), Some(400));
        ledger.advance(400);
        crew.end(1, 400, &mut ledger);
        crew.rest(1, 400, &mut ledger);
        let row = crew.views().row(1);
        assert_eq!((row.state, row.running, row.queued), (WorkerState::Ready, 0, 0));
        assert_eq!((row.completed, row.run_total_ns, row.run_mean_ns), (2, 400, 200));
        assert_eq!(row.idle_since, Moment::from_nanos(400));
        assert_eq!(crew.busy_shares(800).collect::<Vec<_>>(), [0.0, 0.5]);
    }

    #[test]
    fn a_busy_worker_that_retires_ends_its_task_first_and_may_be_called_back() {
        let mut ledger = Ledger::new();
        let mut crew = Crew::new(Vec::new(), None);
        crew.add(0, &mut ledger);
        crew.add(0, &mut ledger);
        ledger.arrived = 2;
        crew.begin(1, task(0), 0, &mut ledger);
        assert_eq!(crew.retire(50, &mut ledger), 1);
        assert_eq!(crew.views().row(1).state, WorkerState::Terminating);
        assert_eq!(crew.add(60, &mut ledger).state, WorkerState::Busy);
        crew.retire(70, &mut ledger);
        ledger.advance(100);
        crew.end(1, 100, &mut ledger);
        crew.rest(1, 100, &mut ledger);
        assert_eq!(crew.views().row(1).state, WorkerState::Terminated);
        assert_eq!(crew.newest_idle(), Some(0));
        assert_eq!(crew.busy_shares(1000).collect::<Vec<_>>(), [0.0, 1.0]);
    }

    #[test]
    fn utilisation_rises_while_busy_and_falls_while_idle() {
        let mut ledger = Ledger::new();
        let mut crew = Crew::new(Vec::new(), Some(1000));
        crew.add(0, &mut ledger);
        ledger.arrived = 1;
        crew.begin(0, task(0), 0, &mut ledger);
        crew.refresh(1000);
        assert_eq!(crew.views().utilisation()[0], 6321, "1 − 1/e after one window");
        ledger.advance(1000);
        crew.end(0, 1000, &mut ledger);
        crew.rest(0, 1000, &mut ledger);
        crew.refresh(2000);
        assert_eq!(crew.views().utilisation()[0], 2325, "and 1/e of that after one more");
    }
}
