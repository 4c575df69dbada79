//! Clients of every bad kind at once, and then the door is as it was: no place is lost, nobody is forgotten.
//!
//! Each client does something at random: asks, asks and leaves, sends half a head, garbage or a large body,
//! pipelines, waits, or says nothing. `MILLPOND_STRESS_SECONDS` makes the storm last, `MILLPOND_SEED` repeats it.

use crate::http::{Connection, SOON};
use crate::start::{Daemon, ECHO, JSON, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const PLACES: usize = 4;
const CLIENTS: u64 = 16;

#[test]
fn after_a_storm_every_place_is_free_again() {
    let seconds =
        std::env::var("MILLPOND_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let seed =
        std::env::var("MILLPOND_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(new_seed);
    println!("MILLPOND_SEED={seed}");
    let daemon = Daemon::with(|web, service| {
        web.in_flight_max = PLACES;
        web.queue_capacity = 4;
        web.connections_max = 64;
        web.workers = Some(2);
        web.queue_timeout = Duration::from_millis(50);
        web.queue_target = Some(Duration::from_millis(2));
        web.head_timeout = Duration::from_millis(50);
        web.idle_timeout = Duration::from_millis(100);
        web.refused_max = 8;
        service.pool.workers = 2;
    });
    let until_then = Instant::now() + Duration::from_secs_f64(seconds);
    let address = daemon.address();
    let served: u64 = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || misbehave(address, Random(seed ^ (number << 32)), until_then)))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(served > 0, "somebody was served");
    // As many as there are places, all at once, and nobody waits: none of them was lost.
    until("all have left", || daemon.get("/metrics").text().contains("millpond_http_in_flight 0\n"));
    let mut open: Vec<Connection> = (0..PLACES).map(|_| daemon.connect()).collect();
    for connection in &mut open {
        connection.ask("POST /v1/exec", &[JSON], Some(r#"{"handler":"hold"}"#));
    }
    let held: Vec<_> = (0..PLACES).map(|_| daemon.call()).collect();
    for call in held {
        call.finish(Ok(crate::start::raw(&serde_json::json!(1))));
    }
    for connection in &mut open {
        assert_eq!(connection.answer().status, 200);
    }
    daemon.end();
}

/// Does one thing after the other. Says how often it was served.
fn misbehave(address: SocketAddr, mut random: Random, until: Instant) -> u64 {
    let mut served = 0;
    while Instant::now() < until {
        // The system may have no room for a moment.
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        stream.set_read_timeout(Some(SOON)).unwrap();
        let exec = |length: usize| {
            format!("POST /v1/exec HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: {length}\r\n\r\n")
        };
        let whole = exec(ECHO.len()) + ECHO;
        // The door may close at any time, so nothing that is written needs to arrive.
        match random.below(9) {
            0 | 1 => {
                let _ = stream.write_all(whole.as_bytes());
                served += u64::from(reads_200(&mut stream));
            }
            2 => drop(stream.write_all(whole.as_bytes())),
            3 => {
                let some = random.below(whole.len() as u64) as usize;
                let _ = stream.write_all(&whole.as_bytes()[..some]);
                thread::sleep(Duration::from_millis(random.below(80)));
            }
            4 => {
                let _ = stream.write_all(b"\0\x01nonsense\r\n\r\n");
                reads_200(&mut stream);
            }
            5 => {
                let length = 1 << (10 + random.below(11));
                let _ = stream.write_all((exec(length) + &" ".repeat(length)).as_bytes());
                reads_200(&mut stream);
            }
            6 => {
                let count = 1 + random.below(20) as usize;
                let _ = stream.write_all(whole.repeat(count).as_bytes());
                served += u64::from(reads_200(&mut stream));
            }
            7 => {
                let wait = "{\"handler\":\"echo\",\"delay_ms\":5}";
                let _ = stream.write_all((exec(wait.len()) + wait).as_bytes());
                reads_200(&mut stream);
            }
            _ => thread::sleep(Duration::from_millis(random.below(5))),
        }
    }
    served
}

/// Reads what comes first, and says whether it is a success.
fn reads_200(stream: &mut TcpStream) -> bool {
    let mut start = [0; 12];
    stream.read_exact(&mut start).is_ok() && &start == b"HTTP/1.1 200"
}

fn new_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// Numbers that are random enough, by the steps of SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
