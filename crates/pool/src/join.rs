//! `join(a, b)`: runs two closures, perhaps at the same time, and returns when both are done.
//!
//! ```text
//!   Forks of one worker    oldest ▼            ▼ len
//!     │ offered │ offered │ private │ private │
//! ```
//!
//! `b` is noted on a private stack while `a` runs, and nobody else sees it: no allocation, no locked instruction, a
//! few nanoseconds. Only when somebody in the pool has nothing to do, the next fork to come by offers the *oldest*
//! private one, which is likely the largest. So the cost of sharing is paid for what is shared, and the rest runs as
//! two calls in a row would. (Chili and heartbeat schedulers share at a fixed beat instead; asking who is idle needs
//! no clock and no extra thread.)
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

/// So many forks deep a stack is noted; deeper ones run here and are never offered.
const FORKS_MAX: usize = 64;
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
    if worker.forks.is_full() {
        return in_a_row(a, b);
    }
    let fork = Fork {
        offer_it: offer_fork::<B, RB>,
        offer: ManuallyDrop::new(Cell::new(None)),
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

/// Too many forks deep to note another.
#[cold]
#[inline(never)]
fn in_a_row<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    (a(), b())
}

/// The second half of a join, in its joiner's frame.
#[repr(C)]
struct Fork<B, RB> {
    /// Makes a task of this very fork. First, so that a pointer to the fork is a pointer to this.
    offer_it: unsafe fn(*const ()) -> Task,
    /// The offer, once there is one, until `Offered::end` takes it; the joiner's thread only.
    offer: ManuallyDrop<Cell<Option<Arc<Offer>>>>,
    /// The joiner's, or that of whoever claimed the offer.
    state: UnsafeCell<State<B, RB>>,
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

/// A fork that stands on the stack of private forks, until it is settled one way or the other.
struct Noted<'a, B: FnOnce() -> RB, RB> {
    worker: &'a Worker,
    fork: &'a Fork<B, RB>,
}

impl<'a, B: FnOnce() -> RB, RB> Noted<'a, B, RB> {
    /// Takes the fork off the stack if nobody was told of it. Its work is then the caller's.
    #[inline(always)]
    fn take_back_private(self) -> Result<(), Offered<'a, B, RB>> {
        let this = ManuallyDrop::new(self);
        if this.worker.forks.take_back() {
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
        if self.worker.forks.take_back() {
            // SAFETY: nobody else ever knew of the fork, and `fork` has not taken its work.
            drop_quietly(unsafe { self.fork.take_work() });
        } else if let Some(Err(panic)) = self.end(drop_quietly) {
            drop_panic(panic);
        }
    }

    /// Brings the offer to its end: hands the work to `here` if it can be taken back, or else waits for what came of
    /// it elsewhere.
    fn end(&self, here: impl FnOnce(B)) -> Option<Outcome<RB>> {
        let offer = self.fork.offer.take().expect("a fork that left the stack was offered");
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
unsafe fn offer_fork<B, RB>(fork: *const ()) -> Task
where
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let fork = fork.cast::<Fork<B, RB>>();
    let offer = Arc::new(Offer::new());
    // SAFETY: the fork is in place, and this is its owner's thread, the only one that uses `offer`.
    unsafe { (*fork).offer.set(Some(Arc::clone(&offer))) };
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
pub(crate) struct Forks {
    noted: [Cell<*const ()>; FORKS_MAX],
    /// Which task the first of them was noted for.
    noted_for: Cell<Option<NonNull<Header>>>,
    /// Those before have been offered.
    oldest: Cell<usize>,
    len: Cell<usize>,
}

impl Default for Forks {
    fn default() -> Self {
        Self {
            noted: [const { Cell::new(ptr::null()) }; FORKS_MAX],
            noted_for: Cell::new(None),
            oldest: Cell::new(0),
            len: Cell::new(0),
        }
    }
}

impl Forks {
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.len.get() >= FORKS_MAX
    }

    /// There is room for it.
    #[inline(always)]
    fn note(&self, fork: *const ()) {
        let place = self.len.get();
        if place == 0 {
            self.noted_for.set(token::current());
        }
        self.noted[place].set(fork);
        self.len.set(place + 1);
    }

    /// Takes the newest fork off the stack, for the join that noted it: joins end in the reverse order of their
    /// beginning. `false`: it had been offered.
    #[inline(always)]
    fn take_back(&self) -> bool {
        let place = self.len.get() - 1;
        self.len.set(place);
        if self.oldest.get() <= place {
            return true;
        }
        self.oldest.set(place);
        false
    }
}

impl fmt::Debug for Forks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forks").field("oldest", &self.oldest).field("len", &self.len).finish()
    }
}

impl Worker {
    /// Offers the oldest private fork to those who have nothing to do, unless enough has been offered to them.
    #[cold]
    #[inline(never)]
    fn offer_oldest(&self) {
        let (forks, shared) = (&self.forks, &self.shared);
        let idle = shared.sleep.asleep() + shared.sleep.searching();
        if forks.oldest.get() >= forks.len.get() || shared.forks.len() >= idle {
            return;
        }
        // A task that runs inside another would offer the other's forks in its own name.
        if forks.noted_for.get() != token::current() {
            return;
        }
        let fork = forks.noted[forks.oldest.get()].get();
        // SAFETY: a noted fork is in place until its join settles it, on this thread; every `Fork` begins with the
        // function that offers it.
        let offer_it = unsafe { *fork.cast::<unsafe fn(*const ()) -> Task>() };
        // SAFETY: the function belongs to this very fork, whose join waits for the offer.
        let task = unsafe { offer_it(fork) };
        forks.oldest.set(forks.oldest.get() + 1);
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
