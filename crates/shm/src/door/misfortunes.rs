//! What went wrong once, or would for a program that is slow, careless or killed at a bad moment.
//!
//! Each test names what was seen. The programs here speak by hand, so that they can do what the client never does.

use super::MemoryDoor;
use crate::channel::{Channel, Message};
use crate::client::{Client, ClientSettings};
use crate::handshake::{Hello, MEMORY_SOCKET_NAME, Welcome};
use crate::layout::Plan;
use crate::memory_file::MemoryFile;
use crate::message::{ANSWER, CALL, REQUEST, STREAMED};
use millpond_tasks::config::{ConfigSources, load};
use millpond_tasks::{ErrorCode, Log, Registry, Service, ServiceConfig, Symbols, function, quick};
use serde_json::value::to_raw_value;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

struct House {
    directory: PathBuf,
    service: Option<Service>,
    door: Option<MemoryDoor>,
}

impl House {
    fn build(what: &str) -> Self {
        let directory = directory(what);
        let mut registry = Registry::new();
        registry.add("slow", function(|call| Ok(call.args().to_owned()))).unwrap();
        registry.add("large", function(|_| Ok(to_raw_value(&"x".repeat(100_000)).unwrap()))).unwrap();
        let count = |call: &millpond_tasks::Call| {
            for number in 0..2000 {
                call.partial(to_raw_value(&number).unwrap())?;
            }
            Ok(to_raw_value("counted").unwrap())
        };
        registry.add("count", function(count)).unwrap();
        let echo = |args: &serde_json::value::RawValue, out: &mut Vec<u8>| {
            out.extend_from_slice(args.get().as_bytes());
            Ok(())
        };
        registry.add("echo", quick(echo)).unwrap();
        let service = Service::start(ServiceConfig::default(), registry, Symbols::new()).unwrap();
        let settings = load(&ConfigSources::default()).settings().unwrap().memory_door;
        let path = directory.join(MEMORY_SOCKET_NAME);
        let door = MemoryDoor::open(&path, settings, service.handle(), Log::silent()).unwrap();
        Self { directory, service: Some(service), door: Some(door) }
    }

    fn client(&self) -> Client {
        let settings = ClientSettings { plan: small(), ..ClientSettings::default() };
        Client::attach_with(self.directory.to_str().unwrap(), settings).unwrap()
    }

    fn door(&self) -> &MemoryDoor {
        self.door.as_ref().unwrap()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            service.stop(LONG);
        }
        drop(self.door.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn directory(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("millpond-misfortune-{what}-{}", std::process::id()))
}

fn small() -> Plan {
    Plan { slots: 64, slot_bytes: 128, arena_bytes: 1 << 14 }
}

fn attach(directory: &Path, file: &MemoryFile) -> UnixStream {
    let socket = UnixStream::connect(directory.join(MEMORY_SOCKET_NAME)).unwrap();
    Hello::new(small()).send(&socket, file).unwrap();
    assert!(Welcome::receive(&socket, LONG).unwrap().welcome);
    socket
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "it never came: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn programs_that_hang_up_on_the_doorstep_leave_no_thread_behind() {
    let house = House::build("doorstep");
    let threads = || {
        let of_door = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = std::fs::read_to_string(entry.ok()?.path().join("comm")).ok()?;
            (name.trim() == "mp-memory").then_some(())
        };
        std::fs::read_dir("/proc/self/task").unwrap().filter_map(of_door).count()
    };
    for _ in 0..200 {
        let (_channel, file) = Channel::make(&small()).unwrap();
        let socket = UnixStream::connect(house.directory.join(MEMORY_SOCKET_NAME)).unwrap();
        Hello::new(small()).send(&socket, &file).unwrap();
    }
    let stats = || house.door().stats();
    until("everybody was heard", || stats().attached + stats().refused == 200);
    until("everybody has gone", || stats().clients == 0);
    // Other tests of this program have doors too, and threads that come and go.
    until("their threads are gone", || threads() < 100);
}

