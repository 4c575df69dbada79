//! A task's waker: the same counted pointer as every other reference to it, so that none is ever allocated.
//!
//! To clone and to drop one is one step of the state word each. While a future is polled it is lent a waker that
//! borrows the reference of whoever runs it, which costs nothing.
//!
//! Not here: what waking does (`state.rs`).

use crate::cell::{Header, TaskRef};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// A waker for as long as `task` is borrowed.
#[inline(always)]
pub(crate) fn borrowed(task: &TaskRef) -> Borrowed<'_> {
    // SAFETY: the table keeps the contract of wakers: it may be used from any thread, since `TaskRef` is `Send` and
    // `Sync`, and each function takes the pointer for what it is, that of a counted reference. That it is not counted
    // here is made good by never dropping it and by the borrow, which the counted one outlives.
    let waker = unsafe { Waker::from_raw(raw(task)) };
    Borrowed { waker: ManuallyDrop::new(waker), _task: task }
}

/// A waker that is not dropped.
pub(crate) struct Borrowed<'a> {
    waker: ManuallyDrop<Waker>,
    _task: &'a TaskRef,
}

impl Deref for Borrowed<'_> {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.waker
    }
}

fn raw(task: &TaskRef) -> RawWaker {
    RawWaker::new(task.as_raw().as_ptr().cast_const().cast(), &TABLE)
}

/// The reference behind a waker's pointer.
///
/// # Safety
/// The pointer is that of a waker made here. The waker's reference is given to the returned one.
unsafe fn task(pointer: *const ()) -> TaskRef {
    // SAFETY: by the caller's word it came from a `NonNull`.
    let header = unsafe { NonNull::new_unchecked(pointer.cast_mut().cast::<Header>()) };
    // SAFETY: by the caller's word it is that of a live waker made here.
    unsafe { TaskRef::from_raw(header) }
}

/// # Safety
/// The pointer is that of a live waker made here.
unsafe fn clone(pointer: *const ()) -> RawWaker {
    // SAFETY: by the caller's word; the reference stays the waker's.
    let task = ManuallyDrop::new(unsafe { task(pointer) });
    raw(&ManuallyDrop::new(TaskRef::clone(&task)))
}

/// # Safety
/// The pointer is that of a waker made here, which is used up.
unsafe fn wake(pointer: *const ()) {
    // SAFETY: by the caller's word it is that of a live waker made here.
    unsafe { task(pointer) }.wake();
}

/// # Safety
/// The pointer is that of a live waker made here.
unsafe fn wake_by_ref(pointer: *const ()) {
    // SAFETY: by the caller's word; the reference stays the waker's.
    let task = ManuallyDrop::new(unsafe { task(pointer) });
    task.wake_by_ref();
}

