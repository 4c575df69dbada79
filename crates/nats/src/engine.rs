//! The loop of the door: one thread that hears the server, hands tasks to the service, and tells the server of their
//! ends.
//!
//! Each turn takes everything that has come (messages, ends, marks) and sends everything that follows, without
//! waiting for any single answer: thousands of questions are open at once, and each answer moves its own task on. The
//! thread runs no handler but quick ones, so however busy the workers are, leases are renewed.
//!
//! When the connection comes back, all questions are asked anew. When the client has given up, or the watchdog says
//! that the loop does not turn, a new connection is made; tasks that are held stay held.
//!
//! Not here: what becomes of a task (`intake.rs`, `writing.rs`), who is asked for how many (`pulls.rs`).

use crate::cancelled;
use crate::connect::connect;
use crate::error::NatsError;
use crate::figures::count;
use crate::holding::{Held, Step};
use crate::layout;
use crate::link::{Health, Link, Sent};
use crate::presence;
use crate::pulls::Pulls;
use crate::shared::{Ended, Shared};
use crate::slots::{Slots, WINDOW};
use async_nats::{Client, Event, Message, Subject, Subscriber};
use bytes::Bytes;
use futures_util::stream::ReadyChunks;
use futures_util::{FutureExt, StreamExt};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How often the loop turns while nothing is held.
const IDLE_WINDOW: Duration = Duration::from_secs(1);
/// How much memory all requests together may take that are held; beyond that none is asked for.
const HELD_BYTES_MAX: usize = 64 << 20;
/// How many messages are taken in one turn.
const TURN_MESSAGES: usize = 256;
/// How long an answer may take before a question is asked again.
const ANSWER_TIME: Duration = Duration::from_secs(4);
/// How often it is looked whether everything is there, while questions are lost.
const MEND_PAUSE: Duration = Duration::from_secs(5);
/// How long after a failure a new connection is tried.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);

/// The loop, and all that it knows.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) link: Link,
    /// By sequence.
    pub(crate) held: HashMap<u64, Held>,
    /// Whose answer comes under which number.
    pub(crate) asked: HashMap<u64, u64>,
    pub(crate) next_token: u64,
    pub(crate) next_run: u64,
    pub(crate) pulls: Pulls,
    pub(crate) slots: Slots,
    /// The same for those that the service has: quick ones, which it never sees, say nothing of it.
    pub(crate) service_slots: Slots,
    /// How many of those held the service has.
    pub(crate) in_service: usize,
    /// Those that wait for a slot in the service, by sequence, in their order.
    pub(crate) queued: VecDeque<u64>,
    /// Tasks turned out to be slow: until then no more are asked for than the service takes.
    pub(crate) careful_until: Option<Instant>,
    /// How many of those held have or need a worker, and how many wait on `later`.
    pub(crate) busy: usize,
    pub(crate) later: usize,
    /// How much memory their requests take.
    pub(crate) held_bytes: usize,
    /// When the last turn was over: whatever is heard now was sent after that.
    pub(crate) turned_at: Instant,
    ends: Vec<Ended>,
    ticked_at: Instant,
    measured_at: Instant,
    renewed_at: Instant,
    /// When signs of life were sent whose arrival is not yet known, by number.
    rounds: HashMap<u64, Instant>,
    pub(crate) workers: usize,
    /// When it was last looked whether everything is still there.
    mended_at: Instant,
    /// When a refusal was last told, and how many were not since.
    pub(crate) told_refusal: Option<(Instant, u64)>,
}

/// Why the turns are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Everything is told, or there is no more time.
    Closed,
    /// The connection is of no use any more.
    Broken,
}

/// Makes a connection whose state can be asked for.
pub(crate) async fn make_connection(shared: &Arc<Shared>) -> Result<(Client, Arc<Health>), NatsError> {
    let health = Arc::new(Health::default());
    let (told, of) = (Arc::clone(&health), Arc::clone(shared));
    let was_connected = std::sync::atomic::AtomicBool::new(false);
    let hear = move |event: &Event| match event {
        Event::Connected => {
            told.connected();
            of.figures.connected.store(true, Relaxed);
            if was_connected.swap(true, Relaxed) {
                count(&of.figures.reconnects);
                of.log.info(&format!("nats: connected again to {}", of.url));
            }
            of.bell.notify_one();
        }
        Event::Disconnected => {
            told.disconnected();
            of.figures.connected.store(false, Relaxed);
            of.log.warn(&format!("nats: the connection to {} is lost; it is made anew", of.url));
        }
        Event::Closed => {
            told.disconnected();
            told.is_closed.store(true, Relaxed);
            of.bell.notify_one();
        }
        Event::SlowConsumer(_) => of.log.error("nats: messages were dropped because the loop was too slow"),
        Event::ServerError(error) => of.log.error(&format!("nats: the server says: {error}")),
        Event::ClientError(error) => of.log.warn(&format!("nats: {error}")),
        _ => {}
    };
    let client = connect(&shared.settings, &format!("millpond {}", shared.daemon), hear).await?;
    // The callback may come a moment later.
    health.is_connected.store(true, Relaxed);
    shared.figures.connected.store(true, Relaxed);
    shared.figures.set_server_version(&client.server_info().version);
    Ok((client, health))
}

