//! Messages both ways between two processes, of which either may be killed at any instruction.
//!
//! A channel is two wpol regions in one memory. Everything that is said is a *message*: a task of the region that
//! nobody waits for, whose slot is free again as soon as it was read. What does not fit a slot lies in the arena
//! beside it; such a message keeps a ticket, and the ticket is the receipt that lets the sender use the block again.
//!
//! The maker has the memory and hands it to the other side. Each side has one [`Sender`] and one [`Receiver`], and
//! treats whatever it reads as hostile: the regions check every index, this file checks every attachment.
//!
//! Not here: what messages mean (`client.rs`, `door.rs`, `isolate.rs`), who is dead (whoever holds the connection).

use crate::arena::{Arena, Block, read_attachment};
use crate::layout::{Parts, Plan, PlanError};
use crate::memory_file::{Mapping, MemoryFault, MemoryFile};
use millpond_queue::wpol::v2::{
    Identity, Peer, Progress, Region, Running, StartError, Submission, SubmitError, Ticket, TicketError,
};
use millpond_queue::wpol::{Memory, RegionError};
use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The record of the side that made the memory, in both regions.
const MAKER: u32 = 0;
/// The record of the other side.
const OTHER: u32 = 1;
/// How many messages are taken at once.
pub(crate) const BATCH: usize = 32;

/// What travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// What it is; the two sides agree on the numbers.
    pub(crate) kind: u32,
    /// Which task it is about.
    pub(crate) number: u64,
    /// A word more, as the kind wants it.
    pub(crate) word: u32,
    /// When it was sent, on the clock that all processes of a machine share, in nanoseconds; 0 if nobody asked.
    pub(crate) sent_ns: u64,
    /// The rest.
    pub(crate) body: &'a [u8],
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// There is no room now; the other side has to read first.
    Full,
    /// There will never be room.
    TooLarge { bytes_max: usize },
    /// No more messages are taken.
    Closed,
    /// The memory holds values that nobody may write.
    Broken,
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Why a channel could not be made or opened.
#[derive(Debug)]
pub(crate) enum ChannelError {
    Plan(PlanError),
    Memory(MemoryFault),
    System(io::Error),
    Region(RegionError),
}

impl fmt::Display for ChannelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(formatter),
            Self::Memory(error) => error.fmt(formatter),
            Self::System(error) => write!(formatter, "no shared memory: {error}"),
            Self::Region(error) => error.fmt(formatter),
        }
    }
}

impl Error for ChannelError {}

impl From<PlanError> for ChannelError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<MemoryFault> for ChannelError {
    fn from(error: MemoryFault) -> Self {
        Self::Memory(error)
    }
}

impl From<RegionError> for ChannelError {
    fn from(error: RegionError) -> Self {
        Self::Region(error)
    }
}

/// One side of a channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

impl Channel {
    /// Makes the memory and both regions in it; this side sends requests.
    pub(crate) fn make(plan: &Plan) -> Result<(Self, MemoryFile), ChannelError> {
        let parts = plan.parts()?;
        let file = MemoryFile::create(parts.bytes()).map_err(ChannelError::System)?;
        let mapping = file.map().map_err(ChannelError::System)?;
        let requests = Region::create(mapping.part(parts.requests.clone()), plan.region())?;
        let answers = Region::create(mapping.part(parts.answers.clone()), plan.region())?;
        let channel = Self {
            sender: Sender::new(&requests, MAKER, mapping.part(parts.requests_arena.clone()))?,
            receiver: Receiver::new(&answers, MAKER, mapping.part(parts.answers_arena.clone()))?,
        };
        Ok((channel, file))
    }

    /// Opens memory that somebody else made; this side sends answers. Nothing in it is trusted.
    pub(crate) fn open(file: OwnedFd, plan: &Plan, bytes_max: u64) -> Result<Self, ChannelError> {
        let parts = plan.parts()?;
        let file = MemoryFile::check(file, parts.bytes() as u64, bytes_max)?;
        let mapping = file.map().map_err(ChannelError::System)?;
        Self::over(&mapping, &parts, plan)
    }

    fn over(mapping: &Arc<Mapping>, parts: &Parts, plan: &Plan) -> Result<Self, ChannelError> {
        let requests = Region::open(mapping.part(parts.requests.clone()))?;
        let answers = Region::open(mapping.part(parts.answers.clone()))?;
        for region in [&requests, &answers] {
            // Whatever the headers say, they must say what was told with the memory.
            if region.config() != plan.region() {
                return Err(ChannelError::Region(RegionError::NotReady { life: 0 }));
            }
        }
        Ok(Self {
            sender: Sender::new(&answers, OTHER, mapping.part(parts.answers_arena.clone()))?,
            receiver: Receiver::new(&requests, OTHER, mapping.part(parts.requests_arena.clone()))?,
        })
    }
}

