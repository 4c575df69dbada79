//! `join(a, b)`: runs two closures, perhaps at the same time, and returns when both are done.
//!
//! ```text
//!   Forks of one worker            oldest ▼                     newest ▼
//!     offered ◄────► offered ◄────► private ◄────► private ◄────► private      each in the frame of its join
//! ```
//!
//! `b` is noted on a private list while `a` runs, and nobody else sees it: no allocation, no locked instruction, a few
//! nanoseconds. Only when somebody in the pool has nothing to do, the next fork to come by offers the *oldest* private
//! one, which is likely the largest. So the cost of sharing is paid for what is shared, and the rest runs as two calls
//! in a row would. (Chili and heartbeat schedulers share at a fixed beat instead; asking who is idle needs no clock and
//! no extra thread.)
//!
//! It is a list and not an array with a length, since each join would have to wait for the length that the last one
//! wrote; a list is written and seldom read.
//!
//! Not here: how an offer is claimed, finished and waited for (`offer.rs`).

use crate::cell::Header;
use crate::current;
use crate::offer::Offer;
use crate::task::{Ran, Run, Task, drop_panic, drop_quietly};
use crate::token::{self, CancelToken};
use crate::worker::Worker;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// How often a joiner looks whether its offer is done before it sleeps, and the pauses in between.
const LOOKS: u32 = 64;
const PAUSES: u32 = 16;

/// Runs both closures, perhaps at the same time, and returns both results.
///
/// On a worker of a pool `b` may be run by another worker that has nothing to do; anywhere else `a` runs first and
/// `b` after it. If one of them panics, so does `join`, after the other has ended or was not begun.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = millpond::join(|| sum(left), || sum(right));
///     left + right
/// }
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let pool = millpond::Pool::start(millpond::PoolConfig::default())?;
/// assert_eq!(pool.inside(|| sum(&numbers)), 4_999_950_000);
/// # Ok::<(), millpond::StartError>(())
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match current::worker() {
        None => (a(), b()),
        Some(worker) => fork(worker, a, b),
    }
}

#[inline]
fn fork<A, B, RA, RB>(worker: &Worker, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let fork = Fork {
        link: Link {
            offer_it: offer_fork::<B, RB>,
            older: Cell::new(ptr::null()),
            younger: Cell::new(ptr::null()),
            offer: Cell::new(ptr::null()),
        },
        state: UnsafeCell::new(State { work: ManuallyDrop::new(b) }),
    };
    worker.forks.note((&raw const fork).cast());
    let noted = Noted { worker, fork: &fork };
    if worker.shared.sleep.anybody_idle() {
        worker.offer_oldest();
    }
    let a = a();
    match noted.take_back_private() {
        Ok(()) => {
            // SAFETY: nobody else ever knew of the fork, so its work is whole and this thread's.
            let b = unsafe { fork.take_work() };
            (a, b())
        }
        Err(offered) => match offered.finish() {
            Ok(b) => (a, b),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// The second half of a join, in its joiner's frame.
#[repr(C)]
struct Fork<B, RB> {
    /// First, so that a pointer to the fork is a pointer to this.
    link: Link,
    /// The joiner's, or that of whoever claimed the offer.
    state: UnsafeCell<State<B, RB>>,
}

/// What a fork is to the list of its worker. The joiner's thread only.
struct Link {
    /// Makes a task of this very fork.
    offer_it: unsafe fn(*const Link) -> Task,
    /// The neighbours, if there are any: which that are is told by [`Forks`].
    older: Cell<*const Link>,
    younger: Cell<*const Link>,
    /// The offer, once there is one, counted; until `Offered::end` takes it.
    offer: Cell<*const Offer>,
}

impl<B, RB> Fork<B, RB> {
    /// # Safety
    /// The state is the caller's and holds work, which is taken once.
    #[inline(always)]
    unsafe fn take_work(&self) -> B {
        // SAFETY: by the caller's word nobody else touches the state, and the work is what is in it.
        let work = unsafe { &raw const (*self.state.get()).work };
        // SAFETY: by the caller's word the work is whole, and moved out once.
        ManuallyDrop::into_inner(unsafe { work.read() })
    }

    /// # Safety
    /// The state is the caller's and holds an outcome, which is taken once.
    unsafe fn take_outcome(&self) -> Outcome<RB> {
        // SAFETY: by the caller's word nobody else touches the state, and the outcome is what is in it.
        let outcome = unsafe { &raw const (*self.state.get()).outcome };
        // SAFETY: by the caller's word the outcome is whole, and moved out once.
        ManuallyDrop::into_inner(unsafe { outcome.read() })
    }
}

/// What came of the second half.
type Outcome<RB> = Result<RB, Box<dyn Any + Send>>;

/// First the work, then what came of it.
union State<B, RB> {
    work: ManuallyDrop<B>,
    outcome: ManuallyDrop<Outcome<RB>>,
}

/// A fork that stands on the list, until it is settled one way or the other.
struct Noted<'a, B: FnOnce() -> RB, RB> {
    worker: &'a Worker,
    fork: &'a Fork<B, RB>,
}

impl<'a, B: FnOnce() -> RB, RB> Noted<'a, B, RB> {
    /// Takes the fork off the list. If nobody was told of it, its work is the caller's.
    #[inline(always)]
    fn take_back_private(self) -> Result<(), Offered<'a, B, RB>> {
        let this = ManuallyDrop::new(self);
        if this.worker.forks.take_back(&this.fork.link) {
            return Ok(());
        }
        Err(Offered { worker: this.worker, fork: this.fork })
    }
}

/// Reached only when `a` unwinds: the frame is about to go, so the fork must be settled first.
impl<B: FnOnce() -> RB, RB> Drop for Noted<'_, B, RB> {
    #[inline(always)]
    fn drop(&mut self) {
        Offered { worker: self.worker, fork: self.fork }.let_go();
    }
}