impl Engine {
    pub(crate) fn new(shared: Arc<Shared>, client: Client, health: Arc<Health>) -> Self {
        let now = Instant::now();
        Self {
            link: Link::new(client, health),
            held: HashMap::new(),
            asked: HashMap::new(),
            next_token: 0,
            next_run: 0,
            pulls: Pulls::new(now),
            slots: Slots::new(shared.settings.ahead, shared.settings.in_flight_max),
            service_slots: Slots::new(shared.settings.ahead, shared.settings.in_flight_max),
            in_service: 0,
            queued: VecDeque::new(),
            careful_until: None,
            busy: 0,
            later: 0,
            held_bytes: 0,
            turned_at: now,
            ends: Vec::new(),
            ticked_at: now,
            measured_at: now,
            renewed_at: now,
            rounds: HashMap::new(),
            workers: 1,
            mended_at: now,
            told_refusal: None,
            shared,
        }
    }

    /// Works until the door is closed.
    pub(crate) async fn run(&mut self) {
        loop {
            let mut beside = Vec::new();
            let over = self.on_one_connection(&mut beside).await;
            beside.iter().for_each(JoinHandle::abort);
            if over == Over::Closed {
                let leave = presence::leave(&self.shared, &self.link.client);
                let _ = tokio::time::timeout(Duration::from_secs(1), leave).await;
                let _ = tokio::time::timeout(Duration::from_secs(1), self.link.client.flush()).await;
                return;
            }
            if !self.connect_anew().await {
                return;
            }
        }
    }