fn identity() -> Identity {
    Identity { pid: std::process::id(), uid: rustix::process::getuid().as_raw(), started: 0 }
}

/// The way out.
#[derive(Debug)]
pub(crate) struct Sender {
    peer: Peer,
    arena: Arena,
    /// The largest body that fits a slot.
    slot_body_max: usize,
    /// Blocks that are under way, in the order in which they were sent.
    receipts: VecDeque<(Ticket, Block)>,
}

impl Sender {
    fn new(region: &Region, record: u32, arena: Memory) -> Result<Self, RegionError> {
        Ok(Self {
            peer: region.attach_record(record, identity())?,
            arena: Arena::new(arena),
            slot_body_max: region.config().slot_stride as usize - 64,
            receipts: VecDeque::new(),
        })
    }

    /// Sends one message. Never waits.
    pub(crate) fn send(&mut self, message: &Message<'_>) -> Result<(), SendError> {
        if message.body.len() > self.slot_body_max {
            return self.send_large(message);
        }
        // Nobody waits for it, so the ticket says nothing.
        let submit = |sender: &Self| sender.peer.submit(submission(message)).map(drop).map_err(refusal);
        match submit(self) {
            // Slots of large messages that were read are free once their receipts have been seen.
            Err(SendError::Full) if self.collect_receipts() => submit(self),
            answer => answer,
        }
    }

