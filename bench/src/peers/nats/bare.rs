//! async-nats and nothing around it: the shortest loop that empties a queue, with everything under way that can be.
//!
//! Messages are pulled in large batches, and the next one is asked for while half of the last is still to come.
//! Nothing is parsed: the result of a task is its payload, or an entry like ours around it. An acknowledgement is not
//! waited for; a result is, before its task is acknowledged, but many are under way at once.
//!
//! Pulls are asked for in the words of the protocol. The client's own loop does the same with a little more around
//! it, and cannot read what a server of 2.9 says of its streams.
//!
//! Not here: the queue and the clock (`mod.rs`).

use super::{LANE, RESULTS, SILENCE, STREAM, WINDOW, connect, runtime, told};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::{HeaderMap, Message, Subject, Subscriber};
use futures::StreamExt as _;
use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

/// Messages in one pull.
const BATCH: usize = 2000;

/// What is done with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It is acknowledged.
    Ack,
    /// Its result is kept, and then it is acknowledged.
    Result,
    /// As `Result`, but what is kept is as long as an entry of ours, and kept only if there is none yet.
    Entry,
    /// As `Result`, one task at a time.
    ResultAtOnce,
}

/// A consumer on a thread of its own, until it has had so many tasks.
pub(crate) fn start(address: SocketAddr, tasks: u64, work: Work) -> JoinHandle<Result<u64, String>> {
    thread::spawn(move || runtime()?.block_on(consume(address, tasks, work)))
}

/// Gives the bytes of all payloads together.
async fn consume(address: SocketAddr, tasks: u64, work: Work) -> Result<u64, String> {
    let mut consumer = Consumer::new(connect(address).await?).await?;
    let mut keeping = VecDeque::with_capacity(WINDOW);
    let mut bytes = 0;
    for _ in 0..tasks {
        let (message, reply) = consumer.next().await?;
        bytes += message.payload.len() as u64;
        if work == Work::Ack {
            consumer.ack(reply).await?;
            continue;
        }
        keeping.push_back((consumer.keep(message, &reply, work).await?, reply));
        if keeping.len() == WINDOW || work == Work::ResultAtOnce {
            consumer.settle(&mut keeping).await?;
        }
    }
    while !keeping.is_empty() {
        consumer.settle(&mut keeping).await?;
    }
    consumer.context.client().flush().await.map_err(told)?;
    Ok(bytes)
}

struct Consumer {
    context: Context,
    inbox: Subject,
    messages: Subscriber,
    /// What was asked for and has not come.
    expected: usize,
}

impl Consumer {
    async fn new(context: Context) -> Result<Self, String> {
        let inbox = Subject::from(context.client().new_inbox());
        let messages = context.client().subscribe(inbox.clone()).await.map_err(told)?;
        Ok(Self { context, inbox, messages, expected: 0 })
    }

    /// The next task, and where it is acknowledged.
    async fn next(&mut self) -> Result<(Message, Subject), String> {
        if self.expected <= BATCH / 2 {
            let pull = format!("{{\"batch\":{BATCH},\"expires\":60000000000}}");
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{LANE}");
            let client = self.context.client();
            client.publish_with_reply(subject, self.inbox.clone(), pull.into()).await.map_err(told)?;
            self.expected += BATCH;
        }
        let message = tokio::time::timeout(SILENCE, self.messages.next()).await.map_err(told)?;
        let mut message = message.ok_or("nats: the connection has ended")?;
        self.expected -= 1;
        let reply = message.reply.take();
        let reply = reply.ok_or_else(|| format!("nats: expected a message, got {:?}", message.status))?;
        Ok((message, reply))
    }

    async fn ack(&self, reply: Subject) -> Result<(), String> {
        self.context.client().publish(reply, "+ACK".into()).await.map_err(told)
    }

    /// Sends the result of a task.
    async fn keep(&self, message: Message, reply: &Subject, work: Work) -> Result<PublishAckFuture, String> {
        // The sixth part is the sequence: $JS.ACK.stream.consumer.deliveries.sequence…
        let sequence = reply.split('.').nth(5).ok_or("nats: expected a subject to acknowledge at")?;
        let subject = format!("$KV.{RESULTS}.s-n{sequence}");
        if work != Work::Entry {
            return self.context.publish(subject, message.payload).await.map_err(told);
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
        let result = String::from_utf8_lossy(&message.payload);
        let outcome = format!(
            "{{\"task_id\":\"n{sequence}\",\"status\":0,\"result\":{result},\"attempts\":1,\
             \"waited_us\":100,\"ran_us\":1}}"
        );
        let entry = format!(
            "{{\"state\":\"done\",\"origin\":{sequence},\"deliveries\":1,\"failures\":0,\
             \"daemon\":\"bench-1-00000000\",\"at_ms\":1700000000000,\"outcome\":{outcome}}}"
        );
        self.context.publish_with_headers(subject, headers, entry.into()).await.map_err(told)
    }

    /// Waits for the oldest result to be kept, and acknowledges its task.
    async fn settle(&self, keeping: &mut VecDeque<(PublishAckFuture, Subject)>) -> Result<(), String> {
        if let Some((kept, reply)) = keeping.pop_front() {
            kept.into_future().await.map_err(told)?;
            self.ack(reply).await?;
        }
        Ok(())
    }
}