    /// A new connection after the old one was given up; false if the door closes meanwhile.
    async fn connect_anew(&mut self) -> bool {
        loop {
            match make_connection(&self.shared).await {
                Ok((client, health)) => {
                    count(&self.shared.figures.reconnects);
                    self.link = Link::new(client, health);
                    self.has_new_connection();
                    return true;
                }
                Err(error) => self.shared.log.warn(&format!("nats: {error}")),
            }
            self.shared.has_turned(Instant::now());
            if self.shared.is_over.load(Acquire) || self.shared.is_closing.load(Acquire) {
                return false;
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }

    async fn on_one_connection(&mut self, beside: &mut Vec<JoinHandle<()>>) -> Over {
        let shared = Arc::clone(&self.shared);
        let client = self.link.client.clone();
        let Ok(inbox) = client.subscribe(format!("{}*", self.link.inbox)).await else { return Over::Broken };
        let loaded = Arc::new(Notify::new());
        let watch = Arc::clone(&shared.cancelled).watch(
            client.clone(),
            shared.queue.cancelled(),
            Arc::clone(&loaded),
            shared.log.clone(),
        );
        beside.push(tokio::spawn(watch));
        beside.push(tokio::spawn(presence::keep(Arc::clone(&shared), client.clone())));
        if !cancelled::loaded(&loaded).await {
            shared.log.warn("nats: the list of cancelled tasks could not be read; some may be run in vain");
        }
        let mut inbox = inbox.ready_chunks(TURN_MESSAGES);
        let turns = self.turns(&mut inbox);
        tokio::select! {
            over = turns => over,
            () = shared.restart.notified() => Over::Broken,
        }
    }

    async fn turns(&mut self, inbox: &mut ReadyChunks<Subscriber>) -> Over {
        let shared = Arc::clone(&self.shared);
        self.tick().await;
        loop {
            let tick_at = tokio::time::Instant::from_std(self.ticked_at + self.tick_interval());
            let messages = tokio::select! {
                biased;
                messages = inbox.next() => match messages {
                    Some(messages) => messages,
                    None => return Over::Broken,
                },
                () = shared.bell.notified() => inbox.next().now_or_never().flatten().unwrap_or_default(),
                () = shared.cancelled.bell.notified() => Vec::new(),
                () = tokio::time::sleep_until(tick_at) => Vec::new(),
            };
            for message in messages {
                self.hear(message).await;
            }
            self.take_ends().await;
            self.fill_service().await;
            if self.slots.is_early(self.measured_at.elapsed(), self.workers) {
                self.turn_slots(Instant::now());
            }
            self.take_cancels().await;
            self.take_chunks().await;
            if self.ticked_at.elapsed() >= self.tick_interval() {
                self.tick().await;
            }
            if self.link.health.take_new() {
                self.has_new_connection();
            }
            if self.link.health.is_closed.load(Acquire) {
                return Over::Broken;
            }
            let is_done = shared.is_closing.load(Acquire) && self.held.is_empty();
            if is_done || shared.is_over.load(Acquire) {
                return Over::Closed;
            }
            self.fetch().await;
            self.turned_at = Instant::now();
            shared.has_turned(self.pulls.healthy_at);
            shared.figures.in_flight.store(self.held.len(), Relaxed);
        }
    }

    /// Measures how many tasks end.
    fn turn_slots(&mut self, now: Instant) {
        let took = now.saturating_duration_since(self.measured_at);
        self.slots.turn(took);
        self.service_slots.turn(took);
        self.measured_at = now;
    }

    /// A daemon that has nothing to do sleeps.
    fn tick_interval(&self) -> Duration {
        let is_idle =
            self.held.is_empty() && self.slots.is_idle() && self.slots.now(self.workers) <= self.workers;
        if is_idle { IDLE_WINDOW } else { WINDOW }
    }

    /// The connection was made anew: what was asked before is asked again.
    fn has_new_connection(&mut self) {
        self.pulls.reset(Instant::now());
        self.asked.clear();
        self.rounds.clear();
        self.held.values_mut().for_each(|held| held.asked = None);
        // The server may be another one by now, or the same after a crash.
        self.shared.floor.store(u64::MAX, Relaxed);
        tokio::spawn(presence::find_floor(Arc::clone(&self.shared), self.link.client.clone()));
        // Whoever was given tasks long ago says so at once.
        self.renewed_at = Instant::now().checked_sub(self.shared.settings.lease).unwrap_or(self.renewed_at);
    }

    /// A message has come.
    async fn hear(&mut self, message: Message) {
        let now = Instant::now();
        match self.link.token(&message.subject) {
            Some(('p', token)) if message.status.is_some() => {
                let status = message.status.map_or(0, |status| status.as_u16());
                let words = message.description.unwrap_or_default();
                // 404 and 408: there are no more. 409: there are, but they may not be given out now, unless it is
                // only that they are large.
                let is_large = status == 409 && words.contains("MaxBytes");
                self.pulls.is_over(token, matches!(status, 404 | 408 | 409) && !is_large, now);
                if !matches!(status, 404 | 408) {
                    self.shared.log.debug(&format!("nats: a question for tasks ended with {status} {words}"));
                }
            }
            Some(('a', token)) => {
                if let Some(sequence) = self.asked.remove(&token) {
                    self.answered(sequence, token, &message).await;
                }
            }
            Some(('r', round)) => self.renewed(round),
            _ => self.take(message, now).await,
        }
    }

    async fn take_ends(&mut self) {
        // One by one, so that none is lost if the watchdog ends this turn.
        if self.ends.is_empty() {
            self.shared.take_ended(&mut self.ends);
            self.ends.reverse();
        }
        while let Some(ended) = self.ends.pop() {
            self.has_ended(ended).await;
        }
    }

    /// Asks for as many tasks as there is room for.
    async fn fetch(&mut self) {
        let shared = &self.shared;
        if shared.is_draining.load(Acquire) || shared.service.is_draining() || !self.link.is_up() {
            return;
        }
        let now = Instant::now();
        let is_careful = self.careful_until.is_some_and(|until| now < until);
        let slots = if is_careful { &self.service_slots } else { &self.slots }.now(self.workers);
        let free = slots.saturating_sub(self.busy);
        let room = free.min(shared.settings.in_flight_max.saturating_sub(self.held.len()));
        let bytes = HELD_BYTES_MAX.saturating_sub(self.held_bytes);
        // What waits here for a slot is enough.
        let room = if bytes == 0 || !self.queued.is_empty() { 0 } else { room };
        let mut asked = self.pulls.ask(room, slots, self.workers, now);
        self.pulls.ask_later(self.later, now, &mut asked);
        for pull in asked {
            let stream = shared.queue.stream();
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", pull.lane);
            let body = match pull.wait {
                None => {
                    // One is always let through, or the largest would never come.
                    let bytes = bytes.max(shared.settings.message_bytes_max.saturating_mul(2));
                    format!("{{\"batch\":{},\"max_bytes\":{bytes},\"no_wait\":true}}", pull.batch)
                }
                Some(wait) => format!("{{\"batch\":{},\"expires\":{}}}", pull.batch, wait.as_nanos()),
            };
            let reply = self.link.reply('p', pull.token);
            if self.link.send(subject.into(), Some(reply), None, body.into()).await != Sent::Yes {
                self.pulls.unsent(pull.token);
            }
        }
    }

    /// What has to be seen to from time to time.
    async fn tick(&mut self) {
        let now = Instant::now();
        self.turn_slots(now);
        self.ticked_at = now;
        self.workers = self.shared.service.pool_metrics().workers_wanted.max(1);
        let lost = self.pulls.forget_lost(now);
        if lost > 0 {
            self.shared.figures.lost_pulls.fetch_add(lost as u64, Relaxed);
            self.shared.log.debug(&format!("nats: {lost} questions were not answered and are asked again"));
            self.mend(now);
        }
        let is_idle = |held: &Held| {
            let is_asked = held.asked.is_some_and(|(_, at)| now.saturating_duration_since(at) < ANSWER_TIME);
            let waits = held.not_before.is_some_and(|until| now < until);
            !matches!(held.step, Step::Running) && !is_asked && !waits
        };
        let idle: Vec<u64> =
            self.held.iter().filter(|(_, held)| is_idle(held)).map(|(sequence, _)| *sequence).collect();
        for sequence in idle {
            self.advance(sequence).await;
        }
        self.give_back_queued(now).await;
        if now.saturating_duration_since(self.renewed_at) >= self.shared.settings.lease / 3 {
            self.renew(now).await;
        }
        let figures = &self.shared.figures;
        figures.slots.store(self.slots.now(self.workers), Relaxed);
        figures.in_flight.store(self.held.len(), Relaxed);
        let unsent = self.held.values().filter(|held| !held.is_busy()).count();
        figures.unsent.store(unsent, Relaxed);
    }

    /// Questions that nobody answers may go to a consumer that somebody has removed.
    fn mend(&mut self, now: Instant) {
        if !self.link.is_up() || now.saturating_duration_since(self.mended_at) < MEND_PAUSE {
            return;
        }
        self.mended_at = now;
        let (shared, client) = (Arc::clone(&self.shared), self.link.client.clone());
        tokio::spawn(async move {
            match layout::mend(&client, &shared.queue, &shared.settings).await {
                Ok(made) => made
                    .iter()
                    .for_each(|made| shared.log.error(&format!("nats: {made} was gone; it is made anew"))),
                Err(error) => shared.log.error(&format!("nats: tasks cannot be asked for: {error}")),
            }
        });
    }

    /// A sign of life for every task that is held. The server answers the last of them, and then has the others too.
    async fn renew(&mut self, now: Instant) {
        if !self.link.is_up() {
            return;
        }
        self.renewed_at = now;
        self.next_token += 1;
        let round = self.next_token;
        let old: Vec<Subject> = self
            .held
            .values()
            .filter(|held| now.saturating_duration_since(held.got_at) >= WINDOW)
            .map(|held| held.reply.clone())
            .collect();
        let last = old.len();
        for (at, reply) in old.into_iter().enumerate() {
            let answer = (at + 1 == last).then(|| self.link.reply('r', round));
            if self.link.send(reply, answer, None, Bytes::from_static(b"+WPI")).await != Sent::Yes {
                return;
            }
            count(&self.shared.figures.renewals);
        }
        self.rounds.retain(|_, at| now.saturating_duration_since(*at) < self.shared.settings.lease);
        self.rounds.insert(round, now);
    }

    /// The server has these signs of life.
    fn renewed(&mut self, round: u64) {
        let Some(sent_at) = self.rounds.remove(&round) else { return };
        let until = sent_at + self.shared.settings.lease;
        for held in self.held.values_mut().filter(|held| held.got_at < sent_at) {
            held.sure_until = held.sure_until.max(until);
        }
    }

    /// Stops what somebody has cancelled.
    async fn take_cancels(&mut self) {
        for (key, at_ms) in self.shared.cancelled.take_news() {
            let found = self.held.iter().find(|(_, held)| held.key == key && held.since_ms <= at_ms);
            let Some((sequence, held)) = found else { continue };
            let sequence = *sequence;
            match held.step {
                Step::Running => {
                    // If it has just ended, its end is on the way here.
                    let _ = self.shared.service.cancel(&self.shared.queue.local_id(&held.id));
                }
                Step::LookUp | Step::Room => {
                    self.is_cancelled(sequence).await;
                }
                _ => {}
            }
        }
    }
}
