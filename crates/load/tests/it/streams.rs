//! Readers of events: each hears what the server sends, and one that is turned away is counted.
//!
//! Readers are part of the load: a server that answers requests and starves its streams is not well.

use crate::server::{Then, answer, serve};
use millpond_load::{Address, Arrivals, Plan, Readers, Request, run};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

fn readers(path: &str, count: usize) -> Option<Readers> {
    Some(Readers { count, request: Request { path: path.into(), ..Request::default() } })
}

#[test]
fn every_reader_hears_every_event_while_the_load_runs() {
    let (address, _) = serve(|asked, stream| {
        if !asked.line.contains("/events") {
            return answer(stream, 200, "");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        stream.write_all(b"3\r\n:\n\n\r\n")?;
        for _ in 0..5 {
            stream.write_all(b"14\r\nevent: tick\ndata: 1\n\r\n1\r\n\n\r\n")?;
        }
        thread::park();
        Ok(Then::Close)
    });
    let plan = Plan {
        arrivals: Arrivals::Closed { clients: 1 },
        duration: Duration::from_secs(60),
        readers: readers("/events", 3),
        ..Plan::new(Address::Tcp(address))
    };
    let mut heard_all = |measured: &millpond_load::Measured| match measured.streams.events {
        15 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let measured = run(&plan, &mut heard_all).unwrap();
    let streams = &measured.streams;
    assert_eq!((streams.begun, streams.open, streams.failed, streams.ended), (3, 3, 0, 0));
    assert_eq!((streams.events, streams.heartbeats, streams.bytes), (15, 3, 3 * (3 + 5 * 21)));
    assert!(measured.accepted().count > 0);
}

#[test]
fn a_reader_that_is_turned_away_or_left_is_counted_and_comes_again() {
    let asked_for = AtomicUsize::new(0);
    let (address, _) = serve(move |asked, stream| match asked.line.contains("/events") {
        false => answer(stream, 200, ""),
        true if asked_for.fetch_add(1, SeqCst) == 0 => answer(stream, 404, "no such stream"),
        true => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ndata: 1\n")?;
            Ok(Then::Close)
        }
    });
    let plan = Plan {
        // One request, and the next after a quarter of an hour: the run is there for its reader.
        arrivals: Arrivals::Open { per_second: 0.001, connections_max: 1 },
        duration: Duration::from_secs(2000),
        readers: readers("/events", 1),
        ..Plan::new(Address::Tcp(address))
    };
    let mut twice =
        |measured: &millpond_load::Measured| match measured.streams.failed + measured.streams.ended {
            2.. => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
    let streams = run(&plan, &mut twice).unwrap().streams;
    assert_eq!(streams.failed, 1, "{streams:?}");
    assert!(streams.ended >= 1, "{streams:?}");
    assert_eq!(streams.begun, streams.ended + streams.open);
}
