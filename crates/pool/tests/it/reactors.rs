//! Other people's timers, sockets and channels inside tasks: the pool polls, their reactor wakes.
//!
//! The pool brings no reactor of its own. async-io keeps one on a thread of its own, so it simply works; tokio's
//! need its runtime's handle, which a task enters when it makes them.

use crate::busy::{lone_worker, pool};
use crate::eventually::promptly;
use async_io::{Async, Timer};
use futures_util::StreamExt;
use millpond::{TaskError, TaskOptions, block_on};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const A_MOMENT: Duration = Duration::from_millis(2);

/// A tokio runtime on a thread of its own, until this is dropped.
struct Tokio {
    handle: tokio::runtime::Handle,
    end: Option<(tokio::sync::oneshot::Sender<()>, thread::JoinHandle<()>)>,
}

impl Tokio {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let handle = runtime.handle().clone();
        let (end, ends) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || drop(runtime.block_on(ends)));
        Self { handle, end: Some((end, thread)) }
    }
}

impl Drop for Tokio {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.end.take() {
            let _ = end.send(());
            thread.join().unwrap();
        }
    }
}

#[test]
fn async_io_timers_work_inside_tasks() {
    promptly("the timers fire", || {
        let pool = lone_worker(16);
        let start = Instant::now();
        let tickets: Vec<_> = (0..100)
            .map(|number| {
                let future = async move {
                    Timer::after(A_MOMENT).await;
                    number
                };
                pool.spawn_async(future).unwrap()
            })
            .collect();
        assert!(tickets.into_iter().enumerate().all(|(number, ticket)| ticket.wait().unwrap() == number));
        assert!(start.elapsed() >= A_MOMENT);
    });
}

#[test]
fn async_io_sockets_work_inside_tasks() {
    promptly("the bytes come through", || {
        let pool = lone_worker(16);
        let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).unwrap();
        let address = listener.get_ref().local_addr().unwrap();
        let serves = pool.spawn_async(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut byte = [0];
            stream.read_with(|mut stream| std::io::Read::read_exact(&mut stream, &mut byte)).await.unwrap();
            byte[0] += 1;
            stream.write_with(|mut stream| std::io::Write::write_all(&mut stream, &byte)).await.unwrap();
        });
        let asks = pool.spawn_async(async move {
            let stream = Async::<TcpStream>::connect(address).await.unwrap();
            stream.write_with(|mut stream| std::io::Write::write_all(&mut stream, &[41])).await.unwrap();
            let mut byte = [0];
            stream.read_with(|mut stream| std::io::Read::read_exact(&mut stream, &mut byte)).await.unwrap();
            byte[0]
        });
        assert_eq!(asks.unwrap().wait().unwrap(), 42);
        serves.unwrap().wait().unwrap();
    });
}

#[test]
fn a_deadline_ends_a_future_that_waits_for_a_timer() {
    promptly("the deadline passes", || {
        let pool = pool(1);
        let options = TaskOptions { timeout: Some(Duration::from_millis(20)), ..TaskOptions::default() };
        let hour = pool.with(&options).spawn_async(Timer::after(Duration::from_secs(3600)));
        assert!(matches!(hour.unwrap().wait(), Err(TaskError::TimedOut | TaskError::Expired)));
    });
}

#[test]
fn tokio_timers_work_inside_tasks_that_enter_its_handle() {
    promptly("the timers fire", || {
        let (pool, tokio) = (lone_worker(16), Tokio::start());
        let tickets: Vec<_> = (0..100)
            .map(|number| {
                let handle = tokio.handle.clone();
                let future = async move {
                    let sleep = {
                        let _entered = handle.enter();
                        tokio::time::sleep(A_MOMENT)
                    };
                    sleep.await;
                    number
                };
                pool.spawn_async(future).unwrap()
            })
            .collect();
        assert!(tickets.into_iter().enumerate().all(|(number, ticket)| ticket.wait().unwrap() == number));
    });
}

#[test]
fn tasks_of_tokio_and_of_the_pool_wait_for_each_other() {
    promptly("both end", || {
        let (pool, tokio) = (Arc::new(pool(1)), Tokio::start());
        let (handle, inner) = (tokio.handle.clone(), pool.handle());
        let there_and_back = pool.spawn_async(async move {
            let on_tokio = handle.spawn(async move {
                tokio::time::sleep(A_MOMENT).await;
                // A ticket is a future there as well.
                inner.submit(|| 20).unwrap().await.unwrap() + 1
            });
            on_tokio.await.unwrap() * 2
        });
        assert_eq!(there_and_back.unwrap().wait().unwrap(), 42);
    });
}

#[test]
fn channels_of_tokio_and_of_futures_carry_values_between_tasks() {
    promptly("all values come through", || {
        let pool = pool(2);
        let (sent, mut receives) = tokio::sync::mpsc::channel::<u64>(1);
        let receiver = pool.spawn_async(async move {
            let mut sum = 0;
            while let Some(number) = receives.recv().await {
                sum += number;
            }
            sum
        });
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let sent = sent.clone();
                let future = async move {
                    for number in 1..=500 {
                        sent.send(number).await.unwrap();
                    }
                };
                pool.spawn_async(future).unwrap()
            })
            .collect();
        drop(sent);
        assert_eq!(receiver.unwrap().wait().unwrap(), 4 * 125_250);
        senders.into_iter().for_each(|sender| sender.wait().unwrap());
    });
}

#[test]
fn tickets_are_gathered_by_the_combinators_of_futures() {
    promptly("all results come", || {
        let pool = pool(2);
        let tickets = (0..100).map(|number| pool.submit(move || number).unwrap());
        let mut gathered: futures_util::stream::FuturesUnordered<_> = tickets.collect();
        let sum = block_on(async {
            let mut sum = 0;
            while let Some(result) = gathered.next().await {
                sum += result.unwrap();
            }
            sum
        });
        assert_eq!(sum, 4950);
    });
}
