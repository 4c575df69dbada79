//! What goes on in the daemon, as a stream: figures at an interval, and between them what happened.
//!
//! Figures are taken when the reader is there to take them, so one that is slow gets fewer and misses nothing
//! for good: every total is since the start. Events cannot be made up for: a reader that lost some is told
//! so, and cut off, so that it comes again and knows where it stands.
//!
//! Not here: what one task says (`follow.rs`).

use super::Api;
use super::ask::{Answered, Ask};
use super::flow::{Out, flow};
use super::follow::{Form, stream_answer, write_json};
use super::wait::{Bell, Woken};
use millpond_tasks::{ServiceEvent, Stage};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often figures come if nobody says how often, and within which bounds somebody may.
const INTERVAL: Duration = Duration::from_millis(250);
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// About how much one event takes while it waits to be read.
const EVENT_BYTES: usize = 256;
/// How many tasks that have ended are told between two figures, and as many that have not.
const TASKS_MAX: usize = 10;

/// The first event: who speaks.
#[derive(Serialize)]
struct Hello {
    version: &'static str,
    interval_ms: u64,
    tasks_max: usize,
    request_bytes_max: u64,
    wait_max_ms: u64,
    batch_max: usize,
}

/// The last event of a stream that was not read fast enough.
#[derive(Serialize)]
struct Lagged {
    missed: u64,
}

/// `GET /v1/events`.
pub(super) fn events(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    let interval = ask.query().duration("interval")?.unwrap_or(INTERVAL).clamp(INTERVAL_MIN, INTERVAL_MAX);
    let held = api.take_stream()?;
    ask.visit.park();
    let api = Arc::clone(api);
    let body = flow(move |out| async move {
        let _held = held;
        tell(&api, interval, &out).await;
    });
    Ok(stream_answer(Form::Events, body))
}

async fn tell(api: &Api, interval: Duration, out: &Out) {
    let hello = hello(api, interval);
    out.send(Form::Events.event("hello", None, |data| write_json(&hello, data))).await;
    let news = api.service.events((api.settings.stream_bytes_max / EVENT_BYTES).max(1));
    let bell = Arc::<Bell>::default();
    let rung = Arc::clone(&bell);
    news.on_news(Arc::new(move || rung.ring()));
    let mut next_tick = Instant::now();
    let mut sample = Sample::default();
    loop {
        if Instant::now() >= next_tick {
            let tick = api.ticks.now(api);
            out.send(Form::Events.event("tick", None, |data| data.extend_from_slice(&tick))).await;
            next_tick = Instant::now() + interval;
            sample = Sample::default();
        }
        let happened: Vec<u8> = std::iter::from_fn(|| news.try_recv())
            .filter_map(|event| sample.told(&event))
            .flatten()
            .collect();
        if !happened.is_empty() {
            out.send(happened).await;
        }
        // Whoever reads too slowly would piece together a story with holes in it.
        if news.missed() > 0 {
            let lagged = Lagged { missed: news.missed() };
            return out.send(Form::Events.event("lagged", None, |data| write_json(&lagged, data))).await;
        }
        if bell.rung(next_tick, &api.door).await == Woken::Drains {
            return out.send(Form::Events.drain()).await;
        }
    }
}

/// How much was told since the last figures. A stream shows what kind of tasks come and go, not all of them.
#[derive(Default)]
struct Sample {
    ended: usize,
    others: usize,
}

impl Sample {
    /// The event as it is sent, unless it is one too many.
    fn told(&mut self, event: &ServiceEvent) -> Option<Vec<u8>> {
        let name = match event {
            ServiceEvent::Pool(_) => "pool",
            ServiceEvent::Task(task) => {
                let count = if task.stage == Stage::Ended { &mut self.ended } else { &mut self.others };
                *count += 1;
                if *count > TASKS_MAX {
                    return None;
                }
                "task"
            }
        };
        Some(Form::Events.event(name, None, |data| write_json(event, data)))
    }
}

fn hello(api: &Api, interval: Duration) -> Hello {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Hello {
        version: env!("CARGO_PKG_VERSION"),
        interval_ms: milliseconds(interval),
        tasks_max: api.service.config().tasks_max,
        request_bytes_max: api.service.limits().request_bytes_max,
        wait_max_ms: milliseconds(api.settings.wait_max),
        batch_max: api.settings.batch_max,
    }
}
