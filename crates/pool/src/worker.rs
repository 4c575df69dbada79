//! A worker: a thread that finds tasks, runs them, and sleeps when there are none.
//!
//! It is cut by verb. `find.rs` says where it looks, `run.rs` what it does with what it found, `park.rs` when and how
//! it sleeps. This file holds what it owns, its loop, and what it attends to between two tasks.
//!
//! Not here: how many workers there are (`crew.rs`).

mod find;
mod park;
mod parts;
mod run;
mod steal;

pub(crate) use run::IN_PLACE_DEPTH_MAX;
use run::RunHere;

use crate::config::Hook;
use crate::counters::{Counters, Ending};
use crate::current;
use crate::job::Job;
use crate::join::Forks;
use crate::lanes::Turn;
use crate::seat::Seat;
use crate::shared::{Shared, attention};
use crate::stack::Stack;
use crate::task::{Seed, Task, drop_panic};
use crate::token;
use millpond_policy::steal::Thief;
use millpond_policy::view::WorkerState;
use millpond_queue::StealQueue;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use steal::{MailSeen, Thieving};

/// So many references to its pool a worker gives back at a time.
const REFERENCES_MAX: usize = 64;

/// Everything in it belongs to its thread; tasks reach it through `current.rs`, hence the cells.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// The number of its seat, and the seat.
    pub(crate) number: usize,
    pub(crate) seat: Arc<Seat>,
    /// Tasks submitted by tasks that ran here, oldest first.
    pub(crate) own: StealQueue<Task>,
    /// Halves of joins that nobody else knows of yet.
    pub(crate) forks: Forks,
    /// A task woken by the async task that ran last: its data is warm, so it comes next.
    next: Cell<Option<Job>>,
    /// Whether a task gave way, went back to `own`, and nobody has been told.
    gave_way: Cell<bool>,
    /// Whether others were told of what is new in `own` by a light fence only, which one who falls asleep may miss.
    told_lightly: Cell<bool>,
    /// How often `own` was found with tasks in it by one look of many, up to a limit.
    own_flow: Cell<u32>,
    /// How often in a row `next` has come first.
    next_in_a_row: Cell<u32>,
    turn: Turn,
    /// Counts the looks for work, so that others' queues come first now and then.
    tick: Cell<u32>,
    /// How many tasks are taken along when one is taken from the shared lanes.
    haul: Cell<usize>,
    /// How many of those that were taken along last are still in `own`, at most: thieves may have been there.
    hauled: Cell<usize>,
    /// How many had ended here when `haul` was last decided, and when that was.
    weighed: Cell<(u64, Instant)>,
    /// The state of the random choice of whom to rob first.
    random: Cell<u32>,
    thieving: RefCell<Thieving>,
    /// A task with a key that was seen to wait for another worker.
    mail_seen: Cell<Option<MailSeen>>,
    /// Whether that has waited for as long as it is left to its worker.
    mail_is_ripe: Cell<bool>,
    /// Whether it has not offered its processor to others since it slept.
    has_risen: Cell<bool>,
    /// How many tasks run on it inside of others, and how much room they leave.
    pub(crate) stack: Stack,
    /// Whether there was too much on it when something was last looked for.
    is_deep: Cell<bool>,
    /// For how many looks in a row it could go on with nothing, and nor could any other.
    looks_at_a_stand: Cell<u32>,
    /// Whether it stands still, and whether another stands in for it then.
    standing: Cell<Standing>,
    /// Why it leaves, once it does.
    leaves: Cell<Option<Leave>>,
    /// References to the pool of tasks that were freed here. They are given back many at a time: submitters count in
    /// the same word.
    references: RefCell<Vec<Arc<Shared>>>,
}

/// Why a worker leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It is one too many, and may be recruited again.
    Retired,
    /// The pool ends.
    Dismissed,
}

