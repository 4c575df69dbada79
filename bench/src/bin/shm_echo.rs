//! The other end of the groups about shared memory: a process that sends every message back as it came.
//!
//! Its standard input is the memory, its argument says what is in it. It spins for as long as it lives, as the bench
//! does at its end, and ends when it is told to or when the bench is gone.
//!
//! Not here: the daemon, which is an end of its own (`peers/shm/millpond.rs`).

#[path = "../peers/shm/map.rs"]
mod map;
#[path = "../peers/shm/raw_ring.rs"]
mod raw_ring;
#[path = "../peers/shm/service.rs"]
mod service;
#[path = "../peers/shm/terms.rs"]
mod terms;

use map::Map;
use millpond_queue::wpol::v2::{Identity, Peer, Region, StartError, Submission};
use raw_ring::RawEnd;
use std::hint::spin_loop;
use std::io;
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::Arc;
use terms::{BATCH, Flag, MESSAGE_BYTES_MAX, WAYS};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("shm_echo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let map = Map::new(io::stdin(), terms::BYTES).map_err(|error| format!("standard input: {error}"))?;
    let map = Arc::new(map);
    match kind.as_str() {
        "raw" => echo_raw(&map),
        "wpol" => echo_wpol(&map, BATCH),
        "wpol-singly" => echo_wpol(&map, 1),
        "iceoryx2" => echo_iceoryx2(&map),
        other => Err(format!("expected raw, wpol, wpol-singly or iceoryx2, got {other:?}")),
    }
}

/// Whether to go on. Asked after each fruitless look.
struct Life<'m> {
    map: &'m Map,
    parent: u32,
    looks: u32,
}

impl<'m> Life<'m> {
    fn new(map: &'m Map) -> Self {
        Self { map, parent: parent_id(), looks: 0 }
    }

    fn goes_on(&mut self) -> bool {
        spin_loop();
        self.looks = self.looks.wrapping_add(1);
        // Another parent than before means that the bench has died.
        let is_orphan = self.looks.is_multiple_of(1 << 20) && parent_id() != self.parent;
        !is_orphan && !Flag::Stop.is_set(self.map)
    }
}

fn echo_raw(map: &Map) -> Result<(), String> {
    let [mut there, mut back] = WAYS.map(|at| RawEnd::at(&map.words()[at / 8..], 0));
    let mut life = Life::new(map);
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    Flag::Ready.set(map);
    while life.goes_on() {
        while let Some(message) = there.try_receive(&mut buffer) {
            while !back.try_send(message) && life.goes_on() {}
        }
    }
    Ok(())
}

/// Takes at most so many messages at a time, and sends as many back together.
fn echo_wpol(map: &Arc<Map>, batch: usize) -> Result<(), String> {
    let bytes = terms::region_bytes().map_err(|error| error.to_string())?;
    let mut peers = Vec::new();
    for at in WAYS {
        let region = Region::open(map.memory(at, bytes)?).map_err(|error| error.to_string())?;
        peers.push(region.attach(Identity::default()).map_err(|error| error.to_string())?);
    }
    let [there, back] = &peers[..] else { return Err("expected two ways".to_owned()) };
    let mut life = Life::new(map);
    let mut bodies: Vec<Vec<u8>> = vec![Vec::new(); batch];
    let mut numbers = Vec::with_capacity(batch);
    Flag::Ready.set(map);
    while life.goes_on() {
        loop {
            numbers.clear();
            let received = there.receive_batch(0, batch, |message| {
                message.payload_into(&mut bodies[numbers.len()]);
                numbers.push(message.task());
            });
            match received {
                Ok(_) => answer(back, &numbers, &bodies, &mut life)?,
                Err(StartError::Empty | StartError::Contended) => break,
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
    }
    Ok(())
}

fn answer(back: &Peer, numbers: &[u64], bodies: &[Vec<u8>], life: &mut Life<'_>) -> Result<(), String> {
    if let ([number], [body, ..]) = (numbers, bodies) {
        let alone = Submission { detached: true, task: *number, payload: body, ..Submission::default() };
        while back.submit(alone).is_err() && life.goes_on() {}
        return Ok(());
    }
    let mut answers = [Submission::default(); BATCH];
    for (answer, (number, body)) in answers.iter_mut().zip(numbers.iter().zip(bodies)) {
        *answer = Submission { task: *number, payload: body, ..Submission::default() };
    }
    let mut done = 0;
    while done < numbers.len() {
        match back.send_batch(&answers[done..numbers.len()]) {
            Ok(count) => done += count,
            Err(refusal) if !life.goes_on() => return Err(refusal.to_string()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn echo_iceoryx2(map: &Map) -> Result<(), String> {
    let folder = std::env::current_dir().map_err(|error| error.to_string())?;
    let service = service::open(&folder).map_err(|error| error.to_string())?;
    let server = service.server_builder().initial_max_slice_len(MESSAGE_BYTES_MAX).create();
    let server = server.map_err(|error| error.to_string())?;
    let mut life = Life::new(map);
    Flag::Ready.set(map);
    while life.goes_on() {
        while let Some(request) = server.receive().map_err(|error| error.to_string())? {
            let response =
                request.loan_slice_uninit(request.payload().len()).map_err(|error| error.to_string())?;
            let response = response.write_from_slice(request.payload());
            response.send().map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