/// A fork that others were told of, or may have been.
struct Offered<'a, B, RB> {
    worker: &'a Worker,
    fork: &'a Fork<B, RB>,
}

impl<B: FnOnce() -> RB, RB> Offered<'_, B, RB> {
    /// Takes the offer back and runs it here, or waits for whoever took it.
    #[cold]
    #[inline(never)]
    fn finish(self) -> Outcome<RB> {
        let mut outcome = None;
        let elsewhere = self.end(|work| outcome = Some(catch_unwind(AssertUnwindSafe(work))));
        elsewhere.or(outcome).expect("a fork is run here or elsewhere")
    }

    /// Settles a fork whose other half has panicked, and whose own half is not wanted any more.
    #[cold]
    #[inline(never)]
    fn let_go(self) {
        if self.worker.forks.take_back(&self.fork.link) {
            // SAFETY: nobody else ever knew of the fork, and `fork` has not taken its work.
            drop_quietly(unsafe { self.fork.take_work() });
        } else if let Some(Err(panic)) = self.end(drop_quietly) {
            drop_panic(panic);
        }
    }

    /// Brings the offer to its end: hands the work to `here` if it can be taken back, or else waits for what came of
    /// it elsewhere.
    fn end(&self, here: impl FnOnce(B)) -> Option<Outcome<RB>> {
        // SAFETY: the list said that the fork was offered, so there is a counted offer, which is taken here alone.
        let offer = unsafe { Arc::from_raw(self.fork.link.offer.get()) };
        if offer.claim() {
            // SAFETY: winning the claim makes the frame's state this thread's; the work is whole, as nobody ran it.
            here(unsafe { self.fork.take_work() });
            return None;
        }
        self.worker.wait_for(&offer);
        // SAFETY: the offer is done, so its taker has left the frame, and left an outcome in it.
        Some(unsafe { self.fork.take_outcome() })
    }
}

/// # Safety
/// `fork` points to a `Fork<B, RB>` whose owner keeps it in place until the offer is done or taken back.
unsafe fn offer_fork<B, RB>(fork: *const Link) -> Task
where
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let fork = fork.cast::<Fork<B, RB>>();
    let offer = Arc::new(Offer::new());
    // SAFETY: the fork is in place, and this is its owner's thread, the only one that uses `offer`.
    unsafe { (*fork).link.offer.set(Arc::into_raw(Arc::clone(&offer))) };
    let taken = Taken { offer, fork: ForkPointer(fork), token: CancelToken::current() };
    // SAFETY: the task touches the fork only after it has won the claim, which the owner waits for; until then, and
    // if it is dropped unrun, it is just an address.
    unsafe { Task::borrowing(taken) }
}

/// A fork's address, which may travel because what it points to may.
struct ForkPointer<B, RB>(*const Fork<B, RB>);

// SAFETY: whoever wins the claim runs `B` and leaves an `RB`; both are `Send`. Nothing else is touched.
unsafe impl<B: Send, RB: Send> Send for ForkPointer<B, RB> {}

/// The task that carries an offer to its taker.
struct Taken<B, RB> {
    offer: Arc<Offer>,
    fork: ForkPointer<B, RB>,
    /// Both halves of a join are parts of the same task, and notice when it is cancelled.
    token: Option<CancelToken>,
}

impl<B: FnOnce() -> RB + Send, RB: Send> Run for Taken<B, RB> {
    // It is part of its joiner's task, and not one of its own.
    const COUNTS_ITSELF: bool = true;

    fn run(self) -> Ran {
        if self.offer.claim() {
            // SAFETY: winning the claim makes the frame's state this thread's until `finish`, and keeps the frame in
            // place until then.
            let fork = unsafe { &*self.fork.0 };
            // SAFETY: as above, the state is this thread's, and the work is whole, as nobody ran it.
            let work = unsafe { fork.take_work() };
            let outcome = {
                let _part_of_it = token::run_for(self.token.as_ref());
                catch_unwind(AssertUnwindSafe(work))
            };
            // SAFETY: as above; what was there has been taken out.
            unsafe { fork.state.get().write(State { outcome: ManuallyDrop::new(outcome) }) };
            self.offer.finish();
        }
        Ran::CountsItself { ended: false }
    }
}

