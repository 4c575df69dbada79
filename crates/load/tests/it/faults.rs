//! Requests that get no answer, or not the one that was hoped for: each is counted as what it was.
//!
//! A report that calls a time-out an answer, or a refusal a fault, leads people to mend the wrong thing.

use crate::server::{Then, answer, serve};
use millpond_load::{Address, Arrivals, Measured, Plan, Request, run};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::unix::net::UnixListener;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

fn plan(address: SocketAddr, requests: u64) -> Plan {
    Plan {
        arrivals: Arrivals::Closed { clients: 2 },
        requests_max: Some(requests),
        duration: Duration::from_secs(60),
        timeout: Duration::from_secs(30),
        ..Plan::new(Address::Tcp(address))
    }
}

fn measure(plan: &Plan) -> Measured {
    let measured = run(plan, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((measured.begun, measured.under_way()), (plan.requests_max.unwrap(), 0), "{measured:?}");
    measured
}

/// A server without manners: what to do with a connection is up to the function.
fn rough(treat: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(|stream| treat(stream.unwrap())));
    address
}

/// A request that is larger than all the buffers on its way.
fn upload() -> Request {
    Request { method: "POST".into(), body: vec![b'x'; 16 << 20], ..Request::default() }
}

#[test]
fn refusals_and_errors_are_counted_by_their_status() {
    let (address, _) = serve(|asked, stream| match asked.number % 4 {
        0 => answer(stream, 503, "full"),
        1 => answer(stream, 404, "none"),
        _ => answer(stream, 200, "ok"),
    });
    let measured = measure(&plan(address, 40));
    let counts = [measured.accepted(), measured.refused(), measured.others()].map(|answers| answers.count);
    assert_eq!(counts, [20, 10, 10]);
    assert_eq!(measured.refused().body_bytes, Some((4, 4)));
    assert_eq!(measured.faults.count(), 0);
}

#[test]
fn a_silent_server_is_given_up_on() {
    let (address, _) = serve(|_, _| {
        thread::park();
        Ok(Then::Close)
    });
    let measured = measure(&Plan { timeout: Duration::from_millis(20), ..plan(address, 6) });
    assert_eq!((measured.faults.timeouts, measured.faults.count()), (6, 6));
}

#[test]
fn an_answer_that_is_cut_short_is_none() {
    let (address, _) = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
        Ok(Then::Close)
    });
    let measured = measure(&plan(address, 6));
    assert_eq!((measured.faults.cut_short, measured.faults.count(), measured.answered()), (6, 6, 0));
}

#[test]
fn a_server_that_slams_the_door_is_a_reset() {
    // Closing with bytes unread makes the system answer with a reset.
    let address = rough(|mut stream| drop(stream.read(&mut [0])));
    let measured = measure(&Plan { request: upload(), ..plan(address, 4) });
    assert_eq!((measured.faults.resets, measured.faults.count()), (4, 4), "{:?}", measured.faults);
}

#[test]
fn nobody_at_the_address_is_told_apart() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let measured = measure(&plan(address, 4));
    assert_eq!((measured.faults.unconnected, measured.faults.count()), (4, 4));
    assert!(measured.faults.first.as_ref().unwrap().contains("refused"), "{:?}", measured.faults);
}

#[test]
fn what_is_no_http_is_told_apart() {
    let address = rough(|mut stream| {
        // What is unread at the end would become a reset.
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9\r\n\r\n");
    });
    let measured = measure(&Plan { arrivals: Arrivals::Closed { clients: 1 }, ..plan(address, 3) });
    assert_eq!((measured.faults.garbled, measured.faults.count()), (3, 3), "{:?}", measured.faults);
}

const REFUSAL: &[u8] = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull";

#[test]
fn a_client_that_sends_all_first_sees_a_refusal_only_if_the_server_reads_on() {
    let staged = rough(|mut stream| {
        let _ = stream.write_all(REFUSAL).and_then(|()| stream.shutdown(Shutdown::Write));
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let patient = |address| Plan {
        request: upload(),
        reads_early: false,
        arrivals: Arrivals::Closed { clients: 1 },
        ..plan(address, 3)
    };
    assert_eq!(measure(&patient(staged)).refused().count, 3);
    let hasty = rough(|mut stream| drop(stream.write_all(REFUSAL)));
    let measured = measure(&patient(hasty));
    assert_eq!((measured.faults.resets, measured.answered()), (3, 0), "{:?}", measured.faults);
}

#[test]
fn an_answer_before_the_end_of_the_request_is_one_and_its_connection_is_not_used_again() {
    let held = Mutex::new(Vec::new());
    let address = rough(move |mut stream| {
        // Says that it would keep the connection, but never reads what was sent on it.
        let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        held.lock().unwrap().push(stream);
    });
    let arrivals = Arrivals::Closed { clients: 1 };
    let measured = measure(&Plan { request: upload(), arrivals, ..plan(address, 3) });
    assert_eq!((measured.refused().count, measured.connections), (3, 3), "{:?}", measured.faults);
}

#[test]
fn a_socket_in_the_file_system_is_a_server_too() {
    let folder = std::env::temp_dir().join(format!("millpond-load-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("door.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while let Ok(1..) = stream.read(&mut [0; 4096]) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        }
    });
    let arrivals = Arrivals::Closed { clients: 1 };
    let unused = ([127, 0, 0, 1], 1).into();
    let mut plan = Plan { address: Address::Unix(path), arrivals, ..plan(unused, 5) };
    let measured = measure(&plan);
    assert_eq!((measured.accepted().count, measured.connections), (5, 1));
    plan.address = Address::Unix(folder.join("none.sock"));
    assert_eq!(measure(&plan).faults.unconnected, 5);
    std::fs::remove_dir_all(&folder).unwrap();
}
