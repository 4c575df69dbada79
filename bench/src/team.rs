//! Threads that start as one, and the time from the first step of the first to the last step of the last.
//!
//! The threads exist before the clock runs and meet at a barrier that spins and yields: a sleeping barrier wakes
//! its threads tens of microseconds apart, as long as a thousand items take. The team is waited for with a
//! deadline, since a queue that loses a wake-up would otherwise hang the bench; its threads then end with the process.
//!
//! Not here: what the threads do (`groups/`).

use crate::cores;
use crossbeam_utils::Backoff;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A round that takes longer than this has lost an item or a wake-up; the slowest peers need a second.
const DEADLINE: Duration = Duration::from_secs(30);

/// What one thread does, from the barrier on.
pub(crate) type Work<R> = Box<dyn FnOnce() -> R + Send>;

/// Runs every work on a thread of its own; gives the time from the first start to the last end, and the results.
///
/// With `pinned`, thread after thread is bound to core after core.
pub(crate) fn run<R: Send + 'static>(
    works: Vec<Work<R>>,
    pinned: bool,
) -> Result<(Duration, Vec<R>), String> {
    let size = works.len();
    let arrived = Arc::new(AtomicUsize::new(0));
    let (reports, inbox) = mpsc::channel();
    for (index, work) in works.into_iter().enumerate() {
        let (arrived, reports) = (Arc::clone(&arrived), reports.clone());
        thread::spawn(move || {
            if pinned {
                cores::bind(index);
            }
            arrived.fetch_add(1, Ordering::AcqRel);
            let backoff = Backoff::new();
            while arrived.load(Ordering::Acquire) < size {
                backoff.snooze();
            }
            let start = Instant::now();
            let result = work();
            let end = Instant::now();
            // The receiver is gone only if the team is already being reported as late.
            let _ = reports.send((start, end, result));
        });
    }
    drop(reports);
    collect(&inbox, size, Instant::now() + DEADLINE)
}

fn collect<R>(
    inbox: &mpsc::Receiver<(Instant, Instant, R)>,
    size: usize,
    deadline: Instant,
) -> Result<(Duration, Vec<R>), String> {
    let mut results = Vec::with_capacity(size);
    let mut span: Option<(Instant, Instant)> = None;
    while results.len() < size {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((start, end, result)) => {
                span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
                results.push(result);
            }
            Err(RecvTimeoutError::Timeout) => {
                let late = size - results.len();
                return Err(format!(
                    "{late} of {size} threads still wait after {DEADLINE:?}: a wake-up was lost"
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err("a thread panicked; its message stands above".to_owned());
            }
        }
    }
    let (first, last) = span.ok_or("a team needs at least one thread")?;
    Ok((last - first, results))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_gives_every_result_and_the_time_of_its_slowest() {
        let pause = Duration::from_millis(5);
        let works: Vec<Work<u32>> = vec![
            Box::new(|| 1),
            Box::new(move || {
                thread::sleep(pause);
                2
            }),
        ];
        let (elapsed, mut results) = run(works, true).unwrap();
        results.sort_unstable();
        assert_eq!(results, [1, 2]);
        assert!(elapsed >= pause);
    }

    #[test]
    fn a_thread_that_never_ends_is_reported_and_not_waited_for() {
        let (sender, inbox) = mpsc::channel::<(Instant, Instant, ())>();
        let message = collect(&inbox, 2, Instant::now()).unwrap_err();
        assert!(message.starts_with("2 of 2 threads still wait"), "{message}");
        drop(sender);
        assert!(collect(&inbox, 2, Instant::now() + DEADLINE).unwrap_err().contains("panicked"));
    }
}
