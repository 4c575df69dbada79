//! What a task says while it runs, published for whoever listens: each piece with its number, and a mark at the end.
//!
//! Nothing of it is stored: who is not there does not hear it, and the result is kept anyway. While the server is
//! away pieces are left out and counted; their numbers show the gap. A task is never held up by the network for
//! longer than its own stream allows.
//!
//! Not here: the stream of a task (`stream.rs` of the crate `millpond-tasks`).

use crate::engine::Engine;
use crate::intake::to;
use crate::link::Sent;
use bytes::Bytes;
use std::sync::atomic::Ordering::Relaxed;

/// How much of one task is published in one turn.
const TURN_BYTES: usize = 256 << 10;

impl Engine {
    /// Publishes some of what each task has said. One that talks on and on has its next piece in the next turn: leases
    /// are renewed in between.
    pub(crate) async fn take_chunks(&mut self) {
        for sequence in self.shared.take_talking() {
            if self.say_some(sequence).await {
                self.shared.is_talking(sequence);
            }
        }
    }

    /// Publishes what is left, and that this is the end.
    pub(crate) async fn say_the_rest(&mut self, sequence: u64, is_last: bool) {
        if self.held.get(&sequence).is_none_or(|held| held.watching.is_none()) {
            return;
        }
        while self.say_some(sequence).await {}
        let Some(held) = self.held.get_mut(&sequence) else { return };
        held.watching = None;
        if is_last {
            let subject = self.shared.queue.chunks(&held.id);
            let _ = self.link.send(to(&subject), None, None, Bytes::from_static(b"{\"end\":true}")).await;
        }
    }

    /// Publishes some; says whether there is more.
    async fn say_some(&mut self, sequence: u64) -> bool {
        let Some(held) = self.held.get_mut(&sequence) else { return false };
        let Some(watching) = &mut held.watching else { return false };
        let mut events = Vec::new();
        let more = watching.read(TURN_BYTES, &mut events);
        let subject = self.shared.queue.chunks(&held.id);
        for event in events {
            let mut json = Vec::new();
            event.write_json(&mut json);
            if self.link.send(to(&subject), None, None, json.into()).await != Sent::Yes {
                self.shared.figures.chunks_dropped.fetch_add(1, Relaxed);
            }
        }
        more
    }
}
