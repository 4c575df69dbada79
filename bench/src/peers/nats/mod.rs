//! A queue on a real nats-server, and what is asked of whoever empties it.
//!
//! Every round has a server of its own, with its store in a folder of its own. The queue is laid out by our daemon,
//! so that both sides meet the very same stream, consumers and buckets. The clock is the server's view: it runs from
//! when the queue begins to shrink until it is empty, so that nobody's start counts.
//!
//! Not here: who empties it (`bare.rs`, `millpond.rs`), how much is in it (`groups/nats/`).

pub(crate) mod bare;
pub(crate) mod millpond;

use crate::daemon::{Daemon, PrivateFolder, free_address};
use crate::debian::{self, Program};
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::{self, Context};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::error::Error;
use std::future::IntoFuture as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub(crate) const QUEUE: &str = "bench";
const STREAM: &str = "MILL_bench";
const LANE: &str = "normal";
const SUBJECT: &str = "mill.bench.normal";
pub(crate) const RESULTS: &str = "MILL_bench_results";
/// Publications that wait for their acknowledgement at once.
const WINDOW: usize = 1024;
/// How often the server is asked how much is left: seldom enough not to be noticed.
const GLANCE: Duration = Duration::from_millis(4);
/// A queue that does not shrink for so long never will.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) fn program() -> Result<Program, String> {
    debian::program("nats-server", "--version", "nats-server")
}

/// A server with an empty queue, and a connection to it.
pub(crate) struct Server {
    context: Context,
    address: SocketAddr,
    /// One thread, as the bench has little to say.
    runtime: Runtime,
    /// Dropped last: it ends the server.
    _daemon: Daemon,
}

fn told(error: impl Error) -> String {
    format!("nats: {error}")
}

/// One thread that does what futures ask for.
fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)
}