    /// Sends many, in order, until one is refused. Says how many went out.
    pub(crate) fn send_batch(&mut self, messages: &[Message<'_>]) -> (usize, Option<SendError>) {
        let mut done = 0;
        while let Some(first) = messages.get(done) {
            if first.body.len() > self.slot_body_max {
                match self.send_large(first) {
                    Ok(()) => done += 1,
                    Err(error) => return (done, Some(error)),
                }
                continue;
            }
            let mut run = [Submission::default(); BATCH];
            let small =
                messages[done..].iter().take_while(|message| message.body.len() <= self.slot_body_max);
            let count =
                run.iter_mut().zip(small).map(|(place, message)| *place = submission(message)).count();
            match self.peer.send_batch(&run[..count]).map_err(refusal) {
                // If not all went, the next round says why.
                Ok(sent) => done += sent,
                Err(SendError::Full) if self.collect_receipts() => {}
                Err(error) => return (done, Some(error)),
            }
        }
        (done, None)
    }

    /// A message whose body goes through the arena.
    fn send_large(&mut self, message: &Message<'_>) -> Result<(), SendError> {
        if message.body.len() > self.arena.bytes_max() {
            return Err(SendError::TooLarge { bytes_max: self.arena.bytes_max() });
        }
        self.collect_receipts();
        let block = self.arena.put(message.body).ok_or(SendError::Full)?;
        let attachment = block.attachment(message.body);
        let small = Submission { detached: false, attachment, payload: &[], ..submission(message) };
        match self.peer.submit(small) {
            Ok(ticket) => self.receipts.push_back((ticket, block)),
            Err(error) => {
                self.arena.give_back(block);
                return Err(refusal(error));
            }
        }
        Ok(())
    }

    /// Takes back the slots and blocks of messages that were read. Says whether there were any.
    fn collect_receipts(&mut self) -> bool {
        let before = self.receipts.len();
        for _ in 0..self.receipts.len() {
            let Some((ticket, block)) = self.receipts.pop_front() else { break };
            match self.peer.poll(&ticket) {
                Ok(Progress::Queued | Progress::Running) => self.receipts.push_back((ticket, block)),
                Ok(_) => {
                    // It was read, and nobody else has the ticket: if the slot is gone, so much the better.
                    let _ = self.peer.release(ticket);
                    self.arena.give_back(block);
                }
                Err(TicketError::Gone) => self.arena.give_back(block),
                // The memory is broken: nothing in it will be used again.
                Err(_) => {}
            }
        }
        self.receipts.len() < before
    }

    /// Sleeps until there may be room for one more, at most so long and at most a tenth of a second.
    pub(crate) fn wait_room(&self, timeout: Duration) {
        match self.receipts.front() {
            // A large message that is read rings no other bell than that of its own ticket.
            Some((ticket, _)) => {
                let _ = self.peer.wait(ticket, timeout);
            }
            None => {
                self.peer.wait_slot(timeout);
            }
        }
    }

    /// Takes back what was sent and not yet taken, oldest first. For when the other side is dead.
    pub(crate) fn take_back(&mut self, mut take: impl FnMut(Message<'_>)) {
        let mut body = Vec::new();
        let arena = self.arena.memory();
        let mut read = || {
            self.peer.receive_batch(0, BATCH, |task| {
                // What this side wrote itself is sound, unless the other side spoiled it: then it is lost.
                let _ = read(task, arena, &mut body, &mut take);
            })
        };
        while read().is_ok_and(|count| count > 0) {}
    }
}

/// The way in.
#[derive(Debug)]
pub(crate) struct Receiver {
    peer: Peer,
    /// The other side's arena, for reading.
    arena: Memory,
    /// The body at hand.
    body: Vec<u8>,
    /// A message named bytes outside of the arena: nothing here can be trusted any more.
    is_broken: bool,
}

impl Receiver {
    fn new(region: &Region, record: u32, arena: Memory) -> Result<Self, RegionError> {
        let peer = region.attach_record(record, identity())?;
        Ok(Self { peer, arena, body: Vec::new(), is_broken: false })
    }

    /// Takes what has come, up to `count` messages and no more than 32, and says how many. Never waits.
    pub(crate) fn receive(
        &mut self,
        count: usize,
        mut take: impl FnMut(Message<'_>),
    ) -> Result<usize, Broken> {
        let (arena, body, is_broken) = (&self.arena, &mut self.body, &mut self.is_broken);
        let taken = self.peer.receive_batch(0, count.min(BATCH), |task| {
            *is_broken |= read(task, arena, body, &mut take).is_err();
        });
        match taken {
            Err(StartError::Poisoned) => Err(Broken),
            _ if self.is_broken => Err(Broken),
            Ok(taken) => Ok(taken),
            Err(_) => Ok(0),
        }
    }

    /// Sleeps until something may have come, at most so long and at most a tenth of a second.
    pub(crate) fn wait(&self, timeout: Duration) {
        self.peer.wait_items(timeout);
    }

    /// Whether something was found in the memory that nobody may write.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken || self.peer.region().is_poisoned()
    }

    /// What messages come by. Once it is closed, no more are taken, and whoever sleeps in [`wait`](Self::wait) rises.
    pub(crate) fn region(&self) -> Region {
        self.peer.region()
    }
}

/// Copies a message out and hands it on. Its slot is let go of after that: if the process dies on the way, the message
/// is known to have been in its hands.
fn read(
    task: &Running<'_>,
    arena: &Memory,
    body: &mut Vec<u8>,
    take: &mut impl FnMut(Message<'_>),
) -> Result<(), Broken> {
    match task.attachment() {
        0 => task.payload_into(body),
        attachment if read_attachment(arena, attachment, body) => {}
        _ => return Err(Broken),
    }
    take(Message {
        kind: task.method(),
        number: task.task(),
        word: task.priority(),
        sent_ns: task.enqueued(),
        body,
    });
    Ok(())
}

fn submission<'a>(message: &Message<'a>) -> Submission<'a> {
    Submission {
        method: message.kind,
        priority: message.word,
        // A region draws a number of its own for task 0; no task has that number here.
        task: message.number,
        enqueued: message.sent_ns,
        detached: true,
        payload: message.body,
        ..Submission::default()
    }
}

fn refusal(error: SubmitError) -> SendError {
    match error {
        SubmitError::Closed => SendError::Closed,
        SubmitError::Poisoned => SendError::Broken,
        // A body is never too long here and the lane is always there. The others are a full queue, or one in
        // which this side gave way too often, which passes in the same way.
        _ => SendError::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::dup;
    use std::os::fd::AsFd;
    use std::thread;

    fn pair(plan: Plan) -> (Channel, Channel) {
        let (near, file) = Channel::make(&plan).unwrap();
        let far = Channel::open(dup(file.as_fd()).unwrap(), &plan, 1 << 30).unwrap();
        (near, far)
    }

    fn small() -> Plan {
        Plan { slots: 64, slot_bytes: 128, arena_bytes: 1 << 14 }
    }

    fn message(number: u64, body: &[u8]) -> Message<'_> {
        Message { kind: 7, number, word: 9, sent_ns: 11, body }
    }

    fn all(receiver: &mut Receiver) -> Vec<(u64, Vec<u8>)> {
        let mut got = Vec::new();
        while receiver.receive(BATCH, |message| got.push((message.number, message.body.to_vec()))).unwrap()
            > 0
        {}
        got
    }

    #[test]
    fn messages_arrive_whole_and_in_order_both_ways() {
        let (mut near, mut far) = pair(small());
        for (sender, receiver) in
            [(&mut near.sender, &mut far.receiver), (&mut far.sender, &mut near.receiver)]
        {
            let bodies: Vec<Vec<u8>> = (0..40_u8).map(|at| vec![at; usize::from(at) * 7]).collect();
            let messages: Vec<_> = (1..).zip(&bodies).map(|(number, body)| message(number, body)).collect();
            assert_eq!(sender.send_batch(&messages), (40, None));
            let expected: Vec<_> = (1..).zip(bodies.clone()).collect();
            assert_eq!(all(receiver), expected);
        }
    }

    #[test]
    fn every_field_of_a_message_travels() {
        let (mut near, mut far) = pair(small());
        near.sender.send(&message(1 << 40, b"x")).unwrap();
        let mut seen = 0;
        far.receiver
            .receive(1, |got| {
                assert_eq!(got, message(1 << 40, b"x"));
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, 1);
    }

    #[test]
    fn a_full_channel_refuses_and_has_room_again_when_it_is_read() {
        let (mut near, mut far) = pair(small());
        let mut sent = 0;
        while near.sender.send(&message(sent + 1, b"small")).is_ok() {
            sent += 1;
        }
        assert_eq!((sent, near.sender.send(&message(1, b""))), (64, Err(SendError::Full)));
        assert_eq!(all(&mut far.receiver).len(), 64);
        assert_eq!(near.sender.send(&message(1, b"small")), Ok(()));
    }

    #[test]
    fn a_full_arena_refuses_and_is_whole_again_once_everything_was_read() {
        let (mut near, mut far) = pair(small());
        let large = vec![1; 5000];
        assert_eq!(near.sender.send(&message(1, &large)), Ok(()));
        assert_eq!(near.sender.send(&message(2, &large)), Ok(()));
        assert_eq!(near.sender.send(&message(3, &large)), Err(SendError::Full));
        assert_eq!(all(&mut far.receiver), [(1, large.clone()), (2, large)]);
        let whole = vec![2; 1 << 14];
        assert_eq!(near.sender.send(&message(3, &whole)), Ok(()), "both blocks are one again");
        let refused = near.sender.send(&message(4, &[0; (1 << 14) + 1]));
        assert_eq!(refused, Err(SendError::TooLarge { bytes_max: 1 << 14 }));
        assert_eq!(all(&mut far.receiver), [(3, whole)]);
    }

    #[test]
    fn slots_of_large_messages_that_were_read_are_there_for_small_ones() {
        let plan = Plan { arena_bytes: 1 << 16, ..small() };
        let large = vec![1; 200];
        for is_batch in [false, true] {
            let (mut near, mut far) = pair(plan);
            for number in 1..=64 {
                assert_eq!(near.sender.send(&message(number, &large)), Ok(()));
            }
            assert_eq!(near.sender.send(&message(65, b"")), Err(SendError::Full));
            assert_eq!(all(&mut far.receiver).len(), 64);
            if is_batch {
                assert_eq!(near.sender.send_batch(&[message(65, b""), message(66, b"")]), (2, None));
            } else {
                assert_eq!(near.sender.send(&message(65, b"")), Ok(()));
            }
        }
    }

    #[test]
    fn what_nobody_has_taken_can_be_taken_back() {
        let (mut near, mut far) = pair(small());
        let large = vec![3; 1000];
        near.sender.send_batch(&[message(1, b"one"), message(2, &large), message(3, b"three")]);
        far.receiver.receive(1, |_| ()).unwrap();
        let mut back = Vec::new();
        near.sender.take_back(|message| back.push((message.number, message.body.to_vec())));
        assert_eq!(back, [(2, large), (3, b"three".to_vec())]);
        assert_eq!(all(&mut far.receiver), []);
    }

    #[test]
    fn a_closed_channel_takes_no_more_and_still_gives_what_it_has() {
        let (mut near, mut far) = pair(small());
        near.sender.send(&message(1, b"last")).unwrap();
        far.receiver.region().close();
        assert_eq!(near.sender.send(&message(2, b"")), Err(SendError::Closed));
        assert_eq!(all(&mut far.receiver), [(1, b"last".to_vec())]);
    }

    #[test]
    fn memory_with_another_plan_than_was_told_is_refused() {
        let (_near, file) = Channel::make(&small()).unwrap();
        let told = Plan { slots: 128, slot_bytes: 128, arena_bytes: 1 << 13 };
        let refused = Channel::open(dup(file.as_fd()).unwrap(), &told, 1 << 30);
        assert!(refused.is_err());
    }

    #[test]
    fn two_threads_pass_each_message_once() {
        let (mut near, mut far) = pair(small());
        const COUNT: u64 = 50_000;
        let sending = thread::spawn(move || {
            for number in 1..=COUNT {
                let body = number.to_le_bytes().repeat(1 + number as usize % 30);
                while near.sender.send(&message(number, &body)) == Err(SendError::Full) {
                    near.sender.wait_room(Duration::from_millis(10));
                }
            }
            near
        });
        let mut expected = 1;
        while expected <= COUNT {
            let taken = far.receiver.receive(BATCH, |message| {
                assert_eq!(message.number, expected);
                let body = expected.to_le_bytes().repeat(1 + expected as usize % 30);
                assert!(message.body == body);
                expected += 1;
            });
            if taken.unwrap() == 0 {
                far.receiver.wait(Duration::from_millis(10));
            }
        }
        sending.join().unwrap();
    }
}
