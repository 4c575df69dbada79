//! Closed loop, open loop and burst: who asks when, on which connection, and from when on time is counted.
//!
//! A generator that measures from the wrong moment, or lets a slow server slow it down, flatters every server.

use crate::server::{Then, answer, serve};
use millpond_load::{Address, Arrivals, Measured, Plan, Request, run};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

fn plan(address: SocketAddr, arrivals: Arrivals) -> Plan {
    // Long enough for every test; what ends a run is the number of its requests.
    let (duration, timeout) = (Duration::from_secs(60), Duration::from_secs(30));
    Plan { arrivals, duration, timeout, ..Plan::new(Address::Tcp(address)) }
}

fn measure(plan: &Plan) -> Measured {
    run(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_closed_loop_keeps_its_connections_and_counts_every_answer() {
    let (address, seen) = serve(|_, stream| answer(stream, 200, "fine"));
    let plan = Plan { requests_max: Some(500), ..plan(address, Arrivals::Closed { clients: 10 }) };
    let measured = measure(&plan);
    assert_eq!((measured.begun, measured.accepted().count, measured.faults.count()), (500, 500, 0));
    assert_eq!(measured.accepted().body_bytes, Some((4, 4)));
    assert_eq!((seen.requests.load(SeqCst), seen.connections.load(SeqCst)), (500, 10));
    assert_eq!(measured.connections, 10);
}

#[test]
fn without_keep_alive_every_request_has_its_own_connection() {
    let (address, seen) = serve(|asked, stream| {
        let says_so = asked.head.contains("Connection: close\r\n");
        answer(stream, if says_so { 200 } else { 500 }, "")
    });
    let arrivals = Arrivals::Closed { clients: 5 };
    let plan = Plan { requests_max: Some(100), keep_alive: false, ..plan(address, arrivals) };
    let measured = measure(&plan);
    assert_eq!((measured.accepted().count, measured.connections), (100, 100));
    assert_eq!(seen.connections.load(SeqCst), 100);
}

#[test]
fn all_clients_of_a_closed_loop_ask_at_once() {
    let everybody = Barrier::new(8);
    let (address, _) = serve(move |_, stream| {
        everybody.wait();
        answer(stream, 200, "")
    });
    let plan = Plan { requests_max: Some(16), ..plan(address, Arrivals::Closed { clients: 8 }) };
    assert_eq!(measure(&plan).accepted().count, 16);
}

#[test]
fn a_burst_is_everybody_at_once_and_once() {
    let everybody = Barrier::new(40);
    let (address, seen) = serve(move |_, stream| {
        everybody.wait();
        answer(stream, 200, "")
    });
    assert_eq!(measure(&plan(address, Arrivals::Burst { clients: 40 })).accepted().count, 40);
    assert_eq!((seen.requests.load(SeqCst), seen.connections.load(SeqCst)), (40, 40));
}

#[test]
fn an_open_loop_makes_the_requests_that_were_due_in_its_time() {
    let (address, seen) = serve(|_, stream| answer(stream, 200, ""));
    let arrivals = Arrivals::Open { per_second: 1000.0, connections_max: 50 };
    let plan = Plan { duration: Duration::from_millis(200), ..plan(address, arrivals) };
    let measured = measure(&plan);
    assert_eq!((measured.begun, measured.accepted().count), (200, 200));
    assert!(seen.connections.load(SeqCst) <= 50);
}

#[test]
fn a_stall_is_charged_to_every_request_that_was_due_meanwhile() {
    const STALL: Duration = Duration::from_millis(300);
    let (address, _) = serve(|asked, stream| {
        if asked.number == 0 {
            thread::sleep(STALL);
        }
        answer(stream, 200, "")
    });
    // With one connection the others can only be sent after the stall; the last was due after 19 ms.
    let arrivals = Arrivals::Open { per_second: 1000.0, connections_max: 1 };
    let plan = Plan { requests_max: Some(20), ..plan(address, arrivals) };
    let measured = measure(&plan);
    assert_eq!(measured.accepted().count, 20);
    let quickest = measured.accepted().times.min().unwrap();
    assert!(quickest >= (STALL - Duration::from_millis(19)).as_nanos() as u64, "{quickest} ns");
    assert_eq!(measured.connections, 1);
}

#[test]
fn requests_that_wait_too_long_for_a_connection_are_given_up() {
    let (address, _) = serve(|_, _| {
        // Never answers, and holds the connection until the test ends.
        thread::park();
        Ok(Then::Close)
    });
    // All are due within a moment, two are sent, and the time of the others is over with theirs.
    let arrivals = Arrivals::Open { per_second: 1e6, connections_max: 2 };
    let timeout = Duration::from_millis(50);
    let plan = Plan { requests_max: Some(60), timeout, ..plan(address, arrivals) };
    let measured = measure(&plan);
    assert_eq!((measured.begun, measured.faults.timeouts, measured.under_way()), (60, 60, 0));
}

#[test]
fn a_run_ends_with_its_time_and_waits_for_what_is_under_way() {
    let (address, seen) = serve(|_, stream| answer(stream, 200, ""));
    let arrivals = Arrivals::Closed { clients: 3 };
    let plan = Plan { duration: Duration::from_millis(30), ..plan(address, arrivals) };
    let measured = measure(&plan);
    assert_eq!(measured.under_way(), 0);
    assert_eq!(measured.accepted().count as usize, seen.requests.load(SeqCst));
}

#[test]
fn whoever_watches_may_end_a_run_that_hangs() {
    let (address, _) = serve(|_, _| {
        thread::park();
        Ok(Then::Close)
    });
    let plan = plan(address, Arrivals::Closed { clients: 3 });
    let measured = run(&plan, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((measured.begun, measured.under_way()), (3, 3));
}

#[test]
fn what_is_asked_reaches_the_server_as_it_was_written() {
    let (address, _) = serve(|asked, stream| {
        let as_asked = asked.line == "POST /v1/exec?a=b HTTP/1.1"
            && asked.head.starts_with("Host: mill.example\r\nX-One: 1\r\n")
            && asked.body == b"{\"a\":1}";
        answer(stream, if as_asked { 200 } else { 400 }, "")
    });
    let request = Request {
        method: "POST".into(),
        path: "/v1/exec?a=b".into(),
        host: "mill.example".into(),
        headers: vec![("X-One".into(), "1".into())],
        body: b"{\"a\":1}".to_vec(),
    };
    let plan = Plan { request, requests_max: Some(2), ..plan(address, Arrivals::Closed { clients: 1 }) };
    assert_eq!(measure(&plan).accepted().count, 2);
}