/// The forks of one worker that its joins have not settled yet. Everything here is the worker's thread's.
///
/// An address that is noted here is that of a link in the frame of a join, which takes it off the list before that
/// frame goes.
pub(crate) struct Forks {
    newest: Cell<*const Link>,
    /// The oldest one that nobody was told of. Those before have been offered, those after not.
    oldest: Cell<*const Link>,
    /// Which task the first of them was noted for.
    noted_for: Cell<Option<NonNull<Header>>>,
}

impl Default for Forks {
    fn default() -> Self {
        Self { newest: Cell::new(ptr::null()), oldest: Cell::new(ptr::null()), noted_for: Cell::new(None) }
    }
}

impl Forks {
    /// `link` points to a link in a frame of this thread.
    #[inline(always)]
    fn note(&self, link: *const Link) {
        let older = self.newest.get();
        // SAFETY: what is noted is in place; and the new one is, by the caller's word.
        unsafe { (*link).older.set(older) };
        // SAFETY: what is noted is in place, on this thread.
        match unsafe { older.as_ref() } {
            Some(older) => older.younger.set(link),
            None => self.noted_for.set(token::current()),
        }
        if self.oldest.get().is_null() {
            self.oldest.set(link);
        }
        self.newest.set(link);
    }

    /// Takes the newest fork off the list, for the join that noted it: joins end in the reverse order of their
    /// beginning. `false`: it had been offered.
    #[inline(always)]
    fn take_back(&self, link: &Link) -> bool {
        debug_assert!(ptr::eq(self.newest.get(), link), "joins end in the reverse order of their beginning");
        self.newest.set(link.older.get());
        if !link.offer.get().is_null() {
            return false;
        }
        if ptr::eq(self.oldest.get(), link) {
            self.oldest.set(ptr::null());
        }
        true
    }

    /// Makes a task of the oldest fork that nobody was told of.
    fn offer_oldest(&self) -> Option<Task> {
        // The address as it was noted, and no reference: it stands for the whole fork, not for its link alone.
        let oldest = self.oldest.get();
        if oldest.is_null() {
            return None;
        }
        // SAFETY: what is noted is in place, on this thread.
        let offer_it = unsafe { (*oldest).offer_it };
        // SAFETY: the function belongs to this very fork, whose join waits for the offer.
        let task = unsafe { offer_it(oldest) };
        let is_newest = ptr::eq(self.newest.get(), oldest);
        // SAFETY: as above, what is noted is in place until its join takes it off.
        self.oldest.set(if is_newest { ptr::null() } else { unsafe { (*oldest).younger.get() } });
        Some(task)
    }

    /// Runs a task inside another, which must not offer the forks of that one in its own name.
    pub(crate) fn apart<R>(&self, run: impl FnOnce() -> R) -> R {
        let (newest, oldest) = (self.newest.replace(ptr::null()), self.oldest.replace(ptr::null()));
        let noted_for = self.noted_for.replace(None);
        let ran = run();
        debug_assert!(self.newest.get().is_null(), "a task takes its forks off the list before it ends");
        self.newest.set(newest);
        self.oldest.set(oldest);
        self.noted_for.set(noted_for);
        ran
    }
}

impl fmt::Debug for Forks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forks").field("oldest", &self.oldest).field("newest", &self.newest).finish()
    }
}

impl Worker {
    /// Offers the oldest private fork to those who have nothing to do, unless enough has been offered to them.
    #[cold]
    #[inline(never)]
    fn offer_oldest(&self) {
        let (forks, shared) = (&self.forks, &self.shared);
        let idle = shared.sleep.asleep() + shared.sleep.searching();
        if forks.oldest.get().is_null() || shared.forks.len() >= idle {
            return;
        }
        // A task that runs inside another would offer the other's forks in its own name.
        if forks.noted_for.get() != token::current() {
            return;
        }
        let Some(task) = forks.offer_oldest() else { return };
        // A full ring of offers is dropped here: the joiner takes its offer back, as it would from the ring.
        if shared.forks.push(task).is_ok() {
            shared.sleep.work_came();
        }
    }

    /// Waits for an offer that somebody took: helps with other joins meanwhile, looks a few times, then sleeps.
    fn wait_for(&self, offer: &Offer) {
        let mut looks = 0;
        while !offer.is_done() {
            if let Some(fork) = self.shared.forks.pop() {
                self.run_inside(fork);
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                for _ in 0..PAUSES {
                    std::hint::spin_loop();
                }
                if looks % 8 == 0 {
                    std::thread::yield_now();
                }
            } else {
                self.wait_once(true, |at_most| offer.wait(at_most));
            }
        }
    }
}
