//! Messages by wpol version 2, a region for each way: what the daemon's own channel is made of, without the daemon.
//!
//! Messages are detached, and their slots are free once they were read. Either process may be killed at any time, and
//! either may sleep; here both are busy and look again.
//!
//! Not here: tasks by the same channel (`millpond.rs`).

use super::map::Map;
use super::terms::{self, BATCH, WAYS};
use super::{Echo, Landed, Line, Patience};
use millpond_queue::wpol::v2::{Identity, Peer, Region, StartError, Submission, SubmitError};
use std::sync::Arc;

pub(crate) struct WpolLine {
    there: Peer,
    back: Peer,
    sent: u64,
    /// Answers of one receive, so that they are checked after their slots are free.
    bodies: Vec<Vec<u8>>,
    _echo: Echo,
}

/// The other end answers message by message.
pub(crate) fn start_singly() -> Result<WpolLine, String> {
    start("wpol-singly")
}

/// The other end answers together what came together.
pub(crate) fn start_batched() -> Result<WpolLine, String> {
    start("wpol")
}

fn start(kind: &str) -> Result<WpolLine, String> {
    let bytes = terms::region_bytes().map_err(|error| error.to_string())?;
    let mut regions = Vec::new();
    let echo = Echo::start(kind, |map: &Arc<Map>| {
        for at in WAYS {
            let region = Region::create(map.memory(at, bytes)?, terms::region());
            regions.push(region.map_err(|error| error.to_string())?);
        }
        Ok(())
    })?;
    let attach = |region: &Region| region.attach(Identity::default()).map_err(|error| error.to_string());
    let [there, back] = &regions[..] else { return Err("expected two ways".to_owned()) };
    let (there, back) = (attach(there)?, attach(back)?);
    Ok(WpolLine { there, back, sent: 0, bodies: vec![Vec::new(); BATCH], _echo: echo })
}

impl Line for WpolLine {
    fn send(&mut self, task: &[u8]) -> Result<(), String> {
        // The number is sent as it is plus one: 0 would have the region draw one.
        let message =
            Submission { task: self.sent + 1, detached: true, payload: task, ..Submission::default() };
        let mut patience = Patience::new();
        loop {
            match self.there.submit(message) {
                Ok(_detached) => break,
                Err(SubmitError::NoSlot | SubmitError::LaneFull | SubmitError::Contended) => {
                    patience.ask("wpol")?;
                }
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
        self.sent += 1;
        Ok(())
    }

    fn send_batch(&mut self, tasks: &[&[u8]]) -> Result<(), String> {
        let mut patience = Patience::new();
        for tasks in tasks.chunks(BATCH) {
            let mut messages = [Submission::default(); BATCH];
            for ((message, task), number) in messages.iter_mut().zip(tasks).zip(self.sent + 1..) {
                *message = Submission { task: number, payload: task, ..Submission::default() };
            }
            let mut done = 0;
            while done < tasks.len() {
                match self.there.send_batch(&messages[done..tasks.len()]) {
                    Ok(count) => done += count,
                    Err(SubmitError::NoSlot | SubmitError::LaneFull | SubmitError::Contended) => {
                        patience.ask("wpol")?;
                    }
                    Err(refusal) => return Err(refusal.to_string()),
                }
            }
            self.sent += tasks.len() as u64;
        }
        Ok(())
    }

    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
        let mut patience = Patience::new();
        let mut numbers = [0; BATCH];
        let (back, bodies) = (&self.back, &mut self.bodies);
        let received = loop {
            let mut next = 0;
            let received = back.receive_batch(0, BATCH, |message| {
                message.payload_into(&mut bodies[next]);
                numbers[next] = message.task() - 1;
                next += 1;
            });
            match received {
                Ok(count) => break count,
                Err(StartError::Empty | StartError::Contended) => patience.ask("wpol")?,
                Err(refusal) => return Err(refusal.to_string()),
            }
        };
        numbers[..received].iter().zip(&*bodies).try_for_each(|(number, body)| landed(*number, body))
    }
}
