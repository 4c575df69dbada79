//! Everything is bounded, and at every bound somebody is told: large bodies, a full pool, a full table, a drain.
//!
//! What is refused is refused in words that say what to do, and what was accepted is answered all the same.

use crate::house::{House, LONG, door_settings, request, until};
use millpond::PoolConfig;
use millpond_shm::{AttachError, Client, ClientError, ClientSettings, Plan};
use millpond_tasks::{ErrorCode, ServiceConfig};
use std::time::Duration;

#[test]
fn large_requests_and_results_pass_and_larger_ones_are_refused_in_words() {
    let house = House::build();
    let client = house.client();
    for bytes in [100, 200, 10_000, 60_000] {
        let args = format!("{{\"text\":\"{}\"}}", "y".repeat(bytes));
        for handler in ["echo", "slow_echo"] {
            let number = client.submit_timeout(&request(handler, &args), LONG).unwrap();
            let reply = client.wait(number, LONG).unwrap().unwrap();
            assert!(reply.status == 0 && reply.body == args.as_bytes(), "{bytes} bytes, {}", reply.status);
        }
    }
    let plan = Plan { arena_bytes: 1 << 16, ..Plan::default() };
    let small = house.client_with(ClientSettings { plan, ..ClientSettings::default() });
    let refused = small.try_submit(&request("echo", &format!("{{\"text\":\"{}\"}}", "y".repeat(1 << 16))));
    assert_eq!(refused, Err(ClientError::TooLarge { bytes_max: 1 << 16 }));
    let number = small.try_submit(&request("large", "{\"bytes\":100000}")).unwrap();
    let reply = small.wait(number, LONG).unwrap().unwrap();
    assert_eq!(reply.status, ErrorCode::TooLarge.number());
    assert!(String::from_utf8(reply.body).unwrap().contains("arena_bytes"));
}

#[test]
fn a_full_pool_holds_tasks_back_and_loses_none() {
    let pool = PoolConfig { workers: 1, queue_capacity: 4, ..PoolConfig::default() };
    let house = House::with(ServiceConfig { pool, ..ServiceConfig::default() }, door_settings());
    let client = house.client();
    const COUNT: usize = 5000;
    let sender = client.clone();
    let sending = std::thread::spawn(move || {
        for at in 0..COUNT {
            sender.submit_timeout(&request("slow_echo", &format!("{{\"at\":{at}}}")), LONG).unwrap();
        }
    });
    let mut seen = vec![false; COUNT];
    for _ in 0..COUNT {
        let reply = client.next_ended(LONG).unwrap();
        assert_eq!(reply.status, 0, "{}", String::from_utf8_lossy(&reply.body));
        let args: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let at = args["at"].as_u64().unwrap() as usize;
        assert!(!std::mem::replace(&mut seen[at], true), "task {at} was answered twice");
    }
    sending.join().unwrap();
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_program_that_never_reads_is_refused_in_the_end_and_others_are_served() {
    let house = House::build();
    let settings = ClientSettings {
        plan: Plan { slots: 64, ..Plan::default() },
        in_flight_max: 1_000_000,
        ..ClientSettings::default()
    };
    let (lazy, busy) = (house.client_with(settings), house.client());
    let mut sent = 0;
    while lazy.try_submit(&request("echo", "{}")).is_ok() || sent < 2 * 64 {
        sent += 1;
        assert!(sent < 1_000_000, "nothing ever says no");
        let number = busy.submit_timeout(&request("echo", "{}"), LONG).unwrap();
        assert_eq!(busy.wait(number, LONG).unwrap().unwrap().status, 0);
    }
    let mut got = 0;
    while lazy.in_flight() > 0 {
        lazy.next_ended(LONG).unwrap();
        got += 1;
    }
    assert!(got >= 128, "{got}");
}

#[test]
fn too_many_outstanding_tasks_are_refused_by_the_client() {
    let house = House::build();
    let client = house.client_with(ClientSettings { in_flight_max: 3, ..ClientSettings::default() });
    let numbers: Vec<u64> = (0..3).map(|_| client.try_submit(&request("echo", "{}")).unwrap()).collect();
    assert_eq!(client.try_submit(&request("echo", "{}")), Err(ClientError::Full));
    let late = client.submit_timeout(&request("echo", "{}"), Duration::from_millis(5));
    assert_eq!(late, Err(ClientError::Full));
    client.wait(numbers[0], LONG).unwrap().unwrap();
    assert!(client.try_submit(&request("echo", "{}")).is_ok());
}

#[test]
fn too_many_programs_are_sent_away_in_words() {
    let mut settings = door_settings();
    settings.clients_max = 2;
    let house = House::with(ServiceConfig::default(), settings);
    let both = (house.client(), house.client());
    match Client::attach(&house.name()) {
        Err(AttachError::Refused(words)) => assert!(words.contains("clients_max"), "{words}"),
        other => panic!("{other:?}"),
    }
    drop(both);
    until("there is a place again", || Client::attach(&house.name()).is_ok());
}

#[test]
fn too_much_memory_is_refused_in_words() {
    let mut settings = door_settings();
    settings.region_bytes_max = 1 << 20;
    let house = House::with(ServiceConfig::default(), settings);
    match Client::attach(&house.name()) {
        Err(AttachError::Refused(words)) => assert!(words.contains("region_bytes_max"), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_drain_answers_what_was_sent_before_and_refuses_the_rest() {
    let house = House::build();
    let client = house.client();
    let numbers: Vec<u64> =
        (0..500).map(|_| client.submit_timeout(&request("slow_echo", "{}"), LONG).unwrap()).collect();
    house.door.as_ref().unwrap().drain(LONG);
    assert_eq!(client.try_submit(&request("echo", "{}")), Err(ClientError::Draining));
    assert_eq!(house.service.as_ref().unwrap().drain(LONG).left, 0);
    for number in numbers {
        let reply = client.wait(number, LONG).unwrap().unwrap();
        assert_eq!(reply.status, 0, "{}", String::from_utf8_lossy(&reply.body));
    }
}

#[test]
fn nobody_to_attach_to_is_said_with_the_place_and_what_to_do() {
    let nowhere = crate::house::directory("nowhere");
    let error = Client::attach(nowhere.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("memory.sock") && error.contains("millpond serve"), "{error}");
    let error = Client::attach("No Such Name").unwrap_err().to_string();
    assert!(!error.is_empty());
}