impl Server {
    pub(crate) fn start() -> Result<Self, String> {
        let address = free_address()?;
        let folder = PrivateFolder::new()?;
        let mut command = program()?.command();
        command.arg("--addr").arg(address.ip().to_string()).arg("--port").arg(address.port().to_string());
        command.arg("--jetstream").arg("--store_dir").arg(folder.path().join("store"));
        let mut daemon = Daemon::start(command, folder)?;
        daemon.connect(|| TcpStream::connect(address))?;
        let runtime = runtime()?;
        let context = runtime.block_on(connect(address))?;
        let server = Self { context, address, runtime, _daemon: daemon };
        millpond::lay_out(&server)?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Puts so many tasks on the queue; each has its number in its arguments.
    pub(crate) fn fill(&self, tasks: u64) -> Result<(), String> {
        self.runtime.block_on(async {
            let mut under_way = VecDeque::with_capacity(WINDOW);
            for number in 0..tasks {
                if under_way.len() == WINDOW
                    && let Some(oldest) = under_way.pop_front()
                {
                    PublishAckFuture::into_future(oldest).await.map_err(told)?;
                }
                let taken = self.context.publish(SUBJECT, request(number).into()).await.map_err(told)?;
                under_way.push_back(taken);
            }
            for oldest in under_way {
                oldest.await.map_err(told)?;
            }
            Ok(())
        })
    }

    /// How long it takes from when the queue begins to shrink until nothing is left.
    pub(crate) fn watch(&self, tasks: u64) -> Result<Duration, String> {
        self.runtime.block_on(async {
            let (mut begun, mut moved, mut last) = (Instant::now(), Instant::now(), tasks);
            loop {
                let info = self.ask(&format!("STREAM.INFO.{STREAM}"), &Value::Null).await?;
                let left = info["state"]["messages"].as_u64().ok_or_else(|| format!("nats: {info}"))?;
                let now = Instant::now();
                if left == tasks {
                    begun = now;
                }
                if left != last {
                    (last, moved) = (left, now);
                }
                if left == 0 {
                    return Ok(now - begun);
                }
                if now - moved > SILENCE {
                    return Err(format!("{left} of {tasks} tasks are left and nothing moves"));
                }
                tokio::time::sleep(GLANCE).await;
            }
        })
    }

    /// Every task must have one result, and the numbers in them must sum up.
    pub(crate) fn check_results(&self, tasks: u64, number: fn(&Value) -> &Value) -> Result<(), String> {
        let (count, sum) = self.runtime.block_on(async {
            let client = self.context.client();
            let inbox = client.new_inbox();
            let mut entries = client.subscribe(inbox.clone()).await.map_err(told)?;
            let stream = format!("KV_{RESULTS}");
            let config = json!({ "deliver_policy": "all", "ack_policy": "none" });
            let question = json!({ "stream_name": stream, "config": config });
            let consumer = self.ask(&format!("CONSUMER.CREATE.{stream}"), &question).await?;
            let next =
                format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", consumer["name"].as_str().unwrap_or(""));
            let pending = consumer["num_pending"].as_u64().unwrap_or(0);
            let (mut count, mut sum) = (0, 0);
            for came in 0..pending {
                // Asked for bit by bit: what comes faster than it is read is thrown away.
                if came % WINDOW as u64 == 0 {
                    let pull = format!("{{\"batch\":{WINDOW},\"expires\":60000000000}}").into();
                    client.publish_with_reply(next.clone(), inbox.clone(), pull).await.map_err(told)?;
                }
                let entry = tokio::time::timeout(SILENCE, entries.next()).await.map_err(told)?;
                let entry = entry.ok_or("nats: the connection has ended")?;
                // The daemon keeps an entry of its own beside them, which is of no task.
                if entry.subject.contains(".s-") {
                    let result: Value = serde_json::from_slice(&entry.payload).map_err(told)?;
                    sum +=
                        number(&result).as_u64().ok_or_else(|| format!("expected a number in {result}"))?;
                    count += 1;
                }
            }
            Ok::<_, String>((count, sum))
        })?;
        let expected = (tasks, tasks * tasks.saturating_sub(1) / 2);
        if (count, sum) == expected {
            return Ok(());
        }
        Err(format!("expected {} results that sum up to {}, found {count} and {sum}", expected.0, expected.1))
    }

    /// Asks the server's API. The client's own types are made for the answers of newer servers.
    async fn ask(&self, what: &str, question: &Value) -> Result<Value, String> {
        let question = if question.is_null() { String::new() } else { question.to_string() };
        let subject = format!("$JS.API.{what}");
        let answer = self.context.client().request(subject, question.into()).await.map_err(told)?;
        let answer: Value = serde_json::from_slice(&answer.payload).map_err(told)?;
        if answer["error"].is_null() { Ok(answer) } else { Err(format!("nats: {what}: {answer}")) }
    }

    /// One task after the other, each submitted when the result of the last is there.
    pub(crate) fn round_trips(&self, tasks: u64) -> Result<Vec<Duration>, String> {
        self.runtime.block_on(async {
            let client = self.context.client();
            let subjects = format!("$KV.{RESULTS}.*");
            let mut results = client.subscribe(subjects).await.map_err(told)?;
            let (mut times, mut last) = (Vec::new(), None);
            for number in 0..tasks {
                let submitted = Instant::now();
                client.publish(SUBJECT, request(number).into()).await.map_err(told)?;
                client.flush().await.map_err(told)?;
                let result = tokio::time::timeout(SILENCE, results.next()).await.map_err(told)?;
                times.push(submitted.elapsed());
                last = Some(result.ok_or("nats: the connection has ended")?.subject);
            }
            // A result is heard of before it is kept.
            let (kept, began) = (format!("STREAM.MSG.GET.KV_{RESULTS}"), Instant::now());
            while let Some(subject) = &last
                && began.elapsed() < SILENCE
                && self.ask(&kept, &json!({ "last_by_subj": subject.as_str() })).await.is_err()
            {
                tokio::time::sleep(GLANCE).await;
            }
            Ok(times)
        })
    }
}

async fn connect(address: SocketAddr) -> Result<Context, String> {
    let client = async_nats::connect(address.to_string()).await.map_err(told)?;
    Ok(jetstream::new(client))
}

/// The bytes of all requests together.
pub(crate) fn payload_bytes(tasks: u64) -> u64 {
    (0..tasks).map(|number| request(number).len() as u64).sum()
}

fn request(number: u64) -> String {
    format!("{{\"handler\":\"echo\",\"args\":{{\"n\":{number}}}}}")
}
