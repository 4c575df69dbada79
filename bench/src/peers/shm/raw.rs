//! The limit: two raw rings in shared memory, one for each way, both ends spinning.
//!
//! There is no server, no handler, no check and no way to sleep. What is left is what the machine takes to move bytes
//! from one core to the other.
//!
//! Not here: the ring itself (`raw_ring.rs`).

use super::map::Map;
use super::raw_ring::RawEnd;
use super::terms::{MESSAGE_BYTES_MAX, WAYS};
use super::{Echo, Landed, Line, Patience};
use std::sync::Arc;

/// Both rings, by position: an end is made for each use, since it borrows the memory.
pub(crate) struct RawLine {
    map: Arc<Map>,
    sent: u64,
    received: u64,
    _echo: Echo,
}

pub(crate) fn start() -> Result<RawLine, String> {
    let echo = Echo::start("raw", |_| Ok(()))?;
    Ok(RawLine { map: Arc::clone(&echo.map), sent: 0, received: 0, _echo: echo })
}

impl RawLine {
    fn end(&self, way: usize, position: u64) -> RawEnd<'_> {
        RawEnd::at(&self.map.words()[WAYS[way] / 8..], position)
    }
}

impl Line for RawLine {
    fn send(&mut self, task: &[u8]) -> Result<(), String> {
        let mut patience = Patience::new();
        while !self.end(0, self.sent).try_send(task) {
            patience.ask("raw ring")?;
        }
        self.sent += 1;
        Ok(())
    }

    fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        let mut patience = Patience::new();
        let before = self.received;
        loop {
            match self.end(1, self.received).try_receive(&mut buffer) {
                Some(answer) => {
                    self.received += 1;
                    landed(self.received - 1, answer)?;
                }
                None if self.received > before => return Ok(()),
                None => patience.ask("raw ring")?,
            }
        }
    }
}
