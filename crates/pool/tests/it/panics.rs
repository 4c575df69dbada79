//! Panics: of a closure, of a future, of a callback, of a destructor, of what another panic carried. A worker
//! survives.
//!
//! One panic that gets through costs a worker, and with one worker the pool. So every place where the user's code
//! runs or is dropped is made to panic here, and after each the same worker must run another task.

use crate::busy::{Busy, pool};
use crate::eventually::{eventually, promptly};
use millpond::{Pool, TaskError, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;

/// Panics whenever it is dropped, with another of its kind until it has none left.
struct Spiteful(u32);

impl Drop for Spiteful {
    fn drop(&mut self) {
        if self.0 > 0 && !thread::panicking() {
            resume_unwind(Box::new(Spiteful(self.0 - 1)));
        }
    }
}

/// Whether the pool still has its one worker.
fn assert_alive(pool: &Pool) {
    assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1);
    assert_eq!(pool.metrics().workers_running, 1);
}

fn panics<T>(payload: impl std::any::Any + Send) -> T {
    resume_unwind(Box::new(payload))
}

#[test]
fn a_panic_is_carried_to_the_ticket_and_counted() {
    promptly("the tickets are told", || {
        let pool = pool(1);
        let text = pool.submit(|| panics::<()>("plain")).unwrap().wait();
        let Err(TaskError::Panicked(panic)) = text else { panic!("expected a panic") };
        assert_eq!(panic.message(), Some("plain"));
        let formatted = pool.submit(|| panics::<()>(format!("{} of {}", 3, 7))).unwrap().wait();
        assert_eq!(formatted.unwrap_err().to_string(), "task panicked: 3 of 7");
        let number = pool.submit(|| panics::<()>(17_u32)).unwrap().wait();
        let Err(TaskError::Panicked(panic)) = number else { panic!("expected a panic") };
        assert_eq!((panic.message(), panic.to_string().as_str()), (None, "something that is no message"));
        assert_eq!(panic.into_payload().downcast_ref::<u32>(), Some(&17));
        assert_alive(&pool);
        assert_eq!((pool.metrics().panicked, pool.metrics().completed), (3, 1));
    });
}

#[test]
fn a_panic_can_be_raised_again_by_whoever_waits() {
    let pool = pool(1);
    let Err(TaskError::Panicked(panic)) = pool.submit(|| panics::<()>("carried on")).unwrap().wait() else {
        panic!("expected a panic")
    };
    let raised = catch_unwind(AssertUnwindSafe(|| panic.resume())).unwrap_err();
    assert_eq!(raised.downcast_ref(), Some(&"carried on"));
}

#[test]
fn a_spawned_closure_that_panics_is_counted_and_its_worker_lives_on() {
    let pool = pool(1);
    for _ in 0..100 {
        pool.spawn(|| panics("nobody listens")).unwrap();
    }
    assert_alive(&pool);
    assert_eq!(pool.metrics().panicked, 100);
}

#[test]
fn a_payload_that_panics_when_dropped_harms_nobody() {
    promptly("the worker lives on", || {
        let pool = pool(1);
        pool.spawn(|| panics(Spiteful(3))).unwrap();
        pool.spawn(|| panics(Spiteful(u32::MAX))).unwrap();
        assert_alive(&pool);
        drop(pool.submit(|| panics::<()>(Spiteful(3))).unwrap());
        assert_alive(&pool);
        let Err(TaskError::Panicked(panic)) = pool.submit(|| panics::<()>(Spiteful(3))).unwrap().wait()
        else {
            panic!("expected a panic")
        };
        drop(panic);
        drop(pool.spawn_async(async { panics::<()>(Spiteful(3)) }).unwrap());
        assert_alive(&pool);
        assert_eq!(pool.metrics().panicked, 5);
    });
}

#[test]
fn what_a_task_held_may_panic_when_it_is_dropped() {
    promptly("the worker lives on", || {
        let pool = pool(1);
        let held = Spiteful(2);
        pool.spawn(move || {
            let _held = &held;
        })
        .unwrap();
        assert_alive(&pool);
        assert_eq!(pool.metrics().panicked, 1, "a closure that panics at its end has panicked");
        let busy = Busy::one(&pool);
        let (first, second, third) = (Spiteful(2), Spiteful(2), Spiteful(2));
        let cancelled = pool.submit(move || drop(first)).unwrap();
        cancelled.cancel();
        pool.spawn(move || drop(second)).unwrap();
        let purged = pool.spawn_async(async move { drop(third) }).unwrap();
        pool.purge();
        assert!(matches!(cancelled.wait(), Err(TaskError::Cancelled)));
        assert!(matches!(purged.wait(), Err(TaskError::Cancelled)));
        busy.release();
        assert_alive(&pool);
        assert_eq!(pool.metrics().cancelled, 3);
    });
}

#[test]
fn a_result_that_nobody_wants_may_panic_when_it_is_dropped() {
    promptly("the worker lives on", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        drop(pool.submit(|| Spiteful(2)).unwrap());
        drop(pool.spawn_async(async { Spiteful(2) }).unwrap());
        busy.release();
        assert_alive(&pool);
        let kept = pool.submit(|| Spiteful(2)).unwrap();
        eventually("the task ended", || kept.is_done());
        drop(kept);
        assert_alive(&pool);
        assert_eq!((pool.metrics().panicked, pool.metrics().completed), (0, 6));
    });
}

#[test]
fn a_future_may_panic_when_it_is_dropped() {
    promptly("the worker lives on", || {
        let pool = pool(1);
        let (one, other) = (Spiteful(2), Spiteful(2));
        let ready = pool.spawn_async(async move {
            let _held = one;
            yield_now().await;
            std::future::poll_fn(|_| std::task::Poll::Ready(5)).await
        });
        // Its state is dropped inside the last poll, so that is a panic of the future itself.
        assert!(matches!(ready.unwrap().wait(), Err(TaskError::Panicked(_))));
        let abandoned = pool.spawn_async(async move {
            let _held = other;
            std::future::pending::<()>().await;
        });
        assert!(matches!(abandoned.unwrap().wait(), Err(TaskError::Abandoned)));
        assert_alive(&pool);
    });
}

#[test]
fn a_callback_may_panic() {
    promptly("the worker lives on", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let (told, tells) = mpsc::channel();
        pool.submit(|| 1).unwrap().on_done(move |_| {
            told.send(()).unwrap();
            panics(Spiteful(2))
        });
        busy.release();
        tells.recv().unwrap();
        assert_alive(&pool);
        let done = pool.submit(|| 1).unwrap();
        eventually("the task ended", || done.is_done());
        done.on_done(|_| panics("on the caller's thread"));
        assert_eq!(pool.metrics().panicked, 0, "the tasks themselves came to their end");
    });
}

#[test]
fn a_panic_prints_as_any_panic_does() {
    // `panic!` runs the process's hook, as it would on any thread; this one only shows that it is caught.
    let pool = pool(1);
    let result = pool.submit(|| -> u32 { "no number".parse().expect("a number") }).unwrap().wait();
    assert!(result.unwrap_err().to_string().starts_with("task panicked: a number: "));
    assert_alive(&pool);
}
