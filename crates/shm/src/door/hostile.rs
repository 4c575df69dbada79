//! A program that writes whatever it likes into its memory must not make the daemon read outside of it, hang or die.
//!
//! The memory is scribbled over at random while messages pass, thousands of times; the seed is printed and can be given
//! back (`MILLPOND_SEED`). The daemon may answer, refuse or detach the program. It may not panic, and another program
//! must be served all the while.

use super::MemoryDoor;
use crate::channel::{Channel, Message};
use crate::client::Client;
use crate::handshake::{Hello, MEMORY_SOCKET_NAME, Welcome};
use crate::layout::Plan;
use crate::memory_file::MemoryFile;
use crate::message::{CALL, CANCEL, INTRODUCE, REQUEST};
use millpond_tasks::config::{ConfigSources, load};
use millpond_tasks::{Log, Registry, Service, ServiceConfig, Symbols, function, quick};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// How many programs come, unless `MILLPOND_ROUNDS` says otherwise.
const ROUNDS: usize = 300;

struct Random(u64);

impl Random {
    fn from_environment() -> Self {
        let given =
            std::env::var("MILLPOND_SEED").ok().map(|text| text.parse().expect("MILLPOND_SEED: a number"));
        let seed: u64 = given.unwrap_or_else(|| std::process::id().into());
        println!("MILLPOND_SEED={seed}");
        Self(seed | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize % limit
    }
}

/// Attaches by hand. None if the daemon refuses.
fn attach(path: &Path, plan: &Plan, file: &MemoryFile) -> Option<UnixStream> {
    let socket = UnixStream::connect(path).unwrap();
    Hello::new(*plan).send(&socket, file).unwrap();
    Welcome::receive(&socket, LONG).unwrap().welcome.then_some(socket)
}

#[test]
fn scribbled_memory_costs_its_own_program_and_nobody_else() {
    let directory = std::env::temp_dir().join(format!("millpond-hostile-{}", std::process::id()));
    let mut registry = Registry::new();
    registry.add("slow", function(|call| Ok(call.args().to_owned()))).unwrap();
    let echo = |args: &serde_json::value::RawValue, out: &mut Vec<u8>| {
        out.extend_from_slice(args.get().as_bytes());
        Ok(())
    };
    registry.add("echo", quick(echo)).unwrap();
    let service = Service::start(ServiceConfig::default(), registry, Symbols::new()).unwrap();
    let settings = load(&ConfigSources::default()).settings().unwrap().memory_door;
    let path = directory.join(MEMORY_SOCKET_NAME);
    let door = MemoryDoor::open(&path, settings, service.handle(), Log::silent()).unwrap();
    let honest = Client::attach(directory.to_str().unwrap()).unwrap();
    let mut random = Random::from_environment();
    let mut refused = 0;
    let rounds = std::env::var("MILLPOND_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |text| text.parse().expect("MILLPOND_ROUNDS: a whole number"));
    for _ in 0..rounds {
        let plan = Plan { slots: 64, slot_bytes: 128, arena_bytes: 1 << 12 };
        let (mut channel, file) = Channel::make(&plan).unwrap();
        let bytes = plan.parts().unwrap().bytes();
        let memory = file.map().unwrap().part(0..bytes);
        // Half of them spoil it before they come in.
        if random.below(2) == 0 {
            scribble(&memory, bytes, &mut random);
        }
        let Some(_socket) = attach(&path, &plan, &file) else {
            refused += 1;
            continue;
        };
        for number in 1..30 {
            let kind = [REQUEST, CALL, CANCEL, INTRODUCE, 77][random.below(5)];
            let large = [b'z'; 1000];
            let bodies: [&[u8]; 4] = [b"{\"handler\":\"slow\"}", b"{\"handler\":\"echo\"}", b"{}", &large];
            let body = bodies[random.below(4)];
            let word = random.below(3) as u32;
            let _ = channel.sender.send(&Message { kind, number, word, sent_ns: 0, body });
            if random.below(3) == 0 {
                scribble(&memory, bytes, &mut random);
            }
            let _ = channel.receiver.receive(8, |_| ());
        }
        let number = honest.submit_timeout(b"{\"handler\":\"slow\",\"args\":{\"a\":1}}", LONG).unwrap();
        let reply = honest.wait(number, LONG).unwrap().unwrap();
        assert_eq!((reply.status, reply.body.as_slice()), (0, &b"{\"a\":1}"[..]));
    }
    println!("{refused} of {rounds} were refused at once");
    let stats = || door.stats();
    let until = std::time::Instant::now() + LONG;
    while stats().clients > 1 {
        assert!(std::time::Instant::now() < until, "a thread hangs in spoiled memory: {:?}", stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(honest);
    service.stop(LONG);
    drop(door);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Writes up to 64 random words anywhere, most of them at the front where the heads and rings are.
fn scribble(memory: &millpond_queue::wpol::Memory, bytes: usize, random: &mut Random) {
    for _ in 0..random.below(64) {
        let span = if random.below(4) == 0 { bytes } else { bytes.min(1 << 14) };
        let at = random.below(span / 8) * 8;
        let word = match random.below(4) {
            0 => 0,
            1 => u64::MAX,
            2 => random.below(1 << 16) as u64,
            _ => random.0,
        };
        memory.copy_in(at, &word.to_le_bytes());
    }
}
