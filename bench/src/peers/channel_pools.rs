//! The pool that everybody writes once: a bounded channel of boxed closures, and threads that receive from
//! it.
//!
//! With a fast channel it is the peer to beat for closures from outside. A task that sends to a full channel
//! waits for room, and if all workers do, for ever; so the groups keep what tasks spawn well below the
//! capacity.
//!
//! Not here: the channels by themselves (`channels.rs`).

use super::pools::{Pool, Reply, Size, Spawn, Submit, Threads, wait_for_reply, with_reply};

type Task = Box<dyn FnOnce() + Send>;

/// A channel's sending end, and the threads that receive until it is dropped.
pub(crate) struct ChannelPool<Sender> {
    sender: Sender,
    _threads: Threads,
}

type CrossfireSender = crossfire::MTx<crossfire::mpmc::Array<Task>>;

pub(crate) type CrossbeamPool = ChannelPool<crossbeam_channel::Sender<Task>>;
pub(crate) type CrossfirePool = ChannelPool<CrossfireSender>;

macro_rules! channel_pool {
    ($sender:ty, $open:path) => {
        impl Pool for ChannelPool<$sender> {
            type Handle = $sender;

            fn start(size: Size) -> Self {
                let (sender, receiver) = $open(size.capacity);
                let threads = Threads::start(size.workers, || {
                    let receiver = receiver.clone();
                    Box::new(move || {
                        while let Ok(task) = receiver.recv() {
                            let task: Task = task;
                            task();
                        }
                    })
                });
                Self { sender, _threads: threads }
            }

            fn handle(&self) -> Self::Handle {
                self.sender.clone()
            }
        }

        impl Spawn for $sender {
            #[inline]
            fn spawn(&self, task: impl FnOnce() + Send + 'static) {
                // Threads that panicked are the only reason for a refusal, and the round's count will show
                // it.
                let _ = self.send(Box::new(task));
            }
        }

        impl Submit for $sender {
            type Ticket = Reply;

            #[inline]
            fn submit(&self, task: impl FnOnce() -> u64 + Send + 'static) -> Reply {
                let (task, reply) = with_reply(task);
                self.spawn(task);
                reply
            }

            #[inline]
            fn wait(&self, ticket: Reply) -> u64 {
                wait_for_reply(ticket)
            }
        }
    };
}

channel_pool!(crossbeam_channel::Sender<Task>, crossbeam_channel::bounded);
channel_pool!(CrossfireSender, crossfire::mpmc::bounded_blocking);
