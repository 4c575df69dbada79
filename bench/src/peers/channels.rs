//! The peers that are channels: every thread holds a sender or a receiver, and closing is dropping.
//!
//! A thread gets a clone of its end, as in the channels' own examples: some of them keep a count or a cache in it.
//!
//! Not here: queues without ends (`queues.rs`).

use super::{TryPop, TryPopMany, TryPush, TryPushMany, WaitPop, WaitPush};
use std::ops::Range;
use std::sync::mpsc;

/// Most channels agree on the names of their four calls.
macro_rules! channel {
    ($sender:ty, $receiver:ty, $send:ident, $recv:ident) => {
        impl TryPush for $sender {
            #[inline]
            fn try_push(&mut self, item: u64) -> bool {
                self.try_send(item).is_ok()
            }
        }

        impl TryPop for $receiver {
            #[inline]
            fn try_pop(&mut self) -> Option<u64> {
                self.try_recv().ok()
            }
        }

        impl WaitPush for $sender {
            #[inline]
            fn push(&mut self, item: u64) {
                self.$send(item).expect("a receiver lives until the senders are gone");
            }
        }

        impl WaitPop for $receiver {
            #[inline]
            fn pop(&mut self) -> Option<u64> {
                self.$recv().ok()
            }
        }
    };
}

type CrossfireArray = crossfire::mpmc::Array<u64>;

channel!(crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64>, send, recv);
channel!(crossfire::MTx<CrossfireArray>, crossfire::MRx<CrossfireArray>, send, recv);
channel!(flume::Sender<u64>, flume::Receiver<u64>, send, recv);
channel!(async_channel::Sender<u64>, async_channel::Receiver<u64>, send_blocking, recv_blocking);
channel!(mpsc::SyncSender<u64>, mpsc::Receiver<u64>, send, recv);

// Kanal says "full" and "empty" inside an `Ok`.
impl TryPush for kanal::Sender<u64> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.try_send(item) == Ok(true)
    }
}

impl TryPop for kanal::Receiver<u64> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.try_recv().ok().flatten()
    }
}

impl WaitPush for kanal::Sender<u64> {
    #[inline]
    fn push(&mut self, item: u64) {
        self.send(item).expect("a receiver lives until the senders are gone");
    }
}

impl WaitPop for kanal::Receiver<u64> {
    #[inline]
    fn pop(&mut self) -> Option<u64> {
        self.recv().ok()
    }
}

// The limit: one producer and one consumer, and no atomic instruction dearer than a store.
impl TryPush for rtrb::Producer<u64> {
    #[inline]
    fn try_push(&mut self, item: u64) -> bool {
        self.push(item).is_ok()
    }
}

impl TryPop for rtrb::Consumer<u64> {
    #[inline]
    fn try_pop(&mut self) -> Option<u64> {
        self.pop().ok()
    }
}

impl TryPushMany for rtrb::Producer<u64> {
    #[inline]
    fn try_push_many(&mut self, items: Range<u64>) -> u64 {
        let asked = (items.end - items.start) as usize;
        let room = asked.min(self.slots());
        self.write_chunk_uninit(room).map_or(0, |chunk| chunk.fill_from_iter(items)) as u64
    }
}

impl TryPopMany for rtrb::Consumer<u64> {
    #[inline]
    fn try_pop_many(&mut self, max: usize, each: impl FnMut(u64)) -> usize {
        let ready = max.min(self.slots());
        let Ok(chunk) = self.read_chunk(ready) else { return 0 };
        chunk.into_iter().for_each(each);
        ready
    }
}
