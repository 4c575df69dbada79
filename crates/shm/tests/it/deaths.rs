//! Daemons and programs are killed with SIGKILL at random moments, and the books must balance afterwards.
//!
//! A daemon that dies: every task the program handed in is answered exactly once, by this daemon, by the next, or with
//! `daemon-died`; no task runs twice, and one that was answered with a result ran once. A program that dies: what it
//! had handed in still runs, and nothing of it is left in the daemon.
//!
//! `MILLPOND_KILLS` sets how many of each are killed, `MILLPOND_SEED` repeats the random choices of an earlier run,
//! though not its timing.

use crate::house::{House, LONG, directory, door_settings, registry, request, until};
use millpond_shm::{Client, ClientError, ClientSettings, MEMORY_SOCKET_NAME, MemoryDoor};
use millpond_tasks::{ErrorCode, Log, Service, ServiceConfig, Symbols, function, quick};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, thread};

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}: expected a whole number, got {text:?}"))
    })
}

struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = number("MILLPOND_SEED", u64::from(std::process::id()));
        println!("MILLPOND_SEED={seed}");
        Self(seed | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// This very program again, for one of the parts below.
fn play(part: &str, directory: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("deaths::{part}"), "--nocapture"]);
    command.env("MILLPOND_PART", directory).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

fn part() -> Option<PathBuf> {
    let directory = env::var_os("MILLPOND_PART").map(PathBuf::from)?;
    // Nobody outlives the test, however it ends.
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(Duration::from_millis(50));
        }
        std::process::exit(1);
    });
    Some(directory)
}

/// Puts one line into the book in one step, so that no kill can cut it.
fn note(book: &File, args: &RawValue) {
    let line = format!("{}\n", args.get());
    assert_eq!((&*book).write(line.as_bytes()).unwrap(), line.len());
}

/// Not a test: the daemon that is killed. Without an order it does nothing.
#[test]
fn the_daemon_of_the_other_tests() {
    let Some(directory) = part() else { return };
    let open = || OpenOptions::new().append(true).create(true).open(directory.join("book")).unwrap();
    let mut registry = registry();
    let (one, other) = (open(), open());
    let quickly = move |args: &RawValue, out: &mut Vec<u8>| {
        note(&one, args);
        out.extend_from_slice(args.get().as_bytes());
        Ok(())
    };
    registry.add("note_quickly", quick(quickly)).unwrap();
    let slowly = move |call: &millpond_tasks::Call| {
        note(&other, call.args());
        Ok(call.args().to_owned())
    };
    registry.add("note", function(slowly)).unwrap();
    let service = Service::start(ServiceConfig::default(), registry, Symbols::new()).unwrap();
    let path = directory.join(MEMORY_SOCKET_NAME);
    let _door = MemoryDoor::open(&path, door_settings(), service.handle(), Log::silent()).unwrap();
    loop {
        thread::park();
    }
}

#[test]
fn daemons_are_killed_and_every_task_is_answered_once() {
    let kills = number("MILLPOND_KILLS", 40);
    let mut random = Random::new();
    let directory = directory("daemons");
    DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let mut daemon = play("the_daemon_of_the_other_tests", &directory);
    let settings = ClientSettings { reconnect_timeout: LONG, ..ClientSettings::default() };
    let mut client = None;
    until("the daemon is there", || {
        client = Client::attach_with(directory.to_str().unwrap(), settings.clone()).ok();
        client.is_some()
    });
    let client = client.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let replies: Arc<Mutex<HashMap<u64, i32>>> = Arc::default();
    let sending = thread::spawn({
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        move || send_until(&client, &is_over)
    });
    let reading = thread::spawn({
        let (client, is_over, replies) = (client.clone(), Arc::clone(&is_over), Arc::clone(&replies));
        move || {
            while !is_over.load(SeqCst) || client.in_flight() > 0 {
                let Some(reply) = client.next_ended(Duration::from_millis(50)) else { continue };
                if reply.status == 0 {
                    let expected = format!("{{\"number\":{}}}", reply.number);
                    assert_eq!(String::from_utf8(reply.body).unwrap(), expected);
                }
                let earlier = replies.lock().unwrap().insert(reply.number, reply.status);
                assert_eq!(earlier, None, "task {} was answered twice", reply.number);
            }
        }
    });
    for _ in 0..kills {
        thread::sleep(Duration::from_micros(random.below(30_000)));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        daemon = play("the_daemon_of_the_other_tests", &directory);
        let before = replies.lock().unwrap().len();
        until("the next daemon serves", || replies.lock().unwrap().len() > before + 100);
    }
    is_over.store(true, SeqCst);
    let sent = sending.join().unwrap();
    reading.join().unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    balance(sent, &replies.lock().unwrap(), &directory.join("book"), kills);
    fs::remove_dir_all(directory).unwrap();
}