#[test]
fn a_stream_through_a_narrow_channel_arrives_whole() {
    let house = House::build("stream");
    let client = house.client();
    let number = client.submit_streaming(b"{\"handler\":\"count\"}", LONG).unwrap();
    until("answers wait for room", || house.door().stats().answers_waiting > 0);
    let mut seen = 0;
    while let Ok(Some(event)) = client.next_partial(number, LONG) {
        let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
        assert_eq!(event["partial"], seen, "{event}");
        seen += 1;
    }
    assert_eq!((seen, client.wait(number, LONG).unwrap().unwrap().status), (2000, 0));
}

#[test]
fn a_result_that_will_never_fit_is_told_even_if_it_had_to_wait() {
    let house = House::build("waits");
    let client = house.client();
    for _ in 0..80 {
        until("there is room", || client.try_submit(b"{\"handler\":\"echo\"}").is_ok());
    }
    let large = client.try_submit(b"{\"handler\":\"large\"}").unwrap();
    until("it waits with others", || house.door().stats().answers_waiting > 16);
    assert_eq!(client.wait(large, LONG).unwrap().unwrap().status, ErrorCode::TooLarge.number());
}

#[test]
fn a_number_that_is_used_twice_is_refused_and_its_program_can_still_go() {
    let house = House::build("twice");
    let (mut channel, file) = Channel::make(&small()).unwrap();
    let socket = attach(&house.directory, &file);
    for delay in [600_000, 0] {
        let body = format!("{{\"handler\":\"slow\",\"delay_ms\":{delay}}}");
        let body = body.as_bytes();
        channel.sender.send(&Message { kind: REQUEST, number: 1, word: STREAMED, sent_ns: 0, body }).unwrap();
    }
    let mut status = 0;
    until("the second is refused", || {
        channel.receiver.receive(1, |message| status = message.word as i32).unwrap() > 0
    });
    assert_eq!((status, house.door().stats().under_way), (ErrorCode::DuplicateId.number(), 1));
    drop(socket);
    until("it has gone", || house.door().stats().clients == 0);
}

#[test]
fn a_program_that_opens_its_region_again_cannot_keep_the_door_from_closing() {
    let mut house = House::build("reopened");
    let (_channel, file) = Channel::make(&small()).unwrap();
    let _socket = attach(&house.directory, &file);
    let memory = file.map().unwrap().part(0..4096);
    let (stop, stopped) = channel::<()>();
    let scribbling = thread::spawn(move || {
        // The life word is at 0x40, and 2 is ready.
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            memory.copy_in(0x40, &2_u64.to_le_bytes());
        }
    });
    let (told, tells) = channel();
    let door = house.door.take().unwrap();
    thread::spawn(move || told.send(door.close(Duration::from_millis(100))).unwrap());
    tells.recv_timeout(LONG).expect("the door closes");
    drop(stop);
    scribbling.join().unwrap();
}

