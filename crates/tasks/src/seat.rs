//! Which worker this thread is.
//!
//! The pool gives a thread its seat for life and writes the number at the end of the thread's name, so it is
//! read once for each thread and then known. A thread that is no worker has none.

use std::cell::Cell;
use std::thread;

thread_local! {
    /// Not looked up yet, or what was found.
    static SEAT: Cell<Option<Option<usize>>> = const { Cell::new(None) };
}

/// The number of the worker that runs this; none if the thread is not a worker's.
pub(crate) fn of_this_thread() -> Option<usize> {
    SEAT.get().unwrap_or_else(|| {
        let seat = thread::current().name().and_then(of_name);
        SEAT.set(Some(seat));
        seat
    })
}

fn of_name(name: &str) -> Option<usize> {
    name.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::{Hook, Pool, PoolConfig};
    use std::sync::mpsc;

    #[test]
    fn a_worker_knows_the_number_that_the_pool_gives_it() {
        let (say, told) = mpsc::channel();
        let on_start = Hook::new(move |worker| {
            // Nobody listens to those that start after the test.
            let _ = say.send((Some(worker), of_this_thread()));
        });
        let config = PoolConfig { workers: 3, on_start: Some(on_start), ..PoolConfig::default() };
        let pool = Pool::start(config).unwrap();
        for (given, known) in told.iter().take(3) {
            assert_eq!(given, known);
        }
        drop(pool);
        assert_eq!(of_name("millpond-timer"), None);
        assert_eq!(of_name("main"), None);
    }
}