/// Hands tasks in one after the other; says how many.
fn send_until(client: &Client, is_over: &AtomicBool) -> u64 {
    let mut sent = 0;
    while !is_over.load(SeqCst) {
        let handler = if sent % 2 == 0 { "note" } else { "note_quickly" };
        let args = format!("{{\"number\":{}}}", sent + 1);
        match client.submit_timeout(&request(handler, &args), Duration::from_millis(100)) {
            Ok(number) => {
                sent += 1;
                assert_eq!(number, sent);
            }
            Err(ClientError::NoDaemon(_) | ClientError::Full) => thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

fn balance(sent: u64, replies: &HashMap<u64, i32>, book: &Path, kills: u64) {
    let mut ran: HashMap<String, u32> = HashMap::new();
    for line in fs::read_to_string(book).unwrap().lines() {
        *ran.entry(line.to_owned()).or_default() += 1;
    }
    let (mut done, mut died) = (0, 0);
    for number in 1..=sent {
        let times = ran.get(&format!("{{\"number\":{number}}}")).copied().unwrap_or(0);
        assert!(times <= 1, "task {number} ran {times} times");
        match replies.get(&number) {
            Some(0) => {
                assert_eq!(times, 1, "task {number} was answered and never ran");
                done += 1;
            }
            Some(status) => {
                assert_eq!(*status, ErrorCode::DaemonDied.number(), "task {number}");
                died += 1;
            }
            None => panic!("task {number} was never answered"),
        }
    }
    assert_eq!(done + died, replies.len());
    println!("{kills} daemons killed: {sent} tasks, {done} done, {died} in the hands of a daemon that died");
}

/// Not a test: the program that is killed. Without an order it does nothing.
#[test]
fn the_program_of_the_other_tests() {
    let Some(directory) = part() else { return };
    let Ok(client) = Client::attach(directory.to_str().unwrap()) else { return };
    let large = format!("{{\"text\":\"{}\"}}", "y".repeat(5000));
    for round in 0_u64.. {
        let args = if round % 50 == 0 { large.as_str() } else { "{\"a\":1}" };
        let handler = if round % 3 == 0 { "slow_echo" } else { "echo" };
        if round % 97 == 0 {
            let _ = client.submit_streaming(&request("count", "{\"to\":20}"), Duration::from_millis(1));
        }
        let _ = client.submit_timeout(&request(handler, args), Duration::from_millis(1));
        if round % 5 == 0 {
            let _ = client.next_ended(Duration::ZERO);
        }
    }
}

#[test]
fn programs_are_killed_and_nothing_of_them_is_left() {
    let kills = number("MILLPOND_KILLS", 100);
    let mut random = Random::new();
    let house = House::build();
    let handle = house.service.as_ref().unwrap().handle();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (before, mut programs) = (descriptors(), Vec::new());
    for _ in 0..kills {
        if programs.len() < 3 {
            programs.push(play("the_program_of_the_other_tests", &house.directory));
        }
        thread::sleep(Duration::from_micros(random.below(10_000)));
        let at = random.below(programs.len() as u64) as usize;
        // Most of them are killed in the middle of their work, some before they have said hello.
        let attached = house.stats().attached;
        if random.below(4) > 0 {
            let end = Instant::now() + Duration::from_millis(200);
            while house.stats().attached == attached && Instant::now() < end {
                thread::sleep(Duration::from_micros(200));
            }
        }
        let mut program = programs.swap_remove(at);
        program.kill().unwrap();
        program.wait().unwrap();
    }
    for mut program in programs {
        program.kill().unwrap();
        program.wait().unwrap();
    }
    until("everybody has gone", || house.stats().clients == 0);
    until("every task has ended", || handle.live() == 0);
    let stats = house.stats();
    assert_eq!((stats.under_way, stats.answers_waiting), (0, 0), "{stats:?}");
    assert!(stats.attached > kills / 4, "hardly anybody came in: {stats:?}");
    until("no descriptor is left", || descriptors() <= before);
    println!("{kills} programs killed, {} had come in", stats.attached);
    let client = house.client();
    let number = client.try_submit(&request("slow_echo", "{}")).unwrap();
    assert_eq!(client.wait(number, LONG).unwrap().unwrap().status, 0);
}