#[test]
fn what_a_dead_daemon_left_is_sent_by_whoever_waits_for_it() {
    let directory = directory("unsent");
    std::fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let listener = UnixListener::bind(directory.join(MEMORY_SOCKET_NAME)).unwrap();
    let accept = move || {
        let (socket, _) = listener.accept().unwrap();
        let mut got = None;
        until("the hello has come", || {
            got = Hello::receive(&socket).unwrap();
            got.is_some()
        });
        let (hello, memory) = got.unwrap();
        let channel = Channel::open(memory, &hello.plan, 1 << 30).unwrap();
        Welcome::yes().send(&socket).unwrap();
        (socket, channel)
    };
    let (go, wait) = channel::<()>();
    thread::spawn(move || {
        // The first daemon reads the introduction and dies. The next has no room for all that is left at once, since
        // the introduction takes a place once more.
        let (socket, mut channel) = accept();
        until("the introduction has come", || channel.receiver.receive(1, |_| ()).unwrap() > 0);
        wait.recv().unwrap();
        drop((channel, socket));
        let (_socket, mut channel) = accept();
        loop {
            let mut numbers = Vec::new();
            let note =
                |message: Message<'_>| numbers.extend((message.kind == CALL).then_some(message.number));
            channel.receiver.receive(32, note).unwrap();
            for number in numbers {
                let answer = Message { kind: ANSWER, number, word: 0, sent_ns: 0, body: b"1" };
                until("there is room", || channel.sender.send(&answer).is_ok());
            }
            channel.receiver.wait(Duration::from_millis(1));
        }
    });
    let settings = ClientSettings { plan: small(), reconnect_timeout: LONG, ..ClientSettings::default() };
    let client = Client::attach_with(directory.to_str().unwrap(), settings).unwrap();
    let handler = client.handler("slow").unwrap();
    let mut sent = 0;
    while client.call(handler, b"{}", Duration::from_millis(200)).is_ok() {
        sent += 1;
    }
    assert!(sent >= 64, "{sent}");
    go.send(()).unwrap();
    for _ in 0..sent {
        assert_eq!(client.next_ended(LONG).expect("every task is answered").status, 0);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_program_whose_memory_is_broken_is_hung_up_on() {
    let house = House::build("broken");
    let (channel, file) = Channel::make(&small()).unwrap();
    let socket = attach(&house.directory, &file);
    let bytes = small().parts().unwrap().bytes();
    let memory = file.map().unwrap().part(0..bytes);
    // The word of life again: nobody may write a 9 there.
    memory.copy_in(0x40, &9_u64.to_le_bytes());
    until("it is hung up on", || crate::handshake::is_over(&socket));
    until("its place is free", || house.door().stats().clients == 0);
    drop(channel);
}

#[test]
fn a_program_that_goes_on_sending_after_it_hung_up_is_served_no_longer() {
    let house = House::build("sends-on");
    let (mut channel, file) = Channel::make(&small()).unwrap();
    let socket = attach(&house.directory, &file);
    let memory = file.map().unwrap().part(0..4096);
    drop(socket);
    let mut sent = 0_u64;
    until("its place is free", || {
        for _ in 0..64 {
            sent += 1;
            memory.copy_in(0x40, &2_u64.to_le_bytes());
            let body = b"{\"handler\":\"slow\"}";
            let _ = channel.sender.send(&Message { kind: REQUEST, number: sent, word: 0, sent_ns: 0, body });
        }
        house.door().stats().clients == 0
    });
}

#[test]
fn somebody_who_only_hands_in_finds_the_next_daemon() {
    for is_killed in [false, true] {
        let mut house = House::build(if is_killed { "killed" } else { "restarted" });
        let client = house.client();
        let number = client.try_submit(b"{\"handler\":\"echo\"}").unwrap();
        client.wait(number, LONG).unwrap().unwrap();
        if !is_killed {
            house.door().drain(LONG);
        }
        house.service.take().unwrap().stop(LONG);
        drop(house.door.take());
        let next = House::build(if is_killed { "killed" } else { "restarted" });
        until("the next daemon takes tasks", || client.try_submit(b"{\"handler\":\"echo\"}").is_ok());
        until("it has them", || next.door().stats().attached == 1);
        assert_eq!(client.next_ended(LONG).unwrap().status, 0);
    }
}

#[test]
fn a_daemon_that_is_there_and_silent_is_called_so_and_holds_nobody_up() {
    let directory = directory("silent");
    std::fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let listener = UnixListener::bind(directory.join(MEMORY_SOCKET_NAME)).unwrap();
    let (go, wait) = channel::<()>();
    let first = thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        until("the hello has come", || Hello::receive(&socket).unwrap().is_some());
        Welcome::yes().send(&socket).unwrap();
        wait.recv().unwrap();
        // From here on it is there, and says nothing.
        listener
    });
    let client = Client::attach(directory.to_str().unwrap()).unwrap();
    go.send(()).unwrap();
    let listener = first.join().unwrap();
    let mut words = String::new();
    until("it is noticed", || match client.try_submit(b"{}") {
        Err(error) => {
            words = error.to_string();
            words.contains("does not answer")
        }
        Ok(_) => false,
    });
    // While nobody looks for it, it is told at once that there is none.
    assert!(client.try_submit(b"{}").unwrap_err().to_string().contains("it is gone"));
    drop(listener);
    std::fs::remove_dir_all(directory).unwrap();
}
