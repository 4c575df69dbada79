//! Waiting on a worker's thread without holding up the pool, and the small things async tasks need.
//!
//! Not here: who stands in for a worker that waits (`crew.rs`).

use crate::current;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Runs `wait`, which may wait for something: a file, a lock, another process. On a worker another stands in for it
/// meanwhile, up to [`workers_max`](crate::PoolConfig::workers_max); elsewhere it is a plain call.
///
/// ```
/// let pool = millpond::Pool::start(millpond::PoolConfig { workers: 1, ..Default::default() })?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let waits = pool.submit(move || millpond::blocking(|| receiver.recv().expect("the other task sends")))?;
/// pool.spawn(move || sender.send(7).expect("the first task listens"))?;
/// assert_eq!(waits.wait()?, 7, "with one worker, and yet both ran");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn blocking<R>(wait: impl FnOnce() -> R) -> R {
    current::stand_still(wait)
}

/// Runs a future on this thread until it is ready, sleeping while it waits. On a worker another stands in for it.
///
/// ```
/// assert_eq!(millpond::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let bell = Arc::new(Bell { thread: thread::current(), rung: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !bell.rung.swap(false, Ordering::Acquire) {
            current::wait_once(true, |at_most| match at_most {
                None => thread::park(),
                Some(at_most) => thread::park_timeout(at_most),
            });
        }
    }
}

/// Wakes the thread that blocks on a future.
struct Bell {
    thread: Thread,
    /// What the waker did before is seen by the thread that it wakes.
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Lets other tasks of this worker run before the calling one goes on. A future that merely wakes itself may be polled
/// a few times more before others come to their turn.
///
/// ```
/// # millpond::block_on(async {
/// for _chunk in 0..3 {
///     // … work for a while, then
///     millpond::yield_now().await;
/// }
/// # });
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        crate::token::note_giving_way();
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