/// # Safety
/// The pointer is that of a waker made here, which is used up.
unsafe fn drop_waker(pointer: *const ()) {
    // SAFETY: by the caller's word it is that of a live waker made here.
    drop(unsafe { task(pointer) });
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::cell::Details;
    use crate::counters::Ending;
    use crate::error::{CancelAnswer, TaskError};
    use crate::job::{self, Turn};
    use crate::toy::{Toy, far_away};
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};
    use std::task::Poll;

    /// Where a future leaves its waker, and what it waits for.
    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<(Option<Waker>, Option<u32>)>>);

    impl Shelf {
        /// Waits until there is a number.
        async fn number(self) -> u32 {
            poll_fn(|context| {
                let mut shelf = self.0.lock().unwrap();
                shelf.0 = Some(context.waker().clone());
                shelf.1.map_or(Poll::Pending, Poll::Ready)
            })
            .await
        }

        fn put(&self, number: u32) {
            self.0.lock().unwrap().1 = Some(number);
        }

        fn waker(&self) -> Waker {
            self.0.lock().unwrap().0.take().expect("the future has been polled")
        }
    }

    /// A future that wakes itself so often before it is ready.
    async fn yields(times: u32) -> u32 {
        for _ in 0..times {
            let mut yielded = false;
            poll_fn(|context| {
                if std::mem::replace(&mut yielded, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        times
    }

    #[test]
    fn a_future_that_wakes_itself_makes_four_steps_before_it_goes_to_the_back_of_the_queue() {
        let toy = Toy::new();
        let (job, ticket) = toy.future(yields(8));
        // Eight wake-ups are nine steps: four, four, and the last one.
        toy.run(job);
        for left in [1, 0] {
            let job = toy.take_job().unwrap();
            toy.run(job);
            assert_eq!(toy.queue_len(), left);
        }
        assert_eq!(ticket.wait().unwrap(), 8);
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
    }

    #[test]
    fn a_future_that_gives_way_goes_to_the_back_of_the_queue_each_time() {
        let toy = Toy::new();
        let (job, ticket) = toy.future(async {
            for _ in 0..3 {
                crate::yield_now().await;
            }
        });
        toy.run(job);
        for _ in 0..3 {
            assert_eq!(toy.queue_len(), 1);
            let job = toy.take_job().unwrap();
            toy.run(job);
        }
        assert!(ticket.wait().is_ok());
    }

    #[test]
    fn a_future_woken_often_is_queued_once() {
        for inside in [false, true] {
            let toy = Toy::new();
            let shelf = Shelf::default();
            let (job, ticket) = toy.future(shelf.clone().number());
            assert!(matches!(job.run(), Turn::Waits));
            let waker = shelf.waker();
            shelf.put(9);
            let wake = || {
                let another = waker.clone();
                waker.wake_by_ref();
                another.wake();
                waker.wake_by_ref();
            };
            if inside {
                toy.inside(wake)
            } else {
                wake()
            }
            assert_eq!(toy.run_all(), 1);
            assert_eq!(ticket.wait().unwrap(), 9);
            waker.wake_by_ref();
            if inside {
                toy.inside(|| waker.wake())
            } else {
                waker.wake()
            }
            assert_eq!((toy.queue_len(), toy.cells()), (0, 1), "the shelf still has a waker");
            drop(shelf);
            assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
        }
    }

    #[test]
    fn a_future_that_waits_is_dropped_by_who_cancels_it() {
        let toy = Toy::new();
        let shelf = Shelf::default();
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        let number = shelf.clone().number();
        let (job, ticket) = toy.future(async move {
            let number = number.await;
            drop(held);
            number
        });
        toy.run(job);
        assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
        assert_eq!((Arc::strong_count(&witness), toy.endings()), (1, vec![Ending::Cancelled]));
        shelf.waker().wake();
        assert_eq!(toy.queue_len(), 0, "what has ended is not queued");
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        assert_eq!(toy.cells(), 0);
    }

    #[test]
    fn a_deadline_ends_a_future_that_waits_and_asks_one_that_runs() {
        let toy = Toy::with_deadlines();
        let shelf = Shelf::default();
        let details = || Details { due: Some(far_away()), ..Details::default() };
        let (job, waiting) = job::future(toy.clone(), details(), shelf.clone().number());
        let task = job.to_watch().unwrap();
        task.watch();
        toy.run(job);
        assert_eq!(toy.watched(), 1);
        task.deadline_passed();
        assert_eq!(toy.watched(), 0);
        let own = Arc::new(Mutex::new(None::<TaskRef>));
        let seen = Arc::clone(&own);
        let asks_itself = poll_fn(move |context| {
            context.waker().wake_by_ref();
            seen.lock().unwrap().as_ref().expect("it was put there").deadline_passed();
            assert!(crate::is_cancelled());
            Poll::<u32>::Pending
        });
        let (job, running) = job::future(toy.clone(), details(), asks_itself);
        *own.lock().unwrap() = job.to_watch();
        assert!(matches!(job.run(), Turn::Ended));
        for claim in [waiting, running] {
            assert!(matches!(claim.take(), Err(TaskError::TimedOut)));
        }
        drop((task, own, shelf));
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::TimedOut; 2], 0));
    }

    #[test]
    fn a_future_cancelled_while_it_runs_ends_when_it_next_waits() {
        let toy = Toy::new();
        let ticket = Arc::new(Mutex::new(None::<crate::ticket::Ticket<()>>));
        let own = Arc::clone(&ticket);
        let (job, claim) = toy.future(poll_fn(move |context| {
            context.waker().wake_by_ref();
            let answer = own.lock().unwrap().as_ref().map(crate::ticket::Ticket::cancel);
            assert_eq!(answer, Some(CancelAnswer::Requested));
            Poll::<()>::Pending
        }));
        *ticket.lock().unwrap() = Some(claim);
        assert!(matches!(job.run(), Turn::Ended));
        let ticket = ticket.lock().unwrap().take().unwrap();
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Cancelled], 0));
    }

    #[test]
    fn a_future_nobody_can_wake_is_ended_at_once() {
        let toy = Toy::new();
        let (job, ticket) = toy.future(std::future::pending::<()>());
        assert!(matches!(job.run(), Turn::Ended));
        assert!(matches!(ticket.wait(), Err(TaskError::Abandoned)));
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Cancelled], 0));
    }

    #[test]
    fn a_future_is_ended_by_a_worker_when_its_last_waker_goes() {
        for detached in [false, true] {
            let toy = Toy::new();
            let shelf = Shelf::default();
            let witness = Arc::new(());
            let (held, number) = (Arc::clone(&witness), shelf.clone().number());
            let (job, ticket) = toy.future(async move { (number.await, held).0 });
            toy.run(job);
            let ticket = Some(ticket).filter(|_| !detached);
            drop(shelf.waker());
            assert_eq!(Arc::strong_count(&witness), 2, "who drops a waker may hold locks the future needs");
            assert_eq!((toy.run_all(), Arc::strong_count(&witness)), (1, 1));
            if let Some(ticket) = ticket {
                assert!(matches!(ticket.wait(), Err(TaskError::Abandoned)));
            }
            assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Cancelled], 0));
        }
    }

    #[test]
    fn a_task_awaits_the_ticket_of_another() {
        let toy = Toy::new();
        let (first, ticket) = toy.closure(|| 20);
        let (second, total) = toy.future(async move { ticket.await.unwrap() + 1 });
        assert!(matches!(second.run(), Turn::Waits));
        assert_eq!(toy.queue_len(), 0);
        toy.run(first);
        assert_eq!(toy.run_all(), 1);
        assert_eq!(total.wait().unwrap(), 21);
        assert_eq!(toy.cells(), 0);
    }

    #[test]
    fn a_task_that_is_cancelled_while_it_awaits_another_is_forgotten_there() {
        let toy = Toy::new();
        let (first, ticket) = toy.closure(|| 20);
        let (second, total) = toy.future(async move { ticket.await.unwrap() + 1 });
        toy.run(second);
        assert_eq!(total.cancel(), CancelAnswer::Cancelled);
        drop(total);
        assert_eq!(toy.cells(), 1, "only the first task is left");
        toy.run(first);
        assert_eq!((toy.queue_len(), toy.cells()), (0, 0));
    }

    #[test]
    fn a_panic_in_a_future_is_carried_to_its_ticket() {
        let toy = Toy::new();
        let (job, ticket) = toy.future(async {
            yields(1).await;
            std::panic::resume_unwind(Box::new("wet"))
        });
        let ticket: crate::ticket::Ticket<()> = ticket;
        toy.run(job);
        toy.run_all();
        let Err(TaskError::Panicked(panic)) = ticket.wait() else { unreachable!("it panicked") };
        assert_eq!(panic.message(), Some("wet"));
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Panicked], 0));
    }
}