/// Whether a worker stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    No,
    Relieved,
    Unrelieved,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, number: usize, own: StealQueue<Task>) -> Self {
        let thief =
            Thief::new(shared.config.stealing).expect("the settings were checked before the pool began");
        let seat = Arc::clone(shared.seat(number));
        let stack = Stack::of(shared.config.stack_bytes);
        Self {
            shared,
            number,
            own,
            forks: Forks::default(),
            next: Cell::new(None),
            gave_way: Cell::new(false),
            told_lightly: Cell::new(false),
            own_flow: Cell::new(0),
            next_in_a_row: Cell::new(0),
            turn: Turn::default(),
            tick: Cell::new(0),
            haul: Cell::new(0),
            hauled: Cell::new(0),
            weighed: Cell::new((seat.counters.endings(Ending::Completed), Instant::now())),
            random: Cell::new((number as u32 + 1).wrapping_mul(0x9E37_79B9)),
            thieving: RefCell::new(Thieving::new(thief)),
            mail_seen: Cell::new(None),
            mail_is_ripe: Cell::new(false),
            has_risen: Cell::new(false),
            stack,
            is_deep: Cell::new(false),
            looks_at_a_stand: Cell::new(0),
            standing: Cell::new(Standing::No),
            leaves: Cell::new(None),
            references: RefCell::new(Vec::with_capacity(REFERENCES_MAX)),
            seat,
        }
    }

    /// Works until the crew lets it go, and says why. Gives back its own queue, with what may be left in it.
    pub(crate) fn work(self) -> (StealQueue<Task>, Leave) {
        let leave = {
            let _entered = current::enter(&self);
            self.stack.begins_here();
            // Whoever stood in for it would run the same hook first. If it waits for a task of this very pool, this
            // worker runs it.
            self.standing.set(Standing::Unrelieved);
            self.shared.crew.as_starting(|| self.call(self.shared.config.on_start.as_ref()));
            self.standing.set(Standing::No);
            self.begin_to_take_tasks();
            let leave = loop {
                if let ControlFlow::Break(leave) = self.look_up() {
                    break leave;
                }
                if self.find(RunHere(&self)).is_none() {
                    self.search_or_sleep();
                } else {
                    self.run_flow();
                }
            };
            self.share_next();
            // It does not count as running any more, so nobody is to stand in for it if the hook waits.
            self.standing.set(Standing::Relieved);
            self.leaves.set(Some(leave));
            self.call(self.shared.config.on_stop.as_ref());
            leave
        };
        (self.own, leave)
    }

    /// Why it leaves, if it does.
    pub(crate) fn leaves(&self) -> Option<Leave> {
        self.leaves.get()
    }

    fn begin_to_take_tasks(&self) {
        self.seat.pace.note_idle(self.shared.now().as_nanos());
        self.seat.presence.set(WorkerState::Ready);
        self.shared.worker_came(self.number);
    }

    /// Attends to whatever is not a task. `Break`: this worker leaves.
    #[inline(always)]
    fn look_up(&self) -> ControlFlow<Leave> {
        match self.shared.attention() {
            0 => ControlFlow::Continue(()),
            _ => self.attend(),
        }
    }

    #[cold]
    fn attend(&self) -> ControlFlow<Leave> {
        let crew = &self.shared.crew;
        loop {
            let bits = self.shared.attention();
            if bits & attention::STOPPING != 0 {
                crew.leave();
                return ControlFlow::Break(Leave::Dismissed);
            }
            let surplus = bits & attention::SURPLUS != 0 && self.number >= crew.wanted();
            if surplus && crew.may_retire(&self.shared, self.number) {
                return ControlFlow::Break(Leave::Retired);
            }
            if bits & attention::PAUSED == 0 {
                return ControlFlow::Continue(());
            }
            crew.wait_while_paused(self.number);
        }
    }

    /// Whether it is one of this pool's.
    #[inline(always)]
    pub(crate) fn is_of(&self, shared: &Shared) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.shared), shared)
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &Counters {
        &self.seat.counters
    }

    /// Takes over what a task held of the pool, to give it back later.
    #[inline]
    pub(crate) fn keep_reference(&self, reference: Arc<Shared>) {
        let mut references = self.references.borrow_mut();
        if references.len() == REFERENCES_MAX {
            references.clear();
        }
        references.push(reference);
    }

    /// Puts a task at the end of this worker's own queue, or where there is room.
    pub(crate) fn push_own(&self, task: Task) {
        if let Err(task) = self.own.push(task) {
            self.shared.overflow.push(task);
        }
        self.shared.sleep.work_came();
    }

    /// Puts a task that was in the way in this worker's own queue where all workers find it, or hands it back if many
    /// are there already.
    pub(crate) fn set_aside(&self, task: Task) -> Result<(), Task> {
        if self.shared.overflow.len() >= self.own.limit() {
            return Err(task);
        }
        self.shared.overflow.push(task);
        self.shared.sleep.work_came();
        self.shared.purge_if_stopped();
        Ok(())
    }

    /// Puts a task back into this worker's own queue that was taken to be looked at.
    pub(crate) fn put_back(&self, task: Task) {
        self.push_own(task);
        self.shared.purge_if_stopped();
    }

    /// As `push_own`, with a task that is made there: nobody can have missed it where it was before.
    pub(super) fn push_job(&self, job: Job) {
        match Seed::new(job).push_to(&self.own) {
            Ok(()) => self.tell_lightly(),
            Err(seed) => {
                self.shared.overflow.push(seed.into_task());
                self.shared.sleep.work_came();
            }
        }
    }

    /// Tells of a task that was just put at the end of this worker's own queue. One who falls asleep in this very
    /// moment may miss it, so it is told of once more when the next task is taken from there (`find.rs`).
    #[inline(always)]
    pub(crate) fn tell_lightly(&self) {
        self.shared.sleep.work_came_inside();
        self.told_lightly.set(true);
    }

    /// Tells of what is in this worker's own queue, for certain: it will not come there itself for a while.
    pub(crate) fn tell_for_certain(&self) {
        if self.gave_way.replace(false) | self.told_lightly.replace(false) {
            self.shared.sleep.work_came();
        }
    }

    /// Puts a task that gave way at the end of this worker's own queue. Whether somebody is to be woken for it is
    /// decided when the next task has been taken from the same queue (`find.rs`), which saves a fence.
    pub(crate) fn push_again(&self, job: Job) {
        match Seed::new(job).push_to(&self.own) {
            // The task around this one may go on for long before this worker looks for another.
            Ok(()) if self.depth() > 0 => self.shared.sleep.work_came(),
            Ok(()) => self.gave_way.set(true),
            Err(seed) => {
                self.shared.overflow.push(seed.into_task());
                self.shared.sleep.work_came();
            }
        }
    }

    /// Puts a woken task before all others, because what it needs is in this worker's cache; the one that was there
    /// before goes to the end of the queue. Only a future may do that, since it will soon be done with its step: a
    /// closure may go on for long, and nobody else sees what comes next here.
    pub(crate) fn push_woken(&self, job: Job) {
        let displaced = if token::runs_future() { self.next.replace(Some(job)) } else { Some(job) };
        if let Some(job) = displaced {
            self.push_job(job);
        }
    }

    /// Puts what comes next where others see it, and tells them.
    fn share_next(&self) {
        if let Some(job) = self.next.take() {
            self.push_job(job);
        }
        self.tell_for_certain();
    }

    fn call(&self, hook: Option<&Hook>) {
        let Some(hook) = hook else { return };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook.call(self.number))) {
            drop_panic(payload);
            self.shared.crew.hook_panicked();
        }
    }
}
